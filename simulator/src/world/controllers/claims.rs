//! Kubernetes' controller of claims. It makes claims from templates, and takes back what is no longer used.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};

use super::{all, owner};
use crate::objects::{CLAIM_TEMPLATES, Key, Objects, PODS, RESOURCE_CLAIMS};
use crate::world::pods;

/// The finalizer of allocated claims.
pub const PROTECTION: &str = "resource.kubernetes.io/delete-protection";
/// The annotation of a claim with the name that its pod has for it.
const NAMED: &str = "resource.kubernetes.io/pod-claim-name";

/// Handles all pods and claims.
pub fn run(objects: &mut Objects) {
    for (key, pod) in all(objects, &PODS) {
        if pods::is_active(&pod) {
            make(objects, &key, &pod);
        }
    }
    for (key, claim) in all(objects, &RESOURCE_CLAIMS) {
        take_back(objects, &key, &claim);
    }
}

/// Makes the claims for which a pod names templates, and writes their names into the pod's status.
fn make(objects: &mut Objects, key: &Key, pod: &Value) {
    let who = Arc::from("resource-claim-controller");
    let mut made = pod["status"]["resourceClaimStatuses"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let before = made.len();
    for named in pod["spec"]["resourceClaims"].as_array().into_iter().flatten() {
        let is_made = made.iter().any(|status| status["name"] == named["name"]);
        let template = named["resourceClaimTemplateName"].as_str().filter(|_| !is_made);
        let template = template.map(|template| Key::new(&*key.namespace, template));
        let Some(template) = template.and_then(|template| objects.get(&CLAIM_TEMPLATES, &template)) else {
            continue;
        };
        let name = named["name"].as_str().unwrap_or_default();
        let claim = json!({
            "metadata": {
                "namespace": key.namespace, "generateName": format!("{}-{name}-", key.name),
                "annotations": {NAMED: name}, "ownerReferences": owner(&PODS, pod),
            },
            "spec": template["spec"]["spec"], "status": {},
        });
        if let Ok(claim) = objects.create(&who, &RESOURCE_CLAIMS, claim) {
            made.push(json!({"name": name, "resourceClaimName": claim["metadata"]["name"]}));
        }
    }
    if made.len() > before {
        let _ = objects.change(&who, &PODS, key, |pod| {
            pod["status"]["resourceClaimStatuses"] = made.into();
            Ok(())
        });
    }
}

/// Frees claims that no pod uses; an ended pod uses nothing. A claim made for an ended pod is deleted.
fn take_back(objects: &mut Objects, key: &Key, claim: &Value) {
    let who = Arc::from("resource-claim-controller");
    let in_use: BTreeSet<_> = objects
        .list(&PODS)
        .filter(|(of, pod)| of.namespace == key.namespace && !is_done(pod))
        .filter_map(|(_, pod)| pod["metadata"]["uid"].as_str())
        .collect();
    let uses = |consumer: &Value| consumer["uid"].as_str().is_some_and(|uid| in_use.contains(uid));
    let reserved = claim["status"]["reservedFor"].as_array().map_or(&[][..], Vec::as_slice);
    let left: Vec<_> = reserved.iter().filter(|consumer| uses(consumer)).cloned().collect();
    let owners = claim["metadata"]["ownerReferences"].as_array();
    let is_orphan = owners.is_some_and(|owners| owners.iter().all(|owner| !uses(owner)));
    let is_unused = left.is_empty() && (!reserved.is_empty() || pods::is_deleted(claim));
    if left.len() < reserved.len() || is_unused {
        let _ = objects.change(&who, &RESOURCE_CLAIMS, key, |claim| {
            if left.is_empty() {
                claim["status"] = json!({});
                claim["metadata"]["finalizers"] = json!([]);
            } else {
                claim["status"]["reservedFor"] = left.into();
            }
            Ok(())
        });
    }
    if is_orphan {
        let _ = objects.delete(&who, &RESOURCE_CLAIMS, key);
    }
}

/// Whether a pod uses nothing any more: it has ended, or it was deleted before it had a node.
fn is_done(pod: &Value) -> bool {
    pods::is_over(pod) || (pods::is_deleted(pod) && pods::node(pod).is_none())
}
