//! One pass over all objects of a kind, page by page: whatever there is to write is written, a bounded number at once. What
//! fails is left to the next pass, which finds it again.

use futures::{StreamExt as _, stream};
use json_patch::Patch as JsonPatch;
use kube::api::{ListParams, ObjectList, Patch, PatchParams, Request};
use kube::{Client, Resource as _};
use serde::de::IgnoredAny;
use tracing::{info, warn};

use crate::marked::Marked;
use crate::request::{Obstacle, RequestError, in_time};

/// Objects of one page. A tenant's pod can come as nine megabytes: one and a half are stored, and what has to be escaped in JSON takes six
/// times as much. A page is in memory twice as it came, within the 256 MiB of the removal's own pod.
const PAGE: u32 = 10;
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
    /// Of those that can't be written as they are, by no fault of anybody but whoever wrote them: which is one, and why.
    pub refused: Option<Obstacle>,
}

impl<'a> Pass<'a> {
    pub fn new(client: &'a Client, dry_run: bool) -> Self {
        Self {
            client,
            dry_run,
            done: 0,
            failed: None,
            refused: None,
        }
    }

    /// Looks at every object of the kind, and writes what there is to write. An error is a page that can't be read.
    pub async fn over<K>(&mut self, writes: Writes<K>) -> Result<(), RequestError>
    where
        K: Marked,
    {
        let path = K::Kind::url_path(&(), None);
        let mut size = PAGE;
        let mut params = ListParams::default().limit(PAGE);
        params.label_selector = writes.label.map(str::to_owned);
        loop {
            params.limit = Some(size);
            let request = Request::new(&*path).list(&params).map_err(kube::Error::BuildRequest);
            let page = in_time(async { self.client.request::<ObjectList<K>>(request?).await }).await;
            let page = match page {
                // One that holds as much as an API server can read in time may be any tenant's.
                Err(error @ RequestError::TimedOut) if size > 1 => {
                    size /= 2;
                    warn!(kind = writes.kind, size, "{error}: asking for smaller pages");
                    continue;
                }
                page => page?,
            };
            let to_write = page
                .items
                .iter()
                .filter_map(|object| Some((object, (writes.patch)(object)?)));
            if self.dry_run {
                for (object, _) in to_write {
                    info!(
                        kind = writes.kind,
                        namespace = object.metadata().namespace,
                        name = object.metadata().name,
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
        K: Marked + 'b,
    {
        let client = self.client;
        let subresource = if writes.status { "/status" } else { "" };
        let writing = patches.map(|(object, patch)| async move {
            let metadata = object.metadata();
            let name = metadata.name.as_deref().unwrap_or_default();
            let path = K::Kind::url_path(&(), metadata.namespace.as_deref());
            let written = if name.is_empty() {
                name.to_owned()
            } else {
                format!("{name}{subresource}")
            };
            // The answer, as the list, may be long: of its metadata it is long enough.
            let request =
                Request::new(path).patch_metadata(&written, &PatchParams::default(), &Patch::Json::<()>(patch));
            let request = request.map_err(kube::Error::BuildRequest);
            let written = in_time(async { client.request::<IgnoredAny>(request?).await }).await;
            match written {
                Ok(_) => Ok(true),
                // Whatever is gone waits for nobody.
                Err(error) if error.code() == Some(404) => Ok(false),
                Err(error) => {
                    let namespace = metadata.namespace.iter().map(|namespace| format!("{namespace}/"));
                    let what = format!("{} {}{name}", K::Kind::kind(&()), namespace.collect::<String>());
                    Err((error.is_of_object(), Obstacle::of(what, &error)))
                }
            }
        });
        let mut written = stream::iter(writing).buffer_unordered(LANES);
        let before = self.done;
        while let Some(written) = written.next().await {
            match written {
                Ok(written) => self.done += usize::from(written),
                Err((true, obstacle)) => {
                    warn!(reason = obstacle.reason, "can't be written as it is");
                    self.refused = Some(obstacle);
                }
                Err((false, obstacle)) => self.failed = Some(obstacle),
            }
        }
        if self.done > before {
            info!(kind = writes.kind, written = self.done, "on the way");
        }
    }
}

#[cfg(test)]
mod tests;
