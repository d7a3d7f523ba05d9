//! The certificates that the authority signs: one for each port, and one for the callers of the extender.

use super::names::Name;
use crate::metrics::Certificate;

/// The Secret with the webhook's serving certificate.
pub const SERVING_SECRET: &str = "cardgate-webhook-tls";
/// The Secret with the scheduler extender's serving certificate.
pub const EXTENDER_SECRET: &str = "cardgate-extender-tls";
/// The Secret with the certificate that schedulers show to the scheduler extender.
pub const EXTENDER_CLIENT_SECRET: &str = "cardgate-extender-client";

/// The Secret with the serving certificate of the port for reviews.
pub const REVIEW_SECRET: &str = "cardgate-review-tls";

/// The webhook's Service.
const WEBHOOK: &str = "webhook";
/// The Service of the leading operator, for reviews.
const REVIEW: &str = "review";
/// The extender's Service.
const EXTENDER: &str = "scheduler-extender";
/// The scheduler's name, as its Service would have it.
const SCHEDULER: &str = "scheduler";

/// The purpose of a certificate; it is not accepted for any other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Usage {
    Server,
    Client,
}

/// A certificate that has to exist.
#[derive(Debug, Clone)]
pub struct Leaf {
    pub(super) secret: &'static str,
    /// The Secret's description in messages.
    pub(super) described: &'static str,
    /// The certificate's owner in messages.
    pub(super) owner: &'static str,
    pub(super) common_name: &'static str,
    pub(super) names: Vec<Name>,
    pub(super) usage: Usage,
    pub(super) metric: Certificate,
}

impl Leaf {
    /// Returns the webhook's certificate, for its Service and these names.
    pub fn webhook(namespace: &str, extra: &[Name]) -> Self {
        Self {
            secret: SERVING_SECRET,
            described: "the Secret cardgate-webhook-tls",
            owner: "the webhook",
            common_name: "Cardgate webhook",
            names: Name::of_service(WEBHOOK, namespace, extra),
            usage: Usage::Server,
            metric: Certificate::Webhook,
        }
    }

    /// Returns the certificate of the port for reviews, for its Service and these names.
    pub fn review(namespace: &str, extra: &[Name]) -> Self {
        Self {
            secret: REVIEW_SECRET,
            described: "the Secret cardgate-review-tls",
            owner: "the port for reviews",
            common_name: "Cardgate review",
            names: Name::of_service(REVIEW, namespace, extra),
            usage: Usage::Server,
            metric: Certificate::Review,
        }
    }

    /// Returns the extender's certificate, for its Service and these names, and the certificate of its callers.
    pub fn extender(namespace: &str, extra: &[Name]) -> [Self; 2] {
        let server = Self {
            secret: EXTENDER_SECRET,
            described: "the Secret cardgate-extender-tls",
            owner: "the scheduler extender",
            common_name: "Cardgate scheduler extender",
            names: Name::of_service(EXTENDER, namespace, extra),
            usage: Usage::Server,
            metric: Certificate::Extender,
        };
        let client = Self {
            secret: EXTENDER_CLIENT_SECRET,
            described: "the Secret cardgate-extender-client",
            owner: "schedulers that ask the extender",
            common_name: "Cardgate scheduler",
            names: Name::of_service(SCHEDULER, namespace, &[]),
            usage: Usage::Client,
            metric: Certificate::ExtenderClient,
        };
        [server, client]
    }
}
