//! What a pod is told that waited and is now let in.

use crds::configuration::Enforcement;
use crds::keys::CROSS_QUOTA_LABEL;

use crate::cluster::Cluster;
use crate::cluster::pod::Pod;

/// Returns which queue let a pod in, with which cards; or why nothing held the pod any more.
pub fn let_in(cluster: &Cluster, pod: &Pod) -> String {
    let Some(queue) = pod.queue.map(|queue| cluster.queue(queue)) else {
        return "let in: nothing that the pod asks for is charged to a queue".to_owned();
    };
    if !queue.is_nameless() {
        let cards = pod.assigned.as_ref().map(|own| own.written(cluster.names()));
        let cards = cards.map(|cards| format!(" with {cards}")).unwrap_or_default();
        return format!("let in by queue {}{cards}", queue.name);
    }
    let configuration = cluster.configuration();
    let gating = configuration.cardgate.enforce_cross_quota == Enforcement::Gating;
    if configuration.cross_quota.is_none() || !gating {
        return "let in: by its configuration, CrossQuota holds no pods any more".to_owned();
    }
    let namespace = cluster.namespace(&pod.namespace);
    if namespace.is_some_and(|namespace| !namespace.opts_in_to_cross_quota()) {
        return format!(
            "let in: namespace {} opts in to CrossQuota no longer, or never did (label {CROSS_QUOTA_LABEL}), so that nothing limits the pod",
            pod.namespace
        );
    }
    "let in by CrossQuota".to_owned()
}
