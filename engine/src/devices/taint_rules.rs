//! Taints that administrators put on devices (`DeviceTaintRule`), beside the taints that drivers publish with them.

use std::collections::BTreeMap;

use crds::dra::{DeviceTaint, DeviceTaintRule, TaintRuleSpec, TaintSelector};

/// The rules, by name.
#[derive(Debug, Default)]
pub(super) struct TaintRules {
    rules: BTreeMap<Box<str>, Known>,
}

/// A rule, as it was last seen.
#[derive(Debug)]
struct Known {
    spec: TaintRuleSpec,
    /// The list of all rules in which this rule was last seen.
    seen: u64,
}

impl TaintRules {
    /// Takes in what a rule says. Returns selectors: the devices that any of them selects may have other taints now.
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

    /// Forgets a rule. Returns its selector: the devices that it selects may have other taints now.
    pub fn remove(&mut self, name: &str) -> Option<TaintSelector> {
        self.rules.remove(name)?.spec.device_selector
    }

    /// Returns the names of rules that were not seen in this list of all rules.
    pub fn missing_in(&self, epoch: u64) -> Vec<Box<str>> {
        let missing = self.rules.iter().filter(|(_, known)| known.seen < epoch);
        missing.map(|(name, _)| name.clone()).collect()
    }

    /// Returns the rules that may put a taint which keeps new pods away on devices of a pool. Each device of a slice is compared with these
    /// only.
    pub fn of_pool(&self, driver: &str, pool: &str) -> OfPool {
        let rules = self.rules.values().map(|known| &known.spec);
        let of_pool = rules.filter_map(|rule| {
            let selector = rule.device_selector.as_ref()?;
            let is_one = rule.taint.keeps_away() && selector.selects_of(driver, pool);
            is_one.then(|| (selector.clone(), rule.taint.clone()))
        });
        OfPool(of_pool.collect())
    }
}

/// What rules put on the devices of one pool.
pub(super) struct OfPool(Vec<(TaintSelector, DeviceTaint)>);

impl OfPool {
    /// Returns the taints that are published with a device, and those that rules add to it.
    pub fn beside(&self, published: &[DeviceTaint], device: &str) -> Box<[DeviceTaint]> {
        let put = self.0.iter().filter(|(selector, _)| selector.selects_named(device));
        published.iter().chain(put.map(|(_, taint)| taint)).cloned().collect()
    }
}
