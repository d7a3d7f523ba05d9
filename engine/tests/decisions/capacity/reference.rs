//! Whole-cluster admission under `capacity`, beside a reference that knows nothing of ledgers: before each admission it
//! counts everything anew from pods, queues and nodes by the document's formulas, finds every pod that may be let in now, and
//! whose turn it is. The engine lets in that one, and nobody when there is none.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use engine::decide::{Action, decide};
use proptest::prelude::*;

use super::properties::{CARDS, NODES, QUEUES, Says, Step, cases, name, says, show, steps};
use super::worker;
use crate::world::{Object, World, capacity, node};

/// CPU of a node in cores, which is also its memory in units of what one pod asks for: no pod lacks either.
const CORES: i128 = 64;

#[derive(Debug, Clone)]
struct Worker {
    queue: usize,
    cards: i128,
    /// The node that it has room on.
    on: Option<usize>,
}

/// What the API server would show.
#[derive(Debug, Default)]
struct Reference {
    hierarchy: bool,
    overuse: bool,
    says: Vec<Says>,
    ready: Vec<bool>,
    /// By order of arrival.
    workers: BTreeMap<usize, Worker>,
}

/// What is counted: cards by name, devices by resource, or pods for CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Of {
    Cards,
    Devices,
    Pods,
}

/// A fraction: compared by cross products; something of nothing is more than any.
type Fraction = (i128, i128);

fn compare(a: Fraction, b: Fraction) -> Ordering {
    match (a.0 > 0 && a.1 == 0, b.0 > 0 && b.1 == 0) {
        (false, false) => (a.0 * b.1.max(1)).cmp(&(b.0 * a.1.max(1))),
        (over, other) => over.cmp(&other),
    }
}

impl Reference {
    fn parent(&self, queue: usize) -> Option<usize> {
        self.says[queue]
            .parent
            .filter(|parent| self.hierarchy && *parent < queue)
    }

    fn children(&self, parent: Option<usize>) -> impl Iterator<Item = usize> + '_ {
        (0..QUEUES).filter(move |queue| self.parent(*queue) == parent)
    }

    /// From the queue upwards.
    fn path(&self, queue: usize) -> Vec<usize> {
        std::iter::successors(Some(queue), |queue| self.parent(*queue)).collect()
    }

    fn amount(of: Of, worker: &Worker) -> i128 {
        if of == Of::Pods { 1 } else { worker.cards }
    }

    /// What pods have in a queue and below it, or in all.
    fn allocated(&self, queue: Option<usize>, of: Of) -> i128 {
        let there = self.workers.values().filter(|worker| worker.on.is_some());
        let there = there.filter(|worker| queue.is_none_or(|queue| self.path(worker.queue).contains(&queue)));
        there.map(|worker| Self::amount(of, worker)).sum()
    }

    /// What they have and ask for.
    fn request(&self, queue: usize, of: Of) -> i128 {
        let all = self.workers.values();
        let all = all.filter(|worker| self.path(worker.queue).contains(&queue));
        all.map(|worker| Self::amount(of, worker)).sum()
    }

    /// `guarantee` is said of cards alone.
    fn guarantee(&self, queue: usize, of: Of) -> i128 {
        if of == Of::Cards {
            self.says[queue].guarantee.into()
        } else {
            0
        }
    }

    fn guaranteed(&self, queue: usize, of: Of) -> i128 {
        let below: i128 = self.children(Some(queue)).map(|child| self.guaranteed(child, of)).sum();
        below.max(self.guarantee(queue, of))
    }

    /// What must not be given to others on the account of the queues below a parent, or below the cluster.
    fn held_below(&self, parent: Option<usize>) -> i128 {
        let own = self.workers.values();
        let own = own.filter(|worker| worker.on.is_some() && Some(worker.queue) == parent);
        let own: i128 = own.map(|worker| worker.cards).sum();
        let held = |child| self.held_below(Some(child)).max(self.guarantee(child, Of::Cards));
        own + self.children(parent).map(held).sum::<i128>()
    }

    fn total(&self, of: Of) -> i128 {
        let of_node = |index: usize| {
            let there = self.workers.values().filter(|worker| worker.on == Some(index));
            let used: i128 = there.map(|worker| Self::amount(of, worker)).sum();
            let offered = if of == Of::Pods { CORES } else { CARDS.into() };
            if self.ready[index] { used.max(offered) } else { used }
        };
        (0..NODES).map(of_node).sum()
    }

    fn capability(&self, queue: usize, of: Of) -> Option<i128> {
        self.says[queue].capability.filter(|_| of == Of::Cards).map(Into::into)
    }

    /// `realCapability = min(capability, total - sum of other queues' guarantees)`.
    fn real_capability(&self, queue: usize, of: Of) -> i128 {
        let parent = self.parent(queue);
        let available = parent.map_or_else(|| self.total(of), |parent| self.real_capability(parent, of));
        let others = self.children(parent).filter(|other| *other != queue);
        let others: i128 = others.map(|other| self.guaranteed(other, of)).sum();
        let left = (available - others).max(self.guaranteed(queue, of)).max(0);
        self.capability(queue, of)
            .map_or(left, |capability| capability.min(left))
    }

    fn said(&self, queue: usize, of: Of) -> Option<i128> {
        self.says[queue].deserved.filter(|_| of == Of::Cards).map(Into::into)
    }

    fn deserved(&self, queue: usize, of: Of) -> i128 {
        let wanted = self.said(queue, of).unwrap_or_else(|| self.request(queue, of));
        wanted
            .max(self.guaranteed(queue, of))
            .min(self.real_capability(queue, of))
    }

    fn share(&self, queue: usize) -> Fraction {
        let of = [Of::Cards, Of::Devices, Of::Pods].into_iter();
        let shares = of.map(|of| (self.allocated(Some(queue), of), self.deserved(queue, of)));
        let shares = shares.map(|(used, limit)| if used == 0 { (0, 1) } else { (used, limit) });
        shares.max_by(|a, b| compare(*a, *b)).unwrap()
    }

    /// The most cards that a queue may have now.
    fn limit(&self, queue: usize) -> Option<i128> {
        let capability = self.capability(queue, Of::Cards);
        let capped = self.said(queue, Of::Cards).filter(|_| !self.overuse);
        let capped = capped.map(|_| self.deserved(queue, Of::Cards));
        capability.into_iter().chain(capped).min()
    }

    /// Whether a waiting pod may be let in: some node has room, and with it every level from its queue to the cluster is
    /// within what it may have, what is kept free for others included.
    fn may(&mut self, id: usize) -> bool {
        let Worker { queue, cards, .. } = self.workers[&id];
        if self.children(Some(queue)).next().is_some() {
            return false;
        }
        let has_room = |index: &usize| {
            let there = self.workers.values().filter(|worker| worker.on == Some(*index));
            let used: i128 = there.map(|worker| worker.cards).sum();
            self.ready[*index] && used + cards <= CARDS.into()
        };
        let Some(on) = (0..NODES).find(has_room) else {
            return false;
        };
        let limits: Vec<_> = self
            .path(queue)
            .into_iter()
            .map(|level| (Some(level), self.limit(level)))
            .collect();
        let total = self.total(Of::Cards);
        let levels: Vec<_> = limits.into_iter().chain([(None, Some(total))]).collect();
        let before: Vec<_> = levels.iter().map(|(level, _)| self.held_below(*level)).collect();
        self.workers.get_mut(&id).unwrap().on = Some(on);
        let is_allowed = levels.iter().zip(before).all(|((level, limit), before)| {
            let (has, holds) = (self.allocated(*level, Of::Cards), self.held_below(*level));
            limit.is_none_or(|limit| has <= limit && (holds == before || holds <= limit))
        });
        self.workers.get_mut(&id).unwrap().on = None;
        is_allowed
    }

    /// Which of two queues goes first: the ancestors of theirs that stand side by side are compared.
    fn order(&self, a: usize, b: usize) -> Ordering {
        let (mut a, mut b) = (self.path(a), self.path(b));
        while a.last() == b.last() && a.len() > 1 && b.len() > 1 {
            a.pop();
            b.pop();
        }
        let (a, b) = (a[a.len() - 1], b[b.len() - 1]);
        let priority = self.says[b].priority.cmp(&self.says[a].priority);
        let share = || compare(self.share(a), self.share(b));
        priority.then_with(share).then(a.cmp(&b))
    }

    /// The pod whose turn it is.
    fn next(&mut self) -> Option<usize> {
        let waiting: Vec<_> = self
            .workers
            .iter()
            .filter(|(_, worker)| worker.on.is_none())
            .map(|(id, _)| *id)
            .collect();
        let allowed: Vec<_> = waiting.into_iter().filter(|id| self.may(*id)).collect();
        allowed.into_iter().min_by(|a, b| {
            let queues = self.order(self.workers[a].queue, self.workers[b].queue);
            queues.then(a.cmp(b))
        })
    }
}

struct Run {
    world: World,
    reference: Reference,
    pods: BTreeMap<usize, Object>,
}

impl Run {
    fn new(says: Vec<Says>, hierarchy: bool, overuse: bool) -> Self {
        let arguments = format!("guaranteeThreshold: 100, enableHierarchy: {hierarchy}, enableOveruse: {overuse}");
        let mut run = Self {
            world: World::with(capacity("enqueue, allocate, backfill", &arguments)),
            reference: Reference {
                hierarchy,
                overuse,
                ready: vec![true; NODES],
                ..Reference::default()
            },
            pods: BTreeMap::new(),
        };
        (0..NODES).for_each(|index| run.node(index, true));
        for (queue, says) in says.into_iter().enumerate() {
            run.world.queue(&show(queue, &says));
            run.reference.says.push(says);
        }
        run
    }

    fn node(&mut self, index: usize, ready: bool) {
        let node = node(&format!("n{index}")).cards("A", CARDS).offers("pods", "1000");
        self.world.node(&if ready { node } else { node.not_ready() });
        self.reference.ready[index] = ready;
    }

    fn take(&mut self, step: &Step) {
        match step {
            Step::Come(queue, count, cards) => {
                for _ in 0..*count {
                    let id = self.pods.len();
                    let uid = format!("p{id}");
                    let pod = worker(&name(*queue), 0).asks("A", *cards).uid(&uid);
                    let pod = pod.set(["metadata", "name"], uid);
                    self.world.pod(&pod);
                    self.pods.insert(id, pod);
                    let worker = Worker {
                        queue: *queue,
                        cards: i128::from(*cards),
                        on: None,
                    };
                    self.reference.workers.insert(id, worker);
                }
            }
            Step::Go(queue, count) => {
                let running = self.reference.workers.iter();
                let running = running.filter(|(_, worker)| worker.queue == *queue && worker.on.is_some());
                for id in running.map(|(id, _)| *id).take(*count).collect::<Vec<_>>() {
                    self.world.remove_pod(&format!("p{id}"));
                    self.reference.workers.remove(&id);
                }
            }
            Step::Change(queue, says) => {
                self.world.queue(&show(*queue, says));
                self.reference.says[*queue] = says.clone();
            }
            Step::Node(index, ready) => self.node(*index, *ready),
        }
    }

    /// Admissions one by one, until there are no more.
    fn settle(&mut self) {
        loop {
            let expected = self.reference.next();
            let actions = decide(&mut self.world.cluster, self.world.now, 1).actions;
            let admitted = match &actions[..] {
                [] => None,
                [Action::Admit(admission)] => Some(admission.pod.uid[1..].parse().unwrap()),
                other => panic!("{other:?}"),
            };
            assert_eq!(admitted, expected, "{:#?}", self.reference);
            let Some(id) = admitted else { return };
            let room = self.world.known(&format!("p{id}")).room.unwrap();
            let on = self.world.cluster.node(room).name.to_string();
            self.world.confirm(&format!("p{id}"));
            self.world.pod(&self.pods[&id].clone().assigned("A").on(&on));
            self.reference.workers.get_mut(&id).unwrap().on = Some(on[1..].parse().unwrap());
        }
    }
}

proptest! {
    #![proptest_config(cases(128))]

    #[test]
    fn whoever_is_let_in_may_be_and_comes_first(
        says in prop::collection::vec(says(true), QUEUES),
        steps in steps(true, 3),
        hierarchy in any::<bool>(),
        overuse in prop::bool::weighted(0.7),
    ) {
        let mut run = Run::new(says, hierarchy, overuse);
        for step in &steps {
            run.take(step);
            run.settle();
        }
    }
}
