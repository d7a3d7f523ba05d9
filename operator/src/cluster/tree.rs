//! Queues under queues: whose part each is, and what it takes to let something into all of them (the capacity document,
//! **Hierarchical queues**). Without `enableHierarchy` every queue stands directly below the cluster, by the same rules.
//!
//! What a queue holds is counted upwards pod by pod. Only when a queue says something else about its place or about its
//! guarantee, the tree is grown anew, before the next decision.

use std::collections::HashMap;
use std::sync::Arc;

use crds::configuration::QueuePlugin;

use super::Cluster;
use super::amounts::{Amounts, Bounds, Dimension, Totals};
use super::names::ResourceId;
use super::node::Offer;
use super::queue::{Queue, QueueId, Terms};
use super::share::Share;
use crate::policies::capacity::{self, Level};

/// Sums over the queues directly below a queue or below the cluster.
#[derive(Debug, Default)]
pub struct Below {
    /// How many they are.
    pub children: usize,
    /// What the pods in them and below them have.
    pub allocated: Totals,
    /// What they hold: the same, and what is kept free for them.
    pub held: Totals,
    /// What is guaranteed to them.
    pub guaranteed: Totals,
    /// What they deserve, as they say.
    pub deserved: Totals,
}

/// The cluster as what all queues are parts of.
#[derive(Debug, Default)]
pub struct Top {
    /// What the queues without a parent come to.
    pub below: Below,
    /// What the ready nodes have in all.
    pub total: Totals,
    /// Rises whenever there is more of anything for queues than before.
    version: u64,
}

/// A level that has no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shortage {
    /// How many levels had to be asked, the cluster included where it was.
    pub levels: usize,
    /// The queue without room; none where it is the cluster.
    pub queue: Option<QueueId>,
    /// What is in use there, or kept free for others.
    pub used: i128,
    /// How much of that is only kept free.
    pub reserved: i128,
    /// The most that may be in use.
    pub limit: i128,
    /// Whether the limit is what the queue deserves: it may not borrow at the moment.
    pub is_deserved: bool,
}

/// All levels up to the cluster.
pub const ALL_LEVELS: usize = usize::MAX;

impl Queue {
    /// What the pods in it and below it have.
    pub fn allocated_in_all(&self, dimension: Dimension) -> i128 {
        self.allocated.get(dimension) + self.below.allocated.get(dimension)
    }

    /// What is kept free for it.
    pub fn guarantee(&self, dimension: Dimension) -> i128 {
        self.quota()
            .map_or(0, |quota| i128::from(quota.guarantee.get(dimension)))
    }

    /// Whether it says anything that what the cluster has makes true or not.
    pub fn compares_with_total(&self, plugin: QueuePlugin) -> bool {
        let says = |quota: &super::queue::Quota| {
            let capability = plugin == QueuePlugin::Capacity && !quota.capability.is_empty();
            capability || !quota.deserved.is_empty() || quota.guarantee.iter().len() > 0
        };
        self.quota().is_some_and(says)
    }

    fn used(&self, dimension: Dimension) -> i128 {
        self.allocated.get(dimension) + self.below.held.get(dimension)
    }

    fn held(&self, dimension: Dimension) -> i128 {
        capacity::held(self.used(dimension), self.guarantee(dimension))
    }

    /// What is kept free for it and for the queues below it.
    fn guaranteed_in_all(&self, dimension: Dimension) -> i128 {
        self.guarantee(dimension).max(self.below.guaranteed.get(dimension))
    }
}

/// What of a queue's terms decides how the tree grows: its place, its guarantee, what it deserves.
pub(super) type Roots<'t> = (bool, Option<&'t str>, Option<&'t Amounts>, Option<&'t Bounds>);

/// Reads that.
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
    /// The cluster as what all queues are parts of.
    pub fn top(&self) -> &Top {
        &self.top
    }

    /// A queue and its ancestors, up to the one without a parent.
    pub fn ancestry(&self, id: QueueId) -> impl Iterator<Item = QueueId> + '_ {
        std::iter::successors(Some(id), |id| self.queue(*id).parent)
    }

    /// Whether other queues are, or could be, part of this one: then it takes no pods itself.
    pub fn is_inner(&self, id: QueueId) -> bool {
        let queue = self.queue(id);
        queue.below.children > 0 || (self.arguments().enable_hierarchy && *queue.name == *self.arguments().root_queue)
    }

    /// The queue, of this one and its ancestors, that keeps it from admitting anything until it is mended: what it says can't
    /// be read, or its place is wrong.
    pub fn unusable(&self, id: QueueId) -> Option<QueueId> {
        let unreadable = |id: &QueueId| self.queue(*id).quota().is_none();
        if self.queue(id).misplaced.is_some() {
            return Some(id);
        }
        self.ancestry(id).find(unreadable)
    }

    /// Rises whenever there is more of anything for queues than before.
    pub(super) fn top_version(&self) -> u64 {
        self.top.version
    }

    /// What rose meanwhile was only tried.
    pub(super) fn set_top_version(&mut self, version: u64) {
        self.top.version = version;
    }

    fn arguments(&self) -> &crds::configuration::Capacity {
        &self.configuration.capacity
    }

    /// Changes what a queue's pods have, and with it what all levels above have.
    pub(super) fn change_allocated(&mut self, id: QueueId, amounts: impl Iterator<Item = (Dimension, i128)>) {
        for (dimension, amount) in amounts {
            let queue = &mut self.queues[id.index()];
            let before = queue.held(dimension);
            queue.allocated.add(dimension, amount);
            if self.tree_is_stale {
                continue;
            }
            let mut held = queue.held(dimension) - before;
            let mut next = queue.parent;
            while let Some(id) = next {
                let queue = &mut self.queues[id.index()];
                let before = queue.held(dimension);
                queue.below.change(dimension, amount, held);
                queue.version += u64::from(amount < 0);
                held = queue.held(dimension) - before;
                next = queue.parent;
            }
            self.top.below.change(dimension, amount, held);
            self.top.version += u64::from(amount < 0);
        }
    }

    /// A node offers something else than before.
    pub(super) fn total_changed(&mut self, before: Option<&Offer>, after: Option<&Offer>) {
        for (offer, sign) in [(before, -1), (after, 1)] {
            let Some(offer) = offer.filter(|offer| offer.ready) else {
                continue;
            };
            let cards = offer.cards.iter();
            let cards = cards.map(|card| (Dimension::Card(card.card), card.found.count));
            for (dimension, amount) in offer.allocatable.iter().chain(cards) {
                self.top.total.add(dimension, sign * i128::from(amount));
            }
        }
        self.top.version += 1;
        self.changes.total = true;
    }

    /// Sees to it that the tree is as the queues say, before anything is decided from it.
    pub fn grow_tree(&mut self) {
        if !std::mem::take(&mut self.tree_is_stale) {
            return;
        }
        let places = self.places();
        self.top.below = Below::default();
        for (index, place) in places.into_iter().enumerate() {
            let queue = &mut self.queues[index];
            if queue.misplaced != place.problem {
                self.changes.queues.extend(self.queue_ids.get(&queue.name));
            }
            (queue.parent, queue.misplaced) = (place.parent, place.problem);
            queue.below = Below::default();
        }
        for id in self.leaves_first() {
            let queue = &self.queues[id.index()];
            let promised = queue.quota().into_iter().flat_map(|quota| quota.guarantee.iter());
            let dimensions = promised.map(|(dimension, _)| dimension);
            let below = [&queue.allocated, &queue.below.allocated, &queue.below.held].into_iter();
            let mut dimensions: Vec<_> = dimensions
                .chain(below.flat_map(|totals| totals.iter().map(|(dimension, _)| dimension)))
                .collect();
            dimensions.sort_unstable();
            dimensions.dedup();
            let sums: Vec<_> = dimensions
                .into_iter()
                .map(|dimension| {
                    let guaranteed = queue.guaranteed_in_all(dimension);
                    (
                        dimension,
                        queue.allocated_in_all(dimension),
                        queue.held(dimension),
                        guaranteed,
                    )
                })
                .collect();
            let is_there = queue.terms.is_some();
            let deserved = queue.quota().map(|quota| quota.deserved.clone()).unwrap_or_default();
            let above = match queue.parent {
                Some(parent) => &mut self.queues[parent.index()].below,
                None => &mut self.top.below,
            };
            above.children += usize::from(is_there);
            for (dimension, allocated, held, guaranteed) in sums {
                above.change(dimension, allocated, held);
                above.guaranteed.add(dimension, guaranteed);
            }
            for (dimension, amount) in deserved.iter() {
                above.deserved.add(dimension, amount.into());
            }
        }
        self.version += 1;
    }

    /// Queues that are in use, each before its parent.
    fn leaves_first(&self) -> Vec<QueueId> {
        let mut ids: Vec<_> = self
            .queue_ids
            .values()
            .map(|id| (self.ancestry(*id).count(), *id))
            .collect();
        ids.sort_unstable();
        ids.into_iter().rev().map(|(_, id)| id).collect()
    }

    /// Whose part each queue is, by place in the table of queues.
    fn places(&self) -> Vec<Placed> {
        let mut places: Vec<_> = self.queues.iter().map(|_| Placed::default()).collect();
        if !self.arguments().enable_hierarchy {
            return places;
        }
        let root_name = &self.arguments().root_queue;
        let there = |name: &str| self.queue_named(name).filter(|id| self.queue(*id).terms.is_some());
        let root = there(root_name);
        for id in self.queue_ids.values().copied().filter(|id| Some(*id) != root) {
            let parent = self.queue(id).terms.as_ref().and_then(|terms| terms.parent.as_deref());
            let place = &mut places[id.index()];
            match parent.filter(|parent| *parent != root_name) {
                None => place.parent = root,
                Some(parent) => {
                    place.parent = there(parent).or(root);
                    place.problem = there(parent).is_none().then(|| {
                        format!("spec.parent: queue {parent} does not exist: create it, or name another queue").into()
                    });
                }
            }
        }
        self.break_cycles(&mut places);
        places
    }

    /// Queues that are part of themselves stand below the cluster, and say so.
    fn break_cycles(&self, places: &mut [Placed]) {
        // The walk in which a queue was first met.
        let mut met: HashMap<QueueId, usize> = HashMap::new();
        let mut ids: Vec<_> = self.queue_ids.values().copied().collect();
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

    /// What the first so many levels from a queue upwards come to in versions: a refusal by them stands while this does.
    pub fn version_of(&self, id: QueueId, levels: usize) -> u64 {
        let queues = self.ancestry(id).map(|id| self.queue(id).version);
        queues.chain([self.top.version]).take(levels).sum()
    }

    /// Whether a queue's plugin compares this dimension with its capability (`checkQueueDimensionsOnly`; semantics,
    /// **Queues**).
    pub fn compares(&self, queue: &Queue, dimension: Dimension) -> bool {
        let is_named = || {
            let capability = queue.quota().map(|quota| &quota.capability);
            capability.is_some_and(|capability| capability.get(dimension).is_some())
        };
        match (self.configuration.queue_plugin, dimension) {
            (QueuePlugin::CapacityCard, Dimension::Card(_)) => true,
            (QueuePlugin::CapacityCard, Dimension::Resource(resource)) => {
                matches!(resource, ResourceId::CPU | ResourceId::MEMORY)
            }
            (QueuePlugin::Capacity, Dimension::Resource(ResourceId::PODS)) => is_named(),
            (QueuePlugin::Capacity, _) => !self.arguments().check_queue_dimensions_only || is_named(),
        }
    }

    /// The most that the cluster gives to all queues; none where nothing is guaranteed and the document sets no such limit.
    fn cluster_limit(&self, dimension: Dimension) -> Option<i128> {
        let limits =
            self.configuration.queue_plugin == QueuePlugin::Capacity || self.top.below.guaranteed.get(dimension) > 0;
        limits.then(|| self.top.total.get(dimension))
    }

    /// A queue's own limit. Under `capacity-card` the queue that takes pods has none of what it does not name; its ancestors
    /// do not limit what they do not name.
    fn capability(&self, id: QueueId, dimension: Dimension) -> Option<i128> {
        let quota = self.queue(id).quota()?;
        let named = quota.capability.get(dimension).map(i128::from);
        let is_strict = self.configuration.queue_plugin == QueuePlugin::CapacityCard && !self.is_inner(id);
        named.or(is_strict.then_some(0))
    }

    /// `realCapability` of a queue; none where nothing limits it.
    pub fn real_capability(&self, id: QueueId, dimension: Dimension) -> Option<i128> {
        let queue = self.queue(id);
        let (available, all) = match queue.parent {
            Some(parent) => {
                let guaranteed = self.queue(parent).below.guaranteed.get(dimension);
                (self.real_capability(parent, dimension), guaranteed)
            }
            None => (self.cluster_limit(dimension), self.top.below.guaranteed.get(dimension)),
        };
        let own = queue.guaranteed_in_all(dimension);
        capacity::real_capability(self.capability(id, dimension), available, all - own, own)
    }

    /// What a queue deserves, where its spec says so.
    pub fn deserved_by_spec(&self, id: QueueId, dimension: Dimension) -> Option<i128> {
        let queue = self.queue(id);
        let spec = i128::from(queue.quota()?.deserved.get(dimension)?);
        let real = self.real_capability(id, dimension);
        Some(capacity::deserved(
            real,
            queue.guaranteed_in_all(dimension),
            Some(spec),
            0,
        ))
    }

    /// What a queue deserves. The Capacity Card document has no `deserved` of its own: there it is the quota.
    pub fn deserved(&self, id: QueueId, dimension: Dimension) -> i128 {
        self.deserved_by_spec(id, dimension).unwrap_or_else(|| {
            let queue = self.queue(id);
            let real = self.real_capability(id, dimension);
            let request = queue.allocated_in_all(dimension) + queue.waiting.requested.get(dimension);
            match (self.configuration.queue_plugin, real) {
                (QueuePlugin::CapacityCard, Some(real)) => real,
                _ => capacity::deserved(real, queue.guaranteed_in_all(dimension), None, request),
            }
        })
    }

    /// Whether so much of a dimension is in use that nobody borrows it any more (section 4, `guaranteeThreshold`).
    pub fn is_scarce(&self, dimension: Dimension) -> bool {
        let (used, total) = (self.top.below.allocated.get(dimension), self.top.total.get(dimension));
        capacity::is_above_threshold(used, total, self.arguments().guarantee_threshold)
    }

    /// The dimensions with a guarantee of which so much is in use that queues below their guarantee go first.
    pub fn scarce_guarantees(&self) -> Vec<Dimension> {
        let guaranteed = self.top.below.guaranteed.iter().map(|(dimension, _)| dimension);
        guaranteed.filter(|dimension| self.is_scarce(*dimension)).collect()
    }

    /// The limit of a queue at this moment, and whether it is what the queue deserves.
    fn limit(&self, id: QueueId, dimension: Dimension) -> (Option<i128>, bool) {
        if !self.compares(self.queue(id), dimension) {
            return (None, false);
        }
        let capability = self.capability(id, dimension);
        let deserved = self.deserved_by_spec(id, dimension);
        match deserved.filter(|_| !self.may_borrow(id, dimension)) {
            Some(deserved) if capability.is_none_or(|capability| deserved < capability) => (Some(deserved), true),
            _ => (capability, false),
        }
    }

    fn may_borrow(&self, id: QueueId, dimension: Dimension) -> bool {
        self.arguments().enable_overuse && !self.is_scarce(dimension) && !self.is_claimed_by_others(id, dimension)
    }

    /// What a queue keeps whatever others need: what it deserves by its spec, and its guarantee; none where it says neither.
    pub(crate) fn floor(&self, id: QueueId, dimension: Dimension) -> Option<i128> {
        let guarantee = self.queue(id).guaranteed_in_all(dimension);
        let guarantee = (guarantee > 0).then_some(guarantee);
        self.deserved_by_spec(id, dimension).max(guarantee)
    }

    /// A queue and everything above it up to the cluster, with what each deserves by its spec. Limits are those that hold
    /// whoever borrows.
    pub(crate) fn levels(&self, id: QueueId, dimension: Dimension) -> Vec<(Level, Option<i128>)> {
        let of_queue = |id| {
            let queue = self.queue(id);
            let compares = self.compares(queue, dimension);
            let level = Level {
                allocated: queue.allocated_in_all(dimension),
                used: queue.used(dimension),
                guarantee: queue.guarantee(dimension),
                limit: self.capability(id, dimension).filter(|_| compares),
            };
            (level, self.deserved_by_spec(id, dimension).filter(|_| compares))
        };
        let cluster = || (self.cluster_level(id, dimension), None);
        self.ancestry(id)
            .map(of_queue)
            .chain(std::iter::once_with(cluster))
            .collect()
    }

    fn cluster_level(&self, id: QueueId, dimension: Dimension) -> Level {
        let limit = self.cluster_limit(dimension);
        Level {
            allocated: self.top.below.allocated.get(dimension),
            used: self.top.below.held.get(dimension),
            guarantee: 0,
            limit: limit.filter(|_| self.compares(self.queue(id), dimension)),
        }
    }

    /// Whether a queue and everything above it has room for so much more (**Resource check logic**).
    pub fn room(&self, id: QueueId, dimension: Dimension, asked: i64) -> Result<(), Shortage> {
        let asked = i128::from(asked);
        let cluster = || self.cluster_level(id, dimension);
        let of_queue = |id| {
            let queue = self.queue(id);
            Level {
                allocated: queue.allocated_in_all(dimension),
                used: queue.used(dimension),
                guarantee: queue.guarantee(dimension),
                limit: self.limit(id, dimension).0,
            }
        };
        let levels = self.ancestry(id).map(of_queue).chain(std::iter::once_with(cluster));
        capacity::check(levels, asked).map_err(|place| {
            let queue = self.ancestry(id).nth(place);
            let level = queue.map_or_else(cluster, of_queue);
            let is_deserved = queue.is_some_and(|id| self.limit(id, dimension).1);
            Shortage {
                levels: if is_deserved { ALL_LEVELS } else { place + 1 },
                queue,
                used: level.used,
                reserved: level.used - level.allocated,
                limit: level.limit.unwrap_or_default(),
                is_deserved,
            }
        })
    }

    /// The largest part in use of anything that a queue deserves (**Resource tracking**: `share = max(allocated / deserved)`).
    pub fn share(&self, id: QueueId) -> Share {
        let queue = self.queue(id);
        if queue.quota().is_none() {
            return Share::ZERO;
        }
        queue
            .allocated
            .iter()
            .filter(|(dimension, _)| self.compares(queue, *dimension))
            .map(|(dimension, used)| Share::new(used, self.deserved(id, dimension)))
            .max()
            .unwrap_or(Share::ZERO)
    }
}

impl Top {
    /// Somebody may borrow again what was barred before.
    pub(super) fn borrowing_eased(&mut self) {
        self.version += 1;
    }
}

impl Below {
    fn change(&mut self, dimension: Dimension, allocated: i128, held: i128) {
        self.allocated.add(dimension, allocated);
        self.held.add(dimension, held);
    }
}

/// Where a queue stands.
#[derive(Debug, Default)]
struct Placed {
    parent: Option<QueueId>,
    /// What is wrong with what it says about that.
    problem: Option<Box<str>>,
}
