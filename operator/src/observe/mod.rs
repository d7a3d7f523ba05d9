//! Observe: watches on nodes, queues, namespaces, groups, Jobs and pods, as events for the mind.

mod absent;
mod translate;

use std::fmt::Debug;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use crds::volcano::Queue;
use engine::Observation;
use engine::cluster::Kind;
use futures::StreamExt as _;
use futures::future::{Either, select};
use kube::core::DeserializeGuard;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client, Resource};
use programs::logging::plain;
use programs::that_reads_again;
use serde::de::DeserializeOwned;
use tokio::sync::{Notify, SetOnce, mpsc};
use tokio::time::sleep;

use self::absent::{Absence, Meaning};
use self::translate::{
    Change, ObservedClaim, ObservedClass, ObservedGroup, ObservedJob, ObservedNamespace, ObservedNode, ObservedPod,
    ObservedSlice, ObservedTaintRule, claim_event, class_event, group_event, job_event, namespace_event, node_event,
    pod_event, queue_event, slice_event, succeeded_pod_event, taint_rule_event,
};
use crate::event::Event;
use crate::metrics::Metrics;

/// Pods that have ended hold nothing, so the API server need not send them.
const PODS_NOT_OVER: &str = "status.phase!=Succeeded,status.phase!=Failed";
/// Pods that have succeeded count toward the minimum of their groups.
const PODS_SUCCEEDED: &str = "status.phase=Succeeded";

/// How many objects are listed at a time of kinds that administrators write.
const PAGE: u32 = 100;
/// How many objects are listed at a time of kinds that anybody may write. Users may create objects of more than a megabyte, which take nine
/// as they arrive. A whole page is in memory, together with what was read of it, which is bounded during reading. At the start, no two of
/// these kinds are listed at once.
const SMALL_PAGE: u32 = 20;

/// The pause before a kind that can no longer be watched is listed again.
const LISTED_AGAIN: Duration = Duration::from_secs(1);

/// Where observations go.
#[derive(Clone)]
pub struct Sinks {
    /// The events for the mind.
    pub events: mpsc::Sender<Event>,
    /// Where interrupted watches are counted.
    pub metrics: Arc<Metrics>,
}

/// Watches until the receiver is dropped. Each kind is listed after the kinds that it refers to: groups after namespaces and queues, Jobs
/// after groups, claims after devices and classes, and pods, which hold what is counted, after all of them. Pods are listed once more each
/// time that `asked` is notified.
pub async fn observe(client: Client, sinks: Sinks, asked: &Notify) {
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
            &sinks,
            &nodes,
            node_event
        ),
        watch(
            Api::<DeserializeGuard<Queue>>::all(client.clone()),
            in_pages(),
            Kind::Queue,
            &sinks,
            &queues,
            queue_event
        ),
        watch(
            Api::<ObservedNamespace>::all(client.clone()),
            in_pages(),
            Kind::Namespace,
            &sinks,
            &namespaces,
            namespace_event
        ),
        after(
            [&queues, &namespaces],
            watch(
                Api::<ObservedGroup>::all(client.clone()),
                in_small_pages(),
                Kind::PodGroup,
                &sinks,
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
                &sinks,
                &jobs,
                job_event
            )
        ),
        observe_devices(&client, &sinks, &jobs, &claims),
        after(
            [&nodes, &claims],
            anew_when(asked, || watch(
                Api::<ObservedPod>::all(client.clone()),
                in_small_pages().fields(PODS_NOT_OVER),
                Kind::Pod,
                &sinks,
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
                &sinks,
                &succeeded,
                succeeded_pod_event
            )
        ),
    );
}

/// Watches the objects of Dynamic Resource Allocation. Claims are listed after the devices and classes that they request, and after Jobs.
async fn observe_devices(client: &Client, sinks: &Sinks, jobs: &Listed, claims: &Listed) {
    let (slices, classes, taint_rules) = (Listed::default(), Listed::default(), Listed::default());
    tokio::join!(
        watch(
            Api::<ObservedSlice>::all(client.clone()),
            in_pages(),
            Kind::ResourceSlice,
            sinks,
            &slices,
            slice_event
        ),
        watch(
            Api::<ObservedClass>::all(client.clone()),
            in_pages(),
            Kind::DeviceClass,
            sinks,
            &classes,
            class_event
        ),
        watch(
            Api::<ObservedTaintRule>::all(client.clone()),
            in_pages(),
            Kind::DeviceTaintRule,
            sinks,
            &taint_rules,
            taint_rule_event
        ),
        after(
            [&slices, &classes, jobs],
            watch(
                Api::<ObservedClaim>::all(client.clone()),
                in_small_pages(),
                Kind::ResourceClaim,
                sinks,
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

/// Set once a kind has been listed.
type Listed = SetOnce<()>;

/// Runs `then` after these kinds have been listed.
async fn after<const N: usize>(kinds: [&Listed; N], then: impl Future<Output = ()>) {
    for kind in kinds {
        kind.wait().await;
    }
    then.await;
}

/// Runs a future to its end, and starts it anew each time that `asked` is notified.
async fn anew_when<F: Future<Output = ()>>(asked: &Notify, begin: impl Fn() -> F) {
    while let Either::Right(_) = select(pin!(begin()), pin!(asked.notified())).await {}
}

async fn watch<K>(
    api: Api<K>,
    config: watcher::Config,
    kind: Kind,
    sinks: &Sinks,
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
                // The next try sees objects that are created before it.
                Meaning::NotThere => Observation::NotInstalled(kind),
                Meaning::AsBefore => {
                    sinks.metrics.watch_error(&error);
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
                    sinks.metrics.watch_error(&error);
                    if let Some(warning) = absence.take_warning() {
                        tracing::warn!(kind = kind.plural(), error = plain(&error), "{warning}");
                    }
                    if absence.was_listed() {
                        continue;
                    }
                    Observation::NotInstalled(kind)
                }
                Meaning::Interrupted => {
                    sinks.metrics.watch_error(&error);
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
        if sinks.events.send(Event::Observed(observation)).await.is_err() {
            return;
        }
        if list_ends {
            // Later lists change nothing for those that waited for the first one.
            let _ = listed.set(());
        }
    }
}
