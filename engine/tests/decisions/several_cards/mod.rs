//! Pods that are charged for several cards at once: claims for different cards, and alternatives of different numbers.

mod properties;

use engine::alternative::Alternative;
use engine::decide::Action;
use engine::explain::got_others;
use serde_json::{Value, json};

use crate::devices::{NVIDIA, allocated as allocated_on, claiming, gpus, request};
use crate::world::{GPU, Object, World, bare_pod, configuration, group, node, pod, queue, queue_plugin};

const A: &str = "device.card.volcano.sh/a-c40bf6cc";
const B: &str = "device.card.volcano.sh/b-c70bfb85";

/// Devices of several products on one node: so many of each.
fn mixed(products: &[(&str, usize)]) -> Value {
    let mut devices = Vec::new();
    for (product, count) in products {
        for device in gpus(product, *count).as_array().unwrap() {
            let mut device = device.clone();
            device["name"] = format!("{}-{}", product.to_lowercase(), device["name"].as_str().unwrap()).into();
            devices.push(device);
        }
    }
    devices.into()
}

/// Requests, each for so many of one product.
fn each(wanted: &[(&str, i64)]) -> Value {
    let requests = wanted.iter().enumerate();
    let requests = requests.map(|(index, (product, count))| json!({"name": format!("r{index}"), "exactly": request(NVIDIA, *count, Some(product))}));
    requests.collect()
}

/// A request for the first of these that is there: so many of one product each.
fn first_of(name: &str, wanted: &[(&str, i64)]) -> Value {
    let forms = wanted.iter().enumerate();
    let forms = forms.map(|(index, (product, count))| {
        let mut form = request(NVIDIA, *count, Some(product));
        form["name"] = format!("s{index}").into();
        form
    });
    json!({"name": name, "firstAvailable": forms.collect::<Value>()})
}

fn with_class(mut world: World) -> World {
    let is_gpu = "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'gpu'";
    world.class(NVIDIA, is_gpu, Some(GPU));
    world
}

/// A node with four `A` and two `B`, one with four `A`, and one with four `B`.
fn world() -> World {
    let mut world = with_class(World::with(configuration("", "unnamedCards: charge")));
    for (name, devices) in [
        ("n1", mixed(&[("A", 4), ("B", 2)])),
        ("n2", mixed(&[("A", 4)])),
        ("n3", mixed(&[("B", 4)])),
    ] {
        world.node(&node(name));
        world.slice(name, NVIDIA, &devices);
    }
    world.queue(&queue("team-a").quota(r#"{"A": 5, "B": 4}"#));
    world
}

/// A pod with one claim of these requests.
fn claims(world: &mut World, name: &str, requests: &Value) -> Object {
    let claim = format!("{name}-gpu");
    world.claim(&claim, requests, &json!({}));
    claiming(pod(name), &claim)
}

fn add(world: &mut World, name: &str, requests: &Value) {
    let pod = claims(world, name, requests);
    world.pod(&pod);
}

fn admitted(name: &str, cards: &str) -> (String, Option<String>) {
    (name.to_owned(), Some(cards.to_owned()))
}

fn held(world: &World, queue: &str) -> (i128, i128) {
    (world.allocated(queue, "A"), world.allocated(queue, "B"))
}

fn told(world: &mut World) -> Vec<String> {
    world.notices().into_iter().map(|notice| notice.message).collect()
}

#[test]
fn a_pod_is_charged_for_every_card_that_its_claims_select() {
    let mut world = world();
    add(&mut world, "p1", &each(&[("A", 2), ("B", 1)]));
    let admissions = world.admissions();
    let [first] = admissions.as_slice() else {
        panic!("{admissions:?}")
    };
    assert_eq!(first.card.as_deref(), Some(r#"{"A":2,"B":1}"#));
    let labels: Vec<_> = first.narrow.iter().map(|(key, _)| key.as_str()).collect();
    assert!(
        labels.contains(&A) && labels.len() == 2,
        "to nodes that have both: {labels:?}"
    );
    let on = world
        .known("p1")
        .room
        .map(|node| world.cluster.node(node).name.to_string());
    assert_eq!((held(&world, "team-a"), on.as_deref()), ((2, 1), Some("n1")));
    // The queue has enough of A, and not of B.
    add(&mut world, "p2", &each(&[("A", 1), ("B", 4)]));
    assert_eq!(world.refusal_of("p2"), "InsufficientScalarQuota");
    assert_eq!(told(&mut world), ["queue team-a: B asked 4, used 1, quota 4"]);
    world.remove_pod("p1");
    world.remove_claim("p1-gpu");
    assert_eq!(held(&world, "team-a"), (0, 0));
    // And there is no node with so many of both.
    assert_eq!(world.refusal_of("p2"), "NoNodeFits");
    assert_eq!(
        told(&mut world),
        [
            "no node can take the pod now: 1 node with A and B: 1 without free devices as the pod claims them; waiting can't help: ask for less in one pod, or \
          have a larger node added"
        ]
    );
}

#[test]
fn each_card_of_a_node_is_counted_for_itself() {
    let mut world = world();
    world.queue(&queue("team-a").quota(r#"{"A": 20, "B": 20}"#));
    add(&mut world, "p1", &each(&[("A", 3), ("B", 1)]));
    assert_eq!(world.admit(), [admitted("p1", r#"{"A":3,"B":1}"#)]);
    // One A and one B are free where both are, in all four devices beside others' five.
    add(&mut world, "p2", &each(&[("A", 2), ("B", 1)]));
    assert_eq!(world.refusal_of("p2"), "NoNodeFits");
    add(&mut world, "p3", &each(&[("A", 1), ("B", 1)]));
    assert_eq!(world.admit(), [admitted("p3", r#"{"A":1,"B":1}"#)]);
    let tally = |card: &str| {
        let id = world.cluster.names().known_card(card).unwrap();
        let tallies: Vec<_> = world.cluster.card(id).unwrap().tallies.values().collect();
        (tallies[0].total, tallies[0].used, tallies[0].free)
    };
    assert_eq!((tally("A"), tally("B")), ((8, 4, 4), (6, 2, 4)));
}

#[test]
fn alternatives_may_be_of_different_numbers() {
    let mut world = world();
    let forms = json!([first_of("r", &[("A", 2), ("B", 3)])]);
    for name in ["p1", "p2", "p3", "p4"] {
        add(&mut world, name, &forms);
    }
    let mut all = world.admit();
    all.sort();
    assert_eq!(
        all,
        [
            admitted("p1", r#"{"A":2}"#),
            admitted("p2", r#"{"A":2}"#),
            admitted("p3", r#"{"B":3}"#)
        ]
    );
    assert_eq!(held(&world, "team-a"), (4, 3));
    assert_eq!(world.refusal_of("p4"), "InsufficientScalarQuota");
    assert_eq!(
        told(&mut world),
        ["queue team-a: A asked 2, used 4, quota 5; B asked 3, used 3, quota 4"]
    );
    // Of one card alone the number has to be written.
    world.queue(&queue("team-b").quota(r#"{"A": 3}"#));
    let fewer = claims(&mut world, "p5", &json!([first_of("r", &[("A", 4), ("A", 2)])]));
    world.pod(&fewer.queue("team-b"));
    // Where there are four, the scheduler would give four.
    assert_eq!(world.refusal_of("p5"), "NodesExcluded");
    assert_eq!(
        told(&mut world),
        [
            "the pod excludes every node that has what it asks for: 2 nodes with A: 2 without enough room; 2 nodes with A: 2 where the pod's \
          claims select other cards too, or more of them: select the cards themselves"
        ]
    );
    world.node(&node("n4"));
    world.slice("n4", NVIDIA, &mixed(&[("A", 3)]));
    let admissions = world.admissions();
    let [admission] = admissions.as_slice() else {
        panic!("{admissions:?}")
    };
    assert_eq!(admission.card.as_deref(), Some(r#"{"A":2}"#));
    assert_eq!(admission.pin.as_ref().map(|pin| &*pin.node), Some("n4"));
}

/// What the scheduler gives where a node has several cards that the claims select, nobody knows before.
#[test]
fn what_could_be_another_card_goes_where_that_is_not() {
    let any = json!([{"name": "any", "exactly": request(NVIDIA, 1, None)}]);
    let either = json!([first_of("r", &[("B", 1), ("A", 1)])]);
    for (requests, names) in [(any, Some("A")), (either, None)] {
        let mut world = with_class(World::with(configuration("", "unnamedCards: charge")));
        world.node(&node("n1"));
        world.slice("n1", NVIDIA, &mixed(&[("A", 4), ("B", 2)]));
        world.queue(&queue("team-a").quota(r#"{"A": 1, "B": 0}"#));
        let pod = claims(&mut world, "p", &requests);
        world.pod(&match names {
            Some(names) => pod.annotation("volcano.sh/card.name", names),
            None => pod,
        });
        assert_eq!(world.refusal_of("p"), "NodesExcluded");
        // Nor where several nodes have it, and the scheduler chooses among them.
        world.node(&node("n2"));
        world.slice("n2", NVIDIA, &mixed(&[("A", 4)]));
        let admissions = world.admissions();
        let [admission] = admissions.as_slice() else {
            panic!("{admissions:?}")
        };
        assert_eq!(admission.card.as_deref(), Some("A"));
        let avoided = admission.avoid.as_ref().map(|avoid| avoid.labels.clone());
        assert_eq!(avoided, Some(vec![B.to_owned()]));
        assert_eq!(admission.pin, None);
    }
}

/// By the resource that a class provides, where it is that of the cards themselves.
#[test]
fn what_a_class_provides_may_be_any_card_of_a_node_too() {
    let mut world = with_class(World::with(configuration("", "")));
    world.node(&node("n1"));
    world.slice("n1", NVIDIA, &mixed(&[("A", 4), ("B", 2)]));
    world.queue(&queue("team-a").quota(r#"{"A": 4, "B": 0}"#));
    let by_resource = pod("p").queue("team-a").annotation("volcano.sh/card.name", "A");
    world.pod(&by_resource.requests(GPU, "1"));
    assert_eq!(world.refusal_of("p"), "NodesExcluded");
    world.node(&node("n2"));
    world.slice("n2", NVIDIA, &mixed(&[("A", 4)]));
    assert_eq!(world.admit(), [admitted("p", "A")]);
}

#[test]
fn several_requests_are_combined_leftmost_first() {
    let mut world = world();
    let requests = json!([
        first_of("r", &[("A", 1), ("B", 2)]),
        first_of("s", &[("B", 1), ("A", 2)])
    ]);
    add(&mut world, "p1", &requests);
    let alternatives: Vec<_> = world
        .known("p1")
        .task
        .alternatives
        .iter()
        .map(|alternative| alternative.said(world.cluster.names()))
        .collect();
    assert_eq!(alternatives, ["1 A and 1 B", "3 A", "3 B", "2 A and 2 B"]);
    // Seven ways for each of two requests are nine too many with a third of two.
    let two: Vec<_> = (0..7)
        .map(|request| first_of(&format!("r{request}"), &[("A", 1), ("B", 1)]))
        .collect();
    add(&mut world, "p2", &two.clone().into());
    assert_eq!(world.admit_names(), ["p1"]);
    assert_eq!(
        world.reason("p2").map(engine::reason::Reason::as_str),
        Some("TooManyAlternatives")
    );
    let message = told(&mut world).remove(0);
    assert!(message.contains("more than 62 ways"), "{message}");
    add(&mut world, "p3", &two[..5].to_vec().into());
    assert_eq!(
        world.known("p3").task.alternatives.len(),
        6,
        "those that come to the same are one"
    );
}

#[test]
fn the_annotation_chooses_among_what_each_request_leaves() {
    let mut world = world();
    let any = json!([{"name": "any", "exactly": request(NVIDIA, 1, None)}, first_of("r", &[("A", 2), ("B", 1)])]);
    let named = |world: &mut World, name: &str, cards: &str| {
        let pod = claims(world, name, &any).annotation("volcano.sh/card.name", cards);
        world.pod(&pod);
        let names = world.cluster.names();
        let alternatives = world.known(name).task.alternatives.iter();
        alternatives
            .map(|alternative| alternative.said(names))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        named(&mut world, "p1", "B|A"),
        ["2 B", "2 A and 1 B", "1 A and 1 B", "3 A"]
    );
    assert_eq!(named(&mut world, "p2", "A"), ["3 A"]);
    assert_eq!(named(&mut world, "p3", "C"), [""; 0]);
    world.admissions();
    assert_eq!(
        world.reason("p3").map(engine::reason::Reason::as_str),
        Some("NoClaimForCard")
    );
    // What one request leaves it does not choose: the others are as they are.
    let pod = claims(&mut world, "p4", &each(&[("A", 1), ("B", 1)])).annotation("volcano.sh/card.name", "A");
    world.pod(&pod);
    assert_eq!(world.known("p4").task.alternatives.len(), 1);
}

#[test]
fn where_nobody_names_cards_the_queue_does() {
    let mut world = world();
    let any = json!([{"name": "any", "exactly": request(NVIDIA, 1, None)}, {"name": "b", "exactly": request(NVIDIA, 2, Some("B"))}]);
    world.queue(&queue("team-a").quota(r#"{"A": 2, "B": 6}"#));
    for name in ["p1", "p2"] {
        add(&mut world, name, &any);
    }
    // Three B are on n3 alone; and one A and two B on n1, where the scheduler could give three B if it had them.
    let mut all = world.admit();
    all.sort();
    assert_eq!(all, [admitted("p1", r#"{"B":3}"#), admitted("p2", r#"{"A":1,"B":2}"#)]);
    world.queue(&queue("team-b").quota(r#"{"A": 2}"#));
    let pod = claims(&mut world, "p3", &any);
    world.pod(&pod.queue("team-b"));
    assert_eq!(world.refusal_of("p3"), "InsufficientScalarQuota", "it has no B");
}

#[test]
fn whole_cards_and_parts_of_cards_go_together() {
    let mut world = world();
    let is_mig = "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'mig'";
    world.class("mig", is_mig, None);
    let mig = json!({"name": "m0", "attributes": {"type": {"string": "mig"}, "productName": {"string": "A"},
        "profile": {"string": "1g.5gb"}}});
    let mut devices = mixed(&[("A", 2)]);
    devices.as_array_mut().unwrap().push(mig);
    world.node(&node("n4"));
    world.slice("n4", NVIDIA, &devices);
    world.queue(&queue("team-a").quota(r#"{"A": 5, "A/mig-1g.5gb-mixed": 1}"#));
    let both = json!([{"name": "a", "exactly": request(NVIDIA, 2, Some("A"))}, {"name": "m", "exactly": request("mig", 1, None)}]);
    add(&mut world, "p1", &both);
    add(&mut world, "p2", &both);
    assert_eq!(world.admit(), [admitted("p1", r#"{"A":2,"A/mig-1g.5gb-mixed":1}"#)]);
    assert_eq!(world.allocated("team-a", "A/mig-1g.5gb-mixed"), 1);
    assert_eq!(world.refusal_of("p2"), "InsufficientScalarQuota");
}

#[test]
fn all_devices_of_a_node_are_the_most_that_one_has_of_each_card() {
    let mut world = world();
    let all = json!([{"name": "r", "exactly": {"deviceClassName": NVIDIA, "allocationMode": "All"}}]);
    world.queue(&queue("team-a").quota(r#"{"A": 20, "B": 20}"#));
    add(&mut world, "p1", &all);
    let names = world.cluster.names();
    let alternatives = world.known("p1").task.alternatives.iter();
    let said: Vec<_> = alternatives.map(|alternative| alternative.said(names)).collect();
    assert_eq!(said, ["4 A", "4 A and 2 B", "4 B"]);
}

#[test]
fn what_was_allocated_is_charged_each_for_what_it_is_and_said_where_it_differs() {
    let mut world = world();
    add(&mut world, "p1", &each(&[("A", 2), ("B", 1)]));
    world.admissions();
    world.cluster.take_changes();
    let got = |devices: &[&str]| allocated_on("n1", devices);
    world.claim(
        "p1-gpu",
        &each(&[("A", 2), ("B", 1)]),
        &got(&["a-gpu-0", "a-gpu-1", "b-gpu-0"]),
    );
    assert_eq!(held(&world, "team-a"), (2, 1));
    assert!(
        world.cluster.take_changes().got_others.is_empty(),
        "what it was let in for"
    );
    // As it can be where selectors leave several.
    world.claim(
        "p2-gpu",
        &json!([{"name": "any", "exactly": request(NVIDIA, 2, None)}]),
        &json!({}),
    );
    world.pod(&claiming(pod("p2").annotation("volcano.sh/card.name", "A"), "p2-gpu"));
    assert_eq!(world.admit(), [admitted("p2", r#"{"A":2}"#)]);
    world.claim(
        "p2-gpu",
        &json!([{"name": "any", "exactly": request(NVIDIA, 2, None)}]),
        &got(&["a-gpu-2", "b-gpu-1"]),
    );
    assert_eq!(held(&world, "team-a"), (3, 2));
    let changes = world.cluster.take_changes();
    let [(uid, was)] = changes.got_others.as_slice() else {
        panic!("{:?}", changes.got_others)
    };
    let (pod, message) = got_others(&world.cluster, uid, was).unwrap();
    assert_eq!(
        (&*pod.name, message.as_str()),
        (
            "p2",
            "let in for 2 A, and its resource claims got 1 A and 1 B: queue team-a is charged for what they got"
        )
    );
}

/// The pods that were let in, as whoever starts now sees them.
#[test]
fn a_restart_reads_back_what_was_written() {
    let requests = each(&[("A", 2), ("B", 1)]);
    let let_in =
        |name: &str, claim: &str, written: &str| claiming(bare_pod(name).queue("team-a").assigned(written), claim);
    let with_three = || {
        let mut world = world();
        world.node(&node("n4"));
        world.slice("n4", NVIDIA, &mixed(&[("A", 3)]));
        world
    };
    let mut world = with_three();
    add(&mut world, "p1", &requests);
    let forms = json!([first_of("r", &[("A", 4), ("A", 2), ("B", 3)])]);
    add(&mut world, "p2", &forms);
    let written: Vec<_> = world.admit().into_iter().filter_map(|(_, cards)| cards).collect();
    assert_eq!(written, [r#"{"A":2,"B":1}"#, r#"{"A":2}"#]);
    let before = (held(&world, "team-a"), gpus_in_use(&world));
    let mut restarted = with_three();
    restarted.claim("p1-gpu", &requests, &json!({}));
    restarted.claim("p2-gpu", &forms, &json!({}));
    restarted.pod(&let_in("p1", "p1-gpu", &written[0]).on("n1"));
    restarted.pod(&let_in("p2", "p2-gpu", &written[1]).on("n4"));
    assert_eq!((held(&restarted, "team-a"), gpus_in_use(&restarted)), before);
    // Also before the slices are there, and when they go for a while.
    let mut bare = with_class(World::with(configuration("", "unnamedCards: charge")));
    bare.queue(&queue("team-a").quota(r#"{"A": 5, "B": 4}"#));
    bare.claim("p1-gpu", &requests, &json!({}));
    bare.claim(
        "p3-gpu",
        &each(&[("A", 3)]),
        &allocated_on("n2", &["a-gpu-0", "a-gpu-1", "a-gpu-2"]),
    );
    bare.pod(&let_in("p3", "p3-gpu", "A").on("n2"));
    bare.node(&node("n1"));
    bare.node(&node("n2"));
    bare.slice("n1", NVIDIA, &mixed(&[("A", 4), ("B", 2)]));
    bare.slice("n2", NVIDIA, &mixed(&[("A", 4)]));
    bare.pod(&let_in("p1", "p1-gpu", &written[0]).on("n1"));
    assert_eq!(held(&bare, "team-a"), (5, 1));
    bare.remove_slice("n2", NVIDIA);
    bare.remove_slice("n1", NVIDIA);
    assert_eq!(
        held(&bare, "team-a"),
        (5, 1),
        "what runs is charged, though its devices are not shown"
    );
}

/// How many of all cards are in use on nodes.
fn gpus_in_use(world: &World) -> i128 {
    let nodes = world
        .cluster
        .nodes_by_name()
        .iter()
        .map(|node| world.cluster.node(*node));
    let gpu = |used: &engine::amounts::Totals| {
        let amounts = used.iter().filter(|(dimension, _)| dimension.card().is_some());
        amounts.map(|(_, amount)| amount).sum::<i128>()
    };
    nodes.map(|node| gpu(&node.used)).sum()
}

#[test]
fn the_resource_that_cards_are_counted_by_is_limited_too() {
    let mut world = with_class(World::with(queue_plugin("capacity", "allocate", "")));
    world.node(&node("n1"));
    world.slice("n1", NVIDIA, &mixed(&[("A", 4), ("B", 2)]));
    world.queue(&queue("team-a").capability(GPU, "3"));
    add(&mut world, "p1", &each(&[("A", 1), ("B", 1)]));
    assert_eq!(world.admit(), [admitted("p1", r#"{"A":1,"B":1}"#)]);
    add(&mut world, "p2", &each(&[("A", 1), ("B", 1)]));
    assert_eq!(world.refusal_of("p2"), "InsufficientScalarQuota");
    assert_eq!(
        told(&mut world),
        ["queue team-a: nvidia.com/gpu asked 2, used 2, quota 3"]
    );
}

#[test]
fn every_level_above_the_queue_is_asked_for_every_card() {
    let mut world = with_class(World::with(queue_plugin(
        "capacity-card",
        "allocate",
        "enableHierarchy: true",
    )));
    world.node(&node("n1"));
    world.slice("n1", NVIDIA, &mixed(&[("A", 8), ("B", 8)]));
    world.queue(&queue("research").quota(r#"{"A": 8, "B": 1}"#));
    for name in ["vision", "speech"] {
        world.queue(&queue(name).parent("research").quota(r#"{"A": 4, "B": 4}"#));
    }
    for (name, queue) in [("p1", "vision"), ("p2", "speech")] {
        let pod = claims(&mut world, name, &each(&[("A", 1), ("B", 1)]));
        world.pod(&pod.queue(queue));
    }
    assert_eq!(world.admit_names(), ["p2"]);
    assert_eq!(
        told(&mut world),
        ["queue research, of which queue vision is a part: B asked 1, used 1, quota 1"]
    );
}

#[test]
fn a_gang_gets_all_its_cards_or_none() {
    let mut world = world();
    world.group(&group("g", 2));
    for name in ["g1", "g2"] {
        let pod = claims(&mut world, name, &each(&[("A", 1), ("B", 1)]));
        world.pod(&pod.of("g"));
    }
    world.queue(&queue("team-a").quota(r#"{"A": 5, "B": 1}"#));
    assert_eq!(world.admit_names(), [""; 0]);
    assert_eq!(held(&world, "team-a"), (0, 0));
    world.queue(&queue("team-a").quota(r#"{"A": 5, "B": 2}"#));
    assert_eq!(world.admit_names(), ["g1", "g2"]);
    assert_eq!(held(&world, "team-a"), (2, 2));
    // Two on one node each: the way in is not what each would take alone.
    world.group(&group("h", 2));
    world.queue(&queue("team-a").quota(r#"{"A": 20, "B": 20}"#));
    let wide = claims(&mut world, "h1", &json!([first_of("r", &[("B", 4), ("A", 4)])]));
    world.pod(&wide.of("h").created(1));
    let narrow = claims(&mut world, "h2", &each(&[("B", 4)]));
    world.pod(&narrow.of("h").created(2));
    let mut all = world.admit();
    all.sort();
    assert_eq!(all, [admitted("h1", r#"{"A":4}"#), admitted("h2", r#"{"B":4}"#)]);
}

#[test]
fn what_is_borrowed_of_one_of_the_cards_is_taken_back() {
    let mut world = with_class(World::with(queue_plugin(
        "capacity",
        "enqueue, allocate, reclaim",
        "guaranteeThreshold: 100",
    )));
    world.node(&node("n1"));
    world.slice("n1", NVIDIA, &mixed(&[("A", 4), ("B", 2)]));
    world.queue(&queue("lends").deserved_cards(r#"{"A": 4, "B": 2}"#));
    world.queue(&queue("borrows").deserved_cards(r#"{"A": 0, "B": 0}"#));
    for (name, wanted) in [("a", "A"), ("b", "B"), ("c", "B")] {
        let pod = claims(&mut world, name, &each(&[(wanted, 1)])).queue("borrows");
        world.pod(&pod);
        assert_eq!(world.admit(), [admitted(name, wanted)]);
        world.seen_admitted(&pod, name, Some(wanted));
        world.pod(&pod.clone().assigned(wanted).on("n1"));
    }
    let both = claims(&mut world, "p", &each(&[("A", 2), ("B", 1)])).queue("lends");
    world.pod(&both);
    let actions = world.decide();
    let [Action::Evict(eviction)] = actions.as_slice() else {
        panic!("{actions:?}")
    };
    let victims: Vec<_> = eviction.victims.iter().map(|victim| &*victim.pod.name).collect();
    assert!(
        matches!(victims[..], ["b" | "c"]),
        "{victims:?}: who has an A would not help"
    );
    let message = &eviction.victims[0].message;
    assert!(
        message.contains("2 A, 1 B; of B, queue lends has 0 and deserves 2"),
        "{message}"
    );
}

#[test]
fn a_shared_claim_is_paid_once_beside_a_pods_own() {
    let mut world = world();
    world.claim("shared", &each(&[("B", 1)]), &json!({}));
    let sharing = |world: &mut World, name: &str| {
        let own = claims(world, name, &each(&[("A", 1)]));
        own.set(
            ["spec", "resourceClaims"],
            json!([{"name": "gpu", "resourceClaimTemplateName": "t"}, {"name": "shared", "resourceClaimName": "shared"}]),
        )
    };
    let first = sharing(&mut world, "p1");
    let second = sharing(&mut world, "p2");
    world.pod(&first);
    world.pod(&second);
    assert_eq!(world.admit(), [admitted("p1", r#"{"A":1,"B":1}"#)]);
    world.seen_admitted(&first, "p1", Some(r#"{"A":1,"B":1}"#));
    assert_eq!(world.admit(), [admitted("p2", "A")]);
    assert_eq!(held(&world, "team-a"), (2, 1));
}

#[test]
fn cards_that_a_class_provides_are_charged_beside_those_that_are_claimed() {
    let mut world = world();
    world.queue(&queue("team-a").quota(r#"{"B": 4}"#));
    let pod = claims(&mut world, "p1", &each(&[("B", 1)])).requests(GPU, "2");
    world.pod(&pod);
    assert_eq!(world.admit(), [admitted("p1", r#"{"B":3}"#)]);
    assert_eq!(held(&world, "team-a"), (0, 3));
    // Of a device plugin they are not.
    let mut without = World::with(configuration("", "unnamedCards: charge"));
    without.class(NVIDIA, "device.driver == 'gpu.nvidia.com'", None);
    without.node(&node("n1"));
    without.slice("n1", NVIDIA, &mixed(&[("B", 2)]));
    without.node(&node("n2").cards("A", 2));
    without.queue(&queue("team-a").quota(r#"{"A": 4, "B": 4}"#));
    let pod = claims(&mut without, "p1", &each(&[("B", 1)])).requests(GPU, "1");
    without.pod(&pod);
    assert_eq!(without.refusal_of("p1"), "SecondCardResource");
    let message = told(&mut without).remove(0);
    assert!(message.contains("beside those that it claims"), "{message}");
}

#[test]
fn a_name_says_one_card() {
    let mut world = world();
    add(&mut world, "p1", &json!([first_of("r", &[("A", 2), ("B", 1)])]));
    let known = world.known("p1");
    let names = world.cluster.names();
    let written = |alternative: &Alternative| alternative.written(names);
    let all: Vec<_> = known.task.alternatives.iter().map(written).collect();
    assert_eq!(all, [r#"{"A":2}"#, "B"]);
}
