//! Creating what tests need, and reading what the control plane recorded.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::{Namespace, Node, ServiceAccount};
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::discovery::{ApiResource, Scope, pinned_kind};
use kube::runtime::watcher;
use kube::{Api, ResourceExt};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{ControlPlane, components, identities};
use crate::nodes::NodeSpec;
use crate::wait::{self, Seen};

/// Who the harness is in managed fields.
const FIELD_MANAGER: &str = "cardgate-tests";

/// A request that the API server answered: a write, where nothing else was asked to be recorded.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Write {
    /// Such as `create` or `patch`.
    pub verb: String,
    user: Writer,
    impersonated_user: Option<Writer>,
    /// What was written; absent for requests outside resources.
    pub object_ref: Option<Target>,
    /// The answer.
    pub response_status: Answer,
    /// When the answer was given, RFC 3339 with microseconds.
    pub stage_timestamp: String,
    /// When it was asked, in the same form.
    #[serde(default)]
    pub request_received_timestamp: String,
    #[serde(default)]
    response_object: Made,
}

/// What a write made, where that is recorded.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct Made {
    metadata: Versioned,
    spec: Held,
}

/// What a Lease says of who holds it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Held {
    holder_identity: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Versioned {
    resource_version: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct Writer {
    username: String,
    #[serde(default)]
    extra: BTreeMap<String, Vec<String>>,
}

impl Write {
    /// Who wrote, such as `system:serviceaccount:cardgate-system:operator`.
    pub fn user(&self) -> &str {
        &self.impersonated_user.as_ref().unwrap_or(&self.user).username
    }

    /// With which of the account's tokens.
    pub fn credential(&self) -> Option<&str> {
        self.user.extra.get(identities::CREDENTIAL)?.first().map(String::as_str)
    }

    /// The version that it made, of a control plane that was started with [`super::Options::audit_versions`]. Evictions make
    /// none of their own.
    pub fn version(&self) -> Option<u64> {
        self.response_object.metadata.resource_version.parse().ok()
    }

    /// Who holds the Lease that it made, of the same control plane.
    pub fn holder(&self) -> Option<&str> {
        self.response_object.spec.holder_identity.as_deref()
    }
}

/// What was written.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Target {
    /// The group, such as `batch`; empty for the core.
    pub api_group: String,
    /// The plural, such as `pods`.
    pub resource: String,
    /// Such as `status`, or empty.
    pub subresource: String,
    /// Empty for cluster-scoped objects.
    pub namespace: String,
    /// Empty where the API server chose the name.
    pub name: String,
}

/// The answer to a write.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Answer {
    /// The HTTP status code.
    pub code: u16,
}

impl ControlPlane {
    /// Applies an object of any kind as the administrator (server-side apply) and returns it as it is then.
    pub async fn apply(&self, object: &Value) -> Result<DynamicObject> {
        let wanted: DynamicObject = serde_json::from_value(object.clone()).context("not a Kubernetes object")?;
        let types = wanted.types.as_ref().context("the object has no apiVersion and kind")?;
        let name = wanted.metadata.name.as_deref().context("the object has no name")?;
        let client = self.client().await?;
        let kind = GroupVersionKind::try_from(types)?;
        let (resource, capabilities): (ApiResource, _) = pinned_kind(&client, &kind)
            .await
            .with_context(|| format!("{} is unknown to the API server", types.kind))?;
        let api: Api<DynamicObject> = match (capabilities.scope, wanted.metadata.namespace.as_deref()) {
            (Scope::Cluster, _) => Api::all_with(client, &resource),
            (Scope::Namespaced, namespace) => Api::namespaced_with(client, namespace.unwrap_or("default"), &resource),
        };
        api.patch(name, &PatchParams::apply(FIELD_MANAGER).force(), &Patch::Apply(object))
            .await
            .with_context(|| format!("cannot apply {} {name}", types.kind))
    }

    /// Creates a namespace and waits until pods can be created in it.
    pub async fn create_namespace(
        &self,
        name: &str,
        labels: &[(&str, &str)],
        annotations: &[(&str, &str)],
    ) -> Result<()> {
        let client = self.client().await?;
        let mut namespace = Namespace::default();
        namespace.metadata.name = Some(name.to_owned());
        namespace.labels_mut().extend(
            labels
                .iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned())),
        );
        namespace.annotations_mut().extend(
            annotations
                .iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned())),
        );
        Api::all(client.clone())
            .create(&PostParams::default(), &namespace)
            .await
            .with_context(|| format!("cannot create the namespace {name}"))?;
        let accounts: Api<ServiceAccount> = Api::namespaced(client, name);
        wait::object(&accounts, "default", "existence", |account| {
            Seen::when(account.is_some(), "none")
        })
        .await
    }

    /// Creates nodes and waits until all of them are Ready and take pods.
    pub async fn create_nodes(&self, specs: &[NodeSpec]) -> Result<()> {
        let api: Api<Node> = Api::all(self.client().await?);
        let parameters = PostParams::default();
        let creations = specs.iter().map(|spec| {
            let (api, parameters) = (&api, &parameters);
            async move {
                let created = api.create(parameters, &spec.to_node()).await;
                created.with_context(|| format!("cannot create the node {}", spec.name()))
            }
        });
        // Enough at once to be fast with hundreds of nodes, few enough for the API server's own limits.
        futures::TryStreamExt::try_collect::<Vec<_>>(futures::StreamExt::buffer_unordered(
            futures::stream::iter(creations),
            32,
        ))
        .await?;
        self.await_nodes(specs).await
    }

    /// Waits until the nodes are Ready and have no taints but their own.
    pub async fn await_nodes(&self, specs: &[NodeSpec]) -> Result<()> {
        let api: Api<Node> = Api::all(self.client().await?);
        wait::objects(&api, watcher::Config::default(), "all nodes to be Ready", |nodes| {
            let found: HashMap<&str, &Node> = nodes
                .iter()
                .filter_map(|node| Some((node.metadata.name.as_deref()?, *node)))
                .collect();
            let unready: Vec<&str> = specs
                .iter()
                .filter(|spec| !found.get(spec.name()).is_some_and(|node| spec.is_ready(node)))
                .map(NodeSpec::name)
                .collect();
            Seen::when(unready.is_empty(), format!("not Ready: {}", unready.join(", ")))
        })
        .await
    }

    /// Changes what a node has to give, as its kubelet would when a device plugin registers or goes. `None` takes a
    /// resource away.
    pub async fn set_allocatable(&self, node: &str, quantities: &[(&str, Option<&str>)]) -> Result<()> {
        let api: Api<Node> = Api::all(self.client().await?);
        let resources: Value = quantities
            .iter()
            .map(|(name, quantity)| ((*name).to_owned(), json!(quantity)))
            .collect();
        let patch = json!({ "status": { "allocatable": resources, "capacity": resources } });
        api.patch_status(node, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .with_context(|| format!("cannot change the allocatable of the node {node}"))?;
        Ok(())
    }

    /// All writes so far, of a control plane that was started with [`super::Options::audit`].
    pub fn audit_log(&self) -> Result<Vec<Write>> {
        Ok(self.audit_log_from(0)?.0)
    }

    /// The same from a place in the log on, with the place where it ends now. The log begins at 0.
    pub fn audit_log_from(&self, place: u64) -> Result<(Vec<Write>, u64)> {
        let path = components::audit_log(&self.dir);
        let mut file = File::open(&path).with_context(|| {
            format!(
                "cannot read {}: was the control plane started with `audit`?",
                path.display()
            )
        })?;
        file.seek(SeekFrom::Start(place))?;
        let mut lines = Vec::new();
        file.read_to_end(&mut lines)?;
        // The last line may be half written.
        let complete = lines.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let writes = lines[..complete]
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
            .map(|line| serde_json::from_slice(line).context("the audit log has a line that is no event"))
            .collect::<Result<_>>()?;
        Ok((writes, place + u64::try_from(complete)?))
    }
}
