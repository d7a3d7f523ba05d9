//! Whether the webhook lives, and whether it should get requests.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use programs::readiness::Readiness;

use crate::knowledge::Knowledge;
use crate::tls::ServingCertificate;

/// A review that takes this long hangs, and so does its thread: API servers wait for 5 s, and what a review itself asks of
/// the API server has a limit of its own. The kubelet is then told to restart this webhook.
pub const LONGEST_REVIEW: Duration = Duration::from_secs(30);

/// Whether reviews under way still end, and what readiness depends on.
#[derive(Debug)]
pub struct Health {
    knowledge: Arc<Knowledge>,
    certificate: Arc<ServingCertificate>,
    readiness: Readiness,
    /// When each review under way began, oldest first, and its number.
    under_way: Mutex<BTreeSet<(Instant, u64)>>,
    reviews: AtomicU64,
}

/// A review that is under way until this is dropped.
#[derive(Debug)]
pub struct Review<'h> {
    health: &'h Health,
    began: (Instant, u64),
}

impl Drop for Review<'_> {
    fn drop(&mut self) {
        self.health.under_way().remove(&self.began);
    }
}

impl Health {
    /// The health of a webhook with this knowledge and this certificate.
    pub fn new(knowledge: Arc<Knowledge>, certificate: Arc<ServingCertificate>) -> Self {
        Self {
            knowledge,
            certificate,
            readiness: Readiness::default(),
            under_way: Mutex::default(),
            reviews: AtomicU64::new(0),
        }
    }

    /// Records that a review begins.
    pub fn begin(&self) -> Review<'_> {
        self.begin_at(Instant::now())
    }

    fn begin_at(&self, now: Instant) -> Review<'_> {
        let began = (now, self.reviews.fetch_add(1, Ordering::Relaxed));
        self.under_way().insert(began);
        Review { health: self, began }
    }

    /// Why the webhook does not seem to be alive; `None` if it does.
    pub fn trouble(&self) -> Option<String> {
        let oldest = self.under_way().first().map(|(began, _)| began.elapsed())?;
        let seconds = oldest.as_secs();
        (oldest >= LONGEST_REVIEW).then(|| format!("a review has been under way for {seconds} s"))
    }

    fn under_way(&self) -> MutexGuard<'_, BTreeSet<(Instant, u64)>> {
        // Each change is a single call, so a thread that panicked while it held the lock left nothing half done.
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says that no new requests should come from now on.
    pub fn drain(&self) {
        self.readiness.drain();
    }

    /// Whether new requests should stay away.
    pub fn is_draining(&self) -> bool {
        self.readiness.is_draining()
    }

    /// Whether requests should come, and a text that says why not or what else there is to know.
    pub fn readiness(&self) -> (bool, String) {
        let mut missing = self.knowledge.missing();
        if !self.certificate.is_present() {
            missing.push("serving certificate (tls.crt and tls.key in --tls-dir)");
        }
        self.readiness.lacks(missing);
        self.readiness
            .configuration(self.knowledge.configured().problem.clone());
        self.readiness.report()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_review_that_hangs_is_seen_until_it_ends() {
        let health = Health::new(Arc::default(), Arc::default());
        assert_eq!(health.trouble(), None);
        let long_ago = Instant::now().checked_sub(LONGEST_REVIEW).unwrap();
        let hangs = health.begin_at(long_ago);
        let quick = health.begin();
        let expected = "a review has been under way for 30 s";
        assert_eq!(health.trouble().as_deref(), Some(expected));
        drop(quick);
        assert!(health.trouble().is_some());
        drop(hangs);
        assert_eq!(health.trouble(), None);
    }
}
