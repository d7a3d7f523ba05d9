//! Observe: watches on nodes, queues, namespaces, groups, Jobs and pods, and on the objects of Dynamic Resource Allocation, as events for the
//! mind.

mod absent;
#[cfg(test)]
mod tests;
mod translate;

use std::fmt::Debug;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use engine::Observation;
use engine::cluster::Kind;
use futures::StreamExt as _;
use futures::future::{Either, select};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client, Resource};
use programs::logging::plain;
use programs::that_reads_again;
use serde::de::DeserializeOwned;
use tokio::sync::{Notify, SetOnce, mpsc};
use tokio::time::sleep;

use self::absent::{Absence, Meaning};
use self::translate::{
    Change, claim_event, class_event, group_event, job_event, namespace_event, node_event, pod_event, queue_event,
    slice_event, succeeded_pod_event, taint_rule_event,
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
/// time that `asked` is notified, after the list that is under way.
pub async fn observe(client: Client, sinks: Sinks, asked: &Notify) {
    let client = that_reads_again(client);
    let (nodes, queues, namespaces) = (Listed::default(), Listed::default(), Listed::default());
    let (groups, jobs, pods) = (Listed::default(), Listed::default(), Listed::default());
    let claims = Listed::default();
    let succeeded = Listed::default();
    let watches = Watches {
        client: &client,
        sinks: &sinks,
    };
    tokio::join!(
        watches.watch(Kind::Node, in_pages(), &nodes, node_event),
        watches.watch(Kind::Queue, in_pages(), &queues, queue_event),
        watches.watch(Kind::Namespace, in_pages(), &namespaces, namespace_event),
        after(
            [&queues, &namespaces],
            watches.watch(Kind::PodGroup, in_small_pages(), &groups, group_event)
        ),
        after([&groups], watches.watch(Kind::Job, in_small_pages(), &jobs, job_event)),
        observe_devices(watches, &jobs, &claims),
        after(
            [&nodes, &claims],
            anew_when(asked, &pods, |listed| async move {
                let not_over = in_small_pages().fields(PODS_NOT_OVER);
                watches.watch(Kind::Pod, not_over, &listed, pod_event).await;
            })
        ),
        after(
            [&pods],
            watches.watch(
                Kind::SucceededPod,
                in_small_pages().fields(PODS_SUCCEEDED),
                &succeeded,
                succeeded_pod_event
            )
        ),
    );
}

/// Watches the objects of Dynamic Resource Allocation. Claims are listed after the devices and classes that they request, and after Jobs.
async fn observe_devices(watches: Watches<'_>, jobs: &Listed, claims: &Listed) {
    let (slices, classes, taint_rules) = (Listed::default(), Listed::default(), Listed::default());
    tokio::join!(
        watches.watch(Kind::ResourceSlice, in_pages(), &slices, slice_event),
        watches.watch(Kind::DeviceClass, in_pages(), &classes, class_event),
        watches.watch(Kind::DeviceTaintRule, in_pages(), &taint_rules, taint_rule_event),
        after(
            [&slices, &classes, jobs],
            watches.watch(Kind::ResourceClaim, in_small_pages(), claims, claim_event)
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

/// Runs a watch to its end, and begins it anew each time that `asked` is notified, but not before it has listed everything: otherwise the list
/// might never end. Whoever asks meanwhile gets one more list. Sets `first` once everything has been listed.
async fn anew_when<F: Future<Output = ()>>(asked: &Notify, first: &Listed, begin: impl Fn(Arc<Listed>) -> F) {
    loop {
        let listed = Arc::<Listed>::default();
        let again = async {
            listed.wait().await;
            // Later lists change nothing for those that waited for the first one.
            let _ = first.set(());
            asked.notified().await;
        };
        if let Either::Left(_) = select(pin!(begin(Arc::clone(&listed))), pin!(again)).await {
            return;
        }
    }
}

/// What all watches have in common.
#[derive(Clone, Copy)]
struct Watches<'w> {
    client: &'w Client,
    sinks: &'w Sinks,
}

impl Watches<'_> {
    /// Watches all objects of a kind until the receiver is dropped, and sets `listed` once they have been listed.
    async fn watch<K>(
        &self,
        kind: Kind,
        config: watcher::Config,
        listed: &Listed,
        translate: impl Fn(Change<K>) -> Observation,
    ) where
        K: Resource<DynamicType: Default> + Clone + DeserializeOwned + Debug + Send + 'static,
    {
        let api = Api::<K>::all(self.client.clone());
        let begin = || watcher(api.clone(), config.clone()).default_backoff().boxed();
        let mut absence = Absence::of(kind);
        let mut stream = begin();
        while let Some(next) = stream.next().await {
            let observation = match next {
                Ok(watcher::Event::Init) => Observation::ListBegins(kind),
                Ok(watcher::Event::InitApply(object) | watcher::Event::Apply(object)) => {
                    translate(Change::Applied(object))
                }
                Ok(watcher::Event::Delete(object)) => translate(Change::Deleted(object)),
                Ok(watcher::Event::InitDone) => Observation::ListEnds(kind),
                Err(error) => match absence.meaning_of(&error) {
                    // The next try sees objects that are created before it.
                    Meaning::NotThere => Observation::NotInstalled(kind),
                    Meaning::AsBefore => {
                        self.sinks.metrics.watch_error(&error);
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
                        self.sinks.metrics.watch_error(&error);
                        if let Some(warning) = absence.take_warning() {
                            tracing::warn!(kind = kind.plural(), error = plain(&error), "{warning}");
                        }
                        if absence.was_listed() {
                            continue;
                        }
                        Observation::NotInstalled(kind)
                    }
                    Meaning::Interrupted => {
                        self.sinks.metrics.watch_error(&error);
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
                absence.note_listed();
            }
            let list_ends = matches!(observation, Observation::ListEnds(_) | Observation::NotInstalled(_));
            if self.sinks.events.send(Event::Observed(observation)).await.is_err() {
                return;
            }
            if list_ends {
                // Later lists change nothing for those that waited for the first one.
                let _ = listed.set(());
            }
        }
    }
}
