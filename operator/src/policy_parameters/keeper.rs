//! Keeps the `ConfigMap` that the policies read as it should be, while this operator leads.

use std::sync::Arc;
use std::time::Duration;

use crds::keys::POLICY_PARAMETERS;
use futures::stream::BoxStream;
use futures::{FutureExt as _, StreamExt as _};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client};
use serde_json::json;
use thiserror::Error;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

use super::Parameters;
use crate::lease::Leadership;
use crate::metrics::{Metrics, Verb, Write};

/// How long one request may take.
const TIME_LIMIT: Duration = Duration::from_secs(5);
/// Everything is looked at again after this time, whatever was heard: a lost message heals by itself.
const LOOK_AGAIN: Duration = Duration::from_mins(10);
/// The shortest time between two looks: a quarrel about the object stays slow.
const PAUSE: Duration = Duration::from_millis(100);
/// The wait after the first failure; doubled with every one that follows.
const FIRST_WAIT: Duration = Duration::from_millis(500);
/// The longest wait after a failure.
const LONGEST_WAIT: Duration = Duration::from_secs(30);
/// Who the API server notes as the owner of what is written.
const FIELD_MANAGER: &str = "cardgate-operator";

/// The `ConfigMap` could not be brought in order. It is tried again.
#[derive(Debug, Error)]
enum ParameterError {
    #[error("can't {verb} ConfigMap {POLICY_PARAMETERS}: {source}")]
    Api {
        verb: &'static str,
        source: Box<kube::Error>,
    },
    #[error("can't {verb} ConfigMap {POLICY_PARAMETERS}: no answer within {} s", TIME_LIMIT.as_secs())]
    Timeout { verb: &'static str },
    #[error("this operator no longer leads")]
    NotLeading,
}

/// Keeps the parameters.
pub struct ParameterKeeper {
    /// For reading and writing.
    pub client: Client,
    /// Cardgate's own namespace.
    pub namespace: String,
    /// Nothing is written without it.
    pub leadership: Leadership,
    /// Counts writes, errors and what had to be restored.
    pub metrics: Arc<Metrics>,
    /// What is to be there; none before everything has been listed.
    pub wanted: watch::Receiver<Option<Arc<Parameters>>>,
}

impl ParameterKeeper {
    /// Keeps the parameters for ever, whenever this operator leads.
    pub async fn run(mut self) {
        let mut leads = self.leadership.changes();
        loop {
            // Without an election any more, this operator will never lead again.
            if leads.wait_for(|leads| *leads).await.is_err() {
                return;
            }
            let end = leads.wait_for(|leads| !*leads).map(|_| ());
            tokio::select! {
                () = end => {}
                () = self.keep() => {}
            }
        }
    }

    async fn keep(&mut self) {
        let mut changes = self.changes();
        let mut wait = FIRST_WAIT;
        let mut written = None;
        loop {
            let wanted = self.wanted.borrow_and_update().clone();
            let kept = match &wanted {
                Some(wanted) => self.reconcile(wanted, written.as_ref() == Some(wanted)).await,
                None => Ok(()),
            };
            let rest = match kept {
                Ok(()) => {
                    (written, wait) = (wanted, FIRST_WAIT);
                    LOOK_AGAIN
                }
                Err(error) => {
                    warn!(%error, "what the policies read is not in order, trying again");
                    let rest = wait;
                    wait = (wait * 2).min(LONGEST_WAIT);
                    rest
                }
            };
            sleep(PAUSE).await;
            tokio::select! {
                () = sleep(rest) => {}
                _ = changes.next() => while let Some(Some(())) = changes.next().now_or_never() {},
                told = self.wanted.changed() => if told.is_err() {
                    // Who decides has ended, and so does the program.
                    return;
                },
            }
        }
    }

    /// Something about the object has changed.
    fn changes(&self) -> BoxStream<'static, ()> {
        let only = watcher::Config::default().fields(&format!("metadata.name={POLICY_PARAMETERS}"));
        let metrics = Arc::clone(&self.metrics);
        watcher(self.api(), only)
            .default_backoff()
            .filter_map(move |change| {
                if let Err(error) = &change {
                    metrics.watch_error(error);
                    warn!(%error, "the watch on ConfigMap {POLICY_PARAMETERS} was interrupted, trying again");
                }
                std::future::ready(change.ok().map(|_| ()))
            })
            .boxed()
    }

    /// Writes what is to be there, where it is not; `was_there` says that it was at the last look.
    async fn reconcile(&self, wanted: &Parameters, was_there: bool) -> Result<(), ParameterError> {
        let api = self.api();
        let found = self.request(api.get_opt(POLICY_PARAMETERS), Verb::Get, "read").await?;
        let data = found.and_then(|map| map.data);
        let found = |key: &String| data.as_ref().and_then(|data| data.get(key));
        let differing = wanted.iter().filter(|(key, value)| found(key) != Some(value));
        let differing: Vec<_> = differing.map(|(key, _)| key.as_str()).collect();
        if differing.is_empty() {
            return Ok(());
        }
        if !self.leadership.holds() {
            return Err(ParameterError::NotLeading);
        }
        self.metrics.api_write(Write::PolicyParameters);
        let object = json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": { "name": POLICY_PARAMETERS },
            "data": wanted,
        });
        let params = PatchParams::apply(FIELD_MANAGER).force();
        let patch = Patch::Apply(&object);
        self.request(api.patch(POLICY_PARAMETERS, &params, &patch), Verb::Patch, "write")
            .await?;
        let keys = differing.join(", ");
        if was_there {
            self.metrics.parameters_restored();
            warn!(
                keys,
                "somebody changed ConfigMap {POLICY_PARAMETERS}, which the policies read: restored"
            );
        } else {
            info!(keys, "wrote ConfigMap {POLICY_PARAMETERS}, which the policies read");
        }
        Ok(())
    }

    async fn request<T>(
        &self,
        request: impl Future<Output = kube::Result<T>>,
        kind: Verb,
        verb: &'static str,
    ) -> Result<T, ParameterError> {
        match timeout(TIME_LIMIT, request).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => {
                self.metrics.api_error(kind, &error);
                Err(ParameterError::Api {
                    verb,
                    source: Box::new(error),
                })
            }
            Err(_) => {
                self.metrics.api_timeout(kind);
                Err(ParameterError::Timeout { verb })
            }
        }
    }

    fn api(&self) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }
}
