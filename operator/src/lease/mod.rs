//! Leader election by a Lease: one operator decides, the others stand by.
//!
//! A pod that is let in is one compare-and-swap of its own (the patch tests uid and gate), so even a leader that does not
//! know yet that it is none can let no pod in twice. And nobody leads before API servers have been told who does ([`Fence`]), and
//! refuse what others decide.

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
/// How long one request may take. With it, a holder whose first renewal fails has time for another.
const TIME_LIMIT: Duration = Duration::from_secs(2);
/// The pause after the fence could not be raised.
const FENCE_AGAIN: Duration = Duration::from_millis(500);

/// The election is over for this process, which must end: somebody else may lead.
#[derive(Debug, Error)]
pub enum LeaseError {
    /// Somebody else holds the Lease, or removed it.
    #[error("the Lease {LEASE} was taken by {0}: this operator stops, and stands by when it is started again")]
    Taken(String),
    /// The API server did not answer for too long.
    #[error("the Lease {LEASE} could not be renewed for {} s: this operator stops, since another one may lead", TERM.as_secs())]
    Silence,
}

/// Whether this process leads, to be asked at the moment of writing.
#[derive(Debug, Clone)]
pub struct Leadership {
    herald: Arc<Herald>,
    /// Until when; none where no Lease says so.
    term: Option<Arc<Mutex<Option<Instant>>>>,
}

impl Leadership {
    /// As somebody says it who holds no election.
    pub fn told(herald: Arc<Herald>) -> Self {
        Self { herald, term: None }
    }

    /// Whether this process leads at this moment. Looks at the clock, so that a process that stood still for a while finds
    /// out before its election does.
    pub fn holds(&self) -> bool {
        let Some(term) = &self.term else {
            return self.is_elected();
        };
        let term = *term.lock().unwrap_or_else(PoisonError::into_inner);
        term.is_some_and(|end| Instant::now() < end)
    }

    /// Whether this process was elected, as it was last told; enough for what does no harm when it is written twice.
    pub fn is_elected(&self) -> bool {
        self.herald.says()
    }

    /// Tells when this process begins to lead and when it no longer does.
    pub fn changes(&self) -> watch::Receiver<bool> {
        self.herald.listen()
    }
}

/// Where the Lease is kept.
trait Register {
    async fn read(&self) -> kube::Result<Option<Lease>>;
    async fn create(&self, lease: &Lease) -> kube::Result<Lease>;
    /// Fails if the Lease is of another version.
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

/// What keeps former leaders from deciding on.
pub trait Fence {
    /// Why it could not be raised.
    type Error: Display;

    /// Has whatever others decide refused from now on, unless `term` has ended: whoever leads then may have raised it already.
    fn raise(&self, term: Instant) -> impl Future<Output = Result<(), Self::Error>> + Send;
}

/// Takes part in the election.
pub struct Candidate {
    identity: String,
    lease: Api<Lease>,
    published: Published,
}

impl Candidate {
    /// A candidate under this name, which no other process has at the same time: the pod's name. After a crash, the pod's
    /// next process takes over at once what its predecessor held.
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

    /// Takes part until `done`, which says how long what was sent before may still be on its way, and gives the Lease back when
    /// that time is over: nobody else leads while something is written that only a leader may write. Whoever has taken the Lease leads
    /// once the `fence` is raised. An error means that this process led and no longer does; it must end.
    pub async fn run(self, fence: impl Fence, done: impl Future<Output = Duration>) -> Result<(), LeaseError> {
        run(&self.lease, &fence, self.identity, self.published, done).await
    }
}

/// Tells everybody whether this process leads.
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
            self.metrics.leads(leads);
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
    /// Whatever ends the election ends the leadership.
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
        // Whoever led and does so no longer ends; nobody leads twice in one process.
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
    /// Whether it has been raised for who holds the Lease now.
    is_fenced: bool,
    metrics: Arc<Metrics>,
    /// As it was read or written last: what the record does not say stays as it is.
    lease: Lease,
    /// Whose end of term is waited for, for the log.
    waits_for: Option<String>,
}

impl<R: Register, F: Fence> Round<'_, R, F> {
    /// Does one thing.
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

    /// Raises the fence; returns after a pause where that fails, and by `end`, when the Lease is due.
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
        // What becomes of a request that is dropped half-way is unknown, so that is the state until it is known.
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

    /// Gives the Lease back, so that another operator leads within seconds. If that fails, others wait for a silent holder.
    async fn release(&mut self) {
        // A second time if a renewal was under way, and changed the Lease after all.
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
