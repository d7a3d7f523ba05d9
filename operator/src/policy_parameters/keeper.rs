//! Keeps the `ConfigMap` that the policies read as it should be, while this operator leads.

use std::sync::Arc;
use std::time::Duration;

use crds::keys::POLICY_PARAMETERS;
use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use tokio::sync::watch;
use tracing::{info, warn};

use super::{LeaderName, OBJECT, Parameters};
use crate::context::Context;
use crate::keep::{KeepError, Keeper, LOOK_AGAIN};
use crate::metrics::{Verb, Write};

/// The field manager that the API server records for these writes.
const FIELD_MANAGER: &str = "cardgate-operator";

/// Keeps the parameters.
pub struct ParameterKeeper {
    context: Context,
    /// The parameters that have to be written; none before everything has been listed.
    wanted: watch::Receiver<Option<Arc<Parameters>>>,
    /// Writes the leader's name.
    leader: LeaderName,
    /// The parameters at the last look.
    written: Option<Arc<Parameters>>,
}

impl ParameterKeeper {
    /// Returns a keeper of the `wanted` parameters, which writes nothing before they are known. It also keeps the leader's name, which was
    /// first written before anything was decided.
    pub fn new(context: Context, wanted: watch::Receiver<Option<Arc<Parameters>>>, leader: LeaderName) -> Self {
        Self {
            context,
            wanted,
            leader,
            written: None,
        }
    }

    /// Writes the parameters if they differ from the wanted ones.
    async fn bring_in_order(&self, wanted: &Arc<Parameters>) -> Result<(), KeepError> {
        let api: Api<ConfigMap> = Api::namespaced(self.context.client.clone(), &self.context.namespace);
        let read = api.get_opt(POLICY_PARAMETERS);
        let found = self.context.request(read, Verb::Get, "read", OBJECT).await?;
        let data = found.and_then(|map| map.data);
        let found = |key: &String| data.as_ref().and_then(|data| data.get(key));
        let differing = wanted.iter().filter(|(key, value)| found(key) != Some(value));
        let differing: Vec<_> = differing.map(|(key, _)| key.as_str()).collect();
        if differing.is_empty() {
            return Ok(());
        }
        self.context.may_write(Write::PolicyParameters)?;
        let object = json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": { "name": POLICY_PARAMETERS },
            "data": &**wanted,
        });
        let params = PatchParams::apply(FIELD_MANAGER).force();
        let patch = Patch::Apply(&object);
        let write = api.patch(POLICY_PARAMETERS, &params, &patch);
        self.context.request(write, Verb::Patch, "write", OBJECT).await?;
        let keys = differing.join(", ");
        if self.written.as_ref() == Some(wanted) {
            self.context.metrics.parameters_restored();
            warn!(
                keys,
                "somebody changed ConfigMap {POLICY_PARAMETERS}, which the policies read: restored"
            );
        } else {
            info!(keys, "wrote ConfigMap {POLICY_PARAMETERS}, which the policies read");
        }
        Ok(())
    }
}

impl Keeper for ParameterKeeper {
    type Error = KeepError;
    const OBJECTS: &'static str = "what the policies read is";

    fn context(&self) -> &Context {
        &self.context
    }

    fn changes(&self) -> BoxStream<'static, ()> {
        let api = Api::namespaced(self.context.client.clone(), &self.context.namespace);
        let of_object = self.context.changes::<ConfigMap>(api, POLICY_PARAMETERS);
        let of_wanted = stream::unfold(self.wanted.clone(), |mut wanted| async move {
            wanted.changed().await.ok()?;
            Some(((), wanted))
        });
        stream::select(of_object, of_wanted).boxed()
    }

    async fn reconcile(&mut self) -> Result<Duration, KeepError> {
        let leadership = &self.context.leadership;
        self.leader.write(|| leadership.holds()).await?;
        let wanted = self.wanted.borrow().clone();
        if let Some(wanted) = &wanted {
            self.bring_in_order(wanted).await?;
        }
        self.written = wanted;
        Ok(LOOK_AGAIN)
    }
}
