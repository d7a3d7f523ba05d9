//! What nobody is told who asks or waits: names of pods of other namespaces, and numbers of queues that are not theirs.

use crds::card_review::{CardReviewStatus, Reviewed, ReviewedWorkload};
use crds::keys::QUEUE_NAMESPACES;
use crds::made::made_by;
use engine::explain::{Asked, review};
use serde_json::Value;

use crate::world::{Object, World, bare_pod, group, node, pod, queue};

/// Numbers that appear nowhere else.
const HELD: i64 = 37;
const QUOTA: i64 = 41;

/// A queue that is for other namespaces, and full: somebody waits in it. Beside it the own one.
fn world() -> World {
    let mut world = World::new();
    world.node(&node("n1").cards("A100", 100));
    world.queue(&queue("team-a").quota(r#"{"A100": 5}"#));
    let quota = format!(r#"{{"A100": {QUOTA}}}"#);
    world.queue(
        &queue("foreign")
            .quota(&quota)
            .annotation(QUEUE_NAMESPACES, "team=other"),
    );
    world.namespace("team", &[("team", "own")], None);
    world.namespace("other", &[("team", "other")], None);
    let theirs = |name: &str, cards| pod(name).namespace("other").queue("foreign").asks("A100", cards);
    world.pod(&theirs("secret-holder", HELD));
    assert_eq!(world.admit_names(), ["secret-holder"]);
    world.pods((0..HELD).map(|index| theirs(&format!("secret-{index}"), 6).created(index)));
    assert_eq!(world.admit_names(), [""; 0]);
    world
}

fn ask(world: &mut World, namespace: &str, asked: Asked) -> CardReviewStatus {
    let now = world.now;
    review(&mut world.cluster, namespace, asked, now).unwrap()
}

fn imagined(world: &mut World, namespace: &str, pod: &Object) -> CardReviewStatus {
    let made = made_by(pod.read::<Value>()).unwrap();
    ask(world, namespace, Asked::Imagined(Box::new(made)))
}

fn assert_tells_nothing(told: &str) {
    for secret in [
        "secret",
        &*HELD.to_string(),
        &*QUOTA.to_string(),
        &*(HELD + 1).to_string(),
    ] {
        assert!(!told.contains(secret), "{secret}: {told}");
    }
}

/// What is told of a node and of the cluster, without what all queues together have of them.
fn besides_totals(status: &CardReviewStatus) -> String {
    let mut status = status.clone();
    for shortage in status.blocks.iter_mut().flat_map(|block| &mut block.shortages) {
        assert!(matches!(&*shortage.place.kind, "Node" | "Cluster"), "{shortage:?}");
        shortage.used.clear();
        shortage.holders.retain(|holder| !holder.queue.is_empty());
    }
    format!("{status:?}")
}

/// Whoever may ask at all could ask of every queue, in the name of a pod that need not exist.
#[test]
fn of_a_queue_that_is_for_others_no_number_is_told() {
    let mut world = world();
    let asks = pod("p").queue("foreign").asks("A100", 99);
    let status = imagined(&mut world, "team", &asks);
    assert_eq!(status.blocks[0].reason, "NamespaceNotAllowed");
    assert_tells_nothing(&besides_totals(&status));

    world.pod(&asks);
    assert_eq!(world.refusal_of("p"), "NamespaceNotAllowed");
    let status = ask(&mut world, "team", Asked::Existing(Reviewed::Pod("p".to_owned())));
    assert_tells_nothing(&besides_totals(&status));

    let of_queue = |world: &mut World, namespace: &str| {
        let asked = Asked::Existing(Reviewed::Queue("foreign".to_owned()));
        ask(world, namespace, asked)
    };
    let status = of_queue(&mut world, "team");
    assert_eq!(
        (status.admitted, &*status.blocks[0].reason),
        (false, "NamespaceNotAllowed")
    );
    assert_tells_nothing(&besides_totals(&status));

    // Those it is for are told.
    let status = of_queue(&mut world, "other");
    assert_eq!((status.admitted, status.waiting), (true, Some(HELD + 1)));
    let status = imagined(&mut world, "other", &asks);
    assert_eq!(
        status.blocks[0].shortages[0].limit.as_deref(),
        Some(&*QUOTA.to_string())
    );
}

/// On a node that all share, it is told how much others have, and not whose queues they are. Who may use both queues is told of both.
#[test]
fn queues_of_others_are_told_together() {
    let mut world = world();
    world.pod(&pod("mine").asks("A100", 2));
    assert_eq!(world.admit_names(), ["mine"]);
    let holders = |world: &mut World, namespace: &str, queue: &str| -> Vec<_> {
        let status = imagined(world, namespace, &pod("p").queue(queue).asks("A100", 99));
        let block = status.blocks.iter().find(|block| block.reason == "NoNodeFits").unwrap();
        let holders = block.shortages[0].holders.iter();
        let holders = holders.map(|holder| (holder.queue.clone(), holder.amount.clone(), holder.pods.others));
        holders.collect()
    };
    let told = |queue: &str, amount: i64, others| (queue.to_owned(), amount.to_string(), others);
    assert_eq!(
        holders(&mut world, "team", "team-a"),
        [told("team-a", 2, 0), told("", HELD, 1)]
    );
    assert_eq!(
        holders(&mut world, "other", "foreign"),
        [told("foreign", HELD, 0), told("team-a", 2, 1)]
    );
}

/// Own pods that still run in a queue which is no longer for their namespace are told, and nothing of the others there; pods of no queue are
/// told with all others, own ones by name.
#[test]
fn of_a_queue_that_is_for_others_by_now_own_pods_alone_are_told() {
    let mut world = world();
    world.pod(&pod("mine").queue("foreign").requests("cpu", "7").ungated().on("n1"));
    let of_no_queue = |name: &str| bare_pod(name).label("card.volcano.sh/crossquota", "enabled").on("n1");
    world.pod(&of_no_queue("bare").requests("cpu", "3"));
    world.pod(&of_no_queue("secret-bare").namespace("other").requests("cpu", "5"));
    let status = imagined(&mut world, "team", &pod("p").asks("A100", 1).requests("cpu", "60"));
    let block = status.blocks.iter().find(|block| block.reason == "NoNodeFits").unwrap();
    let short = block.shortages.iter().find(|short| short.resource == "CPU").unwrap();
    let holders = short.holders.iter().map(|holder| {
        let pods = &holder.pods;
        (
            &*holder.queue,
            &*holder.amount,
            pods.own.join(" "),
            pods.own_count,
            pods.others,
        )
    });
    assert_eq!(
        holders.collect::<Vec<_>>(),
        [
            ("foreign", "7", "mine".to_owned(), 1, 0),
            ("", "9", "bare".to_owned(), 1, 2)
        ]
    );
}

/// A queue that is closed, or can't be used, is still nobody else's.
#[test]
fn a_closed_queue_keeps_its_numbers() {
    let mut world = world();
    let quota = format!(r#"{{"A100": {QUOTA}}}"#);
    let closed = queue("foreign").quota(&quota).set(["status", "state"], "Closed");
    for access in ["team=other", "team in ("] {
        world.queue(&closed.clone().annotation(QUEUE_NAMESPACES, access));
        let status = imagined(&mut world, "team", &pod("p").queue("foreign").asks("A100", 99));
        assert!(!status.blocks.is_empty(), "{status:?}");
        assert_tells_nothing(&besides_totals(&status));
    }
}

/// What is left in a queue that was removed is still nobody else's, whoever it was for.
#[test]
fn a_removed_queue_keeps_its_numbers() {
    let mut world = world();
    world.remove_queue("foreign");
    let status = imagined(&mut world, "team", &pod("p").queue("foreign").asks("A100", 99));
    assert!(!status.blocks.is_empty(), "{status:?}");
    assert_eq!((status.waiting, &status.before), (None, &None));
    assert_tells_nothing(&besides_totals(&status));
    let status = imagined(&mut world, "team", &pod("p").asks("A100", 99));
    let block = status.blocks.iter().find(|block| block.reason == "NoNodeFits").unwrap();
    let holders: Vec<_> = block.shortages[0].holders.iter().map(|holder| &*holder.queue).collect();
    assert_eq!(holders, [""]);
}

/// A group asks its own queue, and some of its pods another.
#[test]
fn a_group_with_pods_in_the_queue_of_others_is_told_no_number_of_it() {
    let mut world = world();
    world.group(&group("gang", 2));
    world.pod(&pod("g1").of("gang").asks("A100", 1));
    world.pod(&pod("g2").of("gang").queue("foreign").asks("A100", 6));
    world.group(
        &group("whole", 1)
            .set(["spec", "queue"], "foreign")
            .card_request(r#"{"A100": 99}"#),
    );
    assert_eq!(world.admit_names(), [""; 0]);
    world.wait(5);
    let mut told: Vec<_> = world
        .notices()
        .into_iter()
        .filter(|notice| *notice.pod.namespace == *"team")
        .collect();
    assert!(!told.is_empty());
    let told = told
        .drain(..)
        .map(|notice| format!("{:?} {}", notice.reason, notice.message));
    let mut told: Vec<_> = told.collect();
    for name in ["gang", "whole"] {
        let asked = Asked::Existing(Reviewed::PodGroup(name.to_owned()));
        told.push(besides_totals(&ask(&mut world, "team", asked)));
    }
    for name in ["g1", "g2"] {
        let asked = Asked::Existing(Reviewed::Pod(name.to_owned()));
        told.push(besides_totals(&ask(&mut world, "team", asked)));
    }
    for told in told {
        assert!(told.contains("NamespaceNotAllowed"), "{told}");
        assert_tells_nothing(&told);
    }
}

/// An answer without what is told of the own queue.
fn besides_own(mut status: CardReviewStatus) -> CardReviewStatus {
    for block in &mut status.blocks {
        block.shortages.retain(|shortage| shortage.place.name != "team-a");
    }
    status
}

/// What one of its pods lacks of its own queue says nothing of what another would lack in the queue of others.
#[test]
fn a_gang_that_runs_and_lacks_pods_is_told_no_number_of_the_queue_of_others() {
    let mut world = world();
    world.group(&group("gang", 1));
    world.pod(&pod("g0").of("gang").asks("A100", 1));
    assert_eq!(world.admit_names(), ["g0"]);
    world.group(&group("gang", 3));
    world.pod(&pod("g1").of("gang").asks("A100", 9));
    assert_eq!(world.admit_names(), [""; 0]);
    let theirs = pod("g2").of("gang").queue("foreign").asks("A100", 6);
    let status = imagined(&mut world, "team", &theirs);
    assert!(!status.blocks.is_empty(), "{status:?}");
    assert_tells_nothing(&besides_totals(&besides_own(status)));
    world.pod(&theirs.created(1));
    assert_eq!(world.admit_names(), [""; 0]);
    world.wait(5);
    for notice in world
        .notices()
        .into_iter()
        .filter(|notice| *notice.pod.namespace == *"team")
    {
        assert_tells_nothing(&notice.message);
    }
    for name in ["g1", "g2"] {
        let status = ask(&mut world, "team", Asked::Existing(Reviewed::Pod(name.to_owned())));
        assert!(!status.blocks.is_empty(), "{status:?}");
        assert_tells_nothing(&besides_totals(&besides_own(status)));
    }
}

/// Of what is asked about and not known, not much is repeated, and nothing that moves the cursor.
#[test]
fn what_is_not_known_is_not_repeated_at_length() {
    let mut world = world();
    let odd = format!("\u{1b}[2J\n\u{202e}{}", "x".repeat(100_000));
    let workload = ReviewedWorkload {
        kind: odd.clone(),
        name: odd.clone(),
    };
    for asked in [
        Reviewed::Workload(workload),
        Reviewed::Queue(odd.clone()),
        Reviewed::Pod(odd),
    ] {
        let now = world.now;
        let unknown = review(&mut world.cluster, "team", Asked::Existing(asked), now).unwrap_err();
        let unknown = unknown.to_string();
        assert!(unknown.len() < 600, "{unknown}");
        assert!(!unknown.contains(['\u{1b}', '\n', '\u{202e}']), "{unknown}");
    }
}
