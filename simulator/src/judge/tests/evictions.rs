use crds::keys::{CARD_DESERVED, CARD_GUARANTEE, CARD_QUOTA};
use serde_json::json;

use super::super::deserves::RULE as TOLD;
use super::super::evictions::{DESERVED, EQUALS, NEVER, TURNS, UNPLACED};
use super::super::in_vain::RULE as IN_VAIN;
use super::history::{History, key};
use crate::objects::{EVENTS, POD_GROUPS, PODS, QUEUES};

/// A queue, and pods of two controllers that run in turns; the first one runs now.
fn history() -> History {
    let mut history = History::new();
    history.queue("a", 1, &json!({}));
    pod(&mut history, "p-1", 0);
    history.admit("p-1");
    history
}

fn pod(history: &mut History, name: &str, priority: i64) {
    history.pod(name, "a", 1);
    history.change("user", &PODS, name, |pod| {
        pod["metadata"]["ownerReferences"] = json!([{"kind": "ReplicaSet", "uid": &name[..1]}]);
        pod["spec"]["priority"] = priority.into();
    });
}

/// `operator-0` evicts a pod for another one, and reports it.
fn evict(history: &mut History, name: &str, other: &str, priority: i64) {
    history.lease("operator-0");
    history.change("operator-0", &PODS, name, |pod| {
        pod["metadata"]["deletionTimestamp"] = "1970-01-01T00:00:00Z".into();
    });
    let note = format!(
        "evicted for pod team/{other} of the same queue a, which has priority {priority}, more than 0, and asks 1 A100"
    );
    say(history, name, "Preempted", &note);
}

fn say(history: &mut History, name: &str, reason: &str, note: &str) {
    let event = json!({
        "metadata": {"namespace": "team", "name": format!("{name}.1")}, "reason": reason, "note": note,
        "regarding": {"namespace": "team", "name": name},
    });
    history.create_as("operator-0", &EVENTS, event);
}

#[test]
fn who_has_as_much_priority_is_evicted_for_nobody() {
    for (priority, is_more) in [(10, true), (0, false)] {
        let mut history = history();
        pod(&mut history, "q-1", priority);
        evict(&mut history, "p-1", "q-1", priority);
        history.breaks_where(!is_more, EQUALS);
    }
}

#[test]
fn who_has_a_node_is_not_sent_back_as_not_placed() {
    for has_node in [true, false] {
        let mut history = history();
        let mut uid = json!(null);
        history.change("scheduler", &PODS, "p-1", |pod| {
            pod["spec"]["nodeName"] = if has_node { json!("n") } else { json!(null) };
            uid = pod["metadata"]["uid"].clone();
        });
        history.lease("operator-0");
        history.delete("operator-0", &PODS, "p-1");
        let note =
            "the scheduler has not placed the pod within 5m of its admission: it is evicted, and its successor waits";
        let event = json!({
            "metadata": {"namespace": "team", "name": "p-1.1"}, "reason": "ReservationTimeout", "note": note,
            "regarding": {"namespace": "team", "name": "p-1", "uid": uid},
        });
        history.create_as("operator-0", &EVENTS, event);
        history.breaks_where(has_node, UNPLACED);
    }
}

#[test]
fn two_that_evict_each_other_are_found_unless_something_changed() {
    for something_changed in [true, false] {
        let mut history = history();
        pod(&mut history, "q-1", 10);
        evict(&mut history, "p-1", "q-1", 10);
        pod(&mut history, "p-2", 0);
        if something_changed {
            history.queue("b", 1, &json!({}));
        }
        evict(&mut history, "q-1", "p-2", 20);
        history.breaks_where(!something_changed, TURNS);
    }
}

/// A group with a message.
fn group(history: &mut History) {
    history.create(&POD_GROUPS, json!({"metadata": {"namespace": "team", "name": "g"}}));
}

#[test]
fn what_the_operator_writes_itself_excuses_no_turns() {
    let mut history = history();
    group(&mut history);
    pod(&mut history, "q-1", 10);
    evict(&mut history, "p-1", "q-1", 10);
    pod(&mut history, "p-2", 0);
    history.write_of_terms("g");
    evict(&mut history, "q-1", "p-2", 20);
    history.breaks(TURNS);
}

#[test]
fn what_the_operator_writes_itself_excuses_no_eviction_in_vain() {
    let mut history = history();
    group(&mut history);
    pod(&mut history, "q-1", 10);
    evict(&mut history, "p-1", "q-1", 10);
    history.write_of_terms("g");
    assert_eq!(history.judge_evictions().unwrap_err().rule, IN_VAIN);
}

#[test]
fn who_others_were_evicted_for_is_let_in_unless_something_changed() {
    for (is_let_in, something_changed) in [(true, false), (false, true), (false, false)] {
        let mut history = history();
        pod(&mut history, "q-1", 10);
        evict(&mut history, "p-1", "q-1", 10);
        if something_changed {
            history.queue("b", 1, &json!({}));
        }
        if is_let_in {
            let gone = history.objects.finish(&"kubelet".into(), &PODS, &key(&PODS, "p-1"));
            gone.unwrap();
            history.admit("q-1");
        }
        let finding = history.judge_evictions();
        let rule = finding.err().map(|broken| broken.rule);
        assert_eq!(rule, (!is_let_in && !something_changed).then_some(IN_VAIN));
    }
}

/// Simulator's seeds 500096 and 500118. A scheduler gives room that becomes free to pods that it could not place before, and
/// to pods that could go anywhere.
#[test]
fn who_was_let_in_before_an_eviction_may_be_placed_first() {
    for (is_let_in_before, is_in_vain) in [(true, false), (false, true)] {
        let mut history = history();
        history.queue("b", 1, &json!({}));
        pod(&mut history, "q-1", 10);
        history.pod("r-1", "b", 1);
        if is_let_in_before {
            history.admit("r-1");
        }
        evict(&mut history, "p-1", "q-1", 10);
        if !is_let_in_before {
            history.admit("r-1");
        }
        history.change("scheduler", &PODS, "r-1", |pod| pod["spec"]["nodeName"] = "n1".into());
        let rule = history.judge_evictions().err().map(|broken| broken.rule);
        assert_eq!(rule, is_in_vain.then_some(IN_VAIN), "{is_let_in_before}");
    }
}

/// Simulator's seed 98049. Two pods have the same request. The pod to be evicted for the first was not released; another pod
/// was evicted for the second, and the first has got that room.
#[test]
fn who_comes_first_has_what_others_were_evicted_for_one_that_asks_for_the_same() {
    for (priority, is_in_vain) in [(10, false), (11, true)] {
        let mut history = history();
        pod(&mut history, "q-1", priority);
        pod(&mut history, "q-2", 10);
        evict(&mut history, "p-1", "q-2", 10);
        let gone = history.objects.finish(&"kubelet".into(), &PODS, &key(&PODS, "p-1"));
        gone.unwrap();
        history.admit("q-1");
        let rule = history.judge_evictions().err().map(|broken| broken.rule);
        assert_eq!(rule, is_in_vain.then_some(IN_VAIN), "{priority}");
    }
}

#[test]
fn what_is_reclaimed_is_beyond_what_the_one_queue_deserves_and_within_what_the_other_does() {
    for (others, own, breaks) in [
        (
            "asks 1 CPU, 1 A100; of A100, queue b has 1 and deserves 2, and",
            "has 3 and deserves 2",
            false,
        ),
        (
            "asks 1 CPU, 1 A100; of A100, queue b has 2 and deserves 2, and",
            "has 3 and deserves 2",
            true,
        ),
        ("has less A100 than it deserves;", "has 3 and deserves 2", false),
        ("has less A100 than it deserves;", "has 2 and deserves 2", true),
        (
            "asks 1 A100; of A100, queue b has 2 and names nothing that it deserves, and",
            "has 3 and deserves 2",
            false,
        ),
        (
            "asks 1 CPU, 2 A100; of A100, queue b has 1 and deserves 2, and",
            "has 3 and deserves 2",
            true,
        ),
        ("lacks room on a node; of A100,", "has 3 and deserves 2", false),
        ("lacks room on a node; of A100,", "has 2 and deserves 2", true),
        (
            "asks 2 CPU; of CPU, queue b has 0 and deserves 2, and",
            "has 1500m and deserves 1",
            true,
        ),
    ] {
        let mut history = history();
        history.change("operator-0", &PODS, "p-1", |pod| {
            pod["metadata"]["deletionTimestamp"] = "1970-01-01T00:00:00Z".into();
        });
        let note = format!("evicted for a pod of queue b, which {others} this pod's queue a {own}");
        say(&mut history, "p-1", "Reclaimed", &note);
        history.breaks_where(breaks, DESERVED);
    }
}

#[test]
fn who_is_evicted_is_told_what_its_queue_deserves() {
    for (own, others, told, breaks) in [
        (0, 0, 2, false),
        (0, 0, 3, true),
        (3, 0, 3, false),
        (3, 0, 2, true),
        (0, 7, 1, false),
        (0, 7, 2, true),
    ] {
        let mut history = history();
        history.queue("b", 8, &json!({}));
        let says = [
            ("a", CARD_QUOTA, 8),
            ("a", CARD_DESERVED, 2),
            ("a", CARD_GUARANTEE, own),
        ];
        for (queue, key, cards) in says.into_iter().chain([("b", CARD_GUARANTEE, others)]) {
            history.change("admin", &QUEUES, queue, |queue| {
                queue["metadata"]["annotations"][key] = json!({"A100": cards}).to_string().into();
            });
        }
        history.later(60);
        history.lease("operator-0");
        history.change("operator-0", &PODS, "p-1", |pod| {
            pod["metadata"]["deletionTimestamp"] = "1970-01-01T00:00:00Z".into();
        });
        let has = told + 1;
        let note = format!(
            "evicted for a pod of queue b, which has less A100 than it deserves; this pod's queue a has {has} and deserves {told}"
        );
        say(&mut history, "p-1", "Reclaimed", &note);
        let rule = if breaks { TOLD } else { DESERVED };
        history.breaks_where(breaks, rule);
    }
}

#[test]
fn what_gives_way_in_its_own_queue_is_nothing_that_a_pod_gets_beyond_what_the_queue_deserves() {
    for (priority, breaks) in [(10, false), (0, true)] {
        let mut history = history();
        history.queue("b", 8, &json!({}));
        history.pod("low", "b", 1);
        history.admit("low");
        history.pod("high", "b", 2);
        history.change("user", &PODS, "high", |pod| pod["spec"]["priority"] = priority.into());
        history.change("operator-0", &PODS, "p-1", |pod| {
            pod["metadata"]["deletionTimestamp"] = "1970-01-01T00:00:00Z".into();
        });
        let note = "evicted for pod team/high of queue b, which asks 1 CPU, 2 A100; of A100, queue b has 1 and deserves 2, and \
                    this pod's queue a has 3 and deserves 2";
        say(&mut history, "p-1", "Reclaimed", note);
        history.breaks_where(breaks, DESERVED);
    }
}

#[test]
fn who_never_preempts_is_found_to() {
    let mut history = history();
    pod(&mut history, "q-1", 10);
    history.change("user", &PODS, "q-1", |pod| {
        pod["spec"]["preemptionPolicy"] = "Never".into();
    });
    evict(&mut history, "p-1", "q-1", 10);
    history.breaks(NEVER);
}
