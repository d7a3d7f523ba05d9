//! A pod, or several together, that may be taken back: their rank, and what they give.

use std::cmp::Reverse;
use std::rc::Rc;
use std::sync::Arc;

use jiff::Timestamp;

use super::needs::{Lack, Need, Place, is_same};
use super::slack::Slack;
use crate::amounts::{Amounts, Dimension};
use crate::cluster::Cluster;
use crate::cluster::holders::Turn;
use crate::cluster::workload::Workload;
use crate::ids::{NodeId, PodId};

/// The order in which candidates are taken back: lowest priority first, then youngest.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    pub(super) priority: i32,
    pub(super) created: Reverse<Timestamp>,
    pub(super) pods: usize,
    pub(super) uid: Arc<str>,
}

impl Rank {
    /// Returns the rank of a pod by itself.
    pub(super) fn of(turn: &Turn) -> Self {
        Self {
            priority: turn.priority,
            created: turn.created,
            pods: 1,
            uid: Arc::clone(&turn.uid),
        }
    }
}

/// A pod, a whole gang, or all pods that share claims, that may be taken back.
pub(super) struct Candidacy {
    pub(super) rank: Rank,
    /// Its pods; empty once it is taken.
    pub(super) members: Vec<Member>,
    /// The places of its members, sorted by node: a gang may have thousands of pods, and each node is asked what it would get.
    pub(super) by_node: Vec<usize>,
    /// The lowest level above the waiting queue that it is part of.
    pub(super) level: usize,
    pub(super) charged: Vec<(Dimension, i128)>,
    /// What others in the cluster could have of that: nothing where the pod is on a node that takes no pods.
    pub(super) usable: Vec<(Dimension, i128)>,
    /// What it takes from the slack of queues and gangs that must keep some, by the place of the slack.
    pub(super) takes: Vec<(usize, i128)>,
    /// What its queue has more of than it deserves; none where it is of the waiting pod's own queue.
    pub(super) borrowed: Option<Rc<[Dimension]>>,
}

/// One pod of a candidate.
#[derive(Clone)]
pub(super) struct Member {
    pub(super) pod: PodId,
    pub(super) node: Option<NodeId>,
    pub(super) request: Arc<Amounts>,
    /// The same without the cards that its node has as devices alone.
    pub(super) without_devices: Arc<Amounts>,
    /// Whether the pod has shares of cards, or devices.
    pub(super) is_on_cards: bool,
    /// Whether it counts against its node's quota for pods without GPU.
    pub(super) is_without_gpu: bool,
}

impl Candidacy {
    /// Combines these candidates of one queue into one; none where there are none.
    pub(super) fn all_of(members: &[Self]) -> Option<Self> {
        let first = members.first()?;
        let mut all = Self {
            rank: first.rank.clone(),
            members: Vec::new(),
            by_node: Vec::new(),
            level: first.level,
            charged: Vec::new(),
            usable: Vec::new(),
            takes: Vec::new(),
            borrowed: first.borrowed.clone(),
        };
        all.rank.pods = members.len();
        for member in members {
            all.rank.priority = all.rank.priority.max(member.rank.priority);
            all.rank.created = all.rank.created.max(member.rank.created);
            add_up(&mut all.charged, &member.charged);
            add_up(&mut all.usable, &member.usable);
            add_up(&mut all.takes, &member.takes);
            all.members.extend(member.members.iter().cloned());
        }
        all.by_node = (0..all.members.len()).collect();
        all.by_node.sort_by_key(|place| all.members[*place].node);
        Some(all)
    }

    /// Returns its pods on a node.
    fn on(&self, node: Option<NodeId>) -> impl Iterator<Item = &Member> {
        let is_before = |place: &usize| self.members.get(*place).is_some_and(|member| member.node < node);
        let from = self.by_node.partition_point(is_before);
        let members = self.by_node[from..].iter().filter_map(|place| self.members.get(*place));
        members.take_while(move |member| member.node == node)
    }

    /// Returns how much of a dimension its pods on a node give, where `of` returns what each of them gives, if anything.
    fn gives_on<'a>(
        &'a self,
        node: Option<NodeId>,
        dimension: Dimension,
        of: impl Fn(&'a Member) -> Option<&'a Amounts>,
    ) -> i128 {
        let given = self.on(node).filter_map(of);
        given.map(|amounts| i128::from(amounts.get(dimension))).sum()
    }

    /// Returns what it gives of what is missing, where the waiting pod is to go to this node.
    pub(super) fn gives(&self, (place, dimension, _): &Need, node: Option<NodeId>) -> i128 {
        let of = |amounts: &[(Dimension, i128)]| {
            let amount = amounts.iter().find(|(known, _)| known == dimension);
            amount.map_or(0, |(_, amount)| *amount)
        };
        match place {
            _ if self.members.is_empty() => 0,
            Place::Node => self.gives_on(node, *dimension, |member| Some(&member.request)),
            Place::Plugin => self.gives_on(node, *dimension, |member| Some(&member.without_devices)),
            Place::NodeQuota => self.gives_on(node, *dimension, |member| {
                member.is_without_gpu.then_some(&*member.request)
            }),
            Place::Level(level) if self.level <= *level => of(&self.charged),
            Place::Level(_) => 0,
            Place::Cluster => of(&self.usable),
        }
    }

    /// Whether it gives shares of the cards of a node, or devices there.
    pub(super) fn gives_cards_on(&self, node: Option<NodeId>) -> bool {
        self.on(node).any(|member| member.is_on_cards)
    }

    /// Whether it is to give back anything that is missing: its queue must borrow that, and it must be charged for that. What it
    /// is not charged for adds nothing to what its queue has, such as CPU of pods with cards under `cardUnlimitedCpuMemory`.
    pub(super) fn is_due(&self, lack: &Lack<'_>) -> bool {
        let Some(borrowed) = &self.borrowed else { return true };
        let mut needs = lack.needs.iter().filter(|need| self.gives(need, lack.node) > 0);
        let is_charged = |dimension: &&Dimension| {
            self.charged
                .iter()
                .any(|(charged, amount)| charged == *dimension && *amount > 0)
        };
        let borrows = |dimension: Dimension| {
            let mut charged = borrowed.iter().filter(is_charged);
            charged.any(|borrowed| is_same(lack.cluster, *borrowed, dimension))
        };
        needs.any(|(_, dimension, _)| borrows(*dimension))
            || (lack.of_cards.iter().any(|dimension| borrows(*dimension)) && self.gives_cards_on(lack.node))
    }
}

/// Returns how a gang may be taken back: all that it has in the queue, or as many single pods as it has beyond its minimum.
/// `shared` is the first of the places of what it has to spare, in all queues ([`push_surplus`]).
pub(super) fn of_gang(
    cluster: &Cluster,
    workload: &Workload,
    in_queue: usize,
    mut members: Vec<Candidacy>,
    shared: usize,
    slack: &mut Vec<Slack>,
) -> (Option<Candidacy>, Vec<Candidacy>) {
    let (surplus, of_tasks) = workload.surplus();
    // The whole and the single pods both take from this slack, so that not both go.
    let own = slack.len();
    slack.push(Slack::of_pods(count(surplus)));
    // A gang can't go as a whole where something keeps one of its pods in this queue from being evicted. Its pods in other queues
    // do not matter: a user with a pod there would never give anything back.
    let whole = Candidacy::all_of(&members).filter(|_| members.len() == in_queue);
    let whole = whole.map(|mut whole| {
        add_up(&mut whole.takes, &[(own, count(surplus))]);
        whole
    });
    if surplus == 0 {
        members.clear();
    }
    for member in &mut members {
        let task = member
            .members
            .first()
            .and_then(|one| cluster.pod(one.pod)?.task_spec.as_deref());
        let task = of_tasks.iter().position(|(known, _)| Some(&**known) == task);
        let of_task = task.map(|task| (shared + 1 + task, 1));
        member.takes.extend([(own, 1), (shared, 1)]);
        member.takes.extend(of_task);
    }
    (whole, members)
}

/// Adds slack for what a gang has to spare beyond its minimum: one for all of its pods, in all queues, and one more for the pods
/// of each task. Returns the place of the first.
pub(super) fn push_surplus(workload: &Workload, slack: &mut Vec<Slack>) -> usize {
    let (surplus, of_tasks) = workload.surplus();
    let place = slack.len();
    let surpluses = std::iter::once(surplus).chain(of_tasks.into_iter().map(|(_, surplus)| surplus));
    slack.extend(surpluses.map(count).map(Slack::of_pods));
    place
}

fn count(number: usize) -> i128 {
    i128::try_from(number).unwrap_or(i128::MAX)
}

/// Adds each amount to the sum with the same key.
fn add_up<K: PartialEq + Copy>(sums: &mut Vec<(K, i128)>, amounts: &[(K, i128)]) {
    for (key, amount) in amounts {
        match sums.iter_mut().find(|(known, _)| known == key) {
            Some((_, sum)) => *sum += amount,
            None => sums.push((*key, *amount)),
        }
    }
}
