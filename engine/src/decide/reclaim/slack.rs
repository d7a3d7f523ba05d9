//! What queues and gangs must keep when something is taken from them.

use std::collections::HashMap;

use super::needs::Lack;
use crate::amounts::Dimension;
use crate::cluster::Cluster;
use crate::ids::QueueId;

/// What a queue or a gang has beyond what it must keep.
pub(super) struct Slack {
    /// The dimension; none where it counts pods of a gang.
    dimension: Option<Dimension>,
    /// How much may be taken where this dimension is missing: what exceeds both what is deserved and what is guaranteed.
    where_missing: i128,
    /// How much may be taken along where others lack something else: what exceeds what is guaranteed.
    elsewhere: i128,
}

impl Slack {
    /// Returns a slack of `count` pods of a gang.
    pub(super) fn of_pods(count: i128) -> Self {
        Self {
            dimension: None,
            where_missing: count,
            elsewhere: count,
        }
    }

    /// Returns how much may be taken for what a pod lacks.
    pub(super) fn when(&self, lack: &Lack<'_>) -> i128 {
        if self.dimension.is_some_and(|dimension| lack.has(dimension)) {
            self.where_missing
        } else {
            self.elsewhere
        }
    }

    /// Returns the most that may be taken, whatever a pod lacks.
    pub(super) fn most(&self) -> i128 {
        self.where_missing.max(self.elsewhere)
    }

    /// Notes that `amount` was taken.
    pub(super) fn shrink(&mut self, amount: i128) {
        self.where_missing -= amount;
        self.elsewhere -= amount;
    }
}

/// What queues must keep when pods that are part of them are taken back. Queues that are parts of one queue take from what that
/// queue has, together.
#[derive(Default)]
pub(super) struct Floors {
    /// The place of a queue's slack; none where it need not keep any.
    places: HashMap<(QueueId, Dimension), Option<usize>>,
    pub(super) slack: Vec<Slack>,
}

impl Floors {
    /// Returns what a pod takes from the slack of these levels.
    pub(super) fn takes(
        &mut self,
        cluster: &Cluster,
        levels: &[QueueId],
        charged: &[(Dimension, i128)],
    ) -> Vec<(usize, i128)> {
        let mut takes = Vec::new();
        for level in levels {
            for (dimension, amount) in charged {
                if let Some(place) = self.place(cluster, *level, *dimension) {
                    takes.push((place, *amount));
                }
            }
        }
        takes
    }

    fn place(&mut self, cluster: &Cluster, level: QueueId, dimension: Dimension) -> Option<usize> {
        if let Some(place) = self.places.get(&(level, dimension)) {
            return *place;
        }
        let place = cluster.floor(level, dimension).map(|floor| {
            let queue = cluster.queue(level);
            let (has, guarantee) = (queue.allocated_in_all(dimension), queue.guaranteed_in_all(dimension));
            self.slack.push(Slack {
                dimension: Some(dimension),
                where_missing: has - floor,
                elsewhere: if guarantee > 0 { has - guarantee } else { i128::MAX },
            });
            self.slack.len() - 1
        });
        self.places.insert((level, dimension), place);
        place
    }
}
