//! How the scheduler allocates devices to a pod: free devices of one node that match the claim's selectors, or none.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};

use super::controllers::claims::PROTECTION;
use super::pods;
use crate::devices::{self, Device};
use crate::objects::{DEVICE_CLASSES, Key, NODES, Objects, PODS, RESOURCE_CLAIMS, SLICES, api_version};

/// The prefix of the names of resources that stand for a class of devices.
const IMPLICIT: &str = "deviceclass.resource.kubernetes.io/";

/// A device given to a request: the request, and the device's identity.
type Given = (String, [String; 3]);

/// What a pod needs of devices.
#[derive(Debug, Default)]
pub struct Needs {
    /// The pod's claims, each with its requests if nothing is allocated to it yet.
    claims: Vec<(Key, Option<Value>)>,
    /// The nodes with the devices that are allocated to its claims already.
    nodes: Vec<String>,
    /// Resources that classes provide: name, class, and how many.
    provided: Vec<(String, String, i64)>,
    /// The devices that are in use.
    taken: BTreeSet<[String; 3]>,
}

/// What a pod gets on one node.
#[derive(Debug, Default)]
pub struct Allocation {
    claims: Vec<(Key, Option<Vec<Given>>)>,
    provided: Option<Provided>,
}

/// A claim that the scheduler makes by itself.
#[derive(Debug)]
struct Provided {
    /// The resource of each request.
    resources: Vec<String>,
    requests: Vec<Value>,
    given: Vec<Given>,
}

/// Returns the claims that a pod names, by the pod's name of each; `None` for a claim that is not made yet.
pub fn claims_of<'a>(key: &'a Key, pod: &'a Value) -> impl Iterator<Item = (&'a str, Option<Key>)> {
    let claims = pod["spec"]["resourceClaims"].as_array().into_iter().flatten();
    claims.map(|named| {
        let mut statuses = pod["status"]["resourceClaimStatuses"].as_array().into_iter().flatten();
        let made = statuses.find(|status| status["name"] == named["name"]);
        let made = made.and_then(|status| status["resourceClaimName"].as_str());
        let claim = named["resourceClaimName"].as_str().or(made);
        let name = named["name"].as_str().unwrap_or_default();
        (name, claim.map(|claim| Key::new(&*key.namespace, claim)))
    })
}

/// Returns what a pod needs; `None` if a claim does not exist yet, or is not for this pod.
pub fn needs(objects: &Objects, key: &Key, pod: &Value) -> Option<Needs> {
    let mut needs = Needs::default();
    if !objects.has_devices {
        return Some(needs);
    }
    for (_, claim) in claims_of(key, pod) {
        let claim = claim?;
        let found = objects.get(&RESOURCE_CLAIMS, &claim)?;
        let owners = found["metadata"]["ownerReferences"].as_array();
        let is_own = owners.is_none_or(|_| pods::is_owned_by(found, &pod["metadata"]["uid"]));
        if !is_own || pods::is_deleted(found) {
            return None;
        }
        let allocation = &found["status"]["allocation"];
        if allocation.is_object() {
            let mut results = allocation["devices"]["results"].as_array()?.iter();
            needs.nodes.push(results.next()?["pool"].as_str()?.to_owned());
        }
        let requests = (!allocation.is_object()).then(|| found["spec"]["devices"]["requests"].clone());
        needs.claims.push((claim, requests));
    }
    for container in pod["spec"]["containers"].as_array().into_iter().flatten() {
        for (resource, count) in container["resources"]["requests"].as_object().into_iter().flatten() {
            let count = count.as_str().and_then(|count| count.parse().ok()).unwrap_or(0);
            if let Some(class) = class_of(objects, resource).filter(|_| count > 0) {
                needs.provided.push((resource.clone(), class, count));
            }
        }
    }
    for (_, claim) in objects.list(&RESOURCE_CLAIMS) {
        let results = claim["status"]["allocation"]["devices"]["results"].as_array();
        needs.taken.extend(results.into_iter().flatten().map(id_of));
    }
    Some(needs)
}

fn id_of(result: &Value) -> [String; 3] {
    ["driver", "pool", "device"].map(|field| result[field].as_str().unwrap_or_default().to_owned())
}

/// Returns the class that provides a resource.
fn class_of(objects: &Objects, resource: &str) -> Option<String> {
    let mut classes = objects.list(&DEVICE_CLASSES);
    let class = classes.find(|(key, class)| {
        class["spec"]["extendedResourceName"] == resource || resource.strip_prefix(IMPLICIT) == Some(&key.name)
    });
    class.map(|(key, _)| key.name.clone())
}

impl Needs {
    /// Whether the pod needs no devices.
    pub fn is_none(&self) -> bool {
        self.claims.is_empty() && self.provided.is_empty()
    }

    /// Whether a resource has to come from devices on a node, since the node's device plugin has none.
    pub fn provides(&self, resource: &str, node: &Value) -> bool {
        let has = node["status"]["allocatable"][resource]
            .as_str()
            .is_some_and(|count| count != "0");
        !has && self.provided.iter().any(|(of, ..)| of == resource)
    }

    /// Returns what the pod gets on a node; `None` if the node does not have everything.
    pub fn on(&self, objects: &Objects, node: &str) -> Option<Allocation> {
        let mut allocation = Allocation::default();
        if self.is_none() {
            return Some(allocation);
        }
        if self.nodes.iter().any(|of| of != node) {
            return None;
        }
        let has = objects.get(&NODES, &Key::new("", node))?;
        let slices = objects.list(&SLICES).map(|(_, slice)| &**slice);
        let mut free = devices::complete(slices);
        let is_taken = |device: &Device<'_>| self.taken.contains(&device.id.map(str::to_owned));
        free.retain(|device| device.node == node && !device.is_kept_away() && !is_taken(device));
        for (key, requests) in &self.claims {
            let given = match requests {
                Some(requests) => Some(give(objects, requests.as_array()?, &mut free)?),
                None => None,
            };
            allocation.claims.push((key.clone(), given));
        }
        let provided = self
            .provided
            .iter()
            .filter(|(resource, ..)| self.provides(resource, has));
        let (resources, requests): (Vec<_>, Vec<_>) = provided
            .enumerate()
            .map(|(index, (resource, class, count))| {
                let exactly = json!({"deviceClassName": class, "allocationMode": "ExactCount", "count": count});
                let request = json!({"name": format!("container-{index}-request-0"), "exactly": exactly});
                (resource.clone(), request)
            })
            .unzip();
        if !requests.is_empty() {
            let given = give(objects, &requests, &mut free)?;
            allocation.provided = Some(Provided {
                resources,
                requests,
                given,
            });
        }
        Some(allocation)
    }
}

/// Gives each request free devices: the first of its forms that can be had.
fn give(objects: &Objects, requests: &[Value], free: &mut Vec<Device<'_>>) -> Option<Vec<Given>> {
    let Some((request, rest)) = requests.split_first() else {
        return Some(Vec::new());
    };
    let name = request["name"].as_str().unwrap_or_default();
    let alternatives = request["firstAvailable"].as_array().into_iter().flatten();
    let alternatives = alternatives.map(|form| (format!("{name}/{}", form["name"].as_str().unwrap_or_default()), form));
    let exactly = request["exactly"]
        .is_object()
        .then(|| (name.to_owned(), &request["exactly"]));
    for (name, form) in exactly.into_iter().chain(alternatives) {
        let class = Key::new("", form["deviceClassName"].as_str().unwrap_or_default());
        let Some(class) = objects.get(&DEVICE_CLASSES, &class) else {
            continue;
        };
        let is_meant = |device: &&Device<'_>| {
            devices::selects(&class["spec"]["selectors"], device) && devices::selects(&form["selectors"], device)
        };
        let count = usize::try_from(form["count"].as_u64().unwrap_or(1)).unwrap_or(usize::MAX);
        // The requests of these worlds match the same devices, or disjoint ones. So it does not matter which devices are
        // taken.
        let given: Vec<_> = free
            .iter()
            .filter(is_meant)
            .take(count)
            .map(|device| device.id)
            .collect();
        if given.len() < count {
            continue;
        }
        let mut left = free.clone();
        left.retain(|device| !given.contains(&device.id));
        if let Some(others) = give(objects, rest, &mut left) {
            *free = left;
            let given = given.into_iter().map(|id| (name.clone(), id.map(str::to_owned)));
            return Some(given.chain(others).collect());
        }
    }
    None
}

/// Returns a claim's status for what was allocated to it, with these consumers.
fn status(given: &[Given], node: &str) -> Value {
    let results: Vec<_> = given
        .iter()
        .map(|(request, [driver, pool, device])| {
            json!({"request": request, "driver": driver, "pool": pool, "device": device})
        })
        .collect();
    let fields = json!([{"key": "metadata.name", "operator": "In", "values": [node]}]);
    json!({"devices": {"results": results}, "nodeSelector": {"nodeSelectorTerms": [{"matchFields": fields}]}})
}

impl Allocation {
    /// Writes what was given into the claims, before the pod is bound. Returns what the pod's status says of a claim made
    /// for it.
    pub fn write(&self, objects: &mut Objects, key: &Key, pod: &Value, node: &str) -> Option<Value> {
        let who = Arc::from("scheduler");
        let consumer = json!({"resource": "pods", "name": key.name, "uid": pod["metadata"]["uid"]});
        for (claim, given) in &self.claims {
            let _ = objects.change(&who, &RESOURCE_CLAIMS, claim, |claim| {
                if let Some(given) = given {
                    claim["status"]["allocation"] = status(given, node);
                    claim["metadata"]["finalizers"] = json!([PROTECTION]);
                }
                let reserved = &mut claim["status"]["reservedFor"];
                match reserved.as_array_mut() {
                    Some(reserved) if reserved.contains(&consumer) => {}
                    Some(reserved) => reserved.push(consumer.clone()),
                    None => *reserved = json!([consumer]),
                }
                Ok(())
            });
        }
        let Provided {
            resources,
            requests,
            given,
        } = self.provided.as_ref()?;
        let owner = json!([{
            "apiVersion": api_version(&PODS), "kind": PODS.kind, "name": key.name, "uid": pod["metadata"]["uid"],
            "controller": true, "blockOwnerDeletion": true,
        }]);
        let claim = json!({
            "metadata": {
                "namespace": key.namespace, "generateName": format!("{}-extended-resources-", key.name),
                "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"}, "ownerReferences": owner,
                "finalizers": [PROTECTION],
            },
            "spec": {"devices": {"requests": requests}},
            "status": {"allocation": status(given, node), "reservedFor": [consumer]},
        });
        let made = objects.create(&who, &RESOURCE_CLAIMS, claim).ok()?;
        let mappings = resources.iter().zip(requests).map(|(resource, request)| {
            json!({"containerName": "c0", "resourceName": resource, "requestName": request["name"]})
        });
        let mappings: Vec<_> = mappings.collect();
        Some(json!({"resourceClaimName": made["metadata"]["name"], "requestMappings": mappings}))
    }
}
