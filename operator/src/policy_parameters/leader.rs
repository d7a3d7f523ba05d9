//! The name of who leads, as the policies read it that refuse what others decide.
//!
//! A name is written over what was read after the last look at the Lease's term, and over nothing else (the write names the version
//! that it replaces). Who led before has read that before its successor wrote, and is refused; or it has read it afterwards, when
//! its own term was over, and writes nothing. So no late write of a former leader takes the name back.

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

/// Who the API server notes as the owner of the name. Not who owns the parameters: what is applied without it would take it away.
const FIELD_MANAGER: &str = "cardgate-leader";

/// Writes this operator's name where the policies read it.
#[derive(Debug, Clone)]
pub struct LeaderName {
    api: Api<ConfigMap>,
    name: String,
    metrics: Arc<Metrics>,
}

impl LeaderName {
    /// Of the operator of this name, which is its pod's.
    pub fn new(client: Client, namespace: &str, name: String, metrics: Arc<Metrics>) -> Self {
        Self {
            api: Api::namespaced(client, namespace),
            name,
            metrics,
        }
    }

    /// Writes the name where another one stands, or none. Whether this operator holds the Lease is asked in between.
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

    /// Creates the object that somebody removed, and changes nothing where it is there after all.
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
