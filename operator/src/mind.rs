//! The mind: one thread that hears events, keeps a picture of the cluster, decides, and hands out the work to be done.

pub mod attend;
mod hear;
mod inquiries;
mod quarantine;
mod questions;
mod show;
mod usages;

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use crds::configuration::Configuration;
use engine::cluster::{Cluster, Kind};
use engine::decide::{Action, Round};
use engine::explain::Refresher;
use engine::happening::Happening;
use engine::ids::QueueId;
use engine::overview::Unaccounted;
use engine::trail::Trail;
use k8s_openapi::jiff::Timestamp;
use tokio::sync::{Mutex, Notify, mpsc, watch};
use tokio::task::AbortHandle;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use crate::act::Actor;
use crate::event::Event;
use crate::extender::Question;
use crate::metrics::{Decision, Metrics, Step};
use crate::policy_parameters::Parameters;
use crate::pulse::Pulse;
use crate::report::{Report, Reports};
use crate::review::{Exit, Inquiry};
use inquiries::Share;
use programs::clock;
use programs::readiness::Readiness;
use quarantine::Quarantine;
use questions::Pending;
use usages::Usages;

/// How many events are heard before the next round of decisions.
const EVENTS_PER_ROUND: usize = 512;
/// How many admissions may be under way. More would only wait, and a later decision knows more.
const ADMISSIONS_UNDER_WAY: usize = 256;
/// How often the mind checks what the passing of time alone has changed, and shows what has changed.
const TICK: Duration = Duration::from_millis(200);

/// A step that takes longer is counted, and logged with the object it was about, since others wait meanwhile.
const SLOW: Duration = Duration::from_millis(500);

/// How a mind decides: [`engine::decide::decide_watched`], or, in tests, a function that does not always return.
pub type Decide = fn(&mut Cluster, Timestamp, usize, &dyn Trail) -> Round;

/// Where a mind sends what it knows. The mind that replaces it uses the same outlets.
#[derive(Clone)]
pub struct Outlets {
    /// What is to be shown.
    pub reports: Reports,
    /// What the policies inside the API server are to read; none until everything has been listed.
    pub parameters: watch::Sender<Option<Arc<Parameters>>>,
    /// What is measured.
    pub metrics: Arc<Metrics>,
    /// Which kinds have been listed.
    pub readiness: Arc<Readiness>,
}

/// Labels of a node, each with whether the node is to have it, and the task that writes them.
type Labelling = (Vec<(String, bool)>, AbortHandle);

/// Hears events, decides, and hands out the work.
pub struct Mind {
    cluster: Cluster,
    /// The kinds that have not been listed yet. Nothing is decided before all are listed.
    unlisted: BTreeSet<Kind>,
    actor: Actor,
    reports: Reports,
    metrics: Arc<Metrics>,
    readiness: Arc<Readiness>,
    /// Admissions, resumptions and bindings that are being written.
    under_way: usize,
    /// Evictions that are being asked for. They also wait for disruption budgets, and nothing else waits for that.
    evictions_under_way: usize,
    /// Since when evictions have been under way, as noticed each time something is shown.
    evicting_since: Option<Instant>,
    /// Since when pods have been told nothing because of evictions.
    silent_since: Option<Instant>,
    /// Questions of schedulers that wait for an answer.
    questions: Vec<Pending>,
    /// The labels that are being written, or were written a while ago, of nodes that are not seen to have them yet. The key is the node's
    /// name and unique id, so that a node that is created anew does not wait for its predecessor.
    labelling: BTreeMap<(Arc<str>, Box<str>), Labelling>,
    /// What the policies inside the API server are to read.
    parameters: watch::Sender<Option<Arc<Parameters>>>,
    /// Whether the configuration has changed since `parameters` was sent.
    reconfigured: bool,
    /// Asks the observer of the cluster to list all pods once more.
    pods_wanted: Arc<Notify>,
    /// Whether the warning has been given that Volcano's scheduler runs beside Cardgate.
    told_of_volcano: bool,
    /// Cards for which the warning has been given that `CrossQuota` does not know them.
    told_outside: BTreeSet<String>,
    reported_all: bool,
    /// When the metrics of queues are to be counted anew; none while they are up to date.
    figures_due: Option<Instant>,
    usages: Usages<QueueId>,
    unaccounted: Unaccounted,
    refresher: Refresher,
    pulse: Arc<Pulse>,
    quarantine: Quarantine,
    decide: Decide,
}

impl Mind {
    /// Returns a mind that knows nothing yet.
    pub fn new(actor: Actor, outlets: Outlets, pulse: Arc<Pulse>, quarantine: Quarantine, decide: Decide) -> Self {
        let Outlets {
            reports,
            parameters,
            metrics,
            readiness,
        } = outlets;
        Self {
            cluster: Cluster::new(Arc::new(Configuration::default())),
            unlisted: Kind::ALL.into(),
            actor,
            reports,
            metrics,
            readiness,
            under_way: 0,
            evictions_under_way: 0,
            evicting_since: None,
            silent_since: None,
            questions: Vec::new(),
            labelling: BTreeMap::new(),
            parameters,
            reconfigured: true,
            pods_wanted: Arc::default(),
            told_of_volcano: false,
            told_outside: BTreeSet::new(),
            reported_all: false,
            figures_due: None,
            usages: Usages::default(),
            unaccounted: Unaccounted::default(),
            refresher: Refresher::default(),
            pulse,
            quarantine,
            decide,
        }
    }

    /// Returns the signal by which the mind asks for all pods to be listed once more.
    pub fn pods_wanted(&self) -> Arc<Notify> {
        Arc::clone(&self.pods_wanted)
    }

    /// Hears events and questions until `stop`, and then until the work under way has ended. Also returns when another mind has replaced
    /// this one.
    pub async fn run(
        mut self,
        mut events: mpsc::Receiver<Event>,
        questions: Arc<Mutex<mpsc::Receiver<Question>>>,
        inquiries: Exit<Inquiry>,
        stop: impl Future<Output = ()>,
    ) {
        let mut stop = pin!(stop);
        let (mut stopping, mut more) = (false, false);
        let mut batch = Vec::with_capacity(EVENTS_PER_ROUND);
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut share = Share::default();
        loop {
            // A step took so long that another mind has replaced this one. This mind must check that itself: its own actor keeps a sender
            // of `events`, so the channel never closes.
            if self.actor.is_retired() {
                return;
            }
            self.pulse.beat();
            let mut inquiry = None;
            let rests_until = share.rests_until(Instant::now());
            let rests = rests_until.is_some();
            // This order starves no branch: ticks are rare, and events are also heard below.
            let ticked = tokio::select! {
                biased;
                () = &mut stop, if !stopping => {
                    stopping = true;
                    false
                }
                _ = tick.tick() => true,
                Some(question) = async { questions.lock().await.recv().await } => {
                    self.step(Step::Answer, |mind| mind.hear_question(question));
                    false
                }
                heard = events.recv_many(&mut batch, EVENTS_PER_ROUND) => if heard == 0 { return } else { false },
                asked = inquiries.take(), if !rests => {
                    inquiry = Some(asked);
                    false
                }
                () = sleep_until(rests_until.unwrap_or_else(Instant::now)), if rests => false,
                () = tokio::task::yield_now(), if more => false,
            };
            // Events are always heard between two rounds, since decisions about many pods of one queue take many rounds.
            while batch.len() < EVENTS_PER_ROUND
                && let Ok(event) = events.try_recv()
            {
                batch.push(event);
            }
            let now = clock::now();
            self.cluster.tell_time(now);
            if !batch.is_empty() {
                self.step(Step::Hear, |mind| mind.hear_all(&mut batch, now));
            }
            if self.actor.is_retired() || stopping && self.under_way + self.evictions_under_way == 0 {
                return;
            }
            if stopping || !self.unlisted.is_empty() {
                more = false;
                continue;
            }
            if self.questions.is_empty() {
                self.cluster.expire_assumed(now);
            } else {
                self.step(Step::Answer, |mind| mind.answer_questions(now));
            }
            // Further decisions wait until the events that came meanwhile are heard, not the other way round.
            more = self.step(Step::Decide, |mind| mind.round(now));
            if self.actor.is_retired() {
                return;
            }
            // At most one question of a person per turn, and after the work that others wait for.
            let waits = || (!rests).then(|| inquiries.try_take())?;
            if let Some(inquiry) = inquiry.or_else(waits) {
                let began = Instant::now();
                self.step(Step::Review, |mind| mind.answer_inquiry(inquiry, now));
                share.taken(began, Instant::now());
            }
            if ticked {
                self.step(Step::Show, |mind| mind.show(now));
            }
        }
    }

    /// Does one step, and logs it if it took too long.
    fn step<T>(&mut self, step: Step, work: impl FnOnce(&mut Self) -> T) -> T {
        self.pulse.begin(step);
        let result = work(self);
        let ended = self.pulse.end();
        let slow = ended.took >= SLOW;
        self.metrics.step_ended(step, ended.took, slow);
        if slow {
            let (longest, longest_took) = ended.longest.map(|(work, took)| (work.to_string(), took)).unzip();
            let (step, took) = (step.as_str(), ended.took);
            tracing::warn!(step, ?took, longest, ?longest_took, "a slow round");
        }
        result
    }

    /// Makes one round of decisions. Returns whether there is more to decide at once.
    fn round(&mut self, now: Timestamp) -> bool {
        let room = ADMISSIONS_UNDER_WAY.saturating_sub(self.under_way);
        let round = (self.decide)(&mut self.cluster, now, room, &*self.pulse);
        if self.actor.is_retired() {
            // The round took so long that another mind has replaced this one.
            return false;
        }
        for action in round.actions {
            match action {
                Action::Admit(admission) => {
                    self.under_way += 1;
                    if admission.was_told {
                        self.reports.send(Report::ForgetPod {
                            uid: Arc::clone(&admission.pod.uid),
                        });
                    }
                    self.actor.admit(admission);
                }
                Action::Resume(resumption) => {
                    self.under_way += 1;
                    self.actor.resume(resumption);
                }
                Action::SendBack { pod, reason, message } => {
                    self.actor.send_back(pod, reason, message);
                }
                Action::Evict(eviction) => {
                    self.evictions_under_way += 1;
                    self.evicting_since.get_or_insert_with(Instant::now);
                    self.actor.evict_for(eviction);
                }
                Action::Unplaced { pod, message } => {
                    self.metrics.decided(Decision::Unplaced);
                    self.say(&pod, Happening::ReservationTimeout, message);
                }
            }
        }
        round.more && self.under_way < ADMISSIONS_UNDER_WAY
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::future::pending;

    use engine::decide::decide_watched;
    use kube::Client;
    use kube::client::Body;
    use tokio::time::timeout;

    use super::*;
    use crate::herald::Herald;
    use crate::lease::Leadership;
    use crate::{extender, report, review};

    /// Returns a mind that has heard nothing yet and whose API server never answers, its actor, and the receiver of the actor's events.
    pub(super) fn mind() -> (Mind, Actor, mpsc::Receiver<Event>) {
        let silent = tower::service_fn(|_: http::Request<Body>| pending::<Result<http::Response<Body>, Infallible>>());
        let (events, heard) = mpsc::channel(1);
        let leadership = Leadership::told(Arc::new(Herald::new(true)));
        let actor = Actor::new(Client::new(silent, "default"), events, leadership, Arc::default());
        let (reports, _inbox) = report::channel();
        let outlets = Outlets {
            reports,
            parameters: watch::Sender::new(None),
            metrics: Arc::default(),
            readiness: Arc::new(Readiness::waiting_for([])),
        };
        let mind = Mind::new(
            actor.clone(),
            outlets,
            Arc::default(),
            Quarantine::default(),
            decide_watched,
        );
        (mind, actor, heard)
    }

    /// The mind's work took too long, but has ended after all. The mind then neither shows nor answers anything, since its successor knows
    /// better.
    #[tokio::test(start_paused = true)]
    async fn a_mind_that_was_replaced_ends() {
        let (mind, actor, heard) = mind();
        let (_questions, asked) = extender::channel();
        let (_inquiries, reviewed) = review::channel();
        actor.retire().await;
        let ended = timeout(
            TICK * 2,
            mind.run(heard, Arc::new(Mutex::new(asked)), reviewed, pending()),
        );
        assert!(ended.await.is_ok());
    }
}
