//! The cards of mGPU nodes: what pods hold of each card, read from what is written on the pods.
//!
//! A node's cards are counted anew from its pods whenever one of these changes, and never added to or subtracted from. So
//! nothing can be given back twice, and a restart gives the same counts.

use std::borrow::Cow;
use std::sync::Arc;

use crds::configuration::{Configuration, Enforcement};
use crds::mgpu::ContainerRequest;

use super::Cluster;
use super::node::Node;
use super::pod::{Pod, Stage};
use crate::discovery::MgpuCards;
use crate::ids::{NodeId, PodId};
use crate::policies::mgpu::{CardUse, Cards, first_fit};

/// A container and its cards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    /// The pod that has shares of cards.
    pub pod: PodId,
    /// Which of the pod's containers that ask for mGPU.
    pub container: usize,
    /// The cards of the node, by their index on it.
    pub cards: Vec<u16>,
}

/// Whether pods that ask for shares of cards are pinned to the cards that they get.
pub(super) fn pins(configuration: &Configuration) -> bool {
    configuration.mgpu.enable && configuration.cardgate.enforce_mgpu == Enforcement::Gating
}

impl Cluster {
    /// Returns the nodes that share cards through mGPU, by name.
    pub fn mgpu_nodes(&self) -> &[NodeId] {
        &self.mgpu_nodes
    }

    /// Returns which containers hold which cards of a node.
    pub(crate) fn containers_on_cards(&self, node: NodeId) -> Vec<Placed> {
        let node = self.node(node);
        let offer = node.offer().and_then(|offer| offer.mgpu.as_ref());
        offer.map_or_else(Vec::new, |offer| self.place(node, offer, &[]).0)
    }

    /// Returns what is in use of a node's cards, as if these pods were nowhere. Returns no card where the node shares
    /// none.
    pub(crate) fn gpus_without(&self, id: NodeId, pods: &[PodId]) -> Cow<'_, [CardUse]> {
        let node = self.node(id);
        let offer = node.offer().and_then(|offer| offer.mgpu.as_ref());
        match offer.filter(|_| pods.iter().any(|pod| node.gpu_pods.contains(pod))) {
            Some(offer) => Cow::Owned(self.place(node, offer, pods).1),
            None => Cow::Borrowed(&node.gpus),
        }
    }

    /// Returns which cards containers hold, and what is in use of each card. Containers whose results can be read hold the
    /// cards that the results say. The others hold what first fit gives them, oldest pod first (docs/rules.md, **mGPU**,
    /// Release). The pods in `without` are left out.
    pub(super) fn place(&self, node: &Node, offer: &MgpuCards, without: &[PodId]) -> (Vec<Placed>, Vec<CardUse>) {
        let mut used = vec![CardUse::default(); offer.count];
        let mut placed = Vec::new();
        let mut unplaced = Vec::new();
        let take = |used: &mut [CardUse], request: ContainerRequest, cards: &[u16]| {
            for card in cards {
                used[usize::from(*card)].add(request.share, offer.memory);
            }
        };
        let mode = self.configuration.mgpu.schedule_mode;
        let pods = node.gpu_pods.iter().filter(|id| !without.contains(id));
        for (id, pod) in pods.filter_map(|id| Some((*id, self.pod(*id)?))) {
            for (container, request, result) in pod.mgpu_containers() {
                match result.and_then(|result| offer.read_result(result, request.cards, mode)) {
                    Some(cards) => {
                        take(&mut used, request, &cards);
                        placed.push(Placed {
                            pod: id,
                            container,
                            cards,
                        });
                    }
                    None => unplaced.push((pod.created, &pod.uid, container, id, request)),
                }
            }
        }
        unplaced.sort_unstable();
        for (_, _, container, id, request) in unplaced {
            let cards = Cards {
                used: &used,
                memory: offer.memory,
            };
            let cards = first_fit(request, cards, self.configuration.mgpu.max_containers_per_card);
            take(&mut used, request, &cards);
            placed.push(Placed {
                pod: id,
                container,
                cards,
            });
        }
        (placed, used)
    }

    /// Updates the cards after a node says something else about them, or is gone.
    pub(super) fn mgpu_changed(&mut self, id: NodeId, before: Option<&MgpuCards>) {
        let after = self.node(id).offer().and_then(|offer| offer.mgpu.as_ref());
        if after == before {
            return;
        }
        let (is_shared, was_shared) = (after.is_some(), before.is_some());
        self.mgpu_nodes.set(id, is_shared, &self.nodes);
        self.count_gpus(id);
        if is_shared && !was_shared {
            self.note_unplaced_on(id);
        } else if let Some(before) = before.filter(|_| is_shared) {
            // These are the pods whose cards were known by what the node said before.
            let pods = self.node(id).gpu_pods.iter().copied();
            let had_its_cards = |id: &PodId| self.pod(*id).is_some_and(|pod| !self.is_unplaced_by(pod, before));
            let pods: Vec<_> = pods.filter(had_its_cards).collect();
            for pod in pods {
                self.note_unplaced(pod);
            }
        }
    }

    /// Whether the results of scheduling on a pod name no cards, given what a node says of its cards.
    fn is_unplaced_by(&self, pod: &Pod, offer: &MgpuCards) -> bool {
        let mode = self.configuration.mgpu.schedule_mode;
        pod.mgpu_containers().any(|(_, request, result)| {
            let cards = result.and_then(|result| offer.read_result(result, request.cards, mode));
            cards.is_none()
        })
    }

    /// Notes, to be told later, a bound pod without readable results of scheduling: nobody knows its cards.
    pub(super) fn note_unplaced(&mut self, id: PodId) {
        // Where pods are not placed on cards, no pod's cards are missing.
        let is_placed = |pod: &&Pod| pod.stage == Stage::Bound && self.configuration.mgpu.enable;
        let Some(pod) = self.pod(id).filter(is_placed) else {
            return;
        };
        let offer = pod.room.and_then(|node| self.node(node).offer()?.mgpu.as_ref());
        let Some(offer) = offer else { return };
        if self.is_unplaced_by(pod, offer) {
            let uid = Arc::clone(&pod.uid);
            self.changes.unplaced_gpu_pods.push(uid);
        }
    }

    /// Does the same for all pods, where pods are placed on cards from now on.
    pub(super) fn note_all_unplaced(&mut self) {
        let nodes: Vec<_> = self.mgpu_nodes.iter().copied().collect();
        for node in nodes {
            self.note_unplaced_on(node);
        }
    }

    fn note_unplaced_on(&mut self, id: NodeId) {
        for pod in self.node(id).gpu_pods.clone() {
            self.note_unplaced(pod);
        }
    }
}

impl Pod {
    /// Whether any results of scheduling are on the pod.
    pub(crate) fn has_mgpu_results(&self) -> bool {
        self.mgpu_containers().any(|(.., result)| result.is_some())
    }

    /// Returns the containers that ask for mGPU: their index, what they ask for, and the result of scheduling.
    fn mgpu_containers(&self) -> impl Iterator<Item = (usize, ContainerRequest, Option<&str>)> {
        let containers = self.task.mgpu.iter().flat_map(|request| request.containers.iter());
        containers.enumerate().map(|(index, (_, request))| {
            let result = self.gpus.as_ref().and_then(|gpus| gpus.get(index)?.as_deref());
            (index, *request, result)
        })
    }
}
