//! A small language for clusters: nodes, queues and pods as the API server would show them, and what is decided on them.

mod object;

use std::sync::Arc;

use crds::configuration::Configuration;
use engine::amounts::Dimension;
use engine::cluster::pod::{Pod, Stage};
use engine::cluster::queue::Queue;
use engine::cluster::reclaims::EvictionOutcome;
use engine::cluster::{Cluster, Kind};
use engine::decide::{Action, Admission, Round, decide};
use engine::explain::{Notice, Subject, explain, notices};
use engine::names::ResourceId;
use engine::overview::{self, Shown};
use engine::reason::{Outlook, Reason};
use engine::refs::{WorkloadKind, WorkloadRef};
use engine::{Answer, Observation, Outcome};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
pub use object::*;
use serde_json::{Map, json};

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

    /// Devices of a driver on a node: a name and attributes each.
    pub fn slice(&mut self, node: &str, driver: &str, devices: &serde_json::Value) {
        let slice = json!({"metadata": {"name": format!("{node}-{driver}")}, "spec": {"driver": driver, "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1}, "devices": devices}});
        self.observe(Observation::Slice(Box::new(serde_json::from_value(slice).unwrap())));
    }

    pub fn remove_slice(&mut self, node: &str, driver: &str) {
        self.observe(Observation::SliceGone(format!("{node}-{driver}").into()));
    }

    pub fn class(&mut self, name: &str, expression: &str, extended: Option<&str>) {
        let class = json!({"metadata": {"name": name}, "spec": {"extendedResourceName": extended,
            "selectors": [{"cel": {"expression": expression}}]}});
        self.observe(Observation::Class(Box::new(serde_json::from_value(class).unwrap())));
    }

    pub fn remove_class(&mut self, name: &str) {
        self.observe(Observation::ClassGone(name.into()));
    }

    /// A rule that taints the devices which this selects; none where it is null.
    pub fn taint_rule(&mut self, name: &str, selector: &serde_json::Value, effect: &str) {
        let rule = json!({"metadata": {"name": name}, "spec": {"deviceSelector": selector,
            "taint": {"key": "sick", "value": "yes", "effect": effect}}});
        self.observe(Observation::TaintRule(Box::new(serde_json::from_value(rule).unwrap())));
    }

    pub fn remove_taint_rule(&mut self, name: &str) {
        self.observe(Observation::TaintRuleGone(name.into()));
    }

    /// A slice that says this.
    pub fn slice_of(&mut self, name: &str, spec: &serde_json::Value) {
        let slice = json!({"metadata": {"name": name}, "spec": spec});
        self.observe(Observation::Slice(Box::new(serde_json::from_value(slice).unwrap())));
    }

    /// A claim of namespace `team`, with these requests and this status.
    pub fn claim(&mut self, name: &str, requests: &serde_json::Value, status: &serde_json::Value) {
        self.claim_in("team", name, requests, status);
    }

    pub fn claim_in(&mut self, namespace: &str, name: &str, requests: &serde_json::Value, status: &serde_json::Value) {
        self.claim_of(namespace, name, &json!({"requests": requests}), status);
    }

    /// The same, with all that is said of its devices.
    pub fn claim_with(&mut self, name: &str, devices: &serde_json::Value, status: &serde_json::Value) {
        self.claim_of("team", name, devices, status);
    }

    fn claim_of(&mut self, namespace: &str, name: &str, devices: &serde_json::Value, status: &serde_json::Value) {
        let claim = json!({"metadata": {"namespace": namespace, "name": name}, "status": status,
            "spec": {"devices": devices}});
        self.observe(Observation::Claim(Box::new(serde_json::from_value(claim).unwrap())));
    }

    pub fn remove_claim(&mut self, name: &str) {
        self.remove_claim_in("team", name);
    }

    pub fn remove_claim_in(&mut self, namespace: &str, name: &str) {
        self.observe(Observation::ClaimGone {
            namespace: namespace.into(),
            name: name.into(),
        });
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

    pub fn hear(&mut self, outcome: &Outcome, now: Timestamp) {
        self.cluster.outcome(outcome, now);
    }

    pub fn confirm(&mut self, uid: &str) {
        self.hear(&Outcome::Admission(uid.into(), Answer::Accepted), self.now);
    }

    /// The admission was not written: the pod has changed, or nobody leads.
    pub fn refuse(&mut self, uid: &str, now: Timestamp) {
        self.hear(&Outcome::Admission(uid.into(), Answer::NotWritten), now);
    }

    /// What the API server answered to resuming a Job of this name, whose UID is the same.
    pub fn resumption_ended(&mut self, name: &str, answer: Answer, now: Timestamp) {
        let job = WorkloadRef {
            kind: WorkloadKind::Job,
            namespace: "team".into(),
            name: name.into(),
            uid: name.into(),
        };
        self.hear(&Outcome::Resumption(job, answer), now);
    }

    pub fn refuse_resumption(&mut self, name: &str, now: Timestamp) {
        self.resumption_ended(name, Answer::NotWritten, now);
    }

    pub fn binding_failed(&mut self, uid: &str) {
        self.hear(&Outcome::Binding(uid.into(), Answer::NotWritten), self.now);
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

    /// Whether a workload was let into its queue as a whole.
    pub fn is_enqueued(&self, kind: WorkloadKind, name: &str) -> bool {
        let id = self.cluster.workload_named(kind, "team", name).unwrap();
        self.cluster.workload(id).is_enqueued()
    }

    /// What there is to see of everything that has changed.
    pub fn shown(&mut self) -> Vec<Shown> {
        let changes = self.cluster.take_changes();
        overview::changed(&self.cluster, changes)
    }

    /// One round of decisions.
    pub fn decide(&mut self) -> Vec<Action> {
        self.round().actions
    }

    /// The same, with what it has cost.
    pub fn round(&mut self) -> Round {
        decide(&mut self.cluster, self.now, usize::MAX)
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

    /// The names of the Jobs that one round resumes.
    pub fn resume(&mut self) -> Vec<String> {
        let actions = self.decide().into_iter();
        let resumed = actions.filter_map(|action| match action {
            Action::Resume(resumption) => Some(resumption.job.name.to_string()),
            _ => None,
        });
        resumed.collect()
    }

    /// The names of the pods that one round lets in.
    #[track_caller]
    pub fn admit_names(&mut self) -> Vec<String> {
        self.admit().into_iter().map(|(name, _)| name).collect()
    }

    /// What pods are told now, all of them: that waiting can't help, and what would, where it can't, and nowhere else.
    #[track_caller]
    pub fn notices(&mut self) -> Vec<Notice> {
        let notices = notices(&mut self.cluster, self.now, usize::MAX);
        for notice in &notices {
            let id = self.cluster.pod_with_uid(&notice.pod.uid).unwrap();
            let why = explain(&self.cluster, Subject::Pod(id)).unwrap();
            assert_says_never(&notice.message, &why.remedy(), why.outlook == Outlook::Never);
        }
        notices
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

/// Whether a message says that waiting can't help, and what would, is as it must be.
#[track_caller]
pub fn assert_says_never(message: &str, remedy: &str, never: bool) {
    let says = message.contains("; waiting can't help: ");
    assert_eq!(says, never, "{message}");
    assert!(!never || message.ends_with(&format!(": {remedy}")), "{message}");
}
