//! `admitOn: quota` under the capacity document: pods wait on the scheduler's side for nodes that an autoscaler adds, so what the
//! nodes have now is no limit to them.

use std::sync::Arc;

use crds::configuration::AdmitOn;
use engine::refs::WorkloadKind;

use super::{ACTIONS, admitted, plain, workers};
use crate::world::{GPU, World, capacity, group, node, pod};

/// One node with one card.
fn world() -> World {
    let mut configuration = (*capacity(ACTIONS, "")).clone();
    configuration.cardgate.admit_on = AdmitOn::Quota;
    let mut world = World::with(Arc::new(configuration));
    world.node(&node("n1").cards("A", 1).offers("cpu", "1"));
    world
}

#[test]
fn pods_are_let_in_that_the_cluster_has_too_little_for() {
    let mut world = world();
    world.queue(&plain("bounded").quota(r#"{"A": 4}"#));
    workers(&mut world, "bounded", 6);
    assert_eq!(admitted(&mut world), 4);
    assert_eq!(world.refusal_of("bounded-4"), "InsufficientScalarQuota");
    world.queue(&plain("unbounded"));
    workers(&mut world, "unbounded", 6);
    assert_eq!(admitted(&mut world), 6);
}

/// Which their queue is read to name for them, by what it deserves.
#[test]
fn so_are_pods_that_name_no_card() {
    let mut world = world();
    world.queue(&plain("team-a").deserved_cards(r#"{"A": 0}"#));
    world.pods((0..3).map(|index| pod(&format!("p{index}")).queue("team-a").requests(GPU, "2")));
    let let_in = |index| (format!("p{index}"), Some("A".to_owned()));
    assert_eq!(world.admit(), [0, 1, 2].map(let_in));
}

#[test]
fn so_are_groups_as_a_whole() {
    let mut world = world();
    world.queue(&plain("team-a"));
    let asks = group("large", 2).set(["spec", "queue"], "team-a");
    world.group(&asks.set(["spec", "minResources", GPU], "8"));
    assert_eq!(world.admit(), []);
    assert!(world.is_enqueued(WorkloadKind::PodGroup, "large"));
}

/// What the nodes have now is kept free for others all the same.
#[test]
fn what_others_are_guaranteed_is_not_let_in_for() {
    let mut world = world();
    world.queue(&plain("owner").guaranteed_cards(r#"{"A": 1}"#));
    world.queue(&plain("other"));
    workers(&mut world, "other", 1);
    assert_eq!(admitted(&mut world), 0);
    assert_eq!(world.refusal_of("other-0"), "InsufficientScalarQuota");
    workers(&mut world, "owner", 1);
    assert_eq!(admitted(&mut world), 1);
}
