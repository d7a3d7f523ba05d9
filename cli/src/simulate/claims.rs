//! The claims of devices that pods get from templates, as Kubernetes' controller makes them.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::manifests::Manifest;
use crate::templates::owner_references;

/// The most claims of one pod that API servers allow.
const MOST: usize = 32;

/// The claim templates, by namespace and name.
#[derive(Debug, Default)]
pub struct Templates(BTreeMap<(String, String), Value>);

impl Templates {
    /// The templates among these objects.
    pub fn of<'m>(manifests: impl Iterator<Item = &'m Manifest>) -> Self {
        let templates =
            manifests.filter(|manifest| manifest.group_and_kind() == ("resource.k8s.io", "ResourceClaimTemplate"));
        let named = templates.map(|template| {
            let namespace = template.namespace().unwrap_or_default().to_owned();
            let spec = template.object["spec"]["spec"].clone();
            ((namespace, template.name().to_owned()), spec)
        });
        Self(named.collect())
    }

    /// Returns a pod's claims from existing templates, and writes their names on the pod.
    pub fn claims_of(&self, pod: &mut Manifest) -> Vec<Manifest> {
        let namespace = pod.namespace().unwrap_or_default().to_owned();
        let mut claims = Vec::new();
        let mut statuses = Vec::new();
        for named in pod.object["spec"]["resourceClaims"]
            .as_array()
            .into_iter()
            .flatten()
            .take(MOST)
        {
            let (name, template) = (&named["name"], named["resourceClaimTemplateName"].as_str());
            let spec = template.and_then(|template| self.0.get(&(namespace.clone(), template.to_owned())));
            let (Some(name), Some(spec)) = (name.as_str(), spec) else {
                continue;
            };
            let claim = format!("{}-{name}", pod.name());
            statuses.push(json!({ "name": name, "resourceClaimName": claim }));
            claims.push(Manifest {
                file: pod.file.clone(),
                object: json!({
                    "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
                    "metadata": { "name": claim, "namespace": namespace, "ownerReferences": owner_references(pod) },
                    "spec": spec,
                }),
            });
        }
        if !statuses.is_empty() {
            pod.object["status"]["resourceClaimStatuses"] = statuses.into();
        }
        claims
    }
}
