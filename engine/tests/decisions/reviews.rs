//! What is answered to questions about what waits: checked against what then happens.

use crds::card_review::{CardReviewStatus, Outlook, Reviewed, ReviewedWorkload, Shortage, pod_of};
use engine::explain::{Asked, review};
use jiff::SignedDuration;
use serde_json::{Value, json};

use crate::world::{Object, World, at, group, held_job, node, pod, queue};

fn ask(world: &mut World, namespace: &str, asked: Asked) -> Result<CardReviewStatus, String> {
    let now = world.now;
    review(&mut world.cluster, namespace, asked, now).map_err(|error| error.to_string())
}

fn about(world: &mut World, name: &str) -> CardReviewStatus {
    ask(world, "team", Asked::Existing(Reviewed::Pod(name.to_owned()))).unwrap()
}

fn imagined(world: &mut World, pod: &Object) -> CardReviewStatus {
    let pod = pod_of(pod.read::<Value>()).unwrap();
    ask(world, "team", Asked::Imagined(Box::new(pod))).unwrap()
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

#[test]
fn the_old_pod_of_the_same_deployment_is_named() {
    let mut world = World::new();
    world.node(&node("n1").cards("A100", 4));
    world.queue(&queue("team-a").quota(r#"{"A100": 1}"#));
    world.pod(&pod("web-1-x").asks("A100", 1).controlled_by("ReplicaSet", "web-1"));
    assert_eq!(world.admit().len(), 1);
    world.pod(&pod("web-2-y").asks("A100", 1).controlled_by("ReplicaSet", "web-2"));
    world.pod(&pod("api-1-z").asks("A100", 1).controlled_by("ReplicaSet", "api-1"));
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
    assert_eq!(
        reasons(&about(&mut world, "gated")),
        [("HeldByAnotherGate", Outlook::NotYet)]
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

/// As a whole before there are pods, and together when there are.
#[test]
fn groups_are_told_who_has_what_they_lack() {
    let mut world = world();
    // People read names in their order; the youngest would be taken back first.
    world.pod(&pod("mine-a").asks("A100", 1));
    world.pod(&pod("mine-b").asks("A100", 1).created(1));
    world.pod(&pod("secret").namespace("other").asks("A100", 1));
    assert_eq!(world.admit().len(), 3);
    let about = |world: &mut World, name: &str| {
        let asked = Asked::Existing(Reviewed::PodGroup(name.to_owned()));
        let status = ask(world, "team", asked).unwrap();
        assert_eq!(reasons(&status)[0], (QUOTA, Outlook::NotYet));
        let short = status.blocks[0].shortages[0].clone();
        let holders: Vec<_> = short
            .holders
            .iter()
            .map(|holder| (holder.amount.clone(), holder.pods.own.clone(), holder.pods.others))
            .collect();
        let own = vec!["mine-a".to_owned(), "mine-b".to_owned()];
        assert_eq!(holders, [("3".to_owned(), own, 1)]);
        (short.place.name, short.asked, short.used, short.limit.unwrap())
    };
    let numbers = |asked: &str| ("team-a".to_owned(), asked.to_owned(), "3".to_owned(), "5".to_owned());
    world.group(&group("whole", 1).card_request(r#"{"A100": 4}"#));
    assert_eq!(world.admit(), []);
    assert_eq!(about(&mut world, "whole"), numbers("4"));

    world.group(&group("gang", 2));
    for name in ["g1", "g2"] {
        world.pod(&pod(name).asks("A100", 2).of("gang"));
    }
    assert_eq!(world.admit(), []);
    assert_eq!(about(&mut world, "gang"), numbers("4"));
}

/// Of groups and Jobs too: not only what is asked first, and who is before them.
#[test]
fn groups_and_jobs_are_told_everything_that_is_in_the_way_and_who_is_before_them() {
    let mut world = world();
    world.pod(&pod("holder").asks("A100", 4));
    assert_eq!(world.admit_names(), ["holder"]);
    world.pod(&pod("mine").asks("A100", 2).created(1));
    world.pod(&pod("secret").namespace("other").asks("A100", 2).created(2));
    world.job(&held_job("whole", r#"{"A100": 2}"#).created(3));
    world.group(&group("gang", 2));
    for name in ["g1", "g2"] {
        world.pod(&pod(name).asks("A100", 2).of("gang").created(4));
    }
    assert_eq!(world.admit(), []);
    let gang = Asked::Existing(Reviewed::PodGroup("gang".to_owned()));
    let job = Asked::Existing(Reviewed::Job("whole".to_owned()));
    let job = ask(&mut world, "team", job).unwrap();
    assert_eq!(reasons(&job), [(QUOTA, Outlook::NotYet)]);
    let gang = ask(&mut world, "team", gang).unwrap();
    assert_eq!(
        reasons(&gang),
        [(QUOTA, Outlook::NotYet), ("NoNodeFits", Outlook::NotYet)]
    );
    let before = |status: &CardReviewStatus| {
        let before = status.before.clone().unwrap();
        (status.position, status.waiting, before.own, before.others)
    };
    let mine = || "mine".to_owned();
    assert_eq!(before(&job), (Some(3), Some(5), vec![mine()], 1));
    let both = vec![mine(), "Job whole".to_owned()];
    assert_eq!(before(&gang), (Some(4), Some(5), both, 1));
    assert_eq!(before(&about(&mut world, "g1")), before(&gang));
}

/// Each pod by itself would have room, so the sum is what they have to be told.
#[test]
fn a_gang_that_is_larger_than_its_queues_quota_is_told_the_sum_and_never() {
    let resources = |cards: i64| json!({ "spec": { "minResources": { "cpu": cards, "nvidia.com/gpu": cards } } });
    let sum = |asked: i64, held: i64| {
        format!(
            "queue team-a can't take PodGroup gang as a whole: A100 asked {asked}, allocated {held}, in queue 0, elastic 0, quota 5"
        )
    };
    let never = "; waiting can't help: ask for less, or have the quota raised";
    for is_written in [true, false] {
        for (members, held, expected) in [(6, 0, Outlook::Never), (5, 1, Outlook::NotYet)] {
            let mut world = World::new();
            world.node(&node("n1").cards("A100", 8));
            world.queue(&queue("team-a").quota(r#"{"A100": 5}"#));
            if held > 0 {
                world.pod(&pod("holder").asks("A100", held));
                assert_eq!(world.admit_names(), ["holder"]);
            }
            let gang = group("gang", members);
            world.group(&if is_written {
                gang.with(&resources(members))
            } else {
                gang
            });
            world.pods((0..members).map(|index| pod(&format!("g{index}")).of("gang").asks("A100", 1)));
            assert_eq!(world.admit(), []);
            let of_pod = about(&mut world, "g1");
            let of_group = Asked::Existing(Reviewed::PodGroup("gang".to_owned()));
            let of_group = ask(&mut world, "team", of_group).unwrap();
            for status in [of_pod, of_group] {
                assert_eq!(reasons(&status)[0], (QUOTA, expected), "{status:?}");
                let block = &status.blocks[0];
                let end = if expected == Outlook::Never { never } else { "" };
                assert_eq!(block.message, sum(members, held) + end);
                let short = &block.shortages[0];
                assert_eq!(
                    (short.asked.as_str(), short.used.as_str()),
                    (&*members.to_string(), &*held.to_string())
                );
                assert_eq!(short.limit.as_deref(), Some("5"));
                assert_eq!(short.holders.len(), usize::from(held > 0));
            }
            // As it then is.
            world.remove_pod("holder");
            let let_in = world.admit().len();
            assert_eq!(let_in > 0, expected == Outlook::NotYet, "{members}");
        }
    }
}

/// The queue that has too little is named, whichever of the pods' queues it is.
#[test]
fn a_gang_in_two_queues_is_told_of_the_one_that_has_too_little() {
    let mut world = World::new();
    world.node(&node("n1").cards("A100", 8));
    world.queue(&queue("team-a").quota(r#"{"A100": 5}"#));
    world.queue(&queue("team-b").quota(r#"{"A100": 1}"#));
    world.group(&group("gang", 4));
    for (name, queue) in [("a1", "team-a"), ("a2", "team-a"), ("b1", "team-b"), ("b2", "team-b")] {
        world.pod(&pod(name).of("gang").queue(queue).asks("A100", 1));
    }
    assert_eq!(world.admit(), []);
    for name in ["a1", "b2"] {
        let block = about(&mut world, name).blocks.remove(0);
        assert_eq!((block.reason.as_str(), block.outlook), (QUOTA, Outlook::Never));
        assert!(
            block
                .message
                .starts_with("queue team-b can't take PodGroup gang as a whole: A100 asked 2, allocated 0,"),
            "{}",
            block.message
        );
    }
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

/// A pod that runs since the world began, and may do so for so many seconds besides the 10 that it may take to end.
fn running(name: &str, cards: i64, seconds: i64) -> Object {
    let times = json!({
        "spec": { "activeDeadlineSeconds": seconds, "terminationGracePeriodSeconds": 10 },
        "status": { "startTime": at(0).to_string() },
    });
    pod(name).asks("A100", cards).ungated().on("n1").with(&times)
}

/// Awaits what was estimated, with all that was told to end by then, and sees who is let in; a second earlier nobody was.
#[track_caller]
fn assert_estimate(world: &mut World, name: &str, ends: &[(&str, i64)], expected: (i64, &str)) {
    assert_eq!(world.admit(), []);
    let status = about(world, name);
    let estimate = status.estimate.clone().unwrap_or_else(|| panic!("{status:?}"));
    assert!(estimate.basis.contains(expected.1), "{}", estimate.basis);
    assert_eq!(
        world.now + SignedDuration::from_secs(estimate.seconds),
        at(expected.0),
        "{}",
        estimate.basis
    );
    let mut ends: Vec<_> = ends.iter().collect();
    ends.sort_by_key(|(_, end)| *end);
    for (holder, end) in ends {
        assert!(
            !world.admit_names().contains(&name.to_owned()),
            "{name} before {holder} ended"
        );
        world.wait(*end - world.now.duration_since(at(0)).as_secs());
        world.remove_pod(holder);
    }
    assert!(world.admit_names().contains(&name.to_owned()), "{name}");
}

#[test]
fn when_is_told_where_those_must_end_who_hold_the_quota() {
    let deadline = "pod has run as long as its activeDeadlineSeconds say";
    // The first to end does not suffice; who is let in before takes some of it.
    let world = || {
        let mut world = World::new();
        world.node(&node("n1").cards("A100", 8));
        world.queue(&queue("team-a").quota(r#"{"A100": 5}"#));
        world.pod(&running("one", 1, 100));
        world.pod(&running("two", 2, 200));
        world.pod(&running("forever", 2, 0));
        world
    };
    let mut alone = world();
    alone.pod(&pod("p").asks("A100", 1));
    assert_estimate(&mut alone, "p", &[("one", 110)], (110, &format!("1 {deadline}")));
    let mut more = world();
    more.pod(&pod("p").asks("A100", 2));
    let both = "2 pods have run as long as their activeDeadlineSeconds say";
    assert_estimate(&mut more, "p", &[("one", 110), ("two", 210)], (210, both));
    let mut second = world();
    second.pod(&pod("first").asks("A100", 1).created(1));
    second.pod(&pod("p").asks("A100", 1).created(2));
    assert_estimate(&mut second, "p", &[("one", 110), ("two", 210)], (210, both));
    // Nothing says when the last two are given back, or what can never be had.
    for cards in [4, 6] {
        let mut world = world();
        world.pod(&pod("p").asks("A100", cards));
        assert_eq!(world.admit(), []);
        assert_eq!(about(&mut world, "p").estimate, None, "{cards}");
    }
    // Who might be created is told the same.
    let mut world = world();
    let estimate = imagined(&mut world, &pod("p").asks("A100", 1)).estimate.unwrap();
    assert_eq!(world.now + SignedDuration::from_secs(estimate.seconds), at(110));
}

/// Whatever tenants write of the times of their own pods and Jobs, others are told a time that can be, or none.
#[test]
fn times_that_cannot_be_are_nobodys_estimate() {
    const ODD: [i64; 8] = [i64::MAX, i64::MAX - 1, 1 << 53, 1, 0, -1, -(1 << 53), i64::MIN];
    let starts = [
        "9999-12-31T23:59:59Z",
        "-009999-01-02T01:59:59Z",
        "2026-02-30T00:00:00Z",
        "soon",
    ];
    let starts = starts.map(str::to_owned).into_iter().chain([at(0).to_string()]);
    for start in starts {
        for deadline in ODD {
            for grace in ODD {
                let mut world = World::new();
                world.node(&node("n1").cards("A100", 8));
                world.queue(&queue("team-a").quota(r#"{"A100": 5}"#));
                let times = json!({ "activeDeadlineSeconds": deadline, "terminationGracePeriodSeconds": grace });
                let holder = pod("holder").asks("A100", 2).ungated().on("n1");
                let ends = json!({ "spec": times, "status": { "startTime": start } });
                world.pod(&holder.with(&ends).controlled_by("Job", "job"));
                let going = json!({ "metadata": { "deletionTimestamp": start } });
                let spec = json!({ "terminationGracePeriodSeconds": grace });
                world.pod(
                    &pod("going")
                        .asks("A100", 1)
                        .ungated()
                        .on("n1")
                        .with(&going)
                        .with(&json!({ "spec": spec })),
                );
                let running = json!({
                    "spec": { "suspend": false, "activeDeadlineSeconds": deadline, "template": { "spec": spec } },
                    "status": { "startTime": start },
                });
                world.job(&held_job("job", r#"{"A100": 2}"#).with(&running));
                world.pod(&pod("p").asks("A100", 3));
                world.admit();
                let said = about(&mut world, "p").estimate;
                let until = said.map(|said| world.now + SignedDuration::from_secs(said.seconds));
                assert!(
                    until.is_none_or(|until| until >= world.now),
                    "{start} {deadline} {grace}"
                );
            }
        }
    }
}

/// What a Job's pods may take to end is its template's to say.
#[test]
fn when_is_told_where_a_job_must_end_whose_pods_hold_the_quota() {
    let world = |grace: Value| {
        let mut world = World::new();
        world.node(&node("n1").cards("A100", 8));
        world.queue(&queue("team-a").quota(r#"{"A100": 5}"#));
        let running = json!({
            "spec": { "suspend": false, "activeDeadlineSeconds": 100, "template": { "spec": grace } },
            "status": { "startTime": at(0).to_string() },
        });
        world.job(&held_job("job", r#"{"A100": 4}"#).with(&running));
        let worker = pod("worker").asks("A100", 4).ungated().on("n1");
        world.pod(&worker.controlled_by("Job", "job"));
        world
    };
    let deadline = "1 pod has run as long as its activeDeadlineSeconds say";
    for (grace, end) in [
        (json!({}), 130),
        (json!({ "terminationGracePeriodSeconds": null }), 130),
        (json!({ "terminationGracePeriodSeconds": 5 }), 105),
    ] {
        let mut world = world(grace);
        world.pod(&pod("p").asks("A100", 3));
        assert_eq!(world.admit(), []);
        let estimate = about(&mut world, "p").estimate.unwrap();
        assert!(estimate.basis.contains(deadline), "{}", estimate.basis);
        assert_eq!(world.now + SignedDuration::from_secs(estimate.seconds), at(end));
    }
}

/// Anybody may write on a pod that a Job of this name made it: it would be expected to end with one that has nothing to do with it.
#[test]
fn no_job_ends_pods_that_it_did_not_make() {
    for (uid, says_when) in [(json!("job"), true), (json!("another"), false), (json!(null), false)] {
        let mut world = World::new();
        world.node(&node("n1").cards("A100", 8));
        world.queue(&queue("team-a").quota(r#"{"A100": 5}"#));
        let running = json!({
            "spec": { "suspend": false, "activeDeadlineSeconds": 100 }, "status": { "startTime": at(0).to_string() },
        });
        world.job(&held_job("job", r#"{"A100": 4}"#).with(&running));
        let owner = json!([{ "apiVersion": "batch/v1", "kind": "Job", "name": "job", "uid": uid, "controller": true }]);
        let worker = pod("worker").asks("A100", 4).ungated().on("n1");
        world.pod(&worker.set(["metadata", "ownerReferences"], owner));
        world.pod(&pod("p").asks("A100", 3));
        assert_eq!(world.admit(), []);
        assert_eq!(about(&mut world, "p").estimate.is_some(), says_when, "{uid}");
    }
}

#[test]
fn when_is_told_of_pods_that_are_being_deleted_sent_back_or_on_the_node() {
    let mut world = World::new();
    world.node(&node("n1").cards("A100", 4));
    world.queue(&queue("team-a").quota(r#"{"A100": 4}"#));
    world.pod(&pod("going").asks("A100", 4).ungated().on("n1").deleted(40));
    world.pod(&pod("p").asks("A100", 1));
    let timeout = i64::try_from(world.cluster.configuration().cardgate.terminating_timeout.as_secs()).unwrap();
    assert_eq!(world.admit(), []);
    let status = about(&mut world, "p");
    // The quota comes back in any case; the node has room when the pod is gone.
    let estimate = status.estimate.unwrap();
    assert_eq!(
        world.now + SignedDuration::from_secs(estimate.seconds),
        at(40 + timeout)
    );
    assert!(
        estimate.basis.contains("1 pod that is being deleted is gone;"),
        "{}",
        estimate.basis
    );

    // A pod that no node is found for is sent back; others' names are not told.
    let mut world = self::world();
    let made = |name: &str| {
        pod(name)
            .namespace("other")
            .asks("A100", 2)
            .controlled_by("ReplicaSet", name)
    };
    world.pods([made("secret-1"), made("secret-2")]);
    assert_eq!(world.admit().len(), 2);
    for name in ["secret-1", "secret-2"] {
        world.pod(&made(name).ungated());
    }
    world.pod(&pod("p").asks("A100", 2));
    assert_eq!(world.admit(), []);
    let status = about(&mut world, "p");
    let estimate = status.estimate.clone().unwrap_or_else(|| panic!("{status:?}"));
    let timeout = i64::try_from(world.cluster.configuration().cardgate.reservation_timeout.as_secs()).unwrap();
    assert!(
        estimate
            .basis
            .contains("1 pod is sent back unless it finds a node (reservationTimeout)"),
        "{}",
        estimate.basis
    );
    assert_eq!(estimate.seconds, timeout);
    assert!(!format!("{status:?}").contains("secret"), "{status:?}");

    // Quota is left, and a node is full: of the one that comes nearest.
    let mut world = World::new();
    world.node(&node("n1").cards("A100", 4));
    world.queue(&queue("team-a").quota(r#"{"A100": 8}"#));
    world.pod(&running("one", 3, 100));
    world.pod(&running("two", 1, 300));
    world.pod(&pod("p").asks("A100", 2));
    assert_estimate(&mut world, "p", &[("one", 110)], (110, "1 pod has run"));
}

#[test]
fn when_is_told_to_a_gang_for_all_of_it() {
    let mut world = World::new();
    world.node(&node("n1").cards("A100", 8));
    world.queue(&queue("team-a").quota(r#"{"A100": 5}"#));
    world.pod(&running("one", 1, 100));
    world.pod(&running("two", 2, 200));
    world.group(&group("gang", 4));
    world.pods((0..4).map(|index| pod(&format!("g{index}")).of("gang").asks("A100", 1)));
    assert_estimate(
        &mut world,
        "g2",
        &[("one", 110), ("two", 210)],
        (210, "2 pods have run"),
    );
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
    let unmanaged = ask(&mut world, "team", Asked::Imagined(Box::new(pod_of(bare).unwrap()))).unwrap();
    assert!(unmanaged.admitted, "{unmanaged:?}");
}
