//! The mind: one thread that hears events, keeps the cluster's picture, decides, and hands out what is to be done.

mod aside;
pub mod attend;
mod hear;
mod questions;

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use crds::configuration::Configuration;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::jiff::Timestamp;
use tokio::sync::{Mutex, mpsc, watch};
use tokio::time::{MissedTickBehavior, interval};

use crate::act::Actor;
use crate::cluster::node::NodeId;
use crate::cluster::reclaims::EvictionOutcome;
use crate::cluster::{Cluster, Kind};
use crate::decide::{Action, Eviction, Progress, Round, notices_watched, progress};
use crate::event::Event;
use crate::extender::Question;
use crate::metrics::{Decision, Metrics, Step};
use crate::overview;
use crate::pod_ref::PodRef;
use crate::policy_parameters::{Parameters, parameters};
use crate::pulse::{Pulse, Trail};
use crate::report::status::INVALID_CROSS_QUOTA;
use crate::report::{EventKind, PodReport, Report, Reports};
use crate::server::Readiness;
use aside::Aside;
use questions::Pending;

/// How many events are heard before the next round of decisions.
const EVENTS_PER_ROUND: usize = 512;
/// How many admissions may be under way: more would only wait, and what is decided late is decided better.
const ADMISSIONS_UNDER_WAY: usize = 256;
/// How often time alone is looked at, and what has changed is shown.
const TICK: Duration = Duration::from_millis(200);
/// How many waiting pods are told why in one tick. The reporter writes no faster, and numbers should be fresh.
const NOTICES_PER_TICK: usize = 10;
/// How many workloads are told how far they are in one tick: whoever makes their pods may wait for it.
const PROGRESS_PER_TICK: usize = 20;

/// A step that takes so long is logged, with what it was about, and counted: others wait meanwhile.
const SLOW: Duration = Duration::from_millis(500);

/// How a mind decides: [`crate::decide::decide_watched`], or for tests something that does not always come to an end.
pub type Decide = fn(&mut Cluster, Timestamp, usize, &dyn Trail) -> Round;

/// Where what a mind knows goes, and that of the next one.
#[derive(Clone)]
pub struct Outlets {
    /// What is to be shown.
    pub reports: Reports,
    /// What the policies inside the API server are to read; none before everything has been listed.
    pub parameters: watch::Sender<Option<Arc<Parameters>>>,
    /// What is measured.
    pub metrics: Arc<Metrics>,
    /// What has been listed.
    pub readiness: Arc<Readiness>,
}

/// Hears, decides, and hands out.
pub struct Mind {
    cluster: Cluster,
    /// The kinds that have not been listed yet: nothing is decided before.
    unlisted: BTreeSet<Kind>,
    actor: Actor,
    reports: Reports,
    metrics: Arc<Metrics>,
    readiness: Arc<Readiness>,
    under_way: usize,
    /// Questions of schedulers that wait for an answer.
    questions: Vec<Pending>,
    /// Nodes whose label is being written.
    labelling: BTreeSet<Arc<str>>,
    /// What the policies inside the API server are to read.
    parameters: watch::Sender<Option<Arc<Parameters>>>,
    /// Whether the configuration has changed since that was told.
    reconfigured: bool,
    reported_all: bool,
    pulse: Arc<Pulse>,
    aside: Aside,
    decide: Decide,
}

impl Mind {
    /// A mind that knows nothing yet.
    pub fn new(actor: Actor, outlets: Outlets, pulse: Arc<Pulse>, aside: Aside, decide: Decide) -> Self {
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
            questions: Vec::new(),
            labelling: BTreeSet::new(),
            parameters,
            reconfigured: true,
            reported_all: false,
            pulse,
            aside,
            decide,
        }
    }

    /// Hears events and questions until `stop`, and then until what is under way has ended; or until nobody tells it any more
    /// what happens, since another one has taken its place.
    pub async fn run(
        mut self,
        mut events: mpsc::Receiver<Event>,
        questions: Arc<Mutex<mpsc::Receiver<Question>>>,
        stop: impl Future<Output = ()>,
    ) {
        let mut stop = pin!(stop);
        let (mut stopping, mut more) = (false, false);
        let mut batch = Vec::with_capacity(EVENTS_PER_ROUND);
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            self.pulse.beat();
            let ticked = tokio::select! {
                heard = events.recv_many(&mut batch, EVENTS_PER_ROUND) => if heard == 0 { return } else { false },
                _ = tick.tick() => true,
                Some(question) = async { questions.lock().await.recv().await } => {
                    self.step(Step::Answer, |mind| mind.hear_question(question));
                    false
                }
                () = &mut stop, if !stopping => {
                    stopping = true;
                    false
                }
                () = tokio::task::yield_now(), if more => false,
            };
            // Between two rounds, what others do is always heard: decisions about many pods of one queue take many rounds.
            while batch.len() < EVENTS_PER_ROUND
                && let Ok(event) = events.try_recv()
            {
                batch.push(event);
            }
            let now = Timestamp::now();
            if !batch.is_empty() {
                self.step(Step::Hear, |mind| mind.hear_all(&mut batch, now));
            }
            if stopping && self.under_way == 0 {
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
            more = self.step(Step::Decide, |mind| mind.round(now));
            if ticked {
                self.step(Step::Show, |mind| mind.show(now));
            }
        }
    }

    /// Does one step, and says so where it took too long.
    fn step<T>(&mut self, step: Step, work: impl FnOnce(&mut Self) -> T) -> T {
        self.pulse.begin(step);
        let result = work(self);
        let ended = self.pulse.end();
        let slow = ended.took >= SLOW;
        self.metrics.round(step, ended.took, slow);
        if slow {
            let (longest, longest_took) = ended.longest.map(|(work, took)| (work.to_string(), took)).unzip();
            let (step, took) = (step.as_str(), ended.took);
            tracing::warn!(step, ?took, longest, ?longest_took, "a slow round");
        }
        result
    }

    /// Decides once; whether there is more to decide at once.
    fn round(&mut self, now: Timestamp) -> bool {
        let room = ADMISSIONS_UNDER_WAY.saturating_sub(self.under_way);
        let round = (self.decide)(&mut self.cluster, now, room, &*self.pulse);
        if self.actor.is_retired() {
            // It took so long that another mind has taken this one's place.
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
                    self.reports.send(Report::Event {
                        regarding: Box::new(resumption.job.reference()),
                        kind: EventKind::Normal,
                        reason: "Enqueued".to_owned(),
                        message: format!("let into queue {}: its pods may be made", resumption.queue),
                    });
                    self.under_way += 1;
                    self.actor.resume(resumption);
                }
                Action::SendBack { pod, message } => {
                    self.metrics.decided(Decision::SentBack);
                    self.say(&pod, "ReservationTimeout", message);
                    self.actor.send_back(pod);
                }
                Action::Evict(eviction) => {
                    self.under_way += 1;
                    self.actor.evict_for(eviction);
                }
                Action::Unplaced { pod, message } => {
                    self.metrics.decided(Decision::Unplaced);
                    self.say(&pod, "ReservationTimeout", message);
                }
            }
        }
        round.more && self.under_way < ADMISSIONS_UNDER_WAY
    }

    /// Shows what has changed, and tells pods why they wait.
    fn show(&mut self, now: Timestamp) {
        for uid in std::mem::take(&mut self.cluster.changes.unplaced_gpu_pods) {
            self.say_unplaced(&uid);
        }
        for uid in std::mem::take(&mut self.cluster.changes.shown_as_waiting) {
            self.show_admitted(&uid);
        }
        self.label_nodes();
        for node in std::mem::take(&mut self.cluster.changes.bad_quotas) {
            self.tell_bad_quotas(node);
        }
        if std::mem::take(&mut self.reconfigured) || !self.cluster.changes.cards.is_empty() {
            let parameters = Arc::new(parameters(
                self.cluster.configuration(),
                &self.cluster.resources_of_cards(),
            ));
            self.parameters
                .send_if_modified(|told| told.replace(Arc::clone(&parameters)).as_ref() != Some(&parameters));
        }
        let queues_changed = !self.cluster.changes.queues.is_empty();
        for (node, cards) in overview::gpu_figures(&self.cluster) {
            self.metrics.show_gpus(&node, cards);
        }
        for report in overview::changed(&mut self.cluster) {
            self.reports.send(report);
        }
        if !std::mem::replace(&mut self.reported_all, true) {
            self.reports.send(Report::Synced);
        }
        for progress in progress(&mut self.cluster, now, PROGRESS_PER_TICK) {
            self.show_progress(progress);
        }
        let notices = notices_watched(&mut self.cluster, now, NOTICES_PER_TICK, &*self.pulse);
        if self.actor.is_retired() {
            return;
        }
        if queues_changed || !notices.is_empty() {
            self.metrics.show_queues(overview::figures(&self.cluster));
        }
        for notice in notices {
            let reason = notice.reason.as_str();
            let (pod, queue, card) = (&notice.pod, &notice.queue, notice.card);
            tracing::info!(%pod, %queue, card, reason, detail = notice.message, "waits");
            self.metrics.decided(Decision::Refused(notice.reason));
            let condition = PodReport {
                status: false,
                same_status: notice.told_before,
                reason,
                message: notice.message,
            };
            self.reports.send(Report::Pod {
                pod: notice.pod,
                condition,
                event: true,
            });
        }
    }

    /// Shows how far a workload is, and says why it is not further.
    fn show_progress(&self, progress: Progress) {
        let (workload, queue) = (&progress.workload, &progress.queue);
        if let (true, Some((reason, message))) = (progress.news, &progress.refused) {
            tracing::info!(%workload, %queue, reason = reason.as_str(), detail = message, "waits");
            self.reports.send(Report::Event {
                regarding: Box::new(workload.reference()),
                kind: EventKind::Warning,
                reason: reason.as_str().to_owned(),
                message: message.clone(),
            });
        }
        if let Some(phase) = progress.phase {
            tracing::debug!(%workload, %queue, phase = phase.as_str(), "is");
            self.reports.send(Report::Group {
                group: progress.workload,
                phase,
                refused: progress.refused,
            });
        }
    }

    /// Sets a pod's condition right that says that it waits, though it has been let in.
    fn show_admitted(&self, uid: &str) {
        let Some(pod) = self.cluster.pod_with_uid(uid).and_then(|id| self.cluster.pod(id)) else {
            return;
        };
        let queue = pod
            .queue
            .map(|queue| Arc::clone(&self.cluster.queue(queue).name))
            .unwrap_or_default();
        let card = pod
            .assigned
            .map(|card| format!(" with {}", self.cluster.names.card_name(card)))
            .unwrap_or_default();
        let condition = PodReport {
            status: true,
            same_status: false,
            reason: "Admitted",
            message: if queue.is_empty() {
                "let in by CrossQuota".to_owned()
            } else {
                format!("let in by queue {queue}{card}")
            },
        };
        let pod = PodRef {
            namespace: Arc::clone(&pod.namespace),
            name: Arc::clone(&pod.name),
            uid: Arc::clone(&pod.uid),
        };
        self.reports.send(Report::Pod {
            pod,
            condition,
            event: false,
        });
    }

    /// Says on each pod that was evicted who needed what.
    fn tell_victims(&self, eviction: Eviction, outcomes: &[EvictionOutcome]) {
        for (victim, outcome) in eviction.victims.into_iter().zip(outcomes) {
            if *outcome == EvictionOutcome::Evicted {
                self.metrics.decided(Decision::Evicted);
                tracing::info!(pod = %victim.pod, reason = victim.reason, detail = victim.message, "evicted");
                self.reports.send(Report::Event {
                    regarding: Box::new(victim.pod.reference()),
                    kind: EventKind::Warning,
                    reason: victim.reason.to_owned(),
                    message: victim.message,
                });
            }
        }
    }

    /// Sees to it that GPU nodes, and no others, carry their label.
    fn label_nodes(&mut self) {
        for (id, is_gpu_node) in self.cluster.gpu_nodes().to_label() {
            let node = self.cluster.node(id);
            if let Some(offer) = &node.offer
                && self.labelling.insert(Arc::clone(&node.name))
            {
                self.actor
                    .label_node(Arc::clone(&node.name), offer.uid.clone(), is_gpu_node);
            }
        }
    }

    /// Says in an event on a node which of its annotations on quotas can't be read.
    fn tell_bad_quotas(&self, id: NodeId) {
        let node = self.cluster.node(id);
        let Some(offer) = &node.offer else { return };
        for bad in self.cluster.gpu_nodes().bad_annotations(id) {
            tracing::warn!(node = %node.name, "{bad}");
            let regarding = ObjectReference {
                api_version: Some("v1".to_owned()),
                kind: Some("Node".to_owned()),
                name: Some(node.name.to_string()),
                uid: Some(offer.uid.to_string()),
                ..ObjectReference::default()
            };
            self.reports.send(Report::Event {
                regarding: Box::new(regarding),
                kind: EventKind::Warning,
                reason: INVALID_CROSS_QUOTA.to_owned(),
                message: bad.to_string(),
            });
        }
    }

    /// Says on a bound mGPU pod which cards it is taken to hold, since nothing on it does.
    fn say_unplaced(&self, uid: &str) {
        let Some((pod, message)) = overview::first_fit(&self.cluster, uid) else {
            return;
        };
        tracing::warn!(pod = %pod, detail = message, "mGPU pod without card indexes");
        self.reports.send(Report::Event {
            regarding: Box::new(pod.reference()),
            kind: EventKind::Warning,
            reason: "MGPUCardsUnknown".to_owned(),
            message,
        });
    }

    fn say(&self, pod: &PodRef, reason: &str, message: String) {
        tracing::warn!(pod = %pod, reason, detail = message, "not placed");
        self.reports.send(Report::Event {
            regarding: Box::new(pod.reference()),
            kind: EventKind::Warning,
            reason: reason.to_owned(),
            message,
        });
    }
}
