//! Leader election by a Lease: one operator decides, the others stand by.
//!
//! Each admission is one compare-and-swap (the patch tests uid and gate). So even a former leader that does not know yet that it lost the
//! Lease cannot admit a pod twice. And no process leads before the API servers have been told who leads ([`Fence`]) and refuse what other
//! operators decide.

mod election;
mod record;
#[cfg(test)]
mod tests;

use std::fmt::Display;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::api::PostParams;
use kube::{Api, Client};
use programs::clock;
use programs::logging::plain;
use thiserror::Error;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};
use tracing::{debug, info, warn};

pub use election::{DURATION, RENEW, TERM};
use election::{Election, Record, Step, Version};

use crate::herald::Herald;
use crate::metrics::{Metrics, Verb, Write};
use programs::readiness::Readiness;

/// The Lease, in Cardgate's own namespace.
pub const LEASE: &str = "operator";
/// How long one request may take. The limit leaves a holder whose first renewal fails enough time for another try.
const TIME_LIMIT: Duration = Duration::from_secs(2);
/// The pause before another try, after the fence could not be raised.
const FENCE_AGAIN: Duration = Duration::from_millis(500);

/// The election is over for this process, which must end because another operator may lead.
#[derive(Debug, Error)]
pub enum LeaseError {
    /// Somebody else holds the Lease, or removed it.
    #[error("the Lease {LEASE} was taken by {0}: this operator stops, and stands by when it is started again")]
    Taken(String),
    /// The API server did not answer for too long.
    #[error("the Lease {LEASE} could not be renewed for {} s: this operator stops, since another one may lead", TERM.as_secs())]
    Silence,
}

/// Whether this process leads. Ask it at the moment of writing.
#[derive(Debug, Clone)]
pub struct Leadership {
    herald: Arc<Herald>,
    /// Until when this process leads. The outer option is none if no Lease decides about leadership.
    term: Option<Arc<Mutex<Option<Instant>>>>,
}

impl Leadership {
    /// Creates a leadership without an election: `herald` alone says whether this process leads.
    pub fn told(herald: Arc<Herald>) -> Self {
        Self { herald, term: None }
    }

    /// Whether this process leads at this moment. This looks at the clock, so a process that stood still for a while finds out before its
    /// election does.
    pub fn holds(&self) -> bool {
        let Some(term) = &self.term else {
            return self.is_elected();
        };
        let term = *term.lock().unwrap_or_else(PoisonError::into_inner);
        term.is_some_and(|end| Instant::now() < end)
    }

    /// Whether this process was elected, as last told. That is enough for writes that do no harm when two processes make them.
    pub fn is_elected(&self) -> bool {
        self.herald.says()
    }

    /// Returns a receiver that learns when this process begins to lead and when it no longer does.
    pub fn changes(&self) -> watch::Receiver<bool> {
        self.herald.listen()
    }
}

/// Where the Lease is kept.
trait Register {
    async fn read(&self) -> kube::Result<Option<Lease>>;
    async fn create(&self, lease: &Lease) -> kube::Result<Lease>;
    /// Replaces the Lease; fails if the stored Lease has another version.
    async fn replace(&self, lease: &Lease) -> kube::Result<Lease>;
}

impl Register for Api<Lease> {
    async fn read(&self) -> kube::Result<Option<Lease>> {
        self.get_opt(LEASE).await
    }

    async fn create(&self, lease: &Lease) -> kube::Result<Lease> {
        Self::create(self, &PostParams::default(), lease).await
    }

    async fn replace(&self, lease: &Lease) -> kube::Result<Lease> {
        Self::replace(self, LEASE, &PostParams::default(), lease).await
    }
}

/// Keeps former leaders from deciding further.
pub trait Fence {
    /// Why the fence could not be raised.
    type Error: Display;

    /// Makes API servers refuse what other operators decide from now on. Does nothing once `term` has ended, since the next leader may have
    /// raised the fence already.
    fn raise(&self, term: Instant) -> impl Future<Output = Result<(), Self::Error>> + Send;
}

/// Takes part in the election.
pub struct Candidate {
    identity: String,
    lease: Api<Lease>,
    published: Published,
}

impl Candidate {
    /// Creates a candidate under `identity`, the pod's name, which no other process has at the same time. After a crash, the pod's next
    /// process takes over at once what its predecessor held.
    pub fn new(
        client: Client,
        namespace: &str,
        identity: String,
        metrics: Arc<Metrics>,
        readiness: Arc<Readiness>,
    ) -> (Self, Leadership) {
        let (published, leadership) = Published::new(metrics, readiness);
        let candidate = Self {
            identity,
            lease: Api::namespaced(client, namespace),
            published,
        };
        (candidate, leadership)
    }

    /// Takes part in the election until `done`, then gives the Lease back. The output of `done` is how long requests that were sent before
    /// may still be on their way; the Lease is kept for that time. So no other process leads while something that only a leader may write
    /// is still being written. A process that has taken the Lease leads once the `fence` is raised. An error means that this process led
    /// and no longer does; it must end.
    pub async fn run(self, fence: impl Fence, done: impl Future<Output = Duration>) -> Result<(), LeaseError> {
        run(&self.lease, &fence, self.identity, self.published, done).await
    }
}

/// Tells the other parts of the process whether it leads.
struct Published {
    herald: Arc<Herald>,
    term: Arc<Mutex<Option<Instant>>>,
    metrics: Arc<Metrics>,
    readiness: Arc<Readiness>,
}

impl Published {
    fn new(metrics: Arc<Metrics>, readiness: Arc<Readiness>) -> (Self, Leadership) {
        let herald = Arc::<Herald>::default();
        let term = Arc::default();
        let leadership = Leadership {
            herald: Arc::clone(&herald),
            term: Some(Arc::clone(&term)),
        };
        readiness.leads(false);
        let published = Self {
            herald,
            term,
            metrics,
            readiness,
        };
        (published, leadership)
    }

    fn publish(&self, term: Option<Instant>) {
        *self.term.lock().unwrap_or_else(PoisonError::into_inner) = term;
        let leads = term.is_some();
        if self.herald.tell(leads) {
            self.metrics.show_leading(leads);
            self.readiness.leads(leads);
            info!(
                "{}",
                if leads {
                    "this operator leads"
                } else {
                    "this operator no longer leads"
                }
            );
        }
    }
}

impl Drop for Published {
    /// However the election ends, its end also ends the leadership.
    fn drop(&mut self) {
        self.publish(None);
        self.herald.end();
    }
}

async fn run(
    register: &impl Register,
    fence: &impl Fence,
    identity: String,
    published: Published,
    done: impl Future<Output = Duration>,
) -> Result<(), LeaseError> {
    let mut round = Round {
        election: Election::new(identity, Instant::now()),
        register,
        fence,
        is_fenced: false,
        metrics: Arc::clone(&published.metrics),
        lease: Lease::default(),
        waits_for: None,
    };
    tokio::pin!(done);
    let on_its_way = loop {
        let now = Instant::now();
        let term = round.election.term();
        // A process that led and no longer does must end: one process never leads twice.
        let led = published.herald.says();
        if led && !round.election.leads(now) {
            return Err(round.lost());
        }
        let term = term.filter(|end| now < *end);
        round.is_fenced &= term.is_some();
        published.publish(term.filter(|_| round.is_fenced));
        let step = async {
            // A leader's term ends even while a request is under way.
            if let Some(end) = term {
                timeout_at(end, round.step(now)).await.is_ok()
            } else {
                round.step(now).await;
                true
            }
        };
        tokio::select! {
            biased;
            on_its_way = &mut done => break on_its_way,
            in_time = step => if !in_time && led {
                return Err(LeaseError::Silence);
            },
        }
    };
    published.publish(None);
    sleep(on_its_way).await;
    round.release().await;
    Ok(())
}

/// The election, the Lease that it is about, and the fence.
struct Round<'r, R, F> {
    election: Election,
    register: &'r R,
    fence: &'r F,
    /// Whether the fence has been raised for the present holder of the Lease.
    is_fenced: bool,
    metrics: Arc<Metrics>,
    /// The Lease as it was read or written last. Fields that the record does not cover stay as they are.
    lease: Lease,
    /// The holder whose end of term is waited for; for the log.
    waits_for: Option<String>,
}

impl<R: Register, F: Fence> Round<'_, R, F> {
    /// Performs the next step of the election.
    async fn step(&mut self, now: Instant) {
        let term = self.election.term().filter(|_| !self.is_fenced);
        match self.election.next(now, clock::now().as_microsecond()) {
            Step::Wait(end) => match term {
                Some(term) => self.raise(term, end).await,
                None => sleep_until(end).await,
            },
            Step::Read => self.read().await,
            Step::Write(record, version) => self.write(record, version).await,
        }
    }

    /// Raises the fence. If that fails, returns after a pause; returns in any case by `end`, when the next step on the Lease is due.
    async fn raise(&mut self, term: Instant, end: Instant) {
        let failure = match timeout_at(end, timeout(TIME_LIMIT, self.fence.raise(term))).await {
            Ok(Ok(Ok(()))) => {
                self.is_fenced = true;
                return;
            }
            Ok(Ok(Err(error))) => error.to_string(),
            Ok(Err(_)) | Err(_) => "no answer in time".to_owned(),
        };
        warn!(
            error = failure,
            "can't write who leads to where the policies read it, trying again: nothing is decided before"
        );
        sleep_until(end.min(Instant::now() + FENCE_AGAIN)).await;
    }

    async fn read(&mut self) {
        let read = timeout(TIME_LIMIT, self.register.read()).await;
        let now = Instant::now();
        match read {
            Ok(Ok(lease)) => {
                let found = lease.as_ref().map(record::read);
                self.log_holder(found.as_ref().and_then(|(record, _)| record.holder.as_deref()));
                self.lease = lease.unwrap_or_default();
                self.election.read(found, now);
            }
            Ok(Err(error)) => {
                self.metrics.api_error(Verb::Get, &error);
                warn!(error = plain(&error), "can't read the Lease {LEASE}, trying again");
                self.election.unreadable(now);
            }
            Err(_) => {
                self.metrics.api_timeout(Verb::Get);
                warn!("can't read the Lease {LEASE}, trying again: no answer in time");
                self.election.unreadable(now);
            }
        }
    }

    async fn write(&mut self, record: Record, version: Version) {
        let lease = record::write(&self.lease, &record, version.clone());
        let sent = Instant::now();
        let verb = if version.is_some() { Verb::Update } else { Verb::Create };
        // The outcome of a request that is dropped half-way is unknown, so this state holds until the outcome is known.
        self.election.failed(record.clone(), sent, sent);
        self.metrics.api_write(Write::Lease);
        let write = async {
            match version {
                Some(_) => self.register.replace(&lease).await,
                None => self.register.create(&lease).await,
            }
        };
        let failure = match timeout(TIME_LIMIT, write).await {
            Ok(Ok(written)) => {
                let (_, version) = record::read(&written);
                self.lease = written;
                self.election.written(record, sent, version);
                return;
            }
            Ok(Err(kube::Error::Api(status))) if matches!(status.code, 404 | 409) => {
                debug!(reason = status.message, "somebody else was faster");
                self.election.refused();
                return;
            }
            Ok(Err(error)) => {
                self.metrics.api_error(verb, &error);
                plain(&error)
            }
            Err(_) => {
                self.metrics.api_timeout(verb);
                "no answer in time".to_owned()
            }
        };
        warn!(error = failure, "can't write the Lease {LEASE}, trying again");
        self.election.failed(record, sent, Instant::now());
    }

    /// Gives the Lease back, so that another operator leads within seconds. If that fails, the others wait until the silent holder's time
    /// is over.
    async fn release(&mut self) {
        // The second try is for a renewal that was under way and changed the Lease after all.
        for _ in 0..2 {
            let Some((record, version)) = self.election.release(clock::now().as_microsecond()) else {
                return;
            };
            let lease = record::write(&self.lease, &record, version);
            self.metrics.api_write(Write::Lease);
            match timeout(TIME_LIMIT, self.register.replace(&lease)).await {
                Ok(Ok(_)) => {
                    info!("gave the Lease {LEASE} back");
                    return;
                }
                Ok(Err(error)) => warn!(error = plain(&error), "can't give the Lease {LEASE} back"),
                Err(_) => warn!("can't give the Lease {LEASE} back: no answer in time"),
            }
            self.read().await;
        }
    }

    fn lost(&self) -> LeaseError {
        match record::read(&self.lease).0.holder {
            Some(holder) if self.election.term().is_none() => LeaseError::Taken(holder),
            None if self.election.term().is_none() => LeaseError::Taken("nobody".to_owned()),
            _ => LeaseError::Silence,
        }
    }

    fn log_holder(&mut self, holder: Option<&str>) {
        if self.waits_for.as_deref() != holder {
            self.waits_for = holder.map(str::to_owned);
            info!("the Lease {LEASE} is held by {}", holder.unwrap_or("nobody"));
        }
    }
}
