//! Forgets names of cards and resources that nobody uses any more. Tenants can make up any number of names, and each name
//! is to cost no more than the pod that carries it.

use super::Cluster;
use super::aside::SetAside;
use super::reading_claims::cards_claimed;
use crate::alternative::Alternative;
use crate::amounts::{Amounts, Dimension, Totals};
use crate::inqueue::{Demand, Inqueue};
use crate::names::{CardId, ResourceId};

/// Which names are used, by number.
struct Used {
    cards: Vec<bool>,
    resources: Vec<bool>,
    /// How many uses were looked at.
    looked_at: usize,
}

impl Used {
    fn card(&mut self, card: CardId) {
        self.looked_at += 1;
        if let Some(used) = self.cards.get_mut(card.index()) {
            *used = true;
        }
    }

    fn resource(&mut self, resource: ResourceId) {
        self.looked_at += 1;
        if let Some(used) = self.resources.get_mut(resource.index()) {
            *used = true;
        }
    }

    fn cards(&mut self, cards: impl IntoIterator<Item = CardId>) {
        cards.into_iter().for_each(|card| self.card(card));
    }

    fn dimensions(&mut self, dimensions: impl IntoIterator<Item = Dimension>) {
        for dimension in dimensions {
            self.cards(dimension.card());
            dimension
                .resource()
                .into_iter()
                .for_each(|resource| self.resource(resource));
        }
    }

    fn totals(&mut self, totals: &Totals) {
        self.dimensions(totals.iter().map(|(dimension, _)| dimension));
    }

    fn demand(&mut self, demand: &Demand) {
        self.dimensions(demand.dimensions());
    }

    fn inqueue(&mut self, inqueue: &Inqueue) {
        self.dimensions(inqueue.resources());
        self.cards(inqueue.cards().flat_map(|(set, _)| set.iter().copied()));
    }
}

impl Cluster {
    /// Gives the numbers of names that nobody uses any more to other names, when enough names have come and gone since the
    /// last time. So a name costs the same, however many there are and however often they are used.
    pub(crate) fn forget_unused_names_in_time(&mut self) {
        if self.names.is_look_due() {
            self.forget_unused_names();
        }
    }

    /// Gives the numbers of names that nobody uses any more to other names. A card that a node has had keeps its number,
    /// since pods may still be charged for it.
    ///
    /// This is called between events, when only the cluster itself holds ids. A scheduler's question that waits for its
    /// answer also holds ids, but only to order nodes, and for seconds.
    pub fn forget_unused_names(&mut self) {
        let mut used = Used {
            cards: vec![false; self.names.card_numbers()],
            resources: vec![false; self.names.resource_names().count()],
            looked_at: 0,
        };
        for resource in [ResourceId::CPU, ResourceId::MEMORY, ResourceId::PODS] {
            used.resource(resource);
        }
        self.mark_pods(&mut used);
        self.mark_queues(&mut used);
        self.mark_nodes(&mut used);
        for (_, workload) in self.workloads.iter() {
            let demands = [workload.terms.as_ref().map(|terms| &terms.demand), workload.reserved()];
            demands.into_iter().flatten().for_each(|demand| used.demand(demand));
        }
        used.dimensions(self.reclaims.claimed());
        used.dimensions(self.reclaims.asides().flat_map(SetAside::dimensions));
        let apart = self.claimed.devices.inventory().cards_apart();
        used.cards(apart.filter_map(|card| self.names.known_card(card)));
        used.cards(self.changes.cards.iter().chain(&self.changes.card_usage).copied());
        let unused = self.names.keep(&used.cards, &used.resources, used.looked_at);
        self.cards.forget(unused, self.names.card_numbers());
        self.gpu_nodes
            .forget_resources_from(self.names.resource_names().count());
    }

    fn mark_pods(&self, used: &mut Used) {
        for pod in self.pods() {
            used.cards(pod.task.cards().chain(pod.assigned.iter().flat_map(Alternative::cards)));
            used.cards(cards_claimed(&pod.task));
            let requests = pod
                .task
                .requests()
                .chain([pod.request().as_ref(), pod.task.request.as_ref()]);
            let requests = requests.flat_map(Amounts::iter).chain(pod.task.by_class());
            used.dimensions(requests.map(|(dimension, _)| dimension));
            let charges = [pod.charge.as_ref(), pod.waits.as_ref().map(|waits| &waits.asked)];
            for charge in charges.into_iter().flatten() {
                used.cards(charge.alternative.iter().flat_map(Alternative::cards));
                used.dimensions(charge.amounts.iter().map(|(dimension, _)| dimension));
            }
        }
    }

    fn mark_queues(&self, used: &mut Used) {
        for (_, queue) in self.queues.iter() {
            if let Some(quota) = queue.quota() {
                used.cards(quota.cards.iter().copied());
                let bounds = quota.capability.iter().chain(quota.deserved.iter());
                let all = bounds.chain(quota.guarantee.iter());
                used.dimensions(all.map(|(dimension, _)| dimension));
            }
            used.totals(&queue.allocated);
            used.totals(queue.waiting.requested());
            used.totals(&queue.elastic);
            used.inqueue(&queue.inqueue);
        }
        let below = self
            .queues
            .iter()
            .map(|(_, queue)| &queue.below)
            .chain([&self.top.below]);
        for below in below {
            for totals in [
                &below.allocated,
                &below.held,
                &below.guaranteed,
                &below.deserved,
                &below.requested,
                &below.elastic,
            ] {
                used.totals(totals);
            }
            used.inqueue(&below.inqueue);
        }
        used.totals(&self.top.total);
        used.totals(&self.top.away);
        used.totals(&self.top.shared);
        used.totals(&self.top.tainted);
    }

    fn mark_nodes(&self, used: &mut Used) {
        for resource in self.cards.resources() {
            used.resource(resource);
        }
        for (_, node) in self.nodes.iter() {
            if let Some(offer) = node.offer() {
                used.dimensions(offer.allocatable.iter().map(|(dimension, _)| dimension));
                for card in &offer.cards {
                    used.card(card.card);
                    used.resource(card.resource);
                }
            }
            used.totals(&node.used);
            used.totals(&node.charged);
        }
        for (id, card) in self.names.card_ids().zip(self.cards.iter()) {
            if let Some(meaning) = &card.meaning {
                used.card(id);
                used.resource(meaning.resource);
            }
            card.tallies.keys().for_each(|resource| used.resource(*resource));
            card.conflict
                .iter()
                .for_each(|conflict| used.resource(conflict.resource));
        }
        used.dimensions(self.gpu_nodes.named_resources());
    }
}
