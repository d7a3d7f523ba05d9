//! Act: admits pods and evicts them, resumes Jobs, and keeps the labels of nodes. Only this module writes what was decided; `report` writes
//! what is shown about it.

mod bind;
mod evict;
mod lanes;
mod node_label;
mod patch;
#[cfg(test)]
mod tests;
mod tries;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crds::job::Job;
use crds::keys::{CARD_ASSIGNED, GATE, JOB_HELD};
use crds::observed::Observed;
use crds::pod::Pod;
use engine::Outcome;
use engine::decide::{Admission, Resumption};
use engine::refs::{PodRef, WorkloadRef};
use k8s_openapi::api::{batch, core};
use kube::api::{ListParams, Patch};
use kube::core::Status;
use kube::{Api, Client, Error};
use programs::{clock, lean_requests};
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, mpsc};

use crate::event::Event;
use crate::lease::Leadership;
use crate::metrics::{Metrics, Verb, Write};
use crate::request::{RequestError, is_about_requester};
use evict::Budgets;
pub use lanes::LANES;
use lanes::{Lanes, NOT_ANSWERED};
pub use patch::{admission_patch, resumption_patch};
use tries::{Ended, Tried, keep_trying};

/// How many nodes are written at once. These lanes are separate from those of pods, so an admission never waits behind nodes.
const NODE_LANES: usize = 2;
/// How long one write may take: less than the time between the end of one leadership and the beginning of the next.
pub const WRITE_LIMIT: Duration = Duration::from_secs(4);
/// HTTP status for a client that the API server has no time for, and for an eviction that a disruption budget forbids.
const TOO_MANY_REQUESTS: u16 = 429;
/// Cause in such an answer if a disruption budget forbids the eviction.
const DISRUPTION_BUDGET: &str = "DisruptionBudget";
/// More requests than are ever on their way at once; in practice no limit.
const REQUESTS: u32 = 1 << 16;

/// A Job, of which only the fields are read that Cardgate needs.
type ObservedJob = Observed<batch::v1::Job, Job<Box<str>>>;

/// Writes pods, in the order of the calls.
#[derive(Clone)]
pub struct Actor {
    client: Client,
    /// The runtime on which requests are awaited: the thread that decides has no time for them.
    runtime: Handle,
    lanes: Arc<Lanes>,
    node_lanes: Arc<Semaphore>,
    budgets: Arc<Budgets>,
    requests: Arc<Requests>,
    events: mpsc::Sender<Event>,
    leadership: Leadership,
    metrics: Arc<Metrics>,
}

/// The requests of one mind that are on their way.
#[derive(Debug)]
struct Requests {
    under_way: Semaphore,
    /// Whether the mind has been replaced. Then no further request is sent.
    retired: AtomicBool,
}

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
enum Failure {
    /// The API server refused the request.
    #[error("{}", .0.message)]
    Api(Box<Status>),
    /// For the moment, the API server knows nobody's rights, or takes the operator for a former leader.
    #[error("{0}")]
    AboutRequester(String),
    /// No request was sent.
    #[error("{0}")]
    NotSent(&'static str),
    /// Nothing was written, since it is not known what the object is like by now.
    #[error("{0}")]
    LookAgain(String),
    /// Nothing was written, since somebody else has written the object after it was read.
    #[error("{0}")]
    Rewritten(String),
    /// The API server did not answer, or its answer cannot be understood.
    #[error("{0}")]
    Other(String),
}

impl Failure {
    /// Returns the failure for a status with which the API server refuses a request.
    fn of(status: Status) -> Self {
        if is_about_requester(&status) {
            Self::AboutRequester(status.message)
        } else {
            Self::Api(Box::new(status))
        }
    }

    /// Whether another try may be answered differently in a moment: the API server has no time, or is shutting down, or the object has
    /// to be read again. A refusal by a disruption budget has the same code, but is an answer. Code 500, for a pod with several budgets,
    /// is an answer too.
    fn is_passing(&self) -> bool {
        let Self::Api(status) = self else {
            return matches!(self, Self::LookAgain(_) | Self::Rewritten(_));
        };
        let causes = status.details.iter().flat_map(|details| &details.causes);
        let is_forbidden = causes.into_iter().any(|cause| cause.reason == DISRUPTION_BUDGET);
        matches!(status.code, TOO_MANY_REQUESTS | 502..=504) && !is_forbidden
    }

    /// Whether the request may have been carried out nevertheless: there was no answer, or the server that answered lost sight of the
    /// request. The answer for a pod with several disruption budgets has the same code (500) and counts as well.
    fn may_be_done(&self) -> bool {
        matches!(self, Self::Other(_)) || matches!(self, Self::Api(status) if status.code >= 500)
    }

    /// Whether the object is gone, or has been replaced by another object.
    fn is_gone(&self) -> bool {
        matches!(self, Self::Api(status) if matches!(status.code, 404 | 409))
    }
}

impl Actor {
    /// Returns an actor that acts only while this process leads, and that sends outcomes to `events`. All requests run on the runtime on
    /// which this function is called, even if other threads give the orders.
    pub fn new(client: Client, events: mpsc::Sender<Event>, leadership: Leadership, metrics: Arc<Metrics>) -> Self {
        Self {
            client,
            runtime: Handle::current(),
            requests: Arc::new(Requests {
                under_way: Semaphore::new(REQUESTS as usize),
                retired: AtomicBool::new(false),
            }),
            lanes: Arc::default(),
            node_lanes: Arc::new(Semaphore::new(NODE_LANES)),
            budgets: Arc::default(),
            events,
            leadership,
            metrics,
        }
    }

    /// Whether the actor acts no more, since another actor has replaced it.
    pub fn is_retired(&self) -> bool {
        self.requests.retired.load(Ordering::Acquire)
    }

    /// Stops acting, and returns when no request is on its way any more.
    pub async fn retire(&self) {
        self.requests.retired.store(true, Ordering::Release);
        // The semaphore is never closed, so this never fails.
        let _ = self.requests.under_way.acquire_many(REQUESTS).await;
    }

    /// Admits a pod; the outcome comes as an event.
    pub fn admit(&self, admission: Admission) {
        let actor = self.clone();
        self.runtime.spawn(async move {
            let ended = actor.try_to_admit(&admission).await;
            let outcome = |answer| Outcome::Admission(Arc::clone(&admission.pod.uid), answer);
            // The mind is gone only when the program ends.
            let _ = actor.events.send(Event::Outcome(outcome(ended.answer()))).await;
            if let Ended::Unknown(reason) = ended {
                actor.find_out(&reason, outcome, || actor.is_let_in(&admission)).await;
            }
        });
    }

    /// Resumes a Job. The outcome comes as an event; a second event follows if the Job is resumed.
    pub fn resume(&self, resumption: Resumption) {
        let actor = self.clone();
        self.runtime.spawn(async move {
            let ended = actor.try_to_resume(&resumption).await;
            let outcome = |answer| Outcome::Resumption(resumption.job.clone(), answer);
            // The mind is gone only when the program ends.
            let _ = actor.events.send(Event::Outcome(outcome(ended.answer()))).await;
            let look = || actor.is_resumed(&resumption.job);
            let is_resumed = match ended {
                Ended::Unknown(reason) => actor.find_out(&reason, outcome, look).await,
                ended => matches!(ended, Ended::Done),
            };
            if is_resumed {
                let _ = actor.events.send(Event::Resumed(resumption)).await;
            }
        });
    }

    async fn try_to_resume(&self, resumption: &Resumption) -> Ended {
        let job = &resumption.job;
        let patch = Patch::Json::<()>(resumption_patch(&job.uid));
        let ended = keep_trying(|| self.in_lane(&job.namespace, || self.resume_once(job, &patch))).await;
        match &ended {
            Ended::Done => tracing::info!(job = %job, queue = %resumption.queue, "resumed"),
            ended => tracing::warn!(job = %job, queue = %resumption.queue, reason = ended.reason(), "not resumed"),
        }
        ended
    }

    async fn resume_once(&self, job: &WorkloadRef, patch: &Patch<()>) -> Tried {
        self.metrics.api_write(Write::Resumption);
        let write = lean_requests::patch::<batch::v1::Job>(&self.client, Some(&job.namespace), &job.name, patch);
        match self.in_time(Verb::Patch, write).await {
            Ok(()) => Tried::Done,
            // A failed test and a failed validation look alike, and the answer to an earlier try may have been lost.
            Err(Failure::Api(status)) if matches!(status.code, 409 | 422) => match self.job(job).await {
                Ok(Some(found)) if !found.is_suspended() => Tried::Done,
                Ok(Some(found)) if is_marked_as_held(&found) => Tried::not_taken(*status),
                Ok(_) => Tried::NotWritten(status.message),
                Err(failure) => Tried::Failed(failure.to_string()),
            },
            Err(failure) => Tried::of(failure),
        }
    }

    /// Whether a Job is seen to run; none if it cannot be read.
    async fn is_resumed(&self, job: &WorkloadRef) -> Option<bool> {
        let found = self.job(job).await.ok()?;
        Some(found.is_some_and(|found| !found.is_suspended()))
    }

    /// Returns a Job as it is now; none if it is gone. The Job is listed by its name, because the operator may list Jobs but not get them.
    async fn job(&self, job: &WorkloadRef) -> Result<Option<Job<Box<str>>>, Failure> {
        let named = ListParams::default().fields(&format!("metadata.name={}", job.name));
        let jobs = Api::<ObservedJob>::namespaced(self.client.clone(), &job.namespace);
        let found = self.in_time(Verb::List, jobs.list(&named)).await?;
        let mut found = found.items.into_iter().map(|found| found.object);
        Ok(found.find(|found| found.metadata.uid.as_deref() == Some(&*job.uid)))
    }

    async fn try_to_admit(&self, admission: &Admission) -> Ended {
        let (pod, queue, card) = (&admission.pod, &*admission.queue, admission.card.as_deref());
        let patch = Patch::Json::<()>(admission_patch(admission));
        let ended = keep_trying(|| self.in_lane(&pod.namespace, || self.admit_once(admission, &patch))).await;
        match &ended {
            Ended::Done => {
                let waited = clock::now().duration_since(admission.arrived);
                let waited = Duration::try_from(waited).unwrap_or_default();
                self.metrics.admitted(queue, waited);
                tracing::info!(%pod, %queue, card, "admitted");
            }
            Ended::NotWritten(reason) | Ended::Refused(reason) | Ended::Failed(reason) => {
                tracing::info!(%pod, %queue, card, reason, "not admitted: the reservation is given back");
            }
            Ended::Unknown(reason) => {
                tracing::warn!(%pod, %queue, card, reason, "perhaps admitted: the reservation is kept until the pod is read");
            }
        }
        ended
    }

    async fn admit_once(&self, admission: &Admission, patch: &Patch<()>) -> Tried {
        let pod = &admission.pod;
        self.metrics.api_write(Write::Admission);
        let write = lean_requests::patch::<core::v1::Pod>(&self.client, Some(&pod.namespace), &pod.name, patch);
        match self.in_time(Verb::Patch, write).await {
            Ok(()) => Tried::Done,
            // A failed test and a failed validation look alike, and the answer to an earlier try may have been lost.
            Err(Failure::Api(status)) if matches!(status.code, 409 | 422) => self.look_again(admission, status).await,
            Err(failure) => Tried::of(failure),
        }
    }

    /// Whether a pod is seen to be admitted as decided; none if it cannot be read.
    async fn is_let_in(&self, admission: &Admission) -> Option<bool> {
        match self.pod(&admission.pod).await {
            Ok(found) => Some(is_admitted(&found, admission)),
            Err(failure) => failure.is_gone().then_some(false),
        }
    }

    /// Tries once to write an object of a namespace, in a lane and while this process leads.
    async fn in_lane<F: Future<Output = Tried>>(&self, namespace: &str, once: impl FnOnce() -> F) -> Tried {
        let write = || async {
            if self.leadership.holds() {
                once().await
            } else {
                Tried::NotWritten("no longer the leader".into())
            }
        };
        let tried = self.lanes.write(namespace, write).await;
        // The write was not refused. The pod is unchanged, and keeps its place in a gang that has begun.
        tried.unwrap_or_else(|| Tried::NotWritten(NOT_ANSWERED.to_owned()))
    }

    /// Reads the pod after a refused patch. The result is done if the pod is already as it should be.
    async fn look_again(&self, admission: &Admission, refusal: Box<Status>) -> Tried {
        match self.pod(&admission.pod).await {
            Ok(pod) if is_admitted(&pod, admission) => Tried::Done,
            Ok(pod) if is_waiting(&pod, &admission.pod.uid) => Tried::not_taken(*refusal),
            Ok(_) => Tried::NotWritten(refusal.message),
            Err(failure) => not_seen(&failure),
        }
    }

    /// Awaits an answer for a limited time, and counts failures.
    async fn in_time<T>(&self, verb: Verb, request: impl Future<Output = Result<T, Error>>) -> Result<T, Failure> {
        let Ok(_under_way) = self.requests.under_way.acquire().await else {
            return Err(Failure::NotSent("shutting down"));
        };
        if self.requests.retired.load(Ordering::Acquire) {
            return Err(Failure::NotSent("decided by a mind that was replaced"));
        }
        let answer = self.metrics.in_time(verb, WRITE_LIMIT, request).await;
        answer.map_err(|error| match error {
            RequestError::Refused(Error::Api(status)) => Failure::of(*status),
            error => Failure::Other(error.to_string()),
        })
    }

    /// Returns a pod as it is now.
    async fn pod(&self, pod: &PodRef) -> Result<Pod<Box<str>>, Failure> {
        let look = lean_requests::get::<core::v1::Pod, _>(&self.client, Some(&pod.namespace), &pod.name);
        self.in_time(Verb::Get, look).await
    }

    /// Returns the API in which subresources of pods are created.
    fn pods(&self, pod: &PodRef) -> Api<core::v1::Pod> {
        Api::namespaced(self.client.clone(), &pod.namespace)
    }
}

/// Returns the result of a write that was not done and whose object could not be read.
fn not_seen(failure: &Failure) -> Tried {
    if failure.is_gone() {
        Tried::NotWritten("it is gone".to_owned())
    } else {
        Tried::Failed(failure.to_string())
    }
}

/// Whether this is the pod with that uid, it is not being deleted, and Cardgate's gate is its only gate.
fn is_waiting(pod: &Pod<Box<str>>, uid: &str) -> bool {
    let is_ours = pod.spec.scheduling_gates.len() == 1 && pod.spec.has_gate(GATE);
    pod.metadata.uid.as_deref() == Some(uid) && is_ours && pod.metadata.deletion_timestamp.is_none()
}

/// Whether Cardgate has suspended the Job.
fn is_marked_as_held(job: &Job<Box<str>>) -> bool {
    job.metadata.annotations.contains_key(JOB_HELD)
}

/// Whether the pod is admitted with the results of this admission, because an earlier try went through after all.
fn is_admitted(pod: &Pod<Box<str>>, admission: &Admission) -> bool {
    let annotation = |key| pod.metadata.annotations.get(key);
    let mut results = admission.results();
    pod.metadata.uid.as_deref() == Some(&*admission.pod.uid)
        && !pod.spec.has_gate(GATE)
        && annotation(CARD_ASSIGNED) == admission.assigned()
        && results.all(|(key, value)| annotation(key) == Some(value))
}
