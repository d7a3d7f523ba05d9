//! What can happen, and how it looks as objects of the API server.

use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Map, json};

use super::setting::{Setting, any_setting};
use crate::world::{self, Object};

pub const QUEUES: usize = 5;
pub const GROUPS: usize = 3;
pub const NODES: usize = 4;
/// Whole cards of two products, and one that is shared, of which 100 are a card.
pub const CARDS: [&str; 3] = ["A", "B", "M/mgpu"];
/// Memory of a shared card.
pub const MEMORY: i64 = 1000;

#[derive(Debug, Clone)]
pub struct Queue {
    /// A queue before it in the list.
    pub parent: Option<usize>,
    pub cpu: Option<i64>,
    pub quota: [Option<i64>; 3],
    pub deserved_cpu: Option<i64>,
    pub deserved: [Option<i64>; 3],
    pub guarantee_cpu: i64,
    /// Of each card.
    pub guarantee: [i64; 3],
    pub reclaimable: bool,
    pub priority: i32,
    pub open: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ask {
    Cpu,
    /// These cards, most preferred first, so many.
    Named(&'static [usize], i64),
    Unnamed(i64),
    /// Core and memory of each of so many containers.
    Share(i64, i64, usize),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    Nobody,
    /// Makes another in its place.
    Controller,
    Group(usize),
    Job,
}

#[derive(Debug, Clone, Copy)]
pub struct Spec {
    pub queue: usize,
    pub owner: Owner,
    pub ask: Ask,
    pub cpu: i64,
    pub priority: i32,
    pub task: usize,
    /// Whether it is in a namespace that `CrossQuota` holds pods without GPU of.
    pub opted_in: bool,
}

#[derive(Debug, Clone, Copy)]
pub struct Group {
    pub queue: usize,
    pub least: usize,
    /// So many of each of the two tasks.
    pub tasks: Option<[usize; 2]>,
    /// `card.request`: a card and how many.
    pub cards: Option<(usize, i64)>,
    /// `minResources`: CPU and devices.
    pub resources: Option<(i64, i64)>,
}

#[derive(Debug, Clone)]
pub enum Step {
    Come(Spec, usize),
    /// The first so many pods that hold something in a queue end.
    Go(usize, usize),
    /// The first pods that wait in a queue are deleted.
    GiveUp(usize, usize),
    Queue(usize, Queue),
    Node(usize, bool),
    Group(usize, Option<Group>),
    /// A Job that is held: its queue, card and how many; or it is gone.
    Job(Option<(usize, usize, i64)>),
    Configure(Setting),
    /// The API server refuses the next admission for good, or it is just not written.
    Refuse(bool),
    Wait(i64),
}

#[derive(Debug, Clone)]
pub struct Beginning {
    pub setting: Setting,
    pub queues: Vec<Queue>,
    pub groups: Vec<Group>,
}

fn any_cards(of: i64) -> impl Strategy<Value = [Option<i64>; 3]> {
    let whole = || prop::option::weighted(0.7, 0..of);
    (
        whole(),
        whole(),
        prop::option::weighted(0.7, (0..4_i64).prop_map(|cards| cards * 50)),
    )
        .prop_map(|(a, b, shared)| [a, b, shared])
}

fn any_queue() -> impl Strategy<Value = Queue> {
    let limits = (prop::option::weighted(0.7, 1..16_i64), any_cards(7));
    let guarantee = (
        0..3_i64,
        prop::array::uniform3(prop_oneof![3 => Just(0), 1 => 1..3_i64]),
    );
    let deserved = (prop::option::weighted(0.5, 0..8_i64), any_cards(5), guarantee);
    let flags = (prop::bool::weighted(0.85), 0..2_i32, prop::bool::weighted(0.95));
    (prop::option::of(0..QUEUES), limits, deserved, flags).prop_map(
        |(
            parent,
            (cpu, quota),
            (deserved_cpu, deserved, (guarantee_cpu, guarantee)),
            (reclaimable, priority, open),
        )| Queue {
            parent,
            cpu,
            quota,
            deserved_cpu,
            deserved,
            guarantee_cpu: cpu.map_or(guarantee_cpu, |cpu| guarantee_cpu.min(cpu)),
            // Of shares a part of a card.
            guarantee: [(0, 1), (1, 1), (2, 50)]
                .map(|(card, unit)| (guarantee[card] * unit).min(quota[card].unwrap_or(0))),
            reclaimable,
            priority,
            open,
        },
    )
}

fn any_ask() -> impl Strategy<Value = Ask> {
    const NAMED: [&[usize]; 4] = [&[0], &[1], &[0, 1], &[1, 0]];
    prop_oneof![
        3 => Just(Ask::Cpu),
        4 => (select(NAMED.to_vec()), 1..4_i64).prop_map(|(cards, count)| Ask::Named(cards, count)),
        2 => (1..3_i64).prop_map(Ask::Unnamed),
        2 => (select(vec![20, 30, 50, 60]), select(vec![200, 400, 600]), 1..3_usize)
            .prop_map(|(core, memory, containers)| Ask::Share(core, memory, containers)),
    ]
}

fn any_spec() -> impl Strategy<Value = Spec> {
    let owner = prop_oneof![
        2 => Just(Owner::Nobody),
        4 => Just(Owner::Controller),
        3 => (0..GROUPS).prop_map(Owner::Group),
        1 => Just(Owner::Job),
    ];
    (
        0..QUEUES,
        owner,
        any_ask(),
        1..4_i64,
        0..2_i32,
        0..3_usize,
        any::<bool>(),
    )
        .prop_map(|(queue, owner, ask, cpu, priority, task, opted_in)| Spec {
            queue,
            owner,
            ask,
            cpu,
            priority,
            task,
            opted_in,
        })
}

fn any_group() -> impl Strategy<Value = Group> {
    let tasks = prop::option::weighted(0.4, prop::array::uniform2(0..2_usize));
    let cards = prop::option::weighted(0.3, (0..2_usize, 1..5_i64));
    let resources = prop::option::weighted(0.3, (1..6_i64, 0..4_i64));
    (0..QUEUES, 1..4_usize, tasks, cards, resources).prop_map(|(queue, least, tasks, cards, resources)| Group {
        queue,
        least,
        tasks,
        cards,
        resources,
    })
}

pub fn any_beginning() -> impl Strategy<Value = Beginning> {
    let queues = prop::collection::vec(any_queue(), QUEUES);
    let groups = prop::collection::vec(any_group(), GROUPS);
    (any_setting(), queues, groups).prop_map(|(setting, queues, groups)| Beginning {
        setting,
        queues,
        groups,
    })
}

pub fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => (any_spec(), 1..5_usize).prop_map(|(spec, count)| Step::Come(spec, count)),
        3 => (0..QUEUES, 1..3_usize).prop_map(|(queue, count)| Step::Go(queue, count)),
        1 => (0..QUEUES, 1..3_usize).prop_map(|(queue, count)| Step::GiveUp(queue, count)),
        3 => (0..QUEUES, any_queue()).prop_map(|(queue, says)| Step::Queue(queue, says)),
        1 => (0..NODES, any::<bool>()).prop_map(|(node, ready)| Step::Node(node, ready)),
        2 => (0..GROUPS, prop::option::weighted(0.9, any_group())).prop_map(|(group, says)| Step::Group(group, says)),
        2 => prop::option::weighted(0.8, (0..QUEUES, 0..2_usize, 1..4_i64)).prop_map(Step::Job),
        1 => any_setting().prop_map(Step::Configure),
        1 => any::<bool>().prop_map(Step::Refuse),
        1 => (1..900_i64).prop_map(Step::Wait),
    ]
}

pub fn queue_name(queue: usize) -> String {
    format!("q{queue}")
}

fn cards(counts: &[Option<i64>; 3]) -> Option<String> {
    let named = CARDS.iter().zip(counts);
    let named: Map<_, _> = named
        .filter_map(|(card, count)| Some(((*card).to_owned(), json!((*count)?))))
        .collect();
    (!named.is_empty()).then(|| json!(named).to_string())
}

impl Queue {
    pub fn object(&self, index: usize) -> Object {
        let mut object = world::bare_queue(&queue_name(index))
            .set(["spec", "reclaimable"], self.reclaimable)
            .set(["spec", "priority"], self.priority)
            .created(i64::try_from(index).unwrap());
        if let Some(cpu) = self.cpu {
            object = object.capability("cpu", &cpu.to_string()).capability("memory", "4Ti");
        }
        if let Some(quota) = cards(&self.quota) {
            object = object.quota(&quota);
        }
        if let Some(cpu) = self.deserved_cpu {
            object = object.deserved("cpu", &cpu.to_string());
        }
        if let Some(deserved) = cards(&self.deserved) {
            object = object.deserved_cards(&deserved);
        }
        if self.guarantee_cpu > 0 {
            object = object.guarantee("cpu", &self.guarantee_cpu.to_string());
        }
        if let Some(guaranteed) = cards(&self.guarantee.map(|count| (count > 0).then_some(count))) {
            object = object.guaranteed_cards(&guaranteed);
        }
        if let Some(parent) = self.parent.filter(|parent| *parent < index) {
            object = object.parent(&queue_name(parent));
        }
        if self.open {
            object
        } else {
            object.set(["status", "state"], "Closed")
        }
    }
}

pub fn node_object(index: usize, ready: bool) -> Object {
    let node = world::node(&format!("n{index}"))
        .offers("cpu", "8")
        .offers("pods", "100");
    let node = match index {
        0 => node.cards("A", 4).label("card.volcano.sh/gpu-node", "true"),
        1 => node.cards("B", 4).label("card.volcano.sh/gpu-node", "true"),
        2 => node
            .mgpu(2, MEMORY, "fixed-share")
            .label(world::PRODUCT, "M")
            .label("nvidia.com/gpu.count", "2")
            .label("nvidia.com/gpu.memory", "1000"),
        _ => node,
    };
    if ready { node } else { node.not_ready() }
}

pub fn group_name(group: usize) -> String {
    format!("g{group}")
}

impl Group {
    /// The minimum that counts of each task.
    pub fn least_of_tasks(&self) -> [usize; 2] {
        self.tasks
            .filter(|tasks| tasks.iter().sum::<usize>() <= self.least)
            .unwrap_or_default()
    }

    pub fn object(&self, index: usize, uid: &str, phase: Option<&str>) -> Object {
        let mut object = world::group(&group_name(index), i64::try_from(self.least).unwrap())
            .uid(uid)
            .created(i64::try_from(index).unwrap())
            .set(["spec", "queue"], queue_name(self.queue));
        if let Some([first, second]) = self.tasks {
            object = object.set(["spec", "minTaskMember"], json!({"t0": first, "t1": second}));
        }
        if let Some((card, count)) = self.cards {
            object = object.card_request(&json!({CARDS[card]: count}).to_string());
        }
        if let Some((cpu, devices)) = self.resources {
            let mut least = json!({"cpu": cpu.to_string(), "count/pods": "3", "requests.cpu": cpu.to_string()});
            if devices > 0 {
                least[world::GPU] = devices.to_string().into();
            }
            object = object.set(["spec", "minResources"], least);
        }
        phase
            .into_iter()
            .fold(object, |object, phase| object.set(["status", "phase"], phase))
    }
}

pub fn job_object((queue, card, count): (usize, usize, i64), uid: &str, held: bool) -> Object {
    let queue_key = [
        "spec",
        "template",
        "metadata",
        "annotations",
        "scheduling.volcano.sh/queue-name",
    ];
    world::held_job("job", &json!({CARDS[card]: count}).to_string())
        .uid(uid)
        .set(queue_key, queue_name(queue))
        .set(["spec", "suspend"], held)
}

impl Spec {
    pub fn object(&self, uid: &str, created: i64) -> Object {
        let mut object = world::pod(uid)
            .queue(&queue_name(self.queue))
            .priority(self.priority)
            .created(created)
            .requests("cpu", &self.cpu.to_string());
        object = match self.ask {
            Ask::Cpu => object,
            Ask::Named(cards, count) => {
                let names: Vec<_> = cards.iter().map(|card| CARDS[*card]).collect();
                object.asks(&names.join("|"), count)
            }
            Ask::Unnamed(count) => object.requests(world::GPU, &count.to_string()),
            Ask::Share(core, memory, containers) => (1..containers)
                .fold(object.share(core, memory), |object, index| {
                    object.container(&format!("c{index}"), core, memory)
                }),
        };
        if self.opted_in {
            object = object.label("card.volcano.sh/crossquota", "enabled");
        }
        match self.owner {
            Owner::Nobody => object,
            Owner::Controller => object.controlled_by("ReplicaSet", "rs"),
            Owner::Group(group) => object
                .of(&group_name(group))
                .label("volcano.sh/task-spec", &format!("t{}", self.task)),
            Owner::Job => object.controlled_by("Job", "job"),
        }
    }
}
