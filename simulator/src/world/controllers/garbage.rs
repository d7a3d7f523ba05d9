//! Deletes objects whose owners are gone, and counts what disruption budgets allow.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use super::all;
use crate::objects::{
    DEPLOYMENTS, JOBS, Key, NODES, Objects, POD_DISRUPTION_BUDGETS, POD_GROUPS, PODS, REPLICA_SETS, RESOURCE_CLAIMS,
    VOLCANO_JOBS,
};
use crate::world::pods;

/// How many ended pods are kept for people to look at.
const KEPT: usize = 10;

/// Deletes objects whose owners are gone, pods whose nodes are gone, and the oldest ended pods.
pub fn run(objects: &mut Objects) {
    let who = Arc::from("garbage-collector");
    for resource in [&REPLICA_SETS, &POD_GROUPS, &PODS, &RESOURCE_CLAIMS] {
        let mut uids = BTreeSet::new();
        for resource in [&DEPLOYMENTS, &REPLICA_SETS, &JOBS, &VOLCANO_JOBS, &PODS] {
            uids.extend(
                objects
                    .list(resource)
                    .filter_map(|(_, object)| object["metadata"]["uid"].as_str().map(ToOwned::to_owned)),
            );
        }
        for (key, object) in all(objects, resource) {
            let owners = object["metadata"]["ownerReferences"]
                .as_array()
                .map_or(&[][..], |owners| owners);
            let is_there = |owner: &Value| owner["uid"].as_str().is_some_and(|uid| uids.contains(uid));
            if !owners.is_empty() && !owners.iter().any(is_there) {
                let _ = objects.delete(&who, resource, &key);
            }
        }
    }
    let is_lost = |pod: &Value| pods::node(pod).is_some_and(|node| objects.get(&NODES, &Key::new("", node)).is_none());
    for key in pods::which(objects, is_lost) {
        let _ = objects.finish(&who, &PODS, &key);
    }
    let over = pods::which(objects, |pod| pods::is_over(pod) && !pods::is_deleted(pod));
    for key in over.iter().take(over.len().saturating_sub(KEPT)) {
        let _ = objects.delete(&who, &PODS, key);
    }
}

/// Counts how many pods of each budget may be disrupted.
pub fn budgets(objects: &mut Objects) {
    let who = Arc::from("disruption-controller");
    for (key, budget) in all(objects, &POD_DISRUPTION_BUDGETS) {
        let app = &budget["spec"]["selector"]["matchLabels"]["app"];
        let healthy = objects.list(&PODS).filter(|(of, pod)| {
            of.namespace == key.namespace && pod["metadata"]["labels"]["app"] == *app && pods::runs(pod)
        });
        let healthy = healthy.count() as u64;
        let least = budget["spec"]["minAvailable"].as_u64().unwrap_or(0);
        let _ = objects.change(&who, &POD_DISRUPTION_BUDGETS, &key, |budget| {
            budget["status"]["currentHealthy"] = healthy.into();
            budget["status"]["disruptionsAllowed"] = healthy.saturating_sub(least).into();
            Ok(())
        });
    }
}
