//! `volcano-scheduler.conf`: actions, and the arguments of the plugins that Cardgate implements.

use super::yaml::{self, Field, Section};
use super::{ConfigurationError, Parsed, QueuePlugin, SCHEDULER_CONF, capacity, capacity_card, cross_quota, mgpu};
use crate::bounds::excerpt;

/// Volcano's actions; Volcano refuses any other.
const ACTIONS: [&str; 6] = ["enqueue", "allocate", "backfill", "preempt", "reclaim", "shuffle"];

/// Volcano's older queue plugin.
const PROPORTION: &str = "proportion";

/// Volcano's own switches of a plugin's functions, which stand beside the plugin's name. The functions they switch are not
/// part of Cardgate. `enableHierarchy` is such a switch too, but is read as an argument.
const SWITCHES: [&str; 20] = [
    "enableJobOrder",
    "enableNamespaceOrder",
    "enableSubJobOrder",
    "enableJobReady",
    "enableJobPipelined",
    "enableTaskOrder",
    "enablePreemptable",
    "enableReclaimable",
    "enablePreemptive",
    "enableQueueOrder",
    "enabledClusterOrder",
    "enablePredicate",
    "enableBestNode",
    "enableNodeOrder",
    "enableTargetJob",
    "enableReservedNodes",
    "enableJobEnqueued",
    "enabledVictim",
    "enableJobStarving",
    "enabledOverused",
];

/// Volcano's actions where none are named.
pub(super) fn default_actions() -> Vec<String> {
    ["enqueue", "allocate", "backfill"].map(str::to_owned).to_vec()
}

/// Reads the documents' plugin configuration into `parsed`.
pub(super) fn read(text: &str, parsed: &mut Parsed) -> Result<(), ConfigurationError> {
    let mut document = yaml::document(SCHEDULER_CONF, text)?;
    if let Some(actions) = document.take("actions") {
        parsed.configuration.actions = read_actions(&actions, &mut parsed.warnings)?;
    }
    let mut plugins = Plugins::default();
    if let Some(tiers) = document.take("tiers") {
        for tier in tiers.list("a list of tiers, each with plugins")? {
            let Some(mut tier) = tier.section("a tier, as `plugins: [...]`")? else {
                continue;
            };
            let Some(entries) = tier.take("plugins") else {
                continue;
            };
            for entry in entries.list("a list of plugins, each as `name: capacity-card`")? {
                plugins.read(entry, parsed)?;
            }
        }
    }
    if plugins.some_listed && !plugins.rule_queues() {
        parsed.configuration.queue_plugin = QueuePlugin::Off;
    }
    plugins.check(&mut parsed.warnings)
}

fn read_actions(field: &Field, warnings: &mut Vec<String>) -> Result<Vec<String>, ConfigurationError> {
    const EXPECTED: &str = "actions separated by commas, such as \"enqueue, allocate, backfill\"";
    let mut actions = Vec::new();
    for action in field.text(EXPECTED)?.split(',').map(str::trim) {
        if action.is_empty() {
            return Err(field.refuse(EXPECTED));
        }
        if !ACTIONS.contains(&action) {
            warnings.push(format!(
                "{SCHEDULER_CONF}: actions names {:?}, which is unknown and has no effect: known are {}",
                excerpt(action),
                ACTIONS.join(", ")
            ));
        }
        actions.push(action.to_owned());
    }
    Ok(actions)
}

/// The plugins for queues. Only one of them may be listed.
const QUEUE_PLUGINS: [&str; 2] = [capacity_card::PLUGIN, capacity::PLUGIN];

/// The plugins that concern Cardgate, as far as they were found.
#[derive(Default)]
struct Plugins {
    met: Vec<&'static str>,
    /// Whether any plugin is listed, known or not.
    some_listed: bool,
}

impl Plugins {
    fn read(&mut self, entry: Field, parsed: &mut Parsed) -> Result<(), ConfigurationError> {
        const EXPECTED: &str = "a plugin, as `name: capacity-card`";
        let path = entry.path().to_owned();
        let refusal = entry.refuse(EXPECTED);
        let mut entry = entry.section(EXPECTED)?.ok_or_else(|| refusal.clone())?;
        let name = entry.take("name").ok_or(refusal)?;
        let name = name.text("the name of a plugin, such as capacity-card")?;
        self.some_listed = true;
        let Some(name) = [
            capacity_card::PLUGIN,
            capacity::PLUGIN,
            cross_quota::PLUGIN,
            mgpu::PLUGIN,
            PROPORTION,
        ]
        .into_iter()
        .find(|known| *known == name) else {
            return Ok(());
        };
        let arguments = arguments(entry, &mut parsed.warnings)?;
        if !self.met.contains(&name) {
            self.met.push(name);
            return put_in_force(name, arguments, parsed);
        }
        // Volcano accepts a repeated plugin, and configurations in use have one. As long as both entries say the same, the
        // second adds nothing.
        let mut again = parsed.clone();
        if arguments.keys().next().is_some() {
            put_in_force(name, arguments, &mut again)?;
        }
        if again.configuration != parsed.configuration {
            return Err(ConfigurationError::PluginTwice {
                file: SCHEDULER_CONF,
                path,
                plugin: name.to_owned(),
            });
        }
        parsed.warnings = again.warnings;
        parsed.warnings.push(format!(
            "{SCHEDULER_CONF}: {path} names the plugin {name} a second time, which has no effect: what it says the first time holds"
        ));
        Ok(())
    }

    fn rule_queues(&self) -> bool {
        self.met.iter().any(|plugin| QUEUE_PLUGINS.contains(plugin))
    }

    /// Capacity Card, **Plugin Compatibility**; the capacity plugin does not go with `proportion` either.
    fn check(&self, warnings: &mut Vec<String>) -> Result<(), ConfigurationError> {
        let mut met = QUEUE_PLUGINS.into_iter().filter(|plugin| self.met.contains(plugin));
        let Some(plugin) = met.next() else { return Ok(()) };
        if met.next().is_some() {
            return Err(ConfigurationError::Incompatible {
                file: SCHEDULER_CONF,
                first: capacity::PLUGIN,
                second: capacity_card::PLUGIN,
            });
        }
        if self.met.contains(&PROPORTION) {
            warnings.push(format!(
                "{SCHEDULER_CONF}: the plugin {PROPORTION} conflicts with {plugin}: Cardgate leaves it out, and Volcano's own \
                 scheduler should not run with it"
            ));
        }
        Ok(())
    }
}

/// Puts the arguments of a plugin in force.
fn put_in_force(plugin: &str, arguments: Section, parsed: &mut Parsed) -> Result<(), ConfigurationError> {
    let warnings = &mut parsed.warnings;
    match plugin {
        capacity_card::PLUGIN => {
            let (own, shared) = capacity_card::read(arguments, warnings)?;
            parsed.configuration.capacity_card = own;
            parsed.configuration.capacity = shared;
        }
        capacity::PLUGIN => {
            parsed.configuration.queue_plugin = QueuePlugin::Capacity;
            parsed.configuration.capacity = capacity::read(arguments, warnings)?;
        }
        cross_quota::PLUGIN => parsed.configuration.cross_quota = Some(cross_quota::read(arguments, warnings)?),
        mgpu::PLUGIN => parsed.configuration.mgpu = mgpu::read(arguments, warnings)?,
        _ => {}
    }
    Ok(())
}

/// Returns the arguments of a plugin: those under `arguments`, and those beside it, as some documents and most real
/// configurations have them.
fn arguments(mut entry: Section, warnings: &mut Vec<String>) -> Result<Section, ConfigurationError> {
    let empty = entry.empty_child("arguments");
    let under = entry.take("arguments");
    for switch in SWITCHES {
        entry.take(switch);
    }
    let mut arguments = match under {
        Some(under) => under.section("arguments as `key: value`")?.unwrap_or(empty),
        None => empty,
    };
    arguments.absorb(entry, warnings);
    Ok(arguments)
}
