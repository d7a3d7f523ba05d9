//! The node lifecycle controller. It taints nodes that are not ready, and deletes their pods.

use std::sync::Arc;

use serde_json::{Value, json};

use super::all;
use crate::objects::{NODES, Objects, PODS};
use crate::world::{nodes, pods};

const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// Keeps the taints in line with the state of the nodes.
pub fn run(objects: &mut Objects) {
    let who = Arc::from("node-controller");
    for (key, node) in all(objects, &NODES) {
        let is_ready = nodes::is_ready(&node);
        let is_cordoned = node["spec"]["unschedulable"] == true;
        let _ = objects.change(&who, &NODES, &key, |node| {
            let mut taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
            for (taint, effect, is_there) in [
                (UNREACHABLE, "NoSchedule", !is_ready),
                (UNREACHABLE, "NoExecute", !is_ready),
                (UNSCHEDULABLE, "NoSchedule", is_cordoned),
            ] {
                let taint = json!({"key": taint, "effect": effect});
                taints.retain(|one: &Value| *one != taint);
                if is_there {
                    taints.push(taint);
                }
            }
            node["spec"]["taints"] = taints.into();
            Ok(())
        });
        if !is_ready {
            let lost = pods::which(objects, |pod| {
                pods::is_active(pod) && pods::node(pod) == Some(&key.name)
            });
            for key in lost {
                let _ = objects.delete(&who, &PODS, &key);
            }
        }
    }
}
