//! The objects that this version installs and that enforcement rests on, and the check whether they are unchanged.

mod compare;
mod rights;

use kube::core::{ApiResource, GroupVersionKind};
use serde_json::Value;
use thiserror::Error;

/// The manifests of this version, as `kubectl apply` takes them.
const MANIFESTS: &str = include_str!("../../../manifests/install.yaml");
/// The namespace in the manifests.
const NAMESPACE: &str = "cardgate-system";
/// A kind, its plural, the key of the content that matters, and why it is needed.
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
/// The kinds that give Cardgate's programs and users their rights.
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
/// The key of a role's rights.
const GIVEN: &str = "rules";
/// The key of a binding's subjects.
const BOUND: &str = "subjects";
/// The end of the names of objects that an installation without Cardgate's own authority does not need.
const OWN_AUTHORITY: &str = "operator-certificates";
/// The `ConfigMap` that policies read. The other `ConfigMap` belongs to the users, and need not exist.
const PARAMETERS: &str = "cardgate-policy";

/// The built-in manifests cannot be read.
#[derive(Debug, Error)]
pub enum ExpectedError {
    /// They are not valid YAML.
    #[error("the manifests that are built in can't be read: {0}")]
    Syntax(#[from] serde_saphyr::Error),
}

/// One object of the installation.
#[derive(Debug, Clone)]
pub struct Part {
    /// The kind, as in the manifest; for messages.
    pub kind: &'static str,
    /// The name, as in the manifest, where no other object of the kind has it.
    pub name: String,
    /// The namespace, if the kind has namespaces.
    pub namespace: Option<String>,
    /// The API resource of the kind.
    pub resource: ApiResource,
    /// The key of the content that matters.
    pub place: &'static str,
    /// The content at that key, as text. It is needed only when the object changes, which is very rare, and a definition as a tree of
    /// values takes ten times as much memory.
    content: Box<str>,
    /// Why the object is needed.
    pub purpose: &'static str,
}

impl Part {
    /// Returns the content at the object's key; null if no content is required.
    pub fn content(&self) -> Value {
        serde_json::from_str(&self.content).unwrap_or_default()
    }

    /// Whether an installation may lack this object.
    pub fn is_optional(&self) -> bool {
        matches!(self.place, GIVEN | BOUND) && self.name.ends_with(OWN_AUTHORITY)
    }

    /// Returns where the object in the cluster first differs from what was installed; none if it does not differ.
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
        // Additional content of a definition, and what the operator has written into the `ConfigMap`, takes nothing away.
        let added = !matches!(self.kind, "CustomResourceDefinition" | "ConfigMap");
        let content = object.get(self.place).unwrap_or(&Value::Null);
        compare::difference(self.place, &expected, content, added)
    }
}

/// Returns the objects that enforcement rests on, for an installation in this namespace.
pub fn parts(namespace: &str) -> Result<Vec<Part>, ExpectedError> {
    parts_of(&KINDS, namespace)
}

/// Returns the roles and bindings that give programs and users their rights, for an installation in this namespace.
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
        // One policy has two bindings: for requests that read parameters and for those that do not.
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
        // The rights on the `ConfigMap` belong to the part that writes it.
        let needs = parts.into_iter().filter(|part| part.kind != "ConfigMap");
        let needs: BTreeSet<_> = needs.map(|part| (part.resource.plural, part.name)).collect();
        assert_eq!(may, needs);
    }
}
