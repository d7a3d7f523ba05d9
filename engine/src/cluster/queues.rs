//! Queues come, change and go.

use std::sync::Arc;

use super::queue::{Queue, Terms};
use super::{Cluster, Kind, tree};
use crate::ids::{Id as _, QueueId};

impl Cluster {
    /// Takes what a queue says.
    pub fn apply_queue(&mut self, name: &str, terms: Terms) {
        let id = self.queue_id(name);
        let epoch = self.epoch(Kind::Queue);
        let queue = &mut self.queues[id.index()];
        queue.epoch = epoch;
        if queue.terms.as_ref() != Some(&terms) {
            let hierarchy = self.configuration.capacity.enable_hierarchy;
            self.tree_is_stale |= tree::roots(queue.terms.as_ref(), hierarchy) != tree::roots(Some(&terms), hierarchy);
            queue.terms = Some(terms);
            queue.version += 1;
            self.changes.queues.insert(id);
            self.unreviewed.insert(id);
            self.name_cards_anew(|queue| queue == id);
        }
    }

    /// Forgets what a queue said; its pods keep what they hold, and nothing more is let in.
    pub fn remove_queue(&mut self, name: &str) {
        let Some(id) = self.queue_ids.get(name).copied() else {
            return;
        };
        let queue = &mut self.queues[id.index()];
        let hierarchy = self.configuration.capacity.enable_hierarchy;
        self.tree_is_stale |= tree::roots(queue.terms.as_ref(), hierarchy) != tree::roots(None, hierarchy);
        queue.terms = None;
        queue.version += 1;
        self.changes.queues.insert(id);
        self.unreviewed.insert(id);
        self.name_cards_anew(|queue| queue == id);
        self.forget_empty_queue(id);
    }

    /// The queue with this id.
    pub fn queue(&self, id: QueueId) -> &Queue {
        &self.queues[id.index()]
    }

    /// The queue with this id, to be changed.
    pub(crate) fn queue_mut(&mut self, id: QueueId) -> &mut Queue {
        &mut self.queues[id.index()]
    }

    /// The queue with this name.
    pub fn queue_named(&self, name: &str) -> Option<QueueId> {
        self.queue_ids.get(name).copied()
    }

    /// Every queue that is there or that pods name.
    pub fn queues(&self) -> impl Iterator<Item = (QueueId, &Queue)> {
        let there = |queue: &Queue| queue.terms.is_some() || queue.members > 0;
        let ids = (0..).map(QueueId::of);
        ids.zip(&self.queues).filter(move |(_, queue)| there(queue))
    }

    /// The id of a queue, whether it is there or only named by a pod.
    pub(super) fn queue_id(&mut self, name: &str) -> QueueId {
        if let Some(id) = self.queue_ids.get(name) {
            return *id;
        }
        let name: Arc<str> = name.into();
        let queue = Queue::new(Arc::clone(&name));
        let id = if let Some(id) = self.free_queues.pop() {
            self.queues[id.index()] = queue;
            id
        } else {
            self.queues.push(queue);
            QueueId::of(self.queues.len() - 1)
        };
        self.queue_ids.insert(name, id);
        // Under a root queue, also what only pods name has its place.
        self.tree_is_stale |= self.configuration.capacity.enable_hierarchy;
        id
    }

    pub(super) fn forget_empty_queue(&mut self, id: QueueId) {
        let queue = &self.queues[id.index()];
        if queue.terms.is_none() && queue.members == 0 && self.queue_ids.remove(&queue.name).is_some() {
            self.reclaims.remove(&id);
            self.free_queues.push(id);
        }
    }
}
