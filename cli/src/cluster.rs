//! Questions to the API server, asked with the user's own rights.

use std::collections::BTreeMap;
use std::env;
use std::fmt::Debug;
use std::path::PathBuf;

use crds::card_inventory::CardInventory;
use crds::card_review::{CardReview, CardReviewStatus};
use crds::card_type::CardType;
use crds::card_usage::CardUsage;
use crds::keys::QUEUE_NAME;
use crds::volcano::{PodGroup, Queue};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta;
use kube::api::{ListParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::core::{ApiResource, DeserializeGuard, DynamicObject, GroupVersionKind, NamespaceResourceScope, Request};
use kube::{Api, Client, Config, Resource};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::arguments::Connection;
use crate::failure::{EVERYBODY, Failure, VIEW, lacks_right, words};

/// Objects on one page: for pods, some megabytes.
const PAGE: u32 = 500;

/// One page of a list. Each object is kept as text, so that one that can't be read does not keep the others from being read.
#[derive(Deserialize)]
struct Page {
    metadata: ListMeta,
    items: Vec<Box<RawValue>>,
}

/// The cluster, and the namespace that is meant.
pub struct Cluster {
    client: Client,
    /// The namespace that is meant.
    pub namespace: String,
    /// The options with which another command asks the same cluster as the same user.
    pub options: Vec<String>,
}

impl Cluster {
    /// Prepares to ask. Nothing is sent yet.
    pub async fn connect(connection: &Connection) -> Result<Self, Failure> {
        // An error means that a provider is installed already; any provider will do.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let unusable = |error: &dyn std::error::Error| Failure::Kubeconfig(error.to_string());
        let file = match &connection.kubeconfig {
            Some(path) => Some(Kubeconfig::read_from(path).map_err(|error| unusable(&error))?),
            None => found_kubeconfig(connection.context.is_some()).map_err(|error| unusable(&error))?,
        };
        let options = KubeConfigOptions {
            context: connection.context.clone(),
            ..KubeConfigOptions::default()
        };
        let mut config = match file {
            Some(file) => Config::from_custom_kubeconfig(file, &options)
                .await
                .map_err(|error| unusable(&error))?,
            // Asks with the pod's own service account.
            None => Config::incluster().map_err(|error| unusable(&error))?,
        };
        let namespace = connection
            .namespace
            .clone()
            .unwrap_or_else(|| config.default_namespace.clone());
        // This works even if the context names no user, as with a proxy to the API servers.
        if let Some(user) = &connection.user {
            config.auth_info.impersonate = Some(user.clone());
            config.auth_info.impersonate_groups = Some(connection.groups.clone()).filter(|groups| !groups.is_empty());
        }
        let client = programs::client_as_configured(config).map_err(|error| unusable(&error))?;
        Ok(Self {
            client,
            namespace,
            options: connection.options(),
        })
    }

    /// The client, for other kinds of questions.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// Checks that the API server answers at all.
    pub async fn check_reachable(&self) -> Result<(), Failure> {
        let version = self.client.apiserver_version().await;
        version
            .map(drop)
            .map_err(|error| Failure::of_anything("the API server's version", &error))
    }

    /// Returns all cards, by name.
    pub async fn card_types(&self) -> Result<Vec<CardType>, Failure> {
        let mut types: Vec<CardType> = self.list("cardtypes", EVERYBODY).await?;
        types.sort_by(|a, b| a.spec.card_name.cmp(&b.spec.card_name));
        Ok(types)
    }

    /// Returns all queues, by name.
    pub async fn queues(&self) -> Result<Vec<Queue>, Failure> {
        self.list("queues", EVERYBODY).await
    }

    /// Returns what queues have and wait for, by the queue's name.
    pub async fn usages_of_queues(&self) -> Result<Vec<CardUsage>, Failure> {
        Ok(of_queues(self.list("cardusages", VIEW).await?))
    }

    /// Returns the cards of each node, by the node's name.
    pub async fn inventories(&self) -> Result<Vec<CardInventory>, Failure> {
        let mut inventories: Vec<CardInventory> = self.list("cardinventories", VIEW).await?;
        inventories.sort_by(|a, b| a.spec.node_name.cmp(&b.spec.node_name));
        Ok(inventories)
    }

    /// Returns the queue that the namespace names for pods that name none. The error says why the queue is not known.
    pub async fn queue_of_namespace(&self) -> Result<Option<String>, String> {
        let name = &self.namespace;
        let namespace = self.get_if_seen::<Namespace>(None, name).await;
        let namespace =
            namespace.map_err(|error| format!("which queue namespace {name} names is not known: {error}"))?;
        let namespace = namespace.ok_or_else(|| format!("there is no namespace {name}"))?;
        let named = namespace.metadata.annotations.unwrap_or_default().remove(QUEUE_NAME);
        Ok(named.filter(|queue| !queue.is_empty()))
    }

    /// Returns all objects of a kind, as they are.
    pub async fn everything(
        &self,
        group: &str,
        version: &str,
        kind: &str,
        plural: &str,
    ) -> Result<Vec<Value>, kube::Error> {
        self.everything_in(None, group, version, kind, plural).await
    }

    /// Returns all objects of a kind, in one namespace or in all, as they are but without their managed fields. Leaves out
    /// objects that can't be read.
    pub async fn everything_in(
        &self,
        namespace: Option<&str>,
        group: &str,
        version: &str,
        kind: &str,
        plural: &str,
    ) -> Result<Vec<Value>, kube::Error> {
        let resource = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural);
        let path = DynamicObject::url_path(&resource, namespace);
        let read = |text: &RawValue| {
            let mut object = without_managed_fields(text).ok()?;
            object["apiVersion"] = resource.api_version.as_str().into();
            object["kind"] = kind.into();
            Some(object)
        };
        self.items(path, &ListParams::default(), read).await
    }

    /// Lists objects page by page, and returns what `read` makes of the text of each. Objects of which it makes nothing are left
    /// out. The texts are dropped page by page: pods may have megabytes of annotations that no question is about.
    async fn items<T>(
        &self,
        path: String,
        params: &ListParams,
        read: impl Fn(&RawValue) -> Option<T>,
    ) -> Result<Vec<T>, kube::Error> {
        let (requests, mut params) = (Request::new(path), params.clone().limit(PAGE));
        let mut items = Vec::new();
        loop {
            let request = requests.list(&params).map_err(kube::Error::BuildRequest)?;
            let page: Page = self.client.request(request).await?;
            items.extend(page.items.iter().filter_map(|text| read(text)));
            match page.metadata.continue_ {
                Some(token) if !token.is_empty() => params.continue_token = Some(token),
                _ => return Ok(items),
            }
        }
    }

    /// Returns all objects of a kind that can be read, in one namespace or in all. Unreadable objects do not concern this
    /// question.
    pub async fn list_in<K>(&self, namespace: Option<&str>, what: &'static str) -> Result<Vec<K>, Failure>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned + 'static,
    {
        self.list_some(namespace, what, &ListParams::default()).await
    }

    /// Returns the readable objects that the parameters select. Tenants write metadata that no reader understands.
    pub async fn list_some<K>(
        &self,
        namespace: Option<&str>,
        what: &'static str,
        params: &ListParams,
    ) -> Result<Vec<K>, Failure>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned + 'static,
    {
        let read = |text: &RawValue| serde_json::from_str(text.get()).ok();
        let items = self.items(K::url_path(&(), namespace), params, read).await;
        items.map_err(|error| Failure::of_list_in(what, namespace, &error))
    }

    /// Returns an object, if it exists. The error says that the user may not see it.
    pub async fn get_if_seen<K>(&self, namespace: Option<&str>, name: &str) -> Result<Option<K>, String>
    where
        K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + 'static,
    {
        let resource = ApiResource::erase::<K>(&());
        let api: Api<DynamicObject> = match namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &resource),
            None => Api::all_with(self.client.clone(), &resource),
        };
        let found = api.get_opt(name).await.map_err(|error| match error {
            error if lacks_right(&error) => format!("you may not get {}", resource.plural),
            error => words(&error),
        })?;
        found
            .map(DynamicObject::try_parse)
            .transpose()
            .map_err(|error| error.to_string())
    }

    /// Returns the groups of a namespace; none if the kind is not installed.
    pub async fn groups(&self, namespace: &str) -> Result<Vec<PodGroup>, kube::Error> {
        let (group, kind, plural) = ("scheduling.volcano.sh", "PodGroup", "podgroups");
        let groups = self
            .everything_in(Some(namespace), group, "v1beta1", kind, plural)
            .await?;
        let groups = groups.into_iter();
        Ok(groups.filter_map(|group| serde_json::from_value(group).ok()).collect())
    }

    /// Returns the answer to a question about what waits. The question is not stored.
    pub async fn review(&self, namespace: &str, review: &CardReview) -> Result<CardReviewStatus, Failure> {
        let api: Api<CardReview> = Api::namespaced(self.client.clone(), namespace);
        let params = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        let answered = api.create(&params, review).await;
        let answered = answered.map_err(|error| Failure::of_review(namespace, &error))?;
        answered
            .status
            .ok_or_else(|| Failure::NobodyAnswers("the webhook reviews.card.volcano.sh was not called".to_owned()))
    }

    /// Returns all objects of a kind that can be read. An unreadable one is no reason to show none.
    async fn list<K>(&self, what: &'static str, role: &'static str) -> Result<Vec<K>, Failure>
    where
        K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + 'static,
    {
        let api: Api<DeserializeGuard<K>> = Api::all(self.client.clone());
        let listed = api.list(&ListParams::default()).await;
        let listed = listed.map_err(|error| Failure::of_list(what, role, &error))?;
        Ok(listed.items.into_iter().filter_map(|object| object.0.ok()).collect())
    }
}

/// Returns the usages of queues, by the queue's name. The object for what no queue is charged for names no queue.
pub fn of_queues(mut usages: Vec<CardUsage>) -> Vec<CardUsage> {
    usages.retain(|usage| !usage.spec.queue.is_empty());
    usages.sort_by(|a, b| a.spec.queue.cmp(&b.spec.queue));
    usages
}

/// Returns an object without its managed fields. Tenants nest these as deep as they like, so they can't always be parsed
/// into a tree.
fn without_managed_fields(text: &RawValue) -> serde_json::Result<Value> {
    let object: BTreeMap<String, &RawValue> = serde_json::from_str(text.get())?;
    let read = |(key, text): (String, &RawValue)| -> serde_json::Result<_> {
        if key != "metadata" {
            return Ok((key, serde_json::from_str(text.get())?));
        }
        let fields: BTreeMap<String, &RawValue> = serde_json::from_str(text.get())?;
        let fields = fields.into_iter().filter(|(field, _)| field != "managedFields");
        let fields = fields.map(|(field, text)| Ok((field, serde_json::from_str(text.get())?)));
        Ok((key, Value::Object(fields.collect::<serde_json::Result<_>>()?)))
    };
    let parts = object.into_iter().map(read);
    parts.collect::<serde_json::Result<_>>().map(Value::Object)
}

/// Reads the existing files that `KUBECONFIG` names, or the file in the home directory, as kubectl does. Returns `None` in a
/// pod that has none of them.
fn found_kubeconfig(names_context: bool) -> Result<Option<Kubeconfig>, KubeconfigError> {
    let named = env::var_os("KUBECONFIG").unwrap_or_default();
    let named: Vec<_> = env::split_paths(&named).filter(|path| path.exists()).collect();
    if !named.is_empty() {
        return merged(&named).map(Some);
    }
    let own = env::home_dir().map(|home| home.join(".kube").join("config"));
    let is_there = own.is_some_and(|own| own.exists());
    // A context can come only from a file.
    if !is_there && !names_context && env::var_os("KUBERNETES_SERVICE_HOST").is_some() {
        return Ok(None);
    }
    Kubeconfig::read().map(Some)
}

/// Merges the contents of these files. If several files define the same thing, the first counts.
fn merged(paths: &[PathBuf]) -> Result<Kubeconfig, KubeconfigError> {
    let mut merged = Kubeconfig::default();
    for path in paths {
        merged = merged.merge(Kubeconfig::read_from(path)?)?;
    }
    Ok(merged)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_that_are_nested_deeper_than_a_reader_goes_are_left_out() {
        let deep = format!("{}1{}", "{\"f:a\":".repeat(200), "}".repeat(200));
        let text = format!(
            r#"{{"metadata": {{"managedFields": [{deep}], "name": "p", "labels": {{"a": "b"}}}}, "spec": {{"x": 1}}}}"#
        );
        assert!(serde_json::from_str::<Value>(&text).is_err());
        let read = without_managed_fields(&RawValue::from_string(text).unwrap()).unwrap();
        assert_eq!(
            read,
            serde_json::json!({"metadata": {"name": "p", "labels": {"a": "b"}}, "spec": {"x": 1}})
        );
    }
}
