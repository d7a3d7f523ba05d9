//! One pass over all objects of a kind, page by page. It makes all necessary writes, a bounded number at once. Writes that fail are left to
//! the next pass, which finds the objects again.

use std::time::Duration;

use futures::{StreamExt as _, stream};
use json_patch::Patch as JsonPatch;
use kube::api::{ListParams, ObjectList, Patch, PatchParams, Request};
use kube::{Client, Resource as _};
use serde::de::IgnoredAny;
use tokio::time::sleep;
use tracing::{info, warn};

use crate::marked::Marked;
use crate::request::{Obstacle, RequestError, in_time};

/// Number of objects per page. A tenant's pod can arrive as nine megabytes: one and a half are stored, and characters that are escaped in
/// JSON take six times as much. A page is in memory twice as it arrived, within the 256 MiB of the removal's own pod.
const PAGE: u32 = 10;
/// The pauses before a page that failed for the moment is asked for again. A pass that ended there would begin anew, and of thousands of
/// pages one may always fail.
const READ_AGAIN: [Duration; 4] = [
    Duration::from_millis(100),
    Duration::from_millis(300),
    Duration::from_secs(1),
    Duration::from_secs(3),
];
/// How many objects are written at once. More writes would only wait in the API server, which serves few at a time.
const LANES: usize = 16;

/// The writes on the objects of a kind.
pub(super) struct Writes<K> {
    kind: &'static str,
    patch: fn(&K) -> Option<JsonPatch>,
    status: bool,
    label: Option<&'static str>,
}

impl<K> Writes<K> {
    /// Writes the patch on each object that needs it.
    pub fn new(kind: &'static str, patch: fn(&K) -> Option<JsonPatch>) -> Self {
        Self {
            kind,
            patch,
            status: false,
            label: None,
        }
    }

    /// Writes the patch on the object's status.
    pub fn of_status(kind: &'static str, patch: fn(&K) -> Option<JsonPatch>) -> Self {
        Self {
            status: true,
            ..Self::new(kind, patch)
        }
    }

    /// Restricts the writes to objects with this label.
    pub fn selected_by(self, label: &'static str) -> Self {
        Self {
            label: Some(label),
            ..self
        }
    }
}

/// One pass, and its results.
pub(super) struct Pass<'a> {
    client: &'a Client,
    dry_run: bool,
    /// How many objects were written, or would be.
    pub done: usize,
    /// Why an object was not written, if any was not.
    pub failed: Option<Obstacle>,
    /// One of the objects that cannot be written because of their own content, and why.
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

    /// Looks at every object of the kind, and makes the necessary writes. Fails if a page cannot be read.
    pub async fn over<K>(&mut self, writes: Writes<K>) -> Result<(), RequestError>
    where
        K: Marked,
    {
        let path = K::Kind::url_path(&(), None);
        let mut size = PAGE;
        let mut params = ListParams::default().limit(PAGE);
        params.label_selector = writes.label.map(str::to_owned);
        let mut pauses = READ_AGAIN.iter();
        loop {
            params.limit = Some(size);
            let request = Request::new(&*path).list(&params).map_err(kube::Error::BuildRequest);
            let page = in_time(async { self.client.request::<ObjectList<K>>(request?).await }).await;
            let page = match page {
                // Any tenant's objects can make a page so large that an API server cannot read it in time.
                Err(error @ RequestError::TimedOut) if size > 1 => {
                    size /= 2;
                    warn!(kind = writes.kind, size, "{error}: asking for smaller pages");
                    continue;
                }
                Err(error) if error.is_passing() => {
                    let Some(pause) = pauses.next() else {
                        return Err(error);
                    };
                    warn!(kind = writes.kind, "{error}: asking for the page again");
                    sleep(*pause).await;
                    if let RequestError::Expired { next, .. } = error {
                        params.continue_token = Some(next);
                    }
                    continue;
                }
                page => page?,
            };
            pauses = READ_AGAIN.iter();
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
            // The answer may be long, like the list. So only its metadata is requested, which is long enough already.
            let request =
                Request::new(path).patch_metadata(&written, &PatchParams::default(), &Patch::Json::<()>(patch));
            let request = request.map_err(kube::Error::BuildRequest);
            let written = in_time(async { client.request::<IgnoredAny>(request?).await }).await;
            match written {
                Ok(_) => Ok(true),
                // An object that is gone needs no write.
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
