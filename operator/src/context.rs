//! What all parts need that look after Cardgate's own objects.

use std::sync::Arc;

use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use kube::Client;

use crate::lease::Leadership;
use crate::metrics::Metrics;
use crate::recorder::Recorder;
use programs::readiness::Readiness;

/// The cluster, Cardgate's namespace in it, and where findings and actions are reported.
#[derive(Clone)]
pub struct Context {
    /// The client for reading and writing.
    pub client: Client,
    /// Cardgate's own namespace.
    pub namespace: String,
    /// Without leadership nothing is written, so that each event appears once.
    pub leadership: Leadership,
    /// Receives counts, and problems as figures.
    pub metrics: Arc<Metrics>,
    /// Receives problems as text.
    pub readiness: Arc<Readiness>,
    /// Receives what users should see beside the objects.
    pub recorder: Recorder,
}

impl Context {
    /// Returns a stream with an item whenever this operator begins or ceases to lead. The stream never ends.
    pub fn elections(&self) -> BoxStream<'static, ()> {
        stream::unfold(self.leadership.changes(), async |mut leads| {
            // After the end of the election, the leadership no longer changes.
            if leads.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
            Some(((), leads))
        })
        .boxed()
    }
}
