//! Computes what each level from a queue up to the cluster may have, deserves and has room for (the capacity document,
//! **Resource check logic**, **Multi-layer check**).

use crds::configuration::{AdmitOn, QueuePlugin};

use super::Cluster;
use super::queue::Queue;
use super::waiting::Shape;
use crate::amounts::{Dimension, Totals};
use crate::ids::QueueId;
use crate::metering;
use crate::policies::capacity::{self, Level};
use crate::share::Share;

/// A level that has no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shortage {
    /// How many levels had to be asked, including the cluster where it was asked.
    pub levels: usize,
    /// The queue without room; none where the cluster has no room.
    pub queue: Option<QueueId>,
    /// What is in use there, or kept free for others than the pod or workload that asks.
    pub used: i128,
    /// How much of that is only kept free.
    pub reserved: i128,
    /// The most that may be in use.
    pub limit: i128,
    /// What sets the limit.
    pub bound: Bound,
    /// Whether there is room, but the room is for pods of higher priority for which other pods were evicted.
    pub is_for_betters: bool,
}

/// What sets the most that a queue may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Bound {
    /// Its quota, or what the cluster has.
    Quota,
    /// What others' guarantees and the cluster leave of its quota, where that is less than it would deserve.
    Rest,
    /// What it deserves, where it may not borrow.
    Deserved,
}

/// The amount of the cluster that its queues are compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Supply {
    /// What the cluster has at this moment.
    Now,
    /// What the cluster would have if all its nodes took pods.
    Ever,
}

/// Describes what a level lacks: the level of the queue, or of the cluster where there is none.
fn shortage(queue: Option<QueueId>, level: Level, bound: Bound) -> Shortage {
    Shortage {
        levels: ALL_LEVELS,
        queue,
        used: level.used,
        reserved: level.used - level.allocated,
        limit: level.limit.unwrap_or_default(),
        bound,
        is_for_betters: false,
    }
}

/// Stands for all levels up to the cluster.
pub(crate) const ALL_LEVELS: usize = usize::MAX;

impl Cluster {
    /// Whether a queue's plugin compares this dimension with its capability (`checkQueueDimensionsOnly`; docs/rules.md,
    /// **Queues**).
    pub(crate) fn compares(&self, queue: &Queue, dimension: Dimension) -> bool {
        let is_named = || {
            let capability = queue.quota().map(|quota| &quota.capability);
            capability.is_some_and(|capability| capability.get(dimension).is_some())
        };
        // A dimension that every pod has is compared where a queue says anything of it.
        let is_said = || queue.quota().is_some_and(|quota| quota.says_anything_of(dimension));
        match self.configuration.queue_plugin {
            QueuePlugin::Capacity if self.arguments().check_queue_dimensions_only => is_named(),
            QueuePlugin::Capacity => !metering::is_of_every_pod(dimension) || is_said(),
            plugin @ (QueuePlugin::CapacityCard | QueuePlugin::Off) => metering::is_limited(plugin, dimension),
        }
    }

    /// Returns the most that the cluster gives to all queues together. None where nothing is guaranteed and the document sets
    /// no such limit, or where pods are to be let in that wait for nodes to be added (`admitOn: quota`).
    #[inline]
    fn cluster_limit(&self, dimension: Dimension, supply: Supply) -> Option<i128> {
        let is_guaranteed = || self.top.below.guaranteed.get(dimension) > 0;
        let limits = match self.configuration.queue_plugin {
            QueuePlugin::Capacity => self.configuration.cardgate.admit_on == AdmitOn::Fit || is_guaranteed(),
            QueuePlugin::CapacityCard => is_guaranteed(),
            QueuePlugin::Off => false,
        };
        if !limits || !self.is_by_number(dimension) {
            return None;
        }
        let away = match supply {
            Supply::Now => 0,
            Supply::Ever => self.top.away.get(dimension),
        };
        // Which of them a pod tolerates is seen on the nodes. What is guaranteed is not promised on devices that most pods can't get.
        let tainted = match self.top.below.guaranteed.get(dimension) {
            0 => self.top.tainted.get(dimension),
            _ => 0,
        };
        Some(self.top.total.get(dimension) + away + tainted)
    }

    /// Returns a queue's own limit. Under `capacity-card`, a queue that takes pods has nothing of what it does not name.
    /// Its ancestors do not limit what they do not name.
    #[inline]
    pub(crate) fn capability(&self, id: QueueId, dimension: Dimension) -> Option<i128> {
        let quota = self.queue(id).quota()?;
        let named = quota.capability.get(dimension).map(i128::from);
        named.or_else(|| {
            let plugin = self.configuration.queue_plugin;
            let is_strict = plugin == QueuePlugin::CapacityCard && !self.is_inner(id);
            (is_strict && metering::is_limited(plugin, dimension)).then_some(0)
        })
    }

    /// Returns a queue's `realCapability`; none where nothing limits the queue.
    pub fn real_capability(&self, id: QueueId, dimension: Dimension) -> Option<i128> {
        self.real_capability_of(id, dimension, Supply::Now)
    }

    fn real_capability_of(&self, id: QueueId, dimension: Dimension, supply: Supply) -> Option<i128> {
        let queue = self.queue(id);
        let (available, all) = match queue.parent() {
            Some(parent) => {
                let guaranteed = self.queue(parent).below.guaranteed.get(dimension);
                (self.real_capability_of(parent, dimension, supply), guaranteed)
            }
            None => (
                self.cluster_limit(dimension, supply),
                self.top.below.guaranteed.get(dimension),
            ),
        };
        let own = queue.guaranteed_in_all(dimension);
        capacity::real_capability(self.capability(id, dimension), available, all - own, own)
    }

    /// Returns what a queue deserves, where its spec says so.
    #[inline]
    pub fn deserved_by_spec(&self, id: QueueId, dimension: Dimension) -> Option<i128> {
        self.deserved_of(id, dimension, Supply::Now)
    }

    #[inline]
    fn deserved_of(&self, id: QueueId, dimension: Dimension, supply: Supply) -> Option<i128> {
        let queue = self.queue(id);
        let spec = i128::from(queue.quota()?.deserved.get(dimension)?);
        let real = self.real_capability_of(id, dimension, supply);
        Some(capacity::deserved(
            real,
            queue.guaranteed_in_all(dimension),
            Some(spec),
            0,
        ))
    }

    /// Returns what a queue deserves. The Capacity Card document has no `deserved` of its own, so the quota stands for it
    /// there.
    pub fn deserved(&self, id: QueueId, dimension: Dimension) -> i128 {
        self.deserved_by_spec(id, dimension).unwrap_or_else(|| {
            let queue = self.queue(id);
            let real = self.real_capability(id, dimension);
            let request = queue.request_in_all(dimension);
            match (self.configuration.queue_plugin, real) {
                (QueuePlugin::CapacityCard, Some(real)) => real,
                _ => capacity::deserved(real, queue.guaranteed_in_all(dimension), None, request),
            }
        })
    }

    /// Whether a queue does not name what it deserves. That is then computed from what its pods ask for (capacity,
    /// **Dynamic resource calculation**).
    pub fn names_no_deserved(&self, id: QueueId, dimension: Dimension) -> bool {
        self.configuration.queue_plugin != QueuePlugin::CapacityCard && self.deserved_by_spec(id, dimension).is_none()
    }

    /// Returns the guaranteed dimensions of which so much is in use that queues below their guarantee go first (section 4,
    /// `guaranteeThreshold`). All that runs counts, whichever queue is charged for it, or none.
    pub(crate) fn scarce_guarantees(&self) -> Vec<Dimension> {
        let threshold = self.arguments().guarantee_threshold;
        let guaranteed = self.top.below.guaranteed.iter().map(|(dimension, _)| dimension);
        let scarce = guaranteed.filter(|dimension| {
            let used = self.top.below.allocated.get(*dimension) + self.uncharged(*dimension);
            capacity::is_above_threshold(used, self.top.total.get(*dimension), threshold)
        });
        scarce.collect()
    }

    /// Returns what pods have of nodes without any queue being charged for it.
    fn uncharged(&self, dimension: Dimension) -> i128 {
        match dimension {
            Dimension::Resource(_) => self.top.uncharged.get(dimension),
            Dimension::Card(id) => {
                let tally = self.card(id).zip(self.resource_of(id));
                let tally = tally.and_then(|(card, resource)| card.tallies.get(&resource));
                tally.map_or(0, |tally| tally.unaccounted)
            }
        }
    }

    /// Returns the limit of a queue at this moment, and whether the limit is what the queue deserves.
    #[expect(
        clippy::inline_always,
        reason = "a quota check takes twice as long with levels that go through memory"
    )]
    #[inline(always)]
    fn limit(&self, id: QueueId, dimension: Dimension) -> (Option<i128>, bool) {
        if !self.compares(self.queue(id), dimension) {
            return (self.deserved_meanwhile(id, dimension), true);
        }
        let capability = self.capability(id, dimension);
        let Some(deserved) = self.deserved_by_spec(id, dimension) else {
            return (capability, false);
        };
        let is_less = capability.is_none_or(|capability| deserved < capability);
        if is_less && !self.may_borrow(id, dimension) {
            (Some(deserved), true)
        } else {
            (capability, false)
        }
    }

    /// Returns what a queue may have of a dimension that is not compared, while that dimension is on its way out for
    /// others: what the others get back is not borrowed again.
    fn deserved_meanwhile(&self, id: QueueId, dimension: Dimension) -> Option<i128> {
        let is_claimed = self.reclaims.are_claiming() && self.is_claimed_by_others(id, dimension);
        self.deserved_by_spec(id, dimension).filter(|_| is_claimed)
    }

    /// Whether something is on its way out for any queue, so that dimensions which the plugin does not limit matter as
    /// well.
    pub(crate) fn is_anything_claimed(&self) -> bool {
        self.reclaims.are_claiming()
    }

    fn may_borrow(&self, id: QueueId, dimension: Dimension) -> bool {
        self.may_ever_borrow(id, dimension) && !self.is_claimed_by_others(id, dimension)
    }

    /// Whether a queue may have more than it deserves while no other queue claims it.
    pub(crate) fn may_ever_borrow(&self, id: QueueId, dimension: Dimension) -> bool {
        self.arguments().enable_overuse || !self.compares(self.queue(id), dimension)
    }

    /// Returns the limit of a queue that does not go away with time.
    fn lasting_limit(&self, id: QueueId, dimension: Dimension) -> Option<i128> {
        let compares = self.compares(self.queue(id), dimension);
        let capability = self.capability(id, dimension).filter(|_| compares);
        let never_above = self.never_above(id, dimension, Supply::Ever);
        capability.into_iter().chain(never_above).min()
    }

    /// Returns what sets that limit.
    fn lasting_bound(&self, id: QueueId, dimension: Dimension, supply: Supply) -> Bound {
        match self.never_above(id, dimension, supply) {
            Some(_) => self.bound_as_a_whole(id, dimension, supply),
            None => Bound::Quota,
        }
    }

    /// Returns what sets the limit that a workload is compared with as a whole.
    pub(crate) fn bound_as_a_whole(&self, id: QueueId, dimension: Dimension, supply: Supply) -> Bound {
        let real = self.real_capability_of(id, dimension, supply);
        let never_above = self.never_above(id, dimension, supply);
        if never_above.is_some_and(|deserved| real.is_none_or(|real| deserved < real)) {
            Bound::Deserved
        } else if real
            == self
                .ancestry(id)
                .filter_map(|level| self.capability(level, dimension))
                .min()
        {
            Bound::Quota
        } else {
            Bound::Rest
        }
    }

    /// Returns what a queue may have of a dimension beside all that is guaranteed to others. A workload that the queue
    /// takes as a whole is compared with this limit.
    pub(crate) fn limit_as_a_whole(&self, id: QueueId, dimension: Dimension, supply: Supply) -> Option<i128> {
        let real = self.real_capability_of(id, dimension, supply);
        let real = real.filter(|_| self.compares(self.queue(id), dimension));
        real.into_iter().chain(self.never_above(id, dimension, supply)).min()
    }

    /// Returns what a queue deserves, where it may never have more (section 2, `enableOveruse: false`).
    fn never_above(&self, id: QueueId, dimension: Dimension, supply: Supply) -> Option<i128> {
        let deserved = self.deserved_of(id, dimension, supply);
        deserved.filter(|_| !self.may_ever_borrow(id, dimension))
    }

    /// Whether a part of the tree of queues borrows: its topmost queue has more of a dimension than it deserves, and so
    /// has every other queue in it that says what it deserves. `part` runs from the queue at its foot up to the queue that
    /// stands beside others.
    pub(crate) fn borrows(&self, part: &[QueueId], dimension: Dimension) -> bool {
        let is_above = |id: &QueueId| {
            let deserved = self.deserved_by_spec(*id, dimension)?;
            Some(self.queue(*id).allocated_in_all(dimension) > deserved)
        };
        let mut levels = part.iter().rev();
        levels.next().and_then(is_above) == Some(true) && levels.all(|id| is_above(id) != Some(false))
    }

    /// Returns what a queue keeps whatever others need: what it deserves by its spec or its guarantee, whichever is more;
    /// none where it says neither.
    pub(crate) fn floor(&self, id: QueueId, dimension: Dimension) -> Option<i128> {
        let guarantee = self.queue(id).guaranteed_in_all(dimension);
        let guarantee = (guarantee > 0).then_some(guarantee);
        self.deserved_by_spec(id, dimension).max(guarantee)
    }

    /// Returns a queue and everything above it up to the cluster, each with what it deserves by its spec. The limits are
    /// those that hold no matter who borrows.
    pub(crate) fn levels(&self, id: QueueId, dimension: Dimension) -> Vec<(Level, Option<i128>)> {
        let of_queue = |id| {
            let queue = self.queue(id);
            let compares = self.compares(queue, dimension);
            let capability = self.capability(id, dimension).filter(|_| compares);
            let level = queue.level(dimension, capability);
            (level, self.deserved_by_spec(id, dimension))
        };
        let limit = || self.cluster_limit_for(id, dimension, Supply::Now);
        let cluster = || (self.top.level(dimension, limit()), None);
        self.ancestry(id)
            .map(of_queue)
            .chain(std::iter::once_with(cluster))
            .collect()
    }

    /// Whether what a queue may have depends on what others may have or are guaranteed.
    pub(crate) fn is_limited_above(&self, id: QueueId, dimension: Dimension) -> bool {
        self.real_capability(id, dimension) != self.capability(id, dimension)
    }

    /// Returns the most that the cluster gives to all queues, where the dimension is compared for this queue or a queue
    /// above it.
    #[inline]
    pub(crate) fn cluster_limit_for(&self, id: QueueId, dimension: Dimension, supply: Supply) -> Option<i128> {
        self.cluster_limit(dimension, supply)
            .filter(|_| self.is_compared(id, dimension))
    }

    /// Whether a dimension is shared out between queues: it is compared, or some queue says what it deserves of it.
    pub(crate) fn is_shared_out(&self, id: QueueId, dimension: Dimension) -> bool {
        self.is_compared(id, dimension) || self.top.below.deserved.get(dimension) > 0
    }

    /// Whether a dimension is compared with the capability of a queue, or of a queue above it.
    #[inline]
    pub(crate) fn is_compared(&self, id: QueueId, dimension: Dimension) -> bool {
        self.ancestry(id).any(|id| self.compares(self.queue(id), dimension))
    }

    /// Checks that a queue and everything above it has room for `asked` more, for a pod of this shape. What pods were
    /// evicted for does not go to pods that have to stand back, since otherwise those would be evicted again.
    pub(crate) fn room_for(&self, shape: &Shape, dimension: Dimension, asked: i64) -> Result<(), Shortage> {
        let id = shape.queue;
        self.room(id, dimension, asked)?;
        if asked <= 0 || !self.is_claimed_by_betters(shape, dimension) {
            return Ok(());
        }
        let queue = self.queue(id);
        Err(Shortage {
            levels: ALL_LEVELS,
            queue: Some(id),
            used: queue.used(dimension),
            reserved: 0,
            limit: self
                .limit(id, dimension)
                .0
                .unwrap_or_else(|| self.top.total.get(dimension)),
            bound: Bound::Quota,
            is_for_betters: true,
        })
    }

    /// Checks that a queue and everything above it has room for this much more (**Resource check logic**).
    pub fn room(&self, id: QueueId, dimension: Dimension, asked: i64) -> Result<(), Shortage> {
        // Nothing needs to be checked where nothing is asked for: most pods ask for few of the dimensions that are
        // checked.
        if asked <= 0 {
            return Ok(());
        }
        let of_queue = |id| self.queue(id).level(dimension, self.limit(id, dimension).0);
        // A level without a limit refuses nothing, and nothing comes after the cluster.
        let limit = self.cluster_limit_for(id, dimension, Supply::Now);
        let cluster = limit.map(|_| self.top.level(dimension, limit));
        let levels = self.ancestry(id).map(of_queue).chain(cluster);
        capacity::check(levels, asked.into()).map_err(|(place, level)| {
            let queue = self.ancestry(id).nth(place);
            let deserving = queue.filter(|id| self.limit(*id, dimension).1);
            let bound = deserving.map(|id| match self.never_above(id, dimension, Supply::Now) {
                Some(_) => self.lasting_bound(id, dimension, Supply::Now),
                None => Bound::Deserved,
            });
            Shortage {
                levels: if bound.is_some() { ALL_LEVELS } else { place + 1 },
                ..shortage(queue, level, bound.unwrap_or(Bound::Quota))
            }
        })
    }

    /// Whether there would be room for this much if others held nothing but what is guaranteed to them, and all nodes took
    /// pods.
    pub(crate) fn has_room_ever(&self, id: QueueId, dimension: Dimension, asked: i64) -> bool {
        self.room_ever(id, dimension, asked).is_ok()
    }

    /// Checks the same, and returns what there would be too little of.
    pub(crate) fn room_ever(&self, id: QueueId, dimension: Dimension, asked: i64) -> Result<(), Shortage> {
        let unused = |guaranteed: &Totals, guarantee, limit| Level {
            allocated: 0,
            used: guaranteed.get(dimension),
            guarantee,
            limit,
        };
        let of_queue = |id| {
            let queue = self.queue(id);
            let limit = self.lasting_limit(id, dimension);
            unused(&queue.below.guaranteed, queue.guarantee(dimension), limit)
        };
        let limit = self.cluster_limit_for(id, dimension, Supply::Ever);
        let cluster = unused(&self.top.below.guaranteed, 0, limit);
        let levels = self.ancestry(id).map(of_queue).chain([cluster]);
        capacity::check(levels, asked.into()).map_err(|(place, level)| {
            let queue = self.ancestry(id).nth(place);
            let bound = queue.map(|id| self.lasting_bound(id, dimension, Supply::Ever));
            shortage(queue, level, bound.unwrap_or(Bound::Quota))
        })
    }

    /// Returns a lasting shortage with the amounts that are in use and kept free at that level now.
    pub(crate) fn as_used_now(&self, shortage: Shortage, dimension: Dimension) -> Shortage {
        let level = match shortage.queue {
            Some(id) => self.queue(id).level(dimension, None),
            None => self.top.level(dimension, None),
        };
        Shortage {
            used: level.used,
            reserved: level.used - level.allocated,
            ..shortage
        }
    }

    /// Returns how much of a dimension the cluster has on nodes that take no pods at the moment.
    pub(crate) fn away(&self, dimension: Dimension) -> i128 {
        self.top.away.get(dimension)
    }

    /// Whether a queue, or any queue above it, has more in use than it may.
    pub(crate) fn is_overdrawn(&self, id: QueueId, dimension: Dimension) -> bool {
        let mut levels = self
            .ancestry(id)
            .map(|id| self.queue(id).level(dimension, self.limit(id, dimension).0));
        levels.any(|level| level.limit.is_some_and(|limit| level.allocated > limit))
    }

    /// Returns the largest ratio of use to what a queue deserves, over all dimensions
    /// (**Resource tracking**: `share = max(allocated / deserved)`).
    pub(crate) fn share(&self, id: QueueId) -> Share {
        let queue = self.queue(id);
        if queue.quota().is_none() {
            return Share::ZERO;
        }
        let below = queue.below.allocated.iter().chain(queue.allocated.iter());
        let dimensions = below.map(|(dimension, _)| dimension);
        dimensions
            .filter(|dimension| self.compares(queue, *dimension))
            .map(|dimension| Share::new(queue.allocated_in_all(dimension), self.deserved(id, dimension)))
            .max()
            .unwrap_or(Share::ZERO)
    }
}
