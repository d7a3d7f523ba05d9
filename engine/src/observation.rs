//! What the engine is told: what the API server shows, and what became of what was decided.

use std::sync::Arc;

use crds::configuration::Configuration;
use crds::dra::{DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice};
use crds::job::Job;
use crds::keys::QUEUE_NAME;
use crds::lean::Metadata;
use crds::names::as_object_name;
use crds::node::Node;
use crds::pod::Pod;
use crds::volcano::{Queue, WatchedGroup};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::cluster::kept::to_keep;
use crate::cluster::pod::NotTaken;
use crate::cluster::reclaims::EvictionOutcome;
use crate::cluster::{Cluster, Kind};
use crate::refs::WorkloadRef;
use crate::trail::{Object, ObjectKind};

/// One thing that was observed in the cluster.
#[derive(Debug, Clone)]
#[expect(missing_docs, reason = "fields of the object's metadata, by their names")]
pub enum Observation {
    /// A list of all objects of a kind begins. Objects that it does not name are gone when it ends.
    ListBegins(Kind),
    /// A list of all objects of a kind is complete.
    ListEnds(Kind),
    /// A kind is not installed in this cluster: it has no objects.
    NotInstalled(Kind),
    /// A pod is there, or has changed.
    Pod(Box<Pod<Box<str>>>),
    /// A pod is gone or over, by its uid.
    PodGone(Box<str>),
    /// A pod that had succeeded is gone, by its uid.
    SucceededPodGone(Box<str>),
    /// A node is there, or has changed.
    Node(Box<Node<Box<str>>>),
    /// A node is gone, by its name.
    NodeGone(Box<str>),
    /// A queue is there, or has changed.
    Queue(Box<Queue>),
    /// A queue exists that can't be read at all.
    QueueUnreadable {
        name: Box<str>,
        uid: Box<str>,
        /// What is wrong.
        reason: Box<str>,
    },
    /// A queue is gone, by its name.
    QueueGone(Box<str>),
    /// A `PodGroup` is there, or has changed.
    Group(Box<WatchedGroup>),
    /// A `PodGroup` exists that can't be read at all.
    GroupUnreadable {
        namespace: Box<str>,
        name: Box<str>,
        uid: Box<str>,
        /// What is wrong.
        reason: Box<str>,
    },
    /// A `PodGroup` is gone.
    GroupGone { namespace: Box<str>, name: Box<str> },
    /// A Job is there, or has changed.
    Job(Box<Job<Box<str>>>),
    /// A Job is gone.
    JobGone { namespace: Box<str>, name: Box<str> },
    /// A namespace is there, or has changed.
    Namespace(Box<Metadata<Box<str>>>),
    /// A namespace is gone, by its name.
    NamespaceGone(Box<str>),
    /// A slice of devices is there, or has changed.
    Slice(Box<ResourceSlice>),
    /// A slice is gone, by its name.
    SliceGone(Box<str>),
    /// A class of devices is there, or has changed.
    Class(Box<DeviceClass>),
    /// A class is gone, by its name.
    ClassGone(Box<str>),
    /// A rule that taints devices is there, or has changed.
    TaintRule(Box<DeviceTaintRule>),
    /// Such a rule is gone, by its name.
    TaintRuleGone(Box<str>),
    /// A claim of devices is there, or has changed.
    Claim(Box<ResourceClaim>),
    /// A claim is gone.
    ClaimGone { namespace: Box<str>, name: Box<str> },
    /// Another configuration is in force.
    Configuration(Arc<Configuration>),
}

/// What became of one thing that was decided. What was not written is treated as if it had not been decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The outcome of letting in a pod, by its uid.
    Admission(Arc<str>, Answer),
    /// The outcome of resuming a Job.
    Resumption(WorkloadRef, Answer),
    /// The outcome of binding a pod, by its uid, to the node that was chosen for it.
    Binding(Arc<str>, Answer),
    /// The outcome of evicting a pod, by its uid.
    Eviction(Arc<str>, EvictionOutcome),
}

/// What the API server answered to a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// It is written.
    Accepted,
    /// It is not written, and the object is as it was, or gone: what has changed will be seen soon.
    NotWritten,
    /// It is not written, and would not be if it were tried again. Contains the API server's words.
    Refused(Arc<str>),
    /// It is not written, though the API server does not refuse it: a later try may work. Contains what was answered last.
    Failed(Arc<str>),
    /// It is not known yet: it may still be written, however late. Another answer follows when the object has been read again.
    Unknown,
}

impl Observation {
    /// Returns the observation of a pod, with only those parts of the pod that are read. A pod may be a megabyte large, and may
    /// wait to be taken in with thousands of others.
    pub fn of_pod(pod: &Pod<Box<str>>) -> Self {
        Self::Pod(Box::new(to_keep(pod)))
    }

    /// Returns the object that it is about, where the object has to be read and not just forgotten.
    pub fn object(&self) -> Option<Object> {
        let lean = |metadata: &Metadata<Box<str>>| {
            [&metadata.namespace, &metadata.name, &metadata.uid].map(|text| text.clone().unwrap_or_default())
        };
        let (kind, [namespace, name, uid]) = match self {
            Self::Pod(pod) => (ObjectKind::Pod, lean(&pod.metadata)),
            Self::Node(node) => (ObjectKind::Node, lean(&node.metadata)),
            Self::Job(job) => (ObjectKind::Job, lean(&job.metadata)),
            Self::Namespace(metadata) => (ObjectKind::Namespace, lean(metadata)),
            Self::Slice(slice) => (ObjectKind::ResourceSlice, lean(&slice.metadata)),
            Self::Class(class) => (ObjectKind::DeviceClass, lean(&class.metadata)),
            Self::TaintRule(rule) => (ObjectKind::DeviceTaintRule, lean(&rule.metadata)),
            Self::Claim(claim) => (ObjectKind::ResourceClaim, lean(&claim.metadata)),
            Self::Queue(queue) => {
                let ObjectMeta { name, uid, .. } = &queue.metadata;
                let of = |text: &Option<String>| text.as_deref().unwrap_or_default().into();
                (ObjectKind::Queue, [Box::default(), of(name), of(uid)])
            }
            Self::Group(group) => {
                let metadata = &group.metadata;
                let identity = [&metadata.namespace, &metadata.name, &metadata.uid];
                (
                    ObjectKind::PodGroup,
                    identity.map(|text| text.clone().unwrap_or_default()),
                )
            }
            _ => return None,
        };
        Some(Object {
            kind,
            namespace: namespace.into(),
            name: name.into(),
            uid: uid.into(),
        })
    }
}

impl Cluster {
    /// Takes in what was observed at `now`.
    pub fn apply(&mut self, observation: Observation, now: Timestamp) {
        self.apply_one_of_many(observation, now);
        self.read_again(now);
    }

    /// Does the same for an observation that more follow: nothing may be decided or asked before [`Self::read_again`].
    pub fn apply_one_of_many(&mut self, observation: Observation, now: Timestamp) {
        match observation {
            Observation::ListBegins(kind) => self.begin_list(kind),
            Observation::ListEnds(kind) => self.end_list(kind, now),
            Observation::NotInstalled(kind) => self.not_installed(kind, now),
            Observation::Pod(pod) => self.apply_pod(*pod, now),
            Observation::PodGone(uid) => self.remove_pod(&uid),
            Observation::Slice(slice) => self.apply_slice(&slice, now),
            Observation::SliceGone(name) => self.remove_slice(&name, now),
            Observation::Class(class) => self.apply_class(*class),
            Observation::ClassGone(name) => self.remove_class(&name),
            Observation::TaintRule(rule) => self.apply_taint_rule(*rule, now),
            Observation::TaintRuleGone(name) => self.remove_taint_rule(&name, now),
            Observation::Claim(claim) => self.apply_resource_claim(*claim, now),
            Observation::ClaimGone { namespace, name } => self.remove_resource_claim(&namespace, &name, now),
            Observation::SucceededPodGone(uid) => self.forget_succeeded(&uid),
            Observation::Node(node) => self.apply_node(&node, now),
            Observation::NodeGone(name) => self.remove_node(&name, now),
            Observation::Queue(queue) => self.apply_queue(&queue),
            Observation::QueueUnreadable { name, uid, reason } => self.apply_unreadable_queue(&name, &uid, &reason),
            Observation::QueueGone(name) => self.remove_queue(&name),
            Observation::Group(group) => self.apply_group(&group, now),
            Observation::GroupUnreadable {
                namespace,
                name,
                uid,
                reason,
            } => self.apply_unreadable_group(&namespace, &name, &uid, &reason, now),
            Observation::GroupGone { namespace, name } => self.remove_group(&namespace, &name),
            Observation::Job(job) => self.apply_job(&job, now),
            Observation::JobGone { namespace, name } => self.remove_job(&namespace, &name),
            Observation::Namespace(metadata) => {
                let queue = metadata.annotations.get(QUEUE_NAME);
                let queue = queue.map(|name| as_object_name(name).into_owned());
                let name = metadata.name.unwrap_or_default();
                self.apply_namespace(&name, metadata.labels, queue.as_deref(), now);
            }
            Observation::NamespaceGone(name) => self.remove_namespace(&name, now),
            Observation::Configuration(configuration) => self.set_configuration(configuration, now),
        }
    }

    /// Takes in what became of something that was decided.
    pub fn outcome(&mut self, outcome: &Outcome, now: Timestamp) {
        match outcome {
            Outcome::Admission(uid, Answer::Accepted) => self.confirm(uid),
            Outcome::Admission(uid, Answer::NotWritten) => self.refuse(uid, now),
            Outcome::Admission(uid, Answer::Refused(_)) => self.refuse_for_good(uid, NotTaken::Refused, now),
            Outcome::Admission(uid, Answer::Failed(_)) => self.refuse_for_good(uid, NotTaken::Failed, now),
            Outcome::Admission(uid, Answer::Unknown) => self.await_answer(uid),
            Outcome::Resumption(job, Answer::NotWritten) => self.refuse_resumption(job, None, now),
            Outcome::Resumption(job, Answer::Refused(message)) => {
                self.refuse_resumption(job, Some((NotTaken::Refused, message)), now);
            }
            Outcome::Resumption(job, Answer::Failed(message)) => {
                self.refuse_resumption(job, Some((NotTaken::Failed, message)), now);
            }
            // Whoever asked for the binding is told why it failed.
            Outcome::Binding(uid, Answer::NotWritten | Answer::Refused(_) | Answer::Failed(_)) => {
                self.binding_failed(uid);
            }
            // The watch will show it. Until an answer is known, what the write took stays taken.
            Outcome::Resumption(_, Answer::Accepted | Answer::Unknown)
            | Outcome::Binding(_, Answer::Accepted | Answer::Unknown) => (),
            Outcome::Eviction(uid, outcome) => self.eviction_ended(uid, *outcome, now),
        }
    }
}
