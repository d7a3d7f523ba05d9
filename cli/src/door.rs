//! Asks the door as API servers ask it: the webhook's own code, and the policies that API servers evaluate themselves.

use std::collections::BTreeMap;
use std::error;
use std::sync::Arc;

use serde_json::{Value, json};
use thiserror::Error;
use webhook::door::{Door as Webhook, Failure, Verdict};
use webhook::endpoint::Endpoint;

use crate::known::Known;
use crate::manifests::Manifest;
use crate::policies::{Policies, PolicyError, operation};

/// The manifests of this version, which say which webhook API servers ask about what.
const MANIFESTS: &str = include_str!("../../manifests/install.yaml");
const ENDPOINTS: [Endpoint; 3] = [Endpoint::Mutate, Endpoint::Validate, Endpoint::Advise];

/// The endpoints that API servers ask, by operation, group and plural.
type Asked = BTreeMap<(String, String, String), Vec<Endpoint>>;

/// Why this version's own manifests can't be read.
#[derive(Debug, Error)]
pub enum DoorError {
    #[error(transparent)]
    Manifests(#[from] serde_saphyr::Error),
    #[error(transparent)]
    Policy(#[from] PolicyError),
}

/// The door.
pub struct Door {
    webhook: Webhook,
    asked: Asked,
    policies: Policies,
}

impl Door {
    /// A door with this knowledge.
    pub fn new(known: &Arc<Known>) -> Result<Self, DoorError> {
        let objects: Vec<Value> = serde_saphyr::from_multiple(MANIFESTS)?;
        let lookups = Arc::clone(known);
        let options = webhook::Options::default();
        Ok(Self {
            webhook: Webhook::new(Arc::clone(&known.knowledge), lookups, options, Arc::new(())),
            asked: asked(&objects),
            policies: Policies::of(&objects)?,
        })
    }

    /// Returns the endpoints that are asked about an object that is created, or changed from `before`. `None` if none is
    /// asked.
    pub fn endpoints(&self, manifest: &Manifest, before: Option<&Value>) -> Option<Vec<Endpoint>> {
        let (group, _) = manifest.group_and_kind();
        let asked = (operation(before).to_owned(), group.to_owned(), manifest.plural());
        self.asked.get(&asked).cloned()
    }

    /// Returns the door's verdict on the creation or change of an object.
    pub async fn ask(
        &self,
        endpoint: Endpoint,
        manifest: &Manifest,
        before: Option<&Value>,
        namespace: &str,
    ) -> Result<Verdict, Failure> {
        let (group, kind) = manifest.group_and_kind();
        let review = json!({
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "request": {
                "uid": "asked",
                "operation": operation(before),
                "kind": { "group": group, "version": manifest.version(), "kind": kind },
                "name": manifest.object["metadata"]["name"].as_str().unwrap_or_default(),
                "namespace": namespace,
                "object": manifest.object,
                "oldObject": before,
            },
        });
        self.webhook.verdict(endpoint, review.to_string().as_bytes()).await
    }

    /// Returns why API servers' own policies forbid everybody to create or change an object that the door has written on.
    /// `None` if they do not.
    pub fn forbids(
        &self,
        manifest: &Manifest,
        before: Option<&Value>,
        namespace: &str,
    ) -> Result<Option<String>, PolicyError> {
        self.policies.refusal(manifest, before, namespace)
    }
}

/// Writes the door's changes on an object.
pub fn write(verdict: &Verdict, manifest: &mut Manifest) -> Result<(), Box<dyn error::Error>> {
    let patch = serde_json::from_value::<json_patch::Patch>(verdict.patch()?)?;
    Ok(json_patch::patch(&mut manifest.object, &patch)?)
}

/// Returns which endpoints API servers ask, according to the manifests.
fn asked(objects: &[Value]) -> Asked {
    let texts = |value: &Value| -> Vec<String> {
        let texts = value.as_array().into_iter().flatten();
        texts.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let mut asked = Asked::new();
    for object in objects {
        for webhook in object["webhooks"].as_array().into_iter().flatten() {
            let path = webhook.pointer("/clientConfig/service/path");
            let endpoint = ENDPOINTS.into_iter().find(|of| path == Some(&json!(of.path())));
            let Some(endpoint) = endpoint else { continue };
            for rule in webhook["rules"].as_array().into_iter().flatten() {
                let groups = texts(&rule["apiGroups"]);
                for (operation, group) in each_with_each(&texts(&rule["operations"]), &groups) {
                    for plural in texts(&rule["resources"]) {
                        let endpoints = asked.entry((operation.clone(), group.clone(), plural)).or_default();
                        if !endpoints.contains(&endpoint) {
                            endpoints.push(endpoint);
                        }
                    }
                }
            }
        }
    }
    asked
}

/// Returns each of `ones` with each of `others`.
fn each_with_each<'t>(ones: &'t [String], others: &'t [String]) -> impl Iterator<Item = (&'t String, &'t String)> {
    ones.iter().flat_map(|one| others.iter().map(move |other| (one, other)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_asked_about_all_that_api_servers_ask_it_about() {
        let asked = asked(&serde_saphyr::from_multiple::<Value>(MANIFESTS).unwrap());
        let by = |operation: &str, group: &str, plural: &str| {
            asked
                .get(&(operation.to_owned(), group.to_owned(), plural.to_owned()))
                .cloned()
        };
        let of = |group: &str, plural: &str| by("CREATE", group, plural);
        assert_eq!(
            by("UPDATE", "scheduling.volcano.sh", "queues"),
            of("scheduling.volcano.sh", "queues")
        );
        assert_eq!(by("UPDATE", "", "pods"), None);
        assert_eq!(of("", "pods"), Some(vec![Endpoint::Mutate]));
        let queues = of("scheduling.volcano.sh", "queues");
        assert_eq!(queues, Some(vec![Endpoint::Validate, Endpoint::Advise]));
        let jobs = of("batch", "jobs");
        assert_eq!(jobs, Some(vec![Endpoint::Mutate, Endpoint::Validate, Endpoint::Advise]));
        assert_eq!(of("apps", "deployments"), Some(vec![Endpoint::Advise]));
        assert_eq!(of("", "services"), None);
    }
}
