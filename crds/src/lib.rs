//! The vocabulary of Cardgate: what users write and what they read back.
//!
//! There is one module for each thing that a user can write. Every parser returns a typed value or an error that names the
//! offending text and what would be right. The webhook and the operator share the parsers, so what one accepts the other
//! understands. Nothing here does I/O.

pub mod bounds;
pub mod card;
pub mod card_assigned;
pub mod card_counts;
pub mod card_inventory;
pub mod card_resources;
pub mod card_review;
pub mod card_type;
pub mod card_usage;
pub mod configuration;
pub mod cross_quota;
pub mod dra;
pub mod format;
pub mod job;
pub mod keys;
pub mod label_selector;
pub mod lean;
pub mod made;
pub mod managed;
pub mod mgpu;
pub mod names;
pub mod node;
pub mod observed;
pub mod pod;
pub mod pod_bounds;
pub mod pod_request;
pub mod quantity;
pub mod queue_access;
pub mod queue_terms;
pub mod resources;
pub mod scoring_strategy;
pub mod slug;
pub mod spelling;
pub mod volcano;

use std::collections::BTreeMap;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use kube::CustomResourceExt as _;

/// The definitions of Cardgate's own custom resources, by name, as `manifests/` installs them.
pub fn custom_resource_definitions() -> Vec<CustomResourceDefinition> {
    let definitions = [
        card_inventory::CardInventory::crd(),
        card_review::definition(),
        card_type::CardType::crd(),
        card_usage::CardUsage::crd(),
    ];
    definitions.map(explained).into()
}

/// Returns the definition with descriptions that break lines only between paragraphs: `kubectl explain` wraps them itself.
fn explained(mut definition: CustomResourceDefinition) -> CustomResourceDefinition {
    for version in &mut definition.spec.versions {
        let schema = version.schema.as_mut();
        if let Some(schema) = schema.and_then(|schema| schema.open_api_v3_schema.as_mut()) {
            unwrap_lines(schema);
        }
    }
    definition
}

fn unwrap_lines(schema: &mut JSONSchemaProps) {
    if let Some(description) = &mut schema.description {
        let paragraphs = description.split("\n\n").map(|paragraph| paragraph.replace('\n', " "));
        *description = paragraphs.collect::<Vec<_>>().join("\n\n");
    }
    schema
        .properties
        .iter_mut()
        .flat_map(BTreeMap::values_mut)
        .for_each(unwrap_lines);
    if let Some(JSONSchemaPropsOrArray::Schema(items)) = &mut schema.items {
        unwrap_lines(items);
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &mut schema.additional_properties {
        unwrap_lines(values);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_kubectl_explains_is_broken_into_lines_by_kubectl() {
        let shown = serde_json::to_string(&custom_resource_definitions()).unwrap();
        let words = r"where drivers publish them: what claims can select them by. Where they differ, one of each kind";
        assert!(shown.contains(words), "{shown}");
    }
}
