//! Pods: what they request, what they were given, and where they are.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use crds::card_assigned::NO_CARDS;
use crds::keys::{
    CARD_ASSIGNED, CARD_NAME, EXEMPT_NAMESPACES, GATE, GROUP_NAME, MGPU_CONTAINER_CARDS, MGPU_CORE, MGPU_MEMORY,
    MIRROR_POD, QUEUE_NAME,
};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::amounts::{self, Resources};
use super::cards;
use super::claims::Claimed;
use super::nodes::{Texts, text, texts};
use crate::objects::Key;

/// A pod, as its object says. Views of the stored objects share it; it is copied only to change it.
#[derive(Debug, Clone)]
pub struct Pod(Arc<Said>);

/// What a pod's object says.
#[derive(Debug, Clone)]
pub struct Said {
    /// Its namespace and name.
    pub key: Key,
    /// Its labels.
    pub labels: Texts,
    /// Its annotations.
    pub annotations: Texts,
    /// What the pod requests in total.
    pub request: Resources,
    /// What each container requests of shared cards.
    pub shares: Vec<Share>,
    /// What the pod claims of devices.
    pub claimed: Claimed,
    /// The claims that were made for the pod from templates, by the pod's name of them.
    pub made_claims: BTreeMap<String, String>,
    /// The claim that the scheduler made for devices requested as a resource.
    pub provided_claim: Option<String>,
    /// Whether Cardgate's gate holds the pod.
    pub is_held: bool,
    /// The pod's node, once it is bound.
    pub node: Option<String>,
    /// The node that the pod is pinned to.
    pub pin: Option<String>,
    /// Whether the pod has ended.
    pub is_over: bool,
    /// When the pod is to be gone, if it is being deleted.
    pub deleted: Option<Timestamp>,
    /// The pod's requirements on nodes.
    pub spec: Value,
    /// When the pod was created, and what orders it among pods created at the same time.
    pub born: [String; 2],
    /// The Job that made the pod.
    pub job: Option<String>,
    /// The UID of the pod's controller.
    pub controller: Option<String>,
}

impl Deref for Pod {
    type Target = Said;

    fn deref(&self) -> &Said {
        &self.0
    }
}

impl DerefMut for Pod {
    fn deref_mut(&mut self) -> &mut Said {
        Arc::make_mut(&mut self.0)
    }
}

/// What a container requests of shared cards.
#[derive(Debug, Clone)]
pub struct Share {
    /// The container's name.
    pub container: String,
    /// The number of cards.
    pub cards: usize,
    /// Compute on each card.
    pub core: i128,
    /// Memory on each card, in MiB; `None` if the container takes all memory of the card.
    pub memory: Option<i128>,
}

/// Whether Cardgate's gate holds a pod.
pub fn is_held(pod: &Value) -> bool {
    let gates = pod["spec"]["schedulingGates"].as_array();
    gates.into_iter().flatten().any(|gate| gate["name"] == GATE)
}

impl Pod {
    /// Reads a pod.
    pub fn read(key: &Key, object: &Value) -> Self {
        let spec = &object["spec"];
        let annotations = texts(&object["metadata"]["annotations"]);
        let phase = object["status"]["phase"].as_str();
        Self(Arc::new(Said {
            key: key.clone(),
            labels: texts(&object["metadata"]["labels"]),
            request: request(spec),
            shares: shares(spec, annotations.get(MGPU_CONTAINER_CARDS).map(String::as_str)),
            claimed: Claimed::default(),
            made_claims: list(&object["status"]["resourceClaimStatuses"])
                .map(|status| (text(&status["name"]), text(&status["resourceClaimName"])))
                .collect(),
            provided_claim: object["status"]["extendedResourceClaimStatus"]["resourceClaimName"]
                .as_str()
                .map(str::to_owned),
            is_held: is_held(object),
            node: spec["nodeName"]
                .as_str()
                .filter(|node| !node.is_empty())
                .map(str::to_owned),
            pin: pin(spec),
            is_over: matches!(phase, Some("Succeeded" | "Failed")),
            deleted: object["metadata"]["deletionTimestamp"]
                .as_str()
                .and_then(|at| at.parse().ok()),
            spec: spec.clone(),
            annotations,
            born: ["creationTimestamp", "uid"].map(|field| text(&object["metadata"][field])),
            job: list(&object["metadata"]["ownerReferences"])
                .find(|owner| owner["controller"] == true && owner["kind"] == "Job")
                .map(|owner| text(&owner["name"])),
            controller: list(&object["metadata"]["ownerReferences"])
                .find(|owner| owner["controller"] == true)
                .map(|owner| text(&owner["uid"])),
        }))
    }
}

impl Said {
    /// Returns an annotation that is not empty.
    pub fn says(&self, annotation: &str) -> Option<&str> {
        let said = self.annotations.get(annotation).map(String::as_str);
        said.filter(|said| !said.is_empty())
    }

    /// Returns the cards that the pod names, in order, by annotation or by its claims; empty if it names none.
    pub fn names(&self) -> Vec<&str> {
        let said = self.says(CARD_NAME).map(cards::alternatives).unwrap_or_default();
        let Claimed {
            cards,
            ordered,
            allocated,
            provided,
            counted,
            ..
        } = &self.claimed;
        if *allocated && !*provided
            || !counted.is_empty()
            || said.is_empty() && !*provided && (*ordered || cards.len() == 1)
        {
            return cards.iter().map(String::as_str).collect();
        }
        let claimed = said.iter().filter(|name| cards.iter().any(|card| card == *name));
        let claimed: Vec<_> = claimed.copied().collect();
        if claimed.is_empty() { said } else { claimed }
    }

    /// Returns the card that the pod was given.
    pub fn assigned(&self) -> Option<&str> {
        self.says(CARD_ASSIGNED).filter(|said| *said != NO_CARDS)
    }

    /// Returns how much of a resource the pod requests.
    pub fn asks(&self, resource: &str) -> i128 {
        self.request.get(resource).copied().unwrap_or(0)
    }

    /// Whether Cardgate may touch it at all.
    pub fn is_reachable(&self) -> bool {
        !EXEMPT_NAMESPACES.contains(&&*self.key.namespace) && !self.annotations.contains_key(MIRROR_POD)
    }

    /// Whether the pod names a queue, a group or a card, or requests shares of cards.
    pub fn is_managed(&self) -> bool {
        let names = |key: &&str| self.annotations.contains_key(*key);
        let shares = [MGPU_CORE, MGPU_MEMORY];
        self.is_reachable()
            && ([QUEUE_NAME, GROUP_NAME, CARD_NAME].iter().any(names)
                || shares.iter().any(|share| self.asks(share) > 0))
    }

    /// Whether Volcano's controllers gave the pod its group when the pod existed already, and nothing else of the pod
    /// concerns Cardgate.
    pub fn joined_later(&self) -> bool {
        let [_, uid] = &self.born;
        let group = format!("podgroup-{}", self.controller.as_ref().unwrap_or(uid));
        self.annotations.get(GROUP_NAME) == Some(&group)
            && [QUEUE_NAME, CARD_NAME]
                .iter()
                .all(|key| !self.annotations.contains_key(*key))
            && [MGPU_CORE, MGPU_MEMORY].iter().all(|share| self.asks(share) == 0)
    }

    /// Returns the pod's node, or the only node it may go to.
    pub fn place(&self) -> Option<&str> {
        let pin = self.pin.as_deref().filter(|_| !self.never_runs());
        self.node.as_deref().or(pin)
    }

    /// Whether the pod is gone except for its name, so long after its deletion.
    pub fn is_gone(&self, terminating: SignedDuration, now: Timestamp) -> bool {
        let ends = |at: Timestamp| at.checked_add(terminating).unwrap_or(Timestamp::MAX);
        self.deleted.is_some_and(|at| ends(at) <= now)
    }

    /// Whether the pod is deleted and has no node: API servers no longer bind it to one.
    pub fn never_runs(&self) -> bool {
        self.deleted.is_some() && self.node.is_none()
    }
}

/// Returns what a pod requests, as Kubernetes counts it: all containers and sidecars, or the most that an init container
/// needs beside the sidecars before it; or what is set for the pod as a whole; plus the overhead.
fn request(spec: &Value) -> Resources {
    let mut sum = Resources::new();
    for container in list(&spec["containers"]) {
        amounts::add(&mut sum, &of_container(&container["resources"]));
    }
    let (mut sidecars, mut most) = (Resources::new(), Resources::new());
    for container in list(&spec["initContainers"]) {
        let own = of_container(&container["resources"]);
        let mut beside = sidecars.clone();
        amounts::add(&mut beside, &own);
        if container["restartPolicy"] == "Always" {
            sidecars = beside.clone();
        }
        at_least(&mut most, &beside);
    }
    amounts::add(&mut sum, &sidecars);
    at_least(&mut sum, &most);
    sum.extend(of_container(&spec["resources"]));
    amounts::add(&mut sum, &amounts::resources(&spec["overhead"]).unwrap_or_default());
    sum.insert("pods".to_owned(), 1);
    sum
}

fn at_least(sum: &mut Resources, least: &Resources) {
    for (name, amount) in least {
        let known = sum.entry(name.clone()).or_default();
        *known = (*known).max(*amount);
    }
}

/// Returns requests, and limits where a request is missing.
fn of_container(resources: &Value) -> Resources {
    let read = |field: &str| amounts::resources(&resources[field]).unwrap_or_default();
    let mut all = read("limits");
    all.extend(read("requests"));
    all
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// Returns what each container requests of shared cards; `says` is the list of how many cards each takes.
fn shares(spec: &Value, says: Option<&str>) -> Vec<Share> {
    let says: Vec<usize> = says.map_or_else(Vec::new, |says| {
        let numbers = says.trim_matches(['[', ']']).split(',');
        numbers
            .filter_map(|number| number.trim().trim_matches('"').parse().ok())
            .collect()
    });
    list(&spec["containers"])
        .enumerate()
        .filter_map(|(place, container)| {
            let all = of_container(&container["resources"]);
            let core = all.get(MGPU_CORE).copied().filter(|core| *core > 0)?;
            // Without the list it is a share of one card, or a number of whole cards.
            let whole = usize::try_from(core / 100).ok().filter(|_| core % 100 == 0);
            let cards = says
                .get(place)
                .copied()
                .filter(|cards| *cards > 0)
                .or(whole.filter(|cards| *cards > 0))
                .unwrap_or(1);
            let each = i128::try_from(cards).ok()?;
            Some(Share {
                container: text(&container["name"]),
                cards,
                core: core / each,
                memory: all.get(MGPU_MEMORY).map(|memory| memory / each),
            })
        })
        .collect()
}

/// Returns the one node that every term of the required affinity allows by name.
fn pin(spec: &Value) -> Option<String> {
    let required = &spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    let mut pins = list(&required["nodeSelectorTerms"]).map(|term| {
        let mut fields = list(&term["matchFields"]);
        let field = fields.find(|field| field["key"] == "metadata.name" && field["operator"] == "In")?;
        field["values"][0].as_str()
    });
    let first = pins.next()??;
    pins.all(|pin| pin == Some(first)).then(|| first.to_owned())
}
