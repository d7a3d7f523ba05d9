//! What is installed: every definition, webhook configuration and policy of this version, and the certificates in them.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::Api;
use kube::api::ListParams;
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use serde_json::Value;

use super::{Finding, Result};
use crate::cluster::Cluster;
use crate::failure::Failure;

/// The manifests of this version, as `kubectl apply` takes them.
const MANIFESTS: &str = include_str!("../../../manifests/install.yaml");
/// The kinds that enforcement rests on, with their plurals.
const KINDS: [(&str, &str); 5] = [
    ("CustomResourceDefinition", "customresourcedefinitions"),
    ("MutatingWebhookConfiguration", "mutatingwebhookconfigurations"),
    ("ValidatingWebhookConfiguration", "validatingwebhookconfigurations"),
    ("ValidatingAdmissionPolicy", "validatingadmissionpolicies"),
    ("ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings"),
];
/// Name of both webhook configurations.
const CONFIGURATION: &str = "cardgate";
/// The operator renews its authority long before; cert-manager does by default.
const ENDS_SOON: SignedDuration = SignedDuration::from_hours(7 * 24);

/// Looks at what is installed.
pub(super) async fn findings(cluster: &Cluster) -> std::result::Result<Vec<Finding>, Failure> {
    let expected = expected(MANIFESTS).map_err(|error| Failure::Unprintable(error.to_string()))?;
    let mut findings = Vec::new();
    for (kind, plural) in KINDS {
        let Some((version, names)) = expected.get(kind) else {
            continue;
        };
        let (group, version) = version.split_once('/').unwrap_or(("", version));
        let resource = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural);
        let api: Api<DynamicObject> = Api::all_with(cluster.client(), &resource);
        findings.push(match api.list_metadata(&ListParams::default()).await {
            Ok(list) => {
                let there: BTreeSet<_> = list.items.iter().map(kube::ResourceExt::name_any).collect();
                are_there(plural, names, &there)
            }
            Err(error) => Finding::unseen(plural, &format!("list {plural}"), &error),
        });
    }
    findings.extend(of_certificates(cluster).await);
    Ok(findings)
}

/// Which objects there have to be, by kind: their API version, and their names.
fn expected(manifests: &str) -> std::result::Result<BTreeMap<String, (String, BTreeSet<String>)>, serde_saphyr::Error> {
    let mut expected = BTreeMap::<String, (String, BTreeSet<String>)>::new();
    for object in serde_saphyr::from_multiple::<Value>(manifests)? {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        let (kind, version, name) = (text("/kind"), text("/apiVersion"), text("/metadata/name"));
        if let (Some(kind), Some(version), Some(name)) = (kind, version, name) {
            expected
                .entry(kind)
                .or_insert_with(|| (version, BTreeSet::new()))
                .1
                .insert(name);
        }
    }
    Ok(expected)
}

fn are_there(what: &str, wanted: &BTreeSet<String>, there: &BTreeSet<String>) -> Finding {
    let missing: Vec<_> = wanted.difference(there).cloned().collect();
    if missing.is_empty() {
        return Finding::new(Result::Ok, what, format!("all {} are there", wanted.len()));
    }
    let version = env!("CARGO_PKG_VERSION");
    let missing = missing.join(", ");
    Finding::new(
        Result::Problem,
        what,
        format!("missing: {missing}: apply the manifests of version {version} again"),
    )
}

/// Whom API servers trust when they ask the webhooks, and until when.
async fn of_certificates(cluster: &Cluster) -> Vec<Finding> {
    let mutating: Api<MutatingWebhookConfiguration> = Api::all(cluster.client());
    let validating: Api<ValidatingWebhookConfiguration> = Api::all(cluster.client());
    let mut findings = Vec::new();
    let mutating = mutating.get_opt(CONFIGURATION).await.map(|found| {
        let webhooks = found.and_then(|found| found.webhooks).into_iter().flatten();
        webhooks
            .map(|webhook| (webhook.name, webhook.client_config.ca_bundle))
            .collect()
    });
    let validating = validating.get_opt(CONFIGURATION).await.map(|found| {
        let webhooks = found.and_then(|found| found.webhooks).into_iter().flatten();
        webhooks
            .map(|webhook| (webhook.name, webhook.client_config.ca_bundle))
            .collect()
    });
    for (which, found) in [("mutating", mutating), ("validating", validating)] {
        let what = format!("certificates of {which} webhooks");
        findings.push(match found {
            Ok(bundles) => of_bundles(&what, bundles, Timestamp::now()),
            Err(error) => Finding::unseen(what, &format!("get {which}webhookconfigurations"), &error),
        });
    }
    findings
}

fn of_bundles(what: &str, bundles: Vec<(String, Option<ByteString>)>, now: Timestamp) -> Finding {
    const TO_DO: &str = "the operator writes it while it leads, or cert-manager does: see what they log";
    let mut last: Option<Timestamp> = None;
    for (webhook, bundle) in bundles {
        let Some(end) = bundle.and_then(|bundle| end_of(&bundle.0)) else {
            return Finding::new(
                Result::Problem,
                what,
                format!("{webhook} has no readable caBundle, so no API server can ask it: {TO_DO}"),
            );
        };
        last = Some(last.map_or(end, |last| last.min(end)));
    }
    match last {
        Some(end) if end <= now => Finding::new(Result::Problem, what, format!("ended at {end}: {TO_DO}")),
        Some(end) if end.duration_since(now) < ENDS_SOON => {
            Finding::new(Result::Warning, what, format!("end at {end}: {TO_DO}"))
        }
        Some(end) => Finding::new(Result::Ok, what, format!("trusted until {end}")),
        None => Finding::new(
            Result::Problem,
            what,
            "there are no webhooks: apply the manifests again",
        ),
    }
}

/// When the last of the authorities of a bundle ends: until then somebody is trusted.
fn end_of(bundle: &[u8]) -> Option<Timestamp> {
    let ends = pem::parse_many(bundle).ok()?.into_iter().map(|block| {
        let (_, certificate) = x509_parser::parse_x509_certificate(block.contents()).ok()?;
        Timestamp::from_second(certificate.validity().not_after.timestamp()).ok()
    });
    ends.collect::<Option<Vec<_>>>()?.into_iter().max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_that_is_installed_is_looked_for() {
        let expected = expected(MANIFESTS).unwrap();
        for (kind, _) in KINDS {
            assert!(!expected[kind].1.is_empty(), "{kind}");
        }
        let (policies, bindings) = (
            &expected["ValidatingAdmissionPolicy"].1,
            &expected["ValidatingAdmissionPolicyBinding"].1,
        );
        // One may have several, each for objects of its own.
        assert!(policies.is_subset(bindings), "{policies:?} {bindings:?}");
        assert!(policies.contains("cardgate-pod-create"));
    }

    #[test]
    fn what_is_missing_is_named() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
        let found = are_there("policies", &names(&["a", "b"]), &names(&["b", "c"]));
        assert_eq!(found.result, Result::Problem);
        assert!(found.details.starts_with("missing: a: apply"), "{}", found.details);
        assert_eq!(
            are_there("policies", &names(&["b"]), &names(&["b", "c"])).result,
            Result::Ok
        );
    }

    #[test]
    fn a_webhook_that_nobody_trusts_is_a_problem() {
        let now = Timestamp::now();
        for bundle in [None, Some(ByteString(b"nonsense".to_vec()))] {
            let found = of_bundles("certificates", vec![("pods".to_owned(), bundle)], now);
            assert_eq!(found.result, Result::Problem);
            assert!(
                found.details.contains("pods has no readable caBundle"),
                "{}",
                found.details
            );
        }
        assert_eq!(of_bundles("certificates", Vec::new(), now).result, Result::Problem);
    }
}
