//! Volcano's controllers of groups and queues.

use std::sync::Arc;

use serde_json::{Value, json};

use super::all;
use crate::objects::{Key, Objects, POD_GROUPS, PODS, QUEUES};
use crate::world::pods;

const GROUP: &str = "scheduling.k8s.io/group-name";
/// The user of Volcano's controllers, as the API server knows it.
pub const VOLCANO: &str = "volcano-controllers";

/// Gives a pod that names Volcano's scheduler and no group a group, and writes the group's name on the existing pod. Counts
/// each group's pods, and writes the whole object.
pub fn run(objects: &mut Objects) {
    let who = Arc::from(VOLCANO);
    for (key, pod) in all(objects, &PODS) {
        let annotations = &pod["metadata"]["annotations"];
        if pod["spec"]["schedulerName"] != "volcano" || annotations[GROUP].is_string() || !pods::is_active(&pod) {
            continue;
        }
        let owners = &pod["metadata"]["ownerReferences"];
        let uid = owners[0]["uid"]
            .as_str()
            .or(pod["metadata"]["uid"].as_str())
            .unwrap_or_default();
        let name = format!("podgroup-{uid}");
        let mut group = json!({
            "metadata": {"namespace": key.namespace, "name": name},
            "spec": {
                "minMember": 1, "minResources": least(std::iter::once(&pod["spec"])),
                "queue": annotations["scheduling.volcano.sh/queue-name"].as_str().unwrap_or("default"),
            },
            "status": {"phase": "Pending"},
        });
        if owners.is_array() {
            group["metadata"]["ownerReferences"] = owners.clone();
        }
        let _ = objects.create(&who, &POD_GROUPS, group);
        let _ = objects.change(&who, &PODS, &key, |pod| {
            if pod["metadata"]["annotations"].is_null() {
                pod["metadata"]["annotations"] = json!({});
            }
            pod["metadata"]["annotations"][GROUP] = name.into();
            Ok(())
        });
    }
    for key in objects
        .list(&POD_GROUPS)
        .map(|(key, _)| key.clone())
        .collect::<Vec<_>>()
    {
        let members = objects
            .list(&PODS)
            .filter(|(of, pod)| of.namespace == key.namespace && pod["metadata"]["annotations"][GROUP] == *key.name);
        let (mut running, mut succeeded) = (0, 0);
        for (_, pod) in members {
            running += u32::from(pods::runs(pod));
            succeeded += u32::from(pod["status"]["phase"] == "Succeeded");
        }
        let _ = objects.change(&who, &POD_GROUPS, &key, |group| {
            for (field, count) in [("running", running), ("succeeded", succeeded)] {
                // A count of zero is not written.
                if count > 0 || group["status"][field].is_number() {
                    group["status"][field] = count.into();
                }
            }
            Ok(())
        });
    }
}

/// Returns what pods request, with the same again as keys of a `ResourceQuota`, as Volcano's controllers write it.
pub fn least<'a>(specs: impl Iterator<Item = &'a Value>) -> Value {
    let mut sums = crate::world::quantity::Amounts::new();
    let mut count = 0;
    for spec in specs {
        crate::world::quantity::add(&mut sums, &crate::world::quantity::request(spec));
        count += 1;
    }
    let mut least = json!({"count/pods": count.to_string(), "pods": count.to_string()});
    sums.remove("pods");
    for (resource, amount) in sums {
        let text = if amount % 1_000 == 0 {
            (amount / 1_000).to_string()
        } else {
            format!("{amount}m")
        };
        least[format!("requests.{resource}")] = text.as_str().into();
        least[format!("limits.{resource}")] = text.as_str().into();
        least[resource] = text.into();
    }
    least
}

/// Opens queues that have no state.
pub fn open_queues(objects: &mut Objects) {
    let keys: Vec<Key> = objects
        .list(&QUEUES)
        .filter(|(_, queue)| queue["status"]["state"].is_null())
        .map(|(key, _)| key.clone())
        .collect();
    for key in keys {
        let _ = objects.change(&Arc::from(VOLCANO), &QUEUES, &key, |queue| {
            queue["status"]["state"] = "Open".into();
            Ok(())
        });
    }
}
