//! Kubelets: they start pods bound to their nodes, end them, and stop deleted ones.

use std::sync::Arc;

use serde_json::{Value, json};

use super::quantity::{Amounts, amounts, request};
use super::scheduler::{held, set_condition};
use super::{nodes, pods};
use crate::objects::{Key, NODES, Objects, PODS};

/// Returns a pod whose kubelet is reachable.
fn reachable(objects: &Objects, key: &Key) -> Option<(Arc<str>, Arc<Value>)> {
    let pod = objects.get(&PODS, key)?;
    let name = pods::node(pod)?;
    let node = objects.get(&NODES, &Key::new("", name))?;
    nodes::is_ready(node).then(|| (Arc::from(format!("kubelet-{name}")), Arc::clone(pod)))
}

/// Starts a pod, or refuses it if the node has less than its pods request.
pub fn start(objects: &mut Objects, key: &Key) {
    let Some((kubelet, pod)) = reachable(objects, key).filter(|(_, pod)| pods::waits_for_start(pod)) else {
        return;
    };
    let name = pods::node(&pod).unwrap_or_default();
    let has = objects
        .get(&NODES, &Key::new("", name))
        .map(|node| amounts(&node["status"]["allocatable"]))
        .unwrap_or_default();
    let all_held = held(objects);
    let lacking = all_held.get(name).and_then(|held| {
        let asked = request(&pod["spec"]).into_keys();
        let of = |amounts: &Amounts, resource: &str| amounts.get(resource).copied().unwrap_or(0);
        let by_devices = pod["status"]["extendedResourceClaimStatus"].is_object();
        asked
            .into_iter()
            .filter(|resource| !(by_devices && of(&has, resource) == 0))
            .find(|resource| of(held, resource) > of(&has, resource))
    });
    let now = objects.now.to_string();
    let _ = objects.change(&kubelet, &PODS, key, |pod| {
        pod["status"]["startTime"] = now.into();
        if let Some(resource) = lacking {
            pod["status"]["phase"] = "Failed".into();
            pod["status"]["reason"] = format!("OutOf{resource}").into();
        } else {
            pod["status"]["phase"] = "Running".into();
            set_condition(pod, json!({"type": "Ready", "status": "True"}));
        }
        Ok(())
    });
}

/// A pod's containers end.
pub fn end(objects: &mut Objects, key: &Key, well: bool) {
    let Some((kubelet, _)) = reachable(objects, key).filter(|(_, pod)| pods::runs(pod)) else {
        return;
    };
    let _ = objects.change(&kubelet, &PODS, key, |pod| {
        pod["status"]["phase"] = if well { "Succeeded" } else { "Failed" }.into();
        set_condition(
            pod,
            json!({"type": "Ready", "status": "False", "reason": "PodCompleted"}),
        );
        Ok(())
    });
}

/// Whether the pod's kubelet has to stop it.
pub fn has_to_stop(objects: &Objects, key: &Key) -> bool {
    reachable(objects, key).is_some_and(|(_, pod)| pods::is_deleted(&pod))
}

/// Stops a deleted pod. It is gone if no finalizer holds it; otherwise it has ended.
pub fn stop(objects: &mut Objects, key: &Key) {
    let Some((kubelet, pod)) = reachable(objects, key).filter(|(_, pod)| pods::is_deleted(pod)) else {
        return;
    };
    let held = pod["metadata"]["finalizers"]
        .as_array()
        .is_some_and(|all| !all.is_empty());
    let _ = if held && !pods::is_over(&pod) {
        let fail = |pod: &mut Value| {
            pod["status"]["phase"] = "Failed".into();
            Ok(())
        };
        objects.change(&kubelet, &PODS, key, fail).map(drop)
    } else if held {
        Ok(())
    } else {
        objects.finish(&kubelet, &PODS, key)
    };
}
