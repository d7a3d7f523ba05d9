//! Checks how API servers ask the webhooks: which certificates they trust and until when, and whether a webhook is ready to
//! answer.

use std::collections::BTreeSet;

use crds::keys::NAMESPACE;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::Api;
use kube::api::ListParams;
use serde_json::Value;

use super::installed::Seen;
use super::{Finding, Result};
use crate::cluster::Cluster;

/// The Secrets with the serving certificates.
const SERVED: [&str; 2] = ["cardgate-webhook-tls", "cardgate-review-tls"];
/// The key of the certificate chain in them.
const CHAIN: &str = "tls.crt";
/// Certificates are renewed when a third of their 90 days is left, by the operator and by cert-manager.
const ENDS_SOON: SignedDuration = SignedDuration::from_hours(30 * 24);
/// A certificate that is not renewed by then will not be renewed.
const ENDS_AT_ONCE: SignedDuration = SignedDuration::from_hours(7 * 24);
/// The label that says which Service an `EndpointSlice` belongs to.
const OF_SERVICE: &str = "kubernetes.io/service-name";
const TO_DO: &str = "the operator renews it while it leads, or cert-manager does: see what they log";

/// Checks the certificates, and whether a webhook is ready.
pub(super) async fn findings(cluster: &Cluster, installed: &[Seen]) -> Vec<Finding> {
    let now = Timestamp::now();
    let mut findings = Vec::new();
    let mut services = BTreeSet::new();
    for (which, kind) in [
        ("mutating", "MutatingWebhookConfiguration"),
        ("validating", "ValidatingWebhookConfiguration"),
    ] {
        let what = format!("certificates of {which} webhooks");
        let Some(seen) = installed.iter().find(|seen| seen.part.kind == kind) else {
            continue;
        };
        findings.push(match &seen.found {
            Ok(found) => {
                let none = Vec::new();
                let webhooks = found
                    .as_ref()
                    .and_then(|found| found["webhooks"].as_array())
                    .unwrap_or(&none);
                services.extend(webhooks.iter().filter_map(service));
                of_bundles(&what, webhooks.iter().map(bundle), now)
            }
            Err(error) => Finding::unseen(what, &format!("get {which}webhookconfigurations"), error),
        });
    }
    findings.extend(of_served(cluster, now).await);
    for (namespace, name) in services {
        findings.push(of_endpoints(cluster, &namespace, &name).await);
    }
    findings
}

/// Returns the Service of a webhook; `None` if it is asked at a URL.
fn service(webhook: &Value) -> Option<(String, String)> {
    let service = &webhook["clientConfig"]["service"];
    let text = |key: &str| service[key].as_str().map(str::to_owned);
    text("namespace").zip(text("name"))
}

/// Returns a webhook's name, and the authorities that API servers trust when they ask it.
fn bundle(webhook: &Value) -> (String, Option<Vec<u8>>) {
    let name = webhook["name"].as_str().unwrap_or_default().to_owned();
    let bundle: Option<ByteString> = serde_json::from_value(webhook["clientConfig"]["caBundle"].clone()).ok();
    (name, bundle.map(|bundle| bundle.0))
}

/// Checks the trusted authorities. Of several, the first may end when the next signs already, so the last counts. Which of
/// them signed the serving certificate is seen in that certificate.
fn of_bundles(what: &str, bundles: impl Iterator<Item = (String, Option<Vec<u8>>)>, now: Timestamp) -> Finding {
    let mut trusted: Option<Ends> = None;
    for (webhook, bundle) in bundles {
        let Some(ends) = bundle.and_then(|bundle| Ends::of(&bundle)) else {
            return Finding::new(
                Result::Problem,
                what,
                format!("{webhook} has no readable caBundle, so no API server can ask it: {TO_DO}"),
            );
        };
        trusted = Some(trusted.filter(|trusted| trusted.last <= ends.last).unwrap_or(ends));
    }
    let Some(Ends { first, last }) = trusted else {
        return Finding::new(
            Result::Problem,
            what,
            "there are no webhooks: apply the manifests again",
        );
    };
    let before = if first < last {
        format!(" (the first of them ends at {first})")
    } else {
        String::new()
    };
    judged(what, last, now, &format!("trusted until {last}{before}"))
}

/// Checks the serving certificates, if the user may read them. The certificate of the chain that ends first counts.
async fn of_served(cluster: &Cluster, now: Timestamp) -> Vec<Finding> {
    let api: Api<Secret> = Api::namespaced(cluster.client(), NAMESPACE);
    let mut findings = Vec::new();
    for name in SERVED {
        let what = format!("certificate {name}");
        findings.push(match api.get_opt(name).await {
            Ok(Some(secret)) => {
                let chain = secret.data.as_ref().and_then(|data| data.get(CHAIN));
                match chain.and_then(|chain| Ends::of(&chain.0)) {
                    Some(Ends { first, .. }) => judged(&what, first, now, &format!("good until {first}")),
                    None => Finding::new(Result::Problem, what, format!("{CHAIN} can't be read: {TO_DO}")),
                }
            }
            Ok(None) => Finding::new(Result::Problem, what, format!("there is no such Secret: {TO_DO}")),
            Err(error) => Finding::unseen(what, &format!("get secrets in {NAMESPACE}"), &error),
        });
    }
    findings
}

fn judged(what: &str, end: Timestamp, now: Timestamp, well: &str) -> Finding {
    let left = end.duration_since(now);
    let result = match left {
        left if left < ENDS_AT_ONCE => Result::Problem,
        left if left < ENDS_SOON => Result::Warning,
        _ => return Finding::new(Result::Ok, what, well),
    };
    let verb = if left.is_positive() { "ends" } else { "has ended" };
    Finding::new(result, what, format!("{verb} at {end}: {TO_DO}"))
}

/// When the certificates of a file end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Ends {
    first: Timestamp,
    last: Timestamp,
}

impl Ends {
    fn of(certificates: &[u8]) -> Option<Self> {
        let ends = pem::parse_many(certificates).ok()?.into_iter().map(|block| {
            let (_, certificate) = x509_parser::parse_x509_certificate(block.contents()).ok()?;
            Timestamp::from_second(certificate.validity().not_after.timestamp()).ok()
        });
        let ends = ends.collect::<Option<Vec<_>>>()?;
        Some(Self {
            first: ends.iter().copied().min()?,
            last: ends.into_iter().max()?,
        })
    }
}

/// Checks whether a pod is ready behind a Service.
async fn of_endpoints(cluster: &Cluster, namespace: &str, name: &str) -> Finding {
    let what = format!("endpoints of service {name}");
    let api: Api<EndpointSlice> = Api::namespaced(cluster.client(), namespace);
    let of_it = ListParams::default().labels(&format!("{OF_SERVICE}={name}"));
    match api.list(&of_it).await {
        Ok(slices) => of_slices(&what, &slices.items),
        Err(error) => Finding::unseen(what, &format!("list endpointslices in {namespace}"), &error),
    }
}

fn of_slices(what: &str, slices: &[EndpointSlice]) -> Finding {
    let endpoints = slices.iter().flat_map(|slice| slice.endpoints.iter());
    let (mut ready, mut all) = (0, 0);
    for endpoint in endpoints {
        all += 1;
        // An endpoint that does not say is ready, as in Kubernetes.
        let is_ready = endpoint.conditions.as_ref().and_then(|conditions| conditions.ready);
        ready += usize::from(is_ready.unwrap_or(true));
    }
    let details = format!("{ready} of {all} are ready");
    match ready {
        0 => Finding::new(
            Result::Problem,
            what,
            format!("{details}, so API servers ask in vain: kubectl -n {NAMESPACE} get pods shows why"),
        ),
        _ => Finding::new(Result::Ok, what, details),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_webhook_that_nobody_trusts_is_a_problem() {
        let now = Timestamp::now();
        for bundle in [None, Some(b"nonsense".to_vec()), Some(Vec::new())] {
            let found = of_bundles("certificates", [("pods".to_owned(), bundle)].into_iter(), now);
            assert_eq!(found.result, Result::Problem);
            assert!(
                found.details.contains("pods has no readable caBundle"),
                "{}",
                found.details
            );
        }
        assert_eq!(
            of_bundles("certificates", std::iter::empty(), now).result,
            Result::Problem
        );
    }

    fn certificate(days: i64) -> String {
        let mut params = rcgen::CertificateParams::default();
        params.not_after = time::OffsetDateTime::UNIX_EPOCH + time::Duration::days(days);
        params.not_before = params.not_after - time::Duration::days(1);
        let key = rcgen::KeyPair::generate().unwrap();
        params.self_signed(&key).unwrap().pem()
    }

    #[test]
    fn a_chain_ends_with_its_first_and_trust_with_its_last() {
        let file = [certificate(40), certificate(10), certificate(90)]
            .concat()
            .into_bytes();
        let ends = Ends::of(&file).unwrap();
        let day = |days: i64| Timestamp::UNIX_EPOCH + SignedDuration::from_hours(days * 24);
        assert_eq!((ends.first, ends.last), (day(10), day(90)));
        // An authority that has a successor in the bundle may end.
        let found = of_bundles(
            "certificates",
            [("pods".to_owned(), Some(file.clone()))].into_iter(),
            day(5),
        );
        assert_eq!(found.result, Result::Ok);
        assert!(
            found.details.contains("the first of them ends at 1970-01-11"),
            "{}",
            found.details
        );
        // The bundle of each webhook counts, however long another bundle is trusted.
        let both = [("a", file), ("b", certificate(20).into_bytes())];
        let both = both.into_iter().map(|(name, bundle)| (name.to_owned(), Some(bundle)));
        assert_eq!(of_bundles("certificates", both, day(5)).result, Result::Warning);
    }

    #[test]
    fn a_certificate_that_ends_soon_is_told_of_and_one_that_ends_at_once_is_a_problem() {
        let now = Timestamp::UNIX_EPOCH;
        let in_days = |days: i64| judged("c", now + SignedDuration::from_hours(days * 24), now, "good").result;
        assert_eq!([31, 29, 8].map(in_days), [Result::Ok, Result::Warning, Result::Warning]);
        assert_eq!([6, 0, -1].map(in_days), [Result::Problem; 3]);
    }

    #[test]
    fn somebody_must_be_ready_behind_the_service() {
        let of = |ready: &[Value]| {
            let endpoints: Vec<_> = ready
                .iter()
                .map(|ready| json!({ "addresses": [], "conditions": { "ready": ready } }))
                .collect();
            let slice = json!({ "addressType": "IPv4", "endpoints": endpoints });
            of_slices("webhook", &[serde_json::from_value(slice).unwrap()])
        };
        assert_eq!(of(&[json!(false)]).result, Result::Problem);
        assert_eq!(of(&[]).result, Result::Problem);
        let found = of(&[json!(true), json!(false), json!(null)]);
        assert_eq!((found.result, &*found.details), (Result::Ok, "2 of 3 are ready"));
    }

    #[test]
    fn webhooks_say_where_they_are_asked_and_whom_to_trust() {
        let webhook = json!({ "name": "pods", "clientConfig": {
            "service": { "namespace": "n", "name": "webhook" }, "caBundle": "YWJj",
        }});
        assert_eq!(service(&webhook), Some(("n".to_owned(), "webhook".to_owned())));
        assert_eq!(bundle(&webhook), ("pods".to_owned(), Some(b"abc".to_vec())));
        let webhook = json!({ "name": "pods", "clientConfig": { "url": "https://127.0.0.1" } });
        assert_eq!(service(&webhook), None);
        assert!(bundle(&webhook).1.is_none_or(|bundle| bundle.is_empty()));
    }
}
