//! Checks the configuration: whether it can be read, what of it has no effect, and what the cluster lacks for it.

use std::collections::BTreeSet;

use crds::card_inventory::CardInventory;
use crds::configuration::{Configuration, UnqueuedCards};
use crds::keys::{CONFIG_MAP, NAMESPACE};
use crds::volcano::Queue;
use engine::happening::Happening;
use k8s_openapi::api::core::v1::{ConfigMap, Event};
use kube::api::ListParams;
use kube::{Api, ResourceExt as _};
use programs::configuration;

use super::cards::listed;
use super::{Finding, Result};
use crate::cluster::Cluster;
use crate::failure::Failure;

/// The name of the configuration in findings.
const WHAT: &str = "configuration";
/// The finding if all is well.
const WELL: &str = "it can be read, and nothing of it is without effect";

/// What an invalid configuration leads to.
const IS_INVALID: &str =
    "the last one that could be read stays in force, but a program that has started since has none, and lets nobody in";
/// The finding if the `ConfigMap` is gone.
const IS_MISSING: &str = "ConfigMap cardgate-config is missing: the last one that could be read stays in force, but a program that has \
                          started since takes the defaults: create it again, without data for the defaults";

/// Checks the configuration, and returns it if it can be seen and read.
///
/// What the operator reported of it lately counts only where nothing here shows the present state. A report is made once, is
/// forgotten in an hour, and may be about an earlier configuration.
pub(super) async fn findings(cluster: &Cluster) -> (Vec<Finding>, Option<Configuration>) {
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client(), NAMESPACE);
    let found = match maps.get_opt(CONFIG_MAP).await {
        Ok(found) => found,
        Err(error) => {
            let unseen = Finding::unseen(WHAT, &format!("get configmaps in {NAMESPACE}"), &error);
            let said = said_of(cluster, &Happening::ALL).await.into_iter();
            return ([unseen].into_iter().chain(said).collect(), None);
        }
    };
    if found.is_none() {
        return (vec![Finding::new(Result::Problem, WHAT, IS_MISSING)], None);
    }
    let parsed = match configuration::parse(found.as_ref()) {
        Ok(parsed) => parsed,
        Err(error) => {
            let details = format!("{error}: {IS_INVALID}");
            return (vec![Finding::new(Result::Problem, WHAT, details)], None);
        }
    };
    let configuration = parsed.configuration;
    let warnings = parsed.warnings.into_iter();
    let mut findings: Vec<_> = warnings.map(|said| Finding::new(Result::Warning, WHAT, said)).collect();
    findings.extend(match cluster.queues().await {
        Ok(queues) => of_default_queue(&configuration, &queues),
        // A user who may not see queues is told so by the check of queues.
        Err(_) => None,
    });
    let mut matters = Vec::new();
    if configuration.cardgate.enqueue {
        matters.push(Happening::EnqueueBesideVolcano);
    }
    if configuration.cross_quota.is_some() {
        match cluster.inventories().await {
            Ok(inventories) => findings.extend(of_nodes_outside(&inventories)),
            Err(Failure::Forbidden { .. }) => matters.push(Happening::NotAGpuNode),
            Err(failure) => findings.push(Finding::new(Result::Unseen, WHAT, failure.to_string())),
        }
    }
    if !matters.is_empty() {
        findings.extend(said_of(cluster, &matters).await);
    }
    (listed(findings.into_iter(), WHAT, WELL), Some(configuration))
}

/// Returns what is wrong with the default queue, if pods that ask for cards and name no queue are charged to it.
fn of_default_queue(configuration: &Configuration, queues: &[Queue]) -> Option<Finding> {
    let settings = &configuration.cardgate;
    if settings.unqueued_cards != UnqueuedCards::Charge {
        return None;
    }
    let name = &settings.default_queue;
    let found = queues.iter().find(|queue| queue.name_any() == *name);
    let wrong = match found {
        None => "does not exist: create it".to_owned(),
        Some(queue) => format!("takes no pods ({}): have it opened", queue.closed()?),
    };
    let details = format!(
        "unqueuedCards: charge has pods with cards for which nothing names a queue wait for the default queue, and queue {name} {wrong}, or name \
         another one as defaultQueue"
    );
    Some(Finding::new(Result::Problem, WHAT, details))
}

/// Returns the nodes with cards in which the patterns of `crossquota` match nothing.
fn of_nodes_outside(inventories: &[CardInventory]) -> Option<Finding> {
    let condition = |inventory: &CardInventory| {
        let mut conditions = inventory.status.as_ref()?.conditions.iter();
        let outside = conditions.find(|condition| condition.reason == Happening::NotAGpuNode.as_str())?;
        Some((inventory.spec.node_name.clone(), outside.message.clone()))
    };
    let outside: Vec<_> = inventories.iter().filter_map(condition).collect();
    let (node, message) = outside.first()?;
    let reason = Happening::NotAGpuNode.as_str();
    let beside = match outside.len() - 1 {
        0 => String::new(),
        more => format!(" (and {more} more: kubectl get cardinventories shows them)"),
    };
    Some(Finding::new(
        Result::Warning,
        WHAT,
        format!("{reason}: {node}{beside}: {message}"),
    ))
}

/// Returns what the operator reported lately of the configuration with one of these reasons, by reason and message.
async fn said_of(cluster: &Cluster, matters: &[Happening]) -> Vec<Finding> {
    let api: Api<Event> = Api::namespaced(cluster.client(), NAMESPACE);
    let about = format!("involvedObject.kind=ConfigMap,involvedObject.name={CONFIG_MAP},type=Warning");
    let events = match api.list(&ListParams::default().fields(&about).limit(500)).await {
        Ok(events) => events.items,
        Err(error) => return vec![Finding::unseen(WHAT, &format!("list events in {NAMESPACE}"), &error)],
    };
    let said = events
        .into_iter()
        .map(|event| (event.reason.unwrap_or_default(), event.message.unwrap_or_default()));
    // The installed parts are checked themselves.
    let of_parts = [Happening::InstallationIncomplete, Happening::InstallationChanged];
    let matter = matters.iter().filter(|matters| !of_parts.contains(matters));
    let matter: BTreeSet<_> = matter.map(|matters| matters.as_str()).collect();
    let said: BTreeSet<_> = said.filter(|(reason, _)| matter.contains(&**reason)).collect();
    let said = said.into_iter();
    said.map(|(reason, message)| Finding::new(Result::Warning, WHAT, format!("{reason}: {message}")))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn configured(cardgate: &str) -> Configuration {
        Configuration::parse(None, Some(cardgate)).unwrap().configuration
    }

    /// The pods waited in a queue that did not exist, and nothing said so.
    #[test]
    fn a_default_queue_that_takes_nobody_is_named_where_all_are_charged_to_it() {
        let queue = |name: &str, state: &str| -> Queue {
            let queue = json!({ "metadata": { "name": name }, "spec": {}, "status": { "state": state } });
            serde_json::from_value(queue).unwrap()
        };
        let charged = configured("unqueuedCards: charge");
        let wrong = |configuration: &Configuration, queues: &[Queue]| {
            of_default_queue(configuration, queues).map(|finding| finding.details)
        };
        let missing = wrong(&charged, &[queue("research", "Open")]).unwrap();
        assert!(missing.contains("queue default does not exist: create it"), "{missing}");
        let closed = wrong(&charged, &[queue("default", "Closed")]).unwrap();
        assert!(closed.contains("takes no pods (Closed)"), "{closed}");
        assert_eq!(wrong(&charged, &[queue("default", "Open")]), None);
        assert_eq!(wrong(&configured(""), &[]), None, "only counted");
        let named = configured("{unqueuedCards: charge, defaultQueue: research}");
        assert_eq!(wrong(&named, &[queue("research", "Open")]), None);
    }

    #[test]
    fn nodes_that_no_pattern_matches_are_told_as_they_are_now() {
        let inventory = |node: &str, reason: &str| -> CardInventory {
            let condition = json!({
                "type": "CrossQuotaApplies", "status": "False", "reason": reason, "message": "the node has cards",
                "lastTransitionTime": "2026-01-02T03:04:05Z",
            });
            let inventory = json!({
                "metadata": { "name": node }, "spec": { "nodeName": node }, "status": { "conditions": [condition] },
            });
            serde_json::from_value(inventory).unwrap()
        };
        assert!(of_nodes_outside(&[inventory("n1", "Usable")]).is_none());
        let both = [inventory("n1", "NotAGPUNode"), inventory("n2", "NotAGPUNode")];
        let told = of_nodes_outside(&both).unwrap().details;
        assert!(told.starts_with("NotAGPUNode: n1 (and 1 more:"), "{told}");
    }
}
