//! The configuration in force: the `ConfigMap`'s newest that can be read.

use crds::configuration::{CARDGATE_YAML, Configuration, SCHEDULER_CONF, generation};
use k8s_openapi::api::core::v1::ConfigMap;
use tracing::{error, info, warn};

use crate::knowledge::Knowledge;
use crate::metrics::Metrics;

/// Puts the `ConfigMap` in force; without one, the defaults. One that can't be read changes nothing: the last good one stays,
/// and the log, a metric and the readiness text say so.
pub fn apply(config_map: Option<&ConfigMap>, knowledge: &Knowledge, metrics: &Metrics) {
    let data = config_map.and_then(|config_map| config_map.data.as_ref());
    let value = |key: &str| data.and_then(|data| data.get(key)).map(String::as_str);
    let texts = (value(SCHEDULER_CONF), value(CARDGATE_YAML));
    match Configuration::parse(texts.0, texts.1) {
        Ok(parsed) => {
            for warning in &parsed.warnings {
                warn!("configuration: {warning}");
            }
            let generation = generation(texts.0, texts.1);
            info!(generation, settings = ?parsed.configuration.cardgate, "configuration in force");
            knowledge.configure_cross_quota(parsed.configuration.cross_quota);
            knowledge.rule_queues(parsed.configuration.capacity);
            knowledge.configure(parsed.configuration.cardgate);
            metrics.configured(generation);
        }
        Err(problem) => {
            error!("the configuration is invalid, the last good one stays in force: {problem}");
            knowledge.refuse_configuration(problem.to_string());
            metrics.config_invalid();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use crds::configuration::UnnamedCards;

    use super::*;

    fn config_map(cardgate_yaml: &str) -> ConfigMap {
        ConfigMap {
            data: Some(BTreeMap::from([(CARDGATE_YAML.to_owned(), cardgate_yaml.to_owned())])),
            ..ConfigMap::default()
        }
    }

    #[test]
    fn an_invalid_configuration_keeps_the_last_good_one_and_says_so() {
        let (knowledge, metrics) = (Knowledge::default(), Metrics::default());
        apply(Some(&config_map("unnamedCards: deny")), &knowledge, &metrics);
        assert!(knowledge.settings().unnamed_cards == UnnamedCards::Deny);
        assert_eq!(knowledge.configuration_problem(), None);
        let good = metrics.encode().unwrap();
        assert!(good.contains("cardgate_config_valid 1"), "{good}");

        apply(Some(&config_map("unnamedCards: perhaps")), &knowledge, &metrics);
        assert!(
            knowledge.settings().unnamed_cards == UnnamedCards::Deny,
            "the last good one stays"
        );
        let problem = knowledge.configuration_problem().unwrap();
        assert!(problem.contains("unnamedCards"), "{problem}");
        let bad = metrics.encode().unwrap();
        assert!(bad.contains("cardgate_config_valid 0"), "{bad}");
        let generation = |text: &str| {
            text.lines()
                .find(|line| line.starts_with("cardgate_config_generation "))
                .map(str::to_owned)
        };
        assert_eq!(
            generation(&good),
            generation(&bad),
            "another one is in force only when it is valid"
        );

        apply(None, &knowledge, &metrics);
        assert!(
            knowledge.settings().unnamed_cards != UnnamedCards::Deny,
            "without a ConfigMap the defaults"
        );
        assert_eq!(knowledge.configuration_problem(), None);
        assert_ne!(generation(&good), generation(&metrics.encode().unwrap()));
    }

    #[test]
    fn a_first_configuration_that_is_invalid_leaves_the_defaults_in_force() {
        let (knowledge, metrics) = (Knowledge::default(), Metrics::default());
        apply(Some(&config_map("[")), &knowledge, &metrics);
        assert!(
            !knowledge.missing().contains(&"configuration"),
            "a typo must not close the door"
        );
        assert!(knowledge.settings().unnamed_cards != UnnamedCards::Deny);
    }
}
