//! What is left to the scheduler: nobody is let in where it could give more, or another card, than would be charged.

use super::room::{OF_A, ask, with};
use super::*;

/// Where a node has several cards that the forms of a request select, the scheduler chooses among them: nobody is let in for one there.
#[test]
fn nobody_goes_where_another_card_could_be_given_than_the_one_that_would_be_charged() {
    let mut world = world();
    let mut second = gpus("C", 2)[1].clone();
    second["attributes"]["index"]["int"] = 7.into();
    world.node(&node("n3"));
    world.slice("n3", NVIDIA, &json!([gpus("A", 1)[0], second]));
    world.remove_slice("n1", NVIDIA);
    world.queue(&queue("team-a").quota(r#"{"A": 1}"#));
    // The only A is taken; the C is free, for which there is no quota.
    world.claim("other", &with(1, &[OF_A]), &allocated("n3", &["gpu-0"]));
    ask(&mut world, "p1", &first_of(&[(1, "A"), (1, "C")]));
    assert_eq!(world.refusal_of("p1"), "NodesExcluded");
    world.node(&node("n4"));
    world.slice("n4", NVIDIA, &gpus("A", 1));
    assert_eq!(world.admit(), [admitted("p1", "A")]);
}

/// Labels say which cards a node has, and not how many: on a node that comes later the scheduler would give the larger form, the one that
/// no device is there for now, or more devices where all are taken.
#[test]
fn who_could_get_more_on_a_node_that_comes_is_held_to_a_node() {
    let all = json!([{"name": "r", "exactly": {"deviceClassName": NVIDIA, "allocationMode": "All"}}]);
    for (requests, node_of_pin) in [
        (first_of(&[(8, "A"), (1, "A")]), Some("n3")),
        (first_of(&[(8, "Z"), (1, "A")]), Some("n3")),
        (all, Some("n3")),
        (first_of(&[(1, "A")]), None),
    ] {
        let mut world = world();
        world.remove_slice("n1", NVIDIA);
        world.remove_slice("n2", NVIDIA);
        world.node(&node("n3"));
        world.slice("n3", NVIDIA, &gpus("A", 1));
        world.queue(&queue("team-a").quota(r#"{"A": 1}"#));
        ask(&mut world, "p1", &requests);
        let admissions = world.admissions();
        let [admission] = &admissions[..] else {
            panic!("{requests}: {admissions:?}")
        };
        let pin = admission.pin.as_ref().map(|pin| &*pin.node);
        assert_eq!((admission.card.as_deref(), pin), (Some("A"), node_of_pin), "{requests}");
    }
}

/// No node is asked there: the pod would wait for one, and no autoscaler would add any.
#[test]
fn under_admit_on_quota_who_takes_fewer_of_a_card_is_held_to_no_node() {
    let mut world = World::with(configuration("", "admitOn: quota"));
    world.class(NVIDIA, "device.driver == 'gpu.nvidia.com'", None);
    world.node(&node("n1"));
    world.slice("n1", NVIDIA, &gpus("A", 1));
    world.queue(&queue("team-a").quota(r#"{"A": 1}"#));
    ask(&mut world, "p1", &first_of(&[(8, "A"), (1, "A")]));
    let admissions = world.admissions();
    let [admission] = &admissions[..] else {
        panic!("{admissions:?}")
    };
    assert_eq!((admission.card.as_deref(), &admission.pin), (Some("A"), &None));
}
