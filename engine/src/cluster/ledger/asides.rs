//! Counts what is set aside for waiting pods as taken while others are judged.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::PEN;
use crate::amounts::{Amounts, Dimension, Totals};
use crate::cluster::Cluster;
use crate::cluster::aside::{Awaited, GivenBack, OfNode, RoomAside, SetAside};
use crate::cluster::below::Below;
use crate::ids::{NodeId, QueueId};

/// What counts as taken though nobody has it: of queues and the cluster, and of nodes.
#[derive(Debug, Default)]
pub(crate) struct Hold {
    /// The levels, each once, from the leaves upwards.
    levels: Vec<HeldLevel>,
    nodes: Vec<(NodeId, Amounts)>,
    /// The part of this that counts against quotas for pods without GPU.
    without_gpu: Vec<(NodeId, Amounts)>,
}

/// What counts as taken of one level, where no queue stands for the cluster.
#[derive(Debug)]
struct HeldLevel {
    level: Option<QueueId>,
    /// More of what the level's own pods have, of what the queues below have, and of what these hold.
    more: [Totals; 3],
    /// How much more the level above counts for this level because of that. It is less where this was kept free for the
    /// level anyway.
    holds_more: Totals,
}

impl Cluster {
    /// Counts what is set aside for pods as taken while Cardgate looks for what could be taken back, until it is
    /// [free](Self::free_asides) again.
    pub(crate) fn take_asides(&mut self, asides: &[SetAside]) {
        for aside in asides {
            self.count_aside(aside, 1);
        }
        self.hold_devices(asides.iter(), &Awaited::default());
    }

    /// Counts what is set aside as free again.
    pub(crate) fn free_asides(&mut self, asides: &[SetAside]) {
        for aside in asides {
            self.count_aside(aside, -1);
        }
        self.release_devices();
    }

    /// Counts what is set aside for a pod as taken, or as free again (`sign`). Nothing is really given back, so nobody is
    /// woken.
    fn count_aside(&mut self, aside: &SetAside, sign: i128) {
        let queue = aside.shape.queue;
        self.without_waking([queue], |cluster| cluster.charge_aside(aside, sign));
        let Some((node, room)) = self.room_of(aside) else {
            return;
        };
        self.nodes[node].books(PEN).set_aside(room.held(false), sign);
        let (task, request) = (&aside.shape.task, aside.shape.task.first_request());
        if self.is_without_gpu(task, request) && self.counts_where_expected(task) {
            self.count_request_without_gpu(node, request, sign);
        }
    }

    /// Whether the queue of a pod, and the queues above it, have room for what is set aside for the pod, as things are
    /// counted.
    pub(crate) fn has_quota_for(&self, aside: &SetAside) -> bool {
        let mut charge = aside.charge.amounts.iter();
        charge.all(|(dimension, amount)| self.room(aside.shape.queue, dimension, amount).is_ok())
    }

    /// Counts as taken what is free now and will not be once these pods have gone and the pods that something is set aside
    /// for have it. What is still to come free for a queue is not counted twice. The pods that are judged now have
    /// something set aside by looks at these `queues`. Their places were found beside each other, so they need leave each
    /// other no more than each requests, once nobody is to go from their node any more.
    pub(crate) fn hold<'a>(
        &mut self,
        asides: impl Iterator<Item = &'a SetAside>,
        leaving: &Awaited,
        queues: &BTreeSet<QueueId>,
    ) -> Hold {
        let mut by_queue = BTreeMap::<QueueId, Vec<&SetAside>>::new();
        for aside in asides {
            by_queue.entry(aside.looked_for).or_default().push(aside);
        }
        self.hold_devices(by_queue.values().flatten().copied(), leaving);
        let nothing = GivenBack::default();
        let mut hold = Hold::default();
        let mut levels = BTreeMap::new();
        for (queue, asides) in by_queue {
            let leaving = leaving.by_queue.get(&queue).unwrap_or(&nothing);
            self.hold_of_levels(&mut levels, &asides, leaving);
            self.hold_of_nodes(&mut hold, &asides, leaving, queues.contains(&queue));
        }
        let mut levels: Vec<_> = levels.into_iter().collect();
        levels.sort_by_key(|(level, _)| Reverse(level.map_or(0, |queue| self.ancestry(queue).count())));
        let levels = levels.into_iter();
        hold.levels = levels.map(|(level, more)| self.hold_level(level, more)).collect();
        self.count_hold_of_nodes(&hold, 1);
        hold
    }

    /// Counts what was held as free again. Pods that were let in, or have gone, meanwhile were counted upwards from levels
    /// that held more than they do now. Where something is guaranteed to these levels, that gives other sums than without
    /// the hold. This is put right here.
    pub(crate) fn release(&mut self, hold: &Hold) {
        let mut astray = BTreeMap::<Option<QueueId>, Totals>::new();
        for held in &hold.levels {
            let before = self.counts_above(held.level);
            self.count_level(held, -1);
            let too_much = astray.remove(&held.level).unwrap_or_default();
            add(&mut self.below(held.level).held, too_much.iter(), -1);
            let Some(queue) = held.level.filter(|queue| !self.queue(*queue).is_nameless()) else {
                continue;
            };
            let held_more = difference(&before, &self.counts_above(held.level));
            let too_much = difference(&held_more, &held.holds_more);
            astray
                .entry(self.queue(queue).parent())
                .or_default()
                .add_totals(&too_much);
        }
        self.count_hold_of_nodes(hold, -1);
        self.release_devices();
    }

    fn hold_of_levels(
        &mut self,
        hold: &mut BTreeMap<Option<QueueId>, [Totals; 3]>,
        asides: &[&SetAside],
        leaving: &GivenBack,
    ) {
        let of_asides = asides.iter().map(|aside| aside.shape.queue);
        let queues: BTreeSet<_> = leaving.charged.keys().copied().chain(of_asides).collect();
        let levels = queues.iter().flat_map(|queue| self.ancestry(*queue)).map(Some);
        let levels: BTreeSet<_> = levels.chain([None]).collect();
        let before: Vec<_> = levels.iter().map(|level| (*level, self.sums(*level))).collect();
        let count = |cluster: &mut Self, sign: i128| {
            for aside in asides {
                cluster.charge_aside(aside, sign);
            }
            for (queue, charged) in &leaving.charged {
                let given = charged.iter();
                let given = given.map(|(dimension, amount)| (dimension, -sign * amount));
                cluster.change_allocated(*queue, given);
            }
        };
        self.without_waking(queues, |cluster| {
            count(cluster, 1);
            for (level, before) in before {
                let after = cluster.sums(level);
                let sums = hold.entry(level).or_default();
                for (sum, (before, after)) in sums.iter_mut().zip(before.iter().zip(&after)) {
                    let grows = difference(after, before);
                    add(sum, grows.iter().filter(|(_, growth)| *growth > 0), 1);
                }
            }
            count(cluster, -1);
        });
    }

    fn hold_of_nodes(&self, hold: &mut Hold, asides: &[&SetAside], leaving: &GivenBack, judged_beside: bool) {
        let mut nodes = BTreeMap::<NodeId, OfNode>::new();
        for aside in asides {
            let Some((node, room)) = self.room_of(aside) else {
                continue;
            };
            // As long as some pod is still to go, it is open which cards are for whom.
            let is_open = leaving.on_nodes.contains_key(&node);
            let taken = nodes.entry(node).or_default();
            taken.used.add_all(room.held(judged_beside && !is_open));
            let (task, request) = (&aside.shape.task, aside.shape.task.first_request());
            if self.is_without_gpu(task, request) && self.counts_where_expected(task) {
                taken.without_gpu.add_all(request);
            }
        }
        for (node, mut taken) in nodes {
            if let Some(given) = leaving.on_nodes.get(&node) {
                add(&mut taken.used, given.used.iter(), -1);
                add(&mut taken.without_gpu, given.without_gpu.iter(), -1);
            }
            hold.nodes.push((node, what_remains(&taken.used)));
            hold.without_gpu.push((node, what_remains(&taken.without_gpu)));
        }
    }

    /// Counts this much more of a level as taken.
    fn hold_level(&mut self, level: Option<QueueId>, more: [Totals; 3]) -> HeldLevel {
        let before = self.counts_above(level);
        let mut held = HeldLevel {
            level,
            more,
            holds_more: Totals::default(),
        };
        self.count_level(&held, 1);
        held.holds_more = difference(&self.counts_above(level), &before);
        held
    }

    fn count_level(&mut self, held: &HeldLevel, sign: i128) {
        let [own, allocated, of_those] = &held.more;
        if let Some(queue) = held.level {
            add(&mut self.queues[queue].books(PEN).allocated, own.iter(), sign);
        }
        let below = self.below(held.level);
        add(&mut below.allocated, allocated.iter(), sign);
        add(&mut below.held, of_those.iter(), sign);
    }

    fn below(&mut self, level: Option<QueueId>) -> &mut Below {
        match level {
            Some(queue) => &mut self.queues[queue].books(PEN).below,
            None => &mut self.top.books(PEN).below,
        }
    }

    /// Returns what the level above a queue counts for it.
    fn counts_above(&self, level: Option<QueueId>) -> Totals {
        level.map_or_else(Totals::default, |queue| self.queue(queue).held_in_all())
    }

    fn count_hold_of_nodes(&mut self, hold: &Hold, sign: i128) {
        for (node, request) in &hold.nodes {
            self.nodes[*node].books(PEN).set_aside(request, sign);
        }
        for (node, request) in &hold.without_gpu {
            self.count_request_without_gpu(*node, request, sign);
        }
    }

    pub(super) fn charge_aside(&mut self, aside: &SetAside, sign: i128) {
        let amounts = aside.charge.amounts.iter();
        let amounts = amounts.map(|(dimension, amount)| (dimension, sign * i128::from(amount)));
        self.change_allocated(aside.shape.queue, amounts);
    }

    fn sums(&self, level: Option<QueueId>) -> [Totals; 3] {
        let (own, below) = match level {
            Some(queue) => {
                let queue = self.queue(queue);
                (queue.allocated.clone(), &queue.below)
            }
            None => (Totals::default(), &self.top.below),
        };
        [own, below.allocated.clone(), below.held.clone()]
    }

    pub(super) fn room_of<'a>(&self, aside: &'a SetAside) -> Option<(NodeId, &'a RoomAside)> {
        let room = aside.room.as_ref()?;
        Some((self.nodes.id(&room.node)?, room))
    }

    /// Makes changes to sums of these queues and the queues above them that are only tried, without waking anybody.
    pub(super) fn without_waking<R>(
        &mut self,
        queues: impl IntoIterator<Item = QueueId>,
        change: impl FnOnce(&mut Self) -> R,
    ) -> R {
        let levels = queues.into_iter().flat_map(|queue| self.ancestry(queue));
        let versions: Vec<_> = levels.map(|queue| (queue, self.queue(queue).version())).collect();
        let top = self.top_version();
        let changed = change(self);
        for (queue, version) in versions {
            self.queues[queue].set_version(version);
        }
        self.set_top_version(top);
        changed
    }
}

/// Returns the amounts that are more than 0.
fn what_remains(totals: &Totals) -> Amounts {
    let more = totals.iter().filter(|(_, amount)| *amount > 0);
    more.map(|(dimension, amount)| (dimension, i64::try_from(amount).unwrap_or(i64::MAX)))
        .collect()
}

/// Returns how much more of everything the first has than the second.
fn difference(first: &Totals, second: &Totals) -> Totals {
    let mut difference = first.clone();
    add(&mut difference, second.iter(), -1);
    difference
}

fn add(totals: &mut Totals, amounts: impl Iterator<Item = (Dimension, i128)>, sign: i128) {
    for (dimension, amount) in amounts {
        totals.add(dimension, sign * amount);
    }
}
