use serde_json::json;

use super::super::gangs::RULE;
use super::history::History;
use crate::objects::{POD_GROUPS, PODS};

/// A group that needs two pods, of which one is let in.
fn history() -> History {
    begun(History::new())
}

fn begun(mut history: History) -> History {
    history.queue("a", 8, &json!({}));
    history.create(
        &POD_GROUPS,
        json!({"metadata": {"namespace": "team", "name": "g"}, "spec": {"minMember": 2, "queue": "a"}}),
    );
    for name in ["p", "q"] {
        history.pod_of_group(name, "a", 1, "g");
    }
    history.later(1);
    history.admit("p");
    history
}

#[test]
fn a_gang_is_let_in_whole() {
    let mut history = history();
    assert_eq!(history.judge_gangs().unwrap_err().rule, RULE);
    history.admit("q");
    history.judge_gangs().unwrap();
}

#[test]
fn a_gang_is_cut_in_two_for_no_longer_than_it_may() {
    for (seconds, breaks) in [(5, false), (20, true)] {
        for heals in [false, true] {
            let mut history = begun(History::new().cut_at_most(10));
            if heals {
                history.admit("q");
            }
            history.holds();
            history.later(seconds);
            // Time goes on with each write.
            history.create(&POD_GROUPS, json!({"metadata": {"namespace": "team", "name": "h"}}));
            history.breaks_where(breaks && !heals, RULE);
        }
    }
}

#[test]
fn a_gang_is_not_cut_in_two_for_longer_than_it_takes_to_heal_after_the_last_fault() {
    for (has_fault, excuse, breaks) in [(false, false, true), (true, false, false), (false, true, false)] {
        let mut history = begun(History::new().heal_within(10));
        history.holds();
        history.later(8);
        if has_fault {
            history.disturb();
        }
        if excuse {
            history.queue("b", 8, &json!({}));
        }
        history.later(5);
        history.lease("operator-0");
        history.breaks_where(breaks, RULE);
        history.later(8);
        history.lease("operator-0");
        history.breaks_where(!excuse, RULE);
    }
}

/// An operator that lets in a pod just after its group was made to need more may not have seen that.
#[test]
fn an_operator_cuts_no_gang_by_what_it_has_not_seen_of_the_group() {
    for (seconds, breaks) in [(1, false), (60, true)] {
        let mut history = begun(History::new());
        history.admit("q");
        for name in ["r", "s"] {
            history.pod_of_group(name, "a", 1, "g");
        }
        history.change("user", &POD_GROUPS, "g", |group| group["spec"]["minMember"] = json!(4));
        history.later(seconds);
        history.admit("r");
        assert_eq!(history.judge_gangs().is_err(), breaks, "{seconds} seconds later");
    }
}

#[test]
fn what_ends_afterwards_cuts_no_gang() {
    let mut history = history();
    history.admit("q");
    history.change("kubelet", &PODS, "q", |pod| pod["status"]["phase"] = "Failed".into());
    history.pod_of_group("r", "a", 1, "g");
    history.judge_gangs().unwrap();
}

#[test]
fn where_queues_change_the_rest_may_have_no_room() {
    let mut history = history();
    history.later(1);
    history.queue("b", 8, &json!({}));
    history.judge_gangs().unwrap();
}

#[test]
fn what_the_operator_writes_itself_is_no_excuse() {
    let mut history = history();
    history.later(1);
    history.write_of_terms("g");
    assert_eq!(history.judge_gangs().unwrap_err().rule, RULE);
}

#[test]
fn a_gang_needs_so_many_of_each_task() {
    let mut history = history();
    history.admit("q");
    history.change("user", &POD_GROUPS, "g", |group| {
        group["spec"]["minTaskMember"] = json!({"ps": 1, "worker": 1});
    });
    history.pod_of_group("r", "a", 1, "g");
    for (name, task) in [("p", "worker"), ("q", "worker"), ("r", "ps")] {
        history.change("user", &PODS, name, |pod| {
            pod["metadata"]["labels"] = json!({"volcano.sh/task-spec": task});
        });
    }
    history.judge_gangs().unwrap();
    // By then an operator has seen what its tasks need.
    history.later(60);
    history.pod_of_group("s", "a", 1, "g");
    history.change("user", &PODS, "s", |pod| {
        pod["metadata"]["labels"] = json!({"volcano.sh/task-spec": "worker"});
    });
    history.admit("s");
    assert_eq!(history.judge_gangs().unwrap_err().rule, RULE);
    history.admit("r");
    history.judge_gangs().unwrap();
}
