//! Keeps the label on the pod of the operator that leads. Services whose requests only the leader can answer select that pod by it.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

/// Label on the pod of the operator that leads; its value is `true`.
pub const LEADER_LABEL: &str = "card.volcano.sh/leader";
const LEADS: &str = "true";
/// How long one write may take.
const WRITE_LIMIT: Duration = Duration::from_secs(4);
/// The wait before a failed write is tried again.
const WAIT: Duration = Duration::from_secs(2);

/// Keeps the label of this operator's own pod up to date until the election ends. If there is no such pod, for example outside a cluster,
/// it does nothing.
pub async fn keep_leader_label(client: Client, namespace: &str, pod: &str, mut leads: watch::Receiver<bool>) {
    let pods = Api::<Pod>::namespaced(client, namespace);
    loop {
        let label = leads.borrow_and_update().then_some(LEADS);
        let patch = Patch::Merge(json!({"metadata": {"labels": {LEADER_LABEL: label}}}));
        let params = PatchParams::default();
        match timeout(WRITE_LIMIT, pods.patch_metadata(pod, &params, &patch)).await {
            Ok(Ok(_)) => {}
            Ok(Err(kube::Error::Api(status))) if status.code == 404 => {
                tracing::info!(
                    pod,
                    "no pod of this name: the Services that want the leader can't find this operator"
                );
            }
            failed => {
                tracing::warn!(pod, ?failed, "label {LEADER_LABEL} not written, trying again");
                sleep(WAIT).await;
                continue;
            }
        }
        if leads.changed().await.is_err() {
            return;
        }
    }
}
