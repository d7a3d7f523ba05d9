//! Claims that come to more than their pod was let in for. Somebody deleted a claim before the scheduler had allocated it,
//! and a larger claim was made: by hand with the same name, or from a template that has changed since (docs/rules.md,
//! **Cards by Dynamic Resource Allocation**).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crds::dra::ResourceClaim;
use jiff::Timestamp;

use super::Cluster;
use super::deadlines::after_returns;
use super::pod::Pod;
use super::set_back::SetBack;
use crate::alternative::{Alternative, CardSet};
use crate::amounts::Dimension;
use crate::ids::PodId;

/// Pods that were let in for less than their claims come to, as long as something may follow from it.
#[derive(Debug, Default)]
pub(super) struct Outgrown {
    pods: BTreeMap<PodId, Excess>,
    /// What pods have that is more than they were let in for, where their queues had quota for it when that was found. From then on it counts
    /// as if they had been let in for it.
    accepted: BTreeMap<PodId, CardSet>,
}

impl Outgrown {
    pub(super) fn forget(&mut self, id: PodId) {
        self.pods.remove(&id);
        self.accepted.remove(&id);
    }

    /// Moves times back after the clock was set back.
    pub(super) fn bring_back(&mut self, back: SetBack) {
        self.pods
            .values_mut()
            .for_each(|excess| back.bring_back(&mut excess.next));
    }
}

/// What a pod's claims come to beyond what it was let in for.
#[derive(Debug)]
struct Excess {
    let_in: Option<Alternative>,
    /// The dimensions that there is more of.
    of: Box<[Dimension]>,
    /// How often the pod was sent back.
    times: u32,
    /// When the pod is sent back next.
    next: Timestamp,
}

/// A pod that has more than it was let in for, and more than its queue may have.
#[derive(Debug)]
pub(crate) struct Overdrawing {
    pub(crate) pod: PodId,
    /// What the pod was let in for, to show to people.
    pub(crate) let_in: Option<Alternative>,
    /// Whether the scheduler claimed more cards for it than it requests.
    pub(crate) by_scheduler: bool,
}

impl Cluster {
    /// Notes that a pod is let in for what its claims say now.
    pub(super) fn remember_claims(&mut self, id: PodId) {
        let Some(pod) = self.pod(id).filter(|pod| pod.task.claimed.is_some()) else {
            return;
        };
        let uid = Arc::clone(&pod.uid);
        if let Some(claiming) = self.claimed.pods.get_mut(&uid) {
            let claims = claiming
                .claims(&self.claimed.devices)
                .map(|(name, claim)| (name.into(), Some(Arc::clone(claim))))
                .collect();
            claiming.let_in_by = Some(claims);
            for key in claiming.keys() {
                self.claimed.given_up.remove(&key);
            }
        }
    }

    /// Handles a pod that was let in and has been read. Where it pays for claims that have changed since, or has come to
    /// pay for a claim while it was not known what that asks for, it may now be charged for less than it was let in for.
    /// What it gives back is free for others, and no pod that names these claims gets it back without being judged.
    fn note_remade(&mut self, id: PodId, claims_are_known: bool) {
        let Some(pod) = self.pod(id).filter(|pod| pod.is_in()) else {
            return;
        };
        let uid = Arc::clone(&pod.uid);
        let Some(claiming) = self.claimed.pods.get(&uid) else {
            return;
        };
        let devices = &self.claimed.devices;
        let (mut remade, mut paid) = (Vec::new(), BTreeSet::new());
        for (key, is_shared) in claiming.paid_by(&uid, devices) {
            if claims_are_known {
                let claim = devices.claim(&key);
                let remade_as = claim.filter(|claim| !claiming.was_let_in_by(&key.1, claim));
                remade.extend(remade_as.map(|claim| (key.clone(), Some(Arc::clone(claim)))));
                paid.extend(is_shared.then_some(key));
            } else if is_shared && !claiming.paid.contains(&key) {
                remade.push((key, None));
            }
        }
        if claims_are_known && let Some(claiming) = self.claimed.pods.get_mut(&uid) {
            claiming.paid = paid;
        }
        for (key, claim) in remade {
            // This is done once for all pods that name the claim, however often its paying pod is read.
            let is_same = |before: &Option<Arc<ResourceClaim>>| match (before, &claim) {
                (Some(before), Some(claim)) => Arc::ptr_eq(before, claim),
                (before, claim) => before.is_none() && claim.is_none(),
            };
            if self.claimed.given_up.get(&key).is_some_and(is_same) {
                continue;
            }
            self.claimed.given_up.insert(key.clone(), claim.clone());
            for user in self.claimed.users.get(&key).into_iter().flatten() {
                if let Some(claiming) = self.claimed.pods.get_mut(user) {
                    claiming.give_up(&key.1, claim.as_deref());
                }
            }
        }
    }

    /// Whether a pod's claims are those that it was let in with; none where this program did not let it in. Claims are
    /// told apart by what the pod calls them, since a claim that is made anew from a template has a new name of its own. A
    /// claim that is gone may come back as it was.
    fn has_its_claims(&self, pod: &Pod) -> Option<bool> {
        let claiming = self.claimed.pods.get(&pod.uid)?;
        let let_in_by = claiming.let_in_by.as_ref()?;
        let is_its = |(name, claim): (&str, &Arc<ResourceClaim>)| {
            let then = let_in_by.iter().find(|(known, _)| **known == *name);
            then.is_none_or(|(_, then)| then.as_ref().is_some_and(|then| then.spec == claim.spec))
        };
        Some(claiming.claims(&self.claimed.devices).all(is_its))
    }

    /// Returns the dimensions of which a pod has more than it was let in for, if that is due to other claims than it had
    /// then, or to what the scheduler claimed for it.
    fn excess_of(&self, pod: &Pod, let_in: Option<&CardSet>) -> Vec<Dimension> {
        let is_charged = pod.is_in() && pod.charge.is_some();
        let has_its_claims = if is_charged {
            self.has_its_claims(pod)
        } else {
            Some(true)
        };
        // For a pod that an earlier operator let in, only the number of cards that it was let in for is known.
        let outgrows = |set: &CardSet| match has_its_claims {
            // A pod that was let in for no cards was let in without a look at what its queue may have of them.
            Some(has_its_claims) => !has_its_claims || is_charged && let_in.is_some() && is_given_beyond(pod),
            None => let_in.is_some_and(|let_in| set.total() > let_in.total()),
        };
        let beyond = |set: &&CardSet| set.beyond(let_in).next().is_some() && outgrows(set);
        match &sets(pod)[..] {
            [first, ..] if sets(pod).iter().all(beyond) => first.beyond(let_in).collect(),
            _ => Vec::new(),
        }
    }

    /// Notes a pod whose claims come to more than it was let in for; what they are may not be known at the moment
    /// (`claims_are_known`). A pod that its owner deletes runs on with its claims for its own grace period, and is evicted as any
    /// other. A pod that is ending at once is not noted.
    pub(super) fn note_outgrown(
        &mut self,
        id: PodId,
        let_in: Option<CardSet>,
        claims_are_known: bool,
        ends_at_once: bool,
        now: Timestamp,
    ) {
        let pod = self.pod(id).filter(|pod| pod.task.claimed.is_some() && !ends_at_once);
        // A pod that has given back some of what was accepted is judged anew when it comes to have that again.
        let has_all = |accepted: &CardSet| {
            let charged = pod.and_then(charged);
            charged.is_some_and(|set| accepted.beyond(Some(set)).next().is_none())
        };
        let accepted = self.claimed.outgrown.accepted.get(&id);
        let is_given_back = claims_are_known && accepted.is_some_and(|accepted| !has_all(accepted));
        let accepted = accepted.filter(|_| !is_given_back).or(let_in.as_ref());
        let excess = pod.map(|pod| self.excess_of(pod, accepted)).unwrap_or_default();
        if is_given_back {
            self.claimed.outgrown.accepted.remove(&id);
        }
        self.note_remade(id, claims_are_known);
        let outgrown = &mut self.claimed.outgrown.pods;
        if excess.is_empty() {
            outgrown.remove(&id);
            return;
        }
        let earlier = outgrown.get(&id);
        let (times, next) = earlier.map_or((0, now), |earlier| (earlier.times, earlier.next));
        let excess = Excess {
            let_in: let_in.map(|set| Alternative::Set(Arc::new(set))),
            of: excess.into(),
            times,
            next,
        };
        outgrown.insert(id, excess);
    }

    /// Returns the pods to be sent back now: those that have more than they were let in for, and more than their queues
    /// may have. A pod whose queue has quota for it is only charged for what it has, and has what it is charged for from
    /// then on as if it had been let in for it.
    pub(crate) fn take_overdrawing(&mut self, now: Timestamp) -> Vec<Overdrawing> {
        let mut found = Vec::new();
        let mut accepted = Vec::new();
        let mut outgrown = std::mem::take(&mut self.claimed.outgrown.pods);
        outgrown.retain(|id, excess| {
            if excess.next > now {
                return true;
            }
            let queue = self.pod(*id).and_then(|pod| pod.queue);
            let is_overdrawn = |queue| excess.of.iter().any(|dimension| self.is_overdrawn(queue, *dimension));
            if !queue.is_some_and(is_overdrawn) {
                // While its queue is away, or can't be read, nothing says that there is quota for it.
                if queue.is_some_and(|queue| !self.queue(queue).is_nameless() && self.queue(queue).quota().is_none()) {
                    return true;
                }
                let charged = self.pod(*id).and_then(charged);
                accepted.extend(charged.map(|set| (*id, set.clone())));
                return false;
            }
            excess.times = excess.times.saturating_add(1);
            excess.next = after_returns(excess.times, now);
            found.push(Overdrawing {
                pod: *id,
                let_in: excess.let_in.clone(),
                by_scheduler: self.pod(*id).is_some_and(is_given_beyond),
            });
            true
        });
        self.claimed.outgrown.pods = outgrown;
        self.claimed.outgrown.accepted.extend(accepted);
        found
    }
}

/// Whether the scheduler claimed more cards for a pod's requests by resources than these request.
fn is_given_beyond(pod: &Pod) -> bool {
    let claimed = pod.task.claimed.as_ref();
    let given = claimed.and_then(|claimed| claimed.given);
    given.is_some_and(|given| given.beyond > 0)
}

/// Returns what a pod is charged for by its claims.
fn charged(pod: &Pod) -> Option<&CardSet> {
    pod.charge.as_ref()?.alternative.as_ref()?.set()
}

/// Returns what a pod has by what was allocated to its claims; where nothing was, all alternatives that they leave.
fn sets(pod: &Pod) -> Vec<&CardSet> {
    let is_allocated = pod
        .task
        .claimed
        .as_ref()
        .is_some_and(|claimed| claimed.allocated.is_some());
    if is_allocated {
        charged(pod).into_iter().collect()
    } else {
        pod.task.alternatives.iter().filter_map(Alternative::set).collect()
    }
}
