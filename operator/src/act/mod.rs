//! Act: lets pods in and takes them back. Only here are pods written.

mod patch;

use std::sync::Arc;
use std::time::Duration;

use crds::keys::{CARD_ASSIGNED, GATE};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, EvictParams, Patch, PatchParams, Preconditions};
use kube::{Api, Client, Error};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::time::{Instant, sleep, timeout};

use crate::decide::{Admission, PodRef};
use crate::event::{Event, Outcome};
pub use patch::admission_patch;

/// How many pods are written at once. More would only wait in the API server, which serves few writes at a time.
const LANES: usize = 16;
/// How long one write may take.
const WRITE_LIMIT: Duration = Duration::from_secs(10);
/// How long an admission is tried before its reservation is given back.
const TRY_LIMIT: Duration = Duration::from_secs(30);
/// The wait before the second try; doubled every time.
const FIRST_WAIT: Duration = Duration::from_millis(100);
/// The longest wait between two tries.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// Writes pods, in the order in which it is told to.
#[derive(Clone)]
pub struct Actor {
    client: Client,
    lanes: Arc<Semaphore>,
    events: mpsc::Sender<Event>,
    leads: watch::Receiver<bool>,
    count: Count,
}

/// Called with the verb and the code of every failed write, for the metrics.
pub type Count = Arc<dyn Fn(&'static str, u16) + Send + Sync>;

/// What one try came to.
enum Tried {
    Done,
    /// The pod is not what the decision was made for.
    Refused(String),
    /// It may work later.
    Failed(String),
}

impl Actor {
    /// An actor that acts only while `leads` says so, and sends outcomes to `events`.
    pub fn new(client: Client, events: mpsc::Sender<Event>, leads: watch::Receiver<bool>, count: Count) -> Self {
        Self {
            client,
            lanes: Arc::new(Semaphore::new(LANES)),
            events,
            leads,
            count,
        }
    }

    /// Lets a pod in; the outcome comes as an event.
    pub fn admit(&self, admission: Admission) {
        let actor = self.clone();
        tokio::spawn(async move {
            let outcome = actor.try_to_admit(&admission).await;
            // The mind is gone only when the program ends.
            let _ = actor.events.send(Event::Outcome(admission.pod.uid, outcome)).await;
        });
    }

    async fn try_to_admit(&self, admission: &Admission) -> Outcome {
        let pod = &admission.pod;
        let patch = Patch::Json::<()>(admission_patch(admission));
        let deadline = Instant::now() + TRY_LIMIT;
        let mut wait = FIRST_WAIT;
        loop {
            let reason = match self.admit_once(admission, &patch).await {
                Tried::Done => {
                    tracing::info!(pod = %pod, queue = %admission.queue, card = admission.card.as_deref(), "admitted");
                    return Outcome::Admitted;
                }
                Tried::Refused(reason) => {
                    tracing::info!(pod = %pod, queue = %admission.queue, reason, "not admitted: the pod has changed");
                    return Outcome::Refused;
                }
                Tried::Failed(reason) => reason,
            };
            if Instant::now() + wait >= deadline {
                tracing::warn!(pod = %pod, queue = %admission.queue, reason, "not admitted: giving the reservation back");
                return Outcome::Refused;
            }
            tracing::debug!(pod = %pod, reason, "admission failed, trying again");
            sleep(wait).await;
            wait = (wait * 2).min(LONGEST_WAIT);
        }
    }

    async fn admit_once(&self, admission: &Admission, patch: &Patch<()>) -> Tried {
        let Ok(_lane) = self.lanes.acquire().await else {
            return Tried::Refused("shutting down".into());
        };
        if !*self.leads.borrow() {
            return Tried::Refused("no longer the leader".into());
        }
        let api = self.pods(&admission.pod);
        let params = PatchParams::default();
        let write = api.patch_metadata(&admission.pod.name, &params, patch);
        match timeout(WRITE_LIMIT, write).await {
            Ok(Ok(_)) => Tried::Done,
            Ok(Err(Error::Api(status))) => {
                (self.count)("patch", status.code);
                match status.code {
                    // A failed test and a failed validation look alike, and the answer to an earlier try may be lost.
                    409 | 422 => self.look_again(admission, &status.message).await,
                    400..=499 if status.code != 429 => Tried::Refused(status.message),
                    _ => Tried::Failed(status.message),
                }
            }
            Ok(Err(error)) => {
                (self.count)("patch", 0);
                Tried::Failed(error.to_string())
            }
            Err(_) => {
                (self.count)("patch", 0);
                Tried::Failed(format!("no answer within {} s", WRITE_LIMIT.as_secs()))
            }
        }
    }

    /// Whether the pod is already as it should be.
    async fn look_again(&self, admission: &Admission, refusal: &str) -> Tried {
        match timeout(WRITE_LIMIT, self.pods(&admission.pod).get(&admission.pod.name)).await {
            Ok(Ok(pod)) if is_admitted(&pod, admission) => Tried::Done,
            Ok(Ok(_)) => Tried::Refused(refusal.to_owned()),
            Ok(Err(Error::Api(status))) if status.code == 404 => Tried::Refused("the pod is gone".into()),
            Ok(Err(error)) => Tried::Failed(error.to_string()),
            Err(_) => Tried::Failed(format!("no answer within {} s", WRITE_LIMIT.as_secs())),
        }
    }

    /// Takes an admitted pod back that could not be placed.
    pub fn send_back(&self, pod: PodRef, message: String) {
        let actor = self.clone();
        tokio::spawn(async move {
            match actor.evict(&pod).await {
                Ok(()) => tracing::info!(pod = %pod, message, "evicted"),
                Err(reason) => tracing::warn!(pod = %pod, message, reason, "not evicted, trying again later"),
            }
        });
    }

    /// Takes an admitted pod back through the Eviction API, so that its controller can tell it from a failure, and that
    /// disruption budgets are respected.
    async fn evict(&self, pod: &PodRef) -> Result<(), String> {
        if !*self.leads.borrow() {
            return Err("no longer the leader".into());
        }
        let this_pod = Preconditions {
            uid: Some(pod.uid.to_string()),
            resource_version: None,
        };
        let params = EvictParams {
            delete_options: Some(DeleteParams {
                preconditions: Some(this_pod),
                ..DeleteParams::default()
            }),
            ..EvictParams::default()
        };
        match timeout(WRITE_LIMIT, self.pods(pod).evict(&pod.name, &params)).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(Error::Api(status))) => {
                (self.count)("evict", status.code);
                Err(status.message)
            }
            Ok(Err(error)) => {
                (self.count)("evict", 0);
                Err(error.to_string())
            }
            Err(_) => Err(format!("no answer within {} s", WRITE_LIMIT.as_secs())),
        }
    }

    fn pods(&self, pod: &PodRef) -> Api<Pod> {
        Api::namespaced(self.client.clone(), &pod.namespace)
    }
}

/// Whether the pod is let in with the card of this admission: an earlier try went through after all.
fn is_admitted(pod: &Pod, admission: &Admission) -> bool {
    let gates = pod.spec.as_ref().and_then(|spec| spec.scheduling_gates.as_ref());
    let waits = gates.is_some_and(|gates| gates.iter().any(|gate| gate.name == GATE));
    let annotations = pod.metadata.annotations.as_ref();
    let card = annotations
        .and_then(|annotations| annotations.get(CARD_ASSIGNED))
        .map(String::as_str);
    pod.metadata.uid.as_deref() == Some(&*admission.pod.uid) && !waits && card == admission.card.as_deref()
}
