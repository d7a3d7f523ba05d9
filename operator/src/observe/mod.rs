//! Observe: watches on nodes, queues, namespaces and pods, as events for the mind.

mod observed;

use std::fmt::Debug;

use crds::volcano::Queue;
use futures::StreamExt as _;
use k8s_openapi::api::core::v1 as core;
use kube::core::DeserializeGuard;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client, Resource, ResourceExt as _};
use observed::{Namespace, Observed};
use serde::de::DeserializeOwned;
use tokio::sync::{mpsc, oneshot};

use crate::cluster::Kind;
use crate::event::Event;

/// Pods that are over hold nothing; the API server need not send them.
const PODS_NOT_OVER: &str = "status.phase!=Succeeded,status.phase!=Failed";

type ObservedPod = Observed<core::Pod, crds::pod::Pod<Box<str>>>;
type ObservedNode = Observed<core::Node, crds::node::Node<Box<str>>>;
type ObservedNamespace = Observed<core::Namespace, Namespace>;

/// Watches until the receiver is dropped. Pods come last: what they hold is counted with nodes and queues at hand.
pub async fn observe(client: Client, events: mpsc::Sender<Event>) {
    let (nodes_listed, nodes_are_listed) = oneshot::channel();
    let (queues_listed, queues_are_listed) = oneshot::channel();
    let (namespaces_listed, namespaces_are_listed) = oneshot::channel();
    let everything = watcher::Config::default();
    let pods = async {
        // A watch ends only when the receiver is gone, and then there is nothing left to do.
        let _ = tokio::join!(nodes_are_listed, queues_are_listed, namespaces_are_listed);
        let config = watcher::Config::default().fields(PODS_NOT_OVER);
        watch(
            Api::<ObservedPod>::all(client.clone()),
            config,
            Kind::Pod,
            &events,
            None,
            pod_event,
        )
        .await;
    };
    tokio::join!(
        watch(
            Api::<ObservedNode>::all(client.clone()),
            everything.clone(),
            Kind::Node,
            &events,
            Some(nodes_listed),
            node_event
        ),
        watch(
            Api::<DeserializeGuard<Queue>>::all(client.clone()),
            everything.clone(),
            Kind::Queue,
            &events,
            Some(queues_listed),
            queue_event
        ),
        watch(
            Api::<ObservedNamespace>::all(client.clone()),
            everything,
            Kind::Namespace,
            &events,
            Some(namespaces_listed),
            namespace_event
        ),
        pods,
    );
}

/// Whether an object is there or gone.
enum Change<K> {
    Applied(K),
    Deleted(K),
}

async fn watch<K>(
    api: Api<K>,
    config: watcher::Config,
    kind: Kind,
    events: &mpsc::Sender<Event>,
    mut listed: Option<oneshot::Sender<()>>,
    translate: impl Fn(Change<K>) -> Event,
) where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let mut stream = watcher(api, config).default_backoff().boxed();
    while let Some(next) = stream.next().await {
        let event = match next {
            Ok(watcher::Event::Init) => Event::ListBegins(kind),
            Ok(watcher::Event::InitApply(object) | watcher::Event::Apply(object)) => translate(Change::Applied(object)),
            Ok(watcher::Event::Delete(object)) => translate(Change::Deleted(object)),
            Ok(watcher::Event::InitDone) => Event::ListEnds(kind),
            Err(error) => {
                tracing::warn!(kind = kind.plural(), %error, "watch interrupted, trying again");
                continue;
            }
        };
        let list_ends = matches!(event, Event::ListEnds(_));
        if events.send(event).await.is_err() {
            return;
        }
        if list_ends && let Some(listed) = listed.take() {
            // Nobody waits any more only when everything ends.
            let _ = listed.send(());
        }
    }
}

fn pod_event(change: Change<ObservedPod>) -> Event {
    match change {
        Change::Applied(pod) => Event::Pod(Box::new(pod.object)),
        Change::Deleted(pod) => Event::PodGone(pod.object.metadata.uid.unwrap_or_default()),
    }
}

fn node_event(change: Change<ObservedNode>) -> Event {
    match change {
        Change::Applied(node) => Event::Node(Box::new(node.object)),
        Change::Deleted(node) => Event::NodeGone(node.object.metadata.name.unwrap_or_default()),
    }
}

fn namespace_event(change: Change<ObservedNamespace>) -> Event {
    match change {
        Change::Applied(namespace) => Event::Namespace(Box::new(namespace.object.metadata)),
        Change::Deleted(namespace) => Event::NamespaceGone(namespace.object.metadata.name.unwrap_or_default()),
    }
}

fn queue_event(change: Change<DeserializeGuard<Queue>>) -> Event {
    match change {
        Change::Applied(DeserializeGuard(Ok(queue))) => Event::Queue(Box::new(queue)),
        Change::Applied(DeserializeGuard(Err(invalid))) => Event::QueueUnreadable {
            name: invalid.metadata.name.unwrap_or_default().into(),
            uid: invalid.metadata.uid.unwrap_or_default().into(),
            reason: invalid.error.into(),
        },
        Change::Deleted(queue) => Event::QueueGone(queue.name_any().into()),
    }
}
