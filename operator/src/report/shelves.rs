//! The shelves of all kinds that are shown: which object a report is about, and what follows from requests about the objects.

use std::sync::Arc;

use crds::card_inventory::{CardInventory, CardInventorySpec};
use crds::card_type::CardType;
use crds::card_usage::{CardUsage, CardUsageSpec, UNACCOUNTED};
use crds::slug::slug;
use engine::overview;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use k8s_openapi::jiff::Timestamp;
use tokio::time::Instant;

use super::api::{self, Sender};
use super::objects::{Plan, Record};
use super::queue::{Outcome, Target};
use super::shelf::Shelf;
use super::shown::Shown;
use super::taken::Taken;
use crate::metrics::Write;

/// The end of a request: a function that makes the request's shelf take in the result.
pub(super) type Ended = Box<dyn FnOnce(&mut Shelves, Instant, Timestamp) -> Settled + Send>;

/// The result of a request.
pub(super) enum Settled {
    /// How the write of an object ended, and how many requests it took.
    Write(Target, Outcome, u32),
    /// The objects that have to be written, according to a list.
    List(Vec<Target>),
}

/// One shelf for each kind.
pub(super) struct Shelves {
    inventories: Shelf<CardInventory>,
    card_types: Shelf<CardType>,
    usages: Shelf<CardUsage>,
}

/// A kind that has a shelf.
trait Shelved: Shown {
    fn shelf(shelves: &mut Shelves) -> &mut Shelf<Self>;
}

macro_rules! shelved {
    ($($kind:ident in $shelf:ident),*) => {$(
        impl Shelved for $kind {
            fn shelf(shelves: &mut Shelves) -> &mut Shelf<Self> {
                &mut shelves.$shelf
            }
        }
    )*};
}

shelved!(CardInventory in inventories, CardType in card_types, CardUsage in usages);

impl Shelves {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            inventories: Shelf::new(now),
            card_types: Shelf::new(now),
            usages: Shelf::new(now),
        }
    }

    /// Returns when lists are due.
    pub(super) fn list_at(&self) -> impl Iterator<Item = Instant> {
        let lists = [self.inventories.list_at, self.card_types.list_at, self.usages.list_at];
        lists.into_iter().flatten()
    }

    /// Makes all lists due now, except those that are under way.
    pub(super) fn list_at_once(&mut self, now: Instant) {
        self.inventories.list_at_once(now);
        self.card_types.list_at_once(now);
        self.usages.list_at_once(now);
    }

    /// Starts the lists that are due.
    pub(super) fn start_lists(&mut self, sender: &Sender, now: Instant) -> [Option<BoxFuture<'static, Ended>>; 3] {
        [
            self.start_list::<CardInventory>(sender, now),
            self.start_list::<CardType>(sender, now),
            self.start_list::<CardUsage>(sender, now),
        ]
    }

    fn start_list<K: Shelved>(&mut self, sender: &Sender, now: Instant) -> Option<BoxFuture<'static, Ended>> {
        let list = K::shelf(self).start_list(sender, now)?;
        let ended = |list| -> Ended {
            Box::new(move |shelves, now, time| {
                let differing = K::shelf(shelves).listed(list, now, time);
                Settled::List(differing.into_iter().map(K::TARGET).collect())
            })
        };
        Some(list.map(ended).boxed())
    }

    /// Returns the write of an object; none if there is nothing to write any more.
    pub(super) fn write(
        &mut self,
        sender: Sender,
        target: &Target,
        time: Timestamp,
    ) -> Option<BoxFuture<'static, Ended>> {
        match target {
            Target::Inventory(name) => self.write_one::<CardInventory>(sender, name, time),
            Target::CardType(name) => self.write_one::<CardType>(sender, name, time),
            Target::Usage(name) => self.write_one::<CardUsage>(sender, name, time),
            _ => None,
        }
    }

    fn write_one<K: Shelved>(
        &mut self,
        sender: Sender,
        name: &Arc<str>,
        time: Timestamp,
    ) -> Option<BoxFuture<'static, Ended>> {
        let plan = K::shelf(self).objects.plan(name, time);
        if matches!(plan, Plan::Nothing) {
            return None;
        }
        let name = Arc::clone(name);
        let ended = |name: Arc<str>, written| -> Ended {
            Box::new(move |shelves, now, _| {
                let (outcome, requests) = K::shelf(shelves).written(&name, written, now);
                Settled::Write(K::TARGET(name), outcome, requests)
            })
        };
        Some(async move { ended(Arc::clone(&name), api::write_object::<K>(sender, name, plan).await) }.boxed())
    }

    /// Takes in what is to be shown. Returns the target of the write, whether the content differs from what the API server has, and whether
    /// somebody waits for it.
    pub(super) fn want(&mut self, shown: overview::Shown, time: Timestamp) -> (Target, bool, bool) {
        match shown {
            overview::Shown::Inventory {
                node,
                node_uid,
                status,
                prompt,
            } => {
                let spec = CardInventorySpec {
                    node_name: node.to_string(),
                };
                let content = status.map(|status| (spec, status));
                self.want_one::<CardInventory>(node, node_uid, content, prompt, time)
            }
            overview::Shown::CardType { card, content, prompt } => {
                self.want_one::<CardType>(slug(&card).into(), "".into(), content, prompt, time)
            }
            overview::Shown::Usage {
                queue,
                queue_uid,
                status,
            } => {
                let spec = CardUsageSpec {
                    queue: queue.to_string(),
                };
                let content = status.map(|status| (spec, status));
                self.want_one::<CardUsage>(queue, queue_uid, content, false, time)
            }
            overview::Shown::Unaccounted { status } => {
                let content = status.map(|status| (CardUsageSpec::default(), status));
                self.want_one::<CardUsage>(UNACCOUNTED.into(), "".into(), content, false, time)
            }
        }
    }

    fn want_one<K: Shelved>(
        &mut self,
        name: Arc<str>,
        owner_uid: Box<str>,
        content: Option<(K::Spec, K::Status)>,
        prompt: bool,
        time: Timestamp,
    ) -> (Target, bool, bool) {
        let record = content.map(|(spec, status)| Record {
            owner_uid,
            spec,
            status,
        });
        let differs = K::shelf(self).objects.want(&name, record, time);
        (K::TARGET(name), differs, prompt)
    }

    /// Returns what has to be written, once everything that is to be shown is known.
    pub(super) fn sync(&mut self) -> Vec<Target> {
        let inventories = self.inventories.objects.sync().into_iter().map(Target::Inventory);
        let card_types = self.card_types.objects.sync().into_iter().map(Target::CardType);
        let usages = self.usages.objects.sync().into_iter().map(Target::Usage);
        inventories.chain(card_types).chain(usages).collect()
    }

    /// Notes that somebody else has removed an object, or may have. Returns the object that has to be written anew, if that is known.
    pub(super) fn miss(&mut self, Taken { kind, name }: &Taken, now: Instant) -> Option<Target> {
        match kind {
            Write::CardInventory => self.miss_one::<CardInventory>(name.as_ref(), now),
            Write::CardType => self.miss_one::<CardType>(name.as_ref(), now),
            Write::CardUsage => self.miss_one::<CardUsage>(name.as_ref(), now),
            _ => None,
        }
    }

    fn miss_one<K: Shelved>(&mut self, name: Option<&Arc<str>>, now: Instant) -> Option<Target> {
        let kept = K::shelf(self);
        let Some(name) = name else {
            kept.list_at_once(now);
            return None;
        };
        let is_wanted = kept.objects.gone(name);
        is_wanted.then(|| K::TARGET(Arc::clone(name)))
    }
}
