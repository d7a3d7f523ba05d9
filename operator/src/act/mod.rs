//! Act: lets pods in and takes them back, and keeps the label of GPU nodes. Only here are pods and nodes written.

mod bind;
mod evict;
mod node_label;
mod patch;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crds::keys::{CARD_ASSIGNED, GATE};
use engine::decide::{Admission, Resumption};
use engine::refs::PodRef;
use engine::{Answer, Outcome};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use kube::core::Status;
use kube::{Api, Client, Error};
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::{Instant, sleep};

use crate::event::Event;
use crate::lease::Leadership;
use crate::metrics::{Metrics, Verb, Write};
use crate::request::RequestError;
pub use patch::{admission_patch, resumption_patch};

/// How many pods are written at once. More would only wait in the API server, which serves few writes at a time.
pub const LANES: usize = 16;
/// How many nodes are written at once, beside the pods: an admission never waits behind them.
const NODE_LANES: usize = 2;
/// How long one write may take: less than the time between the end of one leadership and the begin of the next.
pub const WRITE_LIMIT: Duration = Duration::from_secs(4);
/// More requests than are ever on their way at once: a bound by name only.
const REQUESTS: u32 = 1 << 16;
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
    /// Where requests are awaited: whoever decides has no time for them.
    runtime: Handle,
    lanes: Arc<Semaphore>,
    node_lanes: Arc<Semaphore>,
    requests: Arc<Requests>,
    events: mpsc::Sender<Event>,
    leadership: Leadership,
    metrics: Arc<Metrics>,
}

/// The requests of one mind that are on their way.
#[derive(Debug)]
struct Requests {
    under_way: Semaphore,
    /// Whether the mind has been replaced: then no further one is sent.
    retired: AtomicBool,
}

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
enum Failure {
    /// The API server says so.
    #[error("{}", .0.message)]
    Api(Box<Status>),
    /// The API server did not answer, or not so that it can be understood.
    #[error("{0}")]
    Other(String),
}

/// What one try came to.
enum Tried {
    Done,
    /// The pod is not what the decision was made for.
    Refused(String),
    /// It may work later.
    Failed(String),
}

impl Actor {
    /// An actor that acts only while this process leads, and sends outcomes to `events`. It acts on the runtime that this is
    /// called on, whoever tells it to.
    pub fn new(client: Client, events: mpsc::Sender<Event>, leadership: Leadership, metrics: Arc<Metrics>) -> Self {
        Self {
            client,
            runtime: Handle::current(),
            requests: Arc::new(Requests {
                under_way: Semaphore::new(REQUESTS as usize),
                retired: AtomicBool::new(false),
            }),
            lanes: Arc::new(Semaphore::new(LANES)),
            node_lanes: Arc::new(Semaphore::new(NODE_LANES)),
            events,
            leadership,
            metrics,
        }
    }

    /// Whether it acts no more, since another one does.
    pub fn is_retired(&self) -> bool {
        self.requests.retired.load(Ordering::Acquire)
    }

    /// Acts no more, and returns when nothing is on its way.
    pub async fn retire(&self) {
        self.requests.retired.store(true, Ordering::Release);
        // Never closed, so this fails never.
        let _ = self.requests.under_way.acquire_many(REQUESTS).await;
    }

    /// Lets a pod in; the outcome comes as an event.
    pub fn admit(&self, admission: Admission) {
        let actor = self.clone();
        self.runtime.spawn(async move {
            let answer = actor.try_to_admit(&admission).await;
            // The mind is gone only when the program ends.
            let _ = actor
                .events
                .send(Event::Outcome(Outcome::Admission(admission.pod.uid, answer)))
                .await;
        });
    }

    /// Resumes a Job; the outcome comes as an event.
    pub fn resume(&self, resumption: Resumption) {
        let actor = self.clone();
        self.runtime.spawn(async move {
            let answer = actor.try_to_resume(&resumption).await;
            // The mind is gone only when the program ends.
            let _ = actor
                .events
                .send(Event::Outcome(Outcome::Resumption(resumption.job.uid, answer)))
                .await;
        });
    }

    async fn try_to_resume(&self, resumption: &Resumption) -> Answer {
        let job = &resumption.job;
        let api: Api<Job> = Api::namespaced(self.client.clone(), &job.namespace);
        let patch = Patch::Json::<()>(resumption_patch(&job.uid));
        match keep_trying(|| self.resume_once(&api, &job.name, &patch)).await {
            Ok(()) => {
                tracing::info!(job = %job, queue = %resumption.queue, "resumed");
                Answer::Accepted
            }
            Err(reason) => {
                tracing::warn!(job = %job, queue = %resumption.queue, reason, "not resumed");
                Answer::Refused
            }
        }
    }

    async fn resume_once(&self, api: &Api<Job>, name: &str, patch: &Patch<()>) -> Tried {
        let Ok(_lane) = self.lanes.acquire().await else {
            return Tried::Refused("shutting down".into());
        };
        if !self.leadership.holds() {
            return Tried::Refused("no longer the leader".into());
        }
        self.metrics.api_write(Write::Resumption);
        let params = PatchParams::default();
        match self
            .in_time(Verb::Patch, api.patch_metadata(name, &params, patch))
            .await
        {
            Ok(_) => Tried::Done,
            Err(Failure::Api(status)) if (400..500).contains(&status.code) && status.code != 429 => {
                Tried::Refused(status.message)
            }
            Err(failure) => Tried::Failed(failure.to_string()),
        }
    }

    async fn try_to_admit(&self, admission: &Admission) -> Answer {
        let (pod, queue, card) = (&admission.pod, &*admission.queue, admission.card.as_deref());
        let patch = Patch::Json::<()>(admission_patch(admission));
        match keep_trying(|| self.admit_once(admission, &patch)).await {
            Ok(()) => {
                let waited = Timestamp::now().duration_since(admission.arrived);
                self.metrics.admitted(Duration::try_from(waited).unwrap_or_default());
                tracing::info!(%pod, %queue, card, "admitted");
                Answer::Accepted
            }
            Err(reason) => {
                tracing::info!(%pod, %queue, card, reason, "not admitted: the reservation is given back");
                Answer::Refused
            }
        }
    }

    async fn admit_once(&self, admission: &Admission, patch: &Patch<()>) -> Tried {
        let Ok(_lane) = self.lanes.acquire().await else {
            return Tried::Refused("shutting down".into());
        };
        if !self.leadership.holds() {
            return Tried::Refused("no longer the leader".into());
        }
        let api = self.pods(&admission.pod);
        let params = PatchParams::default();
        self.metrics.api_write(Write::Admission);
        let write = api.patch_metadata(&admission.pod.name, &params, patch);
        match self.in_time(Verb::Patch, write).await {
            Ok(_) => Tried::Done,
            // A failed test and a failed validation look alike, and the answer to an earlier try may be lost.
            Err(Failure::Api(status)) if matches!(status.code, 409 | 422) => {
                self.look_again(admission, &status.message).await
            }
            Err(Failure::Api(status)) if (400..500).contains(&status.code) && status.code != 429 => {
                Tried::Refused(status.message)
            }
            Err(failure) => Tried::Failed(failure.to_string()),
        }
    }

    /// Whether the pod is already as it should be.
    async fn look_again(&self, admission: &Admission, refusal: &str) -> Tried {
        let api = self.pods(&admission.pod);
        match self.in_time(Verb::Get, api.get(&admission.pod.name)).await {
            Ok(pod) if is_admitted(&pod, admission) => Tried::Done,
            Ok(_) => Tried::Refused(refusal.to_owned()),
            Err(Failure::Api(status)) if status.code == 404 => Tried::Refused("the pod is gone".into()),
            Err(failure) => Tried::Failed(failure.to_string()),
        }
    }

    /// Awaits an answer for a limited time, and counts what fails.
    async fn in_time<T>(&self, verb: Verb, request: impl Future<Output = Result<T, Error>>) -> Result<T, Failure> {
        let Ok(_under_way) = self.requests.under_way.acquire().await else {
            return Err(Failure::Other("shutting down".into()));
        };
        if self.requests.retired.load(Ordering::Acquire) {
            return Err(Failure::Other("decided by a mind that was replaced".into()));
        }
        let answer = self.metrics.in_time(verb, WRITE_LIMIT, request).await;
        answer.map_err(|error| match error {
            RequestError::Refused(Error::Api(status)) => Failure::Api(status),
            error => Failure::Other(error.to_string()),
        })
    }

    fn pods(&self, pod: &PodRef) -> Api<Pod> {
        Api::namespaced(self.client.clone(), &pod.namespace)
    }
}

/// Tries until it is done, or refused, or has failed for too long; then says why.
async fn keep_trying<F: Future<Output = Tried>>(once: impl Fn() -> F) -> Result<(), String> {
    let deadline = Instant::now() + TRY_LIMIT;
    let mut wait = FIRST_WAIT;
    loop {
        let reason = match once().await {
            Tried::Done => return Ok(()),
            Tried::Refused(reason) => return Err(reason),
            Tried::Failed(reason) => reason,
        };
        if Instant::now() + wait >= deadline {
            return Err(format!("given up: {reason}"));
        }
        tracing::debug!(reason, "a write failed, trying again");
        sleep(wait).await;
        wait = (wait * 2).min(LONGEST_WAIT);
    }
}

/// Whether the pod is let in with the results of this admission: an earlier try went through after all.
fn is_admitted(pod: &Pod, admission: &Admission) -> bool {
    let gates = pod.spec.as_ref().and_then(|spec| spec.scheduling_gates.as_ref());
    let waits = gates.is_some_and(|gates| gates.iter().any(|gate| gate.name == GATE));
    let annotations = pod.metadata.annotations.as_ref();
    let annotation = |key| {
        annotations
            .and_then(|annotations| annotations.get(key))
            .map(String::as_str)
    };
    let mut results = patch::results(admission);
    pod.metadata.uid.as_deref() == Some(&*admission.pod.uid)
        && !waits
        && annotation(CARD_ASSIGNED) == admission.card.as_deref()
        && results.all(|(key, value)| annotation(key) == Some(value))
}
