//! Whether the webhook lives, and whether it should get requests.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::knowledge::Knowledge;
use crate::tls::ServingCertificate;

/// What readiness depends on.
#[derive(Debug)]
pub struct Health {
    knowledge: Arc<Knowledge>,
    certificate: Arc<ServingCertificate>,
    draining: AtomicBool,
}

impl Health {
    /// Health of a webhook with this knowledge and this certificate.
    pub fn new(knowledge: Arc<Knowledge>, certificate: Arc<ServingCertificate>) -> Self {
        Self {
            knowledge,
            certificate,
            draining: AtomicBool::new(false),
        }
    }

    /// From now on no new requests should come.
    pub fn drain(&self) {
        self.draining.store(true, Ordering::Release);
    }

    /// Whether no new requests should come.
    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Acquire)
    }

    /// Whether requests should come, and a text that says why not, or what else there is to know.
    pub fn readiness(&self) -> (bool, String) {
        let mut missing = self.knowledge.missing();
        if !self.certificate.is_present() {
            missing.push("serving certificate (tls.crt and tls.key in --tls-dir)");
        }
        let draining = self.is_draining();
        let ready = missing.is_empty() && !draining;
        let mut text = match (draining, ready) {
            (true, _) => "not ready: shutting down\n".to_owned(),
            (_, true) => "ok\n".to_owned(),
            _ => format!("not ready, waiting for: {}\n", missing.join(", ")),
        };
        if let Some(problem) = self.knowledge.configuration_problem() {
            // Writing to a String can't fail.
            let _ = writeln!(
                text,
                "the configuration is invalid, the last good one stays in force: {problem}"
            );
        }
        (ready, text)
    }
}
