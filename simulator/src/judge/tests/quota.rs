use crds::keys::CARD_GUARANTEE;
use serde_json::json;

use super::super::quota::{KEPT, RULE, TAKES};
use super::history::{History, admit, pod};
use crate::objects::{NODES, PODS, QUEUES};

const HIERARCHY: &str = "tiers: [{plugins: [{name: capacity-card, arguments: {enableHierarchy: true}}]}]";

#[test]
fn two_pods_that_fit_are_let_in_and_one_too_many_is_found() {
    let mut history = History::new();
    history.queue("a", 3, &json!({}));
    for name in ["p", "q", "r"] {
        history.pod(name, "a", 1);
        history.admit(name);
    }
    history.holds();
    history.pod("s", "a", 1);
    history.admit("s");
    let broken = history.breaks(RULE);
    assert!(
        broken.what.contains("team/s") && broken.what.contains("4 of 3"),
        "{broken}"
    );
}

#[test]
fn what_is_over_or_gone_holds_nothing() {
    let mut history = History::new();
    history.queue("a", 1, &json!({}));
    history.pod("p", "a", 1);
    history.admit("p");
    history.change("kubelet", &PODS, "p", |pod| pod["status"]["phase"] = "Failed".into());
    history.pod("q", "a", 1);
    history.admit("q");
    history.holds();
}

#[test]
fn cpu_that_the_queue_does_not_name_is_none() {
    let mut history = History::new();
    history.queue("a", 3, &json!({"capability": {"memory": "1Gi"}}));
    history.pod("p", "a", 1);
    history.admit("p");
    assert!(history.breaks(RULE).what.contains("1000 cpu"));

    let mut history = History::new();
    history.configure("tiers: [{plugins: [{name: capacity-card, cardUnlimitedCpuMemory: true}]}]");
    history.queue("a", 3, &json!({"capability": {"memory": "1Gi"}}));
    history.pod("p", "a", 1);
    history.admit("p");
    history.holds();
}

#[test]
fn every_queue_above_counts() {
    let mut history = History::new();
    history.configure(HIERARCHY);
    history.queue("top", 2, &json!({}));
    for name in ["a", "b"] {
        history.queue(name, 2, &json!({"parent": "top"}));
        history.pod(name, name, 1);
        history.admit(name);
    }
    history.holds();
    // While the configuration may not be known, the queues may be siblings.
    history.later(60);
    history.pod("c", "b", 1);
    history.admit("c");
    assert!(history.breaks(RULE).what.contains("top has 3 of 2"));
}

#[test]
fn a_queue_with_parts_a_closed_one_and_none_take_nobody() {
    for state in ["Closed", "Open"] {
        let mut history = History::new();
        history.configure(HIERARCHY);
        history.queue("a", 2, &json!({}));
        history.change("user", &QUEUES, "a", |queue| queue["status"] = json!({"state": state}));
        history.later(60);
        history.pod("p", "a", 1);
        history.admit("p");
        if state == "Open" {
            history.holds();
            history.queue("b", 1, &json!({"parent": "a"}));
            history.later(60);
            history.pod("q", "a", 1);
            history.admit("q");
        }
        history.breaks(TAKES);
    }
    let mut history = History::new();
    history.later(60);
    history.pod("p", "nowhere", 1);
    history.admit("p");
    history.breaks(TAKES);
}

#[test]
fn a_quota_that_was_just_lowered_may_not_be_known_yet() {
    for (seconds, is_known) in [(5, false), (20, true)] {
        let mut history = History::new();
        history.queue("a", 2, &json!({}));
        history.pod("p", "a", 2);
        history.change("user", &QUEUES, "a", |queue| {
            queue["metadata"]["annotations"]["volcano.sh/card.quota"] = r#"{"A100": 1}"#.into();
        });
        history.later(seconds);
        history.admit("p");
        history.breaks_where(is_known, RULE);
    }
}

#[test]
fn what_others_let_run_counts_once_it_can_be_known() {
    for (seconds, is_known) in [(5, false), (20, true)] {
        let mut history = History::new();
        history.queue("a", 1, &json!({}));
        let mut other = pod("other", "a", 1);
        admit(&mut other);
        history.create(&PODS, other);
        history.later(seconds);
        history.pod("p", "a", 1);
        history.admit("p");
        history.breaks_where(is_known, RULE);
    }
}

#[test]
fn two_operators_together_never_exceed() {
    let mut history = History::new();
    history.queue("a", 1, &json!({}));
    history.pod("p", "a", 1);
    history.pod("q", "a", 1);
    history.admit("p");
    history.lease("operator-1");
    history.change("operator-1", &PODS, "q", admit);
    history.breaks(RULE);
}

/// Found with seed 23581: a pod whose queue is gone still holds its cards, which come out of what is not guaranteed.
#[test]
fn what_the_pods_of_a_queue_that_is_gone_hold_is_not_there_for_others() {
    for (cards, is_kept) in [(2, true), (3, false)] {
        let mut history = History::new();
        history.configure("tiers: [{plugins: [{name: capacity}]}]");
        for name in ["a", "b", "gone"] {
            history.queue(name, 8, &json!({}));
        }
        history.change("user", &QUEUES, "b", |queue| {
            queue["metadata"]["annotations"]["volcano.sh/card.guarantee"] = r#"{"A100": 2}"#.into();
        });
        history.pod("held", "gone", 4);
        history.admit("held");
        history.delete("user", &QUEUES, "gone");
        history.later(60);
        history.pod("p", "a", cards);
        history.lease("operator-0");
        history.admit("p");
        history.breaks_where(!is_kept, KEPT);
    }
}

/// Simulator's seed 97241: the root queue has what the others have, including queues whose parent is gone.
#[test]
fn what_the_pods_of_a_queue_hold_whose_parent_is_gone_counts_in_the_root() {
    for (cards, breaks) in [(4, false), (5, true)] {
        let mut history = History::new();
        history.configure("tiers: [{plugins: [{name: capacity-card, enableHierarchy: true}]}]");
        history.queue("root", 8, &json!({}));
        history.queue("gone", 8, &json!({}));
        history.queue("a", 8, &json!({"parent": "root"}));
        history.queue("b", 8, &json!({"parent": "gone"}));
        history.pod("held", "b", 4);
        history.admit("held");
        history.delete("user", &QUEUES, "gone");
        history.later(60);
        history.pod("p", "a", cards);
        history.lease("operator-0");
        history.admit("p");
        history.breaks_where(breaks, RULE);
    }
}

#[test]
fn what_is_guaranteed_to_others_is_kept() {
    for (cards, is_kept) in [(6, true), (7, false)] {
        let mut history = History::new();
        history.configure("tiers: [{plugins: [{name: capacity}]}]");
        history.queue("a", 8, &json!({}));
        history.queue("b", 8, &json!({}));
        history.change("user", &QUEUES, "b", |queue| {
            queue["metadata"]["annotations"]["volcano.sh/card.guarantee"] = r#"{"A100": 2}"#.into();
        });
        history.later(60);
        history.pod("p", "a", cards);
        history.admit("p");
        if is_kept {
            history.holds();
        } else {
            history.breaks(KEPT);
        }
    }
}

#[test]
fn what_is_held_on_a_node_that_has_it_no_more_is_taken_from_no_other() {
    for (elsewhere, breaks) in [(2, false), (0, true)] {
        let mut history = History::new();
        history.queue("a", 10, &json!({}));
        history.queue("b", 10, &json!({}));
        history.change("user", &QUEUES, "b", |queue| {
            queue["metadata"]["annotations"][CARD_GUARANTEE] = r#"{"A100": 7}"#.into();
        });
        history.node(
            "n2",
            &json!({"nvidia.com/gpu": "2", "cpu": "64", "memory": "256Gi", "pods": "100"}),
        );
        let mut lost = pod("p", "a", elsewhere);
        admit(&mut lost);
        lost["spec"]["nodeName"] = "n2".into();
        history.create(&PODS, lost);
        history.change("user", &NODES, "n2", |node| {
            node["status"]["allocatable"]["nvidia.com/gpu"] = "0".into();
        });
        history.later(60);
        // One of the eight cards on the other node is left for the pod.
        for name in ["q", "r"].iter().skip(usize::from(!breaks)) {
            history.pod(name, "a", 1);
            history.admit(name);
        }
        history.breaks_where(breaks, KEPT);
    }
}

#[test]
fn who_was_let_in_before_others_were_guaranteed_more_may_be_overtaken_by_them() {
    for is_overtaken in [true, false] {
        let mut history = History::new();
        let keep = |history: &mut History, queue: &str, cards: u32| {
            history.change("admin", &QUEUES, queue, |queue| {
                queue["metadata"]["annotations"][CARD_GUARANTEE] = json!({"A100": cards}).to_string().into();
            });
        };
        for queue in ["a", "b", "c"] {
            history.queue(queue, 8, &json!({}));
        }
        keep(&mut history, "c", 3);
        history.pod("p", "a", 5);
        history.pod("q", "b", 2);
        history.later(60);
        history.lease("operator-0");
        let sent = history.objects.age;
        history.later(1);
        keep(&mut history, "b", 2);
        history.admit("q");
        history.later(1);
        history.lease("operator-0");
        history.objects.sent = is_overtaken.then_some(sent);
        history.change("operator-0", &PODS, "p", admit);
        history.breaks_where(!is_overtaken, KEPT);
    }
}

#[test]
fn who_is_let_in_beside_what_a_pod_held_that_went_meanwhile_is_judged_by_what_could_be_known() {
    for (since, breaks) in [(1, false), (60, true)] {
        let mut history = History::new();
        history.queue("a", 10, &json!({}));
        history.queue("b", 10, &json!({}));
        history.change("user", &QUEUES, "b", |queue| {
            queue["metadata"]["annotations"][CARD_GUARANTEE] = json!({"A100": 1}).to_string().into();
        });
        // While it holds what its node no longer has, nothing of what others have is kept for its queue.
        history.node(
            "n2",
            &json!({"nvidia.com/gpu": "2", "cpu": "64", "memory": "256Gi", "pods": "100"}),
        );
        let mut lost = pod("lost", "b", 1);
        admit(&mut lost);
        lost["spec"]["nodeName"] = "n2".into();
        history.create(&PODS, lost);
        history.change("user", &NODES, "n2", |node| {
            node["status"]["allocatable"]["nvidia.com/gpu"] = "0".into();
        });
        history.pod("p", "a", 8);
        history.later(60);
        history.finish("kubelet", &PODS, "lost");
        history.later(since);
        history.lease("operator-0");
        history.admit("p");
        history.breaks_where(breaks, KEPT);
    }
}

#[test]
fn a_queue_that_is_above_itself_takes_nobody_and_keeps_what_is_guaranteed_to_it() {
    for (queue, rule) in [("ring", Some(TAKES)), ("below", None), ("other", Some(KEPT))] {
        let mut history = History::new();
        history.configure(HIERARCHY);
        history.queue("ring", 8, &json!({"parent": "ring"}));
        history.queue("below", 8, &json!({"parent": "ring"}));
        for other in ["other", "more", "most"] {
            history.queue(other, 8, &json!({}));
        }
        history.change("admin", &QUEUES, "ring", |queue| {
            queue["metadata"]["annotations"][CARD_GUARANTEE] = r#"{"A100": 4}"#.into();
        });
        history.pod("p", queue, 5);
        history.later(60);
        history.admit("p");
        match rule {
            Some(rule) => drop(history.breaks(rule)),
            None => history.holds(),
        }
    }
}
