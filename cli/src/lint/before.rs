//! The objects that exist already of those that are judged.

use std::collections::{BTreeSet, HashMap};

use kube::Api;
use kube::core::{ApiResource, DynamicObject};

use crate::applied::Old;
use crate::cluster::Cluster;
use crate::failure::{Failure, lacks_right, words};
use crate::manifests::Manifest;

/// The most objects that are read from a cluster.
const MOST: usize = 1_000;

/// Group, kind, namespace and name.
type Key = (String, String, String, String);

/// The objects that exist already.
#[derive(Debug, Default)]
pub struct Before {
    objects: HashMap<Key, Old>,
    /// What could not be found out.
    pub unchecked: BTreeSet<String>,
}

impl Before {
    /// The objects of these files, taken as applied.
    pub fn of(manifests: Vec<Manifest>, namespace: &str) -> Self {
        let objects = manifests.into_iter().map(|mut manifest| {
            let key = key(&manifest, manifest.namespace().unwrap_or(namespace));
            let applied = manifest.object.clone();
            manifest.write_defaults();
            (key, Old::applied_as(manifest.object, applied))
        });
        Self {
            objects: objects.collect(),
            unchecked: BTreeSet::new(),
        }
    }

    /// The objects of these manifests that a cluster has. Objects that the user may not read are noted.
    pub async fn ask(cluster: &Cluster, manifests: &[Manifest]) -> Result<Self, Failure> {
        let mut before = Self::default();
        for manifest in manifests.iter().filter(|manifest| is_named(manifest)).take(MOST) {
            let namespace = manifest.namespace().unwrap_or(&cluster.namespace);
            match get(cluster, manifest, namespace).await {
                Ok(Some(object)) => {
                    let object = serde_json::to_value(&object).map_err(|error| Failure::unprintable(&error))?;
                    before.objects.insert(key(manifest, namespace), Old::of_cluster(object));
                }
                Ok(None) => {}
                Err(error) => {
                    let (_, kind) = manifest.group_and_kind();
                    let why = match &error {
                        error if lacks_right(error) => {
                            format!("you may not get {}", manifest.plural())
                        }
                        error => words(error),
                    };
                    let asked = format!(
                        "whether {kind} {} is there, and what it says, so it is judged as a new one: {why}",
                        manifest.name()
                    );
                    before.unchecked.insert(asked);
                }
            }
        }
        if manifests.len() > MOST {
            before.unchecked.insert(format!(
                "what there is of more than {MOST} objects: the others are judged as new ones"
            ));
        }
        Ok(before)
    }

    /// Returns the existing object for a manifest. `namespace` applies if the manifest names none.
    pub fn of_manifest(&self, manifest: &Manifest, namespace: &str) -> Option<&Old> {
        self.objects.get(&key(manifest, namespace))
    }
}

/// Whether the object has a name. With a mere prefix of a name, a new object is made each time.
fn is_named(manifest: &Manifest) -> bool {
    manifest.object["metadata"]["name"].is_string()
}

fn key(manifest: &Manifest, namespace: &str) -> Key {
    let (group, kind) = manifest.group_and_kind();
    let namespace = if manifest.is_namespaced() { namespace } else { "" };
    let texts = [group, kind, namespace, manifest.name()].map(str::to_owned);
    texts.into()
}

async fn get(cluster: &Cluster, manifest: &Manifest, namespace: &str) -> Result<Option<DynamicObject>, kube::Error> {
    let (group, kind) = manifest.group_and_kind();
    let resource = ApiResource {
        group: group.to_owned(),
        version: manifest.version().to_owned(),
        api_version: manifest.object["apiVersion"].as_str().unwrap_or_default().to_owned(),
        kind: kind.to_owned(),
        plural: manifest.plural(),
    };
    let api: Api<DynamicObject> = if manifest.is_namespaced() {
        Api::namespaced_with(cluster.client(), namespace, &resource)
    } else {
        Api::all_with(cluster.client(), &resource)
    };
    api.get_opt(manifest.name()).await
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn what_is_the_same_has_group_kind_namespace_and_name_in_common() {
        let manifest = |object: Value| Manifest {
            file: "f".to_owned(),
            object,
        };
        let job = |namespace: &str| {
            manifest(
                json!({ "apiVersion": "batch/v1", "kind": "Job", "metadata": { "name": "a", "namespace": namespace } }),
            )
        };
        let queue = manifest(
            json!({ "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": { "name": "a" } }),
        );
        let before = Before::of(vec![job("team"), queue.clone()], "default");
        assert!(before.of_manifest(&job("team"), "team").is_some());
        assert!(before.of_manifest(&job("other"), "other").is_none());
        assert!(before.of_manifest(&queue, "").is_some());
        assert!(before.of_manifest(&queue, "team").is_some());
    }
}
