//! Keeps objects as they should be while this operator leads: looks at them when they change, and regularly.

use std::fmt::{Debug, Display};
use std::sync::Arc;
use std::time::Duration;

use futures::stream::BoxStream;
use futures::{FutureExt as _, StreamExt as _};
use kube::api::PartialObjectMeta;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Resource};
use programs::logging::plain;
use serde::de::DeserializeOwned;
use thiserror::Error;
use tokio::time::sleep;
use tracing::warn;

use crate::context::Context;
use crate::metrics::{Metrics, Verb, Write};
use crate::request::RequestError;

/// How long one request may take.
const TIME_LIMIT: Duration = Duration::from_secs(5);
/// The time after which everything is looked at again, whatever was heard: so a lost message has no lasting effect.
pub const LOOK_AGAIN: Duration = Duration::from_mins(10);
/// The shortest time between two looks. Changes in a burst cause one look, and if another client keeps undoing the writes, the quarrel
/// stays slow.
const PAUSE: Duration = Duration::from_millis(100);
/// The wait after the first failure; every further failure doubles it.
const FIRST_WAIT: Duration = Duration::from_millis(500);
/// The longest wait after a failure.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// A keeper's step failed. The keeper tries again.
#[derive(Debug, Error)]
pub enum KeepError {
    /// A request failed: what was tried, with which object, and why.
    #[error("can't {verb} {what}: {source}")]
    #[expect(missing_docs, reason = "one line says it")]
    Request {
        verb: &'static str,
        what: &'static str,
        source: RequestError,
    },
    /// Another operator leads.
    #[error("this operator no longer leads")]
    NotLeading,
}

/// Keeps some objects.
pub trait Keeper: Send + Sync {
    /// Why the objects could not be brought in order.
    type Error: Display + Send;
    /// The objects, for the log.
    const OBJECTS: &'static str;

    /// The keeper's surroundings.
    fn context(&self) -> &Context;

    /// Returns a stream with an item when something changes that [`Self::reconcile`] looks at.
    fn changes(&self) -> BoxStream<'static, ()>;

    /// Brings everything in order. Returns after which time to do so again.
    fn reconcile(&mut self) -> impl Future<Output = Result<Duration, Self::Error>> + Send;
}

/// Keeps the objects for ever, whenever this operator leads.
pub async fn run(mut keeper: impl Keeper) {
    let mut leads = keeper.context().leadership.changes();
    loop {
        // After the end of the election, this operator will never lead again.
        if leads.wait_for(|leads| *leads).await.is_err() {
            return;
        }
        let end = leads.wait_for(|leads| !*leads).map(|_| ());
        tokio::select! {
            biased;
            () = end => {}
            () = keep(&mut keeper) => {}
        }
    }
}

async fn keep<K: Keeper>(keeper: &mut K) {
    let mut changes = keeper.changes();
    let mut wait = FIRST_WAIT;
    loop {
        let rest = match keeper.reconcile().await {
            Ok(rest) => {
                wait = FIRST_WAIT;
                rest.min(LOOK_AGAIN)
            }
            Err(error) => {
                warn!(%error, "{} not in order, trying again", K::OBJECTS);
                let rest = wait;
                wait = (wait * 2).min(LONGEST_WAIT);
                rest
            }
        };
        sleep(PAUSE).await;
        tokio::select! {
            biased;
            () = sleep(rest) => {}
            _ = changes.next() => while let Some(Some(())) = changes.next().now_or_never() {},
        }
    }
}

/// Returns the answer to a request, and counts a failure.
pub async fn in_time<T>(
    metrics: &Metrics,
    request: impl Future<Output = kube::Result<T>>,
    kind: Verb,
    verb: &'static str,
    what: &'static str,
) -> Result<T, KeepError> {
    let answer = metrics.in_time(kind, TIME_LIMIT, request).await;
    answer.map_err(|source| KeepError::Request { verb, what, source })
}

impl Context {
    /// Returns a stream with an item when the object of this name changes.
    pub fn changes<K>(&self, api: Api<PartialObjectMeta<K>>, name: &str) -> BoxStream<'static, ()>
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static,
    {
        let metrics = Arc::clone(&self.metrics);
        watcher::watch_object(api, name)
            .default_backoff()
            .filter_map(move |change| {
                if let Err(error) = &change {
                    metrics.watch_error(error);
                    warn!(kind = %K::kind(&()), error = plain(error), "a watch was interrupted, trying again");
                }
                std::future::ready(change.ok().map(|_| ()))
            })
            .boxed()
    }

    /// Returns the answer to a request, and counts a failure.
    pub async fn request<T>(
        &self,
        request: impl Future<Output = kube::Result<T>>,
        kind: Verb,
        verb: &'static str,
        what: &'static str,
    ) -> Result<T, KeepError> {
        in_time(&self.metrics, request, kind, verb, what).await
    }

    /// Fails if this operator does not lead; otherwise counts the write. Call it before every write.
    pub fn may_write(&self, kind: Write) -> Result<(), KeepError> {
        if !self.leadership.holds() {
            return Err(KeepError::NotLeading);
        }
        self.metrics.api_write(kind);
        Ok(())
    }
}
