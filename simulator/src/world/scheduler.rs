//! A scheduler that places pods as kube-scheduler does: by selectors, affinity, taints and free resources.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::allocation::{self, Allocation};
use super::pods;
use super::quantity::{Amounts, add_request, amounts, request};
use crate::objects::{Key, NODES, Objects, PODS};

/// Binds a pod to the node with index `choice` among those that fit, the emptiest first, or reports that none fits.
pub fn schedule(objects: &mut Objects, key: &Key, choice: usize) {
    let Some(pod) = objects
        .get(&PODS, key)
        .filter(|pod| pods::waits_for_place(pod))
        .cloned()
    else {
        return;
    };
    let place = place(objects, key, &pod, choice);
    let place = place.map(|(node, allocation)| (allocation.write(objects, key, &pod, &node), node));
    let _ = objects.change(&Arc::from("scheduler"), &PODS, key, |pod| {
        match place {
            Some((made, node)) => {
                if let Some(made) = made {
                    pod["status"]["extendedResourceClaimStatus"] = made;
                }
                pod["spec"]["nodeName"] = node.into();
                set_condition(pod, json!({"type": "PodScheduled", "status": "True"}));
            }
            None => set_condition(
                pod,
                json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no node fits"}),
            ),
        }
        Ok(())
    });
}

/// Returns where a pod goes, and which devices it gets there.
fn place(objects: &Objects, key: &Key, pod: &Value, choice: usize) -> Option<(String, Allocation)> {
    let needs = allocation::needs(objects, key, pod)?;
    let (held, asked) = (held(objects), request(&pod["spec"]));
    let mut fitting: Vec<_> = objects
        .list(&NODES)
        .filter(|(_, node)| may_run_on(pod, node))
        .filter_map(|(name, node)| {
            let allocation = needs.on(objects, &name.name)?;
            let mut of_node = asked.clone();
            of_node.retain(|resource, _| !needs.provides(resource, node));
            let fullness = fullness(node, held.get(&*name.name), &of_node)?;
            Some(((fullness, name.name.clone()), allocation))
        })
        .collect();
    fitting.sort_by(|(one, _), (other, _)| one.cmp(other));
    if fitting.is_empty() {
        return None;
    }
    let ((_, node), allocation) = fitting.swap_remove(choice % fitting.len());
    Some((node, allocation))
}

/// Sets one condition of an object; the others stay.
pub fn set_condition(object: &mut Value, condition: Value) {
    let conditions = &mut object["status"]["conditions"];
    match conditions.as_array_mut() {
        Some(conditions) => match conditions.iter_mut().find(|one| one["type"] == condition["type"]) {
            Some(one) => *one = condition,
            None => conditions.push(condition),
        },
        None => *conditions = json!([condition]),
    }
}

/// Returns what pods hold of each node.
pub fn held(objects: &Objects) -> BTreeMap<&str, Amounts> {
    let mut held: BTreeMap<_, Amounts> = BTreeMap::new();
    for (_, pod) in objects.list(&PODS) {
        if let Some(node) = pods::node(pod).filter(|_| !pods::is_over(pod)) {
            add_request(held.entry(node).or_default(), &pod["spec"]);
        }
    }
    held
}

/// Returns how full a node is, in thousandths of its CPU, if it takes a pod that asks for this.
fn fullness(node: &Value, held: Option<&Amounts>, asked: &Amounts) -> Option<i128> {
    let has = amounts(&node["status"]["allocatable"]);
    let held = |resource: &str| held.and_then(|held| held.get(resource)).copied().unwrap_or(0);
    let has = |resource: &str| has.get(resource).copied().unwrap_or(0);
    let mut asked = asked.iter().filter(|(_, amount)| **amount > 0);
    let fits = asked.all(|(resource, amount)| held(resource) + amount <= has(resource));
    fits.then(|| held("cpu") * 1_000 / has("cpu").max(1))
}

/// Whether a pod may run on a node, whatever is free there.
pub fn may_run_on(pod: &Value, node: &Value) -> bool {
    let spec = &pod["spec"];
    let labels = &node["metadata"]["labels"];
    let mut selector = spec["nodeSelector"].as_object().into_iter().flatten();
    if !selector.all(|(label, value)| labels[label] == *value) {
        return false;
    }
    let required = &spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    if let Some(terms) = required["nodeSelectorTerms"].as_array()
        && !terms.iter().any(|term| is_met(term, node))
    {
        return false;
    }
    let tolerations = spec["tolerations"].as_array().cloned().unwrap_or_default();
    let tolerates = |taint: &Value| tolerations.iter().any(|toleration| is_tolerated(toleration, taint));
    let unschedulable = json!({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"});
    if node["spec"]["unschedulable"] == true && !tolerates(&unschedulable) {
        return false;
    }
    let mut taints = node["spec"]["taints"].as_array().into_iter().flatten();
    taints.all(|taint| taint["effect"] == "PreferNoSchedule" || tolerates(taint))
}

fn is_tolerated(toleration: &Value, taint: &Value) -> bool {
    let same =
        |field: &str| toleration[field].is_null() || toleration[field] == "" || toleration[field] == taint[field];
    same("effect") && same("key") && (toleration["operator"] == "Exists" || toleration["value"] == taint["value"])
}

/// An empty term matches nothing.
fn is_met(term: &Value, node: &Value) -> bool {
    let list = |member: &str| term[member].as_array().cloned().unwrap_or_default();
    let (expressions, fields) = (list("matchExpressions"), list("matchFields"));
    let labels = &node["metadata"]["labels"];
    !(expressions.is_empty() && fields.is_empty())
        && expressions
            .iter()
            .all(|one| holds(one, &labels[one["key"].as_str().unwrap_or_default()]))
        && fields.iter().all(|one| holds(one, &node["metadata"]["name"]))
}

fn holds(requirement: &Value, value: &Value) -> bool {
    let values = requirement["values"].as_array().cloned().unwrap_or_default();
    let number = |value: &Value| value.as_str().and_then(|text| text.parse::<i64>().ok());
    let compared = number(value).zip(values.first().and_then(number));
    match requirement["operator"].as_str() {
        Some("In") => values.contains(value),
        Some("NotIn") => !values.contains(value),
        Some("Exists") => !value.is_null(),
        Some("DoesNotExist") => value.is_null(),
        Some("Gt") => compared.is_some_and(|(value, bound)| value > bound),
        Some("Lt") => compared.is_some_and(|(value, bound)| value < bound),
        _ => false,
    }
}
