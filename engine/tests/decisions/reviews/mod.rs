//! What is answered to questions about what waits: checked against what then happens.

mod groups;
mod held;
mod joining;
mod never;
mod when;

use crds::card_review::{CardReviewStatus, Outlook, Reviewed, ReviewedWorkload, Shortage};
use crds::made::made_by;
use engine::explain::{Asked, review};
use jiff::SignedDuration;
use serde_json::{Value, json};

use crate::world::{Object, World, assert_says_never, at, bare_pod, bare_queue, group, held_job, node, pod, queue};

fn ask(world: &mut World, namespace: &str, asked: Asked) -> Result<CardReviewStatus, String> {
    let now = world.now;
    let status = review(&mut world.cluster, namespace, asked, now).map_err(|error| error.to_string())?;
    for block in &status.blocks {
        assert_says_never(&block.message, &block.remedy, block.outlook == Outlook::Never);
    }
    Ok(status)
}

fn about(world: &mut World, name: &str) -> CardReviewStatus {
    ask(world, "team", Asked::Existing(Reviewed::Pod(name.to_owned()))).unwrap()
}

fn imagined(world: &mut World, pod: &Object) -> CardReviewStatus {
    let made = made_by(pod.read::<Value>()).unwrap();
    ask(world, "team", Asked::Imagined(Box::new(made))).unwrap()
}

fn reasons(status: &CardReviewStatus) -> Vec<(&str, Outlook)> {
    let blocks = status.blocks.iter();
    blocks.map(|block| (block.reason.as_str(), block.outlook)).collect()
}

/// A node of 4 cards, a queue that may have 5 of them.
fn world() -> World {
    let mut world = World::new();
    world.node(&node("n1").cards("A100", 4));
    world.queue(&queue("team-a").quota(r#"{"A100": 5}"#));
    world
}

const QUOTA: &str = "InsufficientScalarQuota";

#[test]
fn everything_in_the_way_is_named_and_never_apart_from_not_yet() {
    let mut world = world();
    world.pod(&pod("holder").asks("A100", 3));
    assert_eq!(world.admit_names(), ["holder"]);
    let cases = [
        (1, vec![]),
        (2, vec![("NoNodeFits", Outlook::NotYet)]),
        (4, vec![(QUOTA, Outlook::NotYet), ("NoNodeFits", Outlook::NotYet)]),
        (5, vec![(QUOTA, Outlook::NotYet), ("NoNodeFits", Outlook::Never)]),
        (6, vec![(QUOTA, Outlook::Never), ("NoNodeFits", Outlook::Never)]),
    ];
    for (asked, expected) in cases {
        let asked = pod("p").asks("A100", asked);
        let status = imagined(&mut world, &asked);
        assert_eq!(reasons(&status), expected);
        assert_eq!(status.admitted, expected.is_empty(), "{status:?}");
        // As it then is.
        world.pod(&asked);
        assert_eq!(world.admit().len(), usize::from(status.admitted));
        let really = about(&mut world, "p");
        assert_eq!(reasons(&really), expected, "{really:?}");
        assert_eq!(really.admitted, status.admitted);
        world.remove_pod("p");
    }
}

#[test]
fn numbers_and_holders_are_those_of_the_queue_and_only_own_names_are_told() {
    let mut world = world();
    world.pod(&pod("mine").asks("A100", 1));
    world.pod(&pod("secret-1").namespace("other").asks("A100", 2));
    assert_eq!(world.admit().len(), 2);
    world.pod(&pod("secret-2").namespace("other").asks("A100", 4).created(1));
    world.pod(&pod("p1").asks("A100", 4).created(2));
    world.pod(&pod("p2").asks("A100", 4).created(3));
    assert_eq!(world.admit(), []);
    let status = about(&mut world, "p2");
    let before = status.before.clone().unwrap();
    assert_eq!(
        (before.own, before.own_count, before.others),
        (vec!["p1".to_owned()], 1, 1)
    );
    assert_eq!((status.position, status.waiting), (Some(3), Some(3)));
    let short = &status.blocks[0].shortages[0];
    assert_eq!(
        (
            short.resource.as_str(),
            short.asked.as_str(),
            short.used.as_str(),
            short.limit.as_deref()
        ),
        ("A100", "4", "3", Some("5"))
    );
    let holder = &short.holders[0];
    assert_eq!(
        (holder.amount.as_str(), holder.pods.own.as_slice(), holder.pods.others),
        ("3", ["mine".to_owned()].as_slice(), 1)
    );
    assert!(!format!("{status:?}").contains("secret"), "{status:?}");
    assert!(
        ask(
            &mut world,
            "team",
            Asked::Existing(Reviewed::Pod("secret-2".to_owned()))
        )
        .is_err()
    );
}

/// "Not known" was said of what is there and has no pods: that is all that is known of it.
#[test]
fn of_a_controller_it_is_said_that_no_pods_of_it_are_known() {
    let mut world = World::new();
    let mut said = |kind: &str| {
        let asked = Reviewed::Workload(ReviewedWorkload {
            kind: kind.to_owned(),
            name: "web".to_owned(),
        });
        ask(&mut world, "team", Asked::Existing(asked)).unwrap_err()
    };
    assert_eq!(
        said("Deployment"),
        "Deployment \"web\" has no pods in namespace team, as far as is known: is the name right, was it created, and is it not scaled to 0? Ask \
         kubectl -n team get for it"
    );
    assert_eq!(
        said("CronJob"),
        "CronJob \"web\" makes no pods itself: ask about one of its Jobs, job/NAME (kubectl -n team get cronjobs,jobs shows whether it is there, and \
         they are)"
    );
}

#[test]
fn the_old_pod_of_the_same_deployment_is_named() {
    let mut world = World::new();
    world.node(&node("n1").cards("A100", 4));
    world.queue(&queue("team-a").quota(r#"{"A100": 1}"#));
    world.pod(
        &pod("web-1-x")
            .asks("A100", 1)
            .controlled_by("ReplicaSet", "web-6b8f9c4d7"),
    );
    assert_eq!(world.admit().len(), 1);
    world.pod(
        &pod("web-2-y")
            .asks("A100", 1)
            .controlled_by("ReplicaSet", "web-7d4c5b9f8"),
    );
    world.pod(
        &pod("api-1-z")
            .asks("A100", 1)
            .controlled_by("ReplicaSet", "api-5f6d7c8b9"),
    );
    assert_eq!(world.admit(), []);
    let workload = |name: &str| {
        Asked::Existing(Reviewed::Workload(ReviewedWorkload {
            kind: "Deployment".to_owned(),
            name: name.to_owned(),
        }))
    };
    let web = ask(&mut world, "team", workload("web")).unwrap();
    assert!(
        web.message.contains("your own pod web-1-x of the same Deployment"),
        "{}",
        web.message
    );
    assert!(web.lets_in.contains("maxSurge to 0"), "{}", web.lets_in);
    // Who describes the pod reads the same.
    world.wait(2);
    let notices = world.notices();
    let said = |name: &str| &notices.iter().find(|notice| *notice.pod.name == *name).unwrap().message;
    let expected =
        "queue team-a: A100 asked 1, used 1, quota 1; your own pod web-1-x of the same Deployment holds some of it: ";
    assert!(
        said("web-2-y").starts_with(expected) && said("web-2-y").contains("maxSurge to 0"),
        "{}",
        said("web-2-y")
    );
    assert_eq!(said("api-1-z"), "queue team-a: A100 asked 1, used 1, quota 1");
    let api = ask(&mut world, "team", workload("api")).unwrap();
    assert!(!api.message.contains("your own pod"), "{}", api.message);
    // That one old pod less would do no good is seen; and that an older one waits, which would come first.
    world.queue(&queue("team-a").quota(r#"{"A100": 0}"#));
    let web = ask(&mut world, "team", workload("web")).unwrap();
    assert!(!web.message.contains("your own pod"), "{}", web.message);
    world.queue(&queue("team-a").quota(r#"{"A100": 1}"#));
    let old = pod("web-1-y").asks("A100", 1).created(-1);
    world.pod(&old.controlled_by("ReplicaSet", "web-6b8f9c4d7"));
    assert_eq!(world.admit(), []);
    for name in ["web-1-y", "web-2-y"] {
        let one = about(&mut world, name);
        assert!(!one.message.contains("your own pod"), "{}", one.message);
    }
}

#[test]
fn replica_sets_that_no_deployment_made_are_of_none() {
    let mut world = World::new();
    world.node(&node("n1").cards("A100", 4));
    world.queue(&queue("team-a").quota(r#"{"A100": 1}"#));
    world.pod(&pod("a").asks("A100", 1).controlled_by("ReplicaSet", "train-a"));
    assert_eq!(world.admit().len(), 1);
    world.pod(&pod("b").asks("A100", 1).controlled_by("ReplicaSet", "train-b"));
    assert_eq!(world.admit(), []);
    let told = about(&mut world, "b").message;
    assert!(
        told.contains("used 1, quota 1") && !told.contains("your own pod"),
        "{told}"
    );
}

#[test]
fn pods_that_another_gate_holds_groups_and_queues_have_an_answer_too() {
    let mut world = world();
    world.pod(
        &pod("gated")
            .asks("A100", 1)
            .gates(&["card.volcano.sh/quota", "example.com/other"]),
    );
    world.group(&group("gang", 2));
    world.pod(&pod("g1").asks("A100", 1).of("gang"));
    assert_eq!(world.admit(), []);
    // Also one of which nobody knows yet whose queue pays for it.
    let claims = json!([{"name": "c", "resourceClaimName": "nowhere"}]);
    let of_claim = bare_pod("of-claim").set(["spec", "resourceClaims"], claims);
    world.pod(&of_claim.gates(&["example.com/other"]));
    let of_claim = about(&mut world, "of-claim");
    assert!(
        of_claim.message.contains("scheduling gates (example.com/other)"),
        "{of_claim:?}"
    );
    // Or one whose maker wrote the gate that nobody else would have: it is taken off, but where Cardgate touches nothing.
    world.pod(&bare_pod("own").gates(&["card.volcano.sh/quota"]));
    let own = about(&mut world, "own");
    assert!(own.message.contains("it is looked at within moments"), "{own:?}");
    let system = bare_pod("system").namespace("kube-system");
    world.pod(&system.gates(&["card.volcano.sh/quota"]));
    let system = ask(
        &mut world,
        "kube-system",
        Asked::Existing(Reviewed::Pod("system".to_owned())),
    );
    let system = system.unwrap();
    assert!(
        system.message.contains("where Cardgate leaves pods alone"),
        "{system:?}"
    );
    assert_eq!(system.lets_in, "create it anew without the gate");
    let gated = about(&mut world, "gated");
    assert_eq!(reasons(&gated), [("HeldByAnotherGate", Outlook::NotYet)]);
    assert!(
        gated.message.contains("scheduling gates (example.com/other)"),
        "{gated:?}"
    );
    let gang = ask(
        &mut world,
        "team",
        Asked::Existing(Reviewed::PodGroup("gang".to_owned())),
    )
    .unwrap();
    assert_eq!(reasons(&gang), [("PodGroupIncomplete", Outlook::NotYet)]);
    assert_eq!(reasons(&about(&mut world, "g1"))[0].0, "PodGroupIncomplete");
    let of_queue = ask(
        &mut world,
        "team",
        Asked::Existing(Reviewed::Queue("team-a".to_owned())),
    )
    .unwrap();
    assert!(of_queue.admitted && of_queue.waiting == Some(1), "{of_queue:?}");
}

/// Who lacks a node is told which comes nearest, what it lacks, and who has that.
#[test]
fn the_node_that_comes_nearest_is_told_with_who_holds_it() {
    let mut world = World::new();
    world.node(&node("n1").cards("A100", 4));
    world.node(&node("n2").cards("A100", 4));
    world.node(&node("n3").cards("A100", 4).cordoned());
    world.queue(&queue("team-a").quota(r#"{"A100": 12}"#));
    world.pod(&pod("mine").asks("A100", 2).pinned_to("n1"));
    world.pod(&pod("other").namespace("other").asks("A100", 3).pinned_to("n2"));
    assert_eq!(world.admit().len(), 2);
    world.pod(&pod("p").asks("A100", 3));
    assert_eq!(world.admit(), []);
    let block = about(&mut world, "p").blocks.remove(0);
    assert_eq!(block.reason, "NoNodeFits");
    let numbers = |short: &Shortage| {
        let place = (short.place.kind.clone(), short.place.name.clone());
        (place, short.asked.clone(), short.used.clone(), short.limit.clone())
    };
    let text = |text: &str| text.to_owned();
    let of_node = ((text("Node"), text("n1")), text("3"), text("2"), Some(text("4")));
    let of_all = ((text("Cluster"), text("")), text("3"), text("5"), Some(text("12")));
    let found: Vec<_> = block.shortages.iter().map(numbers).collect();
    assert_eq!(found, [of_node, of_all]);
    let holders = &block.shortages[0].holders;
    assert_eq!(
        (holders[0].amount.as_str(), holders[0].pods.own.as_slice()),
        ("2", [text("mine")].as_slice())
    );
}

/// Nothing stands in its way by itself: there is quota, and there is room.
#[test]
fn quota_of_one_card_and_room_of_another_let_nobody_in() {
    let mut world = World::new();
    world.node(&node("n1").cards("A100", 4));
    world.node(&node("n2").cards("H100", 1));
    world.queue(&queue("team-a").quota(r#"{"A100": 1, "H100": 4}"#));
    world.pod(&pod("a").asks("A100", 1));
    world.pod(&pod("h").asks("H100", 1));
    assert_eq!(world.admit_names(), ["a", "h"]);
    let either = pod("either").asks("A100|H100", 1);
    let told = imagined(&mut world, &either);
    assert!(!told.admitted, "{told:?}");
    world.pod(&either);
    assert_eq!(world.admit_names(), [""; 0]);
    let really = about(&mut world, "either");
    assert_eq!(reasons(&told), reasons(&really));
    assert_eq!(told.blocks[0].message, really.blocks[0].message);
    world.queue(&queue("team-a").quota(r#"{"A100": 2, "H100": 4}"#));
    assert!(imagined(&mut world, &pod("other").asks("A100|H100", 1)).admitted);
}

#[test]
fn a_question_leaves_nothing_behind() {
    let mut world = world();
    let names = |world: &World| {
        (
            world.cluster.queues().count(),
            world.cluster.queue_named("nowhere").is_some(),
        )
    };
    let before = names(&world);
    for number in 0..100 {
        let status = imagined(
            &mut world,
            &pod("p").queue("nowhere").asks(&format!("made-up-{number}"), 1),
        );
        assert_eq!(status.blocks[0].reason, "QueueNotFound");
    }
    assert_eq!(names(&world), before);
    assert_eq!(world.admit(), []);
    let bare = json!({ "spec": { "containers": [{ "name": "c" }] } });
    let unmanaged = ask(&mut world, "team", Asked::Imagined(Box::new(made_by(bare).unwrap()))).unwrap();
    assert!(unmanaged.admitted, "{unmanaged:?}");
}
