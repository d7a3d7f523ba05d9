//! Follows the configuration's `ConfigMap`: the newest that can be read is in force.
//!
//! One that can't be read changes nothing. The last good one stays, or the defaults if there was none since the start, and
//! an event on the `ConfigMap`, a metric and the readiness text say so.

use std::sync::Arc;

use crds::configuration::{CARDGATE_YAML, Configuration, Parsed, SCHEDULER_CONF, generation};
use futures::{StreamExt as _, pin_mut};
use k8s_openapi::api::core::v1::{ConfigMap, ObjectReference};
use kube::runtime::events::EventType;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client, Resource as _};
use thiserror::Error;
use tokio::sync::watch;
use tracing::{error, info, warn};

use crate::metrics::Metrics;
use crate::recorder::Recorder;
use crate::server::Readiness;

/// The `ConfigMap`, in Cardgate's own namespace.
pub const CONFIG_MAP: &str = "cardgate-config";
/// What readiness waits for: whether there is a `ConfigMap` is known.
pub const READY_PART: &str = "configuration";

/// Reason of the event for a configuration that is not in force.
const INVALID: &str = "InvalidConfiguration";
/// Reason of the event for a configuration that is in force, though not all of it has an effect.
const WARNING: &str = "ConfigurationWarning";
/// What Cardgate was doing, in both events.
const ACTION: &str = "LoadConfiguration";

/// The configuration can no longer be followed.
#[derive(Debug, Error)]
pub enum ConfigurationWatchError {
    /// The watch ended by itself.
    #[error("the watch on ConfigMap {CONFIG_MAP} ended")]
    Ended,
}

/// Follows the `ConfigMap`.
pub struct ConfigurationWatch {
    /// For reading.
    pub client: Client,
    /// Cardgate's own namespace.
    pub namespace: String,
    /// Gets generation and validity.
    pub metrics: Arc<Metrics>,
    /// Gets what is wrong, and [`READY_PART`].
    pub readiness: Arc<Readiness>,
    /// Writes the events.
    pub recorder: Recorder,
    /// Only who leads writes events, so that each is written once.
    pub leads: watch::Receiver<bool>,
}

impl ConfigurationWatch {
    /// Follows the `ConfigMap` for ever. `publish` gets every configuration that comes into force, the first as soon as it
    /// is known whether there is a `ConfigMap`; the metrics show it when `publish` is done.
    pub async fn run<P, D>(mut self, mut publish: P) -> Result<(), ConfigurationWatchError>
    where
        P: FnMut(Arc<Configuration>) -> D,
        D: Future<Output = ()>,
    {
        let api = Api::<ConfigMap>::namespaced(self.client.clone(), &self.namespace);
        let only = watcher::Config::default().fields(&format!("metadata.name={CONFIG_MAP}"));
        let changes = watcher(api, only).default_backoff();
        pin_mut!(changes);
        let mut loader = Loader::default();
        let mut listed = None;
        let mut untold = Vec::new();
        let mut leads_may_change = true;
        loop {
            let config_map = tokio::select! {
                change = changes.next() => match change {
                    Some(Ok(watcher::Event::Init)) => {
                        listed = None;
                        continue;
                    }
                    Some(Ok(watcher::Event::InitApply(config_map))) => {
                        listed = Some(config_map);
                        continue;
                    }
                    Some(Ok(watcher::Event::InitDone)) => listed.take(),
                    Some(Ok(watcher::Event::Apply(config_map))) => Some(config_map),
                    Some(Ok(watcher::Event::Delete(_))) => None,
                    Some(Err(error)) => {
                        self.metrics.watch_error(&error);
                        warn!(%error, "the watch on ConfigMap {CONFIG_MAP} was interrupted, trying again");
                        continue;
                    }
                    None => return Err(ConfigurationWatchError::Ended),
                },
                election = self.leads.changed(), if leads_may_change => {
                    // Without an election any more, who leads stays what it was.
                    leads_may_change = election.is_ok();
                    self.tell(&mut untold).await;
                    continue;
                }
            };
            if let Some(loaded) = loader.load(config_map.as_ref()) {
                untold = loaded.notes;
                self.put_in_force(loaded.outcome, &mut publish).await;
                self.tell(&mut untold).await;
            }
        }
    }

    async fn put_in_force<P, D>(&self, outcome: Outcome, publish: &mut P)
    where
        P: FnMut(Arc<Configuration>) -> D,
        D: Future<Output = ()>,
    {
        match outcome {
            Outcome::InForce {
                configuration,
                generation,
            } => {
                info!(generation, ?configuration, "configuration in force");
                publish(configuration).await;
                self.metrics.configured(generation);
                self.readiness.configuration(None);
            }
            Outcome::Invalid { problem, instead } => {
                error!("the configuration is invalid: {problem}");
                if let Some(defaults) = instead {
                    publish(defaults).await;
                }
                self.metrics.config_invalid();
                self.readiness.configuration(Some(problem));
            }
        }
        self.readiness.arrived(READY_PART);
    }

    /// Writes the events, if this operator leads; else they are kept until it does.
    async fn tell(&self, untold: &mut Vec<Note>) {
        if *self.leads.borrow() {
            for note in untold.drain(..) {
                self.recorder
                    .publish(&note.regarding, EventType::Warning, note.reason, ACTION, &note.text)
                    .await;
            }
        }
    }
}

/// An event to be written.
#[derive(Debug, Clone, PartialEq)]
struct Note {
    regarding: ObjectReference,
    reason: &'static str,
    text: String,
}

/// What a `ConfigMap` came to.
#[derive(Debug, PartialEq)]
struct Loaded {
    outcome: Outcome,
    notes: Vec<Note>,
}

#[derive(Debug, PartialEq)]
enum Outcome {
    InForce {
        configuration: Arc<Configuration>,
        generation: i64,
    },
    Invalid {
        problem: String,
        /// The defaults, if nothing has been in force since the start.
        instead: Option<Arc<Configuration>>,
    },
}

/// Remembers what was read last.
#[derive(Debug, Default)]
struct Loader {
    last: Option<i64>,
    in_force: bool,
}

impl Loader {
    /// Reads the `ConfigMap`; without one, the defaults. None where the texts are those of the last time.
    fn load(&mut self, config_map: Option<&ConfigMap>) -> Option<Loaded> {
        let data = config_map.and_then(|config_map| config_map.data.as_ref());
        let text = |key: &str| data.and_then(|data| data.get(key)).map(String::as_str);
        let (conf, own) = (text(SCHEDULER_CONF), text(CARDGATE_YAML));
        let generation = generation(conf, own);
        if self.last.replace(generation) == Some(generation) {
            return None;
        }
        let regarding = config_map
            .map(|config_map| config_map.object_ref(&()))
            .unwrap_or_default();
        let note = |reason, text| Note {
            regarding: regarding.clone(),
            reason,
            text,
        };
        Some(match Configuration::parse(conf, own) {
            Ok(Parsed {
                configuration,
                warnings,
            }) => {
                self.in_force = true;
                for warning in &warnings {
                    warn!("configuration: {warning}");
                }
                Loaded {
                    outcome: Outcome::InForce {
                        configuration: Arc::new(configuration),
                        generation,
                    },
                    notes: warnings.into_iter().map(|warning| note(WARNING, warning)).collect(),
                }
            }
            Err(problem) => {
                let (instead, ruling) = if self.in_force {
                    (None, "the last good one stays in force")
                } else {
                    (Some(Arc::default()), "the defaults are in force")
                };
                let problem = format!("{problem}; {ruling}");
                self.in_force = true;
                Loaded {
                    notes: vec![note(INVALID, problem.clone())],
                    outcome: Outcome::Invalid { problem, instead },
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn config_map(cardgate_yaml: &str) -> ConfigMap {
        ConfigMap {
            data: Some(BTreeMap::from([(CARDGATE_YAML.to_owned(), cardgate_yaml.to_owned())])),
            ..ConfigMap::default()
        }
    }

    fn default_queue(loaded: &Loaded) -> &str {
        match &loaded.outcome {
            Outcome::InForce { configuration, .. } => &configuration.cardgate.default_queue,
            Outcome::Invalid { .. } => panic!("{loaded:?}"),
        }
    }

    #[test]
    fn each_change_comes_into_force_once() {
        let mut loader = Loader::default();
        let first = loader.load(None).unwrap();
        assert_eq!(default_queue(&first), "default");
        assert_eq!(loader.load(None), None, "a watch that begins again");
        let changed = loader.load(Some(&config_map("defaultQueue: research"))).unwrap();
        assert_eq!(default_queue(&changed), "research");
        assert_eq!(loader.load(Some(&config_map("defaultQueue: research"))), None);
        assert_eq!(
            default_queue(&loader.load(None).unwrap()),
            "default",
            "the ConfigMap was deleted"
        );
    }

    #[test]
    fn an_invalid_configuration_keeps_the_last_good_one() {
        let mut loader = Loader::default();
        loader.load(Some(&config_map("defaultQueue: research"))).unwrap();
        let Loaded { outcome, notes } = loader.load(Some(&config_map("admitOn: sometimes"))).unwrap();
        let Outcome::Invalid { problem, instead: None } = outcome else {
            panic!("{outcome:?}")
        };
        assert!(
            problem.contains("admitOn") && problem.contains("sometimes"),
            "{problem}"
        );
        assert_eq!(notes.len(), 1);
        assert_eq!((notes[0].reason, notes[0].text.as_str()), (INVALID, problem.as_str()));
    }

    #[test]
    fn an_invalid_configuration_at_the_start_leaves_the_defaults() {
        let mut loader = Loader::default();
        let mut invalid = |text| match loader.load(Some(&config_map(text))).unwrap().outcome {
            Outcome::Invalid { instead, .. } => instead,
            other @ Outcome::InForce { .. } => panic!("{other:?}"),
        };
        assert_eq!(invalid("admitOn: 1"), Some(Arc::default()));
        assert_eq!(invalid("admitOn: 2"), None, "they are in force already");
    }

    #[test]
    fn warnings_become_events() {
        let loaded = Loader::default().load(Some(&config_map("admiton: fit"))).unwrap();
        assert_eq!(default_queue(&loaded), "default");
        assert_eq!(loaded.notes.len(), 1);
        assert_eq!(loaded.notes[0].reason, WARNING);
        assert!(loaded.notes[0].text.contains("admiton"), "{:?}", loaded.notes);
    }
}
