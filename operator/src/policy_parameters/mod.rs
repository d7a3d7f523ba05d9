//! What the policies inside the API server must know about the configuration, the existing cards and the leader: the `ConfigMap`
//! `cardgate-policy`.
//!
//! A policy cannot read Cardgate's configuration or nodes, and the webhook may be down. So the leading operator writes here what the
//! policies need from them, and writes it again if somebody else changes or removes it.

mod keeper;
mod leader;

use std::collections::{BTreeMap, BTreeSet};

use crds::configuration::{Configuration, Enforcement};
use crds::keys::{CARD_RESOURCES, RESOURCE_OF_CLASS};
use crds::label_selector::LabelSelector;

pub use keeper::ParameterKeeper;
pub use leader::LeaderName;

/// The object, in messages.
const OBJECT: &str = "ConfigMap cardgate-policy";

/// The data of the `ConfigMap` that the policies read, without the leader's name.
pub type Parameters = BTreeMap<String, String>;

/// Key with the setting `unnamedCards`.
pub const UNNAMED_CARDS: &str = "unnamedCards";
/// Key with the setting `unqueuedCards`.
pub const UNQUEUED_CARDS: &str = "unqueuedCards";

/// Key with a regular expression for the resources that are GPUs, if pods without GPUs are held; otherwise empty.
pub const CROSS_QUOTA_GPU_RESOURCES: &str = "crossQuotaGpuResources";

/// The largest number of resources that are written because nodes were found to have them as cards. A cluster has a handful. A node with
/// made-up labels must not fill the object.
const MOST_DISCOVERED: usize = 256;

/// The input of the values: the configuration in force, and the resources that stand for a card of some node.
struct Sources<'a> {
    configuration: &'a Configuration,
    discovered: &'a BTreeSet<&'a str>,
}

/// A function that returns the value of a key.
type Value = fn(&Sources<'_>) -> String;

/// Every key of the `ConfigMap`, with the function for its value.
const KEYS: [(&str, Value); 4] = [
    (CROSS_QUOTA_GPU_RESOURCES, cross_quota_gpu_resources),
    (CARD_RESOURCES, card_resources),
    (UNNAMED_CARDS, |sources| {
        sources.configuration.cardgate.unnamed_cards.as_str().to_owned()
    }),
    (UNQUEUED_CARDS, |sources| {
        sources.configuration.cardgate.unqueued_cards.as_str().to_owned()
    }),
];

/// Returns the parameters that the policies are to read.
pub fn parameters(configuration: &Configuration, discovered: &BTreeSet<&str>) -> Parameters {
    let sources = Sources {
        configuration,
        discovered,
    };
    KEYS.iter()
        .map(|(key, value)| ((*key).to_owned(), value(&sources)))
        .collect()
}

/// Where a policy cannot decide from the pod alone, the webhook decides: with a label selector, nothing is written.
fn cross_quota_gpu_resources(sources: &Sources<'_>) -> String {
    let configuration = sources.configuration;
    let held = configuration.cardgate.enforce_cross_quota == Enforcement::Gating;
    let arguments = configuration.cross_quota.as_ref().filter(|_| held);
    let for_all = arguments.filter(|arguments| arguments.selector == LabelSelector::default());
    let patterns = for_all
        .into_iter()
        .flat_map(|arguments| arguments.gpu_resources.patterns());
    patterns
        .map(|pattern| format!("(?:{pattern})"))
        .collect::<Vec<_>>()
        .join("|")
}

fn card_resources(sources: &Sources<'_>) -> String {
    let settings = &sources.configuration.cardgate;
    let known = settings.card_resources.iter().map(String::as_str);
    let discovered = sources.discovered.iter().copied();
    let is_other = |resource: &&str| !settings.is_card_resource(resource) && !resource.starts_with(RESOURCE_OF_CLASS);
    let others = discovered.filter(is_other).take(MOST_DISCOVERED);
    // Devices of any class may turn out to be cards, now or later.
    let of_classes = format!("{RESOURCE_OF_CLASS}*");
    let all = known.chain(others).chain([&*of_classes]);
    all.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use crds::card_resources::WELL_KNOWN;

    use super::*;

    #[test]
    fn the_list_holds_what_is_known_configured_and_found_each_once() {
        let text = "cardResources: [example.com/*]\nunnamedCards: deny\nunqueuedCards: charge";
        let configuration = Configuration::parse(None, Some(text)).unwrap().configuration;
        let of_class = "deviceclass.resource.kubernetes.io/gpu.example.com";
        let discovered = ["nvidia.com/mig-1g.5gb", "example.com/a", "other.com/card", of_class].into();
        let parameters = parameters(&configuration, &discovered);
        let list: Vec<_> = parameters[CARD_RESOURCES].split(',').collect();
        let expected: Vec<_> = WELL_KNOWN
            .into_iter()
            .chain([
                "example.com/*",
                "other.com/card",
                "deviceclass.resource.kubernetes.io/*",
            ])
            .collect();
        assert_eq!(list, expected);
        assert_eq!(
            (&*parameters[UNNAMED_CARDS], &*parameters[UNQUEUED_CARDS]),
            ("deny", "charge")
        );
    }

    #[test]
    fn gpus_are_written_where_all_pods_without_them_are_held() {
        let pattern = |selector: &str, cardgate: &str| {
            let arguments = format!("gpu-resource-names: \"nvidia.com/gpu,amd\\\\.com/.*\"{selector}");
            let conf = format!("tiers: [{{plugins: [{{name: crossquota, arguments: {{{arguments}}}}}]}}]");
            let configuration = Configuration::parse(Some(&conf), Some(cardgate)).unwrap().configuration;
            parameters(&configuration, &BTreeSet::new())[CROSS_QUOTA_GPU_RESOURCES].clone()
        };
        assert_eq!(pattern("", ""), r"(?:nvidia.com/gpu)|(?:amd\.com/.*)");
        assert_eq!(pattern("", "enforceCrossQuota: extender"), "");
        assert_eq!(
            pattern(", label-selector: \"team=a\"", ""),
            "",
            "only the door knows which pods that leaves out"
        );
        let none = parameters(&Configuration::default(), &BTreeSet::new());
        assert_eq!(none[CROSS_QUOTA_GPU_RESOURCES], "");
    }

    #[test]
    fn made_up_resources_do_not_fill_the_object() {
        let names: Vec<_> = (0..10_000)
            .map(|number| format!("example.com/card-{number:05}"))
            .collect();
        let discovered = names.iter().map(String::as_str).collect();
        let parameters = parameters(&Configuration::default(), &discovered);
        let count = parameters[CARD_RESOURCES].split(',').count();
        assert_eq!(count, WELL_KNOWN.len() + MOST_DISCOVERED + 1, "and those of classes");
    }
}
