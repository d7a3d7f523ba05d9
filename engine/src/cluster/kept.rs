//! What is kept of a pod while it waits to be taken in, and to read it again when what it claims has changed.

use crds::keys::{ADMITTED_CONDITION, CARD_ASSIGNED, CROSS_QUOTA_LABEL, TASK_SPEC, is_charged_by};
use crds::pod::{Metadata, OwnerReference, PodSpec, PodStatus, TextMap};
use crds::pod_bounds::{cut_containers, cut_node_terms};

use super::controller::{LONGEST_NAME, cut};
use super::gates;
use super::reading::task_spec;

/// Returns a pod as it is kept. A pod may be a megabyte; only what is read of it is kept.
pub(crate) fn to_keep(pod: &crds::pod::Pod<Box<str>>) -> crds::pod::Pod<Box<str>> {
    let metadata = &pod.metadata;
    let is_read = |(key, text): &(&str, &str)| {
        // A task with a longer name does not count as one.
        is_charged_by(key) || *key == TASK_SPEC && task_spec(metadata) == Some(*text)
    };
    let owned = |(key, text): (&str, &str)| (Box::from(key), Box::from(text));
    let annotations: TextMap<_> = metadata.annotations.iter().filter(is_read).map(owned).collect();
    // Whether there are any annotations is read as well.
    let first = metadata.annotations.iter().take(usize::from(annotations.is_empty()));
    let first: TextMap<_> = first.map(|(key, _)| owned((key, ""))).collect();
    let labels = metadata.labels.iter();
    let labels = labels.filter(|(key, _)| [TASK_SPEC, CROSS_QUOTA_LABEL].contains(key));
    let owners = metadata
        .owner_references
        .iter()
        .filter(|owner| owner.controller == Some(true));
    let short = |text: &Option<Box<str>>| text.as_deref().map(|text| cut(text, LONGEST_NAME + 1).into());
    let owners = owners.take(1).map(|owner| OwnerReference {
        kind: short(&owner.kind),
        name: short(&owner.name),
        uid: short(&owner.uid),
        controller: owner.controller,
    });
    let mut spec = PodSpec {
        scheduling_gates: gates::to_keep(&pod.spec),
        volumes: Vec::new(),
        ..pod.spec.clone()
    };
    cut_node_terms(&mut spec);
    // A pod that was let in, or that runs, is charged for all of it, even if it was there before this bound existed.
    let is_in = metadata.annotations.contains_key(CARD_ASSIGNED) || spec.node_name.is_some();
    if !is_in {
        cut_containers(&mut spec);
    }
    let conditions = pod.status.conditions.iter();
    let told = conditions.filter(|condition| condition.r#type.as_deref() == Some(ADMITTED_CONDITION));
    crds::pod::Pod {
        metadata: Metadata {
            labels: labels.map(owned).collect(),
            annotations: if annotations.is_empty() { first } else { annotations },
            owner_references: owners.collect(),
            name: metadata.name.clone(),
            generate_name: None,
            namespace: metadata.namespace.clone(),
            uid: metadata.uid.clone(),
            resource_version: None,
            creation_timestamp: metadata.creation_timestamp.clone(),
            deletion_timestamp: metadata.deletion_timestamp.clone(),
            deletion_grace_period_seconds: metadata.deletion_grace_period_seconds,
        },
        spec,
        status: PodStatus {
            conditions: told.cloned().collect(),
            ..pod.status.clone()
        },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::cluster::reading::read;
    use crate::names::Names;

    fn kept(metadata: &Value) -> (crds::pod::Pod<Box<str>>, crds::pod::Pod<Box<str>>) {
        let pod = json!({ "metadata": metadata, "spec": { "containers": [{ "name": "main" }] } });
        let pod = serde_json::from_value(pod).unwrap();
        (to_keep(&pod), pod)
    }

    #[test]
    fn a_pod_that_is_read_again_costs_no_more_than_what_is_read() {
        let megabyte = "x".repeat(1 << 20);
        let (kept, _) = kept(&json!({
            "name": "p", "labels": { "stuffing": megabyte }, "annotations": { "stuffing": megabyte, TASK_SPEC: megabyte },
            "ownerReferences": [
                { "kind": "Foo", "name": megabyte, "uid": megabyte, "controller": true },
                { "kind": "Bar", "name": megabyte, "uid": "u" },
            ],
        }));
        let length = format!("{kept:?}").len();
        assert!(length < 4_000, "{length}");
        assert_eq!(kept.metadata.annotations.len(), 1, "that there are any is known");
    }

    #[test]
    fn of_containers_without_end_no_more_is_kept_than_that_but_of_who_was_let_in() {
        let container = json!({ "resources": { "requests": { "cpu": "1", "nvidia.com/gpu": "1" } } });
        for (annotations, node, kept) in [
            (json!({}), Value::Null, 342),
            (json!({ CARD_ASSIGNED: "A100" }), Value::Null, 400),
            (json!({}), json!("n1"), 400),
        ] {
            let spec = json!({ "containers": vec![container.clone(); 400], "nodeName": node });
            let pod = json!({ "metadata": { "name": "p", "annotations": annotations }, "spec": spec });
            let pod: crds::pod::Pod<Box<str>> = serde_json::from_value(pod).unwrap();
            assert_eq!(to_keep(&pod).spec.containers.len(), kept);
        }
    }

    #[test]
    fn a_pod_that_is_read_again_says_what_it_said() {
        for annotations in [
            json!({}),
            json!({ "a": "b" }),
            json!({ TASK_SPEC: "worker", "scheduling.k8s.io/group-name": "g" }),
        ] {
            let (mut again, mut whole) = kept(&json!({
                "name": "p", "labels": { CROSS_QUOTA_LABEL: "enabled" }, "annotations": annotations,
                "ownerReferences": [{ "kind": "Job", "name": "j", "uid": "u", "controller": true }],
            }));
            assert_eq!(
                again.metadata.annotations.is_empty(),
                whole.metadata.annotations.is_empty()
            );
            assert_eq!(task_spec(&again.metadata), task_spec(&whole.metadata));
            let mut names = Names::default();
            let [again, whole] = [&mut again, &mut whole].map(|pod| read(pod, "team", &mut names));
            assert_eq!(
                (again.managed, again.group, again.cross_quota),
                (whole.managed, whole.group, whole.cross_quota)
            );
            assert_eq!(
                (again.controller, again.controller_uid),
                (whole.controller, whole.controller_uid)
            );
        }
    }
}
