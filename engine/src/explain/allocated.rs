//! What a pod is told whose claims were allocated other cards than it was let in for.

use crate::alternative::Alternative;
use crate::cluster::Cluster;
use crate::refs::PodRef;

/// Returns the pod and what it is told; none where the pod is gone.
pub fn got_others(cluster: &Cluster, uid: &str, was: &Alternative) -> Option<(PodRef, String)> {
    let pod = cluster.pod(cluster.pod_with_uid(uid)?)?;
    let got = pod.charge.as_ref()?.alternative.as_ref()?;
    let (was, got) = (was.said(cluster.names()), got.said(cluster.names()));
    let queue = &cluster.queue(pod.queue?).name;
    Some((
        pod.to_ref(),
        format!("let in for {was}, and its resource claims got {got}: queue {queue} is charged for what they got"),
    ))
}
