//! Whether waiting can help, in random worlds: who may hope is let in once all others are gone, and who may not is not.

use engine::explain::{Subject, explain};
use engine::reason::{Outlook, Reason};
use proptest::prelude::*;
use proptest::sample::select;

use crate::world::{GPU, Object, World, assert_says_never, bare_queue, capacity, configuration, node, pod, queue};

const CARDS: [&str; 2] = ["A", "B"];

/// A card, how many of it, cores, and a zone.
type Node = (&'static str, i64, i64, &'static str);

#[derive(Debug, Clone)]
struct Queue {
    cards: [i64; 2],
    cpu: i64,
    /// Of card A, whatever others do.
    guaranteed: i64,
    /// Of each card, where nobody may borrow.
    deserved: [i64; 2],
}

#[derive(Debug, Clone)]
struct Ask {
    queue: usize,
    names: &'static str,
    count: i64,
    cpu: i64,
    zone: Option<&'static str>,
}

/// What admission goes by.
#[derive(Debug, Clone, Copy)]
enum Mode {
    Hierarchy,
    CardPlugin,
    /// The same without a look at nodes, for an autoscaler to see.
    QuotaAlone,
    /// Nobody has more than he deserves (`enableOveruse`).
    NoOveruse,
    /// The queues themselves name nothing, so they limit nothing.
    DimensionsOnly,
}

#[derive(Debug, Clone)]
struct Scene {
    mode: Mode,
    nodes: Vec<Node>,
    /// What both queues may have together.
    above: [i64; 2],
    queues: [Queue; 2],
    pods: Vec<Ask>,
}

fn any_scene() -> impl Strategy<Value = Scene> {
    let zone = || select(vec!["east", "west"]);
    let node = (select(CARDS.to_vec()), 1..6_i64, 1..9_i64, zone());
    let cards = || prop::array::uniform2(0..9_i64);
    let queue = (cards(), 1..20_i64, 0..3_i64, cards());
    let queue = queue.prop_map(|(cards, cpu, guaranteed, deserved)| Queue {
        cards,
        cpu,
        guaranteed: guaranteed.min(cards[0]),
        deserved,
    });
    let names = select(vec!["A", "B", "A|B", "B|A"]);
    let ask = (
        0..2_usize,
        names,
        1..7_i64,
        1..9_i64,
        prop::option::weighted(0.3, zone()),
    );
    let ask = ask.prop_map(|(queue, names, count, cpu, zone)| Ask {
        queue,
        names,
        count,
        cpu,
        zone,
    });
    let nodes = prop::collection::vec(node, 1..=3);
    let pods = prop::collection::vec(ask, 1..=6);
    let queues = prop::array::uniform2(queue);
    let modes = select(vec![
        Mode::Hierarchy,
        Mode::CardPlugin,
        Mode::QuotaAlone,
        Mode::NoOveruse,
        Mode::DimensionsOnly,
    ]);
    let above = prop::array::uniform2(4..12_i64);
    (modes, nodes, above, queues, pods).prop_map(|(mode, nodes, above, queues, pods)| Scene {
        mode,
        nodes,
        above,
        queues,
        pods,
    })
}

fn cards(counts: [i64; 2]) -> String {
    format!(r#"{{"A": {}, "B": {}}}"#, counts[0], counts[1])
}

impl Scene {
    /// The world without pods.
    fn world(&self) -> World {
        let capacity = |argument| capacity("enqueue, allocate", &format!("enableHierarchy: true, {argument}"));
        let mut world = World::with(match self.mode {
            Mode::Hierarchy => capacity("enableOveruse: true"),
            Mode::NoOveruse => capacity("enableOveruse: false"),
            Mode::DimensionsOnly => capacity("checkQueueDimensionsOnly: true"),
            Mode::CardPlugin => configuration("", ""),
            Mode::QuotaAlone => configuration("", "admitOn: quota"),
        });
        for (index, (card, count, cpu, zone)) in self.nodes.iter().enumerate() {
            let node = node(&format!("n{index}")).cards(card, *count).label("zone", zone);
            world.node(&node.offers("cpu", &cpu.to_string()));
        }
        world.queue(&queue("above").quota(&cards(self.above)));
        for (index, says) in self.queues.iter().enumerate() {
            let name = format!("q{index}");
            let limited = || {
                let queue = queue(&name).quota(&cards(says.cards));
                queue.capability("cpu", &says.cpu.to_string())
            };
            let queue = match self.mode {
                Mode::Hierarchy | Mode::CardPlugin | Mode::QuotaAlone => limited(),
                Mode::NoOveruse => limited().deserved_cards(&cards(says.deserved)),
                Mode::DimensionsOnly => bare_queue(&name),
            };
            let guaranteed = format!(r#"{{"A": {}}}"#, says.guaranteed);
            world.queue(&queue.parent("above").guaranteed_cards(&guaranteed));
        }
        world
    }

    fn pod(&self, index: usize) -> Object {
        let ask = &self.pods[index];
        let pod = pod(&format!("p{index}")).queue(&format!("q{}", ask.queue));
        let pod = pod.asks(ask.names, ask.count).requests("cpu", &ask.cpu.to_string());
        match ask.zone {
            Some(zone) => pod.selects("zone", zone),
            None => pod,
        }
    }

    /// Whether a pod is let in that is alone in the world.
    fn takes_alone(&self, index: usize) -> bool {
        let mut world = self.world();
        world.pod(&self.pod(index));
        !world.admit().is_empty()
    }
}

/// Whether others could hold what this is about.
fn is_of_numbers(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::InsufficientScalarQuota | Reason::InsufficientCpuQuota | Reason::NoNodeFits | Reason::NodesExcluded
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn waiting_helps_those_alone_who_would_be_let_in_if_nobody_else_were_there(scene in any_scene()) {
        let mut world = scene.world();
        world.pods((0..scene.pods.len()).map(|index| scene.pod(index)));
        world.admit();
        for index in 0..scene.pods.len() {
            let id = world.cluster.pod_with_uid(&format!("p{index}")).unwrap();
            let Some(why) = explain(&world.cluster, Subject::Pod(id)) else { continue };
            if is_of_numbers(why.reason) {
                let expected = if scene.takes_alone(index) { Outlook::NotYet } else { Outlook::Never };
                let said = why.message();
                prop_assert_eq!(why.outlook, expected, "p{}: {:?}: {}", index, why.reason, said);
                assert_says_never(&said, &why.remedy(), expected == Outlook::Never);
            }
        }
    }
}

/// A queue with one CPU, which `first` uses. Once that is gone, `waits` still can't be charged for what it asks, and is told so from the beginning.
#[track_caller]
fn told_at_once(world: &mut World, quota: &str, waits: &Object) {
    let queue = bare_queue("team-a").capability("cpu", "1").capability("memory", "4Ti");
    world.queue(&queue.quota(quota));
    world.pod(&pod("first"));
    assert_eq!(world.admit_names(), ["first"]);
    world.pod(waits);
    let told = world.refusal();
    assert!(told.starts_with("InsufficientCPUQuota"), "{told}");
    assert!(told.contains("waiting can't help"), "{told}");
    world.remove_pod("first");
    let told = world.refusal();
    assert!(told.contains("waiting can't help"), "{told}");
}

#[test]
fn who_lacks_cpu_and_names_no_card_that_its_queue_has_is_told_that_waiting_cant_help() {
    let mut world = World::new();
    world.node(&node("n1").cards("A", 4));
    let waits = pod("waits").requests(GPU, "1").created(1);
    told_at_once(&mut world, r#"{"Z": 2}"#, &waits);
}
