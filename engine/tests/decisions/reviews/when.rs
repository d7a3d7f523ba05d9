//! When something is let in: what is answered, checked against when it then is.

use engine::overview::{Shown, figures};

use super::*;
use crate::devices::{NVIDIA, claiming, gpus, request};

/// A pod that runs since the world began, and may do so for so many seconds besides the 10 that it may take to end.
fn running(name: &str, card: &str, cards: i64, seconds: i64) -> Object {
    let times = json!({
        "spec": { "activeDeadlineSeconds": seconds, "terminationGracePeriodSeconds": 10 },
        "status": { "startTime": at(0).to_string() },
    });
    pod(name).asks(card, cards).ungated().on("n1").with(&times)
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
        world.pod(&running("one", "A100", 1, 100));
        world.pod(&running("two", "A100", 2, 200));
        world.pod(&running("forever", "A100", 2, 0));
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
    world.pod(&running("one", "A100", 3, 100));
    world.pod(&running("two", "A100", 1, 300));
    world.pod(&pod("p").asks("A100", 2));
    assert_estimate(&mut world, "p", &[("one", 110)], (110, "1 pod has run"));
}

/// Of cards that are claimed together, the last that comes free counts; of several ways, the first that is there.
#[test]
fn when_is_told_of_several_cards_where_all_of_them_come_free() {
    let one = |card: &str| json!({"exactly": request(NVIDIA, 1, Some(card))});
    let named = |name: &str, mut request: Value| {
        request["name"] = name.into();
        request
    };
    let both = json!([named("r0", one("A100")), named("r1", one("H100"))]);
    let forms = ["H100", "L40"].map(|card| named(&card.to_lowercase(), request(NVIDIA, 1, Some(card))));
    let either = json!([named("r0", one("A100")), { "name": "r1", "firstAvailable": forms }]);
    for (requests, holders, expected) in [
        (&both, [("a", "A100", 100), ("h", "H100", 200)].as_slice(), Some(210)),
        (&both, &[("a", "A100", 100), ("h", "H100", 0)], None),
        (
            &either,
            &[("a", "A100", 100), ("h", "H100", 200), ("l", "L40", 150)],
            Some(160),
        ),
        (&either, &[("a", "A100", 100), ("h", "H100", 0), ("l", "L40", 0)], None),
    ] {
        let mut world = World::new();
        world.class(NVIDIA, "device.driver == 'gpu.nvidia.com'", None);
        for (name, card, _) in holders {
            world.node(&node(&format!("n-{name}")).cards(card, 1));
        }
        for (name, cards) in [("n1", ["A100", "H100"]), ("n2", ["A100", "L40"])] {
            world.node(&node(name));
            let devices = cards.map(|card| {
                let mut device = gpus(card, 1)[0].clone();
                device["name"] = card.to_lowercase().into();
                device
            });
            world.slice(name, NVIDIA, &json!(devices));
        }
        world.queue(&queue("team-a").quota(r#"{"A100": 1, "H100": 1, "L40": 1}"#));
        for (name, card, seconds) in holders {
            world.pod(&running(name, card, 1, *seconds).on(&format!("n-{name}")));
        }
        world.claim("c", requests, &json!({}));
        world.pod(&claiming(pod("p"), "c"));
        assert_eq!(world.refusal_of("p"), QUOTA);
        let estimate = about(&mut world, "p").estimate;
        let until = estimate.map(|estimate| world.now + SignedDuration::from_secs(estimate.seconds));
        assert_eq!(until, expected.map(at), "{holders:?}");
    }
}

#[test]
fn when_is_told_to_a_gang_for_all_of_it() {
    let mut world = World::new();
    world.node(&node("n1").cards("A100", 8));
    world.queue(&queue("team-a").quota(r#"{"A100": 5}"#));
    world.pod(&running("one", "A100", 1, 100));
    world.pod(&running("two", "A100", 2, 200));
    world.group(&group("gang", 4));
    world.pods((0..4).map(|index| pod(&format!("g{index}")).of("gang").asks("A100", 1)));
    assert_estimate(
        &mut world,
        "g2",
        &[("one", 110), ("two", 210)],
        (210, "2 pods have run"),
    );
}

/// A queue with nothing that waits had a first in line.
#[test]
fn who_stands_aside_waits_in_all_numbers_of_its_queue() {
    let mut world = world();
    let owned = |name: &str| pod(name).asks("A100", 1).controlled_by("ReplicaSet", "web");
    world.pod(&owned("p"));
    assert_eq!(world.admit_names(), ["p"]);
    world.seen_admitted(&owned("p"), "p", Some("A100"));
    world.wait(300);
    assert_eq!(world.decide().len(), 1, "it is sent back");
    world.remove_pod("p");
    let numbers = |world: &mut World| {
        let answer = about(world, "q");
        let mut shown = world.shown().into_iter();
        let usage = shown.find_map(|shown| match shown {
            Shown::Usage { queue, status, .. } if *queue == *"team-a" => status,
            _ => None,
        });
        let usage = usage.unwrap();
        let usage = (usage.waiting_pods, usage.waiting, usage.waiting_workloads);
        let figures = figures(&world.cluster).into_iter();
        let waiting = figures.filter(|figures| *figures.queue == *"team-a");
        let waiting: Vec<_> = waiting
            .flat_map(|figures| figures.waiting)
            .map(|(reason, count)| (reason.as_str(), count))
            .collect();
        (answer.position, answer.waiting, usage, waiting)
    };
    world.pod(&owned("q"));
    assert_eq!(world.admit(), []);
    let aside = (Some(1), Some(1), (1, 1, 1), vec![("ReservationTimeout", 1)]);
    assert_eq!(numbers(&mut world), aside);
    // Another pod of the same controller, and one by itself.
    world.queue(&queue("team-a").quota(r#"{"A100": 0}"#));
    world.pod(&pod("r").asks("A100", 1).created(-1000));
    assert_eq!(world.admit(), []);
    let both = vec![("InsufficientScalarQuota", 1), ("ReservationTimeout", 1)];
    assert_eq!(numbers(&mut world), (Some(2), Some(2), (2, 2, 2), both.clone()));
    world.wait(30);
    assert_eq!(world.admit(), []);
    let line = vec![("InsufficientScalarQuota", 2)];
    assert_eq!(numbers(&mut world), (Some(2), Some(2), (2, 2, 2), line));
}
