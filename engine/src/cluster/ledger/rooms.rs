//! What pods hold of the nodes that they run on or are expected on, and the sums over all nodes.

use super::PEN;
use crate::amounts::{Amounts, Dimension, Totals};
use crate::cluster::parts::Parts;
use crate::cluster::pod::Pod;
use crate::cluster::{Cluster, Span};
use crate::ids::{NodeId, PodId};
use crate::metering::Charge;

impl Cluster {
    /// Gives a pod room on a node, and counts its charge there.
    pub(in crate::cluster) fn take_room(&mut self, id: NodeId, pod_id: PodId, pod: &Pod) {
        let changes_cards = self.is_on_cards(id, pod);
        if changes_cards {
            self.count_cards_out(id);
        }
        self.change_charged(id, pod, 1);
        let books = self.nodes[id].books(PEN);
        books.used.add_all(pod.request());
        books.pods.insert(pod_id);
        if changes_cards {
            self.count_cards_in(id);
        }
        self.usage_changed(id, changes_cards);
    }

    /// Gives a pod's room back. The caller then forgets the node, where nothing holds it any more. This is not done here,
    /// since the pod may take room on it anew.
    pub(in crate::cluster) fn give_room_back(&mut self, id: NodeId, pod_id: PodId, pod: &Pod) {
        let changes_cards = self.is_on_cards(id, pod);
        if changes_cards {
            self.count_cards_out(id);
        }
        self.change_charged(id, pod, -1);
        let books = self.nodes[id].books(PEN);
        books.used.subtract_all(pod.request());
        books.pods.remove(&pod_id);
        if changes_cards {
            self.count_cards_in(id);
        }
        self.usage_changed(id, changes_cards);
        self.node_changes.note(id);
    }

    /// Whether a pod holds any of a node's cards, or is charged for them. Most pods hold none, and leave the tallies of
    /// the cards as they are.
    fn is_on_cards(&self, id: NodeId, pod: &Pod) -> bool {
        let mut cards = self.nodes[id].offer().into_iter().flat_map(|offer| &offer.cards);
        let charged = |card| {
            let charge = pod.charge.as_ref();
            charge.map_or(0, |charge| charge.amounts.get(Dimension::Card(card)))
        };
        let requested = |resource| pod.request().get(Dimension::Resource(resource));
        cards.any(|card| requested(card.resource) != 0 || charged(card.card) != 0)
    }

    /// Returns what a queue is charged for a pod.
    fn charge_of_queue<'p>(&self, pod: &'p Pod) -> Option<&'p Charge> {
        let queue = pod.queue.filter(|queue| !self.queue(*queue).is_nameless());
        pod.charge.as_ref().filter(|_| queue.is_some())
    }

    /// Counts room that a pod takes on a node, or gives back (`sign`), and that its queue is not charged for.
    pub(in crate::cluster) fn count_uncharged(&mut self, pod: &Pod, sign: i128) {
        let charge = self.charge_of_queue(pod);
        let charged = |dimension| charge.map_or(0, |charge| charge.amounts.get(dimension));
        // Cards are not counted here: the nodes say which there are, and the pods which of them they hold.
        let resources = pod.request().iter().filter(|(dimension, _)| dimension.card().is_none());
        for (dimension, amount) in resources {
            let uncharged = amount - charged(dimension);
            if uncharged != 0 {
                let sum = &mut self.top.books(PEN).uncharged;
                sum.add(dimension, sign * i128::from(uncharged));
            }
        }
    }

    /// Notes that a pod of a node has come or gone, and whether it holds any of the node's cards.
    fn usage_changed(&mut self, id: NodeId, changes_cards: bool) {
        if changes_cards || self.gpu_nodes.contains(id) {
            self.changes.node_usage.insert(id);
        }
        let offer = self.nodes[id].offer().filter(|_| changes_cards);
        let cards = offer.into_iter().flat_map(|offer| &offer.cards);
        self.changes.card_usage.extend(cards.map(|card| card.card));
    }

    /// Updates the sums after a node has come to offer something else, where it added `before` until now.
    pub(in crate::cluster) fn total_changed(&mut self, id: NodeId, before: &Parts) {
        let now = self.nodes[id].parts();
        let mut grown = Totals::default();
        for (dimension, amount) in now.of_total {
            grown.add(dimension, amount);
        }
        for (dimension, amount) in &before.of_total {
            grown.add(*dimension, -amount);
        }
        if now.shared != before.shared {
            for (dimension, _) in now.shared.iter().chain(&before.shared) {
                self.note_to_be_had(*dimension);
            }
        }
        let books = self.top.books(PEN);
        for (sums, now, before) in [
            (&mut books.away, now.away, &before.away),
            (&mut books.shared, now.shared, &before.shared),
            (&mut books.tainted, now.tainted, &before.tainted),
        ] {
            for (dimension, amount) in now {
                sums.add(dimension, amount);
            }
            for (dimension, amount) in before {
                sums.add(*dimension, -amount);
            }
        }
        for (dimension, amount) in grown.iter() {
            self.change_total(dimension, amount);
        }
        self.top.rose();
    }

    /// Adds to what the cluster has of something. What it had before is remembered for queues whose quota is more than
    /// that.
    fn change_total(&mut self, dimension: Dimension, grows: i128) {
        let before = self.top.total.get(dimension);
        let span = self.changes.total.entry(dimension).or_insert(Span::of(before));
        span.include(before + grows);
        self.top.books(PEN).total.add(dimension, grows);
    }

    /// Counts what a queue is charged for a pod on the pod's node, or no longer (`sign`).
    fn change_charged(&mut self, id: NodeId, pod: &Pod, sign: i128) {
        let charge = self.charge_of_queue(pod);
        for (dimension, amount) in charge.iter().flat_map(|charge| charge.amounts.iter()) {
            let node = &mut self.nodes[id];
            let (before, away) = (node.part_of_total(dimension), node.away(dimension));
            let tainted = node.tainted(dimension);
            let more = sign * i128::from(amount);
            node.books(PEN).charged.add(dimension, more);
            if pod.is_placed() {
                node.books(PEN).charged_in_place.add(dimension, more);
            } else if pod.has_one_node {
                node.books(PEN).charged_pinned.add(dimension, more);
            }
            let grows = node.part_of_total(dimension) - before;
            let (away, tainted) = (node.away(dimension) - away, node.tainted(dimension) - tainted);
            self.top.books(PEN).away.add(dimension, away);
            self.top.books(PEN).tainted.add(dimension, tainted);
            if grows != 0 {
                self.change_total(dimension, grows);
            }
            if grows > 0 {
                self.top.rose();
            }
        }
    }

    /// Counts room that a pod comes to hold on a node, or gives back (`sign`), among what pods without GPU hold.
    pub(in crate::cluster) fn count_without_gpu(&mut self, id: NodeId, pod: &Pod, sign: i128) {
        if self.counts_without_gpu(pod) {
            self.count_request_without_gpu(id, pod.request(), sign);
        }
    }

    /// Counts the same for a request, of a pod without GPU that counts there.
    pub(super) fn count_request_without_gpu(&mut self, id: NodeId, request: &Amounts, sign: i128) {
        let resources = self.gpu_nodes.resources();
        if resources.is_empty() {
            return;
        }
        let held = &mut self.nodes[id].books(PEN).held_without_gpu;
        held.resize(resources.len(), 0);
        for (held, resource) in held.iter_mut().zip(resources) {
            *held += sign * i128::from(request.get(Dimension::Resource(*resource)));
        }
        self.gpu_nodes.set_used(id, held);
    }

    /// Notes that a pod holds room on a node from now on, where it asks for mGPU.
    pub(in crate::cluster) fn enter_gpus(&mut self, id: PodId) {
        if let Some(node) = self.gpu_node_of(id) {
            self.nodes[node].books(PEN).gpu_pods.insert(id);
            self.count_gpus(node);
        }
    }

    /// Notes that a pod holds no room on its node any more, where it asks for mGPU.
    pub(in crate::cluster) fn leave_gpus(&mut self, id: PodId) {
        if let Some(node) = self.gpu_node_of(id) {
            self.nodes[node].books(PEN).gpu_pods.remove(&id);
            self.count_gpus(node);
        }
    }

    fn gpu_node_of(&self, id: PodId) -> Option<NodeId> {
        let pod = self.pod(id)?;
        pod.room.filter(|_| pod.task.mgpu.is_some())
    }

    /// Counts what pods hold of a node's cards.
    pub(in crate::cluster) fn count_gpus(&mut self, id: NodeId) {
        let node = self.node(id);
        let offer = node.offer().and_then(|offer| offer.mgpu.as_ref());
        let used = offer.map_or_else(Vec::new, |offer| self.place(node, offer, &[]).1);
        if used != node.gpus {
            self.nodes[id].books(PEN).gpus = used;
            self.changes.node_usage.insert(id);
        }
    }

    /// Counts anew what pods without GPU hold of every node, when the limited resources have changed.
    pub(in crate::cluster) fn count_all_without_gpu(&mut self) {
        for (_, node) in self.nodes.iter_mut() {
            node.books(PEN).held_without_gpu = Vec::new();
        }
        let pods = self.pods_by_id().filter(|(_, pod)| pod.room.is_some());
        for id in pods.map(|(id, _)| id).collect::<Vec<_>>() {
            let Some(pod) = self.pods.table[id].take() else {
                continue;
            };
            if let Some(node) = pod.room {
                self.count_without_gpu(node, &pod, 1);
            }
            self.pods.table[id] = Some(pod);
        }
    }
}
