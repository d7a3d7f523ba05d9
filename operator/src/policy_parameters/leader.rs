//! The leader's name, for the policies that refuse what other operators decide.
//!
//! A name is only written over a version that was read before the last check of the Lease's term (the write names the version that it
//! replaces). A former leader may have read that version before its successor wrote; then its write is refused. Or it has read it
//! afterwards, when its own term was over; then it writes nothing. So no late write of a former leader restores its name.

use std::sync::Arc;

use crds::keys::{LEADER, POLICY_PARAMETERS};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;
use tokio::time::Instant;
use tracing::info;

use super::OBJECT;
use crate::keep::{KeepError, in_time};
use crate::lease::Fence;
use crate::metrics::{Metrics, Verb, Write};

/// The field manager that the API server records for the name. It differs from that of the parameters: otherwise, applying the parameters
/// without the name would remove it.
const FIELD_MANAGER: &str = "cardgate-leader";

/// Writes this operator's name where the policies read it.
#[derive(Debug, Clone)]
pub struct LeaderName {
    api: Api<ConfigMap>,
    name: String,
    metrics: Arc<Metrics>,
}

impl LeaderName {
    /// Returns the writer for the operator of this name, which is its pod's name.
    pub fn new(client: Client, namespace: &str, name: String, metrics: Arc<Metrics>) -> Self {
        Self {
            api: Api::namespaced(client, namespace),
            name,
            metrics,
        }
    }

    /// Writes the name unless it is written already. Between reading and writing, `holds` tells whether this operator holds the Lease.
    pub async fn write(&self, holds: impl Fn() -> bool) -> Result<(), KeepError> {
        let read = self.api.get_opt(POLICY_PARAMETERS);
        let found = match in_time(&self.metrics, read, Verb::Get, "read", OBJECT).await? {
            Some(found) => found,
            None => self.restore(&holds).await?,
        };
        if found.data.and_then(|mut data| data.remove(LEADER)).as_ref() == Some(&self.name) {
            return Ok(());
        }
        let change = json!({
            "metadata": { "resourceVersion": found.metadata.resource_version },
            "data": { LEADER: &self.name },
        });
        let (params, change) = (params(), Patch::Merge(&change));
        let write = self.api.patch(POLICY_PARAMETERS, &params, &change);
        self.send(write, &holds).await?;
        info!("wrote into {OBJECT} that this operator decides");
        Ok(())
    }

    /// Creates the object again after somebody removed it. Changes nothing if the object exists after all.
    async fn restore(&self, holds: impl Fn() -> bool) -> Result<ConfigMap, KeepError> {
        let object = json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": { "name": POLICY_PARAMETERS },
        });
        let (params, object) = (params(), Patch::Apply(&object));
        let write = self.api.patch(POLICY_PARAMETERS, &params, &object);
        self.send(write, holds).await
    }

    async fn send(
        &self,
        write: impl Future<Output = kube::Result<ConfigMap>>,
        holds: impl Fn() -> bool,
    ) -> Result<ConfigMap, KeepError> {
        if !holds() {
            return Err(KeepError::NotLeading);
        }
        self.metrics.api_write(Write::PolicyParameters);
        in_time(&self.metrics, write, Verb::Patch, "write", OBJECT).await
    }
}

fn params() -> PatchParams {
    PatchParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    }
}

impl Fence for LeaderName {
    type Error = KeepError;

    async fn raise(&self, term: Instant) -> Result<(), KeepError> {
        self.write(|| Instant::now() < term).await
    }
}
