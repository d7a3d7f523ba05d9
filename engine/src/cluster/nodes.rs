//! What happens when nodes come, change and go.

use std::sync::Arc;

use jiff::Timestamp;

use super::node::{Node, Offer};
use super::{Cluster, Kind};
use crate::ids::NodeId;

impl Cluster {
    /// Takes in what a node says. Nothing happens when it says what it said before, as in every heartbeat.
    pub(crate) fn apply_node(&mut self, node: &crds::node::Node<Box<str>>, now: Timestamp) {
        let Some(name) = node.metadata.name.as_deref() else {
            return;
        };
        let id = self.node_id(name);
        let mut offer = Offer::read(node, &mut self.names, &mut self.texts);
        let devices = self.claimed.devices.cards_of(name);
        offer.put_devices(&devices, &mut self.names);
        self.set_offer(id, offer, now);
    }

    /// Sets what a node says.
    pub(super) fn set_offer(&mut self, id: NodeId, offer: Offer, now: Timestamp) {
        self.meet_resources();
        let epoch = self.epoch(Kind::Node);
        let known = &mut self.nodes[id];
        known.see(epoch);
        if known.offer() == Some(&offer) {
            return;
        }
        let replaced = known
            .offer()
            .filter(|old| old.uid != offer.uid)
            .map(|old| old.uid.clone());
        self.prospects += 1;
        self.count_cards_out(id);
        let parts = self.nodes[id].parts();
        let before = self.nodes[id].say(Some(offer));
        self.count_cards_in(id);
        self.total_changed(id, &parts);
        if let Some(uid) = replaced {
            let name = Arc::clone(&self.node(id).name);
            self.changes.nodes_gone.push((name, uid));
        }
        self.node_order.set(id, true, &self.nodes);
        self.changes.nodes.insert(id);
        self.refresh_gpu_node(id);
        self.node_changes.note(id);
        self.cards_changed(id, before.as_ref(), now);
        self.mgpu_changed(id, before.as_ref().and_then(|offer| offer.mgpu.as_ref()));
        self.note_device_labels(id);
        if before.is_none() {
            self.set_deadlines_on(id);
        }
    }

    /// Forgets what a node said. What its pods hold of their queues stays until they go.
    pub(crate) fn remove_node(&mut self, name: &str, now: Timestamp) {
        if let Some(id) = self.nodes.id(name) {
            self.remove_node_by_id(id, now);
        }
    }

    pub(super) fn remove_node_by_id(&mut self, id: NodeId, now: Timestamp) {
        self.stirred += 1;
        self.count_cards_out(id);
        let parts = self.nodes[id].parts();
        let Some(offer) = self.nodes[id].say(None) else {
            return;
        };
        self.prospects += 1;
        self.node_order.set(id, false, &self.nodes);
        self.changes
            .nodes_gone
            .push((Arc::clone(&self.node(id).name), offer.uid.clone()));
        self.refresh_gpu_node(id);
        self.changes.nodes.remove(&id);
        // Pods that this node would have given too much were kept away from it. Others may now give them room.
        self.node_changes.note(id);
        self.total_changed(id, &parts);
        self.cards_changed(id, Some(&offer), now);
        self.mgpu_changed(id, offer.mgpu.as_ref());
        self.changes.node_usage.remove(&id);
        self.note_device_labels(id);
        self.set_deadlines_on(id);
        self.forget_empty_node(id);
    }

    /// Returns the node with this id.
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id]
    }

    /// Returns the id of the node with this name.
    pub fn node_named(&self, name: &str) -> Option<NodeId> {
        self.nodes.id(name)
    }

    /// Returns the nodes that exist, by name.
    pub fn nodes_by_name(&self) -> &[NodeId] {
        &self.node_order
    }

    /// Returns the id of a node, whether it exists or is only named by a pod. Makes an entry where there is none.
    pub(super) fn node_id(&mut self, name: &str) -> NodeId {
        self.nodes.id(name).unwrap_or_else(|| {
            let name: Arc<str> = name.into();
            self.nodes.insert(Arc::clone(&name), Node::new(name))
        })
    }

    /// Forgets a node that does not exist and that no pod names.
    pub(super) fn forget_empty_node(&mut self, id: NodeId) {
        let node = &self.nodes[id];
        if node.offer().is_none() && node.pods.is_empty() {
            let name = Arc::clone(&node.name);
            self.nodes.remove(&name);
        }
    }

    /// Returns how many node changes have happened.
    pub fn node_change_count(&self) -> u64 {
        self.node_changes.count()
    }

    /// Returns the nodes that may have got room since `count` changes had happened; none when that is too long ago to
    /// know.
    pub(crate) fn nodes_changed_since(&self, count: u64) -> Option<&[NodeId]> {
        self.node_changes.since(count)
    }
}
