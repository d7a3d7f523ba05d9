use crds::keys::{ADMITTED_CONDITION, CARD_GUARANTEE, CARD_REQUEST};
use serde_json::json;

use super::super::kept::RULE;
use super::super::rest::RULE as WAITS;
use super::super::told::RULE as TRUE;
use super::history::History;
use super::rest;
use crate::objects::{CARD_USAGES, POD_GROUPS, PODS, QUEUES};

/// A queue of four cards, and groups that ask for three of them each as a whole.
fn history(groups: &[&str]) -> History {
    let mut history = History::new();
    history.queue("a", 4, &json!({}));
    for name in groups {
        let asks = json!({CARD_REQUEST: r#"{"A100": 3}"#});
        history.create(
            &POD_GROUPS,
            json!({
                "metadata": {"namespace": "team", "name": name, "annotations": asks},
                "spec": {"minMember": 1, "queue": "a"}, "status": {"phase": "Pending"},
            }),
        );
    }
    history
}

/// `operator-0` lets a group into its queue.
fn take(history: &mut History, group: &str) {
    history.lease("operator-0");
    history.change("operator-0", &POD_GROUPS, group, |group| {
        group["status"]["phase"] = "Inqueue".into();
    });
}

#[test]
fn what_is_kept_for_one_group_is_given_to_no_other() {
    let mut history = history(&["g", "h"]);
    // So long ago that every operator knows of the queue.
    history.later(60);
    take(&mut history, "g");
    take(&mut history, "h");
    history.holds();
    history.later(60);
    history.lease("operator-0");
    let broken = history.breaks(RULE);
    assert!(broken.what.contains("keeps 3 for others, and may have 4"), "{broken}");
}

#[test]
fn what_was_given_up_by_then_was_not_kept() {
    let mut history = history(&["g", "h"]);
    history.later(60);
    take(&mut history, "g");
    take(&mut history, "h");
    // An operator shows it when it has got round to it.
    history.change("operator-0", &POD_GROUPS, "g", |group| {
        group["status"]["phase"] = "Pending".into();
    });
    history.later(60);
    history.lease("operator-0");
    history.holds();
}

#[test]
fn what_pods_hold_counts_and_what_they_hold_beyond_the_minimum_does_not() {
    for (least, is_elastic) in [(2, false), (1, true)] {
        let mut history = history(&["h"]);
        history.create(
            &POD_GROUPS,
            json!({"metadata": {"namespace": "team", "name": "g"}, "spec": {"minMember": least, "queue": "a"}}),
        );
        for name in ["p", "q"] {
            history.pod_of_group(name, "a", 1, "g");
            history.admit(name);
        }
        history.later(60);
        take(&mut history, "h");
        history.holds();
        history.later(60);
        history.lease("operator-0");
        history.breaks_where(!is_elastic, RULE);
    }
}

/// Simulator's seed 97493. Both were decided in one round, and the write that the group is taken comes first.
#[test]
fn who_is_let_in_in_the_same_round_may_have_others_of_its_group_be_beyond_the_minimum() {
    for is_of_group in [true, false] {
        let mut history = history(&["h"]);
        history.create(
            &POD_GROUPS,
            json!({"metadata": {"namespace": "team", "name": "g"}, "spec": {"minMember": 1, "queue": "a"}}),
        );
        for (name, group) in [("p", "g"), ("q", if is_of_group { "g" } else { "other" })] {
            history.pod_of_group(name, "a", if name == "p" { 1 } else { 2 }, group);
        }
        history.admit("q");
        history.later(60);
        take(&mut history, "h");
        history.admit("p");
        history.later(60);
        history.lease("operator-0");
        history.breaks_where(!is_of_group, RULE);
    }
}

#[test]
fn what_a_group_is_told_of_its_queue_is_counted_again() {
    let told = |asked: u32, allocated: u32, kept: u32, elastic: u32| {
        let mut history = history(&["g", "h"]);
        let cards = json!([{"name": "A100", "quota": 4, "allocated": 2}]);
        history.create(
            &CARD_USAGES,
            json!({"metadata": {"name": "a"}, "spec": {"queue": "a"}, "status": {"cards": cards}}),
        );
        history.create(
            &POD_GROUPS,
            json!({"metadata": {"namespace": "team", "name": "i"}, "spec": {"minMember": 1, "queue": "a"}}),
        );
        for name in ["p", "q"] {
            history.pod_of_group(name, "a", 1, "i");
            history.admit(name);
        }
        history.later(60);
        take(&mut history, "g");
        history.pod_of_group("r", "a", 1, "h");
        history.change("operator-0", &PODS, "r", |pod| {
            let message = format!(
                "queue a can't take PodGroup h as a whole: A100 asked {asked}, allocated {allocated}, in queue {kept}, elastic \
                 {elastic}, quota 4"
            );
            let condition = json!({
                "type": ADMITTED_CONDITION, "status": "False", "reason": "InsufficientScalarQuota", "message": message,
            });
            pod["status"]["conditions"] = json!([condition]);
        });
        history.judge_at_rest().map_err(|broken| broken.rule)
    };
    assert_eq!(told(3, 2, 3, 1), Ok(()));
    for wrong in [
        told(3, 1, 3, 1),
        told(3, 2, 0, 1),
        told(3, 2, 6, 1),
        told(3, 2, 3, 0),
        // There is room for that.
        told(0, 2, 3, 1),
    ] {
        assert_eq!(wrong, Err(TRUE));
    }
}

#[test]
fn what_was_kept_before_others_were_guaranteed_the_rest_an_operator_that_is_started_anew_may_not_keep() {
    let hierarchy = "tiers: [{plugins: [{name: capacity-card, enableHierarchy: true}]}]";
    for (scheduler, guaranteed, parent, is_more) in [
        ("", 5, "", false),
        ("", 6, "", true),
        (hierarchy, 1, "dept", false),
        (hierarchy, 2, "dept", true),
    ] {
        let mut history = history(&["g"]);
        history.configure(scheduler);
        history.queue("dept", 4, &json!({}));
        history.change("user", &QUEUES, "a", |queue| queue["spec"]["parent"] = parent.into());
        history.later(60);
        take(&mut history, "g");
        assert!(!history.is_more_known_than_seen());
        history.queue("b", 8, &json!({"parent": parent}));
        history.change("user", &QUEUES, "b", |queue| {
            queue["metadata"]["annotations"][CARD_GUARANTEE] = json!({"A100": guaranteed}).to_string().into();
        });
        assert_eq!(history.is_more_known_than_seen(), is_more, "{guaranteed} in {parent:?}");
    }
}

/// Simulator's seed 90174. The other queue keeps 5 for a group that has sent no pods yet.
#[test]
fn a_group_may_wait_for_what_another_queue_keeps_where_the_cluster_limits_both() {
    for (plugin, may_wait) in [("capacity", true), ("capacity-card", false)] {
        let mut history = rest::history(0);
        history.configure(&format!("tiers: [{{plugins: [{{name: {plugin}}}]}}]"));
        history.queue("b", 8, &json!({}));
        history.create(
            &CARD_USAGES,
            json!({"metadata": {"name": "b"}, "spec": {"queue": "b"}, "status": {}}),
        );
        history.create(
            &POD_GROUPS,
            json!({
                "metadata": {"namespace": "team", "name": "h", "annotations": {CARD_REQUEST: r#"{"A100": 5}"#}},
                "spec": {"minMember": 1, "queue": "b"},
                "status": {"phase": "Inqueue"},
            }),
        );
        history.create(
            &POD_GROUPS,
            json!({"metadata": {"namespace": "team", "name": "g"}, "spec": {"minMember": 2, "queue": "a"}}),
        );
        for name in ["p", "q"] {
            history.pod_of_group(name, "a", 2, "g");
            rest::tell(&mut history, name);
        }
        if may_wait {
            history.rests();
        } else {
            history.breaks_at_rest(WAITS);
        }
    }
}
