//! The objects of one kind with their lists and writes.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use k8s_openapi::jiff::Timestamp;
use tokio::time::Instant;

use super::api::{self, Sender, Written};
use super::objects::{Left, Objects, Record};
use super::queue::Outcome;
use super::shown::Shown;
use crate::request::RequestError;

/// How often the objects are listed, so that changes and removals by others are corrected.
const RELIST: Duration = Duration::from_mins(10);
/// The time after which a failed list is tried again.
const RELIST_AFTER_FAILURE: Duration = Duration::from_secs(5);

/// The result of a list of the API server's objects: names and records. The record is none for an object that cannot be read.
pub(super) type List<K> = Result<Vec<(Arc<str>, Option<Record<K>>)>, RequestError>;

/// The objects of one kind, and when they are to be listed.
pub(super) struct Shelf<K: Shown> {
    pub objects: Objects<K>,
    /// When the next list is due; none while one is under way.
    pub list_at: Option<Instant>,
}

impl<K: Shown> Shelf<K> {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            objects: Objects::new(),
            list_at: Some(now),
        }
    }

    pub(super) fn start_list(&mut self, sender: &Sender, now: Instant) -> Option<BoxFuture<'static, List<K>>> {
        self.list_at.take_if(|at| *at <= now)?;
        self.objects.begin_list();
        Some(api::list::<K>(sender.clone()).boxed())
    }

    /// Takes the result of a list, and returns the names of the objects that have to be written.
    pub(super) fn listed(&mut self, list: List<K>, now: Instant, time: Timestamp) -> Vec<Arc<str>> {
        match list {
            Ok(objects) => {
                self.list_at = Some(now + RELIST);
                self.objects.end_list(objects, time)
            }
            Err(error) => {
                self.list_at = Some(now + RELIST_AFTER_FAILURE);
                tracing::warn!(kind = %K::kind(&()), %error, "can't list what is shown, trying again");
                Vec::new()
            }
        }
    }

    /// Makes the next list due now, unless one is under way.
    pub(super) fn list_at_once(&mut self, now: Instant) {
        self.list_at = self.list_at.map(|_| now);
    }

    /// Makes the next list due soon, because something is not as it was left.
    pub(super) fn list_soon(&mut self, now: Instant) {
        self.list_at = self.list_at.map(|at| at.min(now + RELIST_AFTER_FAILURE));
    }

    pub(super) fn written(&mut self, name: &Arc<str>, written: Written<Left<K>>, now: Instant) -> (Outcome, u32) {
        self.objects.written(name, written.left);
        let outcome = match written.error {
            None => Outcome::Settled,
            // The kind itself is gone, or is being removed. Once it can be listed again, everything is written anew.
            Some(error) if written.kind_is_gone => {
                tracing::warn!(kind = %K::kind(&()), %error, "the definition is missing: nothing can be shown");
                self.list_soon(now);
                Outcome::Settled
            }
            Some(error) => {
                tracing::warn!(kind = %K::kind(&()), %name, %error, "can't write an object, trying again later");
                Outcome::Failed
            }
        };
        (outcome, written.requests)
    }
}
