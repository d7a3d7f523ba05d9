//! All metrics of Cardgate's operator, in one place. Their labels are enums, queues, nodes and cards, but never pods.

mod card_time;
mod cards;
mod gpus;
mod labels;
mod queues;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use crds::card_type::CardTypeStatus;
use engine::overview::{GpuFigures, QueueFigures};
use engine::reason::Reason;
use engine::trail::ObjectKind;
use kube::runtime::watcher;
use programs::configuration::ConfigurationGauges;
use programs::diagnostics;
use programs::ports::refusals::Refusals;
use programs::readiness::ReadyGauge;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};

use card_time::CardTime;
use cards::Cards;
use gpus::Gpus;
use labels::{
    AsideLabels, CertificateLabels, Code, DecisionLabels, ErrorLabels, InstallationLabels, QueueLabels, StepLabels,
    StumbleLabels, WriteLabels,
};
pub use labels::{Certificate, Decision, Step, Stumble, Verb, Write};
use queues::Queues;

/// Buckets from tens of milliseconds, as in an idle cluster, to days of waiting.
const ADMISSION_BUCKETS: [f64; 18] = [
    0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0, 1_800.0, 7_200.0, 28_800.0,
    86_400.0,
];

/// The same for the metric by queue. There are few buckets, since each queue has a series for each of them.
const QUEUE_ADMISSION_BUCKETS: [f64; 7] = [0.1, 1.0, 10.0, 60.0, 600.0, 3_600.0, 43_200.0];

/// Buckets from a round that finds nothing to do to a round that others notice.
const ROUND_BUCKETS: [f64; 12] = [
    0.000_1, 0.000_5, 0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0,
];

/// All metrics of the operator.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    decisions: Family<DecisionLabels, Counter>,
    admission_duration: Histogram,
    queue_admission_duration: Family<QueueLabels, Histogram>,
    card_time: CardTime,
    queues: Arc<ArcSwap<Vec<QueueFigures>>>,
    gpus: Gpus,
    api_errors: Family<ErrorLabels, Counter>,
    api_writes: Family<WriteLabels, Counter>,
    configuration: ConfigurationGauges,
    leader: Gauge,
    certificate_expiry: Family<CertificateLabels, Gauge>,
    ready: ReadyGauge,
    parameters_restored: Counter,
    cards: Cards,
    pods_with_resource_claims: Gauge,
    installation_missing: Family<InstallationLabels, Gauge>,
    installation_changed: Family<InstallationLabels, Gauge>,
    refusals: Refusals,
    round_duration: Family<StepLabels, Histogram>,
    slow_rounds: Family<StepLabels, Counter>,
    stumbles: Family<StumbleLabels, Counter>,
    set_aside: Family<AsideLabels, Gauge>,
}

impl Default for Metrics {
    fn default() -> Self {
        let metrics = Self {
            registry: Registry::default(),
            decisions: Family::default(),
            admission_duration: Histogram::new(ADMISSION_BUCKETS),
            queue_admission_duration: Family::new_with_constructor(|| Histogram::new(QUEUE_ADMISSION_BUCKETS)),
            card_time: CardTime::default(),
            queues: Arc::default(),
            gpus: Gpus::default(),
            api_errors: Family::default(),
            api_writes: Family::default(),
            configuration: ConfigurationGauges::default(),
            leader: Gauge::default(),
            certificate_expiry: Family::default(),
            ready: ReadyGauge::default(),
            parameters_restored: Counter::default(),
            cards: Cards::default(),
            pods_with_resource_claims: Gauge::default(),
            installation_missing: Family::default(),
            installation_changed: Family::default(),
            refusals: Refusals::default(),
            round_duration: Family::new_with_constructor(|| Histogram::new(ROUND_BUCKETS)),
            slow_rounds: Family::default(),
            stumbles: Family::default(),
            set_aside: Family::default(),
        };
        // Every series that can be known beforehand exists from the start, so that rates can rise from zero.
        for decision in Decision::all() {
            let _ = metrics.decisions.get_or_create(&decision.into());
        }
        for write in Write::ALL {
            let _ = metrics.api_writes.get_or_create(&WriteLabels { kind: write });
        }
        for step in Step::ALL {
            let _ = metrics.round_duration.get_or_create(&StepLabels { step });
            let _ = metrics.slow_rounds.get_or_create(&StepLabels { step });
        }
        for how in Stumble::ALL {
            let _ = metrics.stumbles.get_or_create(&StumbleLabels { how });
        }
        for kind in ObjectKind::ALL {
            metrics.set_aside(kind.as_str(), 0);
        }
        metrics.registered()
    }
}

impl Metrics {
    fn registered(mut self) -> Self {
        self.registry.register_collector(Box::new(Queues(self.queues.clone())));
        self.registry.register_collector(Box::new(self.gpus.clone()));
        self.registry.register_collector(Box::new(self.card_time.clone()));
        let own = self.registry.sub_registry_with_prefix("cardgate");
        own.register(
            "decisions",
            "Decisions about pods, by what was decided and why",
            self.decisions.clone(),
        );
        own.register_with_unit(
            "admission_duration",
            "From a pod's creation to its admission",
            Unit::Seconds,
            self.admission_duration.clone(),
        );
        own.register_with_unit(
            "queue_admission_duration",
            "From a pod's creation to its admission, by queue",
            Unit::Seconds,
            self.queue_admission_duration.clone(),
        );
        own.register(
            "api_errors",
            "Requests to the API server that failed, by verb and status code",
            self.api_errors.clone(),
        );
        own.register(
            "api_writes",
            "Writes to the API server, by what was written",
            self.api_writes.clone(),
        );
        self.configuration.register(own);
        self.ready.register(own);
        own.register("leader", "1 if this operator makes the decisions", self.leader.clone());
        own.register_with_unit(
            "certificate_expiry_timestamp",
            "When a certificate expires, in seconds since 1970",
            Unit::Seconds,
            self.certificate_expiry.clone(),
        );
        self.refusals.register(own);
        own.register_with_unit(
            "round_duration",
            "How long one step of the deciding thread took",
            Unit::Seconds,
            self.round_duration.clone(),
        );
        own.register(
            "slow_rounds",
            "Steps of the deciding thread that took longer than half a second; the log says what they were about",
            self.slow_rounds.clone(),
        );
        own.register(
            "stumbles",
            "How often the deciding thread panicked or hung over an object, and was replaced by one that leaves the object out",
            self.stumbles.clone(),
        );
        own.register(
            "set_aside",
            "Objects that are left out because the operator panicked or hung over them, by kind; for Namespace also those of which no waiting \
             pod is looked at",
            self.set_aside.clone(),
        );
        own.register(
            "policy_parameters_restored",
            "How often ConfigMap cardgate-policy, which the policies read, was changed or removed by somebody else and restored",
            self.parameters_restored.clone(),
        );
        own.register(
            "installation_missing",
            "1 if an object that enforcement rests on is missing",
            self.installation_missing.clone(),
        );
        own.register(
            "installation_changed",
            "1 if an object that enforcement rests on says something else than this version was installed with",
            self.installation_changed.clone(),
        );
        self.cards.register(own);
        own.register(
            "pods_with_resource_claims",
            "Pods that claim devices which are no cards, for which no queue is charged",
            self.pods_with_resource_claims.clone(),
        );
        own.register(
            "build",
            "What runs here",
            Info::new([("version", env!("CARGO_PKG_VERSION"))]),
        );
        self
    }

    /// Returns the counter of requests that a port turns away.
    pub fn refusals(&self) -> &Refusals {
        &self.refusals
    }

    /// Returns the text that Prometheus reads.
    pub fn encode(&self) -> Result<String, fmt::Error> {
        diagnostics::encode(&self.registry)
    }

    /// Counts a pod that was admitted to a queue, `waited` after its creation.
    pub fn admitted(&self, queue: &str, waited: Duration) {
        self.decided(Decision::Admitted);
        self.admission_duration.observe(waited.as_secs_f64());
        let labels = QueueLabels {
            queue: queue.to_owned(),
        };
        self.queue_admission_duration
            .get_or_create(&labels)
            .observe(waited.as_secs_f64());
    }

    /// Counts any other decision about a pod.
    pub fn decided(&self, decision: Decision) {
        self.decisions.get_or_create(&decision.into()).inc();
    }

    /// Shows the queues as they are now. A queue that is missing in `queues` is no longer shown.
    pub fn show_queues(&self, queues: Vec<QueueFigures>) {
        self.card_time.show(&queues, Instant::now());
        let there: HashSet<&str> = queues.iter().map(|queue| &*queue.queue).collect();
        let before = self.queues.load();
        for queue in before.iter().filter(|before| !there.contains(&*before.queue)) {
            self.queue_admission_duration.remove(&QueueLabels {
                queue: queue.queue.to_string(),
            });
        }
        self.queues.store(Arc::new(queues));
    }

    /// Shows the cards that a node shares through mGPU as they are now; `cards` is empty if the node shares none or is gone.
    pub fn show_gpus(&self, node: &Arc<str>, cards: Vec<GpuFigures>) {
        self.gpus.show(node, cards);
    }

    /// Counts a write that is sent.
    pub fn api_write(&self, kind: Write) {
        self.api_writes.get_or_create(&WriteLabels { kind }).inc();
    }

    /// Counts a failed request.
    pub fn api_error(&self, verb: Verb, error: &kube::Error) {
        let code = Code::from(error);
        self.api_errors.get_or_create(&ErrorLabels { verb, code }).inc();
    }

    /// Counts a watch that was interrupted, or could not begin.
    pub fn watch_error(&self, error: &watcher::Error) {
        let (verb, code) = match error {
            watcher::Error::InitialListFailed(error) => (Verb::List, Code::from(error)),
            watcher::Error::WatchStartFailed(error) | watcher::Error::WatchFailed(error) => {
                (Verb::Watch, Code::from(error))
            }
            watcher::Error::WatchError(status) => (Verb::Watch, Code::Status(status.code)),
            watcher::Error::NoResourceVersion => (Verb::List, Code::NoAnswer),
        };
        self.api_errors.get_or_create(&ErrorLabels { verb, code }).inc();
    }

    /// Counts a request that was given up.
    pub fn api_timeout(&self, verb: Verb) {
        let code = Code::Timeout;
        self.api_errors.get_or_create(&ErrorLabels { verb, code }).inc();
    }

    /// Shows how an object of the installation was found.
    pub fn installation(&self, kind: &'static str, name: &str, missing: bool, changed: bool) {
        let labels = InstallationLabels {
            kind,
            name: name.to_owned(),
        };
        self.installation_missing.get_or_create(&labels).set(missing.into());
        self.installation_changed.get_or_create(&labels).set(changed.into());
    }

    /// Returns the gauges that show which configuration is in force.
    pub fn configuration(&self) -> &ConfigurationGauges {
        &self.configuration
    }

    /// Returns the gauge that shows whether this operator is ready.
    pub fn ready(&self) -> &ReadyGauge {
        &self.ready
    }

    /// Shows whether this operator leads.
    pub fn show_leading(&self, leads: bool) {
        self.leader.set(leads.into());
    }

    /// Shows how many cards of a type there are; `status` is none if no node has such cards.
    pub fn show_card(&self, card: &str, status: Option<&CardTypeStatus>) {
        self.cards.show(card, status);
    }

    /// Shows how many pods claim devices that are not cards.
    pub fn show_pods_with_resource_claims(&self, count: usize) {
        self.pods_with_resource_claims
            .set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// Counts that what the policies read had been changed or removed, and was restored.
    pub fn parameters_restored(&self) {
        self.parameters_restored.inc();
    }

    /// Shows when a certificate expires, in seconds since 1970.
    pub fn certificate_expires(&self, certificate: Certificate, at: i64) {
        self.certificate_expiry
            .get_or_create(&CertificateLabels { certificate })
            .set(at);
    }

    /// Counts a replacement of the mind.
    pub fn stumbled(&self, how: Stumble) {
        self.stumbles.get_or_create(&StumbleLabels { how }).inc();
    }

    /// Shows how many objects of a kind are set aside.
    pub fn set_aside(&self, kind: &'static str, count: usize) {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        self.set_aside.get_or_create(&AsideLabels { kind }).set(count);
    }

    /// Records how long a step of the mind took, and whether that was too long.
    pub fn step_ended(&self, step: Step, took: Duration, slow: bool) {
        let labels = StepLabels { step };
        self.round_duration.get_or_create(&labels).observe(took.as_secs_f64());
        if slow {
            self.slow_rounds.get_or_create(&labels).inc();
        }
    }
}
