//! Guarantee: kept free even for a queue without workloads, and not lent to others (**Queue fields**).

use std::sync::Arc;

use crds::configuration::AdmitOn;
use engine::explain::{Subject, explain};

use super::{admitted, cluster, plain, worker, workers};
use crate::world::{GPU, World, bare_pod, capacity, node, pod, queue, queue_plugin};

#[test]
fn a_guarantee_is_kept_free_from_several_borrowers_together() {
    let mut world = cluster(8, "");
    world.queue(&plain("owner").guaranteed_cards(r#"{"A": 4}"#));
    // Each of the two is within its own realCapability of 8 - 4; together they are not.
    for name in ["a", "b"] {
        world.queue(&plain(name));
        workers(&mut world, name, 4);
    }
    assert_eq!(admitted(&mut world), 4);
    assert_eq!(world.refusal_of("a-3"), "InsufficientScalarQuota");
    workers(&mut world, "owner", 5);
    assert_eq!(world.admit_names(), ["owner-0", "owner-1", "owner-2", "owner-3"]);
    // Beyond its guarantee it is one of the others.
    assert_eq!(world.refusal_of("owner-4"), "InsufficientScalarQuota");
}

#[test]
fn the_refusal_says_what_is_kept_free() {
    let mut world = cluster(8, "");
    world.queue(&plain("owner").guaranteed_cards(r#"{"A": 4}"#));
    world.queue(&plain("a"));
    world.pod(&pod("p").queue("a").asks("A", 5));
    assert_eq!(
        world.refusal(),
        "InsufficientScalarQuota: the cluster, for queue a: A asked 5, used 4, quota 8, 4 of them kept free by guarantees; \
         waiting can't help: ask for less, or have nodes added or other queues' guarantees lowered"
    );
}

/// It was told of its queue alone, with what others use of that for the time being: the numbers said that it may wait, and to have the quota
/// raised.
#[test]
fn who_never_gets_what_others_are_guaranteed_is_told_of_that_and_not_of_what_time_brings() {
    let mut world = cluster(8, "");
    world.queue(&plain("owner").guaranteed_cards(r#"{"A": 4}"#));
    world.queue(&plain("a").quota(r#"{"A": 6}"#));
    workers(&mut world, "a", 2);
    assert_eq!(admitted(&mut world), 2);
    world.pod(&pod("p").queue("a").asks("A", 5));
    assert_eq!(
        world.refusal(),
        "InsufficientScalarQuota: the cluster, for queue a: A asked 5, used 6, quota 8, 4 of them kept free by guarantees; \
         waiting can't help: ask for less, or have nodes added or other queues' guarantees lowered"
    );
    // What it has to wait for, the queue says.
    world.pod(&pod("q").queue("a").asks("A", 3));
    world.pod(&pod("r").queue("a").asks("A", 4));
    assert_eq!(world.admit(), []);
    let told = |name: &str| {
        let id = world.cluster.pod_with_uid(name).unwrap();
        let why = explain(&world.cluster, Subject::Pod(id)).unwrap();
        (why.message(), why.remedy())
    };
    let wait = "wait until the pods that hold it end, end some of them, or ";
    assert_eq!(
        told("q"),
        (
            "the cluster, for queue a: A asked 3, used 6, quota 8, 4 of them kept free by guarantees".to_owned(),
            format!("{wait}have nodes added or other queues' guarantees lowered")
        )
    );
}

/// "Used 8, 6 of them kept free by guarantees", for itself.
#[test]
fn what_is_kept_free_for_who_asks_is_not_told_as_used() {
    let mut world = cluster(8, "");
    world.queue(&plain("a").guaranteed_cards(r#"{"A": 3}"#));
    world.queue(&plain("b").guaranteed_cards(r#"{"A": 2}"#));
    world.queue(&plain("c"));
    workers(&mut world, "a", 1);
    workers(&mut world, "c", 1);
    assert_eq!(admitted(&mut world), 2);
    world.pod(&pod("p").queue("a").asks("A", 6));
    let told = world.refusal();
    let numbers = "the cluster, for queue a: A asked 6, used 4, quota 8, 2 of them kept free by guarantees";
    assert!(told.contains(numbers), "{told}");
}

#[test]
fn a_guarantee_stays_free_while_pods_go_to_other_nodes_than_expected() {
    for [first, then] in [["n1", "n2"], ["n2", "n1"]] {
        let mut world = World::with(queue_plugin("capacity-card", super::ACTIONS, ""));
        for name in [first, then] {
            world.node(&node(name).cards("A", 4));
        }
        world.queue(&queue("owner").quota(r#"{"A": 8}"#).guaranteed_cards(r#"{"A": 1}"#));
        world.queue(&queue("a").quota(r#"{"A": 8}"#));
        workers(&mut world, "a", 8);
        assert_eq!(admitted(&mut world), 7);
        // For a moment more of them are on a node, or expected there, than it has cards.
        for index in 0..7 {
            let node = if index < 4 { first } else { then };
            world.pod(&worker("a", index).assigned("A").on(node));
            assert_eq!(
                world.admit_names(),
                [""; 0],
                "{index} on {node}: the last card is the owner's"
            );
        }
    }
}

#[test]
fn a_guarantee_that_is_given_up_lets_others_in() {
    let mut world = cluster(8, "");
    world.queue(&plain("owner").guaranteed_cards(r#"{"A": 4}"#));
    world.queue(&plain("a"));
    workers(&mut world, "a", 6);
    assert_eq!(admitted(&mut world), 4);
    world.queue(&plain("owner").guaranteed_cards(r#"{"A": 3}"#));
    assert_eq!(admitted(&mut world), 1);
    world.remove_queue("owner");
    assert_eq!(admitted(&mut world), 1);
}

#[test]
fn cards_are_guaranteed_under_the_capacity_card_plugin_too() {
    let mut world = World::with(queue_plugin("capacity-card", super::ACTIONS, ""));
    world.node(&node("n1").cards("A", 8));
    world.queue(&queue("owner").quota(r#"{"A": 8}"#).guaranteed_cards(r#"{"A": 6}"#));
    world.queue(&queue("a").quota(r#"{"A": 8}"#));
    workers(&mut world, "a", 8);
    assert_eq!(admitted(&mut world), 2);
    world.pod(&worker("owner", 0));
    assert_eq!(world.admit_names(), ["owner-0"]);
}

#[test]
fn a_lost_node_stops_nobody_who_is_within_what_is_guaranteed() {
    let mut world = cluster(4, "");
    world.node(&node("n2").cards("A", 4));
    for name in ["a", "b"] {
        world.queue(&plain(name).guaranteed_cards(r#"{"A": 4}"#));
        workers(&mut world, name, 1);
    }
    assert_eq!(admitted(&mut world), 2);
    // 4 cards are left for guarantees of 8: both go on, as far as there are cards.
    world.node(&node("n2").cards("A", 4).not_ready());
    for name in ["a", "b"] {
        world.pod(&worker(name, 1));
    }
    assert_eq!(admitted(&mut world), 2);
}

#[test]
fn section_4_guarantee_threshold_queues_below_their_guarantee_go_first() {
    // 5 of 8 are in use, which is more than 60 percent and less than 80.
    for (threshold, order) in [("60", ["owner-0", "a-5"]), ("80", ["a-5", "owner-0"])] {
        let mut world = cluster(8, &format!("guaranteeThreshold: {threshold}"));
        world.queue(&plain("a").set(["spec", "priority"], 9));
        world.queue(&plain("owner").guaranteed_cards(r#"{"A": 2}"#));
        workers(&mut world, "a", 5);
        assert_eq!(admitted(&mut world), 5);
        world.pods([worker("a", 5), worker("owner", 0)]);
        assert_eq!(world.admit_names(), order, "{threshold}");
    }
}

#[test]
fn section_4_guarantee_threshold_orders_and_forbids_nobody_to_borrow() {
    // By default it is 80: the last card in eight was never borrowed.
    let mut world = cluster(8, "");
    world.queue(&plain("a").deserved_cards(r#"{"A": 2}"#));
    world.queue(&plain("owner").guaranteed_cards(r#"{"A": 1}"#));
    workers(&mut world, "a", 8);
    assert_eq!(admitted(&mut world), 7, "all but what is guaranteed to the other");
    world.pod(&worker("owner", 0));
    assert_eq!(world.admit_names(), ["owner-0"]);
}

#[test]
fn section_4_guarantee_threshold_counts_all_that_runs_also_what_no_queue_is_charged_for() {
    for (foreign, order) in [(4, ["owner-0", "a-0"]), (3, ["a-0", "owner-0"])] {
        let mut world = cluster(8, "guaranteeThreshold: 60");
        world.queue(&plain("a").set(["spec", "priority"], 9));
        world.queue(&plain("owner").guaranteed_cards(r#"{"A": 2}"#));
        // Pods of nobody's: one with a card, one without.
        world.pods((0..foreign).map(|index| bare_pod(&format!("foreign-{index}")).requests(GPU, "1").on("n1")));
        world.pod(&worker("a", 9).assigned("A").on("n1"));
        world.pods([worker("a", 0), worker("owner", 0)]);
        assert_eq!(world.admit_names(), order, "{foreign} cards of nobody's");
    }
    // CPU alike: 40 of 64 cores run elsewhere.
    for (foreign, order) in [("40", ["owner", "a"]), ("30", ["a", "owner"])] {
        let mut world = cluster(8, "guaranteeThreshold: 60");
        world.queue(&plain("a").set(["spec", "priority"], 9));
        world.queue(&plain("owner").guarantee("cpu", "2"));
        world.pod(&bare_pod("foreign").requests("cpu", foreign).on("n1"));
        world.pods([pod("a").queue("a"), pod("owner").queue("owner")]);
        assert_eq!(world.admit_names(), order, "{foreign} cores of nobody's");
        world.remove_pod("foreign");
    }
}

/// Nobody knows which card such a pod gets: docs/rules.md, **Card quota**.
#[test]
fn a_guarantee_of_a_card_by_name_is_not_kept_free_from_pods_that_are_limited_in_the_resource_alone() {
    for admit_on in [AdmitOn::Fit, AdmitOn::Quota] {
        let mut configuration = (*capacity(super::ACTIONS, "")).clone();
        configuration.cardgate.admit_on = admit_on;
        let mut world = World::with(Arc::new(configuration));
        world.node(&node("n1").cards("A", 4));
        world.queue(&plain("owner").guaranteed_cards(r#"{"A": 4}"#));
        world.queue(&plain("other"));
        world.pod(&pod("p").queue("other").requests(GPU, "1"));
        assert_eq!(world.admit(), [("p".to_owned(), None)], "{admit_on:?}");
    }
}

/// What is kept free for its own queue counts as free for a pod that names no card.
#[test]
fn a_pod_that_names_no_card_gets_the_one_that_its_queue_is_guaranteed() {
    for plugin in ["capacity", "capacity-card"] {
        let mut world = World::with(queue_plugin(plugin, super::ACTIONS, ""));
        world.node(&node("n1").cards("A", 4));
        world.node(&node("n2").cards("T", 1));
        let both = r#"{"A": 4, "T": 4}"#;
        let owner = plain("owner").quota(both).guaranteed_cards(r#"{"A": 4}"#);
        world.queue(&owner.capability("cpu", "64").capability("memory", "4Ti"));
        world.pod(
            &bare_pod("p")
                .queue("owner")
                .gates(&["card.volcano.sh/quota"])
                .requests(GPU, "1"),
        );
        assert_eq!(world.admit(), [("p".to_owned(), Some("A".to_owned()))], "{plugin}");
    }
}
