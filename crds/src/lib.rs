//! The vocabulary of Cardgate: what users write and what they read back.
//!
//! One module per thing a user can write. Every parser returns a typed value or an error that names the offending text
//! and what would be right; the webhook and the operator share them, so what one accepts the other understands. Nothing
//! here does I/O.

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
pub mod managed;
pub mod mgpu;
pub mod names;
pub mod node;
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

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt as _;

/// The definitions of Cardgate's own custom resources, by name, as `manifests/` installs them.
pub fn custom_resource_definitions() -> Vec<CustomResourceDefinition> {
    vec![
        card_inventory::CardInventory::crd(),
        card_review::definition(),
        card_type::CardType::crd(),
        card_usage::CardUsage::crd(),
    ]
}
