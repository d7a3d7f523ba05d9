//! A small language for clusters: nodes, queues and pods as the API server would show them, and what is decided on them.

use std::sync::Arc;

use crds::configuration::Configuration;
use engine::amounts::Dimension;
use engine::cluster::pod::{Pod, Stage};
use engine::cluster::queue::Queue;
use engine::cluster::reclaims::EvictionOutcome;
use engine::cluster::{Cluster, Kind};
use engine::decide::{Action, Admission, Notice, decide, notices};
use engine::names::ResourceId;
use engine::overview::{self, Shown};
use engine::reason::Reason;
use engine::{Answer, Observation, Outcome};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

/// The beginning of time in these tests.
pub const START: i64 = 1_800_000_000;
/// The label whose value is the name of a whole card.
pub const PRODUCT: &str = "nvidia.com/gpu.product";
/// The resource of whole cards.
pub const GPU: &str = "nvidia.com/gpu";

/// Compute of cards that are shared through mGPU.
pub const MGPU_CORE: &str = "vke.volcengine.com/mgpu-core";
/// Memory of such cards, in MiB.
pub const MGPU_MEMORY: &str = "vke.volcengine.com/mgpu-memory";

/// The moment `seconds` after the beginning.
pub fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(START + seconds).unwrap()
}

/// A configuration as users write it: arguments of the capacity-card plugin, and `cardgate.yaml`.
pub fn configuration(arguments: &str, cardgate: &str) -> Arc<Configuration> {
    let conf = format!("tiers: [{{plugins: [{{name: capacity-card, arguments: {{{arguments}}}}}]}}]");
    let parsed = Configuration::parse(Some(&conf), Some(cardgate)).unwrap();
    assert_eq!(parsed.warnings, [""; 0]);
    Arc::new(parsed.configuration)
}

/// A configuration with the capacity plugin: Volcano's actions, and the plugin's arguments.
pub fn capacity(actions: &str, arguments: &str) -> Arc<Configuration> {
    queue_plugin("capacity", actions, arguments)
}

/// A configuration with this plugin for queues, and reservations that last for the whole test.
pub fn queue_plugin(plugin: &str, actions: &str, arguments: &str) -> Arc<Configuration> {
    let conf =
        format!("actions: \"{actions}\"\ntiers: [{{plugins: [{{name: {plugin}, arguments: {{{arguments}}}}}]}}]");
    let parsed = Configuration::parse(Some(&conf), Some("reservationTimeout: 1h")).unwrap();
    assert_eq!(parsed.warnings, [""; 0]);
    Arc::new(parsed.configuration)
}

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

/// A pod that is let in, by name and card.
pub type Admitted = (String, Option<String>);

/// A cluster, the time in it, and what has been decided.
#[derive(Debug)]
pub struct World {
    pub cluster: Cluster,
    pub now: Timestamp,
}

impl World {
    pub fn new() -> Self {
        Self::with(Arc::default())
    }

    pub fn with(configuration: Arc<Configuration>) -> Self {
        Self {
            cluster: Cluster::new(configuration),
            now: at(10),
        }
    }

    pub fn wait(&mut self, seconds: i64) {
        self.now += SignedDuration::from_secs(seconds);
    }

    fn observe(&mut self, observation: Observation) {
        self.cluster.apply(observation, self.now);
    }

    pub fn node(&mut self, node: &Object) {
        self.observe(Observation::Node(node.read()));
    }

    pub fn queue(&mut self, queue: &Object) {
        self.observe(Observation::Queue(queue.read()));
    }

    pub fn pod(&mut self, pod: &Object) {
        self.observe(Observation::Pod(pod.read()));
    }

    pub fn group(&mut self, group: &Object) {
        self.observe(Observation::Group(group.read()));
    }

    pub fn job(&mut self, job: &Object) {
        self.observe(Observation::Job(job.read()));
    }

    pub fn remove_pod(&mut self, uid: &str) {
        self.observe(Observation::PodGone(uid.into()));
    }

    pub fn forget_succeeded(&mut self, uid: &str) {
        self.observe(Observation::SucceededPodGone(uid.into()));
    }

    pub fn remove_node(&mut self, name: &str, now: Timestamp) {
        self.cluster.apply(Observation::NodeGone(name.into()), now);
    }

    pub fn remove_queue(&mut self, name: &str) {
        self.observe(Observation::QueueGone(name.into()));
    }

    pub fn remove_namespace(&mut self, name: &str, now: Timestamp) {
        self.cluster.apply(Observation::NamespaceGone(name.into()), now);
    }

    pub fn remove_group(&mut self, namespace: &str, name: &str) {
        let (namespace, name) = (namespace.into(), name.into());
        self.observe(Observation::GroupGone { namespace, name });
    }

    pub fn remove_job(&mut self, namespace: &str, name: &str) {
        let (namespace, name) = (namespace.into(), name.into());
        self.observe(Observation::JobGone { namespace, name });
    }

    pub fn begin_list(&mut self, kind: Kind) {
        self.observe(Observation::ListBegins(kind));
    }

    pub fn end_list(&mut self, kind: Kind, now: Timestamp) {
        self.cluster.apply(Observation::ListEnds(kind), now);
    }

    pub fn not_installed(&mut self, kind: Kind, now: Timestamp) {
        self.cluster.apply(Observation::NotInstalled(kind), now);
    }

    pub fn set_configuration(&mut self, configuration: Arc<Configuration>, now: Timestamp) {
        self.cluster.apply(Observation::Configuration(configuration), now);
    }

    fn hear(&mut self, outcome: &Outcome, now: Timestamp) {
        self.cluster.outcome(outcome, now);
    }

    pub fn confirm(&mut self, uid: &str) {
        self.hear(&Outcome::Admission(uid.into(), Answer::Accepted), self.now);
    }

    pub fn refuse(&mut self, uid: &str, now: Timestamp) {
        self.hear(&Outcome::Admission(uid.into(), Answer::Refused), now);
    }

    pub fn refuse_resumption(&mut self, uid: &str, now: Timestamp) {
        self.hear(&Outcome::Resumption(uid.into(), Answer::Refused), now);
    }

    pub fn binding_failed(&mut self, uid: &str) {
        self.hear(&Outcome::Binding(uid.into(), Answer::Refused), self.now);
    }

    pub fn eviction_ended(&mut self, uid: &str, outcome: EvictionOutcome, now: Timestamp) {
        self.hear(&Outcome::Eviction(uid.into(), outcome), now);
    }

    pub fn pods(&mut self, pods: impl IntoIterator<Item = Object>) {
        for pod in pods {
            self.pod(&pod);
        }
    }

    pub fn namespace(&mut self, name: &str, labels: &[(&str, &str)], queue: Option<&str>) {
        let labels: Map<_, _> = labels
            .iter()
            .map(|(key, value)| ((*key).to_owned(), json!(value)))
            .collect();
        let annotations = queue.map(|queue| json!({ "scheduling.volcano.sh/queue-name": queue }));
        let metadata = json!({ "name": name, "labels": labels, "annotations": annotations });
        let metadata = serde_json::from_value(metadata).expect("metadata of a namespace");
        self.observe(Observation::Namespace(Box::new(metadata)));
    }

    /// What there is to see of everything that has changed.
    pub fn shown(&mut self) -> Vec<Shown> {
        let changes = self.cluster.take_changes();
        overview::changed(&self.cluster, changes)
    }

    /// One round of decisions.
    pub fn decide(&mut self) -> Vec<Action> {
        decide(&mut self.cluster, self.now, usize::MAX).actions
    }

    /// One round of decisions, in which nothing but admissions is decided.
    #[track_caller]
    pub fn admissions(&mut self) -> Vec<Admission> {
        let actions = self.decide().into_iter();
        let admissions = actions.map(|action| match action {
            Action::Admit(admission) => admission,
            other => panic!("not an admission: {other:?}"),
        });
        admissions.collect()
    }

    /// The pods that one round lets in, and the card of each.
    #[track_caller]
    pub fn admit(&mut self) -> Vec<Admitted> {
        let admissions = self.admissions().into_iter();
        let admitted = admissions.map(|admission| (admission.pod.name.to_string(), admission.card.map(Into::into)));
        admitted.collect()
    }

    /// The names of the pods that one round lets in.
    #[track_caller]
    pub fn admit_names(&mut self) -> Vec<String> {
        self.admit().into_iter().map(|(name, _)| name).collect()
    }

    /// What pods are told now, all of them.
    pub fn notices(&mut self) -> Vec<Notice> {
        notices(&mut self.cluster, self.now, usize::MAX)
    }

    /// Decides, and returns the one thing that is told then, as `reason: message`.
    #[track_caller]
    pub fn refusal(&mut self) -> String {
        assert_eq!(self.admit(), []);
        let told = self.notices();
        assert_eq!(told.len(), 1, "{told:?}");
        format!("{}: {}", told[0].reason.as_str(), told[0].message)
    }

    /// Decides, and returns the word for why this pod waits.
    #[track_caller]
    pub fn refusal_of(&mut self, uid: &str) -> &'static str {
        assert_eq!(self.admit(), []);
        self.reason(uid)
            .unwrap_or_else(|| panic!("{uid} was not refused"))
            .as_str()
    }

    /// A pod that the cluster knows.
    #[track_caller]
    pub fn known(&self, uid: &str) -> &Pod {
        let id = self.cluster.pod_with_uid(uid);
        id.and_then(|id| self.cluster.pod(id))
            .unwrap_or_else(|| panic!("no pod {uid}"))
    }

    pub fn stage(&self, uid: &str) -> Stage {
        self.known(uid).stage
    }

    /// Why a waiting pod waits; none for one that does not, or that stands aside.
    pub fn reason(&self, uid: &str) -> Option<Reason> {
        let pod = self.known(uid);
        let waiting = &self.cluster.queue(pod.queue?).waiting;
        let (_, peers) = waiting.peers_of(&pod.waits.as_ref()?.shape)?;
        Some(peers.refused?.reason)
    }

    #[track_caller]
    pub fn known_queue(&self, name: &str) -> &Queue {
        let id = self.cluster.queue_named(name);
        self.cluster.queue(id.unwrap_or_else(|| panic!("no queue {name}")))
    }

    /// How many of a card a queue has allocated.
    pub fn allocated(&self, queue: &str, card: &str) -> i128 {
        let card = self.cluster.names().known_card(card);
        card.map_or(0, |card| self.known_queue(queue).allocated.get(Dimension::Card(card)))
    }

    /// How much CPU a queue has allocated, in milli.
    pub fn allocated_cpu(&self, queue: &str) -> i128 {
        self.known_queue(queue)
            .allocated
            .get(Dimension::Resource(ResourceId::CPU))
    }

    /// The API server has confirmed an admission, and the pod is seen without its gate.
    pub fn seen_admitted(&mut self, pod: &Object, uid: &str, card: Option<&str>) {
        self.confirm(uid);
        let pod = pod.clone().ungated();
        self.pod(&card.into_iter().fold(pod, Object::assigned));
    }
}
