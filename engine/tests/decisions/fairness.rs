//! What pods cost that can't get in: counted in judgements, not in time.

use std::cell::RefCell;

use engine::decide::decide_watched;
use engine::trail::{Trail, Work};
use serde_json::json;

use super::world::{PRODUCT, World, node, pod, queue};

/// Pods of which nothing is alike, and for which there is no quota.
const HOPELESS: usize = 10_000;

/// The names of what is judged, in this order.
#[derive(Default)]
struct Judged(RefCell<Vec<String>>);

impl Trail for Judged {
    fn at(&self, work: Work) {
        self.0.borrow_mut().push(work.object.name.to_string());
    }

    fn over(&self) {}
}

/// What one round judges, and how many it lets in.
fn round(world: &mut World) -> (Vec<String>, usize) {
    let judged = Judged::default();
    let round = decide_watched(&mut world.cluster, world.now, usize::MAX, &judged);
    assert!(!round.more);
    (judged.0.into_inner(), round.actions.len())
}

#[test]
fn hopeless_pods_of_one_queue_are_judged_once_and_never_again_for_what_others_do() {
    let mut world = World::new();
    world.node(&node("n-1").cards("A100", 8));
    world.queue(&queue("attacker").quota(r#"{"A100": 0}"#));
    world.queue(&queue("victim").quota(r#"{"A100": 8}"#));
    for number in 0..HOPELESS {
        let name = format!("hopeless-{number:05}");
        let hopeless = pod(&name).queue("attacker").asks("A100", 1);
        world.pod(&hopeless.requests("cpu", &format!("{}m", 100 + number)));
    }
    let (judged, admitted) = round(&mut world);
    assert_eq!((judged.len(), admitted), (HOPELESS, 0));

    for number in 0..3 {
        let name = format!("fine-{number}");
        world.pod(&pod(&name).queue("victim").asks("A100", 1));
        let (judged, admitted) = round(&mut world);
        assert_eq!((judged, admitted), (vec![name.clone()], 1));
        world.confirm(&name);
        assert_eq!(round(&mut world), (vec![], 0));
        // What is told to them costs no judgement either.
        world.wait(10);
        assert!(!world.notices().is_empty() || number > 0);
        assert_eq!(round(&mut world), (vec![], 0));
    }
    // One more of them is judged, and the others are not.
    world.pod(&pod("hopeless-more").queue("attacker").asks("A100", 2));
    assert_eq!(round(&mut world), (vec!["hopeless-more".to_owned()], 0));
}

#[test]
fn what_pods_say_about_nodes_counts_toward_their_queues_turn() {
    // Each has the most that a pod may say, and is compared with all nodes.
    const PODS: usize = 100;
    let mut world = World::new();
    for number in 0..200 {
        world.node(&node(&format!("n-{number}")).cards("A100", 8));
    }
    world.queue(&queue("attacker").quota(r#"{"A100": 8}"#));
    world.queue(&queue("victim").quota(r#"{"A100": 8}"#));
    for number in 0..PODS {
        let values: Vec<_> = (0..1000).map(|value| format!("nowhere-{number}-{value}")).collect();
        let terms = json!([{"matchExpressions": [{"key": PRODUCT, "operator": "In", "values": values}]}]);
        let lengthy = pod(&format!("lengthy-{number:03}")).queue("attacker").asks("A100", 1);
        world.pod(&lengthy.set(
            [
                "spec",
                "affinity",
                "nodeAffinity",
                "requiredDuringSchedulingIgnoredDuringExecution",
            ],
            json!({ "nodeSelectorTerms": terms }),
        ));
    }
    world.pod(&pod("theirs").queue("victim").created(1).asks("A100", 1));
    let judged = Judged::default();
    let round = decide_watched(&mut world.cluster, world.now, usize::MAX, &judged);
    let judged = judged.0.into_inner();
    assert_eq!(round.actions.len(), 1, "{judged:?}");
    assert!(
        round.more && judged.len() < PODS,
        "{} are judged in one round",
        judged.len()
    );
    let mut rounds = 1;
    while decide_watched(&mut world.cluster, world.now, usize::MAX, &Judged::default()).more {
        rounds += 1;
        assert!(rounds < PODS, "every round ends with some that are judged");
    }
}
