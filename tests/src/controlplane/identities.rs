//! Speaking as others: service accounts by their own tokens, users by impersonation.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result};
use k8s_openapi::api::authentication::v1::{BoundObjectReference, SelfSubjectReview, TokenRequest, TokenRequestSpec};
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule};
use kube::api::PostParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use serde_json::json;

use super::kubeconfig::Credentials;
use super::{ControlPlane, Kubectl};
use crate::wait::{self, Seen};

/// Longer than any test or demo.
const TOKEN_SECONDS: i64 = 24 * 60 * 60;

/// Where the API server says which token somebody has.
pub(super) const CREDENTIAL: &str = "authentication.kubernetes.io/credential-id";

/// A service account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl Account {
    /// The service account of that name.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    /// The name under which the API server knows it.
    pub fn user(&self) -> String {
        format!("system:serviceaccount:{}:{}", self.namespace, self.name)
    }
}

impl ControlPlane {
    /// A token of the service account; as a kubelet gets it for a pod, where one is named.
    async fn account_credentials(&self, account: &Account, pod: Option<&str>) -> Result<Credentials> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client().await?, &account.namespace);
        let bound = match pod {
            Some(pod) => Some(self.stand_in(account, pod).await?),
            None => None,
        };
        let request = TokenRequest {
            spec: TokenRequestSpec {
                expiration_seconds: Some(TOKEN_SECONDS),
                bound_object_ref: bound,
                ..TokenRequestSpec::default()
            },
            ..TokenRequest::default()
        };
        let answer = accounts
            .create_token_request(&account.name, &PostParams::default(), &request)
            .await
            .with_context(|| format!("no token for {}", account.user()))?;
        let token = answer
            .status
            .with_context(|| format!("an empty token for {}", account.user()))?
            .token;
        Ok(Credentials {
            token,
            impersonate: None,
        })
    }

    /// The pod that stands for a process that runs under this account: it never runs, and gives its tokens a name.
    async fn stand_in(&self, account: &Account, name: &str) -> Result<BoundObjectReference> {
        let pod = json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "namespace": account.namespace,
                "labels": { "app.kubernetes.io/component": account.name },
            },
            "spec": {
                "serviceAccountName": account.name,
                "schedulingGates": [{ "name": "example.com/stand-in" }],
                "securityContext": { "runAsNonRoot": true, "seccompProfile": { "type": "RuntimeDefault" } },
                "containers": [{
                    "name": "main",
                    "image": "stand-in",
                    "securityContext": { "allowPrivilegeEscalation": false, "capabilities": { "drop": ["ALL"] } },
                }],
            },
        });
        let pod = self.apply(&pod).await?;
        Ok(BoundObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Pod".to_owned()),
            name: pod.metadata.name,
            uid: pod.metadata.uid,
        })
    }

    /// A client with the service account's own token.
    pub async fn client_of_account(&self, account: &Account) -> Result<Client> {
        self.endpoint
            .client(&self.account_credentials(account, None).await?)
            .await
    }

    /// A client with the token that a pod of this name has, which runs under the service account. The pod is made where there is
    /// none.
    pub async fn client_of_pod(&self, account: &Account, pod: &str) -> Result<Client> {
        self.endpoint
            .client(&self.account_credentials(account, Some(pod)).await?)
            .await
    }

    /// A kubeconfig file with a token of the service account, another one each time: the audit log tells them apart.
    pub async fn kubeconfig_of_account(&self, account: &Account) -> Result<PathBuf> {
        self.kubeconfig_of(account, None).await
    }

    /// The same with the token that a pod of this name has: see [`ControlPlane::client_of_pod`].
    pub async fn kubeconfig_of_pod(&self, account: &Account, pod: &str) -> Result<PathBuf> {
        self.kubeconfig_of(account, Some(pod)).await
    }

    async fn kubeconfig_of(&self, account: &Account, pod: Option<&str>) -> Result<PathBuf> {
        static FILES: AtomicUsize = AtomicUsize::new(0);
        let number = FILES.fetch_add(1, Ordering::Relaxed);
        let path = self
            .dir
            .join(format!("{}.{}.{number}.kubeconfig", account.namespace, account.name));
        self.endpoint
            .write_kubeconfig(&self.account_credentials(account, pod).await?, &path)?;
        Ok(path)
    }

    /// How the audit log calls the token of this kubeconfig file; see [`super::Write::credential`].
    pub async fn credential_of(&self, kubeconfig: &Path) -> Result<String> {
        let file = Kubeconfig::read_from(kubeconfig)?;
        let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?;
        let reviews: Api<SelfSubjectReview> = Api::all(Client::try_from(config)?);
        let review = reviews
            .create(&PostParams::default(), &SelfSubjectReview::default())
            .await?;
        let user = review.status.and_then(|status| status.user_info);
        let extra = user.and_then(|user| user.extra).unwrap_or_default();
        let credential = extra.get(CREDENTIAL).and_then(|values| values.first());
        credential.cloned().context("the API server names no credential")
    }

    /// A client of the user, who has the rights that [`ControlPlane::grant`] gave.
    pub async fn client_of_user(&self, user: &str) -> Result<Client> {
        self.endpoint
            .client(&Credentials {
                impersonate: Some(user.to_owned()),
                ..self.admin.clone()
            })
            .await
    }

    /// kubectl as the user, who has the rights that [`ControlPlane::grant`] gave.
    pub fn kubectl_of_user(&self, user: &str) -> Kubectl {
        self.kubectl.as_user(user)
    }

    /// Gives the user a cluster role, such as `edit`, in a namespace, and waits until the API server knows.
    pub async fn grant(&self, user: &str, cluster_role: &str, namespace: &str) -> Result<()> {
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": { "name": format!("{user}-{cluster_role}"), "namespace": namespace },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": cluster_role },
            "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user }],
        });
        self.apply(&binding).await?;
        self.await_rights(user, cluster_role, Some(namespace)).await
    }

    /// Waits until the API server lets the user (see also [`Account::user`]) do what the cluster role is for, in a namespace or
    /// everywhere: it learns of roles and their bindings by watches of its own.
    pub async fn await_rights(&self, user: &str, cluster_role: &str, namespace: Option<&str>) -> Result<()> {
        let client = self.client().await?;
        let roles: Api<ClusterRole> = Api::all(client.clone());
        let reviews: Api<SubjectAccessReview> = Api::all(client);
        let what = format!("{user} to have the rights of {cluster_role}");
        wait::eventually(what, wait::PATIENCE, async || {
            // Some roles are made of others, by a controller.
            let granted = roles.get(cluster_role).await?.rules.unwrap_or_default();
            let Some(right) = granted.iter().find_map(first_right) else {
                return Ok(Seen::NotYet("the role allows nothing".to_owned()));
            };
            let right = ResourceAttributes {
                namespace: namespace.map(str::to_owned),
                ..right
            };
            let review = SubjectAccessReview {
                spec: SubjectAccessReviewSpec {
                    user: Some(user.to_owned()),
                    resource_attributes: Some(right.clone()),
                    ..SubjectAccessReviewSpec::default()
                },
                ..SubjectAccessReview::default()
            };
            let answer = reviews.create(&PostParams::default(), &review).await?;
            let is_allowed = answer.status.is_some_and(|status| status.allowed);
            Ok(Seen::when(is_allowed, format!("no right to {right:?}")))
        })
        .await
    }
}

/// The first thing that a rule allows on objects.
fn first_right(rule: &PolicyRule) -> Option<ResourceAttributes> {
    let resource = rule.resources.as_ref()?.first()?;
    let (resource, subresource) = match resource.split_once('/') {
        Some((resource, subresource)) => (resource, Some(subresource)),
        None => (resource.as_str(), None),
    };
    let name = rule.resource_names.as_ref().and_then(|names| names.first());
    Some(ResourceAttributes {
        group: rule.api_groups.as_ref()?.first().cloned(),
        resource: Some(resource.to_owned()),
        subresource: subresource.map(str::to_owned),
        name: name.cloned(),
        verb: rule.verbs.first().cloned(),
        ..ResourceAttributes::default()
    })
}
