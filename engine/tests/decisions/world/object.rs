//! Objects as the API server would show them, said in few words.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::{GPU, MGPU_CORE, MGPU_MEMORY, PRODUCT, at};

/// An object under construction. Ends as the JSON that a watch would bring.
#[derive(Debug, Clone)]
pub struct Object(Value);

impl Object {
    /// The object as the type that it is.
    pub fn read<T: DeserializeOwned>(&self) -> T {
        serde_json::from_value(self.0.clone()).unwrap()
    }

    /// Sets what stands at a path of keys.
    #[must_use]
    pub fn set<const N: usize>(mut self, path: [&str; N], value: impl Into<Value>) -> Self {
        let place = path.iter().fold(&mut self.0, |place, key| {
            if place.is_null() {
                *place = Value::Object(Map::new());
            }
            &mut place[*key]
        });
        *place = value.into();
        self
    }

    /// With what stands in another object, field by field.
    #[must_use]
    pub fn with(mut self, more: &Value) -> Self {
        merge(&mut self.0, more);
        self
    }

    fn push<const N: usize>(mut self, path: [&str; N], value: Value) -> Self {
        let list = path.iter().fold(&mut self.0, |place, key| &mut place[*key]);
        if list.is_null() {
            *list = json!([]);
        }
        list.as_array_mut().unwrap().push(value);
        self
    }

    #[must_use]
    pub fn annotation(self, key: &str, value: &str) -> Self {
        self.set(["metadata", "annotations", key], value)
    }

    #[must_use]
    pub fn label(self, key: &str, value: &str) -> Self {
        self.set(["metadata", "labels", key], value)
    }

    #[must_use]
    pub fn uid(self, uid: &str) -> Self {
        self.set(["metadata", "uid"], uid)
    }

    #[must_use]
    pub fn created(self, seconds: i64) -> Self {
        self.set(["metadata", "creationTimestamp"], at(seconds).to_string())
    }

    // Nodes.

    /// Whole cards of one product, with every label that discovery wants.
    #[must_use]
    pub fn cards(self, product: &str, count: i64) -> Self {
        self.label(PRODUCT, product)
            .label("nvidia.com/gpu.count", &count.to_string())
            .label("nvidia.com/gpu.memory", "81920")
            .offers(GPU, &count.to_string())
    }

    #[must_use]
    pub fn offers(self, resource: &str, quantity: &str) -> Self {
        self.set(["status", "allocatable", resource], quantity)
    }

    #[must_use]
    pub fn cordoned(self) -> Self {
        self.set(["spec", "unschedulable"], true)
    }

    #[must_use]
    pub fn not_ready(self) -> Self {
        self.set(
            ["status", "conditions"],
            json!([{"type": "Ready", "status": "Unknown"}]),
        )
    }

    #[must_use]
    pub fn taint(self, key: &str, effect: &str) -> Self {
        self.push(["spec", "taints"], json!({"key": key, "effect": effect}))
    }

    /// Cards that are shared through mGPU, each with so much memory in MiB.
    #[must_use]
    pub fn mgpu(self, cards: i64, memory: i64, policy: &str) -> Self {
        self.label("vke.node.gpu.schedule", "mgpu")
            .label("vke.volcengine.com/mgpu-compute-policy", policy)
            .offers(MGPU_CORE, &(cards * 100).to_string())
            .offers(MGPU_MEMORY, &(cards * memory).to_string())
    }

    // Queues.

    #[must_use]
    pub fn quota(self, cards: &str) -> Self {
        self.annotation("volcano.sh/card.quota", cards)
    }

    #[must_use]
    pub fn capability(self, resource: &str, quantity: &str) -> Self {
        self.set(["spec", "capability", resource], quantity)
    }

    #[must_use]
    pub fn deserved(self, resource: &str, quantity: &str) -> Self {
        self.set(["spec", "deserved", resource], quantity)
    }

    #[must_use]
    pub fn deserved_cards(self, cards: &str) -> Self {
        self.annotation("volcano.sh/card.deserved", cards)
    }

    #[must_use]
    pub fn guarantee(self, resource: &str, quantity: &str) -> Self {
        self.set(["spec", "guarantee", "resource", resource], quantity)
    }

    #[must_use]
    pub fn guaranteed_cards(self, cards: &str) -> Self {
        self.annotation("volcano.sh/card.guarantee", cards)
    }

    #[must_use]
    pub fn parent(self, parent: &str) -> Self {
        self.set(["spec", "parent"], parent)
    }

    // Pods.

    #[must_use]
    pub fn namespace(self, namespace: &str) -> Self {
        self.set(["metadata", "namespace"], namespace)
    }

    #[must_use]
    pub fn queue(self, queue: &str) -> Self {
        self.annotation("scheduling.volcano.sh/queue-name", queue)
    }

    /// Names the card, or alternatives, and requests so many of the resource of whole cards.
    #[must_use]
    pub fn asks(self, cards: &str, count: i64) -> Self {
        self.annotation("volcano.sh/card.name", cards)
            .requests(GPU, &count.to_string())
    }

    #[must_use]
    pub fn requests(mut self, resource: &str, quantity: &str) -> Self {
        self.0["spec"]["containers"][0]["resources"]["requests"][resource] = quantity.into();
        self
    }

    /// A share for the pod's first container: compute, and memory where that is not 0.
    #[must_use]
    pub fn share(self, core: i64, memory: i64) -> Self {
        let pod = self.requests(MGPU_CORE, &core.to_string());
        if memory > 0 {
            pod.requests(MGPU_MEMORY, &memory.to_string())
        } else {
            pod
        }
    }

    /// A further container with a share.
    #[must_use]
    pub fn container(self, name: &str, core: i64, memory: i64) -> Self {
        let mut requests = json!({MGPU_CORE: core.to_string()});
        if memory > 0 {
            requests[MGPU_MEMORY] = json!(memory.to_string());
        }
        self.push(
            ["spec", "containers"],
            json!({"name": name, "resources": {"requests": requests}}),
        )
    }

    #[must_use]
    pub fn selects(self, key: &str, value: &str) -> Self {
        self.set(["spec", "nodeSelector", key], value)
    }

    /// Requires a node of one of these products.
    #[must_use]
    pub fn for_products(self, products: &[String]) -> Self {
        let terms = json!([{"matchExpressions": [{"key": PRODUCT, "operator": "In", "values": products}]}]);
        let affinity = [
            "spec",
            "affinity",
            "nodeAffinity",
            "requiredDuringSchedulingIgnoredDuringExecution",
        ];
        self.set(affinity, json!({ "nodeSelectorTerms": terms }))
    }

    /// Requires one node by its name, as pods are pinned.
    #[must_use]
    pub fn pinned_to(self, node: &str) -> Self {
        let name = json!({"key": "metadata.name", "operator": "In", "values": [node]});
        let required = json!({"nodeSelectorTerms": [{"matchFields": [name]}]});
        let path = ["spec", "affinity", "nodeAffinity"];
        self.set(
            path,
            json!({"requiredDuringSchedulingIgnoredDuringExecution": required}),
        )
    }

    #[must_use]
    pub fn tolerates(self, key: &str) -> Self {
        self.push(["spec", "tolerations"], json!({"key": key, "operator": "Exists"}))
    }

    #[must_use]
    pub fn priority(self, priority: i32) -> Self {
        self.set(["spec", "priority"], priority)
    }

    #[must_use]
    pub fn gates(self, gates: &[&str]) -> Self {
        let gates: Vec<_> = gates.iter().map(|gate| json!({"name": gate})).collect();
        self.set(["spec", "schedulingGates"], gates)
    }

    /// Without any gate: let in, or never gated.
    #[must_use]
    pub fn ungated(self) -> Self {
        self.gates(&[])
    }

    #[must_use]
    pub fn on(self, node: &str) -> Self {
        self.ungated().set(["spec", "nodeName"], node)
    }

    #[must_use]
    pub fn assigned(self, card: &str) -> Self {
        self.annotation("volcano.sh/card.assigned", card)
    }

    #[must_use]
    pub fn phase(self, phase: &str) -> Self {
        self.set(["status", "phase"], phase)
    }

    /// Being deleted; the API server writes when its grace period ends.
    #[must_use]
    pub fn deleted(self, seconds: i64) -> Self {
        self.set(["metadata", "deletionTimestamp"], at(seconds).to_string())
    }

    /// Belongs to a group.
    #[must_use]
    pub fn of(self, group: &str) -> Self {
        self.annotation("scheduling.k8s.io/group-name", group)
    }

    // Groups and Jobs.

    /// All cards that the workload asks for.
    #[must_use]
    pub fn card_request(self, request: &str) -> Self {
        self.annotation("volcano.sh/card.request", request)
    }

    #[must_use]
    pub fn controlled_by(self, kind: &str, name: &str) -> Self {
        let owner = json!([{"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": name, "controller": true}]);
        self.set(["metadata", "ownerReferences"], owner)
    }

    /// What the pod's condition says that it was told.
    #[must_use]
    pub fn told(self, reason: &str) -> Self {
        let condition = json!([{"type": "card.volcano.sh/Admitted", "status": "False", "reason": reason}]);
        self.set(["status", "conditions"], condition)
    }
}

fn merge(into: &mut Value, more: &Value) {
    match (into, more) {
        (Value::Object(into), Value::Object(more)) => {
            for (key, value) in more {
                merge(into.entry(key.as_str()).or_insert(Value::Null), value);
            }
        }
        (into, more) => into.clone_from(more),
    }
}

/// A ready node with 64 cores, 512 GiB and 110 slots.
pub fn node(name: &str) -> Object {
    Object(json!({
        "metadata": {"name": name, "uid": name},
        "status": {
            "allocatable": {"cpu": "64", "memory": "512Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }))
}

/// An open queue with plenty of CPU and memory, and no cards.
pub fn queue(name: &str) -> Object {
    bare_queue(name).capability("cpu", "1000").capability("memory", "4Ti")
}

/// An open queue that has nothing.
pub fn bare_queue(name: &str) -> Object {
    Object(json!({
        "metadata": {"name": name, "uid": name, "creationTimestamp": at(0).to_string()},
        "spec": {},
        "status": {"state": "Open"},
    }))
}

/// A group of queue `team-a` whose pods are let in so many at once.
pub fn group(name: &str, min_member: i64) -> Object {
    Object(json!({
        "metadata": {"namespace": "team", "name": name, "uid": name, "creationTimestamp": at(0).to_string()},
        "spec": {"minMember": min_member, "queue": "team-a"},
    }))
}

/// A Job of queue `team-a` that Cardgate suspended.
pub fn held_job(name: &str, request: &str) -> Object {
    let queue = json!({"metadata": {"annotations": {"scheduling.volcano.sh/queue-name": "team-a"}}});
    let job = Object(json!({
        "metadata": {"namespace": "team", "name": name, "uid": name, "creationTimestamp": at(0).to_string()},
        "spec": {"suspend": true, "template": queue},
    }));
    job.annotation("card.volcano.sh/held", "true").card_request(request)
}

/// A gated pod of queue `team-a` that requests one core and one GiB.
pub fn pod(name: &str) -> Object {
    bare_pod(name).gates(&["card.volcano.sh/quota"]).queue("team-a")
}

/// A pod that Cardgate does not manage, and that requests one core and one GiB.
pub fn bare_pod(name: &str) -> Object {
    Object(json!({
        "metadata": {
            "namespace": "team", "name": name, "uid": name, "creationTimestamp": at(0).to_string(), "annotations": {},
        },
        "spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}]},
        "status": {"phase": "Pending"},
    }))
}
