//! Checks what is counted: queues that have to be mended, and cards that no queue is charged for.

use crds::card_type::CardType;
use crds::card_usage::CardUsage;
use crds::configuration::{Configuration, UnnamedCards, UnqueuedCards};
use crds::dra::DeviceClass;
use engine::overview::Unsatisfiable;
use engine::reason::Reason;
use kube::ResourceExt as _;
use serde_json::Value;

use super::{Finding, Result};
use crate::cluster::Cluster;
use crate::failure::Failure;
use crate::lint::selectors_not_evaluated;

/// How many findings of a kind are listed one by one.
const MOST: usize = 20;

/// Checks queues and cards; by this configuration, if it is known.
pub(super) async fn findings(cluster: &Cluster, configuration: Option<&Configuration>) -> Vec<Finding> {
    let mut findings = vec![];
    findings.extend(match cluster.usages_of_queues().await {
        Ok(usages) => of_queues(&usages),
        Err(failure) => vec![of_failure("queues", &failure)],
    });
    findings.extend(match cluster.card_types().await {
        Ok(types) => of_cards(&types, configuration),
        Err(failure) => vec![of_failure("cards", &failure)],
    });
    match cluster
        .everything("resource.k8s.io", "v1", "DeviceClass", "deviceclasses")
        .await
    {
        Ok(classes) => findings.extend(of_classes(classes)),
        // This cluster has no such devices.
        Err(kube::Error::Api(status)) if status.code == 404 => {}
        Err(error) => findings.push(Finding::unseen("deviceclasses", "list deviceclasses", &error)),
    }
    findings
}

fn of_failure(what: &str, failure: &Failure) -> Finding {
    let result = match failure {
        Failure::NotInstalled(_) => Result::Problem,
        _ => Result::Unseen,
    };
    Finding::new(result, what, failure.to_string())
}

fn of_queues(usages: &[CardUsage]) -> Vec<Finding> {
    let bad = usages.iter().filter_map(|usage| {
        let problems = &usage.status.as_ref()?.problems;
        (!problems.is_empty()).then_some((usage.spec.queue.as_str(), problems))
    });
    let bad = bad.map(|(queue, problems)| {
        let details = format!("{problems}: kubectl describe cardusage {queue} says what to mend");
        // The queue may be closed on purpose, and nodes may still be added for its capability.
        let may_be_meant = [
            Reason::QueueNotOpen.as_str(),
            Unsatisfiable::CapabilityAboveCluster.as_str(),
        ];
        let result = if problems.split(", ").all(|problem| may_be_meant.contains(&problem)) {
            Result::Warning
        } else {
            Result::Problem
        };
        Finding::new(result, format!("queue {queue}"), details)
    });
    listed(bad, "queues", &format!("all {} can be satisfied", usages.len()))
}

/// Returns where to look for pods with cards that no queue is charged for.
fn whose_cards(configuration: Option<&Configuration>) -> String {
    let settings = configuration.map(|configuration| &configuration.cardgate);
    let charges_all = settings.is_some_and(|settings| settings.unqueued_cards == UnqueuedCards::Charge);
    let are_free = settings.is_none_or(|settings| settings.unnamed_cards == UnnamedCards::Free);
    let places = [
        (
            !charges_all,
            "the pods without a queue (kubectl get pods -A -l '!card.volcano.sh/queue'), and name a queue on their namespaces",
        ),
        (
            charges_all,
            "the pods of kube-system and those that nodes run by themselves, which no queue is ever charged for",
        ),
        (
            are_free,
            "those of queues that don't say which card they ask for (no annotation volcano.sh/card.name), which are charged for none where \
             cardgate.yaml has unnamedCards: free: name their cards, or set charge",
        ),
        (
            true,
            "those that were let in for another card than their node has now (annotation volcano.sh/card.assigned), as after the node's \
             labels have changed",
        ),
        (
            true,
            "those whose deletion has taken longer than cardgate's terminatingTimeout, as a finalizer can have it (kubectl get pods -A shows \
             them as Terminating)",
        ),
    ];
    let places = places
        .into_iter()
        .filter_map(|(applies, place)| applies.then_some(place));
    places.collect::<Vec<_>>().join("; among ")
}

fn of_cards(types: &[CardType], configuration: Option<&Configuration>) -> Vec<Finding> {
    let bad = types.iter().filter_map(|card| {
        let (name, status) = (&card.spec.card_name, card.status.as_ref()?);
        // A card's name may have capitals, slashes and other characters that no object's name can have.
        let object = card.name_any();
        let mut said = Vec::new();
        if status.unaccounted > 0 {
            let (count, places) = (status.unaccounted, whose_cards(configuration));
            said.push(format!(
                "{count} in use that no queue is charged for: look among {places}"
            ));
        }
        if status.not_counted > 0 {
            said.push(format!(
                "{} devices that several nodes reach are in no number",
                status.not_counted
            ));
        }
        if !status.problems.is_empty() {
            said.push(format!(
                "{}: kubectl describe cardtype {} says more",
                status.problems, object
            ));
        }
        (!said.is_empty()).then(|| Finding::new(Result::Warning, format!("card {name}"), said.join("; ")))
    });
    listed(bad, "cards", &format!("all {} are accounted for", types.len()))
}

/// Finds the classes for which it can't be told which cards they have.
fn of_classes(classes: Vec<Value>) -> Vec<Finding> {
    let classes: Vec<DeviceClass> = classes
        .into_iter()
        .filter_map(|class| serde_json::from_str(&class.to_string()).ok())
        .collect();
    let bad = classes.iter().flat_map(|class| {
        let name = class.metadata.name.as_deref().unwrap_or_default();
        let said = selectors_not_evaluated(class);
        said.map(move |said| Finding::new(Result::Warning, format!("deviceclass {name}"), said))
    });
    let all_well = format!("the selectors of all {} can be evaluated", classes.len());
    listed(bad, "deviceclasses", &all_well)
}

/// Returns what was found, up to a number, or that all is well if nothing was.
pub(super) fn listed(found: impl Iterator<Item = Finding>, what: &str, all_well: &str) -> Vec<Finding> {
    let mut found: Vec<_> = found.collect();
    let more = found.len().saturating_sub(MOST);
    found.truncate(MOST);
    if found.is_empty() {
        found.push(Finding::new(Result::Ok, what, all_well));
    } else if more > 0 {
        found.push(Finding::new(Result::Warning, what, format!("{more} more like these")));
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cluster;

    #[test]
    fn cards_that_are_in_no_number_are_named() {
        let card = |name: &str, problems: &str, not_counted: i64| {
            let card = json!({
                "metadata": { "name": name.to_ascii_lowercase() },
                "spec": { "cardName": name, "resource": "nvidia.com/gpu", "kind": "Whole" },
                "status": { "problems": problems, "notCounted": not_counted },
            });
            serde_json::from_value::<CardType>(card).unwrap()
        };
        let found = of_cards(&[card("A100", "", 0), card("GB200", "SeveralNodesReach", 3)], None);
        let [bad] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!((bad.result, &*bad.what), (Result::Warning, "card GB200"));
        let said = "3 devices that several nodes reach are in no number; SeveralNodesReach: kubectl describe cardtype gb200 says more";
        assert_eq!(bad.details, said);
    }

    /// The advice was to name queues, but pods whose cards are free have one.
    #[test]
    fn who_is_free_since_he_names_no_card_is_looked_for_where_that_is_so() {
        let card = json!({
            "metadata": { "name": "a" }, "spec": { "cardName": "A", "resource": "nvidia.com/gpu", "kind": "Whole" },
            "status": { "unaccounted": 2 },
        });
        let card = serde_json::from_value::<CardType>(card).unwrap();
        let said = |cardgate: &str| {
            let configuration = Configuration::parse(None, Some(cardgate)).unwrap().configuration;
            of_cards(std::slice::from_ref(&card), Some(&configuration))
                .remove(0)
                .details
        };
        for (cardgate, free, without_queue) in [
            ("", false, true),
            ("unnamedCards: free", true, true),
            ("{unnamedCards: free, unqueuedCards: charge}", true, false),
        ] {
            let said = said(cardgate);
            assert_eq!(said.contains("unnamedCards: free"), free, "{said}");
            assert_eq!(said.contains("pods without a queue"), without_queue, "{said}");
        }
    }

    #[test]
    fn classes_that_are_not_evaluated_are_named() {
        let class = |name: &str, expression: &str| {
            json!({
                "metadata": { "name": name },
                "spec": { "selectors": [{ "cel": { "expression": expression } }] },
            })
        };
        let good = class("gpu", "device.driver == 'gpu.nvidia.com'");
        let found = of_classes(vec![
            good.clone(),
            class("odd", "device.driver.replace('x', 'y') == 'z'"),
        ]);
        let [bad] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!((bad.result, &*bad.what), (Result::Warning, "deviceclass odd"));
        assert!(
            bad.details.contains("Cardgate does not evaluate function replace"),
            "{}",
            bad.details
        );
        let well = of_classes(vec![good]);
        assert_eq!((well.len(), well[0].result), (1, Result::Ok));
    }

    #[test]
    fn queues_that_have_to_be_mended_are_named() {
        let usage = |queue: &str, problems: &str| {
            let usage = json!({
                "metadata": { "name": queue }, "spec": { "queue": queue }, "status": { "problems": problems },
            });
            serde_json::from_value::<CardUsage>(usage).unwrap()
        };
        let found = of_queues(&[usage("a", ""), usage("b", "QueueInvalid")]);
        let [bad] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!((bad.result, &*bad.what), (Result::Problem, "queue b"));
        assert!(bad.details.starts_with("QueueInvalid: "), "{}", bad.details);
        // The object for what no queue is charged for is not one of the queues.
        let well = of_queues(&cluster::of_queues(vec![usage("a", ""), usage("", "")]));
        let [well] = well.as_slice() else { panic!("{well:?}") };
        assert_eq!((well.result, &*well.details), (Result::Ok, "all 1 can be satisfied"));
        let many: Vec<_> = (0..30)
            .map(|index| usage(&format!("q{index}"), "QueueInvalid"))
            .collect();
        let found = of_queues(&many);
        assert_eq!((found.len(), &*found[MOST].details), (MOST + 1, "10 more like these"));
    }
}
