//! What both programs, the webhook and the operator, have in common: how they are configured, seen and reached.

pub mod certificates;
pub mod clock;
pub mod configuration;
pub mod diagnostics;
pub mod flags;
pub mod logging;
pub mod ports;
pub mod readiness;

use kube::Client;
use thiserror::Error;

/// There is no API server to talk to.
#[derive(Debug, Error)]
#[error("no access to a Kubernetes API: set KUBECONFIG, or run in a pod with a service account")]
pub struct ConnectError(#[from] kube::Error);

/// Connects to the cluster of `KUBECONFIG`, or of the pod that this runs in.
pub async fn connect() -> Result<Client, ConnectError> {
    Ok(Client::try_default().await?)
}
