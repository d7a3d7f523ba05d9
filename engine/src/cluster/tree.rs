//! Queues under queues: which queue is part of which, and what it takes to let something into all of them (the capacity
//! document, **Hierarchical queues**). Without `enableHierarchy` every queue stands directly below the cluster, by the
//! same rules.
//!
//! What a queue holds is counted upwards pod by pod (`ledger/upwards.rs`). The tree is grown anew only when a queue says
//! something else about its place or its guarantee, before the next decision.

use std::collections::{BTreeSet, HashMap};
use std::ops::Deref;
use std::sync::Arc;

use crds::configuration::QueuePlugin;

use super::Cluster;
use super::below::Below;
use super::ledger::Pen;
use super::queue::{Queue, Terms};
use crate::amounts::{Amounts, Bounds, Dimension, Totals};
use crate::ids::{Id as _, QueueId};
use crate::policies::capacity::{self, Level};

/// The sums over the whole cluster. They are read through [`Top`], and only the ledger changes them.
#[derive(Debug, Default)]
pub struct TopBooks {
    /// The sums over the queues without a parent.
    pub below: Below,
    /// What pods have of the nodes, plus what the nodes can still give.
    pub total: Totals,
    /// What the nodes could give that take no pods at the moment.
    pub(super) away: Totals,
    /// How many devices the nodes have that any number of claims may have at once.
    pub(super) shared: Totals,
    /// How many devices the nodes that take pods have beside `total`, for claims that tolerate what keeps others from them.
    pub(super) tainted: Totals,
    /// What pods have of nodes without any queue being charged for it.
    pub(super) uncharged: Totals,
}

/// The cluster as the root that all queues are parts of.
#[derive(Debug, Default)]
pub struct Top {
    books: TopBooks,
    /// Rises whenever there is more of anything for queues than before.
    version: u64,
    /// Whether queues say something else about their places or guarantees than the tree shows.
    is_stale: bool,
}

impl Queue {
    /// Returns what the pods in the queue and in the queues below it have.
    pub fn allocated_in_all(&self, dimension: Dimension) -> i128 {
        self.allocated.get(dimension) + self.below.allocated.get(dimension)
    }

    /// Returns what the pods in the queue and in the queues below it have and ask for.
    pub(crate) fn request_in_all(&self, dimension: Dimension) -> i128 {
        let requested = self.waiting.requested().get(dimension) + self.below.requested.get(dimension);
        self.allocated_in_all(dimension) + requested
    }

    /// Returns what is kept free for the queue.
    pub fn guarantee(&self, dimension: Dimension) -> i128 {
        self.quota()
            .map_or(0, |quota| i128::from(quota.guarantee.get(dimension)))
    }

    /// Returns what the queue has and keeps in a dimension, under this limit.
    #[expect(
        clippy::inline_always,
        reason = "a quota check takes twice as long with levels that go through memory"
    )]
    #[inline(always)]
    pub(super) fn level(&self, dimension: Dimension, limit: Option<i128>) -> Level {
        let own = self.allocated.get(dimension);
        Level {
            allocated: own + self.below.allocated.get(dimension),
            used: own + self.below.held.get(dimension),
            guarantee: self.guarantee(dimension),
            limit,
        }
    }

    pub(super) fn used(&self, dimension: Dimension) -> i128 {
        self.allocated.get(dimension) + self.below.held.get(dimension)
    }

    pub(super) fn held(&self, dimension: Dimension) -> i128 {
        capacity::held(self.used(dimension), self.guarantee(dimension))
    }

    /// Returns what the queue holds in every dimension: what the level above counts for it.
    pub(super) fn held_in_all(&self) -> Totals {
        let promised = self.quota().into_iter().flat_map(|quota| quota.guarantee.iter());
        let promised = promised.map(|(dimension, _)| dimension);
        let has = [&self.allocated, &self.below.held];
        let has = has.into_iter().flat_map(Totals::iter).map(|(dimension, _)| dimension);
        let mut held = Totals::default();
        for dimension in has.chain(promised).collect::<BTreeSet<_>>() {
            held.add(dimension, self.held(dimension));
        }
        held
    }

    /// Returns what the queue contributes to the sums above it.
    pub(super) fn as_part(&self) -> Below {
        let quota = self.quota();
        let mut part = Below {
            children: usize::from(self.terms().is_some()),
            allocated: self.allocated.clone(),
            held: self.held_in_all(),
            requested: self.waiting.requested().clone(),
            inqueue: self.inqueue.clone(),
            elastic: self.elastic.clone(),
            ..Below::default()
        };
        part.allocated.add_totals(&self.below.allocated);
        part.requested.add_totals(&self.below.requested);
        part.inqueue.add_all(&self.below.inqueue);
        part.elastic.add_totals(&self.below.elastic);
        let promised = quota.into_iter().flat_map(|quota| quota.guarantee.iter());
        let promised = promised.map(|(dimension, _)| dimension);
        let known = self.below.guaranteed.iter().map(|(dimension, _)| dimension);
        for dimension in known.chain(promised).collect::<BTreeSet<_>>() {
            part.guaranteed.add(dimension, self.guaranteed_in_all(dimension));
        }
        for (dimension, amount) in quota.into_iter().flat_map(|quota| quota.deserved.iter()) {
            part.deserved.add(dimension, amount.into());
        }
        part
    }

    /// Returns what is kept free for the queue and for the queues below it.
    pub(crate) fn guaranteed_in_all(&self, dimension: Dimension) -> i128 {
        self.guarantee(dimension).max(self.below.guaranteed.get(dimension))
    }
}

/// The part of a queue's terms that decides how the tree grows: its place, its guarantee, and what it deserves.
pub(super) type Roots<'t> = (bool, Option<&'t str>, Option<&'t Amounts>, Option<&'t Bounds>);

/// Reads this part from a queue's terms, if it has any.
pub(super) fn roots(terms: Option<&Terms>, hierarchy: bool) -> Roots<'_> {
    let placed = terms.filter(|_| hierarchy);
    let quota = terms.and_then(|terms| terms.quota.as_ref().ok());
    let guarantee = quota.map(|quota| &quota.guarantee);
    let deserved = quota.map(|quota| &quota.deserved);
    (
        placed.is_some(),
        placed.and_then(|terms| terms.parent.as_deref()),
        guarantee.filter(|guarantee| guarantee.iter().len() > 0),
        deserved.filter(|deserved| !deserved.is_empty()),
    )
}

impl Cluster {
    /// Returns the cluster as the root that all queues are parts of.
    pub fn top(&self) -> &Top {
        &self.top
    }

    /// Returns a queue and its ancestors, up to the queue without a parent.
    pub fn ancestry(&self, id: QueueId) -> impl Iterator<Item = QueueId> + '_ {
        std::iter::successors(Some(id), |id| self.queue(*id).parent())
    }

    /// Whether other queues are, or could be, part of this queue. Such a queue takes no pods itself.
    pub(crate) fn is_inner(&self, id: QueueId) -> bool {
        let queue = self.queue(id);
        queue.below.children > 0 || (self.arguments().enable_hierarchy && *queue.name == *self.arguments().root_queue)
    }

    /// Returns the queue, of this queue and its ancestors, that keeps this queue from admitting anything until it is
    /// mended: what it says can't be read, or its place is wrong.
    pub(crate) fn unusable(&self, id: QueueId) -> Option<QueueId> {
        let unreadable = |id: &QueueId| self.queue(*id).quota().is_none();
        if self.queue(id).misplaced().is_some() {
            return Some(id);
        }
        self.ancestry(id).find(unreadable)
    }

    /// A counter that rises whenever there is more of anything for queues than before.
    pub(super) fn top_version(&self) -> u64 {
        self.top.version
    }

    /// Sets the version back, where what raised it meanwhile was only tried.
    pub(super) fn set_top_version(&mut self, version: u64) {
        self.top.version = version;
    }

    pub(super) fn arguments(&self) -> &crds::configuration::Capacity {
        &self.configuration.capacity
    }

    /// Makes the tree match what the queues say, before anything is decided from it.
    pub fn grow_tree(&mut self) {
        if !std::mem::take(&mut self.top.is_stale) {
            return;
        }
        self.review_all();
        let places = self.places();
        for (id, place) in self.queues.places().zip(places) {
            let queue = &self.queues[id];
            if queue.misplaced() != place.problem.as_deref() || queue.parent() != place.parent {
                self.changes.queues.extend(self.queues.id(&queue.name));
            }
            self.queues[id].stand(place.parent, place.problem);
        }
        self.add_up();
        self.version += 1;
        // The cards that a queue's pods are read to name may depend on the queues above it.
        if self.configuration.queue_plugin != QueuePlugin::CapacityCard {
            self.name_cards_anew(|_| true);
        }
    }

    /// Returns the queues that are in use, each before its parent.
    pub(super) fn leaves_first(&self) -> Vec<QueueId> {
        let mut ids: Vec<_> = self.queues.ids().map(|id| (self.ancestry(id).count(), id)).collect();
        ids.sort_unstable();
        ids.into_iter().rev().map(|(_, id)| id).collect()
    }

    /// Returns the place of each queue in the tree, by its index in the table of queues.
    fn places(&self) -> Vec<Placed> {
        let mut places: Vec<_> = self.queues.places().map(|_| Placed::default()).collect();
        if !self.arguments().enable_hierarchy {
            return places;
        }
        let root_name = &self.arguments().root_queue;
        let root = self.root();
        for id in self.queues.ids().filter(|id| Some(*id) != root) {
            let parent = self.queue(id).terms().and_then(|terms| terms.parent.as_deref());
            let place = &mut places[id.index()];
            match parent.filter(|parent| *parent != root_name) {
                None => place.parent = root,
                Some(parent) => {
                    place.parent = self.queue_there(parent).or(root);
                    place.problem = self.queue_there(parent).is_none().then(|| {
                        format!("spec.parent: queue {parent} does not exist: create it, or name another queue").into()
                    });
                }
            }
        }
        self.break_cycles(&mut places);
        places
    }

    /// Returns the queue that all others are part of, where there is one.
    pub(super) fn root(&self) -> Option<QueueId> {
        let arguments = self.arguments();
        let name = Some(&arguments.root_queue).filter(|_| arguments.enable_hierarchy);
        name.and_then(|name| self.queue_there(name))
    }

    fn queue_there(&self, name: &str) -> Option<QueueId> {
        self.queue_named(name).filter(|id| self.queue(*id).terms().is_some())
    }

    /// Puts queues that are part of themselves directly below the cluster, with a problem that says so.
    fn break_cycles(&self, places: &mut [Placed]) {
        // The walk in which a queue was first met.
        let mut met: HashMap<QueueId, usize> = HashMap::new();
        let mut ids: Vec<_> = self.queues.ids().collect();
        ids.sort_unstable();
        for (walk, start) in ids.into_iter().enumerate() {
            let mut next = Some(start);
            while let Some(id) = next {
                match met.get(&id) {
                    Some(earlier) if *earlier == walk => {
                        self.break_cycle(id, places);
                        break;
                    }
                    Some(_) => break,
                    None => {
                        met.insert(id, walk);
                        next = places[id.index()].parent;
                    }
                }
            }
        }
    }

    fn break_cycle(&self, first: QueueId, places: &mut [Placed]) {
        let mut cycle = vec![first];
        while let Some(next) = places[cycle[cycle.len() - 1].index()]
            .parent
            .filter(|next| *next != first)
        {
            cycle.push(next);
        }
        let names = cycle.iter().chain([&first]).map(|id| &*self.queue(*id).name);
        let names = names.collect::<Vec<_>>().join(" -> ");
        let problem: Arc<str> =
            format!("spec.parent: the queue is part of itself: {names}; name another parent").into();
        for id in cycle {
            places[id.index()] = Placed {
                parent: None,
                problem: Some((*problem).into()),
            };
        }
    }

    /// Returns the sum of the versions of this many levels from a queue upwards. A refusal by these levels stands while
    /// the sum stays the same.
    pub(crate) fn version_of(&self, id: QueueId, levels: usize) -> u64 {
        let queues = self.ancestry(id).map(|id| self.queue(id).version());
        queues.chain([self.top.version]).take(levels).sum()
    }
}

impl Deref for Top {
    type Target = TopBooks;

    #[inline]
    fn deref(&self) -> &TopBooks {
        &self.books
    }
}

impl Top {
    /// Returns what is counted of the cluster, to be changed.
    #[inline]
    pub(super) fn books(&mut self, _: Pen) -> &mut TopBooks {
        &mut self.books
    }

    /// Returns what all queues have and keep in a dimension, under this limit.
    #[expect(
        clippy::inline_always,
        reason = "a quota check takes twice as long with levels that go through memory"
    )]
    #[inline(always)]
    pub(super) fn level(&self, dimension: Dimension, limit: Option<i128>) -> Level {
        Level {
            allocated: self.below.allocated.get(dimension),
            used: self.below.held.get(dimension),
            guarantee: 0,
            limit,
        }
    }

    /// Whether the tree, and with it all sums above queues, is to be grown anew before anything is decided.
    pub(super) fn is_stale(&self) -> bool {
        self.is_stale
    }

    /// Marks the tree as stale where queues say something else about their places or guarantees.
    pub(super) fn go_stale(&mut self, says_otherwise: bool) {
        self.is_stale |= says_otherwise;
    }

    /// Notes that there is more of something for queues than before, or that a queue may borrow again what it could not.
    pub(super) fn rose(&mut self) {
        self.version += 1;
    }
}

/// Where a queue stands in the tree.
#[derive(Debug, Default)]
struct Placed {
    parent: Option<QueueId>,
    /// What is wrong with what the queue says about its parent.
    problem: Option<Box<str>>,
}
