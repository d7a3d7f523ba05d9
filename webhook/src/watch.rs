//! Feeds the door's knowledge from watches on the API server.

use std::collections::HashMap;
use std::mem;
use std::pin::pin;
use std::sync::Arc;

use crds::card_type::CardType;
use crds::keys::{CARD_RESOURCES, POLICY_PARAMETERS};
use crds::volcano::Queue;
use futures::{Stream, StreamExt as _};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::PartialObjectMeta;
use kube::core::DeserializeGuard;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event, watch_object, watcher};
use kube::{Api, Client, ResourceExt as _};
use programs::configuration::{Loaded, follow as follow_configuration};
use programs::logging::plain;
use programs::that_reads_again;
use tokio::task::JoinSet;
use tracing::{debug, info, warn};

use crate::knowledge::{CardFacts, GroupFacts, Knowledge, NamespaceFacts, QueueFacts, Store, WatchedGroup, group_key};
use crate::metrics::Metrics;

/// How many objects are listed at a time. A whole page is in memory as it came, within a webhook's 256 MiB, and tenants may
/// create groups of 1.5 MB.
const PAGE: u32 = 20;
/// HTTP status of a kind that is not installed.
const NOT_FOUND: u16 = 404;

/// An object's key and facts.
type Entry<V> = (Box<str>, V);

/// What the watches feed.
#[derive(Debug, Clone)]
pub struct Fed {
    /// What the door knows.
    pub knowledge: Arc<Knowledge>,
    /// What the door measures.
    pub metrics: Arc<Metrics>,
}

/// Starts all watches. None of them ends by itself; `namespace` is Cardgate's own.
pub fn start(client: &Client, namespace: &str, fed: &Fed) -> JoinSet<()> {
    let client = &that_reads_again(client.clone());
    let config = || watcher::Config::default().page_size(PAGE);
    let mut watches = JoinSet::new();

    let queues = watcher(Api::<DeserializeGuard<Queue>>::all(client.clone()), config());
    watches.spawn(follow(
        "queues",
        queues,
        fed.clone(),
        |knowledge| &knowledge.queues,
        read_queue,
    ));
    let groups = watcher(Api::<WatchedGroup>::all(client.clone()), config());
    watches.spawn(follow(
        "podgroups",
        groups,
        fed.clone(),
        |knowledge| &knowledge.groups,
        read_group,
    ));
    let namespaces = watcher(Api::<PartialObjectMeta<Namespace>>::all(client.clone()), config());
    watches.spawn(follow(
        "namespaces",
        namespaces,
        fed.clone(),
        |knowledge| &knowledge.namespaces,
        read_namespace,
    ));
    let card_types = watcher(Api::<DeserializeGuard<CardType>>::all(client.clone()), config());
    watches.spawn(follow(
        "cardtypes",
        card_types,
        fed.clone(),
        |knowledge| &knowledge.card_types,
        read_card_type,
    ));

    watches.spawn(configure(follow_configuration(client.clone(), namespace), fed.clone()));
    let parameters = Api::<ConfigMap>::namespaced(client.clone(), namespace);
    watches.spawn(follow_list(watch_object(parameters, POLICY_PARAMETERS), fed.clone()));
    watches
}

fn read_queue(queue: &DeserializeGuard<Queue>) -> Entry<Arc<QueueFacts>> {
    if let Err(invalid) = &queue.0 {
        warn!(queue = queue.name_any(), "the Queue can't be read: {invalid}");
    }
    (queue.name_any().into(), Arc::new(QueueFacts::read(&queue.0)))
}

fn read_group(group: &WatchedGroup) -> Entry<Arc<GroupFacts>> {
    let (namespace, name) = match &group.object {
        Ok(group) => (&group.metadata.namespace, &group.metadata.name),
        Err(unreadable) => (&unreadable.identity.namespace, &unreadable.identity.name),
    };
    let (namespace, name) = (namespace.as_deref(), name.as_deref());
    let key = group_key(namespace.unwrap_or_default(), name.unwrap_or_default());
    (key.into(), Arc::new(GroupFacts::read(group)))
}

fn read_namespace(namespace: &PartialObjectMeta<Namespace>) -> Entry<Arc<NamespaceFacts>> {
    let facts = NamespaceFacts::read(&namespace.metadata);
    (namespace.name_any().into(), Arc::new(facts))
}

/// Returns no entry for a `CardType` that can't be read: its card counts as unknown.
fn read_card_type(card_type: &DeserializeGuard<CardType>) -> Option<Entry<CardFacts>> {
    let card_type = card_type.0.as_ref().ok()?;
    Some((card_type.spec.card_name.as_str().into(), card_type.clone().into()))
}

/// Keeps a store equal to the objects of the API server.
async fn follow<K, V: Clone, E: Into<Option<Entry<V>>>>(
    kind: &'static str,
    events: impl Stream<Item = watcher::Result<Event<K>>>,
    fed: Fed,
    store: fn(&Knowledge) -> &Store<V>,
    read: fn(&K) -> E,
) {
    let store = store(&fed.knowledge);
    let mut events = pin!(events.default_backoff());
    let mut listed = HashMap::new();
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Init) => listed.clear(),
            Ok(Event::InitApply(object)) => listed.extend(read(&object).into()),
            Ok(Event::InitDone) => {
                debug!(kind, count = listed.len(), "listed");
                store.replace(mem::take(&mut listed));
            }
            Ok(Event::Apply(object)) => {
                if let Some((key, facts)) = read(&object).into() {
                    store.set(key, facts);
                }
            }
            Ok(Event::Delete(object)) => {
                if let Some((key, _)) = read(&object).into() {
                    store.remove(&key);
                }
            }
            // A kind that is not installed has no objects. Lookups find what is created before the next try.
            Err(error) if is_not_installed(&error) => {
                if !store.is_listed() {
                    info!(kind, "this kind is not installed (yet): going on without it");
                    store.replace(HashMap::new());
                }
            }
            Err(error) => watch_failed(kind, &error, &fed.metrics),
        }
    }
}

/// Keeps the configuration equal to the `ConfigMap`.
async fn configure(changes: impl Stream<Item = watcher::Result<Loaded>>, fed: Fed) {
    let mut changes = pin!(changes);
    while let Some(change) = changes.next().await {
        match change {
            Ok(loaded) => {
                fed.metrics.configuration().show(&loaded.read);
                fed.knowledge.configure(loaded.in_force, loaded.read.err());
            }
            Err(error) => watch_failed("configmaps", &error, &fed.metrics),
        }
    }
}

/// Keeps the list that the operator writes for the policies. Without it the door holds only the resources that it knows
/// itself.
async fn follow_list(changes: impl Stream<Item = watcher::Result<Option<ConfigMap>>>, fed: Fed) {
    let mut changes = pin!(changes.default_backoff());
    while let Some(change) = changes.next().await {
        match change {
            Ok(parameters) => {
                let data = parameters.and_then(|parameters| parameters.data);
                let list = data.as_ref().and_then(|data| data.get(CARD_RESOURCES));
                fed.knowledge.list_resources(list.map_or("", String::as_str));
            }
            Err(error) => watch_failed("configmaps", &error, &fed.metrics),
        }
    }
}

fn is_not_installed(error: &watcher::Error) -> bool {
    matches!(
        error,
        watcher::Error::InitialListFailed(kube::Error::Api(status)) if status.code == NOT_FOUND
    )
}

fn watch_failed(kind: &'static str, error: &watcher::Error, metrics: &Metrics) {
    metrics.watch_failed(kind);
    warn!(kind, "a watch failed and starts again: {}", plain(error));
}

#[cfg(test)]
mod tests;
