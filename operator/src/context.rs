//! What everybody needs who looks after Cardgate's own objects.

use std::sync::Arc;

use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use kube::Client;

use crate::lease::Leadership;
use crate::metrics::Metrics;
use crate::recorder::Recorder;
use programs::readiness::Readiness;

/// The cluster, Cardgate's place in it, and where is told what was found and done.
#[derive(Clone)]
pub struct Context {
    /// For reading and writing.
    pub client: Client,
    /// Cardgate's own namespace.
    pub namespace: String,
    /// Without it nothing is written, so that events come once.
    pub leadership: Leadership,
    /// Gets counts, and what is wrong as figures.
    pub metrics: Arc<Metrics>,
    /// Gets what is wrong as text.
    pub readiness: Arc<Readiness>,
    /// Gets what users should see beside the objects.
    pub recorder: Recorder,
}

impl Context {
    /// An item whenever this operator begins to lead or no longer does; no end.
    pub fn elections(&self) -> BoxStream<'static, ()> {
        stream::unfold(self.leadership.changes(), async |mut leads| {
            // Without an election any more, who leads stays what it was.
            if leads.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
            Some(((), leads))
        })
        .boxed()
    }
}
