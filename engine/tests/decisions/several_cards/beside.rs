//! Pods that claim cards and request others beside them, by a resource that device plugins count.

use engine::amounts::Dimension;

use super::*;
use crate::devices::imagined::imagined;
use crate::world::PRODUCT;

pub const AMD: &str = "gpu.amd.com";

/// Devices of AMD's, of one product.
pub fn amds(product: &str, count: usize) -> Value {
    let device = |index| json!({"name": format!("gpu-{index}"), "attributes": {"productName": {"string": product}}});
    (0..count).map(device).collect()
}

pub fn claim_of(count: i64, product: &str) -> Value {
    let selector = format!("device.attributes['{AMD}'].productName == '{product}'");
    json!([{"name": "r", "exactly": {"deviceClassName": AMD, "count": count, "selectors": [{"cel": {"expression": selector}}]}}])
}

/// What was given of AMD's on a node.
fn given(node: &str, count: usize) -> Value {
    let result = |index| json!({"request": "r", "driver": AMD, "pool": node, "device": format!("gpu-{index}")});
    json!({"allocation": {"devices": {"results": (0..count).map(result).collect::<Value>()}}})
}

fn furnished(world: &mut World) {
    world.class(AMD, &format!("device.driver == '{AMD}'"), None);
    world.node(&node("n1").cards("A", 2));
    world.slice("n1", AMD, &amds("M", 2));
    world.node(&node("n2").cards("A", 4));
    world.node(&node("n3"));
    world.slice("n3", AMD, &amds("M", 4));
    world.queue(&queue("team-a").quota(r#"{"A": 2, "M": 2}"#));
}

/// A node with two `A` by a device plugin and two `M` by devices, and two with four of one alone.
fn both() -> World {
    with_settings("unnamedCards: charge")
}

fn with_settings(settings: &str) -> World {
    let mut world = World::with(configuration("", settings));
    furnished(&mut world);
    world
}

/// A pod that claims so many `M`, and requests so many `A`.
fn asking(world: &mut World, name: &str, claimed: i64, requested: i64) -> Object {
    let claim = format!("{name}-gpu");
    world.claim(&claim, &claim_of(claimed, "M"), &json!({}));
    claiming(pod(name), &claim).requests(GPU, &requested.to_string())
}

fn comes(world: &mut World, name: &str, claimed: i64, requested: i64) -> Object {
    let pod = asking(world, name, claimed, requested);
    world.pod(&pod);
    pod
}

pub fn charged(world: &World) -> (i128, i128) {
    (world.allocated("team-a", "A"), world.allocated("team-a", "M"))
}

/// What a card is counted by on nodes.
fn by_resource(world: &World, card: &str) -> Dimension {
    let card = world.cluster.names().known_card(card).unwrap();
    Dimension::Resource(world.cluster.resource_of(card).unwrap())
}

pub fn on(world: &World, name: &str) -> Option<String> {
    let room = world.known(name).room?;
    Some(world.cluster.node(room).name.to_string())
}

#[test]
fn both_are_charged_and_the_pod_goes_where_both_are() {
    let mut world = both();
    comes(&mut world, "p1", 2, 1);
    let admissions = world.admissions();
    let [first] = admissions.as_slice() else {
        panic!("{admissions:?}")
    };
    assert_eq!(first.card.as_deref(), Some(r#"{"A":1,"M":2}"#));
    let labels: Vec<_> = first.narrow.iter().map(|(key, _)| key.as_str()).collect();
    assert!(
        labels
            .iter()
            .any(|label| label.starts_with("device.card.volcano.sh/m-"))
            && labels.contains(&PRODUCT),
        "{labels:?}"
    );
    assert_eq!((charged(&world), on(&world, "p1").as_deref()), ((1, 2), Some("n1")));
    // Each under its own quota.
    comes(&mut world, "p2", 1, 1);
    assert_eq!(world.refusal_of("p2"), "InsufficientScalarQuota");
    assert_eq!(told(&mut world), ["queue team-a: M asked 1, used 2, quota 2"]);
    world.queue(&queue("team-a").quota(r#"{"A": 1, "M": 9}"#));
    assert_eq!(world.refusal_of("p2"), "InsufficientScalarQuota");
    // One A is free where both are, and no M.
    world.queue(&queue("team-a").quota(r#"{"A": 9, "M": 9}"#));
    assert_eq!(world.refusal_of("p2"), "NoNodeFits");
    world.remove_pod("p1");
    world.remove_claim("p1-gpu");
    assert_eq!(charged(&world), (0, 0));
    assert_eq!(world.admit(), [admitted("p2", r#"{"A":1,"M":1}"#)]);
    // Two M and one A would be there, but for the A of whoever requests it alone.
    world.pod(
        &pod("p3")
            .annotation("volcano.sh/card.name", "A")
            .requests(GPU, "1")
            .selects("kubernetes.io/hostname", "n1"),
    );
    world.node(&node("n1").cards("A", 2).label("kubernetes.io/hostname", "n1"));
    assert_eq!(world.admit(), [admitted("p3", "A")]);
    comes(&mut world, "p4", 1, 1);
    assert_eq!(world.refusal_of("p4"), "NoNodeFits");
}

#[test]
fn the_annotation_or_the_queue_says_which_card_is_requested() {
    let mut world = both();
    world.node(&node("n4").cards("B", 2));
    world.slice("n4", AMD, &amds("M", 2));
    world.queue(&queue("team-a").quota(r#"{"A": 1, "B": 2, "M": 9}"#));
    // Most free quota first.
    comes(&mut world, "p1", 1, 1);
    assert_eq!(world.admit(), [admitted("p1", r#"{"B":1,"M":1}"#)]);
    for (name, cards, let_in) in [
        ("p2", "A", r#"{"A":1,"M":1}"#),
        ("p3", "A|B", r#"{"B":1,"M":1}"#),
        ("p4", "M|B", ""),
    ] {
        let pod = asking(&mut world, name, 1, 1).annotation("volcano.sh/card.name", cards);
        world.pod(&pod);
        match let_in {
            "" => assert_eq!(world.refusal_of(name), "InsufficientScalarQuota"),
            let_in => assert_eq!(world.admit(), [admitted(name, let_in)]),
        }
    }
    // One that neither the claims nor any node has may come.
    let pod = asking(&mut world, "p5", 1, 1).annotation("volcano.sh/card.name", "X");
    world.pod(&pod);
    assert_eq!(world.refusal_of("p5"), "GetTaskRequestResourceFailed");
    world.queue(&queue("team-a").quota(r#"{"X": 1, "M": 9}"#));
    world.node(&node("n5").cards("X", 1));
    world.slice("n5", AMD, &amds("M", 1));
    assert_eq!(world.admit(), [admitted("p5", r#"{"M":1,"X":1}"#)]);
    // And a queue that has a quota for none says so.
    world.queue(&queue("team-a").quota(r#"{"M": 9}"#));
    comes(&mut world, "p6", 1, 1);
    assert_eq!(world.refusal_of("p6"), "NoCardQuota");
}

#[test]
fn unnamed_cards_beside_claims_are_as_free_as_any_others() {
    let mut world = with_settings("unnamedCards: free");
    comes(&mut world, "p1", 1, 1);
    assert_eq!(world.admit(), [admitted("p1", "M")]);
    assert_eq!(charged(&world), (0, 1));
    assert_eq!(on(&world, "p1").as_deref(), Some("n1"), "where it can be had");
    let pod = asking(&mut world, "p2", 1, 1).annotation("volcano.sh/card.name", "A");
    world.pod(&pod);
    assert_eq!(world.admit(), [admitted("p2", r#"{"A":1,"M":1}"#)]);
    let mut strict = with_settings("unnamedCards: deny");
    comes(&mut strict, "p1", 1, 1);
    assert_eq!(strict.refusal_of("p1"), "CardNameMissing");
}

#[test]
fn whoever_asks_is_answered_what_then_happens() {
    let mut world = both();
    let shared = |count| asking_by_name(pod("p"), count);
    world.claim("mine", &claim_of(1, "M"), &json!({}));
    for (requested, expected) in [
        (1, [].as_slice()),
        (2, &[]),
        (3, &["InsufficientScalarQuota", "NoNodeFits"]),
    ] {
        let status = imagined(&mut world, &shared(requested));
        let reasons: Vec<_> = status.blocks.iter().map(|block| block.reason.as_str()).collect();
        assert_eq!(
            (status.admitted, &*reasons),
            (expected.is_empty(), expected),
            "{requested}: {status:?}"
        );
    }
    // And whoever waits where no node has both.
    world.node(&node("n1"));
    world.queue(&queue("team-a").quota(r#"{"A": 9, "M": 9}"#));
    comes(&mut world, "p1", 1, 1);
    assert_eq!(world.refusal_of("p1"), "NoNodeFits");
    assert_eq!(
        told(&mut world),
        [
            "no node can take the pod now: 0 nodes with A by a device plugin and M as devices: none; waiting can't help: ask for less in one pod, or have a \
          larger node added"
        ]
    );
}

fn asking_by_name(pod: Object, requested: i64) -> Object {
    let pod = pod.requests(GPU, &requested.to_string());
    pod.set(
        ["spec", "resourceClaims"],
        json!([{"name": "gpu", "resourceClaimName": "mine"}]),
    )
}

/// Cards of several resources nobody could be charged for.
#[test]
fn of_two_resources_beside_claims_neither_is_charged() {
    let mut world = both();
    world.node(&node("n1").cards("A", 2).offers("nvidia.com/mig-1g.5gb", "2"));
    let pod = asking(&mut world, "p1", 1, 1).requests("nvidia.com/mig-1g.5gb", "1");
    world.pod(&pod);
    assert_eq!(world.refusal_of("p1"), "SecondCardResource");
    let message = told(&mut world).remove(0);
    assert!(
        message.contains("nvidia.com/gpu and nvidia.com/mig-1g.5gb beside those that it claims"),
        "{message}"
    );
}

/// What is claimed is what is allocated; what is requested beside it is what was written.
#[test]
fn what_was_given_to_the_claims_is_charged_beside_what_is_requested() {
    let mut world = both();
    let pod = comes(&mut world, "p1", 1, 2);
    let written = r#"{"A":2,"M":1}"#;
    assert_eq!(world.admit(), [admitted("p1", written)]);
    world.seen_admitted(&pod, "p1", Some(written));
    assert_eq!(charged(&world), (2, 1));
    world.cluster.take_changes();
    world.claim("p1-gpu", &claim_of(1, "M"), &given("n1", 1));
    assert_eq!(charged(&world), (2, 1));
    assert!(
        world.cluster.take_changes().got_others.is_empty(),
        "what it was let in for"
    );
    world.pod(&pod.clone().assigned(written).on("n1"));
    assert_eq!(charged(&world), (2, 1));
    // Whoever starts now counts the same, whatever it hears first.
    let runs = claiming(
        bare_pod("p1").queue("team-a").requests(GPU, "2").assigned(written),
        "p1-gpu",
    )
    .on("n1");
    for pod_first in [true, false] {
        for is_given in [true, false] {
            let status = if is_given { given("n1", 1) } else { json!({}) };
            let mut later = World::with(configuration("", "unnamedCards: charge"));
            if pod_first {
                later.pod(&runs);
                later.claim("p1-gpu", &claim_of(1, "M"), &status);
                furnished(&mut later);
            } else {
                furnished(&mut later);
                later.claim("p1-gpu", &claim_of(1, "M"), &status);
                later.pod(&runs);
            }
            assert_eq!(charged(&later), (2, 1), "the pod first: {pod_first}; given: {is_given}");
            let gpus = later.cluster.node(later.known("p1").room.unwrap());
            assert_eq!(gpus.used.get(by_resource(&later, "A")), 2);
            // And while its claim is away.
            later.remove_claim("p1-gpu");
            assert_eq!(charged(&later), (2, 1), "the pod first: {pod_first}; given: {is_given}");
        }
    }
}

/// Pods that ran before Cardgate came count for the card of their node.
#[test]
fn who_was_not_let_in_counts_for_what_the_node_has() {
    for claim_first in [true, false] {
        let mut world = World::with(configuration("", "unnamedCards: charge"));
        let runs = claiming(bare_pod("p1").queue("team-a").requests(GPU, "2"), "p1-gpu").on("n1");
        if claim_first {
            furnished(&mut world);
            world.claim("p1-gpu", &claim_of(1, "M"), &given("n1", 1));
            world.pod(&runs);
        } else {
            world.pod(&runs);
            world.claim("p1-gpu", &claim_of(1, "M"), &given("n1", 1));
            furnished(&mut world);
        }
        assert_eq!(charged(&world), (2, 1));
    }
}

#[test]
fn claims_that_got_other_cards_are_said_to_have() {
    let mut world = both();
    let pod = comes(&mut world, "p1", 1, 1);
    let written = r#"{"A":1,"M":1}"#;
    assert_eq!(world.admit(), [admitted("p1", written)]);
    world.seen_admitted(&pod, "p1", Some(written));
    world.cluster.take_changes();
    // One more than the claim said.
    world.claim("p1-gpu", &claim_of(1, "M"), &given("n1", 2));
    assert_eq!(charged(&world), (1, 2));
    let changes = world.cluster.take_changes();
    let [(uid, was)] = changes.got_others.as_slice() else {
        panic!("{:?}", changes.got_others)
    };
    let (_, message) = got_others(&world.cluster, uid, was).unwrap();
    assert_eq!(
        message,
        "let in for 1 A and 1 M, and its resource claims got 1 A and 2 M: queue team-a is charged for what they got"
    );
}

/// As [`super::super::devices`] has it of claims alone: a claim made anew for the card that is requested beside it.
#[test]
fn a_claim_made_anew_for_the_card_that_is_requested_is_more_than_it_was() {
    let mut world = both();
    // The same card is there both ways.
    world.node(&node("n4").cards("M", 2).offers("amd.com/gpu", "0"));
    let pod = comes(&mut world, "p1", 1, 2);
    let written = r#"{"A":2,"M":1}"#;
    assert_eq!(world.admit(), [admitted("p1", written)]);
    world.seen_admitted(&pod, "p1", Some(written));
    world.remove_claim("p1-gpu");
    world.claim("p1-gpu", &claim_of(3, "M"), &json!({}));
    assert_eq!(charged(&world), (2, 3));
    let actions = world.decide();
    let [Action::SendBack { message, .. }] = actions.as_slice() else {
        panic!("{actions:?}")
    };
    assert!(
        message.contains("for 2 A and 3 M, which queue team-a has no quota for"),
        "{message}"
    );
}

#[test]
fn gangs_hierarchies_and_capacity_count_both() {
    let mut world = both();
    world.group(&group("g", 2));
    for name in ["g1", "g2"] {
        let pod = asking(&mut world, name, 1, 1);
        world.pod(&pod.of("g"));
    }
    world.queue(&queue("team-a").quota(r#"{"A": 1, "M": 2}"#));
    assert_eq!(world.admit_names(), [""; 0]);
    world.queue(&queue("team-a").quota(r#"{"A": 2, "M": 2}"#));
    assert_eq!(world.admit_names(), ["g1", "g2"]);
    assert_eq!(charged(&world), (2, 2));

    let mut world = World::with(queue_plugin("capacity-card", "allocate", "enableHierarchy: true"));
    furnished(&mut world);
    world.queue(&queue("above").quota(r#"{"A": 1, "M": 9}"#));
    world.queue(&queue("team-a").parent("above").quota(r#"{"A": 2, "M": 2}"#));
    comes(&mut world, "p1", 1, 1);
    comes(&mut world, "p2", 1, 1);
    assert_eq!(world.admissions().len(), 1);
    assert_eq!(
        told(&mut world),
        ["queue above, of which queue team-a is a part: A asked 1, used 1, quota 1"]
    );

    // Where cards of both ways are counted by one resource, all of them are.
    let mut world = with_class(World::with(queue_plugin("capacity", "allocate", "")));
    world.class(NVIDIA, "device.driver == 'gpu.nvidia.com'", None);
    world.node(&node("n1").cards("A", 4));
    world.slice("n1", NVIDIA, &mixed(&[("B", 2)]));
    for (quota, lets_in) in [("1", false), ("2", true)] {
        world.queue(&queue("team-a").capability(GPU, quota));
        let pod = claims(&mut world, "p1", &each(&[("B", 1)])).requests(GPU, "1");
        world.pod(&pod);
        assert_eq!(!world.admissions().is_empty(), lets_in, "{quota}");
    }
    let charge = world.known("p1").charge.as_ref().unwrap();
    assert_eq!(charge.amounts.get(by_resource(&world, "A")), 2);
}

#[test]
fn what_is_borrowed_is_taken_back_for_either() {
    for borrowed in ["A", "M"] {
        let mut world = World::with(queue_plugin(
            "capacity",
            "enqueue, allocate, reclaim",
            "guaranteeThreshold: 100",
        ));
        furnished(&mut world);
        world.remove_node("n2", world.now);
        world.remove_node("n3", world.now);
        world.remove_slice("n3", AMD);
        world.queue(&queue("lends").deserved_cards(r#"{"A": 2, "M": 2}"#));
        world.queue(&queue("borrows").deserved_cards(r#"{"A": 0, "M": 0}"#));
        let holder = if borrowed == "A" {
            pod("holder").queue("borrows").asks("A", 2)
        } else {
            world.claim("holder-gpu", &claim_of(2, "M"), &json!({}));
            claiming(pod("holder").queue("borrows"), "holder-gpu")
        };
        world.pod(&holder);
        let admissions = world.admit();
        let written = admissions[0].1.clone();
        world.seen_admitted(&holder, "holder", written.as_deref());
        if borrowed == "M" {
            world.claim("holder-gpu", &claim_of(2, "M"), &given("n1", 2));
        }
        world.pod(&holder.clone().assigned(written.as_deref().unwrap()).on("n1"));
        let both = asking(&mut world, "p", 1, 1).queue("lends");
        world.pod(&both);
        let actions = world.decide();
        let [Action::Evict(eviction)] = actions.as_slice() else {
            panic!("{borrowed}: {actions:?}")
        };
        let victims: Vec<_> = eviction.victims.iter().map(|victim| &*victim.pod.name).collect();
        assert_eq!(victims, ["holder"], "{borrowed}");
    }
}

/// A claim that leaves several cards could be given the one that is requested beside it: then there would be two of that.
#[test]
fn what_claims_could_be_given_is_not_what_is_requested() {
    let mut world = both();
    let (one, other) = (amds("A", 2), amds("M", 2));
    let mut devices = other.as_array().unwrap().clone();
    devices.extend(one.as_array().unwrap().iter().map(|device| {
        let mut device = device.clone();
        device["name"] = format!("a-{}", device["name"].as_str().unwrap()).into();
        device
    }));
    // Device plugin and devices of the same product, and others.
    world.slice("n1", AMD, &devices.into());
    world.queue(&queue("team-a").quota(r#"{"A": 1, "M": 2}"#));
    world.claim(
        "p1-gpu",
        &json!([{"name": "r", "exactly": {"deviceClassName": AMD}}]),
        &json!({}),
    );
    let pod = claiming(pod("p1"), "p1-gpu").requests(GPU, "1");
    world.pod(&pod);
    assert!(world.admissions().is_empty());
    assert_eq!(world.allocated("team-a", "A"), 0);
}

/// Where a class provides what a device plugin hands out too, the scheduler takes that of the plugin: another card than is charged.
#[test]
fn a_card_of_a_device_plugin_is_not_had_on_the_quota_of_devices() {
    let mut world = with_class(World::with(configuration("", "unnamedCards: charge")));
    world.node(&node("n1").cards("A", 2));
    world.slice("n1", NVIDIA, &mixed(&[("B", 2)]));
    world.queue(&queue("team-a").quota(r#"{"B": 4}"#));
    world.pod(&pod("p1").asks("B", 1));
    assert_eq!(world.refusal_of("p1"), "NodesExcluded");
    let beside = claims(&mut world, "p2", &each(&[("B", 1)])).requests(GPU, "1");
    world.pod(&beside);
    assert_eq!(world.refusal_of("p2"), "NodesExcluded");
    world.node(&node("n2"));
    world.slice("n2", NVIDIA, &mixed(&[("B", 3)]));
    let mut all = world.admit();
    all.sort();
    assert_eq!(all, [admitted("p1", "B"), admitted("p2", r#"{"B":2}"#)]);
}
