//! What the service accounts of `manifests/` may do, asked of a real API server: all that they need, and no more.

use anyhow::{Context as _, Result, ensure};
use cardgate_tests::controlplane::{Account, ControlPlane, Options};
use cardgate_tests::manifests::{self, rights};
use cardgate_tests::wait::{self, Seen};
use crds::keys::NAMESPACE;
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use k8s_openapi::api::core::v1::{ConfigMap, Secret, ServiceAccount};
use k8s_openapi::api::flowcontrol::v1::FlowSchema;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::client::Body;
use kube::{Api, Client, ResourceExt as _};
use operator::certificates::CONFIGURATION;
use operator::review::WEBHOOK;
use serde_json::json;

type Outcome = Result<()>;

/// `group/resource[/subresource]`, the namespace (`*`: all of them, or none) and the name (`*`: any).
type Target = (&'static str, &'static str, &'static str);

/// All that can be done to objects.
const VERBS: [&str; 8] = [
    "get",
    "list",
    "watch",
    "create",
    "update",
    "patch",
    "delete",
    "deletecollection",
];

struct Reviewer {
    reviews: Api<SubjectAccessReview>,
    plane: ControlPlane,
}

impl Reviewer {
    async fn start() -> Result<Self> {
        let plane = ControlPlane::start(Options::default().without_scheduler().without_kwok()).await?;
        let base = manifests::directory().join("overlays/without-volcano");
        let base = base.to_str().context("the checkout's path is not UTF-8")?;
        plane.kubectl().run(["apply", "-k", base]).await?;
        Ok(Self {
            reviews: Api::all(plane.client().await?),
            plane,
        })
    }

    /// Whether somebody of the group of administrators may.
    async fn may_admin(&self, verb: &str, target: Target) -> Result<bool> {
        self.ask("admin", Some(vec!["system:masters".to_owned()]), verb, target)
            .await
    }

    async fn may(&self, user: &str, verb: &str, target: Target) -> Result<bool> {
        self.ask(user, None, verb, target).await
    }

    async fn ask(
        &self,
        user: &str,
        groups: Option<Vec<String>>,
        verb: &str,
        (resource, namespace, name): Target,
    ) -> Result<bool> {
        let some = |text: &str| (!matches!(text, "" | "*")).then(|| text.to_owned());
        let mut parts = resource.splitn(3, '/').map(str::to_owned);
        let review = SubjectAccessReview {
            spec: SubjectAccessReviewSpec {
                user: Some(user.to_owned()),
                groups,
                resource_attributes: Some(ResourceAttributes {
                    group: parts.next(),
                    resource: parts.next(),
                    subresource: parts.next(),
                    namespace: some(namespace),
                    name: some(name),
                    verb: Some(verb.to_owned()),
                    ..ResourceAttributes::default()
                }),
                ..SubjectAccessReviewSpec::default()
            },
            ..SubjectAccessReview::default()
        };
        let answer = self.reviews.create(&PostParams::default(), &review).await?;
        Ok(answer.status.is_some_and(|status| status.allowed))
    }

    /// Asserts that the account may do exactly the first of these verbs on the target, out of all verbs.
    async fn assert_exactly(&self, account: &str, verbs: &[&str], target: Target) -> Outcome {
        let user = Account::new(NAMESPACE, account).user();
        self.assert_user(&user, verbs, target).await
    }

    async fn assert_user(&self, user: &str, verbs: &[&str], target: Target) -> Outcome {
        for verb in VERBS {
            let may = self.may(user, verb, target).await?;
            assert_eq!(may, verbs.contains(&verb), "{user}: {verb} {target:?}");
        }
        Ok(())
    }
}

const READ: [&str; 3] = ["get", "list", "watch"];
/// What a watch needs.
const LIST: [&str; 2] = ["list", "watch"];

/// What would let whoever steals a token become somebody else, run something, or read what is not Cardgate's.
const DANGEROUS: [(&str, Target); 27] = [
    ("create", ("/pods", "default", "*")),
    ("delete", ("/pods", "default", "*")),
    ("create", ("/pods/exec", "default", "*")),
    ("get", ("/pods/exec", "default", "*")),
    ("create", ("/pods/attach", "default", "*")),
    ("create", ("/pods/portforward", "default", "*")),
    ("get", ("/pods/log", "default", "*")),
    ("patch", ("/pods/ephemeralcontainers", "default", "*")),
    ("patch", ("/pods/resize", "default", "*")),
    ("get", ("/nodes/proxy", "*", "*")),
    ("create", ("/nodes/proxy", "*", "*")),
    ("delete", ("/nodes", "*", "*")),
    ("get", ("/secrets", "default", "*")),
    ("list", ("/secrets", "kube-system", "*")),
    ("get", ("/secrets", "cardgate-system", "other")),
    ("create", ("/serviceaccounts/token", "cardgate-system", "operator")),
    ("create", ("/serviceaccounts/token", "kube-system", "*")),
    ("impersonate", ("/users", "*", "*")),
    ("impersonate", ("/groups", "*", "*")),
    ("impersonate", ("/serviceaccounts", "*", "*")),
    ("escalate", ("rbac.authorization.k8s.io/clusterroles", "*", "*")),
    ("bind", ("rbac.authorization.k8s.io/clusterroles", "*", "*")),
    ("create", ("rbac.authorization.k8s.io/clusterrolebindings", "*", "*")),
    ("approve", ("certificates.k8s.io/signers", "*", "*")),
    (
        "create",
        ("admissionregistration.k8s.io/mutatingwebhookconfigurations", "*", "*"),
    ),
    ("create", ("apps/deployments", "default", "*")),
    ("create", ("batch/jobs", "default", "*")),
];

/// Every line of docs/rights.md is granted, and nobody has what is dangerous. The lines themselves are made of the roles, so a right
/// that no line tells can't be (`cargo manifests --check`), and a role that grants everything is none of Cardgate's.
#[tokio::test]
async fn what_is_written_is_granted_and_what_is_dangerous_is_not() -> Outcome {
    let reviewer = Reviewer::start().await?;
    let rights = rights::rights()?;
    let leaked = |text: &str| -> &'static str { text.to_owned().leak() };
    for right in rights.iter().filter(|right| right.is_in_base()) {
        let user = Account::new(NAMESPACE, &right.account).user();
        let names: Vec<_> = if right.names.is_empty() {
            vec!["*"]
        } else {
            right.names.iter().map(|name| leaked(name)).collect()
        };
        let namespace = leaked(right.namespace.as_deref().unwrap_or("*"));
        for (resource, name) in right
            .resources
            .iter()
            .flat_map(|resource| names.iter().map(move |name| (resource, *name)))
        {
            for verb in &right.verbs {
                ensure!(
                    *verb != "*" && !resource.contains('*'),
                    "{user} has all rights: {right:?}"
                );
                let may = reviewer.may(&user, verb, (leaked(resource), namespace, name)).await?;
                ensure!(
                    may,
                    "{user} may not {verb} {resource} {name} in {namespace}, which docs/rights.md says"
                );
            }
        }
    }
    for account in ["operator", "webhook"] {
        let user = Account::new(NAMESPACE, account).user();
        for (verb, target) in DANGEROUS {
            ensure!(
                !reviewer.may(&user, verb, target).await?,
                "{user} may {verb} {target:?}"
            );
        }
    }
    // A review that says no to everything would pass: the one who installs may.
    ensure!(reviewer.may_admin("create", ("/pods", "default", "*")).await?);
    Ok(())
}

#[tokio::test]
async fn service_accounts_have_the_rights_that_they_need_and_no_more() -> Outcome {
    let reviewer = Reviewer::start().await?;
    operator(&reviewer).await?;
    webhook(&reviewer).await?;
    people(&reviewer).await?;
    // Lists of one object by its name, as the programs ask for them: RBAC sees the name in the field selector.
    let one = |name: &str| ListParams::default().fields(&format!("metadata.name={name}"));
    let account = Account::new(NAMESPACE, "operator");
    let secrets: Api<Secret> = Api::namespaced(reviewer.plane.client_of_account(&account).await?, NAMESPACE);
    secrets.list(&one("cardgate-webhook-tls")).await?;
    assert!(secrets.list(&one("other")).await.is_err());
    assert!(secrets.list(&ListParams::default()).await.is_err());
    let account = Account::new(NAMESPACE, "webhook");
    let client: Client = reviewer.plane.client_of_account(&account).await?;
    let maps: Api<ConfigMap> = Api::namespaced(client, NAMESPACE);
    assert_eq!(maps.list(&one("cardgate-config")).await?.items.len(), 1);
    assert!(maps.list(&ListParams::default()).await.is_err());
    Ok(())
}

/// Where a webhook is reached by a Service, as it is installed: the operator changes the path of its own, and nothing else.
#[tokio::test]
async fn the_operator_changes_the_path_of_reviews_and_no_other_way_to_a_webhook() -> Outcome {
    let plane = Reviewer::start().await?.plane;
    let account = Account::new(NAMESPACE, "operator");
    let webhooks: Api<MutatingWebhookConfiguration> = Api::all(plane.client_of_account(&account).await?);
    let dry_run = PatchParams {
        dry_run: true,
        ..PatchParams::default()
    };
    // API servers put each policy in force in its own time.
    let renamed = json!([{ "op": "replace", "path": "/webhooks/0/name", "value": "another.card.volcano.sh" }]);
    let renamed = Patch::Json::<()>(serde_json::from_value(renamed)?);
    wait::eventually("the policy on webhooks to be in force", wait::PATIENCE, async || {
        let changed = webhooks.patch(CONFIGURATION, &dry_run, &renamed).await;
        Ok(Seen::when(changed.is_err(), "the operator may rename a webhook"))
    })
    .await?;
    let found = webhooks.get(CONFIGURATION).await?.webhooks.unwrap_or_default();
    for (place, webhook) in found.iter().enumerate() {
        for (field, value) in [
            ("path", json!("/another")),
            ("name", json!("another")),
            ("port", json!(444)),
        ] {
            let change = json!([
                { "op": "add", "path": format!("/webhooks/{place}/clientConfig/service/{field}"), "value": value },
            ]);
            let change = Patch::Json::<()>(serde_json::from_value(change)?);
            let changed = webhooks.patch(CONFIGURATION, &dry_run, &change).await;
            let may = field == "path" && webhook.name == WEBHOOK;
            ensure!(changed.is_ok() == may, "{field} of {}: {changed:?}", webhook.name);
        }
    }
    Ok(())
}

async fn operator(reviewer: &Reviewer) -> Outcome {
    let may = async |verbs: &[&str], target: Target| reviewer.assert_exactly("operator", verbs, target).await;
    may(&["get", "list", "watch", "patch"], ("/pods", "*", "*")).await?;
    may(&["patch"], ("/pods/status", "*", "*")).await?;
    may(&["create"], ("/pods/eviction", "*", "*")).await?;
    may(&["list"], ("policy/poddisruptionbudgets", "*", "*")).await?;
    may(&[], ("/pods/binding", "*", "*")).await?;
    may(&[], ("/pods/exec", "*", "*")).await?;
    may(&["list", "watch", "patch"], ("/nodes", "*", "*")).await?;
    may(&[], ("/nodes/status", "*", "*")).await?;
    may(&LIST, ("/namespaces", "*", "*")).await?;
    may(&LIST, ("scheduling.volcano.sh/queues", "*", "*")).await?;
    may(
        &["list", "watch", "patch"],
        ("scheduling.volcano.sh/podgroups", "*", "*"),
    )
    .await?;
    may(&[], ("scheduling.volcano.sh/podgroups/status", "*", "*")).await?;
    may(&[], ("scheduling.volcano.sh/queues/status", "*", "*")).await?;
    may(&["list", "watch", "patch"], ("batch/jobs", "*", "*")).await?;
    may(&[], ("batch/jobs/status", "*", "*")).await?;
    may(&[], ("/events", "*", "*")).await?;
    may(&["create", "patch"], ("events.k8s.io/events", "*", "*")).await?;
    let own = ["list", "watch", "create", "patch", "delete"];
    for kind in [
        "card.volcano.sh/cardinventories",
        "card.volcano.sh/cardtypes",
        "card.volcano.sh/cardusages",
    ] {
        may(&own, (kind, "*", "*")).await?;
    }
    may(&["patch"], ("card.volcano.sh/cardinventories/status", "*", "*")).await?;

    may(
        &["get", "create", "update"],
        ("coordination.k8s.io/leases", NAMESPACE, "operator"),
    )
    .await?;
    may(&["create"], ("coordination.k8s.io/leases", NAMESPACE, "other")).await?;
    may(&[], ("coordination.k8s.io/leases", "kube-system", "operator")).await?;
    let keep = ["get", "list", "watch", "create", "patch"];
    may(&keep, ("/secrets", NAMESPACE, "cardgate-ca")).await?;
    may(&keep, ("/secrets", NAMESPACE, "cardgate-webhook-tls")).await?;
    may(&keep, ("/secrets", NAMESPACE, "cardgate-review-tls")).await?;
    may(&["create"], ("/secrets", NAMESPACE, "other")).await?;
    may(&["create"], ("/secrets", NAMESPACE, "*")).await?;
    may(&[], ("/secrets", "default", "cardgate-ca")).await?;
    may(&LIST, ("/configmaps", NAMESPACE, "cardgate-config")).await?;
    may(&[], ("/configmaps", NAMESPACE, "other")).await?;
    let configurations = [
        "admissionregistration.k8s.io/mutatingwebhookconfigurations",
        "admissionregistration.k8s.io/validatingwebhookconfigurations",
    ];
    for kind in configurations {
        may(&["get", "list", "watch", "patch"], (kind, "*", "cardgate")).await?;
        may(&[], (kind, "*", "other")).await?;
    }
    may(
        &[],
        ("admissionregistration.k8s.io/validatingadmissionpolicies", "*", "*"),
    )
    .await?;
    may(&[], ("rbac.authorization.k8s.io/clusterroles", "*", "*")).await
}

async fn webhook(reviewer: &Reviewer) -> Outcome {
    let may = async |verbs: &[&str], target: Target| reviewer.assert_exactly("webhook", verbs, target).await;
    may(&READ, ("/namespaces", "*", "*")).await?;
    may(&READ, ("scheduling.volcano.sh/queues", "*", "*")).await?;
    may(&READ, ("scheduling.volcano.sh/podgroups", "*", "*")).await?;
    may(&LIST, ("card.volcano.sh/cardtypes", "*", "*")).await?;
    may(&[], ("card.volcano.sh/cardinventories", "*", "*")).await?;
    may(&["get"], ("card.volcano.sh/cardusages", "*", "*")).await?;
    may(&[], ("/pods", "*", "*")).await?;
    may(&[], ("/nodes", "*", "*")).await?;
    may(&[], ("/events", "*", "*")).await?;
    may(&[], ("/secrets", NAMESPACE, "cardgate-webhook-tls")).await?;
    may(&[], ("/secrets", "*", "*")).await?;
    may(&LIST, ("/configmaps", NAMESPACE, "cardgate-config")).await?;
    may(&[], ("/configmaps", NAMESPACE, "other")).await?;
    may(&[], ("coordination.k8s.io/leases", NAMESPACE, "operator")).await
}

/// Cluster-wide `view` and `edit`: the cards are for everybody to see and for the operator to write.
async fn people(reviewer: &Reviewer) -> Outcome {
    let kubectl = reviewer.plane.kubectl();
    for role in ["view", "edit"] {
        let (role_argument, user) = (format!("--clusterrole={role}"), format!("--user={role}er"));
        kubectl
            .run(["create", "clusterrolebinding", role, &role_argument, &user])
            .await?;
    }
    // A controller adds the rules to `view` and `edit` some time after they were written.
    for (user, verb, target) in [
        ("viewer", "get", ("card.volcano.sh/cardusages", "*", "*")),
        ("viewer", "get", ("scheduling.volcano.sh/queues", "*", "*")),
        ("editer", "get", ("scheduling.volcano.sh/queues", "*", "*")),
        ("editer", "create", ("scheduling.volcano.sh/podgroups", "default", "*")),
        ("viewer", "create", ("card.volcano.sh/cardreviews", "default", "*")),
        ("editer", "create", ("card.volcano.sh/cardreviews", "default", "*")),
    ] {
        wait::eventually(format!("{user} to {verb} {target:?}"), wait::PATIENCE, async || {
            Ok(Seen::when(reviewer.may(user, verb, target).await?, "denied"))
        })
        .await?;
    }
    for user in ["viewer", "editer"] {
        for kind in [
            "card.volcano.sh/cardinventories",
            "card.volcano.sh/cardtypes",
            "card.volcano.sh/cardusages",
        ] {
            reviewer.assert_user(user, &READ, (kind, "*", "*")).await?;
        }
        reviewer
            .assert_user(user, &READ, ("scheduling.volcano.sh/queues", "*", "*"))
            .await?;
    }
    reviewer
        .assert_user("viewer", &READ, ("scheduling.volcano.sh/podgroups", "default", "*"))
        .await?;
    reviewer
        .assert_user("editer", &VERBS, ("scheduling.volcano.sh/podgroups", "default", "*"))
        .await
}

/// Whoever asks without end, as hundreds of a namespace's service accounts, fills the lines of the level that all of those share: not those in
/// which Cardgate's programs wait.
#[tokio::test]
async fn what_programs_ask_is_taken_before_what_other_service_accounts_do() -> Outcome {
    let plane = Reviewer::start().await?.plane;
    let admin = plane.client().await?;
    let schemas: Api<FlowSchema> = Api::all(admin.clone());
    // An overlay brings the one, and a tenant the other.
    let accounts: Api<ServiceAccount> = Api::namespaced(admin, NAMESPACE);
    for name in ["scheduler", "somebody"] {
        let account = serde_json::from_value(json!({ "metadata": { "name": name } }))?;
        accounts.create(&PostParams::default(), &account).await?;
    }
    let (lease, pods) = (
        "/apis/coordination.k8s.io/v1/namespaces/cardgate-system/leases/operator",
        "/api/v1/pods?limit=1",
    );
    for (account, path, schema) in [
        ("operator", lease, "cardgate-leader-election"),
        ("operator", pods, "cardgate"),
        ("operator", "/version", "cardgate"),
        ("webhook", pods, "cardgate"),
        ("scheduler", pods, "cardgate"),
        ("somebody", pods, "service-accounts"),
    ] {
        let client = plane.client_of_account(&Account::new(NAMESPACE, account)).await?;
        let uid = schemas.get(schema).await?.uid();
        let what = format!("{account}'s {path} to be taken by {schema}");
        wait::eventually(what, wait::PATIENCE, async || {
            let answer = client.send(http::Request::get(path).body(Body::empty())?).await?;
            let by = answer.headers().get("x-kubernetes-pf-flowschema-uid");
            let by = by.and_then(|by| by.to_str().ok()).map(str::to_owned);
            Ok(Seen::when(by == uid, format!("{by:?}")))
        })
        .await?;
    }
    Ok(())
}
