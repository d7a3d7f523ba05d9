//! The settings on which the rules depend.

use std::collections::BTreeMap;

use k8s_openapi::jiff::SignedDuration;
use serde_json::{Map, Value};

/// The plugin that rules queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plugin {
    /// An unnamed item has quota 0.
    CapacityCard,
    /// An unnamed item is limited only by the cluster.
    Capacity,
    /// Queues limit nothing.
    Off,
}

/// The settings that say what must hold.
#[expect(clippy::struct_excessive_bools, reason = "they are the documents' switches")]
#[derive(Debug, Clone)]
pub struct Configuration {
    /// The plugin that rules queues.
    pub plugin: Plugin,
    /// Whether pods with cards are not charged for CPU and memory.
    pub card_unlimited: bool,
    /// Whether queues are parts of queues.
    pub hierarchy: bool,
    /// The queue that all others are parts of, if it exists.
    pub root: String,
    /// Whether a queue may have more than it deserves.
    pub overuse: bool,
    /// Whether only items that a capability names are compared.
    pub named_only: bool,
    /// The arguments of `crossquota`, if it is listed.
    pub cross_quota: Option<BTreeMap<String, String>>,
    /// Whether shares of cards are placed, by gating.
    pub mgpu: bool,
    /// Most containers on one shared card.
    pub mgpu_containers: usize,
    /// Whether pods get the device ids of shared cards.
    pub mgpu_by_id: bool,
    /// The queue of pods that name none.
    pub default_queue: String,
    /// `charge`, `deny` or `free`.
    pub unnamed: String,
    /// `count` or `charge`.
    pub unqueued: String,
    /// Resources that are cards, besides the well-known ones.
    pub card_resources: Vec<String>,
    /// Whether pods without GPU are placed by gating, and not by a scheduler that asks.
    pub cross_quota_gates: bool,
    /// Whether pods wait for a node.
    pub admit_on_fit: bool,
    /// How long a deleted pod holds its quota.
    pub terminating: SignedDuration,
    /// How long a queue keeps quota for a workload whose pods do not come.
    pub inqueue: SignedDuration,
    /// Whether workloads are let into their queues as a whole first.
    pub enqueues: bool,
    /// Whether Cardgate moves groups from phase to phase and tells them why they wait; otherwise another program does.
    pub moves_groups: bool,
    /// Whether other queues must give back what a queue deserves.
    pub reclaims: bool,
}

impl Configuration {
    /// Reads the two keys; `None` if they must not be put in force.
    pub fn read(data: &Value) -> Option<Self> {
        let scheduler = mapping(&data["volcano-scheduler.conf"])?;
        let own = mapping(&data["cardgate.yaml"])?;
        let mut plugins = BTreeMap::<String, Map<String, Value>>::new();
        let tiers = scheduler.get("tiers").and_then(Value::as_array).into_iter().flatten();
        for entry in tiers.filter_map(|tier| tier["plugins"].as_array()).flatten() {
            let beside = entry.as_object()?;
            let mut arguments = beside.clone();
            if let Some(under) = beside.get("arguments").and_then(Value::as_object) {
                arguments.extend(under.clone());
            }
            if plugins.insert(entry["name"].as_str()?.to_owned(), arguments).is_some() {
                return None;
            }
        }
        let plugin = match (plugins.contains_key("capacity-card"), plugins.contains_key("capacity")) {
            (true, true) => return None,
            (true, false) => Plugin::CapacityCard,
            (false, true) => Plugin::Capacity,
            (false, false) if plugins.is_empty() => Plugin::CapacityCard,
            (false, false) => Plugin::Off,
        };
        let nothing = Map::new();
        let of = |name: &str| plugins.get(name).unwrap_or(&nothing);
        let queues = of(if plugin == Plugin::Capacity {
            "capacity"
        } else {
            "capacity-card"
        });
        let predicates = of("predicates");
        let is_on = |arguments: &Map<String, Value>, key: &str, absent: bool| {
            arguments.get(key).map_or(absent, |value| text(value) == "true")
        };
        let said = |arguments: &Map<String, Value>, key: &str, absent: &str| {
            arguments.get(key).map_or_else(|| absent.to_owned(), text)
        };
        // A value here that can't be read is not put in force.
        let threshold = said(queues, "guaranteeThreshold", "80").parse::<u8>().ok()?;
        let patterns = plugins.get("crossquota");
        let patterns = patterns.map_or_else(String::new, |arguments| said(arguments, "gpu-resource-names", ""));
        let are_patterns = patterns
            .split(',')
            .all(|pattern| regex_lite::Regex::new(pattern).is_ok());
        let admits_on = said(&own, "admitOn", "fit");
        duration(&said(&own, "reservationTimeout", "5m"))?;
        if threshold > 100 || !are_patterns || !["fit", "quota"].contains(&&*admits_on) {
            return None;
        }
        let actions = said(&scheduler, "actions", "enqueue, allocate, backfill");
        let has_action = |action: &str| actions.split(',').any(|named| named.trim() == action);
        let listed = own.get("cardResources").and_then(Value::as_array).into_iter().flatten();
        Some(Self {
            plugin,
            card_unlimited: plugin == Plugin::CapacityCard && is_on(queues, "cardUnlimitedCpuMemory", false),
            hierarchy: is_on(queues, "enableHierarchy", false),
            root: said(queues, "rootQueue", "root"),
            overuse: is_on(queues, "enableOveruse", true),
            named_only: plugin == Plugin::Capacity && is_on(queues, "checkQueueDimensionsOnly", false),
            cross_quota: plugins.get("crossquota").map(|arguments| {
                arguments
                    .iter()
                    .map(|(key, value)| (key.clone(), text(value)))
                    .collect()
            }),
            mgpu: is_on(predicates, "predicate.MGPUEnable", true) && said(&own, "enforceMGPU", "gating") == "gating",
            mgpu_containers: said(predicates, "predicate.MGPUMaxContainersPerCard", "16")
                .parse()
                .ok()?,
            mgpu_by_id: said(predicates, "predicate.MGPUScheduleMode", "index") == "id",
            default_queue: said(&own, "defaultQueue", "default"),
            unnamed: said(&own, "unnamedCards", "charge"),
            unqueued: said(&own, "unqueuedCards", "count"),
            card_resources: listed.map(text).collect(),
            cross_quota_gates: said(&own, "enforceCrossQuota", "gating") == "gating",
            admit_on_fit: admits_on == "fit",
            terminating: duration(&said(&own, "terminatingTimeout", "5m"))?,
            inqueue: duration(&said(&own, "inqueueTimeout", "10m"))?,
            enqueues: has_action("enqueue"),
            moves_groups: said(&own, "enqueue", "true") == "true",
            reclaims: has_action("reclaim"),
        })
    }

    /// Whether a resource is a well-known card resource, or one that the configuration lists.
    pub fn is_card_resource(&self, resource: &str) -> bool {
        let known = [
            "nvidia.com/gpu",
            "nvidia.com/gpu.shared",
            "nvidia.com/mig-*",
            "vke.volcengine.com/mgpu-core",
            "vke.volcengine.com/mgpu-memory",
            "amd.com/gpu",
            "huawei.com/Ascend*",
            "huawei.com/ascend-*",
        ];
        let listed = self.card_resources.iter().map(String::as_str);
        known
            .into_iter()
            .chain(listed)
            .any(|pattern| match pattern.strip_suffix('*') {
                Some(prefix) => resource.starts_with(prefix),
                None => resource == pattern,
            })
    }
}

/// Reads a YAML text as a mapping. An absent text is empty; `None` if it is no mapping.
fn mapping(text: &Value) -> Option<Map<String, Value>> {
    let text = text.as_str().unwrap_or_default();
    if text.trim().is_empty() {
        return Some(Map::new());
    }
    match serde_saphyr::from_str::<Value>(text).ok()? {
        Value::Object(mapping) => Some(mapping),
        Value::Null => Some(Map::new()),
        _ => None,
    }
}

/// Returns a value as it would be written. Quoted and bare values are the same.
fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Reads `5m`, `1h30m`, `90s`.
fn duration(text: &str) -> Option<SignedDuration> {
    let (mut seconds, mut number) = (0_i64, String::new());
    for c in text.chars() {
        let unit = match c {
            '0'..='9' => {
                number.push(c);
                continue;
            }
            'h' => 3600,
            'm' => 60,
            's' => 1,
            _ => return None,
        };
        seconds += number.parse::<i64>().ok()?.checked_mul(unit)?;
        number.clear();
    }
    number.is_empty().then(|| SignedDuration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_broken_is_not_put_in_force() {
        let plugin = |plugin: &str| format!("tiers: [{{plugins: [{plugin}]}}]");
        let broken = [
            ("tiers: [".to_owned(), ""),
            (plugin("{name: capacity}, {name: capacity-card}"), ""),
            (plugin("{name: capacity-card, guaranteeThreshold: many}"), ""),
            (plugin("{name: crossquota, gpu-resource-names: \"(\"}"), ""),
            (String::new(), "admitOn: never"),
            (String::new(), "reservationTimeout: -5m"),
        ];
        for (scheduler, own) in broken {
            let data = json!({"volcano-scheduler.conf": scheduler, "cardgate.yaml": own});
            assert!(Configuration::read(&data).is_none(), "{data}");
        }
        assert!(Configuration::read(&Value::Null).is_some(), "the defaults");
    }
}
