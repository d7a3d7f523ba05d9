//! One pass over all objects of a kind, page by page: whatever there is to write is written, a bounded number at once. What
//! fails is left to the next pass, which finds it again.

use std::fmt::Debug;

use futures::{StreamExt as _, stream};
use json_patch::Patch as JsonPatch;
use kube::api::{ListParams, Patch, PatchParams};
use kube::core::{ClusterResourceScope, NamespaceResourceScope};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use tracing::info;

use crate::request::{Obstacle, RequestError, in_time};

/// Objects of one page: some megabytes of pods.
const PAGE: u32 = 500;
/// How many objects are written at once. More would only wait in the API server, which serves few writes at a time.
const LANES: usize = 16;

/// What is to be written on the objects of a kind.
pub(super) struct Writes<K> {
    kind: &'static str,
    patch: fn(&K) -> Option<JsonPatch>,
    status: bool,
    label: Option<&'static str>,
}

impl<K> Writes<K> {
    /// Writes this on each object that needs it.
    pub fn new(kind: &'static str, patch: fn(&K) -> Option<JsonPatch>) -> Self {
        Self {
            kind,
            patch,
            status: false,
            label: None,
        }
    }

    /// The same on the object's status.
    pub fn of_status(kind: &'static str, patch: fn(&K) -> Option<JsonPatch>) -> Self {
        Self {
            status: true,
            ..Self::new(kind, patch)
        }
    }

    /// Only on objects with this label.
    pub fn selected_by(self, label: &'static str) -> Self {
        Self {
            label: Some(label),
            ..self
        }
    }
}

/// One pass, and what came of it.
pub(super) struct Pass<'a> {
    client: &'a Client,
    dry_run: bool,
    /// How many objects were written, or would be.
    pub done: usize,
    /// Why one was not written, where any was not.
    pub failed: Option<Obstacle>,
}

impl<'a> Pass<'a> {
    pub fn new(client: &'a Client, dry_run: bool) -> Self {
        Self {
            client,
            dry_run,
            done: 0,
            failed: None,
        }
    }

    /// Looks at every object of the kind, and writes what there is to write. An error is a page that can't be read.
    pub async fn over<K>(&mut self, writes: Writes<K>) -> Result<(), RequestError>
    where
        K: Resource<DynamicType = ()> + Located + Clone + Debug + DeserializeOwned,
    {
        let mut params = ListParams::default().limit(PAGE);
        params.label_selector = writes.label.map(str::to_owned);
        loop {
            let page = in_time(Api::<K>::all(self.client.clone()).list(&params)).await?;
            let to_write = page
                .items
                .iter()
                .filter_map(|object| Some((object, (writes.patch)(object)?)));
            if self.dry_run {
                for (object, _) in to_write {
                    info!(
                        kind = writes.kind,
                        namespace = object.meta().namespace,
                        name = object.meta().name,
                        "would be written"
                    );
                    self.done += 1;
                }
            } else {
                self.write(&writes, to_write).await;
            }
            match page.metadata.continue_ {
                Some(token) if !token.is_empty() => params.continue_token = Some(token),
                _ => return Ok(()),
            }
        }
    }

    async fn write<'b, K>(&mut self, writes: &Writes<K>, patches: impl Iterator<Item = (&'b K, JsonPatch)>)
    where
        K: Resource<DynamicType = ()> + Located + Clone + Debug + DeserializeOwned + 'b,
    {
        let client = self.client;
        let status = writes.status;
        let writing = patches.map(|(object, patch)| async move {
            let meta = object.meta();
            let api = K::api(client, meta.namespace.as_deref());
            let (name, params, patch) = (
                meta.name.as_deref().unwrap_or_default(),
                PatchParams::default(),
                Patch::Json::<()>(patch),
            );
            let written = if status {
                in_time(api.patch_subresource("status", name, &params, &patch))
                    .await
                    .map(drop)
            } else {
                in_time(api.patch_metadata(name, &params, &patch)).await.map(drop)
            };
            match written {
                Ok(()) => Ok(true),
                // Whatever is gone waits for nobody.
                Err(error) if error.code() == Some(404) => Ok(false),
                Err(error) => Err(Obstacle::of(format!("{} {name}", K::kind(&())), &error)),
            }
        });
        let mut written = stream::iter(writing).buffer_unordered(LANES);
        let before = self.done;
        while let Some(written) = written.next().await {
            match written {
                Ok(written) => self.done += usize::from(written),
                Err(reason) => self.failed = Some(reason),
            }
        }
        if self.done > before {
            info!(kind = writes.kind, written = self.done, "on the way");
        }
    }
}

/// A kind whose objects are found by namespace, or have none.
pub(super) trait Located: Sized {
    fn api(client: &Client, namespace: Option<&str>) -> Api<Self>;
}

impl Located for k8s_openapi::api::core::v1::Node {
    fn api(client: &Client, _: Option<&str>) -> Api<Self> {
        everywhere(client)
    }
}

impl Located for k8s_openapi::api::core::v1::Pod {
    fn api(client: &Client, namespace: Option<&str>) -> Api<Self> {
        within(client, namespace)
    }
}

impl Located for k8s_openapi::api::batch::v1::Job {
    fn api(client: &Client, namespace: Option<&str>) -> Api<Self> {
        within(client, namespace)
    }
}

fn everywhere<K: Resource<DynamicType = (), Scope = ClusterResourceScope>>(client: &Client) -> Api<K> {
    Api::all(client.clone())
}

fn within<K>(client: &Client, namespace: Option<&str>) -> Api<K>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    Api::namespaced(client.clone(), namespace.unwrap_or_default())
}
