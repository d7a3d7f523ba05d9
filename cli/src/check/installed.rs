//! Checks what is installed: every definition, webhook configuration, policy, role and binding of this version, and its
//! contents.

use std::collections::BTreeMap;

use crds::keys::NAMESPACE;
use futures::{StreamExt as _, stream};
use kube::Api;
use kube::core::DynamicObject;
use removal::installed::{ExpectedError, Part, parts, rights};
use serde_json::Value;

use super::{Finding, Result};
use crate::cluster::Cluster;
use crate::failure::Failure;

/// How many objects are asked for at a time.
const AT_ONCE: usize = 8;

/// An object of the installation, as it is in the cluster, if it exists.
pub(super) struct Seen {
    pub part: Part,
    pub found: std::result::Result<Option<Value>, kube::Error>,
}

/// Reads all of these objects.
pub(super) async fn look(cluster: &Cluster) -> std::result::Result<Vec<Seen>, Failure> {
    let all = all().map_err(|error| Failure::Unprintable(error.to_string()))?;
    let seen = stream::iter(all).map(|part| async {
        let api: Api<DynamicObject> = match &part.namespace {
            Some(namespace) => Api::namespaced_with(cluster.client(), namespace, &part.resource),
            None => Api::all_with(cluster.client(), &part.resource),
        };
        let found = api.get_opt(&part.name).await.map(|found| found.map(|found| found.data));
        Seen { part, found }
    });
    Ok(seen.buffered(AT_ONCE).collect().await)
}

fn all() -> std::result::Result<Vec<Part>, ExpectedError> {
    let mut all = parts(NAMESPACE)?;
    all.extend(rights(NAMESPACE)?);
    Ok(all)
}

/// Returns what was found, kind by kind.
pub(super) fn findings(all: &[Seen]) -> Vec<Finding> {
    let mut kinds = BTreeMap::<&str, Vec<&Seen>>::new();
    for seen in all {
        kinds.entry(&seen.part.resource.plural).or_default().push(seen);
    }
    // With certificates from elsewhere, none of the objects that Cardgate's own certificates need exist; otherwise all of
    // them do.
    let keeps_own = all
        .iter()
        .any(|seen| seen.part.is_optional() && matches!(seen.found, Ok(Some(_))));
    let of_kind = |(plural, seen): (_, Vec<_>)| of_kind(plural, &seen, keeps_own);
    kinds.into_iter().map(of_kind).collect()
}

fn of_kind(plural: &str, all: &[&Seen], keeps_own: bool) -> Finding {
    let (mut missing, mut changed, mut there) = (Vec::new(), Vec::new(), 0);
    for Seen { part, found } in all {
        match found {
            Err(error) => return Finding::unseen(plural, &format!("get {plural}"), error),
            Ok(None) if part.is_optional() && !keeps_own => {}
            Ok(None) => missing.push(part.name.clone()),
            Ok(Some(object)) => {
                there += 1;
                let difference = part.difference(object).or_else(|| not_served(part.kind, object));
                changed.extend(difference.map(|place| format!("{} ({place})", part.name)));
            }
        }
    }
    if missing.is_empty() && changed.is_empty() {
        return Finding::new(
            Result::Ok,
            plural,
            format!("all {there} are there, as this version needs them"),
        );
    }
    let parts = [("missing", missing), ("not as this version needs them", changed)];
    let parts = parts.into_iter().filter(|(_, names)| !names.is_empty());
    let parts: Vec<_> = parts
        .map(|(what, names)| format!("{what}: {}", names.join(", ")))
        .collect();
    let version = env!("CARGO_PKG_VERSION");
    let details = format!(
        "{}: apply the manifests of version {version} again, or check with the plugin of the version that is installed",
        parts.join("; ")
    );
    Finding::new(Result::Problem, plural, details)
}

/// Returns the condition that keeps a definition from being served.
fn not_served(kind: &str, object: &Value) -> Option<String> {
    if kind != "CustomResourceDefinition" {
        return None;
    }
    let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
    let says = |wanted: &str, status: &str| {
        let mut conditions = conditions.into_iter().flatten();
        conditions.any(|condition| condition["type"] == wanted && condition["status"] == status)
    };
    if !says("Established", "True") {
        return Some("status: it is not served yet".to_owned());
    }
    says("Terminating", "True").then(|| "status: it is being deleted".to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The installation as it should be.
    fn well() -> Vec<Seen> {
        let of = |part: Part| {
            let mut object = json!({ part.place: part.content() });
            if part.kind == "CustomResourceDefinition" {
                object["status"] = json!({ "conditions": [{ "type": "Established", "status": "True" }] });
            }
            Seen {
                part,
                found: Ok(Some(object)),
            }
        };
        all().unwrap().into_iter().map(of).collect()
    }

    fn of<'s>(seen: &'s mut [Seen], name: &str, kind: &str) -> &'s mut Seen {
        let mut seen = seen.iter_mut();
        seen.find(|seen| seen.part.name == name && seen.part.kind == kind)
            .unwrap()
    }

    fn of_plural(all: &[Seen], plural: &str) -> Finding {
        let mut findings = findings(all).into_iter();
        findings.find(|finding| finding.what == plural).unwrap()
    }

    #[test]
    fn an_installation_is_well_of_which_every_object_says_what_this_version_has() {
        let findings = findings(&well());
        assert_eq!(findings.len(), 10, "{findings:?}");
        assert!(
            findings.iter().all(|finding| finding.result == Result::Ok),
            "{findings:?}"
        );
    }

    #[test]
    fn what_is_missing_and_what_says_something_else_is_named() {
        let mut seen = well();
        of(&mut seen, "cardgate-pod-create", "ValidatingAdmissionPolicy").found = Ok(None);
        let policy = of(&mut seen, "cardgate-queue", "ValidatingAdmissionPolicy");
        policy.found.as_mut().unwrap().as_mut().unwrap()["spec"]["failurePolicy"] = json!("Ignore");
        let found = of_plural(&seen, "validatingadmissionpolicies");
        assert_eq!(found.result, Result::Problem);
        let expected =
            "missing: cardgate-pod-create; not as this version needs them: cardgate-queue (spec.failurePolicy): apply";
        assert!(found.details.starts_with(expected), "{}", found.details);
        assert_eq!(of_plural(&seen, "customresourcedefinitions").result, Result::Ok);
    }

    #[test]
    fn of_what_keeps_certificates_all_is_there_or_nothing() {
        let mut seen = well();
        of(&mut seen, "operator-certificates", "Role").found = Ok(None);
        let found = of_plural(&seen, "roles");
        assert_eq!(found.result, Result::Problem);
        assert!(
            found.details.starts_with("missing: operator-certificates: apply"),
            "{}",
            found.details
        );
        assert_eq!(of_plural(&seen, "rolebindings").result, Result::Ok);
    }

    #[test]
    fn a_definition_of_other_versions_or_another_schema_or_that_is_not_served_is_found() {
        for (pointer, value) in [
            ("/spec/versions/0/served", json!(false)),
            ("/spec/versions/0/schema/openAPIV3Schema/properties/spec", json!({})),
            ("/status/conditions/0/status", json!("False")),
        ] {
            let mut seen = well();
            let definition = of(&mut seen, "cardtypes.card.volcano.sh", "CustomResourceDefinition");
            *definition
                .found
                .as_mut()
                .unwrap()
                .as_mut()
                .unwrap()
                .pointer_mut(pointer)
                .unwrap() = value;
            let found = of_plural(&seen, "customresourcedefinitions");
            assert_eq!(found.result, Result::Problem, "{pointer}");
            assert!(found.details.contains("cardtypes.card.volcano.sh"), "{}", found.details);
        }
    }

    #[test]
    fn a_role_of_an_older_version_that_lacks_what_this_one_needs_is_found() {
        let mut seen = well();
        let role = of(&mut seen, "cardgate-operator", "ClusterRole");
        let rules = &mut role.found.as_mut().unwrap().as_mut().unwrap()["rules"];
        rules
            .as_array_mut()
            .unwrap()
            .retain(|rule| rule["resources"] != json!(["nodes"]));
        of(&mut seen, "webhook", "RoleBinding").found = Ok(None);
        // With certificates from cert-manager, none of these exists.
        for seen in seen.iter_mut().filter(|seen| seen.part.is_optional()) {
            seen.found = Ok(None);
        }
        let found = of_plural(&seen, "clusterroles");
        let expected = "not as this version needs them: cardgate-operator (rules: lacks patch nodes): apply";
        assert!(found.details.starts_with(expected), "{}", found.details);
        assert_eq!(found.result, Result::Problem);
        assert!(
            of_plural(&seen, "rolebindings")
                .details
                .starts_with("missing: webhook: apply")
        );
        assert_eq!(of_plural(&seen, "roles").result, Result::Ok);
    }

    #[test]
    fn a_webhook_that_is_asked_about_less_is_found() {
        let mut seen = well();
        let configuration = of(&mut seen, "cardgate", "MutatingWebhookConfiguration");
        configuration.found.as_mut().unwrap().as_mut().unwrap()["webhooks"][0]["rules"] = json!([]);
        let found = of_plural(&seen, "mutatingwebhookconfigurations");
        assert!(
            found.details.contains("cardgate (webhooks[0].rules)"),
            "{}",
            found.details
        );
    }
}
