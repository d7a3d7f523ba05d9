//! What is installed with this version, as far as enforcement rests on it, and whether an object of it still says that.

mod compare;
mod rights;

use kube::core::{ApiResource, GroupVersionKind};
use serde_json::Value;
use thiserror::Error;

/// The manifests of this version, as `kubectl apply` takes them.
const MANIFESTS: &str = include_str!("../../../manifests/install.yaml");
/// The namespace that they name.
const NAMESPACE: &str = "cardgate-system";
/// A kind, its plural, where what it says stands, and why it is needed.
type Kind = (&'static str, &'static str, &'static str, &'static str);

/// The kinds that enforcement rests on.
const KINDS: [Kind; 6] = [
    (
        "MutatingWebhookConfiguration",
        "mutatingwebhookconfigurations",
        "webhooks",
        "without it nobody holds new pods and Jobs back for their quota",
    ),
    (
        "ValidatingWebhookConfiguration",
        "validatingwebhookconfigurations",
        "webhooks",
        "without it queues, groups and Jobs are not checked when they are written",
    ),
    (
        "ValidatingAdmissionPolicy",
        "validatingadmissionpolicies",
        "spec",
        "without it nobody but the webhook keeps gates and results out of other hands",
    ),
    (
        "ValidatingAdmissionPolicyBinding",
        "validatingadmissionpolicybindings",
        "spec",
        "without it its policy has no effect",
    ),
    (
        "CustomResourceDefinition",
        "customresourcedefinitions",
        "spec",
        "without it nothing is shown of cards and queues",
    ),
    (
        "ConfigMap",
        "configmaps",
        "data",
        "without it the policies know neither the settings nor the cards",
    ),
];
/// The kinds by which Cardgate's programs and users have their rights.
const RIGHTS: [Kind; 4] = [
    ("ClusterRole", "clusterroles", GIVEN, "without it rights are missing"),
    (
        "ClusterRoleBinding",
        "clusterrolebindings",
        BOUND,
        "without it its role has no effect",
    ),
    ("Role", "roles", GIVEN, "without it rights are missing"),
    (
        "RoleBinding",
        "rolebindings",
        BOUND,
        "without it its role has no effect",
    ),
];
/// Where the rights of a role stand.
const GIVEN: &str = "rules";
/// Where it stands who has them.
const BOUND: &str = "subjects";
/// How the names end of what an installation without an authority of Cardgate's own does without.
const OWN_AUTHORITY: &str = "operator-certificates";
/// Of the `ConfigMap`s, the one that policies read. The other is the users' own, and need not be there.
const PARAMETERS: &str = "cardgate-policy";

/// What is built in can't be read.
#[derive(Debug, Error)]
pub enum ExpectedError {
    /// They are no YAML.
    #[error("the manifests that are built in can't be read: {0}")]
    Syntax(#[from] serde_saphyr::Error),
}

/// One object of the installation.
#[derive(Debug, Clone)]
pub struct Part {
    /// As in its manifest, for messages.
    pub kind: &'static str,
    /// As in its manifest, and the only one of its kind there.
    pub name: String,
    /// Its namespace, where its kind has any.
    pub namespace: Option<String>,
    /// Where the API server serves it.
    pub resource: ApiResource,
    /// Where in it stands what matters.
    pub place: &'static str,
    /// What stands there, as text: it is looked at when the object changes, which is next to never, and a definition as a
    /// tree of values takes ten times as much memory.
    content: Box<str>,
    /// Why it is needed.
    pub purpose: &'static str,
}

impl Part {
    /// What stands at its place; null where nothing has to.
    pub fn content(&self) -> Value {
        serde_json::from_str(&self.content).unwrap_or_default()
    }

    /// Whether an installation may do without it.
    pub fn is_optional(&self) -> bool {
        matches!(self.place, GIVEN | BOUND) && self.name.ends_with(OWN_AUTHORITY)
    }

    /// Where the object, as it is in the cluster, first says something else than was installed; none where it says that.
    pub fn difference(&self, object: &Value) -> Option<String> {
        let expected = self.content();
        if expected.is_null() {
            return None;
        }
        match self.place {
            GIVEN => return rights::lacking(&expected, &object[GIVEN]).map(|right| format!("{GIVEN}: lacks {right}")),
            BOUND => return rights::unbound(&expected, &object[BOUND]).map(|who| format!("{BOUND}: lacks {who}")),
            _ => {}
        }
        // What a definition allows besides, and what the operator has written down, takes nothing away.
        let added = !matches!(self.kind, "CustomResourceDefinition" | "ConfigMap");
        let content = object.get(self.place).unwrap_or(&Value::Null);
        compare::difference(self.place, &expected, content, added)
    }
}

/// The objects that enforcement rests on, in an installation in this namespace.
pub fn parts(namespace: &str) -> Result<Vec<Part>, ExpectedError> {
    parts_of(&KINDS, namespace)
}

/// The roles and bindings by which programs and users have their rights, in an installation in this namespace.
pub fn rights(namespace: &str) -> Result<Vec<Part>, ExpectedError> {
    parts_of(&RIGHTS, namespace)
}

fn parts_of(kinds: &[Kind], namespace: &str) -> Result<Vec<Part>, ExpectedError> {
    let text = MANIFESTS.replace(NAMESPACE, namespace);
    let mut parts = Vec::new();
    for document in text.split("\n---\n") {
        let object: Value = serde_saphyr::from_str(document)?;
        parts.extend(part(kinds, &object));
    }
    Ok(parts)
}

fn part(kinds: &[Kind], object: &Value) -> Option<Part> {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
    let (kind, plural, place, purpose) = *kinds.iter().find(|(kind, ..)| text("/kind") == Some(kind))?;
    let name = text("/metadata/name")?;
    if kind == "ConfigMap" && name != PARAMETERS {
        return None;
    }
    let (group, version) = text("/apiVersion")?.rsplit_once('/').unwrap_or(("", "v1"));
    let kind_of_api = GroupVersionKind::gvk(group, version, kind);
    Some(Part {
        kind,
        name: name.to_owned(),
        namespace: text("/metadata/namespace").map(ToOwned::to_owned),
        resource: ApiResource::from_gvk_with_plural(&kind_of_api, plural),
        place,
        content: object.get(place).unwrap_or(&Value::Null).to_string().into(),
        purpose,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn everything_that_enforcement_rests_on_is_known() {
        let parts = parts("elsewhere").unwrap();
        let of = |kind: &str| parts.iter().filter(|part| part.kind == kind).count();
        assert_eq!(of("MutatingWebhookConfiguration"), 1);
        assert_eq!(of("ValidatingWebhookConfiguration"), 1);
        assert_eq!(of("CustomResourceDefinition"), 4);
        assert!(of("ValidatingAdmissionPolicy") >= 5);
        // One has two, for what reads parameters and what does not.
        assert_eq!(
            of("ValidatingAdmissionPolicyBinding"),
            of("ValidatingAdmissionPolicy") + 1
        );
        for part in &parts {
            assert!(
                part.kind == "ConfigMap" || !part.content().is_null(),
                "{} says nothing",
                part.name
            );
            assert!(!part.content.contains(NAMESPACE), "{}", part.name);
        }
    }

    #[test]
    fn the_operator_may_read_each_of_them_and_nothing_else() {
        let mut may = BTreeSet::new();
        for document in MANIFESTS.split("\n---\n") {
            let object: Value = serde_saphyr::from_str(document).unwrap();
            if object["metadata"]["name"] != "cardgate-operator-installation" || object["kind"] != "ClusterRole" {
                continue;
            }
            for rule in object["rules"].as_array().unwrap() {
                assert_eq!(rule["verbs"], serde_json::json!(["get", "list", "watch"]));
                for (resource, name) in rule["resources"].as_array().unwrap().iter().flat_map(|resource| {
                    rule["resourceNames"]
                        .as_array()
                        .unwrap()
                        .iter()
                        .map(move |name| (resource, name))
                }) {
                    may.insert((resource.as_str().unwrap().to_owned(), name.as_str().unwrap().to_owned()));
                }
            }
        }
        let parts = parts(NAMESPACE).unwrap();
        // The ConfigMap's rights are those of who writes it.
        let needs = parts.into_iter().filter(|part| part.kind != "ConfigMap");
        let needs: BTreeSet<_> = needs.map(|part| (part.resource.plural, part.name)).collect();
        assert_eq!(may, needs);
    }
}
