use k8s_openapi::jiff::SignedDuration;
use serde_json::{Value, json};

use super::super::Broken;
use super::super::lapses::{self, RULE};
use super::history::History;
use crate::objects::POD_GROUPS;

fn judge(history: &History) -> Result<u32, Broken> {
    lapses::judge(history.objects.writes_after(0), SignedDuration::from_mins(10))
}

/// A group that sends no pods, whose time in its queue ends again and again; it waits for so many seconds in between.
fn history(waits: &[i64]) -> History {
    history_of(waits, "Inqueue", "InqueueTimeout")
}

/// The same for a group with these messages while it is in its queue, and when it no longer is.
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
    assert_eq!(judge(&history(&waits)), Ok(10));
    for (place, wait) in waits.iter().enumerate() {
        let mut waits = waits;
        waits[place] = wait - 3;
        let broken = judge(&history(&waits)).unwrap_err();
        assert_eq!(broken.rule, RULE, "{broken}");
    }
}

#[test]
fn who_leads_next_begins_anew() {
    let mut history = history(&[30, 60]);
    history.lease("operator-1");
    to(&mut history, "Inqueue", "Inqueue");
    assert_eq!(judge(&history), Ok(3));
}

/// Found by seed 25034: three groups took turns, and none of them was ever told that its time was over.
#[test]
fn whose_pods_wait_for_something_else_is_told_that_when_its_time_is_over() {
    for (stays, ended) in [(600, 1), (599, 1), (590, 0)] {
        let mut history = history(&[]);
        history.later(30);
        to(&mut history, "Inqueue", "Inqueue");
        history.later(stays);
        to(&mut history, "Pending", "PodGroupIncomplete");
        // No message says that it stands aside then.
        to(&mut history, "Inqueue", "Inqueue");
        assert_eq!(judge(&history), Ok(1 + ended), "{stays} s");
    }
}

#[test]
fn whose_pods_wait_for_something_else_is_told_that_all_the_time() {
    for (outside, times) in [("NoDeviceSelected", 3), ("InqueueTimeout", 3)] {
        let history = history_of(&[30, 60], "NoDeviceSelected", outside);
        assert_eq!(judge(&history), Ok(times), "{outside}");
    }
}
