use crds::keys::ADMITTED_CONDITION;
use serde_json::json;

use super::super::rest::{RULE, TOLD};
use super::super::shown::RULE as SHOWN;
use super::super::told::RULE as TRUE;
use super::history::History;
use crate::objects::{CARD_INVENTORIES, CARD_TYPES, CARD_USAGES, NODES, PODS};

/// A queue with 8 cards, of which it is shown that it has so many.
fn history(shown: u32) -> History {
    let mut history = History::new();
    history.queue("a", 8, &json!({}));
    let cards = json!([{"name": "A100", "quota": 8, "allocated": shown}]);
    history.create(
        &CARD_USAGES,
        json!({"metadata": {"name": "a"}, "spec": {"queue": "a"}, "status": {"cards": cards}}),
    );
    history
}

fn tell(history: &mut History, pod: &str) {
    history.lease("operator-0");
    history.change("operator-0", &PODS, pod, |pod| {
        let condition = json!({"type": ADMITTED_CONDITION, "status": "False", "reason": "NoNodeFits"});
        pod["status"]["conditions"] = json!([condition]);
    });
}

#[test]
fn who_waits_for_cards_that_others_have_may_wait_and_is_told() {
    let mut history = history(8);
    history.pod("p", "a", 8);
    history.admit("p");
    history.pod("q", "a", 1);
    history.breaks_at_rest(TOLD);
    tell(&mut history, "q");
    history.rests();
    history.change("kubelet", &PODS, "p", |pod| pod["status"]["phase"] = "Succeeded".into());
    let broken = history.breaks_at_rest(RULE);
    assert!(broken.what.contains("team/q waits for NoNodeFits"), "{broken}");
}

#[test]
fn a_node_that_takes_nobody_is_no_room() {
    let mut history = history(0);
    history.pod("p", "a", 1);
    tell(&mut history, "p");
    history.breaks_at_rest(RULE);
    history.change("user", &NODES, "n1", |node| node["spec"]["unschedulable"] = true.into());
    history.rests();
}

#[test]
fn numbers_that_are_shown_are_counted_again() {
    let mut wrong = history(2);
    wrong.pod("p", "a", 1);
    wrong.admit("p");
    wrong.breaks_at_rest(SHOWN);
    for (total, is_true) in [(8, true), (7, false)] {
        let mut history = history(0);
        history.create(
            &CARD_TYPES,
            json!({"metadata": {"name": "a100"}, "spec": {"cardName": "A100"}, "status": {"total": total, "nodes": 1}}),
        );
        if is_true {
            history.rests();
        } else {
            history.breaks_at_rest(SHOWN);
        }
    }
}

#[test]
fn the_numbers_in_a_reason_are_counted_again() {
    let mut history = history(8);
    history.pod("p", "a", 8);
    history.admit("p");
    history.pod("q", "a", 1);
    let mut tell = |message: &str| {
        history.lease("operator-0");
        history.change("operator-0", &PODS, "q", |pod| {
            let condition = json!({
                "type": ADMITTED_CONDITION, "status": "False", "reason": "InsufficientScalarQuota", "message": message,
            });
            pod["status"]["conditions"] = json!([condition]);
        });
        history.judge_at_rest().map_err(|broken| broken.rule)
    };
    assert_eq!(tell("queue a: A100 asked 1, used 8, quota 8"), Ok(()));
    assert_eq!(
        tell("queue a: CPU asked 1, used 1, quota 1500m; A100 asked 1, used 8, quota 8"),
        Ok(())
    );
    let of_all = "queue a: CPU asked 1, used 1, quota 1; the cluster, for queue a: A100 asked 1, used 7, quota 8";
    assert_eq!(tell(of_all), Ok(()));
    assert_eq!(tell("queue a: A100 asked 1, used 7, quota 8"), Err(TRUE));
    assert_eq!(
        tell("queue a: CPU asked 1, used 1, quota 1500m; A100 asked 2, used 8, quota 8"),
        Err(TRUE)
    );
}

#[test]
fn what_is_shown_of_a_node_is_counted_again() {
    let mut history = history(2);
    history.pod("p", "a", 2);
    history.admit("p");
    history.change("scheduler", &PODS, "p", |pod| pod["spec"]["nodeName"] = "n1".into());
    let cards = |used: u32| json!([{"name": "A100", "total": 8, "used": used}]);
    history.create(
        &CARD_INVENTORIES,
        json!({"metadata": {"name": "n1"}, "status": {"cards": cards(2)}}),
    );
    history.rests();
    history.change("operator-0", &CARD_INVENTORIES, "n1", |node| {
        node["status"]["cards"] = cards(1);
    });
    history.breaks_at_rest(SHOWN);
}
