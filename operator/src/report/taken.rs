//! What somebody else takes away of what is shown: it is written anew.
//!
//! Only names are watched, and nothing is kept of them: an object that is gone is said to be, and what became of others while
//! the watch was interrupted is for a list to find.

use std::sync::Arc;

use futures::StreamExt as _;
use kube::core::PartialObjectMeta;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client, ResourceExt as _};
use programs::logging::plain;
use tokio::sync::{mpsc, watch};

use super::shown::Shown;
use crate::metrics::Write;

/// Something is gone.
#[derive(Debug)]
pub(super) struct Taken {
    /// The kind of the object.
    pub kind: Write,
    /// Its name; none where it is not known what is gone.
    pub name: Option<Arc<str>>,
}

/// Says what is gone of one kind, while this replica leads.
pub(super) async fn watch<K: Shown>(client: Client, mut leader: watch::Receiver<bool>, taken: mpsc::Sender<Taken>) {
    while leader.wait_for(|leads| *leads).await.is_ok() {
        let mut led_on = leader.clone();
        tokio::select! {
            biased;
            () = follow::<K>(&client, &taken) => return,
            _ = led_on.wait_for(|leads| !*leads) => {}
        }
    }
}

async fn follow<K: Shown>(client: &Client, taken: &mpsc::Sender<Taken>) {
    let api: Api<PartialObjectMeta<K>> = Api::all(client.clone());
    let mut changes = watcher(api, watcher::Config::default()).default_backoff().boxed();
    let mut listed = false;
    while let Some(change) = changes.next().await {
        let name = match change {
            Ok(watcher::Event::Delete(object)) => Some(object.name_any().into()),
            // What the first list has, the writer has listed too.
            Ok(watcher::Event::InitDone) if std::mem::replace(&mut listed, true) => None,
            Ok(_) => continue,
            Err(error) => {
                tracing::debug!(kind = %K::kind(&()), error = plain(&error), "watch interrupted, trying again");
                continue;
            }
        };
        if taken.send(Taken { kind: K::WRITE, name }).await.is_err() {
            return;
        }
    }
}
