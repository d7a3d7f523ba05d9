use crds::keys::{
    ADMITTED_CONDITION, CARD_ASSIGNED, CARD_NAME, CONFIG_MAP, DEVICE_LABEL_PREFIX, GROUP_NAME, NAMESPACE,
};
use crds::slug::label_name;
use serde_json::{Value, json};

use super::super::claims::SHARED;
use super::super::kept::RULE as KEPT;
use super::super::quota::RULE;
use super::super::rest::RULE as WAITS;
use super::super::told::RULE as TRUE;
use super::history::{History, admit, pod};
use super::rest::tell;
use crate::devices::NVIDIA;
use crate::objects::{
    CARD_USAGES, CONFIG_MAPS, DEVICE_CLASSES, NODES, POD_GROUPS, PODS, QUEUES, RESOURCE_CLAIMS, SLICES,
};

/// A node with two A100 as devices, whose queue has a quota of so many; another queue; and claims `c` for one and `d` for
/// two of them.
fn history(quota: u32) -> History {
    let mut history = History::new();
    history.queue("a", quota, &json!({}));
    history.queue("b", 8, &json!({}));
    devices(&mut history);
    // By then every operator knows of it.
    history.later(60);
    history
}

/// The node, and the claims.
fn devices(history: &mut History) {
    let allocatable = json!({"cpu": "64", "memory": "256Gi", "pods": "100"});
    let status = json!({"allocatable": allocatable, "conditions": [{"type": "Ready", "status": "True"}]});
    let labels = json!({ label(): "true" });
    history.create(
        &NODES,
        json!({"metadata": {"name": "n2", "labels": labels}, "status": status}),
    );
    history.create(&SLICES, slice(1, &["gpu-0", "gpu-1"]));
    let expression = "device.attributes['gpu.nvidia.com'].type == 'gpu'";
    let spec = json!({"selectors": [{"cel": {"expression": expression}}]});
    history.create(&DEVICE_CLASSES, json!({"metadata": {"name": NVIDIA}, "spec": spec}));
    for (name, count) in [("c", 1), ("d", 2)] {
        let requests = json!([{"name": "r", "exactly": {"deviceClassName": NVIDIA, "count": count}}]);
        let spec = json!({"devices": {"requests": requests}});
        history.create(
            &RESOURCE_CLAIMS,
            json!({"metadata": {"namespace": "team", "name": name}, "spec": spec}),
        );
    }
}

/// The label of nodes with A100 as devices.
fn label() -> String {
    format!("{DEVICE_LABEL_PREFIX}{}", label_name("A100"))
}

fn slice(of: u32, names: &[&str]) -> Value {
    let device = |name: &&str| json!({"name": name, "attributes": {"type": {"string": "gpu"}, "productName": {"string": "A100"}}});
    let devices: Vec<_> = names.iter().map(device).collect();
    json!({"metadata": {"name": "n2"}, "spec": {"driver": NVIDIA, "nodeName": "n2", "devices": devices,
        "pool": {"name": "n2", "generation": 1, "resourceSliceCount": of}}})
}

/// A pod that names an existing claim.
fn claiming(name: &str, queue: &str, claim: &str) -> Value {
    let mut pod = pod(name, queue, 0);
    pod["metadata"]["annotations"]
        .as_object_mut()
        .unwrap()
        .remove(CARD_NAME);
    pod["spec"]["resourceClaims"] = json!([{"name": "gpus", "resourceClaimName": claim}]);
    pod
}

fn let_in(history: &mut History, name: &str, queue: &str, claim: &str) {
    history.create(&PODS, claiming(name, queue, claim));
    let_go(history, name);
}

/// `operator-0` lets in an existing pod.
fn let_go(history: &mut History, name: &str) {
    history.lease("operator-0");
    history.change("operator-0", &PODS, name, |pod| {
        admit(pod);
        pod["spec"]["nodeSelector"] = json!({ label(): "true" });
    });
}

fn allocate(history: &mut History, claim: &str, devices: &[&str]) {
    let result = |device: &&str| json!({"request": "r", "driver": NVIDIA, "pool": "n2", "device": device});
    let results: Vec<_> = devices.iter().map(result).collect();
    history.change("scheduler", &RESOURCE_CLAIMS, claim, |claim| {
        claim["status"] = json!({"allocation": {"devices": {"results": results}}});
    });
}

#[test]
fn what_claims_ask_for_is_charged_once_where_pods_share_it() {
    let mut history = history(2);
    let_in(&mut history, "p", "a", "d");
    let_in(&mut history, "q", "a", "d");
    history.holds();
    let_in(&mut history, "r", "a", "c");
    let broken = history.breaks(RULE);
    assert!(broken.what.contains("3 of 2"), "{broken}");
}

/// docs/rules.md: the first pod that was let in, even if it is not the oldest of them.
#[test]
fn whoever_was_let_in_before_is_charged_for_what_is_shared() {
    for (shared, breaks) in [("d", false), ("c", true)] {
        let mut history = history(2);
        history.create(&PODS, claiming("p", "a", shared));
        history.later(1);
        let_in(&mut history, "q", "a", "d");
        history.change("user", &QUEUES, "a", |queue| {
            queue["metadata"]["annotations"]["volcano.sh/card.quota"] = r#"{"A100": 0}"#.into();
        });
        history.later(60);
        let_go(&mut history, "p");
        history.breaks_where(breaks, RULE);
    }
}

/// docs/rules.md, **Enqueue**: also by pods that claim different cards at once.
#[test]
fn a_group_is_not_limited_in_cpu_where_its_pods_claim_cards() {
    for (products, is_free) in [(&["A100"][..], true), (&["A100", "H100"], true), (&["B200"], false)] {
        let mut history = History::new();
        history.configure("tiers: [{plugins: [{name: capacity-card, cardUnlimitedCpuMemory: true}]}]");
        devices(&mut history);
        let mut other = slice(1, &["gpu-2"]);
        other["metadata"]["name"] = "n2-more".into();
        other["spec"]["pool"]["name"] = "n2-more".into();
        other["spec"]["devices"][0]["attributes"]["productName"] = json!({"string": "H100"});
        history.create(&SLICES, other);
        let request = |product: &&str| {
            let expression = format!("device.attributes['gpu.nvidia.com'].productName == '{product}'");
            let selectors = json!([{"cel": {"expression": expression}}]);
            json!({"name": product, "exactly": {"deviceClassName": NVIDIA, "count": 1, "selectors": selectors}})
        };
        let requests: Vec<_> = products.iter().map(request).collect();
        history.create(
            &RESOURCE_CLAIMS,
            json!({"metadata": {"namespace": "team", "name": "e"}, "spec": {"devices": {"requests": requests}}}),
        );
        history.queue("a", 8, &json!({"capability": {"cpu": "0", "memory": "1Ti"}}));
        history.create(
            &POD_GROUPS,
            json!({
                "metadata": {"namespace": "team", "name": "g"}, "status": {"phase": "Pending"},
                "spec": {"minMember": 1, "queue": "a", "minResources": {"cpu": "1"}},
            }),
        );
        let mut pod = claiming("p", "a", "e");
        pod["metadata"]["annotations"][GROUP_NAME] = "g".into();
        history.create(&PODS, pod);
        history.later(60);
        history.lease("operator-0");
        history.change("operator-0", &POD_GROUPS, "g", |group| {
            group["status"]["phase"] = "Inqueue".into();
        });
        history.later(60);
        history.lease("operator-0");
        history.breaks_where(!is_free, KEPT);
    }
}

/// docs/rules.md: also under `cardUnlimitedCpuMemory`, and whatever card the pod names.
#[test]
fn whoever_shares_a_claim_is_charged_for_cpu_as_one_without_cards() {
    for (unlimited, fitting) in [(false, 1), (true, 2)] {
        let mut history = History::new();
        history.configure(&format!(
            "tiers: [{{plugins: [{{name: capacity-card, cardUnlimitedCpuMemory: {unlimited}}}]}}]"
        ));
        devices(&mut history);
        history.queue("a", 8, &json!({"capability": {"cpu": "1", "memory": "1Ti"}}));
        history.later(60);
        for (place, name) in ["p", "q", "r"].into_iter().take(fitting + 1).enumerate() {
            let mut pod = claiming(name, "a", "d");
            pod["metadata"]["annotations"][CARD_NAME] = "A100|H100".into();
            history.create(&PODS, pod);
            history.lease("operator-0");
            history.change("operator-0", &PODS, name, |pod| {
                pod["spec"].as_object_mut().unwrap().remove("schedulingGates");
                if place == 0 {
                    pod["metadata"]["annotations"][CARD_ASSIGNED] = r#"{"A100":2}"#.into();
                    pod["spec"]["nodeSelector"] = json!({ label(): "true" });
                }
            });
            history.breaks_where(place == fitting, RULE);
        }
    }
}

/// Found by seed 24718: a pod that shares a claim is charged for CPU if another pod is charged for the claim. So CPU is kept
/// for its group.
#[test]
fn what_is_kept_for_who_shares_a_claim_may_be_cpu_or_none_before_it_is_known_who_pays() {
    let told = |claim: Option<&str>, kept: u32| {
        let mut history = History::new();
        history.configure("tiers: [{plugins: [{name: capacity-card, cardUnlimitedCpuMemory: true}]}]");
        devices(&mut history);
        history.queue("a", 8, &json!({"capability": {"cpu": "3", "memory": "1Ti"}}));
        let shown = json!({"metadata": {"name": "a"}, "spec": {"queue": "a"}, "status": {"cards": []}});
        history.create(&CARD_USAGES, shown);
        for (name, cpu, phase) in [("g", "1", "Inqueue"), ("h", "4", "Pending")] {
            let spec = json!({"minMember": 2, "queue": "a", "minResources": {"cpu": cpu}});
            history.create(
                &POD_GROUPS,
                json!({"metadata": {"namespace": "team", "name": name}, "spec": spec, "status": {"phase": phase}}),
            );
        }
        let mut waiting = claiming("p", "a", claim.unwrap_or_default());
        waiting["metadata"]["annotations"][GROUP_NAME] = "g".into();
        if claim.is_none() {
            let resources = &mut waiting["spec"]["containers"][0]["resources"];
            *resources = json!({"limits": {"nvidia.com/gpu": "1"}});
            waiting["spec"].as_object_mut().unwrap().remove("resourceClaims");
        }
        history.create(&PODS, waiting);
        history.lease("operator-0");
        let waits = |pod: &mut Value, message: String| {
            let condition = json!({"type": ADMITTED_CONDITION, "status": "False", "reason": "R", "message": message});
            pod["status"]["conditions"] = json!([condition]);
        };
        history.change("operator-0", &PODS, "p", |pod| waits(pod, String::new()));
        history.pod_of_group("q", "a", 0, "h");
        history.change("operator-0", &PODS, "q", |pod| {
            let message = format!(
                "queue a can't take PodGroup h as a whole: CPU asked 4, allocated 0, in queue {kept}, elastic 0, quota 3"
            );
            waits(pod, message);
        });
        history.later(60);
        history.judge_at_rest().map_err(|broken| broken.rule)
    };
    assert_eq!(told(Some("d"), 0), Ok(()));
    assert_eq!(told(Some("d"), 1), Ok(()));
    assert_eq!(told(Some("d"), 2), Err(TRUE));
    // Pods that ask for unshared cards get them, and no CPU is kept besides.
    assert_eq!(told(None, 0), Ok(()));
    assert_eq!(told(None, 1), Err(TRUE));
}

#[test]
fn what_was_allocated_is_charged_in_place_of_what_was_asked_for() {
    for (devices, breaks) in [(&["gpu-0"][..], false), (&["gpu-0", "gpu-1"], true)] {
        let mut history = history(2);
        let_in(&mut history, "p", "a", "d");
        allocate(&mut history, "d", devices);
        history.later(60);
        let_in(&mut history, "q", "a", "c");
        history.breaks_where(breaks, RULE);
    }
}

#[test]
fn whoever_shares_a_claim_is_in_the_same_queue() {
    let mut history = history(2);
    let_in(&mut history, "p", "a", "c");
    let_in(&mut history, "q", "b", "c");
    history.breaks(SHARED);
}

#[test]
fn devices_are_room_where_their_pool_is_complete() {
    let mut history = history(8);
    for queue in ["a", "b"] {
        let shown = json!({"metadata": {"name": queue}, "spec": {"queue": queue}, "status": {"cards": []}});
        history.create(&CARD_USAGES, shown);
    }
    // By template, so that no other pod may name the claim.
    let mut pod = claiming("p", "a", "c");
    pod["spec"]["resourceClaims"] = json!([{"name": "gpus", "resourceClaimTemplateName": "t"}]);
    pod["status"] = json!({"resourceClaimStatuses": [{"name": "gpus", "resourceClaimName": "c"}]});
    let condition = json!({"type": ADMITTED_CONDITION, "status": "False", "reason": "NoNodeFits"});
    pod["status"]["conditions"] = json!([condition]);
    history.create(&PODS, pod);
    let broken = history.breaks_at_rest(WAITS);
    assert!(broken.what.contains("n2 and its queue"), "{broken}");
    history.change("driver", &SLICES, "n2", |of| {
        of["spec"] = slice(2, &["gpu-0"])["spec"].clone();
    });
    history.rests();
}

/// `admitOn: quota`, and no other node has the card.
#[test]
fn devices_are_cards_for_who_requests_a_resource_by_which_a_class_provides_them() {
    for provides in [false, true] {
        let mut history = history(8);
        history.create(
            &CONFIG_MAPS,
            json!({
                "metadata": {"namespace": NAMESPACE, "name": CONFIG_MAP},
                "data": {"cardgate.yaml": "admitOn: quota"},
            }),
        );
        history.change("user", &NODES, "n1", |node| {
            node["status"]["allocatable"]["nvidia.com/gpu"] = "0".into();
        });
        if provides {
            history.change("user", &DEVICE_CLASSES, NVIDIA, |class| {
                class["spec"]["extendedResourceName"] = "nvidia.com/gpu".into();
            });
        }
        history.pod("p", "a", 1);
        history.lease("operator-0");
        history.change("operator-0", &PODS, "p", |pod| {
            let condition = json!({"type": ADMITTED_CONDITION, "status": "False", "reason": "NodesExcluded"});
            pod["status"]["conditions"] = json!([condition]);
        });
        let rule = history.judge_at_rest().err().map(|broken| broken.rule);
        assert_eq!(rule == Some(WAITS), provides, "{rule:?}");
    }
}

#[test]
fn what_devices_were_that_are_not_shown_any_more_is_known_to_the_operator_alone() {
    for (device, is_seen) in [("gpu-0", true), ("gone", false)] {
        let mut history = history(8);
        let_in(&mut history, "p", "a", "c");
        allocate(&mut history, "c", &[device]);
        assert_eq!(history.is_more_known_than_seen(), !is_seen, "{device}");
    }
}

/// On a node with a device plugin and with other devices of the same resource, those that are claimed are none of the plugin's.
#[test]
fn who_waits_for_cards_of_a_plugin_beside_claimed_devices_waits_wrongly() {
    for (product, is_right) in [("H100", false), ("A100", true)] {
        let mut history = history(8);
        let mut other = slice(1, &["gpu-0"]);
        other["metadata"]["name"] = "n1".into();
        other["spec"]["nodeName"] = "n1".into();
        other["spec"]["pool"]["name"] = "n1".into();
        other["spec"]["devices"][0]["attributes"]["productName"] = json!({"string": product});
        history.create(&SLICES, other);
        history.change("scheduler", &RESOURCE_CLAIMS, "c", |claim| {
            let result = json!({"request": "r", "driver": NVIDIA, "pool": "n1", "device": "gpu-0"});
            claim["status"] = json!({"allocation": {"devices": {"results": [result]}}});
        });
        let mut runs = claiming("runs", "b", "c");
        runs["spec"].as_object_mut().unwrap().remove("schedulingGates");
        runs["spec"]["nodeName"] = "n1".into();
        history.create(&PODS, runs);
        history.pod("waits", "a", 8);
        tell(&mut history, "waits");
        history.later(60);
        let waits_wrongly = history.judge_at_rest().is_err_and(|broken| broken.rule == WAITS);
        assert_eq!(waits_wrongly, !is_right, "{product}");
    }
}
