use serde_json::{Value, json};

use super::super::lapses::{RULE, judge};
use super::history::History;
use crate::objects::POD_GROUPS;

/// A group that sends nobody, whose time in its queue ends again and again; it waits for so many seconds in between.
fn history(waits: &[i64]) -> History {
    history_of(waits, "Inqueue", "InqueueTimeout")
}

/// The same of one that is told these while it is in its queue, and when it no longer is.
fn history_of(waits: &[i64], inside: &str, outside: &str) -> History {
    let mut history = History::new();
    let group = json!({"metadata": {"namespace": "team", "name": "g"}, "status": {"phase": "Pending"}});
    history.create(&POD_GROUPS, group);
    for wait in [0].iter().chain(waits) {
        history.later(*wait);
        to(&mut history, "Inqueue", inside);
        history.later(600);
        to(&mut history, "Pending", outside);
    }
    history
}

fn to(history: &mut History, phase: &str, reason: &str) {
    history.change("operator-0", &POD_GROUPS, "g", |group: &mut Value| {
        group["status"] = json!({"phase": phase, "conditions": [{"type": "Unschedulable", "reason": reason}]});
    });
}

#[test]
fn who_sends_nobody_waits_for_twice_as_long_each_time_up_to_an_hour() {
    let waits = [30, 60, 120, 240, 480, 960, 1_920, 3_600, 3_600];
    assert_eq!(judge(history(&waits).objects.writes_after(0)), Ok(10));
    for (place, wait) in waits.iter().enumerate() {
        let mut waits = waits;
        waits[place] = wait - 3;
        let broken = judge(history(&waits).objects.writes_after(0)).unwrap_err();
        assert_eq!(broken.rule, RULE, "{broken}");
    }
}

#[test]
fn who_leads_next_begins_anew() {
    let mut history = history(&[30, 60]);
    history.lease("operator-1");
    to(&mut history, "Inqueue", "Inqueue");
    assert_eq!(judge(history.objects.writes_after(0)), Ok(3));
}

#[test]
fn whose_pods_wait_for_something_else_is_told_that_all_the_time() {
    for (outside, times) in [("NoDeviceSelected", 3), ("InqueueTimeout", 3), ("QueueNotOpen", 0)] {
        let history = history_of(&[30, 60], "NoDeviceSelected", outside);
        assert_eq!(judge(history.objects.writes_after(0)), Ok(times), "{outside}");
    }
}
