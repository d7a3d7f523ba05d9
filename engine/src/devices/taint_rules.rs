//! Taints that administrators put on devices, beside those that drivers publish with them (`DeviceTaintRule`).

use std::collections::BTreeMap;

use crds::dra::{DeviceTaint, DeviceTaintRule, TaintRuleSpec, TaintSelector};

/// The rules, by name.
#[derive(Debug, Default)]
pub(super) struct TaintRules {
    rules: BTreeMap<Box<str>, Known>,
}

/// A rule, as it was seen last.
#[derive(Debug)]
struct Known {
    spec: TaintRuleSpec,
    /// The list of all rules in which it was seen last.
    seen: u64,
}

impl TaintRules {
    /// Takes what a rule says; the devices that may have other taints now are those that any of these select.
    pub fn apply(&mut self, rule: DeviceTaintRule, seen: u64) -> Vec<TaintSelector> {
        let name = rule.metadata.name.unwrap_or_default();
        if let Some(known) = self.rules.get_mut(&name)
            && known.spec == rule.spec
        {
            known.seen = seen;
            return Vec::new();
        }
        let after = rule.spec.device_selector.clone();
        let spec = rule.spec;
        let before = self.rules.insert(name, Known { spec, seen });
        let before = before.and_then(|known| known.spec.device_selector);
        before.into_iter().chain(after).collect()
    }

    /// Forgets a rule; the devices that may have other taints now are those that it selected.
    pub fn remove(&mut self, name: &str) -> Option<TaintSelector> {
        self.rules.remove(name)?.spec.device_selector
    }

    /// The names of rules that were not seen in this list of all of them.
    pub fn missing_in(&self, epoch: u64) -> Vec<Box<str>> {
        let missing = self.rules.iter().filter(|(_, known)| known.seen < epoch);
        missing.map(|(name, _)| name.clone()).collect()
    }

    /// Taints that are published with a device, and those beside them that rules put on it and that keep new pods away.
    pub fn beside(&self, published: &[DeviceTaint], pool: (&str, &str), device: &str) -> Box<[DeviceTaint]> {
        let rules = self.rules.values().map(|known| &known.spec);
        let of_it = rules.filter(|rule| {
            let selector = rule.device_selector.as_ref();
            rule.taint.keeps_away() && selector.is_some_and(|selector| selector.selects(pool.0, pool.1, device))
        });
        published.iter().chain(of_it.map(|rule| &rule.taint)).cloned().collect()
    }
}
