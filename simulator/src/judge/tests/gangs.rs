use serde_json::json;

use super::super::gangs::RULE;
use super::history::History;
use crate::objects::{POD_GROUPS, PODS};

/// A group that needs two pods, of which one is let in.
fn history() -> History {
    let mut history = History::new();
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
