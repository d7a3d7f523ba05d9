//! What pods with several cards are charged for, and what queues say to it.

use super::*;

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
    assert_eq!(world.admit(), [], "the devices of the shared claim are not there yet");
    world.claim("shared", &each(&[("B", 1)]), &allocated_on("n1", &["b-gpu-0"]));
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
    assert_eq!(without.refusal_of("p1"), "NoNodeFits");
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
