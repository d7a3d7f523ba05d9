//! The controllers of every cluster, and Volcano's. Each looks at all objects of its own and does what has to be done.

pub mod claims;
pub mod drivers;
mod garbage;
mod jobs;
mod node_lifecycle;
mod pod_groups;
mod replicas;
mod volcano_jobs;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::step::Controller;
use crate::objects::{Key, Objects, PODS, Resource, api_version};

/// How many objects each owner has made; the next one's name follows from that.
pub type Made = BTreeMap<Key, u64>;

/// Lets a controller run once.
pub fn run(controller: Controller, objects: &mut Objects, made: &mut Made) {
    match controller {
        Controller::Deployments => replicas::deployments(objects),
        Controller::ReplicaSets => replicas::replica_sets(objects, made),
        Controller::Jobs => jobs::run(objects, made),
        Controller::PodGroups => pod_groups::run(objects),
        Controller::VolcanoJobs => volcano_jobs::run(objects),
        Controller::Queues => pod_groups::open_queues(objects),
        Controller::DisruptionBudgets => garbage::budgets(objects),
        Controller::Garbage => garbage::run(objects),
        Controller::Nodes => node_lifecycle::run(objects),
        Controller::Claims => claims::run(objects),
        Controller::Drivers => drivers::run(objects),
    }
}

/// Returns all objects of a resource, as they are now.
fn all(objects: &Objects, resource: &'static Resource) -> Vec<(Key, Arc<Value>)> {
    let all = objects.list(resource);
    all.map(|(key, object)| (key.clone(), Arc::clone(object))).collect()
}

/// Pods by the uids of their owners.
type Owned = BTreeMap<String, Vec<(Key, Arc<Value>)>>;

/// Returns the pods of every owner.
fn owned(objects: &Objects) -> Owned {
    let mut by_owner = Owned::new();
    for (key, pod) in objects.list(&PODS) {
        let owners = pod["metadata"]["ownerReferences"].as_array();
        for uid in owners.into_iter().flatten().filter_map(|owner| owner["uid"].as_str()) {
            let of = by_owner.entry(uid.to_owned()).or_default();
            of.push((key.clone(), Arc::clone(pod)));
        }
    }
    by_owner
}

/// Takes the pods of one owner out.
fn pods_of(all: &mut Owned, owner: &Value) -> Vec<(Key, Arc<Value>)> {
    let uid = owner["metadata"]["uid"].as_str().unwrap_or_default();
    all.remove(uid).unwrap_or_default()
}

/// Returns a reference to an owner.
fn owner(resource: &Resource, owner: &Value) -> Value {
    json!([{
        "apiVersion": api_version(resource), "kind": resource.kind, "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"], "controller": true, "blockOwnerDeletion": true,
    }])
}

/// Returns a pod of this template and owner.
fn pod(template: &Value, key: &Key, owner: Value) -> Value {
    let mut pod = json!({"metadata": template["metadata"], "spec": template["spec"]});
    if pod["metadata"].is_null() {
        pod["metadata"] = json!({});
    }
    pod["metadata"]["namespace"] = key.namespace.as_str().into();
    pod["metadata"]["name"] = key.name.as_str().into();
    pod["metadata"]["ownerReferences"] = owner;
    pod
}

/// Returns the name of the next object of an owner.
fn next_name(made: &mut Made, of: &Key) -> Key {
    let count = made.entry(of.clone()).or_default();
    *count += 1;
    Key::new(&*of.namespace, format!("{}-{count}", of.name))
}
