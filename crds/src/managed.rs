//! Which pods concern Cardgate (docs/rules.md, **Which pods are managed**).

use crate::configuration::CrossQuota;
use crate::keys::{
    CARD_NAME, CROSS_QUOTA_ENABLED, CROSS_QUOTA_LABEL, DAEMON_SET_CONTROLLERS, EXEMPT_NAMESPACES, GROUP_NAME,
    MGPU_CORE, MGPU_MEMORY, MIRROR_POD, QUEUE_NAME, RESOURCE_OF_CLASS,
};
use crate::pod::Pod;
use crate::pod_request::pod_request;

/// The kind of controller whose pods run on every node.
pub(crate) const DAEMON_SET: &str = "DaemonSet";

/// Whether the pod names a queue, belongs to a group, names a card or requests a share of a GPU, and is outside the exempt
/// namespaces. `namespace` is the request's, since a pod that is being created need not repeat it.
pub fn is_managed<S: AsRef<str>>(pod: &Pod<S>, namespace: &str) -> bool {
    is_reachable(pod, namespace) && is_concerned(pod)
}

/// The same, whatever the pod's namespace, and even if it says that it is a mirror pod.
pub fn is_concerned<S: AsRef<str>>(pod: &Pod<S>) -> bool {
    let annotations = &pod.metadata.annotations;
    let mut keys = [QUEUE_NAME, GROUP_NAME, CARD_NAME].iter();
    keys.any(|key| annotations.contains_key(key))
        || requests_any(pod, |resource| matches!(resource, MGPU_CORE | MGPU_MEMORY))
}

/// Whether `CrossQuota` decides where the pod goes; the door has marked such pods.
pub fn is_under_cross_quota<S: AsRef<str>>(pod: &Pod<S>, namespace: &str) -> bool {
    is_reachable(pod, namespace) && pod.metadata.labels.get(CROSS_QUOTA_LABEL) == Some(CROSS_QUOTA_ENABLED)
}

/// Whether `CrossQuota` applies to such a pod in a namespace that opted in, unless the pod must run on every node: it
/// requests no GPU, and the configured selector selects it. Only the operator knows whether the pod's claims ask for a
/// device; if they do, it lets the pod in at once.
pub fn is_subject_to_cross_quota<S: AsRef<str>>(pod: &Pod<S>, arguments: &CrossQuota) -> bool {
    let labels = &pod.metadata.labels;
    if !arguments.selector.selects(|key| labels.get(key)) {
        return false;
    }
    // A request that can't be read is refused where it is judged, with a message that names it.
    pod_request(&pod.spec).map_or(true, |request| {
        !request
            .iter()
            .any(|(resource, _)| arguments.gpu_resources.matches(resource))
    })
}

/// Whether Cardgate may look at the pod at all: it is in no exempt namespace, and it is not the API copy of a static pod,
/// which runs whatever the API server says.
pub fn is_reachable<S: AsRef<str>>(pod: &Pod<S>, namespace: &str) -> bool {
    !EXEMPT_NAMESPACES.contains(&namespace) && !pod.metadata.annotations.contains_key(MIRROR_POD)
}

/// Whether this user creates the pod for a `DaemonSet`, so that it must run on every node. The owner that the pod names
/// proves nothing by itself, since everybody may write it.
pub fn is_created_for_daemon_set<S: AsRef<str>>(pod: &Pod<S>, user: &str) -> bool {
    DAEMON_SET_CONTROLLERS.contains(&user) && is_of_daemon_set(pod)
}

/// Whether the pod names a `DaemonSet` as its owner.
pub fn is_of_daemon_set<S: AsRef<str>>(pod: &Pod<S>) -> bool {
    let mut owners = pod.metadata.owner_references.iter();
    owners.any(|owner| owner.controller == Some(true) && owner.kind.as_ref().map(AsRef::as_ref) == Some(DAEMON_SET))
}

/// Whether the pod names any claims. Only the claims say whether they ask for devices.
pub fn names_claims<S>(pod: &Pod<S>) -> bool {
    !pod.spec.resource_claims.is_empty()
}

/// Whether the pod names claims, or requests a resource whose name says that a class of devices provides it. What these
/// devices are depends on the devices that exist.
pub fn asks_for_devices_of_classes<S: AsRef<str>>(pod: &Pod<S>) -> bool {
    names_claims(pod) || requests_any(pod, |resource| resource.starts_with(RESOURCE_OF_CLASS))
}

/// Whether any container requests, or is limited in, a resource that `wanted` accepts, of whatever amount.
pub fn requests_any<S: AsRef<str>>(pod: &Pod<S>, wanted: impl Fn(&str) -> bool) -> bool {
    pod.spec
        .all_containers()
        .flat_map(|container| container.resources.effective())
        .any(|(resource, _)| wanted(resource))
}
