//! Finds out when somebody else removes an object that is shown, so that it is written anew.
//!
//! Only names are watched, and none are kept: this module reports each removed object. After an interruption of the watch, a list has to
//! find what changed meanwhile.

use std::sync::Arc;

use futures::StreamExt as _;
use kube::core::PartialObjectMeta;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client, ResourceExt as _};
use programs::logging::plain;
use tokio::sync::{mpsc, watch};

use super::shown::Shown;
use crate::metrics::Write;

/// An object was removed.
#[derive(Debug)]
pub(super) struct Taken {
    /// The kind of the object.
    pub kind: Write,
    /// Its name; none if it is not known which object was removed.
    pub name: Option<Arc<str>>,
}

/// Reports removed objects of one kind, while this replica leads.
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
            // The writer has also listed what the first list contains.
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
