//! Kinds of pods: pods of a queue that hold the same give the same. That is found out once for all plans about them. A user can
//! make each of their pods a kind of its own.
//!
//! Pods that are taken back meanwhile stay listed. Drawing such a pod shows that it is gone, and the most that one pod of a list
//! gives is never less than what a remaining pod gives. Pods that come back are missing in what was found while they were gone.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use super::needs::Place;
use crate::amounts::Dimension;
use crate::cluster::Cluster;
use crate::cluster::holders::{Held, Turn};
use crate::decide::effort::Effort;
use crate::ids::QueueId;

/// Where something is missing, and what.
pub(super) type Wanted = (Place, Dimension);

/// Pods of a queue that hold the same amounts.
pub(super) struct Kind {
    queue: QueueId,
    held: Held,
    /// The lowest level above the waiting queue that their queue is part of.
    level: usize,
    /// Pods of this kind may be taken back below this priority; none where all may.
    end: Option<i32>,
}

impl Kind {
    /// Returns how much one pod of this kind gives there.
    fn gives(&self, (place, dimension): Wanted) -> i64 {
        if place.is_reached_from(self.level) {
            self.held.0.get(dimension)
        } else {
            0
        }
    }

    /// Returns the pods of this kind that may be taken back, by rank.
    pub(super) fn turns<'c>(&self, cluster: &'c Cluster) -> impl Iterator<Item = &'c Turn> + use<'c> {
        let turns = cluster.queue(self.queue).holders.alike_to(&self.held);
        let end = self.end;
        turns.take_while(move |turn| end.is_none_or(|end| turn.priority < end))
    }

    fn next_after<'c>(&self, cluster: &'c Cluster, turn: &Turn) -> Option<&'c Turn> {
        let next = cluster.queue(self.queue).holders.next_alike(&self.held, turn)?;
        self.end.is_none_or(|end| next.priority < end).then_some(next)
    }
}

/// From where kinds are seen: for each queue that has any, the lowest level above the waiting queue that it is part of, and the
/// priority below which its pods may be taken back. Waiting pods with the same view see the same kinds.
pub(super) type View = Rc<[(QueueId, usize, Option<i32>)]>;

/// How many views are kept. A gang has as many views as it has priorities and sets of dimensions, and each holds all kinds of
/// pods.
const MOST_VIEWS: usize = 8;

/// Kinds that are not in use just now, kept for the next pool with the same view.
#[derive(Default)]
pub(super) struct Kept(Vec<Kinds>);

impl Kept {
    /// Keeps kinds. The oldest are dropped where there are too many.
    pub(super) fn keep(&mut self, kinds: Kinds) {
        if self.0.len() >= MOST_VIEWS {
            self.0.remove(0);
        }
        self.0.push(kinds);
    }

    /// Takes out the kinds with this view.
    pub(super) fn take(&mut self, view: &View) -> Option<Kinds> {
        let place = self.0.iter().position(|kinds| kinds.view == *view)?;
        Some(self.0.remove(place))
    }

    /// Notes that all but the first `gone` of the pods that were counted as gone are there again.
    pub(super) fn put_back(&mut self, gone: usize) {
        let kept = std::mem::take(&mut self.0).into_iter();
        self.0 = kept.filter_map(|kinds| kinds.after_putting_back(gone)).collect();
    }
}

/// The kinds that give one thing, by queue, with how much one pod gives. In each queue, those that give most come first.
type Givers = Rc<[Vec<(i64, usize)>]>;

/// All kinds of pods that may be taken back, and what was found out about them. Going over all of them costs a step for each.
pub(super) struct Kinds {
    view: View,
    all: Vec<Kind>,
    /// How many pods were counted as gone when the kinds were found.
    gone: usize,
    most_charged: HashMap<Wanted, i64>,
    most_requested: HashMap<Dimension, i64>,
    givers: HashMap<Wanted, Givers>,
    in_order: HashMap<Box<[Wanted]>, InOrder>,
}

/// Pods by rank, whether they are candidates or not, as many as were drawn so far.
struct InOrder {
    drawn: Vec<Turn>,
    /// The first pod of each kind that was not drawn yet.
    heads: BTreeMap<Turn, usize>,
}

impl Kinds {
    /// Finds all kinds with this view. They hold as long as `gone` pods are counted as gone.
    pub(super) fn find(cluster: &Cluster, view: &View, gone: usize) -> Self {
        let mut all = Vec::new();
        for (queue, level, end) in view.iter() {
            let alike = cluster.queue(*queue).holders.alike();
            all.extend(alike.map(|(held, _)| Kind {
                queue: *queue,
                held: held.clone(),
                level: *level,
                end: *end,
            }));
        }
        Self {
            view: Rc::clone(view),
            all,
            gone,
            most_charged: HashMap::new(),
            most_requested: HashMap::new(),
            givers: HashMap::new(),
            in_order: HashMap::new(),
        }
    }

    /// Returns what still holds when all but the first `gone` of the pods that were counted as gone are there again. None where
    /// some of these were gone when the kinds were found. The order in which pods were drawn is dropped, since it may have left
    /// some out.
    pub(super) fn after_putting_back(mut self, gone: usize) -> Option<Self> {
        self.in_order.clear();
        (self.gone <= gone).then_some(self)
    }

    pub(super) fn get(&self, kind: usize) -> &Kind {
        &self.all[kind]
    }

    /// Returns the most that one pod gives of this; 0 where no pod gives any.
    pub(super) fn most_charged(&mut self, wanted: Wanted, effort: &Effort) -> i64 {
        let all = &self.all;
        *self.most_charged.entry(wanted).or_insert_with(|| {
            effort.spend(all.len());
            all.iter().map(|kind| kind.gives(wanted)).max().unwrap_or(0)
        })
    }

    /// Returns the most that one pod gives of this dimension on its node.
    pub(super) fn most_requested(&mut self, dimension: Dimension, effort: &Effort) -> i64 {
        let all = &self.all;
        *self.most_requested.entry(dimension).or_insert_with(|| {
            effort.spend(all.len());
            let requested = all.iter().map(|kind| kind.held.1.get(dimension));
            requested.max().unwrap_or(0).max(0)
        })
    }

    /// Returns, for each queue whose pods give this, how much of it one pod of each kind gives.
    pub(super) fn givers(&mut self, wanted: Wanted, effort: &Effort) -> Givers {
        let all = &self.all;
        let givers = self.givers.entry(wanted).or_insert_with(|| {
            effort.spend(all.len());
            let mut by_queue = BTreeMap::<QueueId, Vec<(i64, usize)>>::new();
            for (place, kind) in all.iter().enumerate() {
                let each = kind.gives(wanted);
                if each > 0 {
                    by_queue.entry(kind.queue).or_default().push((each, place));
                }
            }
            let sorted = by_queue.into_values().map(|mut kinds| {
                kinds.sort_by_key(|(each, _)| Reverse(*each));
                kinds
            });
            sorted.collect()
        });
        Rc::clone(givers)
    }

    /// Returns the pod at this place by rank, candidate or not, among the pods that give any of what is `wanted`; among all pods
    /// where nothing is `wanted`.
    pub(super) fn turn(
        &mut self,
        cluster: &Cluster,
        wanted: &[Wanted],
        place: usize,
        effort: &Effort,
    ) -> Option<&Turn> {
        if !self.in_order.contains_key(wanted) {
            effort.spend(self.all.len());
            let gives = |kind: &Kind| wanted.iter().any(|wanted| kind.gives(*wanted) > 0);
            let kinds = self.all.iter().enumerate();
            let kinds = kinds.filter(|(_, kind)| wanted.is_empty() || gives(kind));
            let heads = kinds.filter_map(|(number, kind)| Some((kind.turns(cluster).next()?.clone(), number)));
            let (heads, drawn) = (heads.collect(), Vec::new());
            self.in_order.insert(wanted.into(), InOrder { drawn, heads });
        }
        let order = self.in_order.get_mut(wanted)?;
        while order.drawn.len() <= place {
            let (turn, kind) = order.heads.pop_first()?;
            let next = self.all[kind].next_after(cluster, &turn);
            order.heads.extend(next.map(|next| (next.clone(), kind)));
            order.drawn.push(turn);
        }
        order.drawn.get(place)
    }
}
