//! Observe: watches on nodes, queues, namespaces, groups, Jobs and pods, as events for the mind.

mod absent;

use std::borrow::Cow;
use std::fmt::Debug;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use crds::bounds::told;
use crds::dra::{DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice};
use crds::keys::CARD_REQUEST;
use crds::observed::{Guarded, Namespace, Observed, Unreadable};
use crds::volcano::{PodGroup, Queue, WatchedGroup};
use engine::Observation;
use engine::cluster::Kind;
use futures::StreamExt as _;
use futures::future::{Either, select};
use k8s_openapi::ClusterResourceScope;
use k8s_openapi::api::{batch::v1 as batch, core::v1 as core, resource::v1 as resource};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::DeserializeGuard;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client, Resource, ResourceExt as _};
use programs::logging::plain;
use programs::that_reads_again;
use serde::de::DeserializeOwned;
use tokio::sync::{Notify, SetOnce, mpsc};
use tokio::time::sleep;

use self::absent::{Absence, Meaning};
use crate::event::Event;
use crate::metrics::Metrics;

/// Pods that are over hold nothing; the API server need not send them.
const PODS_NOT_OVER: &str = "status.phase!=Succeeded,status.phase!=Failed";
/// But pods that have succeeded count toward the minimum of their groups.
const PODS_SUCCEEDED: &str = "status.phase=Succeeded";

/// How many objects are listed at a time of what administrators write.
const PAGE: u32 = 100;
/// And of what anybody may write, who may make objects of more than a megabyte, and of nine as they come: all of a page is in memory, and
/// what was read of it beside, which is bounded while it is read. No two of these kinds are listed at once when it begins.
const SMALL_PAGE: u32 = 20;

/// How long it is waited before a kind is listed that can't be watched any more.
const LISTED_AGAIN: Duration = Duration::from_secs(1);

type ObservedPod = Observed<core::Pod, crds::pod::Pod<Box<str>>>;
type ObservedNode = Observed<core::Node, crds::node::Node<Box<str>>>;
type ObservedJob = Observed<batch::Job, crds::job::Job<Box<str>>>;
type ObservedGroup = Guarded<PodGroup, WatchedGroup>;
type ObservedSlice = Observed<resource::ResourceSlice, ResourceSlice>;
type ObservedClass = Observed<resource::DeviceClass, DeviceClass>;
type ObservedTaintRule = Observed<TaintRule, DeviceTaintRule>;
type ObservedClaim = Observed<resource::ResourceClaim, ResourceClaim>;
type ObservedNamespace = Observed<core::Namespace, Namespace>;

/// Kubernetes' own `DeviceTaintRule`: as which it is watched, since the types of older versions have none. There is no value of it.
#[derive(Debug, Clone)]
enum TaintRule {}

impl Resource for TaintRule {
    type DynamicType = ();
    type Scope = ClusterResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        "DeviceTaintRule".into()
    }

    fn group((): &()) -> Cow<'_, str> {
        "resource.k8s.io".into()
    }

    fn version((): &()) -> Cow<'_, str> {
        "v1".into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        "devicetaintrules".into()
    }

    fn meta(&self) -> &ObjectMeta {
        match *self {}
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        match *self {}
    }
}

/// Where what is observed goes.
#[derive(Clone)]
pub struct Ears {
    /// What happens.
    pub events: mpsc::Sender<Event>,
    /// Where watches are counted that were interrupted.
    pub metrics: Arc<Metrics>,
}

/// Watches until the receiver is dropped. Each kind comes after those that it names: groups after namespaces and queues, Jobs
/// after groups, claims after devices and classes, and pods, which hold what is counted, after all of them. Pods are listed once more each
/// time that it is `asked`.
pub async fn observe(client: Client, ears: Ears, asked: &Notify) {
    let client = that_reads_again(client);
    let (nodes, queues, namespaces) = (Listed::default(), Listed::default(), Listed::default());
    let (groups, jobs, pods) = (Listed::default(), Listed::default(), Listed::default());
    let claims = Listed::default();
    let succeeded = Listed::default();
    tokio::join!(
        watch(
            Api::<ObservedNode>::all(client.clone()),
            in_pages(),
            Kind::Node,
            &ears,
            &nodes,
            node_event
        ),
        watch(
            Api::<DeserializeGuard<Queue>>::all(client.clone()),
            in_pages(),
            Kind::Queue,
            &ears,
            &queues,
            queue_event
        ),
        watch(
            Api::<ObservedNamespace>::all(client.clone()),
            in_pages(),
            Kind::Namespace,
            &ears,
            &namespaces,
            namespace_event
        ),
        after(
            [&queues, &namespaces],
            watch(
                Api::<ObservedGroup>::all(client.clone()),
                in_small_pages(),
                Kind::PodGroup,
                &ears,
                &groups,
                group_event
            )
        ),
        after(
            [&groups],
            watch(
                Api::<ObservedJob>::all(client.clone()),
                in_small_pages(),
                Kind::Job,
                &ears,
                &jobs,
                job_event
            )
        ),
        observe_devices(&client, &ears, &jobs, &claims),
        after(
            [&nodes, &claims],
            anew_when(asked, || watch(
                Api::<ObservedPod>::all(client.clone()),
                in_small_pages().fields(PODS_NOT_OVER),
                Kind::Pod,
                &ears,
                &pods,
                pod_event
            ))
        ),
        after(
            [&pods],
            watch(
                Api::<ObservedPod>::all(client.clone()),
                in_small_pages().fields(PODS_SUCCEEDED),
                Kind::SucceededPod,
                &ears,
                &succeeded,
                succeeded_pod_event
            )
        ),
    );
}

/// Watches what there is of Dynamic Resource Allocation: claims after the devices and classes that they ask for, and after Jobs.
async fn observe_devices(client: &Client, ears: &Ears, jobs: &Listed, claims: &Listed) {
    let (slices, classes, taint_rules) = (Listed::default(), Listed::default(), Listed::default());
    tokio::join!(
        watch(
            Api::<ObservedSlice>::all(client.clone()),
            in_pages(),
            Kind::ResourceSlice,
            ears,
            &slices,
            slice_event
        ),
        watch(
            Api::<ObservedClass>::all(client.clone()),
            in_pages(),
            Kind::DeviceClass,
            ears,
            &classes,
            class_event
        ),
        watch(
            Api::<ObservedTaintRule>::all(client.clone()),
            in_pages(),
            Kind::DeviceTaintRule,
            ears,
            &taint_rules,
            taint_rule_event
        ),
        after(
            [&slices, &classes, jobs],
            watch(
                Api::<ObservedClaim>::all(client.clone()),
                in_small_pages(),
                Kind::ResourceClaim,
                ears,
                claims,
                claim_event
            )
        ),
    );
}

fn in_pages() -> watcher::Config {
    watcher::Config::default().page_size(PAGE)
}

fn in_small_pages() -> watcher::Config {
    watcher::Config::default().page_size(SMALL_PAGE)
}

/// Whether a kind has been listed, for those who wait for it.
type Listed = SetOnce<()>;

/// Does something after these kinds have been listed.
async fn after<const N: usize>(kinds: [&Listed; N], then: impl Future<Output = ()>) {
    for kind in kinds {
        kind.wait().await;
    }
    then.await;
}

/// Does something to its end, and from its beginning each time that it is asked for.
async fn anew_when<F: Future<Output = ()>>(asked: &Notify, begin: impl Fn() -> F) {
    while let Either::Right(_) = select(pin!(begin()), pin!(asked.notified())).await {}
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
    ears: &Ears,
    listed: &Listed,
    translate: impl Fn(Change<K>) -> Observation,
) where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let begin = || watcher(api.clone(), config.clone()).default_backoff().boxed();
    let mut absence = Absence::of(kind);
    let mut stream = begin();
    while let Some(next) = stream.next().await {
        let observation = match next {
            Ok(watcher::Event::Init) => Observation::ListBegins(kind),
            Ok(watcher::Event::InitApply(object) | watcher::Event::Apply(object)) => translate(Change::Applied(object)),
            Ok(watcher::Event::Delete(object)) => translate(Change::Deleted(object)),
            Ok(watcher::Event::InitDone) => Observation::ListEnds(kind),
            Err(error) => match absence.meaning_of(&error) {
                // What is created before the next try is seen by it.
                Meaning::NotThere => Observation::NotInstalled(kind),
                Meaning::AsBefore => {
                    ears.metrics.watch_error(&error);
                    if let Some(warning) = absence.take_warning_of_unknown() {
                        tracing::warn!(kind = kind.plural(), error = plain(&error), "{warning}");
                    }
                    continue;
                }
                Meaning::ListAnew => {
                    sleep(LISTED_AGAIN).await;
                    stream = begin();
                    continue;
                }
                Meaning::Forbidden => {
                    ears.metrics.watch_error(&error);
                    if let Some(warning) = absence.take_warning() {
                        tracing::warn!(kind = kind.plural(), error = plain(&error), "{warning}");
                    }
                    if absence.was_listed() {
                        continue;
                    }
                    Observation::NotInstalled(kind)
                }
                Meaning::Interrupted => {
                    ears.metrics.watch_error(&error);
                    tracing::warn!(
                        kind = kind.plural(),
                        error = plain(&error),
                        "watch interrupted, trying again"
                    );
                    continue;
                }
            },
        };
        if matches!(observation, Observation::ListEnds(_)) {
            absence.is_there();
        }
        let list_ends = matches!(observation, Observation::ListEnds(_) | Observation::NotInstalled(_));
        if ears.events.send(Event::Observed(observation)).await.is_err() {
            return;
        }
        if list_ends {
            // Later lists change nothing for those who waited for the first.
            let _ = listed.set(());
        }
    }
}

fn pod_event(change: Change<ObservedPod>) -> Observation {
    match change {
        Change::Applied(pod) => Observation::of_pod(&pod.object),
        Change::Deleted(pod) => Observation::PodGone(pod.object.metadata.uid.unwrap_or_default()),
    }
}

fn succeeded_pod_event(change: Change<ObservedPod>) -> Observation {
    match change {
        Change::Applied(pod) => Observation::of_pod(&pod.object),
        Change::Deleted(pod) => Observation::SucceededPodGone(pod.object.metadata.uid.unwrap_or_default()),
    }
}

fn node_event(change: Change<ObservedNode>) -> Observation {
    match change {
        Change::Applied(node) => Observation::Node(Box::new(node.object)),
        Change::Deleted(node) => Observation::NodeGone(node.object.metadata.name.unwrap_or_default()),
    }
}

fn namespace_event(change: Change<ObservedNamespace>) -> Observation {
    match change {
        Change::Applied(namespace) => Observation::Namespace(Box::new(namespace.object.metadata)),
        Change::Deleted(namespace) => Observation::NamespaceGone(namespace.object.metadata.name.unwrap_or_default()),
    }
}

fn queue_event(change: Change<DeserializeGuard<Queue>>) -> Observation {
    match change {
        Change::Applied(DeserializeGuard(Ok(queue))) => Observation::Queue(Box::new(queue)),
        Change::Applied(DeserializeGuard(Err(invalid))) => Observation::QueueUnreadable {
            name: invalid.metadata.name.unwrap_or_default().into(),
            uid: invalid.metadata.uid.unwrap_or_default().into(),
            reason: told(invalid.error).into(),
        },
        Change::Deleted(queue) => Observation::QueueGone(queue.name_any().into()),
    }
}

fn group_event(change: Change<ObservedGroup>) -> Observation {
    match change {
        Change::Applied(group) => match group.object {
            Ok(group) => Observation::Group(Box::new(group)),
            Err(Unreadable { identity, error }) => Observation::GroupUnreadable {
                namespace: identity.namespace.unwrap_or_default(),
                name: identity.name.unwrap_or_default(),
                uid: identity.uid.unwrap_or_default(),
                reason: error,
            },
        },
        Change::Deleted(group) => {
            let (namespace, name) = match group.object {
                Ok(group) => (group.metadata.namespace, group.metadata.name),
                Err(unreadable) => (unreadable.identity.namespace, unreadable.identity.name),
            };
            Observation::GroupGone {
                namespace: namespace.unwrap_or_default(),
                name: name.unwrap_or_default(),
            }
        }
    }
}

/// A Job that asks for no cards in advance is like one that is gone: it is not kept in memory.
fn job_event(change: Change<ObservedJob>) -> Observation {
    match change {
        Change::Applied(job) if job.object.metadata.annotations.contains_key(CARD_REQUEST) => {
            Observation::Job(Box::new(job.object))
        }
        Change::Applied(job) | Change::Deleted(job) => Observation::JobGone {
            namespace: job.object.metadata.namespace.unwrap_or_default(),
            name: job.object.metadata.name.unwrap_or_default(),
        },
    }
}

fn slice_event(change: Change<ObservedSlice>) -> Observation {
    match change {
        Change::Applied(slice) => Observation::Slice(Box::new(slice.object)),
        Change::Deleted(slice) => Observation::SliceGone(slice.object.metadata.name.unwrap_or_default()),
    }
}

fn class_event(change: Change<ObservedClass>) -> Observation {
    match change {
        Change::Applied(class) => Observation::Class(Box::new(class.object)),
        Change::Deleted(class) => Observation::ClassGone(class.object.metadata.name.unwrap_or_default()),
    }
}

fn taint_rule_event(change: Change<ObservedTaintRule>) -> Observation {
    match change {
        Change::Applied(rule) => Observation::TaintRule(Box::new(rule.object)),
        Change::Deleted(rule) => Observation::TaintRuleGone(rule.object.metadata.name.unwrap_or_default()),
    }
}

fn claim_event(change: Change<ObservedClaim>) -> Observation {
    match change {
        Change::Applied(mut claim) => {
            // Nothing that may be long of it is read.
            let metadata = &mut claim.object.metadata;
            (metadata.labels, metadata.annotations) = Default::default();
            Observation::Claim(Box::new(claim.object))
        }
        Change::Deleted(claim) => Observation::ClaimGone {
            namespace: claim.object.metadata.namespace.unwrap_or_default(),
            name: claim.object.metadata.name.unwrap_or_default(),
        },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// What is kept of an object that was seen, as text.
    fn kept<K: DeserializeOwned>(object: Value, translate: impl Fn(Change<K>) -> Observation) -> String {
        let object = serde_json::from_value(object).expect("an object");
        format!("{:?}", translate(Change::Applied(object)))
    }

    fn many(count: usize, each: impl Fn(usize) -> Value) -> Value {
        (0..count).map(each).collect()
    }

    #[test]
    fn of_a_large_pod_little_waits_to_be_taken_in() {
        let megabyte = "x".repeat(1 << 20);
        let in_zones =
            json!({"key": "zone", "operator": "In", "values": many(20_000, |index| json!(format!("zone-{index}")))});
        let pod = json!({
            "metadata": {"namespace": "team", "name": "p", "uid": "u", "labels": {"stuffing": megabyte}, "annotations": {"stuffing": megabyte}},
            "spec": {
                "containers": [{"name": "main", "env": [{"name": "A", "value": megabyte}]}],
                "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [in_zones]}]}}},
                "tolerations": many(20_000, |index| json!({"key": format!("taint-{index}"), "operator": "Exists"})),
                "schedulingGates": many(20_000, |index| json!({"name": format!("gate-{index}")})),
                "volumes": many(20_000, |index| json!({"name": format!("v-{index}"), "persistentVolumeClaim": {"claimName": "c"}})),
            },
            "status": {"conditions": many(20_000, |index| json!({"type": format!("c-{index}"), "status": "True"}))},
        });
        let kept = kept(pod, pod_event);
        assert!(kept.len() < 256 << 10, "{}", kept.len());
    }

    #[test]
    fn of_a_claim_what_it_asks_for_waits_to_be_taken_in() {
        let megabyte = "x".repeat(1 << 20);
        let metadata = json!({"namespace": "team", "name": "c", "labels": {"stuffing": megabyte}, "annotations": {"stuffing": megabyte}});
        let kept = kept(
            json!({"metadata": metadata, "spec": {"devices": {"requests": []}}}),
            claim_event,
        );
        assert!(kept.len() < 2_000, "{}", kept.len());
    }
}
