//! Those who could give back what is missing are found behind however many that can't (docs/rules.md, **Queues**).

use super::reclaim::{RECLAIM, victims};
use super::{plain, worker};
use crate::world::{World, bare_pod, capacity, node, pod};

const PREEMPT: &str = "enqueue, allocate, preempt";

#[test]
fn a_large_pod_is_preempted_where_the_many_small_ones_before_it_give_too_little() {
    let mut world = World::with(capacity(PREEMPT, "guaranteeThreshold: 100"));
    world.node(&node("n1").cards("A", 400).offers("cpu", "400"));
    world.queue(&plain("a").quota(r#"{"A": 220}"#).deserved_cards(r#"{"A": 220}"#));
    let large = |name: &str| pod(name).queue("a").asks("A", 70).created(0);
    world.pods(["large-0", "large-1"].map(|name| large(name).assigned("A").on("n1")));
    world.pods((0..80).map(|index| worker("a", index).created(10).assigned("A").on("n1")));
    world.pod(&pod("urgent").queue("a").asks("A", 70).priority(10));
    world.wait(20);
    assert_eq!(victims(&mut world), ["large-0"]);
}

#[test]
fn who_has_the_card_is_preempted_behind_the_many_who_have_only_cpu() {
    let mut world = World::with(capacity(PREEMPT, "guaranteeThreshold: 100"));
    world.node(&node("n1").cards("A", 16).offers("cpu", "400"));
    let quota = plain("a").quota(r#"{"A": 8}"#).deserved_cards(r#"{"A": 8}"#);
    world.queue(&quota.capability("cpu", "88").deserved("cpu", "88"));
    let with_cpu = |name: String| pod(&name).queue("a").requests("cpu", "1");
    let with_card = (0..8).map(|index| with_cpu(format!("card-{index}")).asks("A", 1).created(0));
    world.pods(with_card.map(|pod| pod.assigned("A").on("n1")));
    let without = (0..80).map(|index| with_cpu(format!("cpu-{index}")).created(10).on("n1"));
    world.pods(without);
    world.pod(&with_cpu("urgent".to_owned()).asks("A", 1).priority(10));
    world.wait(20);
    assert_eq!(victims(&mut world), ["card-0"]);
}

/// Under `admitOn: quota` no node is looked at, where they would be found as well.
#[test]
fn a_queue_that_borrows_gives_back_behind_the_many_that_may_keep_what_they_have() {
    let mut configuration = (*capacity(RECLAIM, "guaranteeThreshold: 100, enableHierarchy: true")).clone();
    configuration.cardgate.admit_on = crds::configuration::AdmitOn::Quota;
    let mut world = World::with(configuration.into());
    world.node(&node("n1").cards("A", 200).offers("cpu", "1000"));
    world.queue(&plain("all").quota(r#"{"A": 200}"#));
    let of_all = |name: &str, cards: &str| plain(name).parent("all").deserved_cards(cards).deserved("cpu", "100");
    // It has more CPU than it deserves, and no more cards.
    world.queue(&of_all("b", r#"{"A": 100}"#));
    world.queue(&of_all("c", r#"{"A": 50}"#));
    world.queue(&of_all("a", r#"{"A": 50}"#));
    let with_cpu = |queue: &str, index: usize, cpu: &str| worker(queue, index).requests("cpu", cpu);
    let of_c = (0..100).map(|index| with_cpu("c", index, "0").created(0));
    let of_b = (0..100).map(|index| with_cpu("b", index, "2").created(10));
    world.pods(of_c.chain(of_b).map(|pod| pod.assigned("A").on("n1")));
    world.pod(&with_cpu("a", 0, "1"));
    world.wait(20);
    let [victim] = &victims(&mut world)[..] else {
        panic!("one")
    };
    assert!(victim.starts_with("c-"), "{victim}");
}

/// Each of them is counted as gone for the look, and put back after it.
#[test]
fn who_is_on_the_way_out_counts_among_the_steps_of_a_look() {
    const LEAVING: usize = 200;
    let mut world = World::with(capacity(RECLAIM, ""));
    world.node(&node("n1").cards("A", 8));
    world.node(&node("n2").offers("cpu", "4000").offers("pods", "4000"));
    for name in ["a", "b"] {
        world.queue(&plain(name).deserved_cards(r#"{"A": 4}"#));
        world.pods((0..4).map(|index| worker(name, index).assigned("A").on("n1")));
    }
    let leaving = |index: usize| pod(&format!("leaving-{index}")).queue("a").ungated().on("n2");
    world.pods((0..LEAVING).map(leaving));
    world.pod(&worker("b", 9));
    let before = world.round();
    world.wait(1);
    world.pods((0..LEAVING).map(|index| leaving(index).deleted(100)));
    let round = world.round();
    assert_eq!((before.looks, round.looks), (1, 1));
    let more = round.steps - before.steps;
    let leaving = u64::try_from(LEAVING).unwrap();
    assert!((64 * leaving..128 * leaving).contains(&more), "{more} steps");
}

/// Nobody on the node gives anything back: of all others each is drawn in vain.
#[test]
fn who_is_drawn_in_vain_counts_among_the_steps_of_a_look() {
    const HELD: usize = 1000;
    const ASKING: usize = 10;
    let mut world = World::with(capacity(RECLAIM, ""));
    world.node(&node("full").offers("cpu", "8"));
    world.node(&node("n1").offers("cpu", "4000").offers("pods", "4000"));
    world.queue(&plain("a").deserved("cpu", "0"));
    world.queue(&plain("b").deserved("cpu", "100"));
    world.pod(&bare_pod("foreign").requests("cpu", "8").on("full"));
    world.pods((0..HELD).map(|index| pod(&format!("a-{index}")).queue("a").requests("cpu", "1").on("n1")));
    let asking = |index: usize| {
        pod(&format!("b-{index}"))
            .queue("b")
            .requests("cpu", &format!("{}m", 1001 + index))
    };
    world.pods((0..ASKING).map(|index| asking(index).pinned_to("full")));
    let round = world.round();
    assert!(round.actions.is_empty(), "{:?}", round.actions);
    let drawn = u64::try_from(HELD * ASKING).unwrap();
    assert!((drawn..10 * drawn).contains(&round.steps), "{}", round.steps);
}
