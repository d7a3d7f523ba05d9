//! What pods give who hold the same, found once for all that is planned of them: anybody can make one kind of each of his pods.
//!
//! Pods that are taken back meanwhile stay listed: who draws them sees that they are gone, and the most that anybody gives is no less than
//! what somebody does. Who is there again was not listed by what was found meanwhile.

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

/// Pods of a queue that hold the same.
pub(super) struct Kind {
    queue: QueueId,
    held: Held,
    /// The lowest level above the waiting queue that their queue is part of.
    level: usize,
    /// The priority with which those that may be taken back end.
    end: Option<i32>,
}

impl Kind {
    /// How much one of them gives there.
    fn gives(&self, (place, dimension): Wanted) -> i64 {
        if place.is_reached_from(self.level) {
            self.held.0.get(dimension)
        } else {
            0
        }
    }

    /// Those that may be taken back, the first first.
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

/// From where kinds are seen: each queue that has any, the lowest level above the waiting queue that it is part of, and the priority with which
/// its pods that may be taken back end. By that, kinds of pods are the same for all who look.
pub(super) type View = Rc<[(QueueId, usize, Option<i32>)]>;

/// How many views are kept: a gang has as many as it has priorities and sets of dimensions, and each has all kinds of pods.
const MOST_VIEWS: usize = 8;

/// Kinds of pods that nobody looks at just now, kept for the next who sees the same.
#[derive(Default)]
pub(super) struct Kept(Vec<Kinds>);

impl Kept {
    /// Keeps kinds; the oldest go where there are too many.
    pub(super) fn keep(&mut self, kinds: Kinds) {
        if self.0.len() >= MOST_VIEWS {
            self.0.remove(0);
        }
        self.0.push(kinds);
    }

    /// Gives out those that are seen from there.
    pub(super) fn take(&mut self, view: &View) -> Option<Kinds> {
        let place = self.0.iter().position(|kinds| kinds.view == *view)?;
        Some(self.0.remove(place))
    }

    /// All but the first so many of those that were counted as gone are there again.
    pub(super) fn put_back(&mut self, gone: usize) {
        let kept = std::mem::take(&mut self.0).into_iter();
        self.0 = kept.filter_map(|kinds| kinds.after_putting_back(gone)).collect();
    }
}

/// The kinds that give one thing, those of each queue by how much, the most first.
type Givers = Rc<[Vec<(i64, usize)>]>;

/// All kinds of pods that may be taken back, and what was found of them. What goes over all of them costs a step for each.
pub(super) struct Kinds {
    view: View,
    all: Vec<Kind>,
    /// How many pods were counted as gone when they were found.
    gone: usize,
    most_charged: HashMap<Wanted, i64>,
    most_requested: HashMap<Dimension, i64>,
    givers: HashMap<Wanted, Givers>,
    in_order: HashMap<Box<[Wanted]>, InOrder>,
}

/// Pods by rank, be they candidates or not, as many as somebody has drawn.
struct InOrder {
    drawn: Vec<Turn>,
    /// The first of each kind that was not drawn.
    heads: BTreeMap<Turn, usize>,
}

impl Kinds {
    /// All that are seen from there, as long as so many pods are counted as gone.
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

    /// What holds of them when all but the first so many of those that were counted as gone are there again: none where some of these were gone
    /// when they were found. Who was drawn in which order may have left some out.
    pub(super) fn after_putting_back(mut self, gone: usize) -> Option<Self> {
        self.in_order.clear();
        (self.gone <= gone).then_some(self)
    }

    pub(super) fn get(&self, kind: usize) -> &Kind {
        &self.all[kind]
    }

    /// The most that one pod gives of this; 0 where nobody gives any.
    pub(super) fn most_charged(&mut self, wanted: Wanted, effort: &Effort) -> i64 {
        let all = &self.all;
        *self.most_charged.entry(wanted).or_insert_with(|| {
            effort.spend(all.len());
            all.iter().map(|kind| kind.gives(wanted)).max().unwrap_or(0)
        })
    }

    /// The most that one pod gives of this on its node.
    pub(super) fn most_requested(&mut self, dimension: Dimension, effort: &Effort) -> i64 {
        let all = &self.all;
        *self.most_requested.entry(dimension).or_insert_with(|| {
            effort.spend(all.len());
            let requested = all.iter().map(|kind| kind.held.1.get(dimension));
            requested.max().unwrap_or(0).max(0)
        })
    }

    /// Of each queue whose pods give this, how much of it one pod of each kind gives.
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

    /// The pod of this place by rank, candidate or not, of those that give any of what is `wanted`; of all, where nothing is.
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
