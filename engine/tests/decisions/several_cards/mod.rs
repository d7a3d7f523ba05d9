//! Pods that are charged for several cards at once: claims for different cards, and alternatives of different numbers.

mod beside;
mod beside_by_hand;
mod charged;
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
    assert_eq!(
        told(&mut world),
        [
            "queue team-a: B asked 4, used 1, quota 4; waiting can't help: no node could take the pod even if nothing ran on it: ask for less in one \
          pod, or have a larger node added"
        ]
    );
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
          claims select other cards too, or more of them: select the cards themselves; waiting can't help: create the pod anew with a node selector, \
          affinity, tolerations and resource claims that leave it a node with the card, or have such a node added"
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
