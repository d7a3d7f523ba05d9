//! Deployments and their `ReplicaSet`s.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Made, all, next_name, owned, owner, pod, pods_of};
use crate::objects::{DEPLOYMENTS, Key, Objects, PODS, REPLICA_SETS};
use crate::world::pods;

/// Gives each Deployment one `ReplicaSet` of its template. Those of former templates are deleted, as under `Recreate`.
pub fn deployments(objects: &mut Objects) {
    let who = Arc::from("deployment-controller");
    for (key, deployment) in all(objects, &DEPLOYMENTS) {
        let template = &deployment["spec"]["template"];
        let hash = fnv(&template.to_string());
        let name = format!("{}-{:05x}", key.name, hash & 0xf_ffff);
        for (old, set) in all(objects, &REPLICA_SETS) {
            if old.namespace == key.namespace
                && old.name != name
                && pods::is_owned_by(&set, &deployment["metadata"]["uid"])
            {
                let _ = objects.delete(&who, &REPLICA_SETS, &old);
            }
        }
        let replicas = deployment["spec"]["replicas"].clone();
        let key = Key::new(key.namespace, name);
        if objects.get(&REPLICA_SETS, &key).is_none() {
            let set = json!({
                "metadata": {
                    "namespace": key.namespace, "name": key.name, "labels": template["metadata"]["labels"],
                    "ownerReferences": owner(&DEPLOYMENTS, &deployment),
                },
                "spec": {"replicas": replicas, "selector": deployment["spec"]["selector"], "template": template},
            });
            let _ = objects.create(&who, &REPLICA_SETS, set);
        } else {
            let _ = objects.change(&who, &REPLICA_SETS, &key, |set| {
                set["spec"]["replicas"] = replicas;
                Ok(())
            });
        }
    }
}

/// FNV-1a: the same on every machine.
fn fnv(text: &str) -> u64 {
    let byte = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, byte)
}

/// Gives each `ReplicaSet` as many pods that are neither ended nor deleted as it asks for.
pub fn replica_sets(objects: &mut Objects, made: &mut Made) {
    let who = Arc::from("replicaset-controller");
    let mut owned = owned(objects);
    for (key, set) in all(objects, &REPLICA_SETS) {
        let wanted = set["spec"]["replicas"].as_u64().unwrap_or(1);
        let mut active = pods_of(&mut owned, &set);
        active.retain(|(_, pod)| pods::is_active(pod));
        let count = active.len() as u64;
        for _ in count..wanted {
            let name = next_name(made, &key);
            let pod = pod(&set["spec"]["template"], &name, owner(&REPLICA_SETS, &set));
            if objects.create(&who, &PODS, pod).is_err() {
                // The controller backs off if a pod is refused.
                break;
            }
        }
        // Pods without a node are deleted first.
        active.sort_by_key(|(key, pod): &(Key, Arc<Value>)| (pods::node(pod).is_some(), key.clone()));
        let surplus = usize::try_from(count.saturating_sub(wanted)).unwrap_or(0);
        for (key, _) in active.iter().take(surplus) {
            let _ = objects.delete(&who, &PODS, key);
        }
    }
}
