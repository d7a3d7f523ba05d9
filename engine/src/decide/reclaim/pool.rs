//! The cheapest of those who may be taken back that give what is missing.

use std::collections::BTreeMap;

use crds::configuration::AdmitOn;
use crds::keys::{MGPU_CORE, MGPU_MEMORY};
use jiff::Timestamp;

use super::Modes;
use super::needs::{Lack, Need, Place, missing_at_levels};
use super::victims::{Candidacy, Member, Slack, candidates};
use crate::amounts::Dimension;
use crate::cluster::Cluster;
use crate::cluster::waiting::Shape;
use crate::decide::effort::Effort;
use crate::decide::fit;
use crate::decide::mgpu::WithoutSome;
use crate::ids::{NodeId, PodId};
use crate::names::CardId;
use crate::policies::reclaim::{Candidate, cost, select};

/// How many pods beside those on a node are considered for what is missing elsewhere than on the node.
const ELSEWHERE: usize = 64;

/// The highest priority in a set, how many pods it is, and the set itself, by ranks.
type Cost = (Option<i32>, usize, Vec<usize>);

/// Who is taken back, and for what.
pub(super) struct Plan {
    cost: Cost,
    /// The dimensions that are missing.
    pub(super) missing: Vec<Dimension>,
}

impl Plan {
    fn of(cost: Cost, lack: &Lack<'_>) -> Self {
        let needs = lack.needs.iter().map(|(_, dimension, _)| dimension);
        let missing = needs.chain(lack.of_cards).copied().collect();
        Self { cost, missing }
    }

    /// Who, by rank.
    pub(super) fn ranks(&self) -> &[usize] {
        &self.cost.2
    }
}

/// Who may be taken back for pods of one priority that ask for the same dimensions.
pub(super) struct Pool {
    pub(super) key: (i32, Vec<Dimension>),
    /// By rank.
    candidates: Vec<Candidacy>,
    /// What those that they are part of have beyond what they must keep.
    slack: Vec<Slack>,
    by_node: BTreeMap<NodeId, Vec<usize>>,
}

impl Pool {
    /// Whoever may be taken back for a pod of this shape, whichever of the dimensions of the key it lacks.
    pub(super) fn new(
        cluster: &Cluster,
        shape: &Shape,
        key: (i32, Vec<Dimension>),
        modes: Modes,
        now: Timestamp,
    ) -> Self {
        let mut slack = Vec::new();
        let candidates = candidates(cluster, shape, &key.1, modes, now, &mut slack);
        let mut by_node: BTreeMap<NodeId, Vec<usize>> = BTreeMap::new();
        for (rank, candidate) in candidates.iter().enumerate() {
            for node in candidate.members.iter().filter_map(|member| member.node) {
                let ranks = by_node.entry(node).or_default();
                if ranks.last() != Some(&rank) {
                    ranks.push(rank);
                }
            }
        }
        Self {
            key,
            candidates,
            slack,
            by_node,
        }
    }

    /// The pods of candidates.
    pub(super) fn pods(&self, ranks: &[usize]) -> Vec<PodId> {
        let members = ranks.iter().flat_map(|rank| &self.candidates[*rank].members);
        members.map(|member| member.pod).collect()
    }

    /// Takes candidates out of the pool, and returns their pods.
    pub(super) fn take(&mut self, ranks: &[usize]) -> Vec<PodId> {
        let pods = self.pods(ranks);
        for rank in ranks {
            for (place, amount) in &self.candidates[*rank].takes {
                self.slack[*place].shrink(*amount);
            }
        }
        // A pod of a gang may be there by itself and as part of the whole.
        let is_gone = |member: &Member| pods.contains(&member.pod);
        let gone: Vec<_> = (0..self.candidates.len())
            .filter(|rank| self.candidates[*rank].members.iter().any(is_gone))
            .collect();
        for ranks in self.by_node.values_mut() {
            ranks.retain(|rank| !gone.contains(rank));
        }
        for rank in gone {
            self.candidates[rank].members.clear();
        }
        pods
    }

    /// The cheapest set for any node.
    pub(super) fn cheapest(
        &self,
        cluster: &Cluster,
        shape: &Shape,
        card: Option<CardId>,
        asked: &[(Dimension, i128)],
        effort: &Effort,
    ) -> Option<Plan> {
        let levels = missing_at_levels(cluster, shape.queue, asked);
        let gives_above = |candidate: &Candidacy| levels.iter().any(|need| candidate.gives(need, None) > 0);
        let elsewhere: Vec<_> = (0..self.candidates.len())
            .filter(|rank| gives_above(&self.candidates[*rank]))
            .take(ELSEWHERE)
            .collect();
        let above = Lack {
            cluster,
            needs: &levels,
            of_cards: &[],
            node: None,
        };
        let cards = WithoutSome::of(cluster, shape, effort);
        if cards.is_none() && cluster.configuration().cardgate.admit_on == AdmitOn::Quota {
            let cost = self.cheapest_of(&elsewhere, above, &|_| true, effort)?;
            return Some(Plan::of(cost, &above));
        }
        // Of shares everything is missing together: compute may be free on the one card, and memory on the other.
        let requested = shape.task.request.iter().map(|(dimension, _)| dimension);
        let of_cards: Vec<_> = requested.filter(|dimension| is_share(cluster, *dimension)).collect();
        let first_on = |node: &NodeId| self.by_node.get(node).and_then(|ranks| ranks.first().copied());
        let mut nodes: Vec<_> = fit::nodes_for(cluster, card).to_vec();
        nodes.sort_by_key(|node| first_on(node).unwrap_or(usize::MAX));
        let mut best: Option<Plan> = None;
        let mut has_roomy = false;
        for node in nodes {
            // The best so far, or nobody, when all nodes together have cost what they may.
            if effort.is_spent() {
                break;
            }
            effort.look_at_node(shape);
            // Nobody can do better on this node than its first candidate alone.
            let bound = first_on(&node).map(|first| (Some(self.candidates[first].priority), 1, vec![first]));
            let is_beaten = best.as_ref().zip(bound).is_some_and(|(best, bound)| best.cost <= bound);
            if cards.as_ref().is_some_and(|cards| !cards.could_take(node)) {
                continue;
            }
            let Some(lacking) = fit::lacking(cluster, shape, card, node) else {
                continue;
            };
            let fits = |without: &[PodId]| cards.as_ref().is_none_or(|cards| cards.fits(node, without));
            let cards_fit = fits(&[]);
            if lacking.is_empty() && cards_fit {
                // Whichever node has room, the same is missing elsewhere.
                if !std::mem::replace(&mut has_roomy, true) {
                    let cost = self.cheapest_of(&elsewhere, above, &|_| true, effort);
                    keep_cheaper(&mut best, cost, &above);
                }
                continue;
            }
            let Some(there) = self.by_node.get(&node).filter(|_| !is_beaten) else {
                continue;
            };
            let missing = lacking.into_iter();
            let missing = missing.map(|(dimension, amount)| (Place::Node, dimension, amount));
            let needs: Vec<Need> = levels.iter().copied().chain(missing).collect();
            let lack = Lack {
                cluster,
                needs: &needs,
                of_cards: if cards_fit { &[] } else { &of_cards },
                node: Some(node),
            };
            let mut ranks: Vec<_> = there.iter().chain(&elsewhere).copied().collect();
            ranks.sort_unstable();
            ranks.dedup();
            let cost = self.cheapest_of(&ranks, lack, &fits, effort);
            keep_cheaper(&mut best, cost, &lack);
        }
        best
    }

    /// The cheapest set of these candidates that gives all that is missing, and without which the pod `fits`.
    fn cheapest_of(
        &self,
        ranks: &[usize],
        lack: Lack<'_>,
        fits: &dyn Fn(&[PodId]) -> bool,
        effort: &Effort,
    ) -> Option<Cost> {
        let useful = ranks.iter().filter_map(|rank| {
            let candidate = &self.candidates[*rank];
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
                priority: candidate.priority,
                pods: candidate.members.len(),
                gives,
                takes: candidate.takes.clone(),
                apart: gives_cards.then_some(*rank),
            };
            Some((*rank, of_policy))
        });
        let (ranks, useful): (Vec<_>, Vec<_>) = useful.unzip();
        let numbers: Vec<_> = lack.needs.iter().map(|(.., amount)| *amount).collect();
        let slack: Vec<_> = self.slack.iter().map(|slack| slack.when(&lack)).collect();
        let suffices = |set: &[usize]| {
            lack.of_cards.is_empty() || {
                let members = set.iter().flat_map(|index| &self.candidates[ranks[*index]].members);
                fits(&members.map(|member| member.pod).collect::<Vec<_>>())
            }
        };
        let set = select(&numbers, &slack, &useful, &suffices, effort.common())?;
        let (priority, pods, _) = cost(&set, &useful);
        let mut ranks: Vec<_> = set.into_iter().map(|index| ranks[index]).collect();
        ranks.sort_unstable_by(|a, b| b.cmp(a));
        Some((priority, pods, ranks))
    }
}

/// Whether a dimension is what cards are shared by.
pub(super) fn is_share(cluster: &Cluster, dimension: Dimension) -> bool {
    let resource = dimension
        .resource()
        .map(|resource| cluster.names().resource_name(resource));
    resource.is_some_and(|resource| [MGPU_CORE, MGPU_MEMORY].contains(&resource))
}

fn keep_cheaper(best: &mut Option<Plan>, cost: Option<Cost>, lack: &Lack<'_>) {
    if let Some(cost) = cost
        && best.as_ref().is_none_or(|best| cost < best.cost)
    {
        *best = Some(Plan::of(cost, lack));
    }
}
