//! Finds the cheapest set of pods to take back that gives what is missing.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashSet};

use crds::keys::{MGPU_CORE, MGPU_MEMORY};
use jiff::Timestamp;

use super::Modes;
use super::candidacy::Rank;
use super::draw::Draw;
use super::kinds::{Kept, Kinds};
use super::needs::{Lack, Need, Place, missing_at_levels};
use super::victims::{Victims, gang_of, pods_for};
use crate::alternative::Alternative;
use crate::amounts::Dimension;
use crate::cluster::Cluster;
use crate::cluster::compared::Supplier;
use crate::cluster::device_room::provided_to;
use crate::cluster::waiting::Shape;
use crate::decide::effort::Effort;
use crate::decide::mgpu::WithoutSome;
use crate::decide::{cross_quota, fit};
use crate::ids::{NodeId, PodId, QueueId, WorkloadId};
use crate::policies::mgpu::STEPS;
use crate::policies::reclaim::{Candidate, cost, select};

/// How many candidates beside those on a node are considered for what is missing elsewhere than on the node.
const ELSEWHERE: usize = 64;

/// What a set of candidates costs; less is better. In this order: the highest priority in the set, the number of its pods, and
/// their ranks, the dearest first.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Cost(Option<i32>, usize, Vec<Rank>);

/// A set and what it costs. The set is given by the places of its candidates, the dearest first.
type Priced = (Cost, Vec<usize>);

/// Which candidates are taken back, and for what.
pub(super) struct Plan {
    cost: Cost,
    /// The candidates, the dearest first.
    pub(super) set: Vec<usize>,
    /// The dimensions that are missing.
    pub(super) missing: Vec<Dimension>,
}

impl Plan {
    fn of((cost, set): Priced, lack: &Lack<'_>) -> Self {
        let needs = lack.needs.iter().map(|(_, dimension, _)| dimension);
        let missing = needs.chain(lack.of_cards).copied().collect();
        Self { cost, set, missing }
    }
}

/// What waiting pods must have in common so that the same candidates may be taken back for them.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Key {
    /// Their queue. Which pods are of the same queue, and which queues borrow from it, depends on it.
    queue: QueueId,
    /// Pods of the same queue may be taken back below this priority.
    priority: i32,
    /// Their own gang: it is not taken back for one of its own pods.
    gang: Option<WorkloadId>,
    /// The dimensions that they ask for.
    dimensions: Vec<Dimension>,
}

impl Key {
    /// Returns the key for pods of this shape, which ask for these dimensions.
    pub(super) fn new(cluster: &Cluster, shape: &Shape, dimensions: impl Iterator<Item = Dimension>) -> Self {
        let dimensions: BTreeSet<_> = dimensions.collect();
        Self {
            queue: shape.queue,
            priority: shape.preempts_below(),
            gang: gang_of(cluster, shape),
            dimensions: dimensions.into_iter().collect(),
        }
    }

    /// Whether the two keys differ in nothing but their gang.
    fn is_alike_but_for_gang(&self, other: &Self) -> bool {
        (self.queue, self.priority) == (other.queue, other.priority) && self.dimensions == other.dimensions
    }
}

/// The pods that may be taken back for waiting pods with this key.
pub(super) struct Pool {
    pub(super) key: Key,
    victims: Victims,
    /// How many pods were taken back and how many let in when the pool was found: it shows what others had at that point.
    found_at: FoundAt,
}

/// How many pods were taken back, and how many were let in, in a look.
pub(super) type FoundAt = (usize, usize);

/// The question which candidates make room for one pod.
struct Question<'a> {
    cluster: &'a Cluster,
    shape: &'a Shape,
    alternative: Option<&'a Alternative>,
    /// What is missing in the pod's queue and above it.
    levels: Vec<Need>,
    /// The first candidates that give any of that.
    elsewhere: Vec<usize>,
    /// What the pod asks of the quotas of GPU nodes, where these decide.
    quotas: Option<Vec<i64>>,
    /// The question to the cards of nodes, where the pod asks for shares of cards (mGPU).
    cards: Option<WithoutSome<'a>>,
    /// Shares count as missing all together: compute may be free on one card, and memory on another. So do the cards that claims
    /// ask for: the free device may not be the right one.
    of_cards: Vec<Dimension>,
    effort: &'a Effort,
}

impl Question<'_> {
    /// Returns what is missing wherever the pod goes.
    fn above(&self) -> Lack<'_> {
        Lack {
            cluster: self.cluster,
            needs: &self.levels,
            of_cards: &[],
            node: None,
        }
    }

    /// Whether the cards and devices of a node have room for the pod without these other pods.
    fn fits(&self, node: NodeId, without: &[PodId]) -> bool {
        let devices_suffice = || {
            let node = self.cluster.node(node);
            let task = &self.shape.task;
            // Takes the steps that all nodes share: this is asked about one node as often as there are sets of pods on it.
            self.effort.share(STEPS, |steps| {
                self.cluster
                    .devices_suffice(task, self.alternative, node, without, steps)
            })
        };
        self.cards.as_ref().is_none_or(|cards| cards.fits(node, without))
            && (self.shape.task.claimed.is_none() || devices_suffice())
    }

    /// Returns which shares or cards a node has too little of, where it lacks what is `missing`. Where some cards are too few in
    /// number, only these cards count, besides the shares.
    fn of_cards_on(&self, missing: &[Need]) -> Cow<'_, [Dimension]> {
        let is_card = |dimension: &&Dimension| dimension.card().is_some();
        let is_short = |card: &&Dimension| is_card(card) && missing.iter().any(|(_, missing, _)| missing == *card);
        if !self.of_cards.iter().any(|card| is_short(&card)) {
            return Cow::Borrowed(&self.of_cards);
        }
        let asked = self.of_cards.iter();
        Cow::Owned(
            asked
                .filter(|asked| !is_card(asked) || is_short(asked))
                .copied()
                .collect(),
        )
    }

    fn could_take(&self, node: NodeId) -> bool {
        self.cards.as_ref().is_none_or(|cards| cards.could_take(node))
    }

    /// Returns what the pod lacks on a node: of the node itself, and of its quota for pods without GPU. None where the pod could
    /// not go there whatever came free.
    fn missing_on(&self, node: NodeId) -> Option<Vec<Need>> {
        let lacking = fit::lacking(self.cluster, self.shape, self.alternative, node)?;
        let of_node = lacking.into_iter().map(|(dimension, part)| {
            let place = match part.supplier {
                Supplier::Plugin => Place::Plugin,
                Supplier::Node | Supplier::Devices => Place::Node,
            };
            (place, dimension, part.missing())
        });
        let quotas = self.quotas.as_ref();
        let lacking = quotas.map_or(Some(Vec::new()), |asked| {
            cross_quota::lacking(self.cluster, asked, node)
        })?;
        let of_quotas = lacking.into_iter();
        let of_quotas = of_quotas.map(|(dimension, amount)| (Place::NodeQuota, dimension, amount));
        Some(of_node.chain(of_quotas).collect())
    }

    /// Returns whether some node has room for the pod as it is, and the other nodes that could take it. With each of these stands
    /// how many pods at least have to go; the nodes where the fewest have to go come first.
    fn survey(&self, most: &BTreeMap<Dimension, i64>) -> (bool, Vec<(usize, NodeId)>) {
        let (mut has_room, mut others) = (false, Vec::new());
        for node in fit::nodes_for(self.cluster, self.alternative) {
            if self.effort.is_spent() {
                break;
            }
            self.effort.look_at_node(self.shape);
            if !self.could_take(*node) {
                continue;
            }
            let Some(missing) = self.missing_on(*node) else {
                continue;
            };
            if missing.is_empty() && self.fits(*node, &[]) {
                has_room = true;
                continue;
            }
            // Where nobody gives what the node lacks, its pods need not be looked at.
            let pods = missing.iter();
            let pods = pods.map(|(_, dimension, amount)| pods_for(*amount, most.get(dimension).copied()));
            if let Some(pods) = pods.collect::<Option<Vec<_>>>() {
                others.push((pods.into_iter().max().unwrap_or(1), *node));
            }
        }
        others.sort_unstable();
        (has_room, others)
    }
}

impl Pool {
    /// Collects the pods that may be taken back for a pod of this shape, whichever of the key's dimensions it lacks.
    pub(super) fn new(
        cluster: &Cluster,
        shape: &Shape,
        key: Key,
        at: (Modes, Timestamp),
        found_at: FoundAt,
        effort: &Effort,
    ) -> Self {
        let victims = Victims::new(cluster, shape, &key.dimensions, at, found_at.0, effort);
        Self { key, victims, found_at }
    }

    /// Whether the pool also serves waiting pods with this key, so that not each gang costs a look at all queues. It does where
    /// nothing but their gang differs and others have what they had when the pool was found.
    pub(super) fn serves_another_gang(&self, key: &Key, at: FoundAt) -> bool {
        self.found_at == at && self.key.is_alike_but_for_gang(key)
    }

    /// Turns the pool into one for pods of another gang.
    pub(super) fn of_another_gang(self, key: Key) -> Self {
        Self {
            victims: self.victims.of_another_gang(key.gang, self.found_at.0),
            key,
            found_at: self.found_at,
        }
    }

    /// Returns the kinds of pods that were found, for other pools with the same view.
    pub(super) fn into_kinds(self) -> Option<Kinds> {
        self.victims.into_kinds()
    }

    /// Takes over the kinds that another pool with the same view has found.
    pub(super) fn know(&mut self, kept: &mut Kept) {
        self.victims.know(kept);
    }

    /// Marks these pods as gone.
    pub(super) fn note_gone(&mut self, gone: &[PodId]) {
        self.victims.note_gone(gone);
    }

    /// Whether both pools are for the same pods and of the same queues.
    pub(super) fn is_alike(&self, other: &Self) -> bool {
        self.key == other.key && self.victims.are_of_queues_of(&other.victims)
    }

    /// Returns the pods of candidates.
    pub(super) fn pods(&self, places: &[usize]) -> Vec<PodId> {
        self.victims.pods(places)
    }

    /// Takes candidates out of the pool, and returns their pods.
    pub(super) fn take(&mut self, places: &[usize]) -> Vec<PodId> {
        self.victims.take(places)
    }

    /// Returns the cheapest set for any node.
    pub(super) fn cheapest(
        &mut self,
        cluster: &Cluster,
        shape: &Shape,
        alternative: Option<&Alternative>,
        asked: &[(Dimension, i128)],
        effort: &Effort,
    ) -> Option<Plan> {
        let levels = missing_at_levels(cluster, shape.queue, asked);
        let fewest = self.victims.fewest(cluster, &levels, effort)?.max(1);
        let (elsewhere, are_all) = self.elsewhere(cluster, &levels, effort);
        let requested = shape.task.request_with(alternative).iter();
        let requested = requested.map(|(dimension, _)| dimension);
        let shares = requested.filter(|dimension| is_share(cluster, *dimension));
        let claims = shape.task.claimed.is_some();
        let cards = alternative.into_iter().flat_map(Alternative::cards);
        let claimed = cards.map(Dimension::Card).filter(|_| claims);
        // A pod that is charged for no card gets any of those that classes provide as what it requests.
        let provided = provided_to(&shape.task).filter(|_| alternative.is_none());
        let provided = provided.map(|(resource, _)| Dimension::Resource(resource));
        let mut question = Question {
            cluster,
            shape,
            alternative,
            levels,
            elsewhere,
            quotas: cross_quota::asked(cluster, shape),
            cards: WithoutSome::of(cluster, shape, effort),
            of_cards: claimed.chain(provided).chain(shares).collect(),
            effort,
        };
        let plan = self.cheapest_for(&question, fewest);
        if plan.is_some() || are_all || effort.is_spent() {
            return plan;
        }
        question.elsewhere = self.most_elsewhere(&question);
        self.cheapest_for(&question, fewest)
    }

    /// Returns the cheapest set for any node, where at least `fewest` pods have to go.
    fn cheapest_for(&mut self, question: &Question<'_>, fewest: usize) -> Option<Plan> {
        let Question { cluster, effort, .. } = *question;
        let above = question.above();
        let for_all = |pool: &Self| pool.cheapest_of(&question.elsewhere, above, &|_| true, effort);
        let asks_nodes = || cross_quota::asks_nodes(cluster, question.shape, question.alternative, effort);
        if question.cards.is_none() && !asks_nodes() {
            return Some(Plan::of(for_all(self)?, &above));
        }
        let mut best: Option<Plan> = None;
        let most_on_node = self.victims.most_on_node(cluster, &self.key.dimensions, effort);
        let (has_room, others) = question.survey(&most_on_node);
        // Whichever of these nodes the pod goes to, the same is missing elsewhere.
        if has_room {
            keep_cheaper(&mut best, for_all(self), &above);
        }
        let mut looked_at = HashSet::new();
        let mut others = others.into_iter().peekable();
        // Each node comes up with the first of its pods by rank. When all nodes together have cost what they may, the best set so
        // far is returned, or none.
        for place in 0.. {
            let kinds = self.victims.kinds(cluster);
            let Some(turn) = kinds.turn(cluster, &[], place, effort).cloned() else {
                break;
            };
            effort.spend(1);
            // On the remaining nodes, no set can be cheaper than this pod with as many pods as it takes there.
            let beats = |best: &Plan, pods: usize| {
                let bound = Cost(Some(turn.priority), fewest.max(pods), vec![Rank::of(&turn)]);
                best.cost <= bound
            };
            while let Some((pods, node)) = others.peek().copied()
                && !effort.is_spent()
            {
                // A node where fewer pods would do than in the best set so far is looked at now, and not only when all others
                // have come up.
                let is_fewer = |best: &Plan| fewest.max(pods) < best.cost.1 && !beats(best, pods);
                if !looked_at.contains(&node) && !best.as_ref().is_some_and(is_fewer) {
                    break;
                }
                others.next();
                if looked_at.insert(node) {
                    self.look_at(question, node, &mut best);
                }
            }
            let is_beaten = |(pods, _): &(usize, NodeId)| best.as_ref().is_some_and(|best| beats(best, *pods));
            if effort.is_spent() || others.peek().is_none_or(is_beaten) {
                break;
            }
            let node = cluster.pod(turn.pod).and_then(|pod| pod.room);
            if let Some(node) = node.filter(|node| looked_at.insert(*node)) {
                self.look_at(question, node, &mut best);
            }
        }
        best
    }

    /// Returns the first candidates that give any of what is missing in the queue and above it, and whether these are all that
    /// do.
    fn elsewhere(&mut self, cluster: &Cluster, levels: &[Need], effort: &Effort) -> (Vec<usize>, bool) {
        let mut found = Vec::new();
        if levels.is_empty() {
            return (found, true);
        }
        let mut draw = Draw::new(cluster, levels, effort);
        while found.len() < ELSEWHERE {
            let Some(place) = draw.next(&mut self.victims) else {
                return (found, true);
            };
            let candidate = self.victims.get(place);
            if levels.iter().any(|need| candidate.gives(need, None) > 0) {
                found.push(place);
            }
        }
        (found, false)
    }

    /// Adds the candidates that give most of what is missing in the queue and above it, for when the first candidates do not
    /// suffice. Otherwise many small pods that rank before them would hide them for ever.
    fn most_elsewhere(&mut self, question: &Question<'_>) -> Vec<usize> {
        let mut places = question.elsewhere.clone();
        places.extend(self.victims.who_give_most(&question.above(), question.effort));
        self.victims.sort(&mut places);
        places
    }

    /// Finds the cheapest set for a node, and keeps it where it is better than the best so far.
    fn look_at(&mut self, question: &Question<'_>, node: NodeId, best: &mut Option<Plan>) {
        let Question { cluster, effort, .. } = *question;
        effort.look_at_node(question.shape);
        if !question.could_take(node) {
            return;
        }
        let Some(missing) = question.missing_on(node) else {
            return;
        };
        let fits = |without: &[PodId]| question.fits(node, without);
        let cards_fit = fits(&[]);
        if missing.is_empty() && cards_fit {
            return;
        }
        let of_cards = question.of_cards_on(&missing);
        if !cards_fit && of_cards.is_empty() {
            // The missing devices are no cards, so no pod can be made to give them back.
            return;
        }
        let needs: Vec<Need> = question.levels.iter().copied().chain(missing).collect();
        let lack = Lack {
            cluster,
            needs: &needs,
            of_cards: if cards_fit { &[] } else { &of_cards },
            node: Some(node),
        };
        let mut places = self.victims.on_node(cluster, node, effort);
        places.extend(&question.elsewhere);
        self.victims.sort(&mut places);
        let cost = self.cheapest_of(&places, lack, &fits, effort);
        keep_cheaper(best, cost, &lack);
    }

    /// Returns the cheapest set of these candidates that gives all that is missing, and without which the pod `fits`.
    fn cheapest_of(
        &self,
        places: &[usize],
        lack: Lack<'_>,
        fits: &dyn Fn(&[PodId]) -> bool,
        effort: &Effort,
    ) -> Option<Priced> {
        let useful = places.iter().filter_map(|place| {
            let candidate = self.victims.get(*place);
            let amounts = lack
                .needs
                .iter()
                .map(|need| candidate.gives(need, lack.node))
                .enumerate();
            let gives: Vec<_> = amounts.filter(|(_, amount)| *amount > 0).collect();
            let gives_cards = !lack.of_cards.is_empty() && candidate.gives_cards_on(lack.node);
            if (!gives_cards && gives.is_empty()) || !candidate.is_due(&lack) {
                return None;
            }
            let of_policy = Candidate {
                priority: candidate.rank.priority,
                pods: candidate.members.len(),
                gives,
                takes: candidate.takes.clone(),
                apart: gives_cards.then_some(*place),
            };
            Some((*place, of_policy))
        });
        let (places, useful): (Vec<_>, Vec<_>) = useful.unzip();
        let numbers: Vec<_> = lack.needs.iter().map(|(.., amount)| *amount).collect();
        let slack = self.victims.slack().iter();
        let slack: Vec<_> = slack.map(|slack| slack.when(&lack)).collect();
        let suffices = |set: &[usize]| {
            lack.of_cards.is_empty() || {
                let set: Vec<_> = set.iter().map(|index| places[*index]).collect();
                fits(&self.pods(&set))
            }
        };
        let set = select(&numbers, &slack, &useful, &suffices, effort.common())?;
        let (priority, pods, dearest_first) = cost(&set, &useful);
        let set: Vec<_> = dearest_first.into_iter().map(|index| places[index]).collect();
        let ranks = set.iter().map(|place| self.victims.get(*place).rank.clone());
        Some((Cost(priority, pods, ranks.collect()), set))
    }
}

/// Whether cards are shared by this dimension.
pub(super) fn is_share(cluster: &Cluster, dimension: Dimension) -> bool {
    let resource = dimension
        .resource()
        .map(|resource| cluster.names().resource_name(resource));
    resource.is_some_and(|resource| [MGPU_CORE, MGPU_MEMORY].contains(&resource))
}

fn keep_cheaper(best: &mut Option<Plan>, priced: Option<Priced>, lack: &Lack<'_>) {
    if let Some(priced) = priced
        && best.as_ref().is_none_or(|best| priced.0 < best.cost)
    {
        *best = Some(Plan::of(priced, lack));
    }
}
