//! What a pod says of itself, read by the actors of the world.

use std::sync::Arc;

use serde_json::Value;

use crate::objects::{Key, Objects, PODS};

/// Whether the pod has ended.
pub fn is_over(pod: &Value) -> bool {
    matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"))
}

/// Whether the object's deletion was requested.
pub fn is_deleted(object: &Value) -> bool {
    object["metadata"]["deletionTimestamp"].is_string()
}

/// Whether the pod counts for its controller.
pub fn is_active(pod: &Value) -> bool {
    !is_over(pod) && !is_deleted(pod)
}

/// Returns the pod's node.
pub fn node(pod: &Value) -> Option<&str> {
    pod["spec"]["nodeName"].as_str()
}

/// Returns the gates that hold the pod back.
pub fn gates(pod: &Value) -> impl Iterator<Item = &str> {
    let gates = pod["spec"]["schedulingGates"].as_array();
    gates.into_iter().flatten().filter_map(|gate| gate["name"].as_str())
}

/// Whether the scheduler has to find a node for the pod.
pub fn waits_for_place(pod: &Value) -> bool {
    node(pod).is_none() && is_active(pod) && gates(pod).next().is_none()
}

/// Whether the pod's kubelet has to start it.
pub fn waits_for_start(pod: &Value) -> bool {
    node(pod).is_some() && is_active(pod) && pod["status"]["phase"] != "Running"
}

/// Whether the pod runs.
pub fn runs(pod: &Value) -> bool {
    node(pod).is_some() && is_active(pod) && pod["status"]["phase"] == "Running"
}

/// Returns the pods for which `is` holds, by namespace and name.
pub fn which(objects: &Objects, is: impl Fn(&Value) -> bool) -> Vec<Key> {
    let pods = objects.list(&PODS).filter(|(_, pod)| is(pod));
    pods.map(|(key, _)| key.clone()).collect()
}

/// Whether an owner reference names this uid.
pub fn is_owned_by(object: &Value, uid: &Value) -> bool {
    let owners = object["metadata"]["ownerReferences"].as_array();
    owners.is_some_and(|owners| owners.iter().any(|owner| owner["uid"] == *uid))
}

/// Whether the pod has this finalizer.
pub fn has_finalizer(pod: &Value, finalizer: &str) -> bool {
    let finalizers = pod["metadata"]["finalizers"].as_array();
    finalizers.is_some_and(|all| all.iter().any(|one| one == finalizer))
}

/// Removes a finalizer. A pod to be deleted is then gone, if it runs nowhere and has no other finalizer.
pub fn release(objects: &mut Objects, who: &str, key: &Key, finalizer: &str) {
    let who = Arc::from(who);
    let released = objects.change(&who, &PODS, key, |pod| {
        if let Some(finalizers) = pod["metadata"]["finalizers"].as_array_mut() {
            finalizers.retain(|one| one != finalizer);
        }
        Ok(())
    });
    if let Ok(pod) = released
        && is_deleted(&pod)
        && (node(&pod).is_none() || is_over(&pod))
        && pod["metadata"]["finalizers"].as_array().is_none_or(Vec::is_empty)
    {
        let _ = objects.finish(&who, &PODS, key);
    }
}
