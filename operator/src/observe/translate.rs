//! Translates objects that are seen into observations for the engine.

use std::borrow::Cow;

use crds::bounds::told;
use crds::dra::{DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice};
use crds::keys::CARD_REQUEST;
use crds::observed::{Guarded, Namespace, Observed, Unreadable};
use crds::volcano::{PodGroup, Queue, WatchedGroup};
use engine::Observation;
use k8s_openapi::ClusterResourceScope;
use k8s_openapi::api::{batch::v1 as batch, core::v1 as core, resource::v1 as resource};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::DeserializeGuard;
use kube::{Resource, ResourceExt as _};

pub(super) type ObservedPod = Observed<core::Pod, crds::pod::Pod<Box<str>>>;
pub(super) type ObservedNode = Observed<core::Node, crds::node::Node<Box<str>>>;
pub(super) type ObservedJob = Observed<batch::Job, crds::job::Job<Box<str>>>;
pub(super) type ObservedGroup = Guarded<PodGroup, WatchedGroup>;
pub(super) type ObservedSlice = Observed<resource::ResourceSlice, ResourceSlice>;
pub(super) type ObservedClass = Observed<resource::DeviceClass, DeviceClass>;
pub(super) type ObservedTaintRule = Observed<TaintRule, DeviceTaintRule>;
pub(super) type ObservedClaim = Observed<resource::ResourceClaim, ResourceClaim>;
pub(super) type ObservedNamespace = Observed<core::Namespace, Namespace>;

/// Kubernetes' own `DeviceTaintRule`, for watching it: the types of older versions do not contain the kind. There are no values of this
/// type.
#[derive(Debug, Clone)]
pub(super) enum TaintRule {}

impl Resource for TaintRule {
    type DynamicType = ();
    type Scope = ClusterResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        "DeviceTaintRule".into()
    }

    fn group((): &()) -> Cow<'_, str> {
        "resource.k8s.io".into()
    }

    fn version((): &()) -> Cow<'_, str> {
        "v1".into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        "devicetaintrules".into()
    }

    fn meta(&self) -> &ObjectMeta {
        match *self {}
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        match *self {}
    }
}

/// Whether an object exists or has been deleted.
pub(super) enum Change<K> {
    Applied(K),
    Deleted(K),
}

pub(super) fn pod_event(change: Change<ObservedPod>) -> Observation {
    match change {
        Change::Applied(pod) => Observation::of_pod(&pod.object),
        Change::Deleted(pod) => Observation::PodGone(pod.object.metadata.uid.unwrap_or_default()),
    }
}

pub(super) fn succeeded_pod_event(change: Change<ObservedPod>) -> Observation {
    match change {
        Change::Applied(pod) => Observation::of_pod(&pod.object),
        Change::Deleted(pod) => Observation::SucceededPodGone(pod.object.metadata.uid.unwrap_or_default()),
    }
}

pub(super) fn node_event(change: Change<ObservedNode>) -> Observation {
    match change {
        Change::Applied(node) => Observation::Node(Box::new(node.object)),
        Change::Deleted(node) => Observation::NodeGone(node.object.metadata.name.unwrap_or_default()),
    }
}

pub(super) fn namespace_event(change: Change<ObservedNamespace>) -> Observation {
    match change {
        Change::Applied(namespace) => Observation::Namespace(Box::new(namespace.object.metadata)),
        Change::Deleted(namespace) => Observation::NamespaceGone(namespace.object.metadata.name.unwrap_or_default()),
    }
}

pub(super) fn queue_event(change: Change<DeserializeGuard<Queue>>) -> Observation {
    match change {
        Change::Applied(DeserializeGuard(Ok(queue))) => Observation::Queue(Box::new(queue)),
        Change::Applied(DeserializeGuard(Err(invalid))) => Observation::QueueUnreadable {
            name: invalid.metadata.name.unwrap_or_default().into(),
            uid: invalid.metadata.uid.unwrap_or_default().into(),
            reason: told(invalid.error).into(),
        },
        Change::Deleted(queue) => Observation::QueueGone(queue.name_any().into()),
    }
}

pub(super) fn group_event(change: Change<ObservedGroup>) -> Observation {
    match change {
        Change::Applied(group) => match group.object {
            Ok(group) => Observation::Group(Box::new(group)),
            Err(Unreadable { identity, error }) => Observation::GroupUnreadable {
                namespace: identity.namespace.unwrap_or_default(),
                name: identity.name.unwrap_or_default(),
                uid: identity.uid.unwrap_or_default(),
                reason: error,
            },
        },
        Change::Deleted(group) => {
            let (namespace, name) = match group.object {
                Ok(group) => (group.metadata.namespace, group.metadata.name),
                Err(unreadable) => (unreadable.identity.namespace, unreadable.identity.name),
            };
            Observation::GroupGone {
                namespace: namespace.unwrap_or_default(),
                name: name.unwrap_or_default(),
            }
        }
    }
}

/// A Job that does not request cards in advance counts as gone, so it is not kept in memory.
pub(super) fn job_event(change: Change<ObservedJob>) -> Observation {
    match change {
        Change::Applied(job) if job.object.metadata.annotations.contains_key(CARD_REQUEST) => {
            Observation::Job(Box::new(job.object))
        }
        Change::Applied(job) | Change::Deleted(job) => Observation::JobGone {
            namespace: job.object.metadata.namespace.unwrap_or_default(),
            name: job.object.metadata.name.unwrap_or_default(),
        },
    }
}

pub(super) fn slice_event(change: Change<ObservedSlice>) -> Observation {
    match change {
        Change::Applied(slice) => Observation::Slice(Box::new(slice.object)),
        Change::Deleted(slice) => Observation::SliceGone(slice.object.metadata.name.unwrap_or_default()),
    }
}

pub(super) fn class_event(change: Change<ObservedClass>) -> Observation {
    match change {
        Change::Applied(class) => Observation::Class(Box::new(class.object)),
        Change::Deleted(class) => Observation::ClassGone(class.object.metadata.name.unwrap_or_default()),
    }
}

pub(super) fn taint_rule_event(change: Change<ObservedTaintRule>) -> Observation {
    match change {
        Change::Applied(rule) => Observation::TaintRule(Box::new(rule.object)),
        Change::Deleted(rule) => Observation::TaintRuleGone(rule.object.metadata.name.unwrap_or_default()),
    }
}

pub(super) fn claim_event(change: Change<ObservedClaim>) -> Observation {
    match change {
        Change::Applied(mut claim) => {
            // Fields of the claim that may be long are dropped.
            let metadata = &mut claim.object.metadata;
            (metadata.labels, metadata.annotations) = Default::default();
            Observation::Claim(Box::new(claim.object))
        }
        Change::Deleted(claim) => Observation::ClaimGone {
            namespace: claim.object.metadata.namespace.unwrap_or_default(),
            name: claim.object.metadata.name.unwrap_or_default(),
        },
    }
}

#[cfg(test)]
mod tests {
    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};

    use super::*;

    /// Returns, as text, what is kept of an object that was seen.
    fn kept<K: DeserializeOwned>(object: Value, translate: impl Fn(Change<K>) -> Observation) -> String {
        let object = serde_json::from_value(object).expect("an object");
        format!("{:?}", translate(Change::Applied(object)))
    }

    fn many(count: usize, each: impl Fn(usize) -> Value) -> Value {
        (0..count).map(each).collect()
    }

    #[test]
    fn of_a_large_pod_little_waits_to_be_taken_in() {
        let megabyte = "x".repeat(1 << 20);
        let in_zones =
            json!({"key": "zone", "operator": "In", "values": many(20_000, |index| json!(format!("zone-{index}")))});
        let pod = json!({
            "metadata": {"namespace": "team", "name": "p", "uid": "u", "labels": {"stuffing": megabyte}, "annotations": {"stuffing": megabyte}},
            "spec": {
                "containers": [{"name": "main", "env": [{"name": "A", "value": megabyte}]}],
                "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [in_zones]}]}}},
                "tolerations": many(20_000, |index| json!({"key": format!("taint-{index}"), "operator": "Exists"})),
                "schedulingGates": many(20_000, |index| json!({"name": format!("gate-{index}")})),
                "volumes": many(20_000, |index| json!({"name": format!("v-{index}"), "persistentVolumeClaim": {"claimName": "c"}})),
            },
            "status": {"conditions": many(20_000, |index| json!({"type": format!("c-{index}"), "status": "True"}))},
        });
        let kept = kept(pod, pod_event);
        assert!(kept.len() < 256 << 10, "{}", kept.len());
    }

    #[test]
    fn of_a_claim_what_it_asks_for_waits_to_be_taken_in() {
        let megabyte = "x".repeat(1 << 20);
        let metadata = json!({"namespace": "team", "name": "c", "labels": {"stuffing": megabyte}, "annotations": {"stuffing": megabyte}});
        let kept = kept(
            json!({"metadata": metadata, "spec": {"devices": {"requests": []}}}),
            claim_event,
        );
        assert!(kept.len() < 2_000, "{}", kept.len());
    }
}
