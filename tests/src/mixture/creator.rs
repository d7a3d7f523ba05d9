//! Creates objects while whoever has to be asked is down, again and again.

use std::fmt::Debug;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::NamespaceResourceScope;
use kube::api::PostParams;
use kube::{Api, Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use super::{GANG_SIZE, NAMESPACE};
use crate::wait::{self, Seen};

/// How many objects are created at a time.
pub(super) const AT_A_TIME: usize = 16;
/// How long an object may be refused.
const REFUSED_AT_MOST: Duration = Duration::from_mins(3);

/// Who creates them.
#[derive(Clone, Copy)]
pub(super) struct Creator<'a> {
    pub client: &'a Client,
    /// After each object of many.
    pub pause: Duration,
    pub refused: &'a AtomicUsize,
}

impl Creator<'_> {
    /// One object.
    pub async fn create<K>(self, object: &K) -> Result<()>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned + Serialize,
    {
        let (namespace, name) = (object.meta().namespace.as_deref(), object.meta().name.as_deref());
        let api = Api::<K>::namespaced(self.client.clone(), namespace.context("no namespace")?);
        self.insist(name.unwrap_or_default(), async || {
            api.create(&PostParams::default(), object).await.map(drop)
        })
        .await
    }

    /// Some objects, a few at a time.
    pub async fn create_all<K>(self, objects: impl IntoIterator<Item = K>) -> Result<()>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned + Serialize,
    {
        stream::iter(objects)
            .map(async |object| {
                tokio::time::sleep(self.pause).await;
                self.create(&object).await
            })
            .buffer_unordered(AT_A_TIME)
            .try_collect()
            .await
    }

    /// A gang's group.
    pub async fn group(self, name: &str, queue: &str) -> Result<()> {
        let group = json!({
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "PodGroup",
            "metadata": { "name": name, "namespace": NAMESPACE },
            "spec": { "queue": queue, "minMember": GANG_SIZE },
        });
        let groups = format!("/apis/scheduling.volcano.sh/v1beta1/namespaces/{NAMESPACE}/podgroups");
        let body = serde_json::to_vec(&group)?;
        self.insist(name, async || {
            let request = http::Request::post(&groups).header(http::header::CONTENT_TYPE, "application/json");
            let request = request.body(body.clone()).map_err(kube::Error::HttpError)?;
            self.client.request_text(request).await.map(drop)
        })
        .await
    }

    /// Tries until it is there: an answer that was lost does no harm.
    async fn insist(self, name: &str, create: impl AsyncFn() -> kube::Result<()>) -> Result<()> {
        wait::eventually(format!("{name} to be created"), REFUSED_AT_MOST, async || {
            Ok(match create().await {
                Ok(()) => Seen::Done(()),
                Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => Seen::Done(()),
                Err(error) => {
                    self.refused.fetch_add(1, Ordering::Relaxed);
                    Seen::NotYet(error.to_string())
                }
            })
        })
        .await
    }
}
