//! What there is too little of, and where, in numbers.

use crate::alternative::Alternative;
use crate::amounts::Dimension;
use crate::cluster::Cluster;
use crate::cluster::compared::Compared;
use crate::cluster::levels::{Bound, Supply};
use crate::cluster::waiting::Shape;
use crate::decide::census::Looks;
use crate::decide::enqueue::check_at;
use crate::decide::fit;
use crate::decide::verdict::check_of;
use crate::ids::{NodeId, QueueId, WorkloadId};
use crate::inqueue::Demand;
use crate::metering;
use crate::names::CardId;
use crate::policies::job_mode::Sums;
use crate::reason::{About, Reason};

/// What there is too little of.
#[derive(Debug, Clone)]
pub(super) struct Short {
    /// The dimensions it is short of; several where they are alternatives, which count together.
    pub of: Vec<Dimension>,
    pub asked: i128,
    /// Which of a pod's alternatives lack it, as bits; 0 where the pod lacks it whatever cards it gets.
    pub ways: u64,
    pub used: Used,
    /// How much may be in use; none where that depends on what others do, or nothing limits it.
    pub limit: Option<i128>,
    pub place: Place,
    /// For which pods or workloads the rest is kept.
    pub kept: Kept,
}

/// What is in use.
#[derive(Debug, Clone)]
pub(super) enum Used {
    /// In use by pods. `reserved` is the part that is only kept free by guarantees.
    ByPods { used: i128, reserved: i128 },
    /// As workloads are counted: what pods hold, what is kept for others, and what of it counts as free. `written` is the quota written on
    /// the queue, where the queue may have less.
    ByWorkloads { sums: Sums, written: Option<i128> },
}

/// Where there is too little.
#[derive(Debug, Clone)]
pub(super) enum Place {
    /// In a queue, in a queue above it, or in the cluster.
    Level(At),
    /// On a node.
    Node(NodeId),
    /// On `without` of all `of` GPU nodes. The node that has most left is named, with where its quota comes from (`source`).
    GpuNodes {
        most_left: NodeId,
        without: usize,
        of: usize,
        source: String,
    },
}

/// A level from a queue upwards.
#[derive(Debug, Clone, Copy)]
pub(super) struct At {
    /// The queue that is asked.
    pub own: QueueId,
    /// That queue or a queue above it; none for the cluster.
    pub level: Option<QueueId>,
}

/// For which pods or workloads the rest is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kept {
    /// For none: it is in use.
    ForNobody,
    /// For other queues that claim it, while this queue has what it deserves.
    WhileBorrowing,
    /// For other queues, since this queue never has more than it deserves (`enableOveruse`).
    AsDeserved,
    /// For other queues, since that is all that they leave to this queue, or all that the cluster has.
    AsLeft,
    /// For pods of higher priority, for which other pods were evicted.
    ForBetters,
    /// There is room by now, which the next look will see.
    ForWhoLooks,
    /// There is room, and it is set aside for pods that wait for others to end.
    ForClaimants,
}

/// Returns what a pod's queue, or a level above it, has too little of; what the reason names comes first.
pub(super) fn of_pod(cluster: &Cluster, shape: &Shape, reason: Reason) -> Vec<Short> {
    let lacking = lacking(cluster, shape, reason).into_iter();
    lacking.map(|lack| of_quota(cluster, shape, lack)).collect()
}

/// What there is too little of for a pod, how much the pod asks for, and with which of its alternatives, as bits; 0 means with all of them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lack {
    dimension: Dimension,
    asked: i64,
    ways: u64,
}

impl Lack {
    const fn of_all((dimension, asked): (Dimension, i64)) -> Self {
        Self {
            dimension,
            asked,
            ways: 0,
        }
    }
}

/// Returns everything that the queue, or a level above it, has too little of, and how much is asked for; what the reason names comes first.
fn lacking(cluster: &Cluster, shape: &Shape, reason: Reason) -> Vec<Lack> {
    let mut lacking = without_room(cluster, shape);
    let is_named = |dimension: Dimension| dimension.shortage() == reason;
    if !lacking.iter().any(|lack| is_named(lack.dimension)) {
        // Room has come free since; the next round sees it.
        let check = check_of(cluster, shape, |_, _| true);
        let asked = metering::resources(&cluster.configuration().capacity_card, &shape.task);
        let alternatives = check.known_alternatives();
        let cards = alternatives.flat_map(|alternative| check.compared(alternative));
        let mut asked = cards.chain(asked);
        let named = asked.find(|(dimension, _)| is_named(*dimension));
        lacking.extend(named.map(Lack::of_all));
    }
    lacking.sort_by_key(|lack| !is_named(lack.dimension));
    lacking
}

/// Returns the parts of a pod's request for which the queue, or a level above it, has no room.
pub(super) fn without_room(cluster: &Cluster, shape: &Shape) -> Vec<Lack> {
    let has_room = |dimension, asked| cluster.room_for(shape, dimension, asked).is_ok();
    let check = check_of(cluster, shape, has_room);
    let mut lacking: Vec<_> = check.resources_without_room().map(Lack::of_all).collect();
    // One alternative with quota is enough.
    if check.alternatives_with_quota().next().is_none() {
        let alternatives = check.known_alternatives().map(Some).collect();
        let alternatives = cluster.in_order_of_quota(shape, alternatives).into_iter().flatten();
        for alternative in alternatives {
            let way = fit::search_bit(shape, Some(alternative));
            for (dimension, asked) in check.without_room(alternative) {
                let is_same = |lack: &&mut Lack| (lack.dimension, lack.asked) == (dimension, asked);
                match lacking.iter_mut().find(is_same) {
                    // What the pod lacks whatever cards it gets stays marked as such.
                    Some(lack) if lack.ways == 0 => {}
                    Some(lack) => lack.ways |= way,
                    None => lacking.push(Lack {
                        dimension,
                        asked,
                        ways: way,
                    }),
                }
            }
        }
    }
    lacking
}

/// Returns the level that has no room for a dimension (the queue, one of its ancestors, or the cluster), with the numbers.
fn of_quota(cluster: &Cluster, shape: &Shape, lack: Lack) -> Short {
    let Lack { dimension, asked, ways } = lack;
    let own = shape.queue;
    // A pod that could not have it even if others gave back all that they may is told of the level that stays short, where that is not the
    // level that is short now.
    let lasts = cluster.room_ever(own, dimension, asked);
    let (used, limit, level, kept) = if let Err(now) = cluster.room_for(shape, dimension, asked) {
        let lasts = lasts.err().filter(|lasts| lasts.queue != now.queue);
        let found = lasts.map_or(now, |lasts| cluster.as_used_now(lasts, dimension));
        let used = Used::ByPods {
            used: found.used,
            reserved: found.reserved,
        };
        let may_borrow = found
            .queue
            .is_some_and(|level| cluster.may_ever_borrow(level, dimension));
        let kept = match (found.bound, found.is_for_betters) {
            (Bound::Deserved, _) if may_borrow => Kept::WhileBorrowing,
            (Bound::Deserved, _) => Kept::AsDeserved,
            (Bound::Rest, _) => Kept::AsLeft,
            (Bound::Quota, true) => Kept::ForBetters,
            (Bound::Quota, false) => Kept::ForNobody,
        };
        let limit = (!found.is_for_betters || found.limit > 0).then_some(found.limit);
        (used, limit, found.queue, kept)
    } else {
        let used = Used::ByPods {
            used: cluster.queue(own).allocated_in_all(dimension),
            reserved: 0,
        };
        let kept = if cluster.sets_aside() {
            Kept::ForClaimants
        } else {
            Kept::ForWhoLooks
        };
        (used, None, Some(own), kept)
    };
    Short {
        of: vec![dimension],
        asked: asked.into(),
        ways,
        used,
        limit,
        place: Place::Level(At { own, level }),
        kept,
    }
}

/// Returns what a level has too little of for a workload as a whole (**Job Enqueueable Check**); empty where there is room by now.
pub(super) fn of_whole(
    cluster: &Cluster,
    id: WorkloadId,
    (own, demand): (QueueId, &Demand),
    level: Option<QueueId>,
    reason: Reason,
) -> Vec<Short> {
    let check = check_at(cluster, id, own, level);
    let found = match reason.about() {
        About::Quota(Some(resource)) => {
            let dimension = Dimension::Resource(resource);
            Some((vec![dimension], check.resource(demand, dimension)))
        }
        About::Quota(None) => match check
            .resources_in_excess(demand)
            .find(|(of, _)| of.shortage() == reason)
        {
            Some((scalar, sums)) => Some((vec![scalar], sums)),
            None => check.first_excess(demand).map(|(set, sums)| {
                let dimensions = set.iter().copied().map(Dimension::Card);
                (dimensions.collect(), sums)
            }),
        },
        About::Nodes | About::Mgpu | About::Request | About::Queue | About::Workload => None,
    };
    let short = found.map(|(of, sums)| {
        // Without this, a user who wrote 10 on a queue and reads 7 would have to guess why.
        let bounds = of
            .iter()
            .filter_map(|dimension| Some(cluster.bound_as_a_whole(level?, *dimension, Supply::Now)));
        let kept = match bounds.max() {
            Some(Bound::Deserved) => Kept::AsDeserved,
            Some(Bound::Rest) => Kept::AsLeft,
            Some(Bound::Quota) | None => Kept::ForNobody,
        };
        let written: Option<i128> = of.iter().map(|dimension| cluster.capability(level?, *dimension)).sum();
        Short {
            of,
            asked: sums.asked,
            ways: 0,
            used: Used::ByWorkloads {
                sums,
                written: written.filter(|written| Some(*written) != sums.quota),
            },
            limit: sums.quota,
            place: Place::Level(At { own, level }),
            kept,
        }
    });
    short.into_iter().collect()
}

/// Returns what nodes have too little of for a pod: for each alternative, what is missing on the node that comes nearest to taking it, and
/// for each of its cards, the numbers of all nodes together.
pub(super) fn of_nodes(cluster: &Cluster, shape: &Shape, alternatives: &[&Alternative]) -> Vec<Short> {
    let of_card = |(card, asked): (CardId, i64)| {
        let resource = cluster.resource_of(card)?;
        let tally = cluster.card(card)?.tallies.get(&resource)?;
        Some(Short {
            of: vec![Dimension::Card(card)],
            asked: asked.into(),
            ways: 0,
            used: Used::ByPods {
                used: tally.used,
                reserved: 0,
            },
            limit: Some(tally.total),
            place: Place::Level(At {
                own: shape.queue,
                level: None,
            }),
            kept: Kept::ForNobody,
        })
    };
    let mut cards = Vec::<(CardId, i64)>::new();
    for alternative in alternatives {
        let added = metering::added(&shape.task, alternative, |card| cluster.resource_of(card));
        for (dimension, asked) in added {
            let card = dimension
                .card()
                .filter(|card| !cards.iter().any(|(known, _)| known == card));
            cards.extend(card.map(|card| (card, asked)));
        }
    }
    let asked: Vec<_> = match alternatives {
        [] => vec![None],
        alternatives => alternatives.iter().copied().map(Some).collect(),
    };
    let looks = Looks::of_message();
    let nearest = asked
        .into_iter()
        .flat_map(|alternative| on_nearest(cluster, shape, alternative, &looks));
    nearest.chain(cards.into_iter().filter_map(of_card)).collect()
}

/// Returns what is missing on the node that lacks least: fewest cards, then fewest dimensions. Only nodes that may be looked at count.
fn on_nearest(cluster: &Cluster, shape: &Shape, alternative: Option<&Alternative>, looks: &Looks) -> Vec<Short> {
    let nodes = fit::nodes_for(cluster, alternative).iter();
    let nodes = nodes.take_while(|_| looks.may_look(shape));
    let lacking = nodes.filter_map(|node| Some((*node, fit::lacking(cluster, shape, alternative, *node)?)));
    let lacking = lacking.filter(|(_, missing)| !missing.is_empty());
    let nearest = lacking.min_by_key(|(node, missing)| {
        let cards: i128 = missing
            .iter()
            .filter(|(dimension, _)| !dimension.is_cpu_or_memory())
            .map(|(_, part)| part.missing())
            .sum();
        (cards, missing.len(), &cluster.node(*node).name)
    });
    let Some((id, missing)) = nearest else {
        return Vec::new();
    };
    let of = |(dimension, part): (Dimension, Compared)| Short {
        of: vec![dimension],
        asked: part.asked,
        ways: 0,
        used: Used::ByPods {
            used: part.used,
            reserved: 0,
        },
        limit: Some(part.there),
        place: Place::Node(id),
        kept: Kept::ForNobody,
    };
    missing.into_iter().map(of).collect()
}

impl Short {
    /// Returns how much is in use, or counts as if it were.
    pub fn in_use(&self) -> i128 {
        match &self.used {
            Used::ByPods { used, .. } => *used,
            Used::ByWorkloads { sums, .. } => sums.allocated + sums.inqueue - sums.elastic,
        }
    }
}
