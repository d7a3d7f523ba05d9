//! Checks what the user may ask, compared with what every logged-in user, or everybody who may view the namespace, should.

use k8s_openapi::api::authorization::v1::{ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec};
use kube::Api;
use kube::api::PostParams;

use super::{Finding, Result};
use crate::cluster::Cluster;
use crate::failure::{ASK, EVERYBODY, VIEW};

/// Verb, group, resource, whether it is in the namespace, and the role that allows it.
const RIGHTS: [(&str, &str, &str, bool, &str); 4] = [
    ("list", "card.volcano.sh", "cardtypes", false, EVERYBODY),
    ("list", "scheduling.volcano.sh", "queues", false, EVERYBODY),
    ("create", "card.volcano.sh", "cardreviews", true, ASK),
    ("list", "card.volcano.sh", "cardusages", false, VIEW),
];

/// Checks the user's rights.
pub(super) async fn findings(cluster: &Cluster) -> Vec<Finding> {
    let api: Api<SelfSubjectAccessReview> = Api::all(cluster.client());
    let mut findings = Vec::new();
    for (verb, group, resource, is_namespaced, role) in RIGHTS {
        let attributes = ResourceAttributes {
            verb: Some(verb.to_owned()),
            group: Some(group.to_owned()),
            resource: Some(resource.to_owned()),
            namespace: is_namespaced.then(|| cluster.namespace.clone()),
            ..ResourceAttributes::default()
        };
        let review = SelfSubjectAccessReview {
            spec: SelfSubjectAccessReviewSpec {
                resource_attributes: Some(attributes),
                ..SelfSubjectAccessReviewSpec::default()
            },
            ..SelfSubjectAccessReview::default()
        };
        let what = format!("your right to {verb} {resource}");
        findings.push(match api.create(&PostParams::default(), &review).await {
            Ok(answer) if answer.status.as_ref().is_some_and(|status| status.allowed) => {
                Finding::new(Result::Ok, what, "granted")
            }
            // A user who may view a namespace need not see the whole cluster.
            Ok(_) if role == VIEW => Finding::new(Result::Unseen, what, format!("by the ClusterRole {role}")),
            Ok(_) => Finding::new(
                Result::Warning,
                what,
                format!("missing: ask for the ClusterRole {role}"),
            ),
            Err(error) => Finding::unseen(what, "ask for your own rights", &error),
        });
    }
    findings
}
