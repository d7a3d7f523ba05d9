//! Checks what runs: the two programs, the leader, and whether questions are answered.

use std::time::Duration;

use crds::card_review::{CardReview, CardReviewSpec};
use crds::keys::NAMESPACE;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube::Api;
use tokio::time::{Instant, sleep};

use super::{Finding, Result};
use crate::cluster::Cluster;
use crate::failure::Failure;

/// The programs, by the names of their Deployments, and what it means if none runs.
const PROGRAMS: [(&str, &str); 2] = [
    ("webhook", "pods with cards can't be created"),
    ("operator", "nobody lets waiting pods in"),
];
/// The Lease for which the operators compete.
const LEASE: &str = "operator";
/// What it means that no operator holds it.
const NOBODY_LEADS: &str = "nobody leads, so nobody lets waiting pods in: see what the operators log";
/// How long a renewal is waited for at most, in seconds.
const LONGEST: u64 = 30;
/// The pause between two looks at the Lease.
const PAUSE: Duration = Duration::from_millis(500);
/// The name of a pod that does not exist. An operator must answer to say so.
const NOBODY: &str = "kubectl-card-check";

/// Checks what runs.
pub(super) async fn findings(cluster: &Cluster) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (name, without) in PROGRAMS {
        let api: Api<Deployment> = Api::namespaced(cluster.client(), NAMESPACE);
        let what = format!("deployment {name}");
        findings.push(match api.get_opt(name).await {
            Ok(found) => of_deployment(what, found.as_ref(), without),
            Err(error) => Finding::unseen(what, &format!("get deployments in {NAMESPACE}"), &error),
        });
    }
    findings.push(of_leader(cluster).await);
    findings.push(of_answer(cluster).await);
    findings
}

fn of_deployment(what: String, found: Option<&Deployment>, without: &str) -> Finding {
    let Some(found) = found else {
        return Finding::new(
            Result::Problem,
            what,
            format!("missing, so {without}: apply the manifests again"),
        );
    };
    let wanted = found.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
    let ready = found
        .status
        .as_ref()
        .and_then(|status| status.ready_replicas)
        .unwrap_or(0);
    let details = format!("{ready} of {wanted} are ready");
    let look = format!("kubectl -n {NAMESPACE} get pods shows why");
    match ready {
        // For example in the demo, where the programs run beside the cluster.
        0 if wanted == 0 => {
            let details = format!("scaled to 0, so {without}, unless it runs outside the cluster: scale it up");
            Finding::new(Result::Problem, what, details)
        }
        0 => Finding::new(Result::Problem, what, format!("{details}, so {without}: {look}")),
        ready if ready < wanted => Finding::new(Result::Warning, what, format!("{details}: {look}")),
        _ => Finding::new(Result::Ok, what, details),
    }
}

/// Checks whether an operator leads: the one that renews the Lease. Clocks are not compared, since the user's may be wrong.
async fn of_leader(cluster: &Cluster) -> Finding {
    let api: Api<Lease> = Api::namespaced(cluster.client(), NAMESPACE);
    let mut first: Option<LeaseSpec> = None;
    let mut end = Instant::now();
    loop {
        let lease = match api.get_opt(LEASE).await {
            Ok(lease) => lease.and_then(|lease| lease.spec).unwrap_or_default(),
            Err(error) => return Finding::unseen("leader", &format!("get leases in {NAMESPACE}"), &error),
        };
        let Some(holder) = holder(&lease) else {
            return Finding::new(Result::Problem, "leader", NOBODY_LEADS);
        };
        match &first {
            Some(first) if is_renewed(first, &lease) => return Finding::new(Result::Ok, "leader", holder),
            Some(_) if Instant::now() >= end => {
                let details = format!("{holder} does not renew its Lease: {NOBODY_LEADS}");
                return Finding::new(Result::Problem, "leader", details);
            }
            Some(_) => {}
            None => {
                let lasts = lease.lease_duration_seconds.and_then(|lasts| u64::try_from(lasts).ok());
                end += Duration::from_secs(lasts.unwrap_or(LONGEST).clamp(1, LONGEST));
                first = Some(lease);
            }
        }
        sleep(PAUSE).await;
    }
}

fn holder(lease: &LeaseSpec) -> Option<&str> {
    lease.holder_identity.as_deref().filter(|holder| !holder.is_empty())
}

/// Whether an operator has taken or renewed the Lease between the two.
fn is_renewed(before: &LeaseSpec, now: &LeaseSpec) -> bool {
    (&before.renew_time, holder(before)) != (&now.renew_time, holder(now))
}

/// Checks whether questions are answered, by a question about a pod that does not exist.
async fn of_answer(cluster: &Cluster) -> Finding {
    let spec = CardReviewSpec {
        pod: Some(NOBODY.to_owned()),
        ..CardReviewSpec::default()
    };
    let mut review = CardReview::new("", spec);
    review.metadata.name = None;
    review.metadata.generate_name = Some("check-".to_owned());
    let what = "answers to kubectl card why";
    match cluster.review(&cluster.namespace, &review).await {
        Ok(_) | Err(Failure::Unknown(_)) => Finding::new(Result::Ok, what, "the operator answers"),
        Err(failure @ (Failure::MayNotAsk(_) | Failure::NamespaceUnknown(_))) => {
            Finding::new(Result::Unseen, what, failure.to_string())
        }
        Err(failure) => Finding::new(Result::Problem, what, failure.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
    use k8s_openapi::jiff::{SignedDuration, Timestamp};
    use serde_json::json;

    use super::*;

    #[test]
    fn a_program_of_which_none_is_ready_is_a_problem() {
        let found = |ready: i32| {
            let deployment = json!({ "spec": { "replicas": 2 }, "status": { "readyReplicas": ready } });
            let deployment: Deployment = serde_json::from_value(deployment).unwrap();
            of_deployment("deployment webhook".to_owned(), Some(&deployment), "nothing works").result
        };
        assert_eq!([0, 1, 2].map(found), [Result::Problem, Result::Warning, Result::Ok]);
        let off = serde_json::from_value(json!({ "spec": { "replicas": 0 } })).unwrap();
        let off = of_deployment(String::new(), Some(&off), "nothing works");
        assert_eq!(off.result, Result::Problem);
        assert!(
            off.details.starts_with("scaled to 0, so nothing works, unless"),
            "{}",
            off.details
        );
        assert_eq!(
            of_deployment(String::new(), None, "nothing works").result,
            Result::Problem
        );
    }

    #[test]
    fn a_lease_is_alive_that_is_renewed_or_changes_hands() {
        let now = Timestamp::now();
        let lease = |holder: &str, renewed: i64| LeaseSpec {
            holder_identity: Some(holder.to_owned()),
            renew_time: Some(MicroTime(now + SignedDuration::from_secs(renewed))),
            ..LeaseSpec::default()
        };
        assert!(!is_renewed(&lease("a", 0), &lease("a", 0)));
        assert!(is_renewed(&lease("a", 0), &lease("a", 2)));
        assert!(is_renewed(&lease("a", 0), &lease("b", 0)));
        assert_eq!(holder(&lease("a", 0)), Some("a"));
        assert_eq!((holder(&lease("", 0)), holder(&LeaseSpec::default())), (None, None));
    }
}
