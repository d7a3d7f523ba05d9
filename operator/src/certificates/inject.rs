//! The authorities in the two webhook configurations, as `caBundle`.

use json_patch::Patch;
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration, WebhookClientConfig,
};
use serde_json::{Value, json};

/// Name of both configurations.
pub const CONFIGURATION: &str = "cardgate";

/// A kind of configuration: the names of its webhooks, and how they are reached.
pub(super) trait Webhooks {
    fn webhooks(&self) -> Vec<(&str, &WebhookClientConfig)>;
}

impl Webhooks for MutatingWebhookConfiguration {
    fn webhooks(&self) -> Vec<(&str, &WebhookClientConfig)> {
        let webhooks = self.webhooks.iter().flatten();
        webhooks
            .map(|webhook| (webhook.name.as_str(), &webhook.client_config))
            .collect()
    }
}

impl Webhooks for ValidatingWebhookConfiguration {
    fn webhooks(&self) -> Vec<(&str, &WebhookClientConfig)> {
        let webhooks = self.webhooks.iter().flatten();
        webhooks
            .map(|webhook| (webhook.name.as_str(), &webhook.client_config))
            .collect()
    }
}

/// Returns a patch that makes every webhook of the configuration trust the bundle; none if all do. The patch fails if the webhooks have
/// changed since they were read.
pub(super) fn patch(configuration: &impl Webhooks, bundle: &str) -> Option<Patch> {
    let bundle = ByteString(bundle.as_bytes().to_vec());
    let mut operations = Vec::new();
    for (place, (name, client)) in configuration.webhooks().into_iter().enumerate() {
        if client.ca_bundle.as_ref() != Some(&bundle) {
            let webhook = format!("/webhooks/{place}");
            operations.push(json!({ "op": "test", "path": format!("{webhook}/name"), "value": name }));
            operations
                .push(json!({ "op": "add", "path": format!("{webhook}/clientConfig/caBundle"), "value": bundle }));
        }
    }
    if operations.is_empty() {
        return None;
    }
    serde_json::from_value(Value::Array(operations)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn configuration(bundles: [Option<&str>; 2]) -> MutatingWebhookConfiguration {
        let webhooks = ["pods.card.volcano.sh", "jobs.card.volcano.sh"]
            .iter()
            .zip(bundles)
            .map(|(name, bundle)| {
                json!({
                    "name": name, "admissionReviewVersions": ["v1"], "sideEffects": "None",
                    "clientConfig": { "caBundle": bundle.map(|bundle| ByteString(bundle.into())) },
                })
            });
        serde_json::from_value(json!({ "webhooks": webhooks.collect::<Vec<_>>() })).unwrap()
    }

    #[test]
    fn only_webhooks_that_differ_are_patched() {
        assert_eq!(patch(&configuration([Some("new"), Some("new")]), "new"), None);
        let patched = patch(&configuration([Some("new"), Some("old")]), "new").unwrap();
        assert_eq!(
            serde_json::to_value(&patched).unwrap(),
            json!([
                { "op": "test", "path": "/webhooks/1/name", "value": "jobs.card.volcano.sh" },
                { "op": "add", "path": "/webhooks/1/clientConfig/caBundle", "value": "bmV3" },
            ])
        );
    }

    #[test]
    fn patched_webhooks_trust_the_bundle() {
        for bundles in [[None, None], [Some("old"), None], [Some("new"), Some("old")]] {
            let before = configuration(bundles);
            let mut value = serde_json::to_value(&before).unwrap();
            json_patch::patch(&mut value, &patch(&before, "new").unwrap()).unwrap();
            let after: MutatingWebhookConfiguration = serde_json::from_value(value).unwrap();
            assert_eq!(after, configuration([Some("new"), Some("new")]));
        }
    }

    #[test]
    fn a_configuration_without_webhooks_needs_nothing() {
        assert_eq!(patch(&ValidatingWebhookConfiguration::default(), "new"), None);
    }
}
