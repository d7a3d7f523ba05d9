//! A clock that ran ahead and is set back, as by the network: what was to come in half a minute comes in half a minute, and not when the clock
//! is where it was.

use engine::cluster::reclaims::EvictionOutcome;
use engine::decide::Action;
use engine::explain::progress;
use engine::refs::WorkloadKind;
use k8s_openapi::jiff::SignedDuration;

use crate::world::{Object, World, bare_queue, capacity, configuration, group, held_job, node, pod, queue};

/// How far it ran ahead.
const AHEAD: SignedDuration = SignedDuration::from_mins(40);

impl World {
    /// The clock is set back, which is seen in the next round; then so many seconds go by.
    fn set_back(&mut self, seconds: i64) {
        self.set_back_by(AHEAD);
        self.wait(seconds);
    }

    fn set_back_by(&mut self, by: SignedDuration) {
        self.now -= by;
        assert_eq!(self.decide(), []);
    }

    fn is_unplaced(&mut self, uid: &str) -> bool {
        let actions = self.decide();
        actions
            .iter()
            .any(|action| matches!(action, Action::Unplaced { pod, .. } if *pod.uid == *uid))
    }
}

/// A cluster whose clock runs ahead, in which this is configured.
fn world(cardgate: &str) -> World {
    let mut world = World::with(configuration("", cardgate));
    world.node(&node("n1").cards("A", 8));
    world.queue(&queue("team-a").quota(r#"{"A": 5}"#));
    assert!(world.decide().is_empty());
    world.now += AHEAD;
    world
}

fn asking(name: &str, cards: i64) -> Object {
    group(name, 1).card_request(&format!(r#"{{"A": {cards}}}"#))
}

#[test]
fn a_pod_stands_aside_for_no_longer() {
    let mut world = world("");
    world.pod(&pod("p").asks("A", 1));
    assert_eq!(world.admit_names(), ["p"]);
    world.refuse("p", world.now);
    assert_eq!(world.admit_names(), [""; 0]);
    world.set_back(1);
    assert_eq!(world.admit_names(), [""; 0], "it was to wait for 5 s");
    world.wait(4);
    assert_eq!(world.admit_names(), ["p"]);
}

/// Nobody waits much longer by one of them.
#[test]
fn short_steps_back_are_counted_together() {
    for (seconds, steps, waits) in [(4, 1, 9), (4, 3, 9), (1, 40, 5), (1, 41, 6)] {
        let mut world = world("");
        world.pod(&pod("p").asks("A", 1));
        assert_eq!(world.admit_names(), ["p"]);
        world.refuse("p", world.now);
        for _ in 0..steps {
            world.set_back_by(SignedDuration::from_secs(seconds));
        }
        world.wait(waits - 1);
        assert_eq!(
            world.admit_names(),
            [""; 0],
            "{steps} of {seconds} s: it was to wait for 5 s"
        );
        world.wait(1);
        assert_eq!(world.admit_names(), ["p"], "{steps} of {seconds} s");
    }
}

/// What was heard in the round in which the clock was set back was brought back with what was noted before.
#[test]
fn what_is_noted_by_the_clock_that_was_set_back_stays() {
    let mut world = world("");
    world.pod(&pod("p").asks("A", 1));
    assert_eq!(world.admit_names(), ["p"]);
    world.now -= AHEAD;
    world.cluster.tell_time(world.now);
    world.refuse("p", world.now);
    assert_eq!(world.admit_names(), [""; 0], "it is to wait for 5 s");
    world.wait(5);
    assert_eq!(world.admit_names(), ["p"]);
}

#[test]
fn who_comes_after_a_pod_that_was_sent_back_stands_aside_for_no_longer() {
    let mut world = world("reservationTimeout: 5m");
    let first = pod("p").asks("A", 1).controlled_by("ReplicaSet", "web");
    world.pod(&first);
    assert_eq!(world.admit_names(), ["p"]);
    world.seen_admitted(&first, "p", Some("A"));
    world.wait(300);
    assert!(matches!(&world.decide()[..], [Action::SendBack { .. }]));
    world.set_back(1);
    assert!(world.decide().is_empty());
    world.remove_pod("p");
    world.pod(&pod("q").asks("A", 1).controlled_by("ReplicaSet", "web"));
    assert_eq!(world.admit_names(), [""; 0], "it is to wait for half a minute");
    world.wait(29);
    assert_eq!(world.admit_names(), ["q"]);
}

#[test]
fn a_pod_that_is_not_placed_is_looked_at_in_time() {
    let mut world = world("reservationTimeout: 5m");
    let bare = pod("p").asks("A", 1);
    world.pod(&bare);
    assert_eq!(world.admit_names(), ["p"]);
    world.seen_admitted(&bare, "p", Some("A"));
    world.wait(100);
    assert!(!world.is_unplaced("p"));
    world.set_back(199);
    assert!(!world.is_unplaced("p"));
    world.wait(1);
    assert!(world.is_unplaced("p"));
}

#[test]
fn a_group_is_in_its_queue_for_no_longer() {
    let mut world = world("inqueueTimeout: 10m");
    world.group(&asking("g", 5));
    world.group(&asking("h", 5).created(1).namespace("other"));
    assert!(world.decide().is_empty());
    let is_kept = |world: &World| world.is_enqueued(WorkloadKind::PodGroup, "g");
    assert!(is_kept(&world));
    world.set_back(599);
    assert!(world.decide().is_empty() && is_kept(&world));
    world.wait(1);
    assert!(world.decide().is_empty() && !is_kept(&world));
}

#[test]
fn a_group_for_which_a_queue_was_kept_in_vain_stands_aside_for_no_longer() {
    let mut world = world("inqueueTimeout: 10m");
    world.group(&asking("g", 5));
    assert!(world.decide().is_empty());
    world.wait(600);
    assert!(world.decide().is_empty());
    let is_kept = |world: &World| world.is_enqueued(WorkloadKind::PodGroup, "g");
    assert!(!is_kept(&world));
    world.set_back(29);
    assert!(world.decide().is_empty() && !is_kept(&world));
    world.wait(1);
    assert!(world.decide().is_empty() && is_kept(&world));
}

#[test]
fn a_job_that_could_not_be_resumed_stands_aside_for_no_longer() {
    let mut world = world("");
    world.job(&held_job("job", r#"{"A": 5}"#));
    assert_eq!(world.resume(), ["job"]);
    world.refuse_resumption("job", world.now);
    assert_eq!(world.resume(), [""; 0]);
    world.set_back(4);
    assert_eq!(world.resume(), [""; 0]);
    world.wait(1);
    assert_eq!(world.resume(), ["job"]);
}

#[test]
fn a_pod_that_may_not_be_evicted_is_spared_for_no_longer() {
    let mut world = World::with(capacity("enqueue, allocate, reclaim", "reclaimInterval: 1"));
    world.node(&node("n1").cards("A", 2));
    for name in ["a", "b"] {
        world.queue(&bare_queue(name).deserved_cards(r#"{"A": 1}"#));
    }
    let of = |queue: &str, uid: &str| pod(uid).queue(queue).asks("A", 1);
    world.pods(["a-0", "a-1"].map(|uid| of("a", uid).assigned("A").on("n1")));
    world.now += AHEAD;
    world.pod(&of("b", "b-0"));
    let mut tried = Vec::new();
    for _ in 0..2 {
        let [Action::Evict(eviction)] = &world.decide()[..] else {
            panic!("nobody is evicted")
        };
        let uid = eviction.victims[0].pod.uid.clone();
        world.eviction_ended(&uid, EvictionOutcome::Refused, world.now);
        world.wait(2);
        tried.push(uid);
    }
    assert!(world.decide().is_empty() && tried[0] != tried[1]);
    world.set_back(1);
    assert!(world.decide().is_empty());
    world.wait(29);
    assert!(matches!(&world.decide()[..], [Action::Evict(_)]));
}

/// What was noted before it ran ahead was right, and is left as it is.
#[test]
fn what_was_noted_before_stays_as_it_is() {
    let mut world = world("reservationTimeout: 1h");
    world.now -= AHEAD;
    let bare = pod("p").asks("A", 1);
    world.pod(&bare);
    assert_eq!(world.admit_names(), ["p"]);
    world.seen_admitted(&bare, "p", Some("A"));
    world.now += AHEAD;
    assert!(!world.is_unplaced("p"));
    world.set_back(3599);
    assert!(!world.is_unplaced("p"));
    world.wait(1);
    assert!(world.is_unplaced("p"));
}

#[test]
fn who_was_created_by_the_clock_that_ran_ahead_is_told_why_he_waits() {
    let mut world = world("");
    let created = 10 + AHEAD.as_secs();
    world.pod(&pod("p").asks("A", 6).created(created));
    world.group(&asking("g", 6).created(created));
    world.set_back(1);
    assert!(world.decide().is_empty());
    assert_eq!(world.notices().len(), 1);
    let told = progress(&mut world.cluster, world.now, usize::MAX);
    assert!(told.iter().any(|progress| progress.refused.is_some()), "{told:?}");
}

#[test]
fn who_is_held_by_others_and_was_created_by_the_clock_that_ran_ahead_is_told_so() {
    let mut world = world("");
    let created = 10 + AHEAD.as_secs();
    let held = |name: &str| {
        pod(name)
            .asks("A", 1)
            .gates(&["card.volcano.sh/quota", "example.com/other"])
    };
    world.pod(&held("p").created(created));
    world.pod(&held("q").created(11));
    world.set_back(1);
    assert!(world.decide().is_empty());
    let told = world.notices();
    assert_eq!(
        told.iter().map(|notice| &*notice.pod.name).collect::<Vec<_>>(),
        ["p"],
        "q is new"
    );
    world.wait(1);
    assert_eq!(world.notices().len(), 1);
}

/// It waited behind whoever came until the clock was where it had been.
#[test]
fn who_asked_for_something_else_by_the_clock_that_ran_ahead_goes_before_who_comes_later() {
    let mut world = world("inqueueTimeout: 10h");
    world.group(&asking("kept", 5));
    world.admit();
    world.group(&asking("g", 4));
    world.admit();
    world.group(&asking("g", 5));
    world.set_back(1);
    world.group(&asking("h", 5).created(12));
    world.wait(3);
    world.remove_group("team", "kept");
    world.admit();
    let is_kept = |name: &str| world.is_enqueued(WorkloadKind::PodGroup, name);
    assert!(is_kept("g") && !is_kept("h"));
}

#[test]
fn a_pod_is_in_time_for_what_its_gang_has_lost() {
    let mut world = world("reservationTimeout: 5m");
    world.queue(&queue("team-a").quota(r#"{"A": 2}"#));
    world.group(&group("g", 2));
    let member = |name: &str| pod(name).of("g").asks("A", 1);
    world.pods(["g-0", "g-1"].map(member));
    assert_eq!(world.admit_names(), ["g-0", "g-1"]);
    world.pods(["g-0", "g-1"].map(|name| member(name).assigned("A").on("n1")));
    world.remove_pod("g-1");
    world.pod(&pod("ends").asks("A", 1).assigned("A").on("n1"));
    assert_eq!(world.admit_names(), [""; 0]);
    world.pod(&pod("older").created(-100).priority(10).asks("A", 1));
    world.pod(&member("g-2"));
    world.set_back(1);
    world.remove_pod("ends");
    assert_eq!(world.admit_names(), ["g-2"]);
}
