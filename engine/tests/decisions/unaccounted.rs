//! What is shown of what no queue is charged for.

use crds::card_usage::{CardUsageStatus, UNACCOUNTED};
use engine::overview::{Shown, Unaccounted};
use serde_json::json;

use crate::world::{GPU, Object, World, bare_pod, configuration, group, node, pod, queue};

/// That there is no object any more.
const GONE: Shown = Shown::Unaccounted { status: None };

/// What is shown anew; nothing where that is what was shown last.
fn shown(world: &mut World, unaccounted: &mut Unaccounted) -> Option<Shown> {
    for report in world.shown() {
        if let Shown::CardType { card, content, .. } = &report {
            unaccounted.card(card, content.as_ref().map(|(_, status)| status.unaccounted));
        }
    }
    unaccounted.report(&world.cluster)
}

/// What the object says that is shown anew.
fn status(world: &mut World, unaccounted: &mut Unaccounted) -> CardUsageStatus {
    match shown(world, unaccounted) {
        Some(Shown::Unaccounted { status: Some(status) }) => status,
        other => panic!("{other:?}"),
    }
}

/// The line of cards, and how many pods claim devices.
fn figures(status: &CardUsageStatus) -> (&str, Option<i64>) {
    (&status.allocated, status.pods_with_resource_claims)
}

fn free(name: &str, cards: &str) -> Object {
    bare_pod(name).requests(GPU, cards).on("n1")
}

fn claiming(pod: Object) -> Object {
    pod.set(
        ["spec", "resourceClaims"],
        json!([{"name": "gpu", "resourceClaimName": "mine"}]),
    )
}

fn world() -> World {
    let mut world = World::new();
    world.node(&node("n1").cards("A", 8));
    world.queue(&queue("team-a").quota(r#"{"A": 2}"#));
    world
}

#[test]
fn cards_that_no_queue_is_charged_for_are_shown_while_there_are_any() {
    let (mut world, mut unaccounted) = (world(), Unaccounted::default());
    world.pod(&pod("charged").asks("A", 2));
    assert_eq!(world.admit_names(), ["charged"]);
    // The first time says that nothing is left of what was shown before.
    assert_eq!(shown(&mut world, &mut unaccounted), Some(GONE));
    assert_eq!(shown(&mut world, &mut unaccounted), None);
    world.pod(&free("three", "3"));
    let now = status(&mut world, &mut unaccounted);
    assert_eq!(figures(&now), ("A x3", Some(0)));
    let [card] = &now.cards[..] else { panic!("{now:?}") };
    assert_eq!(
        (&*card.name, card.quota, card.allocated, card.requested, card.waiting),
        ("A", Some(0), 3, 3, 0)
    );
    world.pod(&free("one", "1"));
    let now = status(&mut world, &mut unaccounted);
    assert_eq!(figures(&now), ("A x4", Some(0)));
    // Something else changes.
    world.pod(&bare_pod("plain").on("n1"));
    assert_eq!(shown(&mut world, &mut unaccounted), None);
    world.remove_pod("three");
    world.pod(&free("one", "1").phase("Failed"));
    assert_eq!(shown(&mut world, &mut unaccounted), Some(GONE));
}

#[test]
fn pods_with_resource_claims_are_counted_until_they_are_over() {
    let (mut world, mut unaccounted) = (world(), Unaccounted::default());
    world.class("other", "device.driver == 'other'", None);
    world.slice("n1", "other", &json!([{"name": "d"}]));
    let request = json!([{"name": "r", "exactly": {"deviceClassName": "other"}}]);
    world.claim("mine", &request, &json!({}));
    world.pod(&claiming(bare_pod("unmanaged")));
    world.pod(&claiming(pod("waits").asks("A", 3)));
    world.pod(&claiming(pod("admitted").asks("A", 1)));
    world.pod(&bare_pod("none").set(["spec", "resourceClaims"], json!([])));
    world.pod(&claiming(bare_pod("over")).phase("Succeeded"));
    assert_eq!(world.admit_names(), ["admitted"]);
    let now = status(&mut world, &mut unaccounted);
    assert_eq!(figures(&now), ("<none>", Some(3)));
    // Seen again, and elsewhere on its way.
    world.pod(&claiming(bare_pod("unmanaged")));
    world.pod(&claiming(bare_pod("unmanaged")).on("n1"));
    assert_eq!(shown(&mut world, &mut unaccounted), None);
    let counted = world.cluster.pods().filter(|pod| pod.claims_other_devices).count();
    assert_eq!((counted, world.cluster.pods_with_resource_claims()), (3, 3));
    world.pod(&claiming(bare_pod("unmanaged")).on("n1").phase("Failed"));
    world.remove_pod("waits");
    let now = status(&mut world, &mut unaccounted);
    assert_eq!(figures(&now), ("<none>", Some(1)));
    world.remove_pod("admitted");
    assert_eq!(shown(&mut world, &mut unaccounted), Some(GONE));
    assert_eq!(world.cluster.pods_with_resource_claims(), 0);
}

/// Simulator's seed 20026: only an operator that was started anew charged for them.
#[test]
fn what_runs_is_charged_as_soon_as_the_configuration_or_its_namespace_says_to_whom() {
    let begin = || {
        let (mut world, mut unaccounted) = (world(), Unaccounted::default());
        world.queue(&queue("default").quota(r#"{"A": 8}"#));
        world.pod(&free("runs", "3"));
        world.pod(&bare_pod("none").on("n1"));
        world.pod(&free("exempt", "1").set(["metadata", "namespace"], "kube-system"));
        assert_eq!(figures(&status(&mut world, &mut unaccounted)).0, "A x4");
        (world, unaccounted)
    };
    let (mut world, mut unaccounted) = begin();
    let now = world.now;
    world.set_configuration(configuration("", "unqueuedCards: charge"), now);
    assert_eq!(world.allocated("default", "A"), 3);
    assert_eq!(figures(&status(&mut world, &mut unaccounted)).0, "A x1");
    assert_eq!(world.allocated_cpu("default"), 1000);
    // Only counted again, as it would be by an operator that begins now.
    world.set_configuration(configuration("", "unqueuedCards: count"), now);
    assert_eq!(
        (world.allocated("default", "A"), world.allocated_cpu("default")),
        (0, 0)
    );
    assert_eq!(figures(&status(&mut world, &mut unaccounted)).0, "A x4");
    world.set_configuration(configuration("", "unqueuedCards: charge"), now);
    world.remove_pod("runs");
    assert_eq!(world.allocated("default", "A"), 0);

    let (mut world, _) = begin();
    world.namespace("team", &[], Some("team-a"));
    assert_eq!(
        (world.allocated("default", "A"), world.allocated("team-a", "A")),
        (0, 3)
    );
    world.pod(&pod("p").asks("A", 1));
    assert_eq!(world.refusal_of("p"), "InsufficientScalarQuota");
}

/// It stayed with the queue that was named first, except by an operator that started anew.
#[test]
fn what_runs_and_names_nothing_is_charged_to_the_queue_that_is_named_now() {
    let charged = |world: &World| ["team-a", "team-b", "default"].map(|queue| world.allocated(queue, "A"));
    for (cardgate, of_none) in [("", [0, 0, 0]), ("unqueuedCards: charge", [0, 0, 3])] {
        let begin = |named: Option<&str>| {
            let mut world = World::with(configuration("", cardgate));
            world.node(&node("n1").cards("A", 8));
            for name in ["team-a", "team-b", "default"] {
                world.queue(&queue(name).quota(r#"{"A": 8}"#));
            }
            world.namespace("team", &[], named);
            world.pod(&free("runs", "3"));
            world
        };
        let mut world = begin(Some("team-a"));
        assert_eq!(charged(&world), [3, 0, 0]);
        for (named, expected) in [
            (Some("team-b"), [0, 3, 0]),
            (None, of_none),
            (Some("team-b"), [0, 3, 0]),
            (Some("team-a"), [3, 0, 0]),
        ] {
            world.namespace("team", &[], named);
            assert_eq!(charged(&world), expected, "{named:?}");
            world.pod(&free("runs", "3").label("seen", "again"));
            assert_eq!(charged(&world), expected, "{named:?}");
            assert_eq!(charged(&begin(named)), expected, "{named:?}");
        }
        world.remove_namespace("team", world.now);
        assert_eq!(charged(&world), of_none);
    }
    // So it is where the configuration names another default queue.
    let mut world = world();
    let now = world.now;
    world.set_configuration(configuration("", "{unqueuedCards: charge, defaultQueue: team-a}"), now);
    world.queue(&queue("team-b"));
    world.queue(&queue("default"));
    world.pod(&free("runs", "3"));
    assert_eq!(charged(&world), [3, 0, 0]);
    world.set_configuration(configuration("", "{unqueuedCards: charge, defaultQueue: team-b}"), now);
    assert_eq!(charged(&world), [0, 3, 0]);
}

/// What runs is charged from the moment on in which what it requests is a card, and not only by an operator that is started anew.
#[test]
fn what_runs_is_charged_as_soon_as_what_it_requests_is_a_card() {
    const ACCELERATOR: &str = "example.com/accel";
    let begin = || {
        let mut world = world();
        world.queue(&queue("team-a").quota(r#"{"A": 2, "X": 4}"#));
        world.namespace("team", &[], Some("team-a"));
        let unlabelled = node("n2").offers(ACCELERATOR, "8");
        world.node(&unlabelled);
        world.pod(&bare_pod("runs").requests(ACCELERATOR, "3").on("n2"));
        assert_eq!(world.allocated_cpu("team-a"), 0);
        (world, unlabelled)
    };
    let (mut world, unlabelled) = begin();
    let labelled = unlabelled.label("example.com/accel.product", "X");
    let labelled = labelled.label("example.com/accel.count", "8");
    world.node(&labelled.label("example.com/accel.memory", "81920"));
    assert_eq!(
        (world.allocated("team-a", "X"), world.allocated_cpu("team-a")),
        (3, 1000)
    );
    world.pod(&pod("p").asks("X", 2).requests(GPU, "0").requests(ACCELERATOR, "2"));
    assert_eq!(world.refusal_of("p"), "InsufficientScalarQuota");

    let (mut world, _) = begin();
    let now = world.now;
    world.set_configuration(configuration("", &format!("cardResources: [{ACCELERATOR}]")), now);
    assert_eq!(world.allocated_cpu("team-a"), 1000);
    world.set_configuration(configuration("", ""), now);
    assert_eq!(world.allocated_cpu("team-a"), 0);
}

/// Simulator's seeds 26080 and 25335: whose a pod was depended on which of two watches was faster, and a group that names the default queue was
/// taken for one that names none.
#[test]
fn who_runs_in_a_group_is_of_the_queue_that_it_names_whichever_is_seen_first() {
    for (own, other) in [("team-a", "default"), ("default", "team-a")] {
        for pod_is_first in [true, false] {
            let mut world = world();
            world.queue(&queue("default").quota(r#"{"A": 8}"#));
            if pod_is_first {
                world.pod(&free("runs", "3").of("g"));
            }
            world.group(&group("g", 1).set(["spec", "queue"], own));
            if !pod_is_first {
                world.pod(&free("runs", "3").of("g"));
            }
            let charged = [own, other].map(|queue| (world.allocated(queue, "A"), world.allocated_cpu(queue)));
            assert_eq!(charged, [(3, 1000), (0, 0)], "{own}, the pod first: {pod_is_first}");
        }
    }
}

#[test]
fn a_queue_with_the_name_of_the_object_keeps_its_own() {
    let (mut world, mut unaccounted) = (world(), Unaccounted::default());
    world.pod(&free("three", "3"));
    assert_eq!(figures(&status(&mut world, &mut unaccounted)), ("A x3", Some(0)));
    world.queue(&queue(UNACCOUNTED));
    let reports = world.shown();
    let is_usage = |report: &Shown| matches!(report, Shown::Usage { queue, .. } if &**queue == UNACCOUNTED);
    assert!(reports.iter().any(is_usage), "{reports:?}");
    world.pod(&claiming(free("one", "1")));
    assert_eq!(shown(&mut world, &mut unaccounted), None);
    world.remove_queue(UNACCOUNTED);
    let now = status(&mut world, &mut unaccounted);
    assert_eq!(figures(&now), ("A x4", Some(1)));
}
