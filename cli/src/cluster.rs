//! Asking the API server, with the user's own rights.

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

/// Objects of one page: some megabytes of pods.
const PAGE: u32 = 500;

/// One page of a list: each object as its text, since one that can't be read is no reason to read none.
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
    /// The options by which another command asks the same cluster, as the same user.
    pub options: Vec<String>,
}

impl Cluster {
    /// Prepares to ask: nothing is sent yet.
    pub async fn connect(connection: &Connection) -> Result<Self, Failure> {
        // An error means that there is a provider already, and any does.
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
            // As in a pod that asks with its own service account.
            None => Config::incluster().map_err(|error| unusable(&error))?,
        };
        let namespace = connection
            .namespace
            .clone()
            .unwrap_or_else(|| config.default_namespace.clone());
        // Also where the context names no user, as one that reaches API servers by a proxy.
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

    /// For what is asked in other words.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// Whether anybody answers at all.
    pub async fn is_there(&self) -> Result<(), Failure> {
        let version = self.client.apiserver_version().await;
        version
            .map(drop)
            .map_err(|error| Failure::of_anything("the API server's version", &error))
    }

    /// The cards that there are, by name.
    pub async fn card_types(&self) -> Result<Vec<CardType>, Failure> {
        let mut types: Vec<CardType> = self.list("cardtypes", EVERYBODY).await?;
        types.sort_by(|a, b| a.spec.card_name.cmp(&b.spec.card_name));
        Ok(types)
    }

    /// The queues that there are, by name.
    pub async fn queues(&self) -> Result<Vec<Queue>, Failure> {
        self.list("queues", EVERYBODY).await
    }

    /// What queues have and wait for, by the queue's name.
    pub async fn usages(&self) -> Result<Vec<CardUsage>, Failure> {
        let mut usages: Vec<CardUsage> = self.list("cardusages", VIEW).await?;
        usages.sort_by(|a, b| a.spec.queue.cmp(&b.spec.queue));
        Ok(usages)
    }

    /// The cards of each node, by the node's name.
    pub async fn inventories(&self) -> Result<Vec<CardInventory>, Failure> {
        let mut inventories: Vec<CardInventory> = self.list("cardinventories", VIEW).await?;
        inventories.sort_by(|a, b| a.spec.node_name.cmp(&b.spec.node_name));
        Ok(inventories)
    }

    /// The queue that the namespace names for pods that name none; in words why that is not known, where it is not.
    pub async fn queue_of_namespace(&self) -> Result<Option<String>, String> {
        let name = &self.namespace;
        let namespace = self.get_if_seen::<Namespace>(None, name).await;
        let namespace =
            namespace.map_err(|error| format!("which queue namespace {name} names is not known: {error}"))?;
        let namespace = namespace.ok_or_else(|| format!("there is no namespace {name}"))?;
        let named = namespace.metadata.annotations.unwrap_or_default().remove(QUEUE_NAME);
        Ok(named.filter(|queue| !queue.is_empty()))
    }

    /// All objects of a kind, as they are.
    pub async fn everything(
        &self,
        group: &str,
        version: &str,
        kind: &str,
        plural: &str,
    ) -> Result<Vec<Value>, kube::Error> {
        self.everything_in(None, group, version, kind, plural).await
    }

    /// All objects of a kind, of one namespace or of all, as they are.
    pub async fn everything_in(
        &self,
        namespace: Option<&str>,
        group: &str,
        version: &str,
        kind: &str,
        plural: &str,
    ) -> Result<Vec<Value>, kube::Error> {
        let resource = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural);
        let api: Api<DynamicObject> = match namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &resource),
            None => Api::all_with(self.client.clone(), &resource),
        };
        let (mut objects, mut params) = (Vec::new(), ListParams::default().limit(PAGE));
        loop {
            let page = api.list(&params).await?;
            for object in page.items {
                let mut object = serde_json::to_value(object).map_err(kube::Error::SerdeError)?;
                object["apiVersion"] = resource.api_version.as_str().into();
                object["kind"] = kind.into();
                objects.push(object);
            }
            match page.metadata.continue_ {
                Some(token) if !token.is_empty() => params.continue_token = Some(token),
                _ => return Ok(objects),
            }
        }
    }

    /// All objects of a kind in a namespace, or in all, that can be read: one that can't is others' business.
    pub async fn list_in<K>(&self, namespace: Option<&str>, what: &'static str) -> Result<Vec<K>, Failure>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned + 'static,
    {
        self.list_some(namespace, what, &ListParams::default()).await
    }

    /// Those of them that the parameters select, but for those that can't be read: tenants write metadata that no reader understands.
    pub async fn list_some<K>(
        &self,
        namespace: Option<&str>,
        what: &'static str,
        params: &ListParams,
    ) -> Result<Vec<K>, Failure>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned + 'static,
    {
        let (mut objects, mut params) = (Vec::new(), params.clone().limit(PAGE));
        loop {
            let request = Request::new(K::url_path(&(), namespace)).list(&params);
            let page = async {
                self.client
                    .request::<Page>(request.map_err(kube::Error::BuildRequest)?)
                    .await
            };
            let page = page
                .await
                .map_err(|error| Failure::of_list_in(what, namespace, &error))?;
            let items = page.items.iter();
            objects.extend(items.filter_map(|object| serde_json::from_str::<K>(object.get()).ok()));
            match page.metadata.continue_ {
                Some(token) if !token.is_empty() => params.continue_token = Some(token),
                _ => return Ok(objects),
            }
        }
    }

    /// An object, if it is there; an error where it may not be seen.
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

    /// The groups of a namespace; none where there is no such kind.
    pub async fn groups(&self, namespace: &str) -> Result<Vec<PodGroup>, kube::Error> {
        let api: Api<DeserializeGuard<PodGroup>> = Api::namespaced(self.client.clone(), namespace);
        let listed = api.list(&ListParams::default()).await?;
        Ok(listed.items.into_iter().filter_map(|group| group.0.ok()).collect())
    }

    /// The answer to a question about what waits, which is not stored.
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

    /// All objects of a kind that can be read: one that can't is others' business, and no reason to show none.
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

/// The files that `KUBECONFIG` names and that are there, or the one in the home directory, as kubectl has it; none in a pod that has none of
/// them.
fn found_kubeconfig(names_context: bool) -> Result<Option<Kubeconfig>, KubeconfigError> {
    let named = env::var_os("KUBECONFIG").unwrap_or_default();
    let named: Vec<_> = env::split_paths(&named).filter(|path| path.exists()).collect();
    if !named.is_empty() {
        return merged(&named).map(Some);
    }
    let own = env::home_dir().map(|home| home.join(".kube").join("config"));
    let is_there = own.is_some_and(|own| own.exists());
    // A context is one of a file.
    if !is_there && !names_context && env::var_os("KUBERNETES_SERVICE_HOST").is_some() {
        return Ok(None);
    }
    Kubeconfig::read().map(Some)
}

/// What stands in these files; of what several say, what the first of them says.
fn merged(paths: &[PathBuf]) -> Result<Kubeconfig, KubeconfigError> {
    let mut merged = Kubeconfig::default();
    for path in paths {
        merged = merged.merge(Kubeconfig::read_from(path)?)?;
    }
    Ok(merged)
}
