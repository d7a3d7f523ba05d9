//! What happens when queues come, change and go.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;

use crds::volcano;

use super::below::Below;
use super::queue::{Queue, Quota, Terms};
use super::{Cluster, Kind, tree};
use crate::amounts::Totals;
use crate::ids::QueueId;

impl Cluster {
    /// Takes in what a queue says.
    pub(crate) fn apply_queue(&mut self, queue: &volcano::Queue) {
        let terms = Terms::read(queue, &mut self.names);
        self.set_terms(queue.metadata.name.as_deref().unwrap_or_default(), terms);
    }

    /// Notes a queue that can't be read at all. It takes nothing until it is mended.
    pub(crate) fn apply_unreadable_queue(&mut self, name: &str, uid: &str, reason: &str) {
        self.set_terms(name, Terms::unreadable(uid, reason));
    }

    fn set_terms(&mut self, name: &str, terms: Terms) {
        let id = self.queue_id(name);
        let epoch = self.epoch(Kind::Queue);
        let queue = &mut self.queues[id];
        queue.see(epoch);
        if queue.terms() != Some(&terms) {
            let hierarchy = self.configuration.capacity.enable_hierarchy;
            self.top
                .go_stale(tree::roots(queue.terms(), hierarchy) != tree::roots(Some(&terms), hierarchy));
            queue.say(Some(terms));
            self.queue_changed(id);
        }
    }

    /// Forgets what a queue said. Its pods keep what they hold, and nothing more is let in.
    pub(crate) fn remove_queue(&mut self, name: &str) {
        let Some(id) = self.queues.id(name) else {
            return;
        };
        let queue = &mut self.queues[id];
        let hierarchy = self.configuration.capacity.enable_hierarchy;
        self.top
            .go_stale(tree::roots(queue.terms(), hierarchy) != tree::roots(None, hierarchy));
        if let Some(terms) = queue.terms() {
            let gone = (Arc::clone(&queue.name), terms.uid.clone());
            self.changes.queues_gone.push(gone);
        }
        queue.say(None);
        self.queue_changed(id);
        self.forget_empty_queue(id);
    }

    /// Handles that a queue says something else. The cards that pods are read to name may change, for its own pods and for
    /// those of the queues below it. The queues below also show whether they say more than it does. And what waits in them
    /// may have been kept out by what it said, and not by any number.
    fn queue_changed(&mut self, id: QueueId) {
        self.prospects += 1;
        let part = self
            .queues
            .ids()
            .filter(|queue| self.ancestry(*queue).any(|above| above == id));
        let part: Vec<_> = part.collect();
        for queue in &part {
            if *queue != id {
                self.queues[*queue].wake();
            }
            self.reservations.review(*queue);
        }
        self.changes.queues.extend(part);
        let below: BTreeSet<_> = self.queues.ids().filter(|below| self.is_named_by(*below, id)).collect();
        self.name_cards_anew(|queue| below.contains(&queue));
    }

    /// Marks queues to be shown, where all queues together are promised more than there is, or were until now. Each queue
    /// that is promised some of that shows by how much (condition `Satisfiable` of its usage).
    pub(super) fn show_who_is_promised_too_much(&mut self, before: &Below) {
        let is_told = |before: &Totals, after: &Totals, dimension| {
            let (before, after) = (before.get(dimension), after.get(dimension));
            before != after && before.max(after) > self.to_be_had(dimension)
        };
        let now = &self.top.below;
        let is_concerned = |quota: &Quota| {
            let mut deserved = quota.deserved.iter();
            let mut guaranteed = quota.guarantee.iter();
            deserved.any(|(dimension, _)| is_told(&before.deserved, &now.deserved, dimension))
                || guaranteed.any(|(dimension, _)| is_told(&before.guaranteed, &now.guaranteed, dimension))
        };
        let concerned = self
            .queues
            .iter()
            .filter(|(_, queue)| queue.quota().is_some_and(is_concerned));
        let concerned: Vec<_> = concerned.map(|(id, _)| id).collect();
        self.changes.queues.extend(concerned);
    }

    /// Returns the queue with this id.
    pub fn queue(&self, id: QueueId) -> &Queue {
        &self.queues[id]
    }

    /// Returns the id of the queue with this name.
    pub fn queue_named(&self, name: &str) -> Option<QueueId> {
        self.queues.id(name)
    }

    /// Returns every queue that exists or that pods name.
    pub fn queues(&self) -> impl Iterator<Item = (QueueId, &Queue)> {
        self.queues.iter().filter(|(_, queue)| queue.is_known())
    }

    /// Returns the queues in which pods have not been told why they wait, in the order of [`Self::queues`], starting with
    /// the queue `first`, if any, and ending with those before it.
    pub(crate) fn untold_queues_from(&self, first: Option<QueueId>) -> impl Iterator<Item = (QueueId, &Queue)> {
        let before = first.map(|first| self.untold.range(..first)).into_iter().flatten();
        let first = first.map_or(Bound::Unbounded, Bound::Included);
        let ids = self.untold.range((first, Bound::Unbounded)).chain(before);
        ids.map(|id| (*id, self.queue(*id)))
    }

    /// Returns the id of a queue, whether it exists or is only named by a pod. Makes an entry where there is none.
    pub(super) fn queue_id(&mut self, name: &str) -> QueueId {
        if let Some(id) = self.queues.id(name) {
            return id;
        }
        let name: Arc<str> = name.into();
        let id = self.queues.insert(Arc::clone(&name), Queue::new(name));
        // Under a root queue, a queue that only pods name has its place as well. It adds nothing to any sum, so all sums
        // stay as they are. Where the tree is to grow anew, the queue gets its place then.
        let root = self.root().filter(|root| *root != id && !self.top.is_stale());
        self.queues[id].stand(root, None);
        id
    }

    pub(super) fn forget_empty_queue(&mut self, id: QueueId) {
        let queue = &self.queues[id];
        if !queue.is_known() {
            let name = Arc::clone(&queue.name);
            if self.queues.remove(&name).is_some() {
                self.forget_reclaim(id);
            }
        }
    }
}
