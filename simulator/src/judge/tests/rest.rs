use crds::keys::{
    ADMITTED_CONDITION, CARD_NAME, CONFIG_MAP, MGPU_CORE, MGPU_DEVICE_IDS, MGPU_INDEX_PREFIX, MGPU_MEMORY, MGPU_POLICY,
    MGPU_SCHEDULE, NAMESPACE, QUEUE_NAME,
};
use serde_json::{Value, json};

use super::super::rest::{RULE, TOLD};
use super::super::shown::RULE as SHOWN;
use super::super::told::RULE as TRUE;
use super::history::{History, pod};
use crate::objects::{CARD_INVENTORIES, CARD_TYPES, CARD_USAGES, CONFIG_MAPS, NODES, POD_GROUPS, PODS, QUEUES};

/// A queue with 8 cards, whose report says that it has so many.
pub fn history(shown: u32) -> History {
    let mut history = History::new();
    history.queue("a", 8, &json!({}));
    let cards = json!([{"name": "A100", "quota": 8, "allocated": shown}]);
    history.create(
        &CARD_USAGES,
        json!({"metadata": {"name": "a"}, "spec": {"queue": "a"}, "status": {"cards": cards}}),
    );
    history
}

pub fn tell(history: &mut History, pod: &str) {
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

/// A pod that runs on `n1` with two cards, and names none.
fn running_unnamed() -> Value {
    let mut pod = pod("p", "a", 2);
    pod["metadata"]["annotations"]
        .as_object_mut()
        .unwrap()
        .remove(CARD_NAME);
    pod["spec"]["nodeName"] = "n1".into();
    pod["spec"].as_object_mut().unwrap().remove("schedulingGates");
    pod
}

/// Pods that were let in while cards without a name were free.
#[test]
fn what_runs_without_a_name_is_charged_when_names_are_asked_for() {
    for (unnamed, shown, holds) in [
        ("deny", 2, true),
        ("deny", 0, false),
        ("free", 2, false),
        ("free", 0, true),
    ] {
        let mut history = history(shown);
        history.create(&PODS, running_unnamed());
        history.create(
            &CONFIG_MAPS,
            json!({
                "metadata": {"namespace": NAMESPACE, "name": CONFIG_MAP},
                "data": {"cardgate.yaml": format!("unnamedCards: {unnamed}")},
            }),
        );
        if holds {
            history.rests();
        } else {
            history.breaks_at_rest(SHOWN);
        }
    }
}

/// docs/rules.md, **Card quota**: what the pod's node has of what the pod asks for, else what the pod prefers.
#[test]
fn what_runs_without_a_name_may_be_charged_for_what_its_node_has_lost() {
    for (shown, holds) in [(0, true), (2, true), (3, false)] {
        let mut history = history(shown);
        history.create(&PODS, running_unnamed());
        history.change("kubelet", &NODES, "n1", |node| {
            node["status"]["allocatable"]["nvidia.com/gpu"] = "0".into();
        });
        if holds {
            history.rests();
        } else {
            history.breaks_at_rest(SHOWN);
        }
    }
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

/// More of a card than exist, and another card of the same resource.
#[test]
fn what_the_cluster_has_not_limits_no_queue_under_admit_on_quota() {
    for plugin in ["capacity", "capacity-card"] {
        let mut history = history(0);
        history.create(
            &CONFIG_MAPS,
            json!({
                "metadata": {"namespace": NAMESPACE, "name": CONFIG_MAP},
                "data": {
                    "volcano-scheduler.conf": format!("tiers: [{{plugins: [{{name: {plugin}}}]}}]"),
                    "cardgate.yaml": "admitOn: quota",
                },
            }),
        );
        history.node(
            "n2",
            &json!({"nvidia.com/gpu": "8", "cpu": "64", "memory": "256Gi", "pods": "100"}),
        );
        history.change("user", &NODES, "n2", |node| {
            node["metadata"]["labels"]["nvidia.com/gpu.product"] = "H100".into();
        });
        history.change("user", &NODES, "n1", |node| {
            node["status"]["allocatable"]["nvidia.com/gpu"] = "1".into();
        });
        history.pod("p", "a", 2);
        tell(&mut history, "p");
        history.breaks_at_rest(RULE);
    }
}

#[test]
fn who_is_held_by_others_alone_has_nothing_yet() {
    for (gates, has_some) in [(json!([{"name": "example.com/license"}]), false), (json!([]), true)] {
        let mut history = history(0);
        let mut pod = pod("p", "a", 1);
        pod["spec"]["schedulingGates"] = gates;
        history.create(&PODS, pod);
        let rule = history.judge_at_rest().err().map(|broken| broken.rule);
        assert_eq!(rule, has_some.then_some(SHOWN));
    }
}

#[test]
fn numbers_that_are_shown_are_counted_again() {
    let mut wrong = history(2);
    wrong.pod("p", "a", 1);
    wrong.admit("p");
    wrong.breaks_at_rest(SHOWN);
    for (total, used, is_true) in [(8, 0, true), (7, 0, false), (8, 1, false)] {
        let mut history = history(0);
        history.create(
            &CARD_TYPES,
            json!({
                "metadata": {"name": "a100"}, "spec": {"cardName": "A100"},
                "status": {"total": total, "nodes": 1, "used": used, "free": 8 - used},
            }),
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
    let mut together = |whose: &str| {
        tell(&format!(
            "the 2 pods of PodGroup g are let in together; {whose}, queue a: A100 asked 2, used 8, quota 8"
        ))
    };
    assert_eq!(together("of one of them"), Ok(()));
    assert_eq!(together("of each"), Err(TRUE));
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

#[test]
fn what_a_queue_has_of_cpu_is_counted_again() {
    for (shown, is_true) in [("1 / 100", true), ("2 / 100", false)] {
        let mut history = history(1);
        history.pod("p", "a", 1);
        history.admit("p");
        history.change("operator-0", &CARD_USAGES, "a", |usage| {
            usage["status"]["cpu"] = shown.into();
        });
        if is_true {
            history.rests();
        } else {
            history.breaks_at_rest(SHOWN);
        }
    }
}

#[test]
fn cpu_in_a_reason_is_counted_again() {
    for (used, is_true) in [("1", true), ("2", false)] {
        let mut history = history(8);
        history.pod("p", "a", 8);
        history.admit("p");
        history.pod("q", "a", 1);
        history.change("operator-0", &PODS, "q", |pod| {
            let message = format!("queue a: CPU asked 1, used {used}, quota 2; A100 asked 1, used 8, quota 8");
            let condition = json!({
                "type": ADMITTED_CONDITION, "status": "False", "reason": "InsufficientCPUQuota", "message": message,
            });
            pod["status"]["conditions"] = json!([condition]);
        });
        assert_eq!(
            history.judge_at_rest().map_err(|broken| broken.rule),
            if is_true { Ok(()) } else { Err(TRUE) }
        );
    }
}

#[test]
fn a_group_whose_pods_fit_together_does_not_wait() {
    for (cards, has_room) in [(2, true), (4, true), (5, false)] {
        let mut history = history(0);
        history.change("user", &QUEUES, "a", |queue| {
            queue["metadata"]["annotations"]["volcano.sh/card.quota"] = r#"{"A100": 20}"#.into();
        });
        history.create(
            &POD_GROUPS,
            json!({"metadata": {"namespace": "team", "name": "g"}, "spec": {"minMember": 2, "queue": "a"}}),
        );
        for name in ["p", "q"] {
            history.pod_of_group(name, "a", cards, "g");
            tell(&mut history, name);
        }
        if has_room {
            history.breaks_at_rest(RULE);
        } else {
            history.rests();
        }
    }
}

#[test]
fn who_excludes_every_node_may_wait() {
    let constraints = [
        (
            json!({"tolerations": [{"key": "dedicated", "operator": "Exists"}]}),
            true,
        ),
        (json!({}), false),
        (
            json!({"tolerations": [{"operator": "Exists"}], "affinity": affinity("NotIn", "n1")}),
            false,
        ),
        (
            json!({"tolerations": [{"operator": "Exists"}], "affinity": affinity("In", "n1")}),
            true,
        ),
    ];
    for (spec, could_run) in constraints {
        let mut history = history(0);
        history.change("user", &NODES, "n1", |node| {
            node["spec"]["taints"] = json!([{"key": "dedicated", "value": "x", "effect": "NoSchedule"}]);
            node["metadata"]["labels"]["host"] = "n1".into();
        });
        history.pod("p", "a", 1);
        history.change("user", &PODS, "p", |pod| {
            pod["spec"]
                .as_object_mut()
                .unwrap()
                .extend(spec.as_object().unwrap().clone());
        });
        tell(&mut history, "p");
        if could_run {
            history.breaks_at_rest(RULE);
        } else {
            history.rests();
        }
    }
}

fn affinity(operator: &str, host: &str) -> Value {
    let terms = json!([{"matchExpressions": [{"key": "host", "operator": operator, "values": [host]}]}]);
    json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}})
}

#[test]
fn a_share_that_a_card_has_left_is_not_waited_for() {
    let two = Some("GPU-a,GPU-b");
    for (core, mode, ids, has_room) in [
        (40, "index", None, true),
        (60, "index", None, false),
        (40, "id", two, true),
        (60, "id", two, false),
        // Cards are named by their ids if each has one.
        (40, "id", None, false),
        (40, "id", Some("GPU-a,GPU-b,GPU-c"), false),
        (40, "id", Some("GPU-a,GPU-a"), false),
        (40, "id", Some("GPU-a,"), false),
    ] {
        let mut history = history(0);
        history.configure(&format!(
            "tiers: [{{plugins: [{{name: capacity-card}}, {{name: predicates, arguments: {{predicate.MGPUScheduleMode: {mode}}}}}]}}]"
        ));
        history.change("user", &QUEUES, "a", |queue| {
            queue["metadata"]["annotations"]["volcano.sh/card.quota"] = r#"{"L4/mgpu": 900}"#.into();
        });
        history.change("operator-0", &CARD_USAGES, "a", |usage| {
            usage["status"]["cards"] = json!([{"name": "L4/mgpu", "quota": 900, "allocated": 110}]);
        });
        history.create(
            &NODES,
            json!({
                "metadata": {"name": "s1", "annotations": {MGPU_DEVICE_IDS: ids}, "labels": {
                    MGPU_SCHEDULE.0: MGPU_SCHEDULE.1, MGPU_POLICY: "fixed-share",
                    "nvidia.com/gpu.product": "L4", "nvidia.com/gpu.count": "2", "nvidia.com/gpu.memory": "10000",
                }},
                "status": {
                    "allocatable": {MGPU_CORE: "200", MGPU_MEMORY: "20000", "cpu": "8", "memory": "32Gi", "pods": "9"},
                    "conditions": [{"type": "Ready", "status": "True"}],
                },
            }),
        );
        let mut share = |name: &str, core: u32| {
            let mut pod = pod(name, "a", 1);
            let requests = json!({MGPU_CORE: core.to_string(), MGPU_MEMORY: "1000"});
            pod["metadata"]["annotations"] = json!({QUEUE_NAME: "a", MGPU_POLICY: "fixed-share"});
            pod["spec"]["containers"][0]["resources"]["requests"] = requests;
            history.create(&PODS, pod);
        };
        for (name, core) in [("p", 50), ("q", 60), ("r", core)] {
            share(name, core);
        }
        for (name, card) in [("p", "0"), ("q", "1")] {
            history.lease("operator-0");
            history.change("kubelet", &PODS, name, |pod| {
                pod["spec"]["schedulingGates"] = json!([]);
                pod["spec"]["nodeName"] = "s1".into();
                pod["metadata"]["annotations"][format!("{MGPU_INDEX_PREFIX}main")] = card.into();
            });
        }
        tell(&mut history, "r");
        if has_room {
            history.breaks_at_rest(RULE);
        } else {
            history.rests();
        }
    }
}
