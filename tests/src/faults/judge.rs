//! What must hold at every moment, judged from the API server's objects alone, by code that shares nothing with the engine: it
//! reads JSON, adds up what was let in, and compares.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};

use serde_json::Value;

/// How long a gang may be cut in two: longer than an operator needs that was killed in the middle of it, and whose Lease has to
/// run out.
const CUT_AT_MOST: Duration = Duration::from_mins(1);
/// Violations of one kind that are told; a broken rule breaks often.
const TOLD: usize = 20;

const GATE: &str = "card.volcano.sh/quota";
const ASSIGNED: &str = "volcano.sh/card.assigned";
const MGPU_CORE: &str = "vke.volcengine.com/mgpu-core";
const MGPU_MEMORY: &str = "vke.volcengine.com/mgpu-memory";
const MGPU_INDEX: &str = "vke.volcengine.com/gpu-index-container-";
/// Resources that are whole cards, or fixed parts of one.
const CARDS: [&str; 3] = ["nvidia.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/mig-1g.5gb"];

/// What is counted against a limit.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Against {
    /// Cards of a queue, at any level.
    Queue { queue: String, card: String },
    /// A resource of one mGPU card of a node.
    Card {
        node: String,
        card: String,
        resource: &'static str,
    },
    /// Millicores that a GPU node gives to pods without GPU.
    Node { node: String },
}

#[derive(Debug, Default)]
struct Node {
    product: String,
    cards: i64,
    shared_cards: i64,
    shared_memory: i64,
}

#[derive(Debug, Default)]
struct Queue {
    parent: Option<String>,
    /// None where it can't be read: then nothing is said of it.
    quota: Option<BTreeMap<String, i64>>,
}

#[derive(Debug, Default)]
struct Group {
    least: usize,
    let_in: BTreeSet<String>,
    cut_since: Option<Instant>,
}

/// What was seen of a pod.
#[derive(Debug, Default)]
struct Seen {
    charged: Vec<(Against, i64)>,
    group: Option<String>,
    let_in: bool,
}

/// Follows the objects, and notes what does not hold.
#[derive(Debug)]
pub struct Judge {
    /// Millicores of each GPU node for pods without GPU, as the configuration has them.
    cross_quota: i64,
    nodes: BTreeMap<String, Node>,
    queues: BTreeMap<String, Queue>,
    groups: BTreeMap<String, Group>,
    pods: HashMap<String, Seen>,
    sums: BTreeMap<Against, i64>,
    let_in: usize,
    violations: BTreeSet<String>,
}

impl Judge {
    /// A judge of a cluster where GPU nodes give so many cores to pods without GPU.
    pub fn new(cross_quota_cores: i64) -> Self {
        Self {
            cross_quota: cross_quota_cores * 1000,
            nodes: BTreeMap::new(),
            queues: BTreeMap::new(),
            groups: BTreeMap::new(),
            pods: HashMap::new(),
            sums: BTreeMap::new(),
            let_in: 0,
            violations: BTreeSet::new(),
        }
    }

    /// How many pods have been let in so far.
    pub fn let_in(&self) -> usize {
        self.let_in
    }

    /// What did not hold.
    pub fn violations(&self) -> Vec<String> {
        self.violations.iter().cloned().collect()
    }

    /// An object is there, or has changed.
    pub fn apply(&mut self, kind: &str, object: &Value) {
        match kind {
            "Pod" => self.apply_pod(object),
            "Queue" => {
                let _ = self.queues.insert(name(object), queue(object));
            }
            "Node" => {
                let _ = self.nodes.insert(name(object), node(object));
            }
            "PodGroup" => {
                let least = object.pointer("/spec/minMember").and_then(Value::as_u64).unwrap_or(1);
                let group = self.groups.entry(full_name(object)).or_default();
                group.least = usize::try_from(least).unwrap_or(usize::MAX);
            }
            _ => {}
        }
    }

    /// An object is gone.
    pub fn delete(&mut self, kind: &str, object: &Value) {
        match kind {
            "Pod" => self.forget(text(object, "/metadata/uid")),
            "Queue" => drop(self.queues.remove(&name(object))),
            "Node" => drop(self.nodes.remove(&name(object))),
            _ => {}
        }
    }

    /// Unique ids of all pods that are known.
    pub fn pods(&self) -> Vec<String> {
        self.pods.keys().cloned().collect()
    }

    /// A pod is gone.
    pub fn forget(&mut self, uid: &str) {
        let Some(seen) = self.pods.remove(uid) else { return };
        self.take_back(&seen);
        if let Some(group) = seen.group.and_then(|group| self.groups.get_mut(&group)) {
            group.let_in.remove(uid);
            group.settle();
        }
    }

    /// Notes what has lasted for too long.
    pub fn look_at_the_clock(&mut self) {
        let late = self.groups.iter().filter(|(_, group)| {
            let cut = group.cut_since.map(|since| since.elapsed());
            cut.is_some_and(|cut| cut > CUT_AT_MOST)
        });
        let late: Vec<_> = late
            .map(|(name, group)| {
                format!(
                    "gang {name}: {} of {} let in for a minute",
                    group.let_in.len(),
                    group.least
                )
            })
            .collect();
        self.violations.extend(late);
    }

    fn apply_pod(&mut self, pod: &Value) {
        let uid = text(pod, "/metadata/uid").to_owned();
        let before = self.pods.remove(&uid).unwrap_or_default();
        let was_let_in = before.let_in;
        self.take_back(&before);
        let seen = self.read(pod);
        self.let_in += usize::from(seen.let_in && !was_let_in);
        for (against, amount) in &seen.charged {
            let sum = self.sums.entry(against.clone()).or_default();
            *sum += amount;
            let sum = *sum;
            if let Some(limit) = self.limit(against)
                && sum > limit
            {
                self.note(format!("{against:?}: {sum} of {limit}, with pod {}", full_name(pod)));
            }
        }
        if let Some(group) = seen.group.clone().filter(|_| seen.let_in) {
            let group = self.groups.entry(group).or_default();
            group.let_in.insert(uid.clone());
            group.settle();
        }
        self.pods.insert(uid, seen);
    }

    fn take_back(&mut self, seen: &Seen) {
        for (against, amount) in &seen.charged {
            if let Some(sum) = self.sums.get_mut(against) {
                *sum -= amount;
            }
        }
    }

    fn note(&mut self, violation: String) {
        if self.violations.len() < TOLD {
            self.violations.insert(violation);
        }
    }

    fn limit(&self, against: &Against) -> Option<i64> {
        match against {
            Against::Queue { queue, card } => {
                let quota = self.queues.get(queue)?.quota.as_ref()?;
                Some(quota.get(card).copied().unwrap_or(0))
            }
            Against::Card { resource, .. } if *resource == MGPU_CORE => Some(100),
            Against::Card { node, .. } => {
                let node = self.nodes.get(node)?;
                node.shared_memory.checked_div(node.shared_cards)
            }
            Against::Node { .. } => Some(self.cross_quota),
        }
    }

    fn read(&mut self, pod: &Value) -> Seen {
        let annotation = |key: &str| pod["metadata"]["annotations"][key].as_str();
        let labels = &pod["metadata"]["labels"];
        let ours = labels["card.volcano.sh/queue"].is_string() || labels["card.volcano.sh/crossquota"].is_string();
        let gates = pod.pointer("/spec/schedulingGates").and_then(Value::as_array);
        let waits = gates.into_iter().flatten().any(|gate| gate["name"] == GATE);
        let over = matches!(
            pod.pointer("/status/phase").and_then(Value::as_str),
            Some("Succeeded" | "Failed")
        );
        let group = annotation("scheduling.k8s.io/group-name");
        let group = group.map(|group| format!("{}/{group}", text(pod, "/metadata/namespace")));
        if !ours {
            return Seen::default();
        }
        let annotations = pod.pointer("/metadata/annotations").and_then(Value::as_object);
        let mut results = annotations.into_iter().flatten().map(|(key, _)| key);
        let has_results =
            results.any(|key| key == ASSIGNED || key == "vke.volcengine.com/assumed" || key.starts_with(MGPU_INDEX));
        if waits {
            if has_results {
                self.note(format!("pod {} has results and its gate", full_name(pod)));
            }
            return Seen {
                group,
                ..Seen::default()
            };
        }
        let asks = CARDS.map(|card| requested(pod, card)).iter().sum::<i64>();
        let shares = requested(pod, MGPU_CORE);
        if (asks > 0 || shares > 0) && labels["card.volcano.sh/queue"].is_string() && !has_results {
            self.note(format!("pod {} was let in without results", full_name(pod)));
        }
        let charged = if over {
            Vec::new()
        } else {
            self.charged(pod, asks, shares)
        };
        Seen {
            charged,
            group,
            let_in: true,
        }
    }

    fn charged(&self, pod: &Value, asks: i64, shares: i64) -> Vec<(Against, i64)> {
        let mut charged = Vec::new();
        let place = place(pod);
        let node = place.as_ref().and_then(|place| self.nodes.get(place));
        let assigned = pod["metadata"]["annotations"][ASSIGNED].as_str().map(str::to_owned);
        let card = if shares > 0 {
            node.map(|node| format!("{}/mgpu", node.product))
        } else {
            assigned
        };
        if let Some(card) = card {
            let mut level = pod["metadata"]["labels"]["card.volcano.sh/queue"]
                .as_str()
                .map(str::to_owned);
            // More levels than a tree can have are a circle.
            for _ in 0..16 {
                let Some(queue) = level else { break };
                level = self.queues.get(&queue).and_then(|queue| queue.parent.clone());
                let card = card.clone();
                charged.push((Against::Queue { queue, card }, asks + shares));
            }
        }
        let Some(node) = place else { return charged };
        for container in containers(pod) {
            let key = format!("{MGPU_INDEX}{}", text(container, "/name"));
            let Some(cards) = pod["metadata"]["annotations"][&key].as_str() else {
                continue;
            };
            let cards: Vec<_> = cards.split(',').collect();
            let parts = i64::try_from(cards.len()).unwrap_or(1).max(1);
            for card in cards {
                for resource in [MGPU_CORE, MGPU_MEMORY] {
                    let (node, card) = (node.clone(), card.to_owned());
                    charged.push((Against::Card { node, card, resource }, of(container, resource) / parts));
                }
            }
        }
        let has_gpu = self.nodes.get(&node).is_some_and(|node| node.cards > 0);
        if has_gpu && asks == 0 && shares == 0 {
            charged.push((Against::Node { node }, requested(pod, "cpu")));
        }
        charged
    }
}

impl Group {
    fn settle(&mut self) {
        let cut = !self.let_in.is_empty() && self.let_in.len() < self.least;
        self.cut_since = cut.then(|| self.cut_since.unwrap_or_else(Instant::now));
    }
}

fn queue(object: &Value) -> Queue {
    let quota = object["metadata"]["annotations"]["volcano.sh/card.quota"].as_str();
    Queue {
        parent: object
            .pointer("/spec/parent")
            .and_then(Value::as_str)
            .map(str::to_owned),
        quota: quota.and_then(|quota| serde_json::from_str(quota).ok()),
    }
}

fn node(object: &Value) -> Node {
    let allocatable = |resource: &str| amount(resource, &object["status"]["allocatable"][resource]);
    let product = object["metadata"]["labels"]["nvidia.com/gpu.product"].as_str();
    Node {
        product: product.unwrap_or_default().to_owned(),
        cards: allocatable("nvidia.com/gpu"),
        shared_cards: allocatable(MGPU_CORE) / 100,
        shared_memory: allocatable(MGPU_MEMORY),
    }
}

/// The node that a pod has, or that it was pinned to.
fn place(pod: &Value) -> Option<String> {
    if let Some(node) = pod.pointer("/spec/nodeName").and_then(Value::as_str) {
        return Some(node.to_owned());
    }
    let terms = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";
    let fields = pod.pointer(terms)?.get(0)?.pointer("/matchFields/0")?;
    (fields["key"] == "metadata.name").then(|| text(fields, "/values/0").to_owned())
}

fn containers(pod: &Value) -> impl Iterator<Item = &Value> {
    pod.pointer("/spec/containers")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
}

fn requested(pod: &Value, resource: &str) -> i64 {
    containers(pod).map(|container| of(container, resource)).sum()
}

fn of(container: &Value, resource: &str) -> i64 {
    amount(resource, &container["resources"]["requests"][resource])
}

/// A quantity as whole numbers; CPU in thousandths.
fn amount(resource: &str, quantity: &Value) -> i64 {
    let text = quantity.as_str().unwrap_or_default();
    let number = |text: &str, by: i64| text.parse::<i64>().map_or(0, |number| number * by);
    match (resource, text.strip_suffix('m'), text.strip_suffix('k')) {
        ("cpu", Some(milli), _) => number(milli, 1),
        ("cpu", None, _) => number(text, 1000),
        (_, _, Some(thousands)) => number(thousands, 1000),
        _ => number(text, 1),
    }
}

fn text<'a>(object: &'a Value, path: &str) -> &'a str {
    object.pointer(path).and_then(Value::as_str).unwrap_or_default()
}

fn name(object: &Value) -> String {
    text(object, "/metadata/name").to_owned()
}

fn full_name(object: &Value) -> String {
    format!(
        "{}/{}",
        text(object, "/metadata/namespace"),
        text(object, "/metadata/name")
    )
}

#[cfg(test)]
mod tests;
