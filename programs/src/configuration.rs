//! Follows the configuration's `ConfigMap`: the newest readable version is in force.
//!
//! A version that cannot be read changes nothing: the last good one stays. A program that starts with an unreadable version has no
//! configuration in force and decides nothing, since the defaults might admit pods that the last good version would hold. The same holds
//! where the `ConfigMap` is deleted, which may be back in a moment. The defaults are in force where it was not there at the start, or has no
//! data. The log, a metric and the readiness text say what is wrong, and so does an event of the operator that leads.

use std::future::ready;
use std::sync::Arc;

use crds::configuration::{
    CARDGATE_YAML, Configuration, ConfigurationError, Parsed, QueuePlugin, SCHEDULER_CONF, generation, unknown_keys,
};
use crds::keys::CONFIG_MAP;
use futures::{Stream, StreamExt as _};
use k8s_openapi::api::core::v1::{ConfigMap, ObjectReference};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client, Resource as _};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tracing::{error, info, warn};

/// The problem of a `ConfigMap` that was there. Who lets in by the defaults meanwhile can't take that back.
const IS_MISSING: &str = "ConfigMap cardgate-config is missing: create it again, without data for the defaults";
/// The warning for the author of a configuration without quotas, who may have copied it from a document about something else.
const QUEUES_ARE_UNLIMITED: &str = "volcano-scheduler.conf lists plugins, and neither capacity-card nor capacity: what is not listed is \
                                    off, so queues limit nothing. List one of the two to have quotas";

/// Reads the `ConfigMap`, with all messages for its author; without a `ConfigMap`, returns the defaults.
pub fn parse(config_map: Option<&ConfigMap>) -> Result<Parsed, ConfigurationError> {
    let data = config_map.and_then(|config_map| config_map.data.as_ref());
    let text = |key: &str| data.and_then(|data| data.get(key)).map(String::as_str);
    let mut parsed = Configuration::parse(text(SCHEDULER_CONF), text(CARDGATE_YAML))?;
    let keys = data.into_iter().flatten().map(|(key, _)| key.as_str());
    parsed.warnings.extend(unknown_keys(keys));
    if parsed.configuration.queue_plugin == QueuePlugin::Off {
        parsed.warnings.push(QUEUES_ARE_UNLIMITED.to_owned());
    }
    Ok(parsed)
}

/// The result of a change of the `ConfigMap`.
#[derive(Debug, PartialEq)]
pub struct Loaded {
    /// The configuration that comes into force; none if the earlier one stays, or if there is still none.
    pub in_force: Option<Arc<Configuration>>,
    /// The generation of the texts; if they cannot be read, the reason and its consequences.
    pub read: Result<i64, String>,
    /// Settings without effect, or with an effect that the author may not expect.
    pub warnings: Vec<String>,
    /// The `ConfigMap`, for events.
    pub config_map: ObjectReference,
}

/// Follows the `ConfigMap` in Cardgate's own namespace, for ever. The first item comes as soon as it is known whether the `ConfigMap`
/// exists. An error is an error of the watch, which begins again.
pub fn follow(client: Client, namespace: &str) -> impl Stream<Item = watcher::Result<Loaded>> + Send + use<> {
    let mut reader = Reader::default();
    watcher::watch_object(Api::<ConfigMap>::namespaced(client, namespace), CONFIG_MAP)
        .default_backoff()
        .filter_map(move |seen| ready(seen.map(|config_map| reader.read(config_map.as_ref())).transpose()))
}

/// The metrics that a program shows about its configuration. Clones show the same.
#[derive(Debug, Clone, Default)]
pub struct ConfigurationGauges {
    generation: Gauge,
    valid: Gauge,
}

impl ConfigurationGauges {
    /// Registers the metrics.
    pub fn register(&self, registry: &mut Registry) {
        registry.register(
            "config_generation",
            "Changes when a new configuration is in force",
            self.generation.clone(),
        );
        registry.register(
            "config_valid",
            "1 if the newest configuration is in force, 0 if it is invalid or missing: an older one is in force, or none since a restart",
            self.valid.clone(),
        );
    }

    /// Shows that the newest configuration was read, and is in force if it could be read.
    pub fn show(&self, read: &Result<i64, String>) {
        if let Ok(generation) = read {
            self.generation.set(*generation);
        }
        self.valid.set(read.is_ok().into());
    }
}

/// Remembers what was read last.
#[derive(Debug, Default)]
pub struct Reader {
    last: Option<Last>,
    in_force: bool,
    /// The `ConfigMap`, once there was one.
    config_map: Option<ObjectReference>,
}

/// What was read.
#[derive(Debug, PartialEq)]
enum Last {
    /// Texts: their generation, and which of their keys are not used.
    Texts(i64, Vec<String>),
    /// The `ConfigMap` was gone.
    Missing,
}

impl Reader {
    /// Reads the `ConfigMap`. Without one, reads the defaults if there has been none since the start. Returns none if the texts have not
    /// changed since the last time.
    pub fn read(&mut self, config_map: Option<&ConfigMap>) -> Option<Loaded> {
        if let Some(config_map) = config_map {
            self.config_map = Some(config_map.object_ref(&()));
        }
        let is_missing = config_map.is_none() && self.config_map.is_some();
        let data = config_map.and_then(|config_map| config_map.data.as_ref());
        let text = |key: &str| data.and_then(|data| data.get(key)).map(String::as_str);
        let (conf, own) = (text(SCHEDULER_CONF), text(CARDGATE_YAML));
        let generation = generation(conf, own);
        let unknown = unknown_keys(data.into_iter().flatten().map(|(key, _)| key.as_str()));
        let now = if is_missing {
            Last::Missing
        } else {
            Last::Texts(generation, unknown)
        };
        if self.last.as_ref() == Some(&now) {
            return None;
        }
        self.last = Some(now);
        let parsed = if is_missing {
            Err(IS_MISSING.to_owned())
        } else {
            parse(config_map).map_err(|problem| problem.to_string())
        };
        let (in_force, read, warnings) = match parsed {
            Ok(parsed) => {
                for warning in &parsed.warnings {
                    warn!("configuration: {warning}");
                }
                let configuration = &parsed.configuration;
                info!(
                    generation,
                    queue_plugin = configuration.queue_plugin.as_str(),
                    actions = configuration.actions.join(", "),
                    default_queue = configuration.cardgate.default_queue,
                    "configuration in force"
                );
                self.in_force = true;
                (Some(Arc::new(parsed.configuration)), Ok(generation), parsed.warnings)
            }
            Err(problem) => {
                let ruling = if self.in_force {
                    "the last good one stays in force"
                } else {
                    "none has been in force since the start, so nothing is decided until it can be read"
                };
                error!("the configuration is invalid: {problem}; {ruling}");
                (None, Err(format!("{problem}; {ruling}")), Vec::new())
            }
        };
        Some(Loaded {
            in_force,
            read,
            warnings,
            config_map: self.config_map.clone().unwrap_or_default(),
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
        assert!(loaded.read.is_ok(), "{loaded:?}");
        &loaded.in_force.as_ref().unwrap().cardgate.default_queue
    }

    #[test]
    fn each_change_comes_into_force_once() {
        let mut reader = Reader::default();
        let first = reader.read(None).unwrap();
        assert_eq!(default_queue(&first), "default");
        assert_eq!(reader.read(None), None, "a watch that begins again");
        let changed = reader.read(Some(&config_map("defaultQueue: research"))).unwrap();
        assert_eq!(default_queue(&changed), "research");
        assert_eq!(reader.read(Some(&config_map("defaultQueue: research"))), None);
        let emptied = reader.read(Some(&ConfigMap::default())).unwrap();
        assert_eq!(default_queue(&emptied), "default");
    }

    /// `kubectl replace --force` deletes it and brings it back, and so does a tool that prunes. Who is let in by the defaults meanwhile
    /// stays.
    #[test]
    fn a_configuration_that_is_deleted_stays_in_force_until_it_is_back() {
        for (first, ruling) in [
            ("defaultQueue: research", "the last good one stays in force"),
            ("admitOn: sometimes", "nothing is decided until it can be read"),
        ] {
            let mut reader = Reader::default();
            let mut first = config_map(first);
            first.metadata.name = Some(CONFIG_MAP.to_owned());
            let read = reader.read(Some(&first)).unwrap().read;
            let missing = reader.read(None).unwrap();
            assert_eq!(missing.in_force, None, "the defaults may let in whom it holds");
            assert_eq!(missing.config_map.name.as_deref(), Some(CONFIG_MAP), "for events");
            let problem = missing.read.unwrap_err();
            assert!(problem.contains("missing") && problem.ends_with(ruling), "{problem}");
            assert_eq!(reader.read(None), None, "a watch that begins again");
            let back = reader.read(Some(&first)).unwrap();
            assert_eq!(back.read, read, "what is missing no more is told");
            reader.read(None).unwrap();
            let emptied = reader.read(Some(&ConfigMap::default())).unwrap();
            assert_eq!(default_queue(&emptied), "default");
            assert!(reader.read(None).unwrap().read.is_err(), "it was there");
        }
    }

    #[test]
    fn a_key_that_nobody_reads_is_told_whenever_it_comes() {
        let mut reader = Reader::default();
        let mut config_map = config_map("defaultQueue: research");
        assert_eq!(reader.read(Some(&config_map)).unwrap().warnings, [""; 0]);
        let data = config_map.data.as_mut().unwrap();
        data.insert("cardgate.yml".to_owned(), "defaultQueue: other".to_owned());
        let loaded = reader.read(Some(&config_map)).unwrap();
        assert_eq!(default_queue(&loaded), "research");
        assert_eq!(
            loaded.warnings,
            [r#"key "cardgate.yml" is not known and has no effect: write cardgate.yaml or volcano-scheduler.conf"#]
        );
        assert_eq!(reader.read(Some(&config_map)), None);
    }

    #[test]
    fn an_invalid_configuration_keeps_the_last_good_one_and_says_so() {
        let (mut reader, gauges, mut registry) =
            (Reader::default(), ConfigurationGauges::default(), Registry::default());
        gauges.register(&mut registry);
        let mut shown = |text: Option<&str>| {
            let loaded = reader.read(text.map(config_map).as_ref()).unwrap();
            gauges.show(&loaded.read);
            let text = crate::diagnostics::encode(&registry).unwrap();
            let generation = text.lines().find(|line| line.starts_with("config_generation "));
            (
                loaded,
                generation.unwrap().to_owned(),
                text.contains("config_valid 1\n"),
            )
        };
        let (_, good, is_valid) = shown(Some("defaultQueue: research"));
        assert!(is_valid);
        let (loaded, bad, is_valid) = shown(Some("admitOn: sometimes"));
        assert_eq!(loaded.in_force, None);
        let problem = loaded.read.unwrap_err();
        assert!(
            problem.contains("admitOn") && problem.contains("sometimes"),
            "{problem}"
        );
        assert!(!is_valid);
        assert_eq!(good, bad, "another one is in force only when it is valid");
        assert_ne!(shown(Some("defaultQueue: another")).1, good);
    }

    #[test]
    fn an_invalid_configuration_at_the_start_leaves_none_until_it_is_mended() {
        let mut reader = Reader::default();
        for text in ["admitOn: 1", "admitOn: 2"] {
            let loaded = reader.read(Some(&config_map(text))).unwrap();
            assert_eq!(
                loaded.in_force, None,
                "the defaults may let in whom the last good one would hold"
            );
            let problem = loaded.read.unwrap_err();
            assert!(
                problem.ends_with("nothing is decided until it can be read"),
                "{problem}"
            );
        }
        let mended = reader.read(Some(&config_map("defaultQueue: research"))).unwrap();
        assert_eq!(default_queue(&mended), "research");
    }

    #[test]
    fn that_queues_limit_nothing_is_told_where_plugins_are_listed_and_none_for_queues() {
        for (conf, is_told) in [
            (None, false),
            (Some("actions: allocate"), false),
            (Some("tiers: [{plugins: [{name: capacity}, {name: drf}]}]"), false),
            (
                Some("tiers: [{plugins: [{name: gang}]}, {plugins: [{name: predicates}]}]"),
                true,
            ),
        ] {
            let mut config_map = config_map("");
            config_map.data = conf.map(|conf| [(SCHEDULER_CONF.to_owned(), conf.to_owned())].into());
            let loaded = Reader::default().read(Some(&config_map)).unwrap();
            let told = loaded
                .warnings
                .iter()
                .any(|warning| warning.contains("queues limit nothing"));
            assert_eq!(told, is_told, "{conf:?}: {:?}", loaded.warnings);
        }
    }

    #[test]
    fn warnings_are_told() {
        let loaded = Reader::default().read(Some(&config_map("admiton: fit"))).unwrap();
        assert_eq!(default_queue(&loaded), "default");
        assert_eq!(loaded.warnings.len(), 1);
        assert!(loaded.warnings[0].contains("admiton"), "{:?}", loaded.warnings);
    }
}
