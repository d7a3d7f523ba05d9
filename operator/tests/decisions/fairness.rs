//! What pods cost that can't get in: counted in judgements, not in time.

use std::cell::RefCell;

use operator::decide::decide_watched;
use operator::pulse::{Trail, Work};

use super::world::{World, node, pod, queue};

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
        world.cluster.confirm(&name);
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
