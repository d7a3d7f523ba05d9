//! Whose pods are that wait for cards by claims and name no queue, when that changes: as after a restart.

use serde_json::json;

use super::{claiming, exactly, set};
use crate::world::{GPU, Object, World, bare_pod, configuration, node, queue};

fn waiting() -> Object {
    claiming(bare_pod("waits").gates(&["card.volcano.sh/quota"]), "gpu")
}

/// A pod waits in a queue that has nothing.
fn world(cardgate: &str) -> World {
    let mut world = set(cardgate);
    world.claim("gpu", &exactly(1, Some("A")), &json!({}));
    world.queue(&queue("roomy").quota(r#"{"A": 2}"#));
    world.queue(&queue("full"));
    world
}

#[track_caller]
fn waits(world: &mut World) {
    world.pod(&waiting());
    assert_eq!(world.admit_names(), [""; 0]);
    assert!(!world.cluster.take_pods_wanted());
}

/// Who is let in when all pods have been listed once more, which must be asked for.
#[track_caller]
fn admitted_when_listed(world: &mut World) -> Vec<String> {
    assert!(world.cluster.take_pods_wanted());
    assert_eq!(world.admit_names(), [""; 0]);
    world.pod(&waiting());
    assert!(!world.cluster.take_pods_wanted(), "once");
    world.admit_names()
}

#[test]
fn who_waits_for_cards_that_come_to_be_nobodys_waits_no_longer() {
    let mut world = world("{unqueuedCards: charge, defaultQueue: full}");
    waits(&mut world);
    let now = world.now;
    world.set_configuration(configuration("", "{unqueuedCards: count, defaultQueue: full}"), now);
    assert_eq!(admitted_when_listed(&mut world), ["waits"]);
}

#[test]
fn who_waits_in_the_queue_of_its_namespace_waits_in_the_one_that_it_names_now() {
    let mut world = world("");
    world.namespace("team", &[], Some("full"));
    waits(&mut world);
    world.namespace("team", &[], Some("roomy"));
    assert_eq!(admitted_when_listed(&mut world), ["waits"]);
    assert_eq!(world.allocated("roomy", "A"), 1);
}

#[test]
fn who_waits_in_the_default_queue_waits_in_the_one_that_is_it_now() {
    let mut world = world("{unqueuedCards: charge, defaultQueue: full}");
    waits(&mut world);
    let now = world.now;
    world.set_configuration(configuration("", "{unqueuedCards: charge, defaultQueue: roomy}"), now);
    assert_eq!(admitted_when_listed(&mut world), ["waits"]);
    assert_eq!(world.allocated("roomy", "A"), 1);
}

/// While it was being let in, nobody looked at it anew: it stayed charged until its end.
#[test]
fn who_is_being_let_in_when_its_cards_come_to_be_nobodys_is_charged_no_more() {
    let charge = "{unqueuedCards: charge, defaultQueue: roomy}";
    let by_request = bare_pod("waits").gates(&["card.volcano.sh/quota"]).requests(GPU, "1");
    for (is_by_namespace, pod) in [(false, waiting()), (false, by_request), (true, waiting())] {
        let mut world = world(if is_by_namespace { "" } else { charge });
        world.node(&node("n3").cards("A", 1));
        if is_by_namespace {
            world.namespace("team", &[], Some("roomy"));
        }
        world.pod(&pod);
        assert_eq!(world.admit_names(), ["waits"]);
        assert_eq!(world.allocated("roomy", "A"), 1);
        let now = world.now;
        if is_by_namespace {
            world.namespace("team", &[], None);
        } else {
            world.set_configuration(configuration("", "{unqueuedCards: count, defaultQueue: roomy}"), now);
        }
        world.seen_admitted(&pod, "waits", Some("A"));
        assert_eq!(world.allocated("roomy", "A"), 0, "{is_by_namespace}");
    }
}
