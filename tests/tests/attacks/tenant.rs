//! The attacker: a user who may edit what is in one namespace, and nothing else.

use std::fmt::Debug;

use anyhow::{Context as _, Result, bail};
use cardgate_tests::controlplane::{ControlPlane, Kubectl};
use http::Request;
use http::header::CONTENT_TYPE;
use http_body_util::BodyExt as _;
use k8s_openapi::NamespaceResourceScope;
use kube::api::{Patch, PatchParams, PostParams};
use kube::client::Body;
use kube::{Api, Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// A user with the role `edit` in a namespace, with credentials of their own.
pub struct Tenant {
    namespace: String,
    client: Client,
    kubectl: Kubectl,
}

impl Tenant {
    /// The tenant of an existing namespace.
    pub async fn of(plane: &ControlPlane, namespace: &str) -> Result<Self> {
        let user = format!("tenant-{namespace}");
        plane.grant(&user, "edit", namespace).await?;
        Ok(Self {
            namespace: namespace.to_owned(),
            client: plane.client_of_user(&user).await?,
            kubectl: plane.kubectl_of_user(&user),
        })
    }

    /// Objects of one kind in the tenant's namespace.
    pub fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// kubectl as the tenant.
    pub fn kubectl(&self) -> &Kubectl {
        &self.kubectl
    }

    /// Creates an object, as is allowed.
    pub async fn create<K>(&self, object: &K) -> Result<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned + Serialize,
    {
        let created = self.api::<K>().create(&PostParams::default(), object).await;
        created.with_context(|| format!("cannot create {} {:?}", K::kind(&()), object.meta().name))
    }

    /// Creates what these bytes are, as is allowed; what the API server answers.
    pub async fn post(&self, path: &str, object: Vec<u8>) -> Result<Vec<u8>> {
        let request = Request::post(format!("/{path}")).header(CONTENT_TYPE, "application/json");
        let answer = self.client.send(request.body(Body::from(object))?).await?;
        let (status, body) = (answer.status(), answer.into_body().collect().await?.to_bytes());
        if !status.is_success() {
            bail!("{status}: {}", String::from_utf8_lossy(&body));
        }
        Ok(body.to_vec())
    }

    /// Tries to create an object, and has to be refused in words that hold this.
    pub async fn is_refused<K>(&self, object: &K, says: &str) -> Result<()>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned + Serialize,
    {
        expect_refusal(self.api::<K>().create(&PostParams::default(), object).await, says)
    }

    /// Tries a merge patch, and has to be refused in words that hold this.
    pub async fn may_not_change<K>(&self, name: &str, patch: Value, says: &str) -> Result<()>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
    {
        let api = self.api::<K>();
        expect_refusal(
            api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await,
            says,
        )
    }
}

/// That a request was refused, by the rule whose message holds these words and not by something else.
pub fn expect_refusal<T: Debug>(answer: kube::Result<T>, says: &str) -> Result<()> {
    match answer {
        Err(kube::Error::Api(status)) if status.message.contains(says) => Ok(()),
        Err(kube::Error::Api(status)) => bail!("refused, but not for {says:?}: {}", status.message),
        Err(error) => Err(error).context("no answer"),
        Ok(done) => bail!("done, though it should be refused with {says:?}: {done:?}"),
    }
}
