//! The existing pods of a controller that is not itself read from the cluster. A file that names the controller asks for no
//! more pods.

use serde_json::Value;

use crate::manifests::Manifest;

/// Kind, namespace and name of an object.
pub type Named = [String; 3];

/// Returns what an object is named.
pub fn named(object: &Manifest) -> Named {
    let (_, kind) = object.group_and_kind();
    [kind, object.namespace().unwrap_or_default(), object.name()].map(str::to_owned)
}

/// Returns the existing pods of a controller. If its UID is known, pods of an earlier controller of that name are left out.
pub fn pods_of(there: &[Manifest], owner: &Manifest) -> Vec<Named> {
    let (group, kind) = owner.group_and_kind();
    let (kind, is_deployment) = match (group, kind) {
        ("apps", "Deployment") => ("ReplicaSet", true),
        ("apps", _) | ("batch" | "batch.volcano.sh", "Job") => (kind, false),
        _ => return Vec::new(),
    };
    let uid = owner.object["metadata"]["uid"].as_str().filter(|_| !is_deployment);
    let is_made = |pod: &&Manifest| {
        let metadata = &pod.object["metadata"];
        // A Deployment's pods are those of its `ReplicaSet`s. Each `ReplicaSet` is named by the Deployment's name and this
        // hash.
        let hash = metadata["labels"]["pod-template-hash"].as_str().unwrap_or_default();
        let name = if is_deployment {
            format!("{}-{hash}", owner.name())
        } else {
            owner.name().to_owned()
        };
        let is_of = |reference: &Value| {
            let version = reference["apiVersion"].as_str().unwrap_or_default();
            let of_group = version.split_once('/').map(|(group, _)| group);
            let is_same = uid.is_none_or(|uid| reference["uid"] == uid);
            is_same && of_group == Some(group) && reference["kind"] == kind && reference["name"] == *name
        };
        let references = metadata["ownerReferences"].as_array().into_iter().flatten();
        let mut controllers = references.filter(|reference| reference["controller"] == true);
        pod.group_and_kind() == ("", "Pod") && pod.namespace() == owner.namespace() && controllers.any(is_of)
    };
    there.iter().filter(is_made).map(named).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pods_are_found_by_what_they_say_of_their_controller() {
        let of = |name: &str, version: &str, kind: &str, owner: &str| {
            Manifest::in_a_file(json!({
                "apiVersion": "v1", "kind": "Pod",
                "metadata": {
                    "name": name, "namespace": "team", "labels": { "pod-template-hash": "5d8f" },
                    "ownerReferences": [{ "apiVersion": version, "kind": kind, "name": owner, "controller": true }],
                },
            }))
        };
        let there = [
            of("web-5d8f-x", "apps/v1", "ReplicaSet", "web-5d8f"),
            of("web-2-5d8f-y", "apps/v1", "ReplicaSet", "web-2-5d8f"),
            of("db-0", "apps/v1", "StatefulSet", "db"),
            of("train-worker-0", "batch.volcano.sh/v1alpha1", "Job", "train"),
        ];
        let found = |version: &str, kind: &str, name: &str, namespace: &str| {
            let metadata = json!({ "name": name, "namespace": namespace });
            let owner = Manifest::in_a_file(json!({ "apiVersion": version, "kind": kind, "metadata": metadata }));
            let found = pods_of(&there, &owner).into_iter();
            found.map(|[_, _, name]| name).collect::<Vec<_>>()
        };
        assert_eq!(found("apps/v1", "Deployment", "web", "team"), ["web-5d8f-x"]);
        assert_eq!(found("apps/v1", "ReplicaSet", "web-5d8f", "team"), ["web-5d8f-x"]);
        assert_eq!(found("apps/v1", "StatefulSet", "db", "team"), ["db-0"]);
        assert_eq!(
            found("batch.volcano.sh/v1alpha1", "Job", "train", "team"),
            ["train-worker-0"]
        );
        assert_eq!(found("batch/v1", "Job", "train", "team"), [""; 0]);
        assert_eq!(found("apps/v1", "Deployment", "web", "other"), [""; 0]);
        assert_eq!(found("apps/v1", "StatefulSet", "web", "team"), [""; 0]);
    }
}
