//! What can happen in a small cluster, and how it looks as objects of the API server.

use proptest::prelude::*;
use proptest::sample::{select, subsequence};

use crate::world::{self, Object};

pub const CARDS: [&str; 4] = ["A", "B", "C", "Z"];
pub const PODS: usize = 10;

/// Two makers of cards, each with its own resource: a card name can mean either.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Maker {
    Nvidia,
    Amd,
}

impl Maker {
    pub fn resource(self) -> &'static str {
        match self {
            Self::Nvidia => "nvidia.com/gpu",
            Self::Amd => "amd.com/gpu",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// The card, its maker and how many of it; `CARDS[3]` is on no node, ever.
    pub cards: (usize, Maker, i64),
    pub cpu: i64,
    pub slots: i64,
    pub zone: usize,
    pub tainted: bool,
    pub cordoned: bool,
    pub ready: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Queue {
    /// By the cards' numbers; none where the quota does not name the card.
    pub quota: [Option<i64>; 4],
    pub cpu: Option<i64>,
    pub priority: i32,
    pub created: i64,
    pub open: bool,
    pub valid: bool,
    /// Only for namespaces with the label `open`.
    pub restricted: bool,
}

/// What a pod says and never changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spec {
    pub managed: bool,
    pub queue: usize,
    pub namespace: usize,
    pub cards: Vec<usize>,
    pub maker: Maker,
    pub count: i64,
    pub cpu: i64,
    pub priority: i32,
    pub created: i64,
    pub zone: Option<usize>,
    pub product: Option<usize>,
    pub tolerates: bool,
    pub controller: Option<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gates {
    None,
    Own,
    Foreign,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// As the API server answered.
    True,
    /// The answer was lost, and the operator gave up.
    Lost,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Configuration {
    pub unlimited: bool,
    pub on_quota: bool,
    pub reservation: i64,
    pub terminating: i64,
}

#[derive(Debug, Clone)]
pub enum Step {
    Node(usize, Node),
    NodeGone(usize),
    Queue(usize, Queue),
    QueueGone(usize),
    /// A namespace gets the label `open`, loses it, or goes.
    Namespace(usize, Option<bool>),
    /// A pod of this name comes, in place of what had the name.
    Pod(usize, Spec, Gates),
    /// Another pod of the same shape as one that is there.
    Twin(usize, usize),
    /// A foreign gate is removed.
    Ungate(usize),
    /// The pod is seen again as it is.
    Show(usize),
    /// The patch of an admission reaches the API server.
    Write(usize),
    Outcome(usize, Outcome),
    Bind(usize, usize),
    Finish(usize),
    /// With so much grace.
    Delete(usize, i64),
    Gone(usize),
    Wait(i64),
    /// Nothing is seen of a kind until it is listed again.
    Interrupt(engine::cluster::Kind),
    /// A kind is listed again; the first try breaks off after so many objects.
    List(engine::cluster::Kind, Option<usize>),
    Configure(Configuration),
    Tell(usize),
    Restart,
}

fn any_node() -> impl Strategy<Value = Node> {
    let maker = prop_oneof![5 => Just(Maker::Nvidia), 1 => Just(Maker::Amd)];
    let usable = (
        prop::bool::weighted(0.15),
        prop::bool::weighted(0.1),
        prop::bool::weighted(0.9),
    );
    (0..3_usize, maker, 0..5_i64, 1..8_i64, 1..5_i64, 0..2_usize, usable).prop_map(
        |(card, maker, count, cpu, slots, zone, (tainted, cordoned, ready))| Node {
            cards: (card, maker, count),
            cpu,
            slots,
            zone,
            tainted,
            cordoned,
            ready,
        },
    )
}

fn any_queue() -> impl Strategy<Value = Queue> {
    let quota = prop::array::uniform4(prop::option::weighted(0.7, 0..6_i64));
    let often = || prop::bool::weighted(0.92);
    let cpu = prop::option::weighted(0.85, 2..14_i64);
    (
        quota,
        cpu,
        0..2_i32,
        0..3_i64,
        often(),
        often(),
        prop::bool::weighted(0.1),
    )
        .prop_map(|(quota, cpu, priority, created, open, valid, restricted)| Queue {
            quota,
            cpu,
            priority,
            created,
            open,
            valid,
            restricted,
        })
}

fn any_spec() -> impl Strategy<Value = Spec> {
    let cards = prop_oneof![
        1 => Just(vec![]),
        3 => (0..4_usize).prop_map(|card| vec![card]),
        4 => subsequence(vec![0, 1, 2, 3], 2..=3).prop_shuffle(),
    ];
    let maker = prop_oneof![8 => Just(Maker::Nvidia), 1 => Just(Maker::Amd)];
    let nodes = (
        prop::option::weighted(0.2, 0..2_usize),
        prop::option::weighted(0.1, 0..3_usize),
        prop::bool::weighted(0.3),
    );
    let controller = prop::option::weighted(0.4, 0..2_usize);
    let home = (prop::bool::weighted(0.93), 0..3_usize, 0..2_usize);
    let amounts = (prop_oneof![1 => Just(0), 8 => 1..4_i64], 1..4_i64);
    (home, cards, maker, amounts, 0..2_i32, 0..3_i64, nodes, controller).prop_map(
        |((managed, queue, namespace), cards, maker, (count, cpu), priority, created, nodes, controller)| Spec {
            managed,
            queue,
            namespace,
            cards: if managed { cards } else { vec![] },
            maker,
            count,
            cpu,
            priority,
            created,
            zone: nodes.0,
            product: nodes.1,
            tolerates: nodes.2,
            controller,
        },
    )
}

/// A beginning in which something can be let in.
pub fn any_beginning() -> impl Strategy<Value = Vec<Step>> {
    let nodes = prop::collection::vec(any_node(), 2..=3);
    let queues = prop::collection::vec(any_queue(), 1..=2);
    (nodes, queues).prop_map(|(nodes, queues)| {
        let nodes = nodes
            .into_iter()
            .enumerate()
            .map(|(index, node)| Step::Node(index, node));
        let queues = queues
            .into_iter()
            .enumerate()
            .map(|(index, queue)| Step::Queue(index, queue));
        nodes.chain(queues).collect()
    })
}

pub fn any_step() -> impl Strategy<Value = Step> {
    use engine::cluster::Kind;
    let pod = 0..PODS;
    let gates = prop_oneof![8 => Just(Gates::Own), 1 => Just(Gates::Foreign), 1 => Just(Gates::None)];
    let kind = select(vec![Kind::Pod, Kind::Node, Kind::Queue]);
    let outcome = prop_oneof![6 => Just(Outcome::True), 1 => Just(Outcome::Lost)];
    let configuration = (
        any::<bool>(),
        prop::bool::weighted(0.2),
        select(vec![30, 300]),
        select(vec![10, 300]),
    );
    let configuration = configuration.prop_map(|(unlimited, on_quota, reservation, terminating)| Configuration {
        unlimited,
        on_quota,
        reservation,
        terminating,
    });
    prop_oneof![
        8 => (0..4_usize, any_node()).prop_map(|(node, says)| Step::Node(node, says)),
        2 => (0..4_usize).prop_map(Step::NodeGone),
        6 => (0..3_usize, any_queue()).prop_map(|(queue, says)| Step::Queue(queue, says)),
        1 => (0..3_usize).prop_map(Step::QueueGone),
        1 => (0..2_usize, prop::option::weighted(0.8, any::<bool>())).prop_map(|(name, open)| Step::Namespace(name, open)),
        24 => (pod.clone(), any_spec(), gates).prop_map(|(pod, spec, gates)| Step::Pod(pod, spec, gates)),
        12 => (pod.clone(), pod.clone()).prop_map(|(pod, other)| Step::Twin(pod, other)),
        2 => pod.clone().prop_map(Step::Ungate),
        3 => pod.clone().prop_map(Step::Show),
        10 => pod.clone().prop_map(Step::Write),
        10 => (pod.clone(), outcome).prop_map(|(pod, outcome)| Step::Outcome(pod, outcome)),
        10 => (pod.clone(), 0..5_usize).prop_map(|(pod, node)| Step::Bind(pod, node)),
        3 => pod.clone().prop_map(Step::Finish),
        3 => (pod.clone(), 0..40_i64).prop_map(|(pod, grace)| Step::Delete(pod, grace)),
        4 => pod.prop_map(Step::Gone),
        6 => prop_oneof![2 => 1..20_i64, 1 => 20..400_i64].prop_map(Step::Wait),
        1 => kind.clone().prop_map(Step::Interrupt),
        2 => (kind, prop::option::weighted(0.4, 0..4_usize)).prop_map(|(kind, broken)| Step::List(kind, broken)),
        1 => configuration.prop_map(Step::Configure),
        4 => (0..4_usize).prop_map(Step::Tell),
        1 => Just(Step::Restart),
    ]
}

impl Node {
    pub fn object(&self, index: usize) -> Object {
        let (card, maker, count) = self.cards;
        let key = |suffix: &str| format!("{}.{suffix}", maker.resource());
        let mut node = world::node(&node_name(index))
            .label(&key("product"), CARDS[card])
            .label(&key("count"), &count.to_string())
            .label(&key("memory"), "81920")
            .label("zone", &self.zone.to_string())
            .offers(maker.resource(), &count.to_string())
            .offers("cpu", &self.cpu.to_string())
            .offers("pods", &self.slots.to_string());
        if self.tainted {
            node = node.taint("reserved", "NoSchedule");
        }
        if self.cordoned {
            node = node.cordoned();
        }
        if self.ready { node } else { node.not_ready() }
    }
}

impl Queue {
    pub fn object(&self, index: usize) -> Object {
        let cards = CARDS.iter().zip(&self.quota);
        let quota: serde_json::Map<_, _> = cards
            .filter_map(|(card, quota)| Some(((*card).to_owned(), (*quota)?.into())))
            .collect();
        let mut queue = world::bare_queue(&queue_name(index))
            .created(self.created)
            .set(["spec", "priority"], self.priority);
        if !quota.is_empty() {
            queue = queue.quota(&serde_json::Value::Object(quota).to_string());
        }
        if let Some(cpu) = self.cpu {
            queue = queue.capability("cpu", &cpu.to_string()).capability("memory", "1Ti");
        }
        if !self.open {
            queue = queue.set(["status", "state"], "Closed");
        }
        if !self.valid {
            queue = queue.capability("cpu", "many");
        }
        if self.restricted {
            queue = queue.annotation("card.volcano.sh/namespaces", "open");
        }
        queue
    }
}

impl Spec {
    pub fn object(&self, name: usize, uid: &str) -> Object {
        let mut pod = world::bare_pod(&format!("p{name}"))
            .uid(uid)
            .namespace(&namespace_name(self.namespace))
            .created(self.created)
            .priority(self.priority)
            .requests("cpu", &self.cpu.to_string());
        if self.managed {
            pod = pod.queue(&queue_name(self.queue));
        }
        if self.count > 0 {
            pod = pod.requests(self.maker.resource(), &self.count.to_string());
        }
        if !self.cards.is_empty() {
            let names: Vec<_> = self.cards.iter().map(|card| CARDS[*card]).collect();
            pod = pod.annotation("volcano.sh/card.name", &names.join("|"));
        }
        if let Some(zone) = self.zone {
            pod = pod.selects("zone", &zone.to_string());
        }
        if let Some(product) = self.product {
            pod = pod.selects(world::PRODUCT, CARDS[product]);
        }
        if self.tolerates {
            pod = pod.tolerates("reserved");
        }
        match self.controller {
            Some(controller) => pod.controlled_by("ReplicaSet", &format!("rs{controller}")),
            None => pod,
        }
    }
}

impl Configuration {
    pub fn parsed(self) -> std::sync::Arc<crds::configuration::Configuration> {
        let admit_on = if self.on_quota { "quota" } else { "fit" };
        world::configuration(
            &format!("cardUnlimitedCpuMemory: {}", self.unlimited),
            &format!(
                "admitOn: {admit_on}\nreservationTimeout: {}s\nterminatingTimeout: {}s",
                self.reservation, self.terminating
            ),
        )
    }
}

pub fn node_name(index: usize) -> String {
    format!("n{index}")
}

pub fn queue_name(index: usize) -> String {
    format!("q{index}")
}

pub fn namespace_name(index: usize) -> String {
    format!("ns{index}")
}
