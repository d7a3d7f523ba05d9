//! **Job Enqueueable Check**: workloads as a whole, before their pods exist and before the first of them is let in.

use engine::Answer;
use engine::amounts::Dimension;
use engine::decide::Action;
use engine::explain::{Subject, explain};
use engine::refs::WorkloadKind;

use crate::world::{Object, World, configuration, group, held_job, node, pod, queue, queue_plugin};

fn world() -> World {
    let mut world = World::new();
    world.node(&node("n1").cards("A100", 8));
    world.node(&node("n2").cards("H100", 8));
    world.queue(&queue("team-a").quota(r#"{"A100": 5, "H100": 3}"#));
    world
}

impl World {
    fn is_group_enqueued(&self, name: &str) -> bool {
        self.is_enqueued(WorkloadKind::PodGroup, name)
    }

    fn nothing_is_reserved(&self) -> bool {
        self.known_queue("team-a").inqueue.is_empty()
    }
}

fn member(group: &str, index: usize, cards: &str) -> Object {
    pod(&format!("{group}-{index}")).of(group).asks(cards, 1)
}

/// mGPU, **Volcano Plugin Config**: the document's own actions are `allocate, backfill`.
#[test]
fn without_the_action_enqueue_no_group_and_no_job_is_checked_as_a_whole() {
    for (actions, waits) in [("enqueue, allocate, backfill", true), ("allocate, backfill", false)] {
        let mut world = World::with(queue_plugin("capacity-card", actions, ""));
        world.node(&node("n1").cards("A100", 8));
        world.queue(&queue("team-a").quota(r#"{"A100": 2}"#));
        // The group and the Job ask for more than the queue may have; each of their pods by itself does not.
        world.group(&group("large", 1).card_request(r#"{"A100": 4}"#));
        world.pods((0..3).map(|index| member("large", index, "A100")));
        world.job(&held_job("job", r#"{"A100": 4}"#));
        let actions = world.decide();
        let admitted = actions
            .iter()
            .filter(|action| matches!(action, Action::Admit(_)))
            .count();
        let resumed = actions
            .iter()
            .filter(|action| matches!(action, Action::Resume(_)))
            .count();
        assert_eq!((admitted, resumed), if waits { (0, 0) } else { (2, 1) }, "{actions:?}");
    }
}

/// Where nobody is asked as a whole, nothing is kept for anybody: so nobody keeps anything in vain, and steps back for others.
#[test]
fn without_the_action_enqueue_time_keeps_nobody_out() {
    for (plugin, actions) in [
        ("capacity-card", "allocate, backfill"),
        ("drf", "enqueue, allocate, backfill"),
    ] {
        let mut world = World::with(queue_plugin(plugin, actions, ""));
        world.node(&node("n1").cards("A100", 1));
        world.queue(&queue("team-a").quota(r#"{"A100": 1}"#));
        world.pod(&pod("holds").asks("A100", 1));
        world.admit();
        world.group(&group("g", 1).card_request(r#"{"A100": 1}"#));
        world.pod(&member("g", 0, "A100"));
        world.job(&held_job("a", r#"{"A100": 1}"#));
        world.decide();
        assert!(world.is_group_enqueued("g"));
        assert!(world.nothing_is_reserved());
        world.wait(24 * 3600);
        world.decide();
        assert!(world.is_group_enqueued("g"), "{plugin}");
        world.job(&held_job("b", r#"{"A100": 1}"#));
        let actions = world.decide();
        let resumed = actions.iter().filter(|action| matches!(action, Action::Resume(_)));
        assert_eq!(resumed.count(), 1, "{plugin}: {actions:?}");
        // What waits when groups are asked again has its whole time from then on.
        let now = world.now;
        world.set_configuration(queue_plugin("capacity-card", "enqueue, allocate, backfill", ""), now);
        world.decide();
        let id = world
            .cluster
            .workload_named(WorkloadKind::PodGroup, "team", "g")
            .unwrap();
        let why = explain(&world.cluster, Subject::Workload(id));
        assert_ne!(why.map(|why| why.reason.as_str()), Some("InqueueTimeout"), "{plugin}");
    }
}

/// Who stands aside, for what was kept in vain, does so no longer where nothing is kept.
#[test]
fn who_stands_aside_comes_back_where_nobody_is_asked_any_more() {
    let mut world = World::with(queue_plugin("capacity-card", "enqueue, allocate, backfill", ""));
    world.node(&node("n1").cards("A100", 1));
    world.queue(&queue("team-a").quota(r#"{"A100": 1}"#));
    world.group(&group("empty", 1).card_request(r#"{"A100": 1}"#));
    world.decide();
    world.wait(601);
    world.decide();
    world.job(&held_job("held", r#"{"A100": 1}"#));
    let is_resumed = |world: &mut World| {
        let actions = world.decide();
        actions.iter().any(|action| matches!(action, Action::Resume(_)))
    };
    assert!(!is_resumed(&mut world));
    let now = world.now;
    world.set_configuration(queue_plugin("capacity-card", "allocate, backfill", ""), now);
    assert!(is_resumed(&mut world));
}

/// Nor does a write that was refused before what was kept then was kept in vain; who had one refused just now waits for that.
#[test]
fn who_stands_aside_for_what_was_kept_in_vain_comes_back_though_a_write_was_refused_before() {
    for (waits, is_resumed) in [(700, true), (0, false)] {
        let mut world = World::with(queue_plugin("capacity-card", "enqueue, allocate, backfill", ""));
        world.node(&node("n1").cards("A100", 1));
        world.queue(&queue("team-a").quota(r#"{"A100": 1}"#));
        world.job(&held_job("job", r#"{"A100": 1}"#));
        assert_eq!(world.resume(), ["job"]);
        world.resumption_ended("job", Answer::Refused("no".into()), world.now);
        if waits > 0 {
            world.wait(30);
            assert_eq!(world.resume(), ["job"]);
            world.wait(waits);
        }
        assert_eq!(world.resume(), [""; 0]);
        let now = world.now;
        world.set_configuration(queue_plugin("capacity-card", "allocate, backfill", ""), now);
        assert_eq!(world.resume().len(), usize::from(is_resumed), "{waits}");
    }
}

#[test]
fn job_mode_example() {
    // Allocated: A100=2, H100=1. A job asks for `A100|H100` 4: 2 + 1 + 4 = 7 <= 8.
    let mut world = world();
    world.pods((0..2).map(|index| pod(&format!("a{index}")).asks("A100", 1)));
    world.pod(&pod("h0").asks("H100", 1));
    assert_eq!(world.admit().len(), 3);
    world.group(&group("job", 4).card_request(r#"{"A100|H100": 4}"#));
    world.group(&group("next", 1).created(1).card_request(r#"{"A100|H100": 2}"#));
    world.group(&group("small", 1).created(2).card_request(r#"{"H100": 1}"#));
    assert_eq!(world.admit(), []);
    assert!(world.is_group_enqueued("job"));
    assert!(!world.is_group_enqueued("next"), "2 + 1 + 4 + 2 = 9 > 8");
    assert!(world.is_group_enqueued("small"), "2 + 1 + 4 + 1 = 8 <= 8");
}

/// Found by the simulator (seed 25379): nobody looked at the group again, and it was told that its queue lacks what nobody asks for.
#[test]
fn a_group_whose_pods_are_gone_is_told_nothing_of_what_they_asked_for() {
    let mut world = world();
    world.group(&group("g", 1));
    world.pod(&pod("g-0").of("g").asks("A100", 6));
    assert_eq!(world.admit(), []);
    let group = world
        .cluster
        .workload_named(WorkloadKind::PodGroup, "team", "g")
        .unwrap();
    let is_told = |world: &World| explain(&world.cluster, Subject::Workload(group)).is_some();
    assert!(is_told(&world));
    world.remove_pod("g-0");
    assert_eq!(world.admit(), []);
    assert!(!is_told(&world));
}

#[test]
fn a_reservation_ends_when_pods_take_over() {
    let mut world = world();
    world.group(&group("a", 3).card_request(r#"{"A100": 5}"#));
    world.group(&group("b", 1).created(1).card_request(r#"{"A100": 2}"#));
    assert_eq!(world.admit(), []);
    assert!(world.is_group_enqueued("a") && !world.is_group_enqueued("b"));
    // Two of three pods change nothing yet.
    world.pods((0..2).map(|index| member("a", index, "A100")));
    assert_eq!(world.admit(), []);
    assert!(!world.is_group_enqueued("b"));
    world.pod(&member("a", 2, "A100"));
    assert_eq!(world.admit().len(), 3);
    // From now on its pods count: 3 of 5.
    assert_eq!(world.admit(), []);
    assert!(world.is_group_enqueued("b"));
    // And its request has no effect: the fourth goes one by one.
    world.pod(&member("a", 3, "A100"));
    assert_eq!(world.admit_names(), ["a-3"]);
}

#[test]
fn a_reservation_ends_with_its_group() {
    let mut world = world();
    for (name, created) in [("a", 0), ("b", 1), ("c", 2)] {
        world.group(&group(name, 1).created(created).card_request(r#"{"A100": 5}"#));
    }
    assert_eq!(world.admit(), []);
    assert!(world.is_group_enqueued("a") && !world.is_group_enqueued("b"));
    world.remove_group("team", "a");
    assert_eq!(world.admit(), []);
    assert!(world.is_group_enqueued("b") && !world.is_group_enqueued("c"));
    world.group(
        &group("b", 1)
            .card_request(r#"{"A100": 5}"#)
            .set(["status", "phase"], "Completed"),
    );
    assert_eq!(world.admit(), []);
    assert!(world.is_group_enqueued("c"));
    world.remove_group("team", "c");
    assert!(world.nothing_is_reserved());
}

#[test]
fn what_is_in_its_queue_is_there_after_a_restart() {
    let mut world = world();
    let phase = |object: Object, phase: &str| object.set(["status", "phase"], phase);
    world.group(&phase(
        group("b", 1).created(1).card_request(r#"{"A100": 4}"#),
        "Inqueue",
    ));
    world.group(&group("a", 1).card_request(r#"{"A100": 2}"#));
    world.group(&phase(group("c", 1).card_request(r#"{"A100": 5}"#), "Running"));
    assert_eq!(world.admit(), []);
    assert!(!world.is_group_enqueued("a"), "4 + 2 > 5");
    world.group(&phase(
        group("b", 1).created(1).card_request(r#"{"A100": 4}"#),
        "Running",
    ));
    assert_eq!(world.admit(), []);
    assert!(world.is_group_enqueued("a"), "pods of b have run, and are gone");
}

#[test]
fn a_group_is_judged_as_a_whole_until_its_first_pod_is_admitted() {
    // Four of the six would fit one by one.
    let mut world = world();
    world.group(&group("a", 1).card_request(r#"{"A100": 6}"#));
    world.pods((0..6).map(|index| member("a", index, "A100")));
    assert_eq!(world.refusal_of("a-0"), "InsufficientScalarQuota");
    world.queue(&queue("team-a").quota(r#"{"A100": 6}"#));
    assert_eq!(world.admit().len(), 6);
    assert!(world.nothing_is_reserved());
}

#[test]
fn a_group_that_asks_for_nothing_is_not_let_in_unchecked() {
    let mut world = world();
    world.group(&group("a", 1).card_request(r#"{"A100": 3}"#));
    assert_eq!(world.admit(), []);
    // Three are kept for the first group; the second names neither minResources nor cards, and its pods ask for three.
    world.group(&group("b", 3));
    world.pods((0..3).map(|index| member("b", index, "A100")));
    assert_eq!(world.refusal_of("b-0"), "InsufficientScalarQuota");
    world.remove_group("team", "a");
    assert_eq!(world.admit().len(), 3);
}

#[test]
fn min_resources_count_and_pods_show_the_cards() {
    let mut world = world();
    world.queue(&queue("team-a").quota(r#"{"A100": 5}"#).capability("cpu", "10"));
    let least = |name: &str, created, cpu: &str| {
        group(name, 2)
            .created(created)
            .set(["spec", "minResources"], serde_json::json!({"cpu": cpu}))
    };
    world.group(&least("a", 0, "6"));
    world.group(&least("b", 1, "6"));
    assert_eq!(world.admit(), []);
    assert!(world.is_group_enqueued("a") && !world.is_group_enqueued("b"));
    world.pods((0..2).map(|index| member("a", index, "A100").requests("nvidia.com/gpu", "3")));
    assert_eq!(world.refusal_of("a-0"), "InsufficientScalarQuota");
    world.queue(&queue("team-a").quota(r#"{"A100": 6}"#).capability("cpu", "10"));
    assert_eq!(world.admit().len(), 2);
}

#[test]
fn elastic_pods_count_for_nobody() {
    // `elastic` is what a group holds beyond its minimum: 5 of 5 are allocated, 3 of them elastic.
    let mut world = world();
    world.group(&group("a", 2));
    world.pods((0..5).map(|index| member("a", index, "A100")));
    assert_eq!(world.admit().len(), 5);
    let card = world.cluster.names().known_card("A100").unwrap();
    assert_eq!(world.known_queue("team-a").elastic.get(Dimension::Card(card)), 3);
    world.group(&group("b", 1).created(1).card_request(r#"{"A100": 3}"#));
    world.group(&group("c", 1).created(2).card_request(r#"{"A100": 1}"#));
    assert_eq!(world.admit(), []);
    assert!(world.is_group_enqueued("b") && !world.is_group_enqueued("c"));
    // In its queue, but not admitted before there is room.
    world.pod(&member("b", 0, "A100"));
    assert_eq!(world.refusal_of("b-0"), "InsufficientScalarQuota");
    // One of the first two goes: one of the elastic ones takes its place.
    world.remove_pod("a-0");
    assert_eq!(world.known_queue("team-a").elastic.get(Dimension::Card(card)), 2);
    assert_eq!(world.admit_names(), ["b-0"]);
}

#[test]
fn beside_volcano_phases_are_its_own() {
    let mut world = World::with(configuration("", "enqueue: false"));
    world.node(&node("n1").cards("A100", 8));
    world.queue(&queue("team-a").quota(r#"{"A100": 5}"#));
    world.group(
        &group("a", 1)
            .card_request(r#"{"A100": 5}"#)
            .set(["status", "phase"], "Inqueue"),
    );
    world.group(&group("b", 1).card_request(r#"{"A100": 6}"#));
    assert_eq!(world.admit(), []);
    assert!(!world.is_group_enqueued("b") && world.nothing_is_reserved());
    // What the group asks for is checked all the same once its pods are there.
    world.pod(&member("b", 0, "A100"));
    assert_eq!(world.refusal_of("b-0"), "InsufficientScalarQuota");
    // Jobs are none of Volcano's business.
    world.job(&held_job("job", r#"{"A100": 5}"#));
    assert_eq!(world.resume(), ["job"]);
}

#[test]
fn a_group_that_can_never_run_keeps_nothing_from_others() {
    let mut world = world();
    world.group(&group("huge", 1).card_request(r#"{"A100": 5}"#));
    assert_eq!(world.admit(), []);
    assert!(world.is_group_enqueued("huge"));
    world.group(&group("b", 1).created(1).card_request(r#"{"A100": 5}"#));
    world.pod(&member("huge", 0, "A100").requests("cpu", "500"));
    assert_eq!(world.admit(), []);
    assert_eq!(world.admit(), []);
    assert!(!world.is_group_enqueued("huge"));
    assert!(world.is_group_enqueued("b"));
}

#[test]
fn a_held_job_is_resumed_when_there_is_room_for_all_of_it() {
    let mut world = world();
    world.pods((0..2).map(|index| pod(&format!("a{index}")).asks("A100", 1)));
    assert_eq!(world.admit().len(), 2);
    world.job(&held_job("first", r#"{"A100": 4}"#));
    world.job(&held_job("second", r#"{"A100": 3}"#).created(1));
    assert_eq!(world.resume(), ["second"], "the first does not fit and blocks nobody");
    world.remove_pod("a0");
    world.remove_pod("a1");
    assert_eq!(world.resume(), [""; 0], "3 are kept for the second");
    // Resumed, and its first pod is let in: its pods count from then on.
    let resumed = held_job("second", r#"{"A100": 3}"#)
        .created(1)
        .set(["spec", "suspend"], false);
    world.job(&resumed);
    assert_eq!(world.resume(), [""; 0]);
    let of_second = |index: i32| {
        pod(&format!("second-{index}"))
            .asks("A100", 1)
            .controlled_by("Job", "second")
    };
    world.pods((0..2).map(of_second));
    assert_eq!(world.admit_names(), ["second-0", "second-1"]);
    assert_eq!(world.resume(), [""; 0], "2 + 4 > 5: a Job's pods are not elastic");
    world.remove_pod("second-1");
    assert_eq!(world.resume(), ["first"], "1 + 4 <= 5");
    world.remove_job("team", "first");
    world.remove_job("team", "second");
    assert!(world.nothing_is_reserved());
}

#[test]
fn a_job_that_is_suspended_by_its_user_stays_so() {
    let mut world = world();
    let job = held_job("job", r#"{"A100": 4}"#);
    let by_user = job.clone().set(
        ["metadata", "annotations"],
        serde_json::json!({"volcano.sh/card.request": r#"{"A100": 4}"#}),
    );
    world.job(&by_user);
    assert_eq!(world.resume(), [""; 0]);
    world.job(&job);
    assert_eq!(world.resume(), ["job"]);
    assert_eq!(world.resume(), [""; 0], "once");
    // Its end gives back what was kept for it.
    let finished = by_user.set(
        ["status", "conditions"],
        serde_json::json!([{"type": "Failed", "status": "True"}]),
    );
    world.job(&finished);
    assert!(world.nothing_is_reserved());
}

/// It was resumed, and quota was kept for pods that no Job on its way out makes: for as long as its finalizers kept it.
#[test]
fn nothing_is_kept_for_a_job_that_is_being_deleted() {
    let mut world = world();
    let job = held_job("job", r#"{"A100": 4}"#);
    world.job(&job.clone().deleted(0));
    assert_eq!(world.resume(), [""; 0]);
    world.job(&job);
    assert_eq!(world.resume(), ["job"]);
    assert!(!world.nothing_is_reserved());
    world.job(&job.deleted(0));
    assert!(world.nothing_is_reserved());
}

#[test]
fn a_job_that_could_not_be_resumed_is_tried_again() {
    let mut world = world();
    world.job(&held_job("job", r#"{"A100": 4}"#));
    assert_eq!(world.resume(), ["job"]);
    world.refuse_resumption("job", world.now);
    assert_eq!(world.resume(), [""; 0]);
    assert!(world.nothing_is_reserved());
    world.wait(6);
    assert_eq!(world.resume(), ["job"]);
}

#[test]
fn a_job_that_is_held_again_is_judged_again() {
    let mut world = world();
    let job = held_job("job", r#"{"A100": 4}"#);
    world.job(&job);
    assert_eq!(world.resume(), ["job"]);
    world.job(&job.clone().set(["spec", "suspend"], false));
    world.pod(&pod("job-0").asks("A100", 1).controlled_by("Job", "job"));
    assert_eq!(world.admit().len(), 1);
    world.remove_pod("job-0");
    world.pods((0..3).map(|index| pod(&format!("a{index}")).asks("A100", 1)));
    assert_eq!(world.admit().len(), 3);
    world.job(&job);
    assert_eq!(world.resume(), [""; 0], "3 + 4 > 5");
    world.remove_pod("a0");
    world.remove_pod("a1");
    assert_eq!(world.resume(), ["job"]);
}

/// A Job's controller deletes pods in the background: their last events come after the Job is held anew.
#[test]
fn a_held_job_does_not_wait_for_ever_for_pods_of_before() {
    let old = || {
        let old = pod("job-0").asks("A100", 1).controlled_by("Job", "job");
        old.assigned("A100").on("n1")
    };
    let job = held_job("job", r#"{"A100": 5}"#);
    let resumed = || job.clone().set(["spec", "suspend"], false);
    for how in ["made anew", "suspended again", "seen by the next leader"] {
        let mut world = world();
        if how == "seen by the next leader" {
            world.job(&job);
        } else {
            world.job(&resumed());
            world.pod(&old());
            if how == "made anew" {
                world.remove_job("team", "job");
                world.job(&job.clone().uid("another"));
            } else {
                world.job(&job);
            }
            assert_eq!(world.resume(), [""; 0], "{how}");
        }
        world.pod(&old().deleted(30));
        assert_eq!(world.resume(), [""; 0], "{how}: one of before is there");
        world.remove_pod("job-0");
        assert_eq!(world.resume(), ["job"], "{how}");
    }
}

/// Nor is a group judged by what ran before it, which is looked at again whenever something is to be taken back.
#[test]
fn a_group_that_is_made_anew_is_judged_as_a_whole_while_pods_of_before_end() {
    let mut world = world();
    let old = member("g", 0, "A100").assigned("A100").on("n1");
    world.group(&group("g", 1));
    world.pod(&old);
    world.remove_group("team", "g");
    world.pod(&old.clone().deleted(30));
    world.group(&group("g", 1).uid("another").card_request(r#"{"A100": 6}"#));
    world.pod(&old.deleted(29));
    world.pod(&member("g", 1, "A100"));
    assert_eq!(world.admit(), [], "6 > 5");
}

#[test]
fn a_queue_that_takes_nothing_enqueues_nothing() {
    let mut world = world();
    world.group(
        &group("a", 1)
            .set(["spec", "queue"], "gone")
            .card_request(r#"{"A100": 1}"#),
    );
    assert_eq!(world.admit(), []);
    assert!(!world.is_group_enqueued("a"));
    world.queue(&queue("gone").quota(r#"{"A100": 1}"#).set(["status", "state"], "Closed"));
    assert_eq!(world.admit(), []);
    assert!(!world.is_group_enqueued("a"));
    world.queue(&queue("gone").quota(r#"{"A100": 1}"#));
    assert_eq!(world.admit(), []);
    assert!(world.is_group_enqueued("a"));
}

#[test]
fn a_group_that_a_pod_kept_out_is_enqueued_when_that_pod_is_gone() {
    let mut world = world();
    world.group(&group("a", 2).card_request(r#"{"A100": 2}"#));
    assert_eq!(world.admit(), []);
    assert!(world.is_group_enqueued("a"));
    world.pod(&member("a", 0, "A100"));
    world.pod(&pod("a-1").of("a").asks("A100", 9));
    assert_eq!(world.admit(), []);
    assert!(!world.is_group_enqueued("a"), "no node has 9 cards");
    assert_eq!(world.refusal_of("a-0"), "NoNodeFits");
    world.remove_pod("a-1");
    assert_eq!(world.admit(), []);
    assert!(world.is_group_enqueued("a"));
    assert_eq!(world.refusal_of("a-0"), "PodGroupIncomplete");
    world.pod(&member("a", 1, "A100"));
    assert_eq!(world.admit_names(), ["a-0", "a-1"]);
}
