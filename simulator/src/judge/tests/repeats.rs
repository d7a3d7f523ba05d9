use serde_json::{Value, json};

use super::super::repeats::RULE;
use super::history::History;
use crate::objects::{EVENTS, POD_GROUPS, PODS};

fn history() -> History {
    let mut history = History::new();
    history.queue("a", 8, &json!({}));
    history.pod("p", "a", 1);
    history
}

/// `operator-0` says by turns that the pod waits for one thing and for another.
fn tell(history: &mut History, times: usize, meanwhile: impl Fn(&mut History, usize)) {
    for time in 0..times {
        history.lease("operator-0");
        history.change("operator-0", &PODS, "p", |pod: &mut Value| {
            let message = ["one thing", "another"][time % 2];
            let time = format!("1970-01-01T00:00:{time:02}Z");
            pod["status"]["conditions"] = json!([{"message": message, "lastTransitionTime": time}]);
        });
        meanwhile(history, time);
    }
}

/// `operator-0` tells the pod the same by an event, every so many seconds.
fn say(history: &mut History, times: usize, interval: i64) {
    for time in 0..times {
        history.later(interval);
        let event = json!({
            "metadata": {"namespace": "team", "name": format!("p.{time}")}, "reason": "NoNodeFits", "note": "none",
            "regarding": {"namespace": "team", "name": "p", "uid": "1"},
        });
        history.create_as("operator-0", &EVENTS, event);
    }
}

#[test]
fn nobody_is_told_the_same_in_turns_for_ever() {
    let mut history = history();
    tell(&mut history, 6, |_, _| ());
    history.holds();
    tell(&mut history, 1, |_, _| ());
    history.breaks(RULE);
}

#[test]
fn what_is_kept_for_a_group_that_sends_nobody_is_shown_more_often_and_not_for_ever() {
    let show = |history: &mut History, times: usize| {
        for time in 0..times {
            history.lease("operator-0");
            history.change("operator-0", &POD_GROUPS, "g", |group: &mut Value| {
                let message = ["in queue 1", "in queue 0"][time % 2];
                group["status"]["conditions"] = json!([{"message": message}]);
            });
        }
    };
    // Workloads of several namespaces take turns, each at intervals of its own.
    for (namespaces, most) in [(&["team"][..], 18), (&["team", "other"], 36)] {
        let mut history = history();
        for namespace in namespaces {
            let group = json!({"metadata": {"namespace": namespace, "name": "g"}});
            history.create(&POD_GROUPS, group);
        }
        show(&mut history, most);
        history.holds();
        show(&mut history, 1);
        history.breaks(RULE);
    }
}

#[test]
fn what_is_kept_for_a_group_that_sends_nobody_is_told_to_pods_of_groups_behind_it_as_often() {
    for (text, most) in [
        ("can't take PodGroup h as a whole: A100 asked 3", 18),
        ("A100 asked 3", 6),
    ] {
        let show = |history: &mut History, times: usize| {
            for time in 0..times {
                history.lease("operator-0");
                let message = format!("queue a {text}, in queue {}", time % 2);
                history.change("operator-0", &PODS, "p", |pod| {
                    pod["status"]["conditions"] = json!([{"message": message}]);
                });
                let event = json!({
                    "metadata": {"namespace": "team", "name": format!("p.{}", history.objects.version())},
                    "note": message, "regarding": {"kind": "Pod", "uid": "1"},
                });
                history.create_as("operator-0", &EVENTS, event);
            }
        };
        let mut history = history();
        show(&mut history, most);
        history.holds();
        show(&mut history, 1);
        history.breaks(RULE);
    }
}

#[test]
fn nobody_is_told_ever_new_things_while_nothing_changes() {
    let news = |history: &mut History, times: usize| {
        for time in 0..times {
            history.lease("operator-0");
            history.change("operator-0", &PODS, "p", |pod: &mut Value| {
                pod["status"]["conditions"] = json!([{"message": format!("{time} cards are free")}]);
            });
        }
    };
    let mut history = history();
    news(&mut history, 10);
    history.holds();
    let mut history = self::history();
    news(&mut history, 11);
    history.breaks(RULE);
}

#[test]
fn what_has_changed_is_told() {
    let mut history = history();
    tell(&mut history, 12, |history, time| {
        history.pod(&format!("q-{time}"), "a", 1);
    });
    history.holds();
}

#[test]
fn what_the_operator_writes_itself_is_no_change() {
    let mut history = history();
    history.create(&POD_GROUPS, json!({"metadata": {"namespace": "team", "name": "g"}}));
    tell(&mut history, 6, |history, _| history.write_of_terms("g"));
    history.holds();
    tell(&mut history, 1, |history, _| history.write_of_terms("g"));
    history.breaks(RULE);
}

#[test]
fn events_are_told_again_when_they_are_forgotten() {
    let mut history = history();
    say(&mut history, 12, 50 * 60);
    history.holds();
    let mut history = self::history();
    say(&mut history, 12, 10 * 60);
    history.breaks(RULE);
}
