//! Decides which of the pods that share a claim is charged for it (docs/rules.md, **Cards by Dynamic Resource
//! Allocation**).

use std::collections::BTreeSet;
use std::sync::Arc;

use crds::card_assigned::says_none;
use crds::keys::CARD_ASSIGNED;
use jiff::Timestamp;

use super::Cluster;
use super::pod::{Pod, Stage};
use crate::devices::{ClaimKey, Named};
use crate::ids::{PodId, QueueId};
use crate::reason::Reason;
use crate::task::{Claimed, Task};

/// How a pod stands that shares a claim. The pod with the lowest standing pays first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Standing {
    /// It was let in, and is charged.
    In,
    /// It waits, or no queue is charged for it.
    Waits,
    /// It was let in, and its quota was given back before it was gone; or nobody let it in, and it has no node, or is deleted.
    Lapsed,
}

/// A pod's turn to pay for a claim. Of the pods that share a claim, the pod with the least turn pays. Whether no card is
/// written on the pod comes before its age; a card is written on it from when it was let in. So the pod that was let in
/// first goes on paying, whoever comes later, and an operator that starts anew can see all of it again.
pub(super) type Turn = (Standing, bool, Timestamp, Arc<str>);

impl Cluster {
    /// Returns the turn of the pod that is to pay for a claim in place of this pod.
    pub(super) fn next_payer(&self, key: &ClaimKey, uid: &str) -> Option<Turn> {
        let mut turns = self.claimed.in_line.get(key).into_iter().flatten();
        let next = turns.find(|(.., other)| **other != *uid).cloned();
        debug_assert_eq!(
            next,
            self.next_among_all(key, uid),
            "the line for {key:?} is not as those stand who share it"
        );
        next
    }

    /// Returns the same, searched for among all pods that share the claim.
    fn next_among_all(&self, key: &ClaimKey, uid: &str) -> Option<Turn> {
        let users = self.claimed.users.get(key).into_iter().flatten();
        let others = users.filter(|user| ***user != *uid);
        others.filter_map(|user| self.turn_to_pay(user)).min()
    }

    /// Gives a pod its place in the line of those that are to pay for the claims that it shares, or removes it from the
    /// line.
    pub(super) fn stand_in_line(&mut self, uid: &str, turn: Option<&Turn>) {
        let Some(claiming) = self
            .claimed
            .pods
            .get_mut(uid)
            .filter(|claiming| claiming.turn.as_ref() != turn)
        else {
            return;
        };
        let before = std::mem::replace(&mut claiming.turn, turn.cloned());
        let namespace = claiming.pod.metadata.namespace.as_deref().unwrap_or_default();
        for key in shared_keys(namespace, &claiming.named) {
            let line = self.claimed.in_line.entry(key.clone()).or_default();
            if let Some(before) = &before {
                line.remove(before);
            }
            line.extend(turn.cloned());
            if line.is_empty() {
                self.claimed.in_line.remove(&key);
            }
        }
    }

    /// Returns a pod's turn to pay for a claim. Pods that were let in come first, since no pod waits for what another pod
    /// of its claim holds or has given back. Of the waiting pods the oldest comes first, in whatever order they are seen.
    fn turn_to_pay(&self, uid: &Arc<str>) -> Option<Turn> {
        let pod = self.pod_with_uid(uid).and_then(|id| self.pod(id))?;
        let written = self.claimed.pods.get(uid)?.annotation(CARD_ASSIGNED);
        let has_none = written.is_none_or(says_none);
        Some((self.standing_of(pod), has_none, pod.created, Arc::clone(uid)))
    }

    fn standing_of(&self, pod: &Pod) -> Standing {
        let queue = pod.queue.filter(|queue| !self.queue(*queue).is_nameless());
        match (pod.is_in(), queue, &pod.charge) {
            (true, Some(_), Some(_)) => Standing::In,
            (true, Some(_), None) => Standing::Lapsed,
            // It is never let in any more, and somebody's finalizer may keep it.
            (false, ..) if pod.deleted.is_some() => Standing::Lapsed,
            (true, None, _) | (false, ..) => Standing::Waits,
        }
    }

    /// Settles who pays for the claims that a pod shares, when the pod has come to be charged or no longer is. For each
    /// claim, the pod whose turn it is by now pays, unless the pod that pays is just being let in. A pod whose quota was given
    /// back, while its deletion takes for ever, leaves its claims to others: these would otherwise have the devices at
    /// nobody's cost.
    pub(super) fn settle_payers(&mut self, id: PodId) {
        let Some(pod) = self.pod(id) else { return };
        let Some(claiming) = self.claimed.pods.get(&pod.uid) else {
            return;
        };
        let (uid, namespace) = (Arc::clone(&pod.uid), Arc::clone(&pod.namespace));
        let shared: Vec<_> = shared_keys(&namespace, &claiming.named).collect();
        let turn = self.turn_to_pay(&uid);
        self.stand_in_line(&uid, turn.as_ref());
        for key in shared {
            let payer = self.claimed.devices.payer(&key, &uid);
            let first = self.claimed.in_line.get(&key).and_then(BTreeSet::first);
            let next = first.filter(|first| self.gives_way(&payer, first));
            let Some(next) = next.map(|(.., next)| Arc::clone(next)) else {
                continue;
            };
            let waits = |uid| {
                self.turn_to_pay(uid)
                    .is_some_and(|(standing, ..)| standing == Standing::Waits)
            };
            let still_waits = waits(&payer) && waits(&next);
            self.claimed.devices.set_payer(&key, Some(Arc::clone(&next)));
            if still_waits {
                // The others wait for a pod that pays, as before.
                self.see_again([payer, next]);
            } else {
                self.claim_changed(&key);
            }
        }
    }

    /// Whether the paying pod leaves paying to the first in line, which is another pod. A pod that is just being let in
    /// has taken the claim's quota, and others wait for that.
    fn gives_way(&self, payer: &Arc<str>, (standing, .., first): &Turn) -> bool {
        let pod = self.pod_with_uid(payer).and_then(|id| self.pod(id));
        first != payer
            && pod.is_some_and(|pod| match self.standing_of(pod) {
                Standing::In => true,
                Standing::Waits => {
                    matches!(pod.stage, Stage::Waiting | Stage::Blocked) || pod.is_in() && *standing == Standing::In
                }
                Standing::Lapsed => *standing != Standing::Lapsed,
            })
    }

    /// Has the pods looked at again that share a claim with a pod which was let in, or no longer is.
    pub(super) fn see_sharers_again(&mut self, id: PodId, named: &[Named]) {
        let Some(pod) = self.pod(id).filter(|_| named.iter().any(|named| named.shared)) else {
            return;
        };
        let (uid, namespace) = (Arc::clone(&pod.uid), Arc::clone(&pod.namespace));
        for key in shared_keys(&namespace, named) {
            if self.claimed.devices.payer(&key, &uid) == uid {
                let users = self.claimed.users.get(&key).into_iter().flatten();
                let others: Vec<_> = users.filter(|user| **user != uid).map(Arc::clone).collect();
                self.see_again(others);
            }
        }
    }

    /// Has a pod looked at again that is of another queue by now, or of none, and with it those that share its claims: all of
    /// them are of the queue of the pod that pays.
    pub(super) fn see_again_with_sharers(&mut self, id: PodId) {
        let Some(uid) = self.pod(id).map(|pod| Arc::clone(&pod.uid)) else {
            return;
        };
        if let Some(claiming) = self.claimed.pods.get(&uid) {
            let named = claiming.named.clone();
            self.see_sharers_again(id, &named);
            self.see_again([uid]);
        }
    }

    /// Whether a pod is charged for a claim that others may name.
    pub(crate) fn pays_for_others(&self, id: PodId) -> bool {
        let Some((pod, named)) = self.claims_named_by(id) else {
            return false;
        };
        let mut shared = shared_keys(&pod.namespace, named);
        shared.any(|key| self.claimed.devices.pays(&key, &pod.uid))
    }

    /// Returns the pods that were let in and share claims with this pod, and the pods that share other claims with these,
    /// and so on. Where some of them are gone, another pod is charged, and the claims' devices stay in use. They are
    /// returned in order, this pod included; where there are more than `most`, some of them are returned as an error.
    pub(crate) fn all_sharing_with(&self, id: PodId, most: usize) -> Result<Vec<PodId>, BTreeSet<PodId>> {
        let (mut found, mut open) = (BTreeSet::from([id]), vec![id]);
        // Each claim is visited once: all pods that share it come with the first pod that names it.
        let mut seen = BTreeSet::new();
        while let Some(next) = open.pop() {
            let Some((pod, named)) = self.claims_named_by(next) else {
                continue;
            };
            for key in shared_keys(&pod.namespace, named) {
                let line = self.claimed.in_line.get(&key).into_iter().flatten();
                let let_in = line.take_while(|(standing, ..)| *standing == Standing::In && !seen.contains(&key));
                for other in let_in.filter_map(|(.., uid)| self.pod_with_uid(uid)) {
                    if found.insert(other) {
                        open.push(other);
                    }
                    if found.len() > most {
                        return Err(found);
                    }
                }
                seen.insert(key);
            }
        }
        Ok(found.into_iter().collect())
    }

    /// Returns a pod that claims devices, and the claims that it names.
    fn claims_named_by(&self, id: PodId) -> Option<(&Pod, &[Named])> {
        let pod = self.pod(id).filter(|pod| pod.task.claimed.is_some())?;
        Some((pod, &self.claimed.pods.get(&pod.uid)?.named))
    }

    /// Returns the pod that pays for a claim which several pods may name, where one does.
    pub(crate) fn payer_of(&self, namespace: &str, claim: &str) -> Option<&Pod> {
        let uid = self.claimed.devices.payer_of(&(namespace.into(), claim.into()))?;
        self.pod_with_uid(uid).and_then(|id| self.pod(id))
    }

    /// Checks whether a pod that shares a claim has to wait for the pod that pays for it. The paying pod must be let in,
    /// in the same queue, and the claim must be allocated. Before that, the scheduler could take the waiting pod first,
    /// and nothing leads that pod to the card that is paid for.
    pub(super) fn check_payers(
        &self,
        task: &mut Task,
        namespace: &str,
        uid: &str,
        queue: Option<QueueId>,
        named: &[Named],
    ) {
        let Some(claimed) = task.claimed.as_ref() else { return };
        if claimed.refusal != Some(Reason::ResourceClaimShared) {
            return;
        }
        let all_paid = shared_keys(namespace, named).all(|key| {
            let Some(payer) = self.claimed.devices.payer_of(&key).filter(|payer| &***payer != uid) else {
                return true;
            };
            let pod = self.pod_with_uid(payer).and_then(|id| self.pod(id));
            self.claimed.devices.is_allocated(&key)
                && pod.is_some_and(|pod| pod.is_in() && pod.queue == queue && self.standing_of(pod) != Standing::Lapsed)
        });
        if all_paid {
            let mut paid = Claimed::clone(claimed);
            (paid.refusal, paid.refusal_detail) = (None, None);
            task.claimed = Some(Arc::new(paid));
        }
    }
}

/// Returns the claims among these that others may name.
pub(super) fn shared_keys<'n>(namespace: &'n str, named: &'n [Named]) -> impl Iterator<Item = ClaimKey> + 'n {
    let shared = named.iter().filter(|named| named.shared);
    let claims = shared.filter_map(|named| named.claim.clone());
    claims.map(move |claim| (namespace.into(), claim))
}
