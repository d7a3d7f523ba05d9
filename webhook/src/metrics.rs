//! What the door measures. Labels are enums and reasons, never names that users choose.

use std::fmt::Write as _;
use std::time::Duration;

use programs::configuration::ConfigurationGauges;
use programs::diagnostics;
use programs::ports::refusals::Refusals;
use programs::readiness::ReadyGauge;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

use crate::denial::Denial;
use crate::door::{Counts, Outcome};
use crate::endpoint::Endpoint;
use crate::view::Lookup;

/// First bucket of durations, in seconds: a decision takes about ten microseconds.
const FASTEST: f64 = 0.000_01;
/// Number of buckets of durations. Each is four times the one before, up to 2.6 s.
const BUCKETS: u16 = 10;

/// Labels of a request.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    path: &'static str,
    outcome: Outcome,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabels {
    reason: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LookupLabels {
    kind: &'static str,
    answered: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindLabels {
    kind: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CertificateLabels {
    certificate: &'static str,
}

/// The only certificate of the webhook, as the operator calls it too.
const WEBHOOK: CertificateLabels = CertificateLabels { certificate: "webhook" };

impl EncodeLabelValue for Outcome {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), std::fmt::Error> {
        encoder.write_str(match self {
            Self::Allowed => "allowed",
            Self::Patched => "patched",
            Self::Denied => "denied",
            Self::Error => "error",
        })
    }
}

/// All metrics of the webhook.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    requests: Family<RequestLabels, Histogram, fn() -> Histogram>,
    denials: Family<ReasonLabels, Counter>,
    refusals: Refusals,
    lookups: Family<LookupLabels, Counter>,
    watch_errors: Family<KindLabels, Counter>,
    configuration: ConfigurationGauges,
    certificate_valid: Gauge,
    certificate_expiry: Family<CertificateLabels, Gauge>,
    ready: ReadyGauge,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("cardgate");
        let requests: Family<_, Histogram, fn() -> Histogram> =
            Family::new_with_constructor(|| Histogram::new(exponential_buckets(FASTEST, 4.0, BUCKETS)));
        let denials = Family::default();
        let lookups = Family::default();
        let watch_errors = Family::default();
        let (configuration, certificate_valid) = <(ConfigurationGauges, Gauge)>::default();
        registry.register_with_unit(
            "webhook_request_duration",
            "From a request's first byte in the handler to its answer, by path and outcome",
            Unit::Seconds,
            requests.clone(),
        );
        let refusals = Refusals::default();
        refusals.register(&mut registry);
        registry.register("webhook_denials", "Refused requests by reason", denials.clone());
        registry.register(
            "webhook_lookups",
            "Questions to the API server about what a watch had not delivered, by kind",
            lookups.clone(),
        );
        registry.register(
            "webhook_watch_errors",
            "Errors of the webhook's watches, by kind",
            watch_errors.clone(),
        );
        configuration.register(&mut registry);
        registry.register(
            "webhook_certificate_valid",
            "1 if the newest serving certificate is in use, 0 if there is none, it can't be used or has expired",
            certificate_valid.clone(),
        );
        let certificate_expiry = Family::default();
        registry.register_with_unit(
            "certificate_expiry_timestamp",
            "When a certificate expires, in seconds since 1970",
            Unit::Seconds,
            certificate_expiry.clone(),
        );
        let ready = ReadyGauge::default();
        ready.register(&mut registry);
        Self {
            registry,
            requests,
            denials,
            refusals,
            lookups,
            watch_errors,
            configuration,
            certificate_valid,
            certificate_expiry,
            ready,
        }
    }
}

impl Metrics {
    /// Records that a request was answered.
    pub fn answered(&self, endpoint: Endpoint, outcome: Outcome, duration: Duration) {
        let path = endpoint.path();
        self.requests
            .get_or_create(&RequestLabels { path, outcome })
            .observe(duration.as_secs_f64());
    }

    /// Counts the requests that a port turns away.
    pub fn refusals(&self) -> &Refusals {
        &self.refusals
    }

    /// Records that a watch failed and starts again.
    pub fn watch_failed(&self, kind: &'static str) {
        self.watch_errors.get_or_create(&KindLabels { kind }).inc();
    }

    /// Shows which configuration is in force.
    pub fn configuration(&self) -> &ConfigurationGauges {
        &self.configuration
    }

    /// Records whether the newest certificate is in use.
    pub fn certificate(&self, valid: bool) {
        self.certificate_valid.set(i64::from(valid));
    }

    /// Shows when the certificate in use expires, in seconds since 1970.
    pub fn certificate_expires(&self, at: i64) {
        self.certificate_expiry.get_or_create(&WEBHOOK).set(at);
    }

    /// Returns the gauge that shows whether the webhook is ready.
    pub fn ready(&self) -> &ReadyGauge {
        &self.ready
    }

    /// All metrics in the text form that Prometheus reads.
    pub fn encode(&self) -> Result<String, std::fmt::Error> {
        diagnostics::encode(&self.registry)
    }
}

impl Counts for Metrics {
    fn denied(&self, denial: &Denial) {
        let reason = denial.reason();
        self.denials.get_or_create(&ReasonLabels { reason }).inc();
    }

    fn lookup(&self, lookup: &Lookup, answered: bool) {
        let kind = match lookup {
            Lookup::Queue(_) => "queue",
            Lookup::Group { .. } => "podgroup",
            Lookup::Namespace(_) => "namespace",
            Lookup::PodsOf(_) => "cardusage",
            Lookup::Claim { .. } => "resourceclaim",
            Lookup::ClaimTemplate { .. } => "resourceclaimtemplate",
            Lookup::Class(_) => "deviceclass",
        };
        self.lookups.get_or_create(&LookupLabels { kind, answered }).inc();
    }
}
