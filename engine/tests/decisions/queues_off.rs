//! Configurations that list plugins and none that rules queues, as the mGPU document's own: queues limit nothing, and everything else
//! goes on (docs/rules.md, **Queues**).

use std::sync::Arc;

use crds::configuration::Configuration;
use engine::overview::Shown;

use crate::world::{GPU, World, bare_queue, group, node, pod, queue};

/// The configuration of the mGPU document, with hierarchy-minded actions.
const MGPU: &str = "
actions: \"reclaim, allocate, backfill, preempt\"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins:
  - name: drf
  - name: predicates
    arguments: {predicate.MGPUEnable: true, predicate.MGPUPolicy: binpack}
  - name: proportion
  - name: nodeorder";

fn world() -> World {
    let parsed = Configuration::parse(Some(MGPU), None).unwrap();
    let mut world = World::with(Arc::new(parsed.configuration));
    world.node(&node("n1").cards("A", 8));
    world
}

#[test]
fn neither_what_a_queue_does_not_name_nor_what_it_names_is_a_limit() {
    let mut world = world();
    world.queue(&bare_queue("empty"));
    world.queue(&queue("small").quota(r#"{"A": 1}"#).capability("cpu", "1"));
    world.pods([
        pod("in-empty").queue("empty").asks("A", 2),
        pod("in-small").queue("small").asks("A", 4).requests("cpu", "2"),
    ]);
    assert_eq!(world.admit_names(), ["in-empty", "in-small"]);
    assert_eq!(world.allocated("small", "A"), 4, "it is counted all the same");
}

/// What a queue says of cards would else keep its pods from all others, and from having cards of two vendors.
#[test]
fn who_names_no_card_goes_to_any() {
    let mut world = world();
    world.node(&node("n2").cards("H", 8).offers("amd.com/gpu", "8"));
    world.queue(&queue("small").quota(r#"{"A": 1}"#));
    world.pod(&pod("holder").queue("small").asks("A", 8));
    assert_eq!(world.admit_names(), ["holder"]);
    world.pods([
        pod("any").queue("small").requests(GPU, "1"),
        pod("both")
            .queue("small")
            .requests(GPU, "1")
            .requests("amd.com/gpu", "1"),
    ]);
    assert_eq!(world.admit_names(), ["any", "both"]);
}

#[test]
fn what_is_guaranteed_to_others_is_not_kept_free_and_nobody_gives_back() {
    let mut world = world();
    world.queue(
        &queue("owner")
            .guaranteed_cards(r#"{"A": 8}"#)
            .deserved_cards(r#"{"A": 8}"#),
    );
    world.queue(&bare_queue("other"));
    world.pod(&pod("borrows").queue("other").asks("A", 8));
    assert_eq!(world.admit_names(), ["borrows"]);
    world.seen_admitted(
        &pod("borrows").queue("other").asks("A", 8).on("n1"),
        "borrows",
        Some("A"),
    );
    world.pod(&pod("owns").queue("owner").asks("A", 1));
    assert_eq!(world.refusal_of("owns"), "NoNodeFits");
}

#[test]
fn groups_are_still_all_or_nothing() {
    let mut world = world();
    world.queue(&bare_queue("empty"));
    world.group(&group("g", 3).queue("empty"));
    world.pods(["a", "b", "c"].map(|name| pod(name).queue("empty").of("g").asks("A", 3)));
    assert_eq!(world.admit_names(), [""; 0]);
    world.node(&node("n2").cards("A", 3));
    assert_eq!(world.admit_names().len(), 3);
}

#[test]
fn a_queue_above_what_the_cluster_has_is_no_problem() {
    let mut world = world();
    world.queue(&queue("large").guaranteed_cards(r#"{"A": 100}"#).quota(r#"{"A": 400}"#));
    assert_eq!(world.admit_names(), [""; 0]);
    let shown = world.shown();
    let usage = shown.iter().find_map(|shown| match shown {
        Shown::Usage { queue, status, .. } if &**queue == "large" => status.as_ref(),
        _ => None,
    });
    assert_eq!(usage.unwrap().problems, "");
}
