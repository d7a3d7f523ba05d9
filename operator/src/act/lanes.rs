//! Lanes: bound how many writes are under way at once. A namespace whose writes are not answered keeps only a few of them.

#[cfg(test)]
mod tests;

use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, timeout};

use crate::traffic::Traffic;

/// How many pods are written at once. More writes would only wait in the API server, which serves few at a time.
pub const LANES: usize = 16;
/// How long a write keeps its lane. After that, it goes on without a lane, and its namespace counts as slow.
const LANE_TIME: Duration = Duration::from_secs(2);
/// How many writes may go on without a lane. Without this limit, an API server that is slow for everybody would get more and more requests.
const WITHOUT_LANE: usize = 64;
/// Why a write is not begun.
pub(super) const NOT_ANSWERED: &str = "it has not answered earlier writes in this namespace in time: the API server is slow, or an admission \
                                       webhook that it calls for them";

/// The lanes of all namespaces.
#[derive(Debug)]
pub(super) struct Lanes {
    free: Semaphore,
    /// How many more writes may leave their lane.
    beside: Semaphore,
    traffic: Mutex<Traffic>,
}

impl Default for Lanes {
    fn default() -> Self {
        Self {
            free: Semaphore::new(LANES),
            beside: Semaphore::new(WITHOUT_LANE),
            traffic: Mutex::default(),
        }
    }
}

impl Lanes {
    /// Writes in a lane as soon as one is free. Returns none if the namespace's writes are not answered and enough of them are under way.
    pub(super) async fn write<F: Future>(&self, namespace: &str, write: impl FnOnce() -> F) -> Option<F::Output> {
        // The semaphore is never closed, so this never fails.
        let lane = self.free.acquire().await.ok()?;
        {
            let mut traffic = self.traffic();
            if !traffic.has_room(namespace) {
                return None;
            }
            traffic.begin(namespace);
        }
        let mut write = pin!(write());
        if let Ok(answer) = timeout(LANE_TIME, &mut write).await {
            self.traffic().end(namespace, true);
            return Some(answer);
        }
        self.traffic().late(namespace, Instant::now());
        let lane = self.leave(lane);
        let answer = write.await;
        drop(lane);
        self.traffic().end(namespace, false);
        Some(answer)
    }

    /// Gives a lane back, unless too many writes go on without one. The caller keeps the returned permit until the write has ended.
    fn leave<'l>(&'l self, lane: SemaphorePermit<'l>) -> SemaphorePermit<'l> {
        self.beside.try_acquire().unwrap_or(lane)
    }

    fn traffic(&self) -> MutexGuard<'_, Traffic> {
        self.traffic.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
