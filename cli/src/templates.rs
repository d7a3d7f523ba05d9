//! The pods that objects make, as their controllers would make them.

use serde_json::{Value, json};

use crate::manifests::Manifest;

/// Returns the template of an object's pods, and its place. `None` if the object makes no pods, or Volcano makes them.
pub fn template(manifest: &Manifest) -> Option<(&'static str, &Value)> {
    let spec = &manifest.object["spec"];
    let (place, template) = match manifest.group_and_kind() {
        ("apps", _) | ("batch", "Job") => ("spec.template", &spec["template"]),
        ("batch", "CronJob") => (
            "spec.jobTemplate.spec.template",
            &spec["jobTemplate"]["spec"]["template"],
        ),
        _ => return None,
    };
    template["spec"].is_object().then_some((place, template))
}

/// Returns a pod of a template.
pub fn pod_of(template: &Value, file: &str, namespace: &str) -> Manifest {
    let mut object = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": {}, "spec": template["spec"] });
    if template["metadata"].is_object() {
        object["metadata"] = template["metadata"].clone();
    }
    object["metadata"]["namespace"] = namespace.into();
    Manifest {
        file: file.to_owned(),
        object,
    }
}

/// Returns the owner references of the pods of an object.
pub fn owner_references(owner: &Manifest) -> Value {
    let (_, kind) = owner.group_and_kind();
    json!([{
        "apiVersion": owner.object["apiVersion"], "kind": kind, "name": owner.name(),
        "uid": owner.object["metadata"]["uid"], "controller": true,
    }])
}

/// Returns how many pods an object makes at once; `None` where nodes or time decide that.
pub fn count(manifest: &Manifest) -> Option<u64> {
    let spec = &manifest.object["spec"];
    match manifest.group_and_kind() {
        ("apps", "Deployment" | "StatefulSet" | "ReplicaSet") => Some(spec["replicas"].as_u64().unwrap_or(1)),
        ("batch", "Job") => {
            let parallel = spec["parallelism"].as_u64().unwrap_or(1);
            Some(spec["completions"].as_u64().map_or(parallel, |all| all.min(parallel)))
        }
        _ => None,
    }
}
