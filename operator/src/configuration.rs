//! Puts the configuration in force, and reports its errors in events.

use std::sync::Arc;

use crds::configuration::Configuration;
use crds::keys::CONFIG_MAP;
use engine::happening::Happening;
use futures::{StreamExt as _, pin_mut};
use kube::runtime::events::EventType;
use programs::configuration::{Loaded, follow};
use programs::logging::plain;
use thiserror::Error;
use tracing::warn;

use crate::context::Context;

/// The part that readiness waits for: it is known whether there is a `ConfigMap`.
pub const READY_PART: &str = "configuration";

/// Cardgate's action, in both events.
const ACTION: &str = "LoadConfiguration";

/// The configuration can no longer be followed.
#[derive(Debug, Error)]
#[error("the watch on ConfigMap {CONFIG_MAP} ended")]
pub struct ConfigurationWatchEnded;

/// Follows the `ConfigMap` for ever. `publish` gets every configuration that comes into force. It gets the first one as soon as it is known
/// whether there is a `ConfigMap`. The metrics show a configuration when `publish` is done.
pub async fn run<P, D>(context: Context, mut publish: P) -> Result<(), ConfigurationWatchEnded>
where
    P: FnMut(Arc<Configuration>) -> D,
    D: Future<Output = ()>,
{
    let changes = follow(context.client.clone(), &context.namespace);
    pin_mut!(changes);
    let mut elections = context.elections();
    let mut untold = None;
    loop {
        tokio::select! {
            biased;
            change = changes.next() => match change.ok_or(ConfigurationWatchEnded)? {
                Ok(loaded) => {
                    if let Some(configuration) = &loaded.in_force {
                        publish(Arc::clone(configuration)).await;
                    }
                    context.metrics.configuration().show(&loaded.read);
                    context.readiness.configuration(loaded.read.as_ref().err().cloned());
                    context.readiness.arrived(READY_PART);
                    untold = Some(loaded);
                }
                Err(error) => {
                    context.metrics.watch_error(&error);
                    warn!(error = plain(&error), "the watch on ConfigMap {CONFIG_MAP} was interrupted, trying again");
                }
            },
            _ = elections.next() => {}
        }
        // An operator that does not lead keeps its findings until it leads.
        if let Some(loaded) = untold.take_if(|_| context.leadership.is_elected()) {
            tell(&context, &loaded).await;
        }
    }
}

/// Writes the events.
async fn tell(context: &Context, loaded: &Loaded) {
    let problem = loaded
        .read
        .as_ref()
        .err()
        .map(|problem| (Happening::InvalidConfiguration, problem));
    let warnings = loaded
        .warnings
        .iter()
        .map(|warning| (Happening::ConfigurationWarning, warning));
    for (reason, text) in problem.into_iter().chain(warnings) {
        context
            .recorder
            .publish(&loaded.config_map, EventType::Warning, reason, ACTION, text)
            .await;
    }
}
