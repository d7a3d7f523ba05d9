//! The observer: one watch on the pods of the load, which notes by the local clock when each of them was let in and bound,
//! and keeps count of what may never be exceeded.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Result, bail};
use crds::keys::{ADMITTED_CONDITION, GATE, QUEUE_LABEL};
use futures::{StreamExt, pin_mut};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, Resource};
use serde::{Deserialize, Deserializer};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

/// How long nothing at all may happen before a wait is given up. Longer than the longest back-off of any component.
const STALL: Duration = Duration::from_secs(90);

/// What the observer reads of a pod. Everything that it does not parse is time that the others have.
#[derive(Debug, Clone, Deserialize, Resource)]
#[resource(inherit = Pod)]
pub(super) struct SeenPod {
    #[serde(deserialize_with = "lean_metadata")]
    pub metadata: ObjectMeta,
    #[serde(default)]
    pub spec: SeenSpec,
    #[serde(default)]
    status: SeenStatus,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct SeenSpec {
    node_name: Option<String>,
    scheduling_gates: Vec<Named>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct SeenStatus {
    phase: Option<String>,
    conditions: Vec<Condition>,
}

#[derive(Debug, Clone, Deserialize)]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
}

#[derive(Debug, Clone, Deserialize)]
struct Named {
    name: String,
}

fn lean_metadata<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Lean {
        name: Option<String>,
        uid: Option<String>,
        resource_version: Option<String>,
        labels: Option<BTreeMap<String, String>>,
    }
    Lean::deserialize(deserializer).map(|lean| ObjectMeta {
        name: lean.name,
        uid: lean.uid,
        resource_version: lean.resource_version,
        labels: lean.labels,
        ..ObjectMeta::default()
    })
}

impl SeenPod {
    /// Whether Cardgate's gate holds the pod back.
    pub fn is_gated(&self) -> bool {
        self.spec.scheduling_gates.iter().any(|gate| gate.name == GATE)
    }

    fn queue(&self) -> &str {
        let labels = self.metadata.labels.as_ref();
        labels
            .and_then(|labels| labels.get(QUEUE_LABEL))
            .map_or("", String::as_str)
    }
}

/// What was seen of one pod, and when.
#[derive(Debug, Clone)]
pub(super) struct Sighting {
    /// The queue that its label names.
    pub queue: String,
    /// The pod itself.
    pub created: Instant,
    /// It says why it waits.
    pub told: bool,
    /// No gate of Cardgate's any more.
    pub let_in: Option<Instant>,
    /// Its node.
    pub node: Option<String>,
    /// A node was chosen.
    pub bound: Option<Instant>,
    /// Its kubelet says so.
    pub runs: bool,
    /// No pod any more.
    pub gone: Option<Instant>,
}

/// How many pods of a queue are there, and how far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Progress {
    pub created: usize,
    pub told: usize,
    pub let_in: usize,
    pub bound: usize,
    /// The most that were let in at a time.
    pub most_let_in: usize,
}

/// What was seen of all pods.
#[derive(Debug, Default)]
pub(super) struct Sightings {
    /// By name.
    pub pods: HashMap<String, Sighting>,
    /// By queue.
    queues: BTreeMap<String, Progress>,
    on_node: BTreeMap<String, usize>,
    /// The most pods that were on one node at a time.
    pub most_on_a_node: usize,
}

impl Sightings {
    fn see(&mut self, pod: &SeenPod, now: Instant) {
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        if !self.pods.contains_key(name) {
            let queue = pod.queue().to_owned();
            self.queues.entry(queue.clone()).or_default().created += 1;
            let first = Sighting {
                queue,
                created: now,
                told: false,
                let_in: None,
                node: None,
                bound: None,
                runs: false,
                gone: None,
            };
            self.pods.insert(name.to_owned(), first);
        }
        let Some(known) = self.pods.get_mut(name) else { return };
        let queue = self.queues.entry(known.queue.clone()).or_default();
        let told = |condition: &Condition| condition.kind == ADMITTED_CONDITION;
        if !known.told && pod.status.conditions.iter().any(told) {
            known.told = true;
            queue.told += 1;
        }
        if known.let_in.is_none() && !pod.is_gated() {
            known.let_in = Some(now);
            queue.let_in += 1;
            queue.most_let_in = queue.most_let_in.max(queue.let_in);
        }
        known.runs |= pod.status.phase.as_deref() == Some("Running");
        if let (None, Some(node)) = (known.bound, &pod.spec.node_name) {
            known.bound = Some(now);
            known.node = Some(node.clone());
            queue.bound += 1;
            let count = self.on_node.entry(node.clone()).or_default();
            *count += 1;
            self.most_on_a_node = self.most_on_a_node.max(*count);
        }
    }

    fn miss(&mut self, pod: &SeenPod, now: Instant) {
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        let Some(known) = self.pods.get_mut(name).filter(|known| known.gone.is_none()) else {
            return;
        };
        known.gone = Some(now);
        let queue = self.queues.entry(known.queue.clone()).or_default();
        queue.created -= 1;
        queue.told -= usize::from(known.told);
        queue.let_in -= usize::from(known.let_in.is_some());
        queue.bound -= usize::from(known.bound.is_some());
        if let Some(count) = known.node.as_ref().and_then(|node| self.on_node.get_mut(node)) {
            *count -= 1;
        }
    }

    /// How far the pods of a queue are.
    pub fn progress(&self, queue: &str) -> Progress {
        self.queues.get(queue).copied().unwrap_or_default()
    }
}

/// The watch and what it has seen.
pub(super) struct Observer {
    sightings: Arc<Mutex<Sightings>>,
    /// Changes with every event; the text is the watch's last failure.
    events: watch::Receiver<Option<String>>,
    task: JoinHandle<()>,
}

impl Observer {
    /// Watches the pods of a namespace. Pods that are there before are seen as if they were created now.
    pub fn start(client: Client, namespace: &str) -> Self {
        let sightings = Arc::new(Mutex::new(Sightings::default()));
        let (sender, events) = watch::channel(None);
        let api: Api<SeenPod> = Api::namespaced(client, namespace);
        let task = tokio::spawn({
            let sightings = Arc::clone(&sightings);
            async move {
                let watch = watcher(api, watcher::Config::default()).default_backoff();
                pin_mut!(watch);
                while let Some(event) = watch.next().await {
                    let now = Instant::now();
                    let failure = match event {
                        Ok(watcher::Event::InitApply(pod) | watcher::Event::Apply(pod)) => {
                            lock(&sightings).see(&pod, now);
                            None
                        }
                        Ok(watcher::Event::Delete(pod)) => {
                            lock(&sightings).miss(&pod, now);
                            None
                        }
                        Ok(watcher::Event::Init | watcher::Event::InitDone) => None,
                        Err(error) => Some(error.to_string()),
                    };
                    sender.send_replace(failure);
                }
            }
        });
        Self {
            sightings,
            events,
            task,
        }
    }

    /// Looks at what was seen so far.
    pub fn look<T>(&self, look: impl FnOnce(&Sightings) -> T) -> T {
        look(&lock(&self.sightings))
    }

    /// Waits until the check gives something, looking again after every event. `state` tells how far it is, for the
    /// message when nothing happens any more.
    pub async fn until<T>(
        &self,
        what: &str,
        mut check: impl FnMut(&Sightings) -> Option<T>,
        state: impl Fn(&Sightings) -> String,
    ) -> Result<T> {
        let mut events = self.events.clone();
        loop {
            events.mark_unchanged();
            if let Some(found) = self.look(&mut check) {
                return Ok(found);
            }
            match timeout(STALL, events.changed()).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) => bail!("the watch on the load's pods ended while waiting for {what}"),
                Err(_) => bail!(
                    "nothing happened for {} s while waiting for {what}: {}{}",
                    STALL.as_secs(),
                    self.look(&state),
                    events
                        .borrow()
                        .as_ref()
                        .map(|failure| format!("; the watch failed: {failure}"))
                        .unwrap_or_default(),
                ),
            }
        }
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Nothing is left half-done when a holder panics.
fn lock(sightings: &Mutex<Sightings>) -> MutexGuard<'_, Sightings> {
    sightings.lock().unwrap_or_else(PoisonError::into_inner)
}
