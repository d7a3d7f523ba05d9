//! The writes on each pod, Job and node that is let go. They only remove what Cardgate put there, and only if it is still there.

use crds::keys::{ADMITTED_CONDITION, GATE, GPU_NODE_LABEL, JOB_HELD};
use json_patch::Patch;
use json_patch::jsonptr::PointerBuf;
use serde_json::{Value, json};

use crate::marked::{Condition, Job, Marked as _, Node, Pod};

/// Removes Cardgate's gate from a pod. Other gates stay, and hold the pod.
pub(super) fn without_gate(pod: &Pod) -> Option<Patch> {
    let gates = pod.gates();
    let place = gates.iter().position(|gate| gate.name == GATE)?;
    let gate = format!("/spec/schedulingGates/{place}");
    let removed = if gates.len() == 1 {
        "/spec/schedulingGates"
    } else {
        &gate
    };
    patch(json!([
        { "op": "test", "path": "/metadata/uid", "value": pod.metadata().uid },
        { "op": "test", "path": format!("{gate}/name"), "value": GATE },
        { "op": "remove", "path": removed },
    ]))
}

/// Removes Cardgate's condition from a pod's status if it says that the pod waits, since nobody would ever correct it.
pub(super) fn without_condition(pod: &Pod) -> Option<Patch> {
    let waits = |condition: &Condition| condition.r#type == ADMITTED_CONDITION && condition.status == "False";
    let place = format!("/status/conditions/{}", pod.conditions().iter().position(waits)?);
    patch(json!([
        { "op": "test", "path": "/metadata/uid", "value": pod.metadata().uid },
        { "op": "test", "path": format!("{place}/type"), "value": ADMITTED_CONDITION },
        { "op": "test", "path": format!("{place}/status"), "value": "False" },
        { "op": "remove", "path": place },
    ]))
}

/// Resumes a Job that Cardgate suspended, and removes its mark. A Job without the mark was suspended by somebody else.
pub(super) fn resumption(job: &Job) -> Option<Patch> {
    if !job.metadata().has_annotation(JOB_HELD) {
        return None;
    }
    let mark = pointer(&["metadata", "annotations", JOB_HELD]);
    let mut operations = vec![
        json!({ "op": "test", "path": "/metadata/uid", "value": job.metadata().uid }),
        json!({ "op": "remove", "path": mark }),
    ];
    if job.is_suspended() {
        operations.push(json!({ "op": "test", "path": "/spec/suspend", "value": true }));
        operations.push(json!({ "op": "replace", "path": "/spec/suspend", "value": false }));
    }
    patch(Value::Array(operations))
}

/// Removes the label that kept pods off GPU nodes. Pods that still look for a node may then go there as well.
pub(super) fn without_label(node: &Node) -> Option<Patch> {
    if !node.metadata().has_label(GPU_NODE_LABEL) {
        return None;
    }
    patch(json!([
        { "op": "test", "path": "/metadata/uid", "value": node.metadata().uid },
        { "op": "remove", "path": pointer(&["metadata", "labels", GPU_NODE_LABEL]) },
    ]))
}

fn patch(operations: Value) -> Option<Patch> {
    serde_json::from_value(operations).ok()
}

fn pointer(tokens: &[&str]) -> String {
    PointerBuf::from_tokens(tokens.iter().copied()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::de::DeserializeOwned;

    /// Returns the object after its patch; none if there is no patch.
    fn after<K: DeserializeOwned>(object: Value, release: fn(&K) -> Option<Patch>) -> Option<Value> {
        let read: K = serde_json::from_value(object.clone()).unwrap();
        let mut written = object;
        json_patch::patch(&mut written, &release(&read)?).unwrap();
        Some(written)
    }

    fn pod(gates: &[&str]) -> Value {
        let gates: Vec<Value> = gates.iter().map(|name| json!({ "name": name })).collect();
        json!({ "metadata": { "uid": "u" }, "spec": { "containers": [], "schedulingGates": gates } })
    }

    #[test]
    fn our_gate_goes_and_others_stay() {
        for (gates, left) in [
            (vec![GATE], None),
            (vec![GATE, "other"], Some(json!([{ "name": "other" }]))),
            (vec!["other", GATE], Some(json!([{ "name": "other" }]))),
        ] {
            let after = after::<Pod>(pod(&gates), without_gate).unwrap();
            assert_eq!(after["spec"].get("schedulingGates"), left.as_ref(), "{gates:?}");
        }
        assert_eq!(after::<Pod>(pod(&["other"]), without_gate), None);
        assert_eq!(after::<Pod>(pod(&[]), without_gate), None);
    }

    #[test]
    fn the_condition_goes_where_it_says_that_the_pod_waits() {
        let status = |status: &str| {
            json!({ "metadata": { "uid": "u" }, "status": { "conditions": [
                { "type": "PodScheduled", "status": "False" }, { "type": ADMITTED_CONDITION, "status": status },
            ] } })
        };
        let after_it = after::<Pod>(status("False"), without_condition).unwrap();
        let left = json!([{ "type": "PodScheduled", "status": "False" }]);
        assert_eq!(after_it["status"]["conditions"], left);
        assert_eq!(after::<Pod>(status("True"), without_condition), None);
    }

    #[test]
    fn only_jobs_with_the_mark_are_resumed() {
        let job = |annotations: Value, suspend: bool| {
            json!({ "metadata": { "uid": "u", "annotations": annotations },
                    "spec": { "suspend": suspend, "template": {} } })
        };
        let held = json!({ JOB_HELD: "true", "a/b": "c" });
        assert_eq!(
            after::<Job>(job(held.clone(), true), resumption),
            Some(job(json!({ "a/b": "c" }), false))
        );
        assert_eq!(
            after::<Job>(job(held, false), resumption),
            Some(job(json!({ "a/b": "c" }), false))
        );
        assert_eq!(after::<Job>(job(json!({ "a/b": "c" }), true), resumption), None);
    }

    #[test]
    fn nodes_lose_the_label_of_gpu_nodes_alone() {
        let node = json!({ "metadata": { "uid": "u", "labels": { GPU_NODE_LABEL: "true", "a": "b" } } });
        let after_it = after::<Node>(node, without_label).unwrap();
        assert_eq!(after_it["metadata"]["labels"], json!({ "a": "b" }));
    }
}
