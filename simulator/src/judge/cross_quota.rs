//! Pods without GPU that Cardgate placed take no more of a GPU node than its quota (CrossQuota, **Predicate Function**,
//! **Configuration Priority**).

use crds::keys::{NODE_QUOTA_PERCENTAGE_PREFIX, NODE_QUOTA_PREFIX};
use regex_lite::Regex;
use serde_json::Value;

use super::amounts;
use super::nodes::Node;
use super::pods::Pod;
use super::view::View;
use super::{Finding, broken};
use crate::objects::Key;

/// The rule.
pub const RULE: &str = "pods without GPU take no more of a GPU node than its quota";

/// The arguments of the plugin.
#[derive(Debug)]
pub struct CrossQuota<'a> {
    view: &'a View,
    patterns: Vec<Regex>,
    /// The resources that are limited.
    pub resources: Vec<String>,
}

/// Judges a pod that is let in; `view` is the state afterwards.
pub fn judge(view: &View, key: &Key) -> Finding {
    let Some(plugin) = CrossQuota::of(view) else {
        return Ok(());
    };
    let pod = view.pods.iter().find(|pod| pod.key == *key);
    let pod = pod.filter(|pod| View::is_under_cross_quota(pod) && !pod.claimed.asks_for_devices);
    let pod = pod.filter(|pod| !plugin.is_gpu_pod(pod));
    let Some((pod, node)) = pod.and_then(|pod| Some((pod, view.node(pod.pin.as_deref()?)?))) else {
        return Ok(());
    };
    if !plugin.is_gpu_node(node) {
        return Ok(());
    }
    for resource in &plugin.resources {
        let (used, quota) = (plugin.used(node, resource), plugin.quota(node, resource));
        if used > quota {
            let (name, asked) = (&node.name, pod.asks(resource));
            return broken(
                RULE,
                format!("{key} is let in for {name} with {asked} {resource}, and {used} of {quota} are taken"),
            );
        }
    }
    Ok(())
}

impl<'a> CrossQuota<'a> {
    /// Returns the arguments, if the plugin is listed and pods are placed by gating.
    pub fn of(view: &'a View) -> Option<Self> {
        let configuration = &view.configuration;
        let arguments = configuration
            .cross_quota
            .as_ref()
            .filter(|_| configuration.cross_quota_gates)?;
        let list = |key: &str| -> Vec<String> {
            let list = arguments.get(key).map_or("", String::as_str).split(',');
            list.map(str::trim)
                .filter(|item| !item.is_empty())
                .map(str::to_owned)
                .collect()
        };
        let mut resources = list("quota-resources");
        if resources.is_empty() {
            resources.push("cpu".to_owned());
        }
        let patterns = list("gpu-resource-names")
            .iter()
            .map(|pattern| Regex::new(pattern).ok())
            .collect::<Option<_>>()?;
        Some(Self {
            view,
            patterns,
            resources,
        })
    }

    /// Whether a node has a GPU resource.
    pub fn is_gpu_node(&self, node: &Node) -> bool {
        let mut there = node.allocatable.iter().filter(|(_, amount)| **amount > 0);
        there.any(|(name, _)| self.is_gpu(name))
    }

    /// Whether a pod requests a GPU resource.
    pub fn is_gpu_pod(&self, pod: &Pod) -> bool {
        pod.request
            .iter()
            .any(|(name, amount)| *amount > 0 && self.is_gpu(name))
    }

    fn is_gpu(&self, resource: &str) -> bool {
        self.patterns.iter().any(|pattern| pattern.is_match(resource))
    }

    /// Returns what pods without GPU have of a node: pods that are there, and pods that are placed there.
    pub fn used(&self, node: &Node, resource: &str) -> i128 {
        let there = self.view.pods.iter().filter(|pod| {
            let is_there = pod.place() == Some(&node.name) && !pod.is_held && !pod.is_over;
            let shares_gpu = pod.claimed.paid_by_another && pod.claimed.gets_cards;
            is_there && !shares_gpu && !self.is_gpu_pod(pod)
        });
        there.map(|pod| pod.asks(resource)).sum()
    }

    /// Returns the quota of a node: the first of five sources that can be read, and never more than the node has.
    pub fn quota(&self, node: &Node, resource: &str) -> i128 {
        let has = node.has(resource);
        let arguments = self.view.configuration.cross_quota.as_ref();
        let annotation = |prefix: &str| node.annotations.get(&format!("{prefix}{resource}"));
        let argument = |prefix: &str| arguments?.get(&format!("{prefix}.{resource}"));
        let absolute =
            |text: &String| amounts::of(resource, &Value::String(text.trim().to_owned())).filter(|amount| *amount >= 0);
        let percentage = |text: &String| percentage(text.trim(), has);
        let quota = annotation(NODE_QUOTA_PREFIX)
            .and_then(absolute)
            .or_else(|| annotation(NODE_QUOTA_PERCENTAGE_PREFIX).and_then(percentage))
            .or_else(|| argument("quota").and_then(absolute))
            .or_else(|| argument("quota-percentage").and_then(percentage));
        quota.unwrap_or(has).min(has)
    }
}

/// Reads a percentage, above 0 and up to 100, of an amount, rounded down.
fn percentage(text: &str, of: i128) -> Option<i128> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let is_number = !whole.is_empty() && whole.chars().chain(fraction.chars()).all(|c| c.is_ascii_digit());
    let digits: i128 = format!("{whole}{fraction}")
        .parse()
        .ok()
        .filter(|_| is_number && text.len() < 12)?;
    let scale = 10_i128.pow(u32::try_from(fraction.len()).ok()?) * 100;
    (digits > 0 && digits <= scale).then(|| of * digits / scale)
}
