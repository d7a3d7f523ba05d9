//! Reclaim bookkeeping: what each queue waits for other queues to give back, and which pods are on their way out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::aside::SetAside;
use super::deadlines::after_refused_eviction;
use super::pod::Stage;
use super::restless::Stirs;
use super::set_back::SetBack;
use super::waiting::{Refused, Shape};
use super::{Bookmark, Cluster};
use crate::alternative::Alternative;
use crate::amounts::Dimension;
use crate::ids::{NodeId, PodId, QueueId, WorkloadId};
use crate::metering::Charge;
use crate::policies::mgpu::CardLists;

/// How long after a look at a waiting queue the queue is looked at again.
const LOOK_INTERVAL: SignedDuration = SignedDuration::from_secs(1);

/// What one queue waits for others to give back.
#[derive(Debug)]
struct Reclaim {
    /// When the queue is looked at again.
    next_look: Timestamp,
    /// When the next pods may be evicted for the queue.
    next_eviction: Timestamp,
    /// How many of the queue's waiting sets (single pods, or pods that are let in together) had been looked at when a look
    /// ran out of steps. The next look goes on there.
    sets_looked_at: usize,
    /// The pods that were evicted for the queue last, by uid.
    evicted: Vec<Arc<str>>,
    expected: Expected,
}

/// What a queue gets of what is on its way out.
#[derive(Debug, Default)]
pub(crate) struct Expected {
    /// The dimensions that other queues have to leave to this queue, each with the highest priority of the pods that get
    /// it. Meanwhile nobody else borrows these dimensions, and pods of lower priority of the same queue take nothing of
    /// them.
    pub(crate) claim: BTreeMap<Dimension, i32>,
    /// The groups whose pods get it together: no pod of a group stands back for the other pods of the group.
    pub(crate) groups: BTreeSet<WorkloadId>,
    /// What is set aside, by the waiting pods that alone may have it.
    pub(crate) asides: Vec<SetAside>,
    /// The evicted or ending pods that it comes from, by uid. Only one queue waits for each such pod.
    pub(crate) awaited: Vec<Arc<str>>,
}

/// What each queue waits for, of the queues that were looked at for reclaim; and the queues that were looked at in vain.
#[derive(Debug, Default)]
pub(super) struct Reclaims {
    by_queue: BTreeMap<QueueId, Reclaim>,
    in_vain: InVain,
}

/// The queues that were looked at in vain. They need no other look for as long as nothing changes.
#[derive(Debug)]
struct InVain {
    /// What had happened until then.
    stirs: Stirs,
    /// When time alone changes something.
    until: Timestamp,
    queues: BTreeSet<QueueId>,
    /// Whether these are all queues that anything could be taken back for.
    are_all: bool,
}

impl Default for InVain {
    fn default() -> Self {
        Self {
            stirs: Stirs::default(),
            until: Timestamp::MIN,
            queues: BTreeSet::new(),
            are_all: false,
        }
    }
}

/// The state before a look at a queue.
pub(crate) struct BeforeLook {
    pub(crate) bookmark: Bookmark,
    stirs: Stirs,
}

impl Expected {
    /// Whether nothing is expected.
    fn is_empty(&self) -> bool {
        self.claim.is_empty() && self.asides.is_empty() && self.awaited.is_empty()
    }
}

impl Reclaims {
    /// Returns the dimensions that queues claim of what is on its way out.
    pub(super) fn claimed(&self) -> impl Iterator<Item = Dimension> + '_ {
        self.by_queue
            .values()
            .flat_map(|reclaim| reclaim.expected.claim.keys().copied())
    }

    /// Returns everything that is set aside.
    pub(super) fn asides(&self) -> impl Iterator<Item = &SetAside> {
        self.by_queue.values().flat_map(|reclaim| &reclaim.expected.asides)
    }

    /// Returns the number of pods that something is set aside for.
    pub(super) fn count_asides(&self) -> usize {
        self.by_queue
            .values()
            .map(|reclaim| reclaim.expected.asides.len())
            .sum()
    }

    /// Returns the pods that queues wait for to be gone, by uid, queue by queue.
    pub(super) fn awaited(&self) -> impl Iterator<Item = (QueueId, &[Arc<str>])> {
        let queues = self.by_queue.iter();
        queues.map(|(queue, reclaim)| (*queue, &*reclaim.expected.awaited))
    }

    /// Moves times back after the clock was set back, so that queues are looked at, and pods evicted for them, no later
    /// because of that.
    pub(super) fn bring_back(&mut self, back: SetBack) {
        let reclaims = self.by_queue.values_mut();
        let times = reclaims.flat_map(|reclaim| [&mut reclaim.next_look, &mut reclaim.next_eviction]);
        let times = times.chain([&mut self.in_vain.until]);
        times.for_each(|time| back.bring_back(time));
    }

    /// Whether anything is on its way out for any queue.
    pub(super) fn are_claiming(&self) -> bool {
        self.claimed().next().is_some()
    }
}

impl Default for Reclaim {
    fn default() -> Self {
        Self {
            next_look: Timestamp::MIN,
            next_eviction: Timestamp::MIN,
            sets_looked_at: 0,
            evicted: Vec::new(),
            expected: Expected::default(),
        }
    }
}

/// What to restore for a pod that was counted otherwise for a while.
#[derive(Debug, Clone)]
pub struct Assumed {
    pub(crate) pod: PodId,
    stage: Stage,
    assigned: Option<Alternative>,
    charge: Option<Charge>,
    room: Option<NodeId>,
    gpus: Option<CardLists>,
    /// Why pods of its shape wait. This is forgotten with the last waiting pod of the shape, so it is kept here.
    refused: Option<Refused>,
}

impl Cluster {
    /// Lets all queues that were looked at in vain be looked at again where something has changed since. Returns whether
    /// every queue that anything could be taken back for was looked at in vain, with no change since.
    pub(crate) fn end_stale_rest(&mut self, now: Timestamp) -> bool {
        let stirs = self.stirs();
        let in_vain = &mut self.reclaims.in_vain;
        if in_vain.stirs != stirs || in_vain.until <= now {
            *in_vain = InVain {
                stirs,
                until: Timestamp::MAX,
                ..InVain::default()
            };
        }
        in_vain.are_all
    }

    /// Whether a queue was looked at in vain, and nothing has changed since.
    pub(crate) fn is_in_vain(&self, id: QueueId) -> bool {
        self.reclaims.in_vain.queues.contains(&id)
    }

    /// Notes that every queue that anything could be taken back for was looked at in vain.
    pub(crate) fn note_all_in_vain(&mut self) {
        self.reclaims.in_vain.are_all = true;
    }

    /// Records the state, so that a look in vain can be undone.
    pub(crate) fn before_look(&self, pods: impl IntoIterator<Item = PodId>) -> BeforeLook {
        BeforeLook {
            bookmark: self.bookmark(pods),
            stirs: self.stirs(),
        }
    }

    /// Undoes a look that was in vain, for a queue that waits for nothing that is on its way out. The queue rests until
    /// something changes, or until time allows other evictions: of pods that may not be evicted now, or for pods whose
    /// controllers' earlier pods came back unplaced.
    pub(crate) fn looked_in_vain(&mut self, id: QueueId, before: &BeforeLook, now: Timestamp) {
        self.turn_back(&before.bookmark);
        self.forget_stirs(before.stirs);
        if self.reclaims.in_vain.stirs != before.stirs {
            return;
        }
        let next_forgotten = self.next_forgotten_return(now);
        let next_eviction = self.reclaims.by_queue.get(&id).map(|reclaim| reclaim.next_eviction);
        let spared = self.pods.leaving().filter_map(|(_, pod)| pod.eviction.spared_until);
        let next = spared.chain(next_eviction).chain(next_forgotten);
        let next = next.filter(|time| *time > now).min();
        let in_vain = &mut self.reclaims.in_vain;
        in_vain.until = next.map_or(in_vain.until, |next| next.min(in_vain.until));
        in_vain.queues.insert(id);
    }

    /// Notes that nobody waits in a queue for what others could give back. This was seen without a look at its pods.
    pub(crate) fn looked_for_nobody(&mut self, id: QueueId, now: Timestamp) {
        let before = self.before_look([]);
        let expected_nothing = self.expects_nothing(id);
        self.looked_at(id, Expected::default(), now);
        if expected_nothing {
            self.looked_in_vain(id, &before, now);
        }
    }

    /// Whether a queue waits for nothing that is on its way out.
    pub(crate) fn expects_nothing(&self, id: QueueId) -> bool {
        self.reclaims
            .by_queue
            .get(&id)
            .is_none_or(|reclaim| reclaim.expected.is_empty())
    }

    /// Returns since when a queue in which pods wait is due for a look. A queue of which nothing is known is due from now
    /// on. Returns none where it is not time yet.
    pub(crate) fn reclaim_due_since(&mut self, id: QueueId, now: Timestamp) -> Option<Timestamp> {
        let reclaim = self.reclaims.by_queue.entry(id).or_insert_with(|| Reclaim {
            next_look: now,
            ..Reclaim::default()
        });
        Some(reclaim.next_look).filter(|since| *since <= now)
    }

    /// Whether pods may be evicted for a queue now (`reclaimInterval`).
    pub(crate) fn may_evict_for(&self, id: QueueId, now: Timestamp) -> bool {
        let Some(reclaim) = self.reclaims.by_queue.get(&id) else {
            return true;
        };
        // A time further away was noted when the interval was longer.
        reclaim.next_eviction <= now
            || self
                .after_eviction(now)
                .is_some_and(|next| reclaim.next_eviction > next)
    }

    /// Returns when pods may be evicted for a queue again, if some are evicted for it now.
    fn after_eviction(&self, now: Timestamp) -> Option<Timestamp> {
        let interval = SignedDuration::try_from(self.configuration.capacity.reclaim_interval).ok()?;
        now.checked_add(interval).ok()
    }

    /// Notes that a queue was looked at, and what it gets of what is on its way out.
    pub(crate) fn looked_at(&mut self, id: QueueId, expected: Expected, now: Timestamp) {
        let reclaim = self.reclaims.by_queue.entry(id).or_default();
        reclaim.next_look = now.checked_add(LOOK_INTERVAL).unwrap_or(now);
        let mut earlier = std::mem::replace(&mut reclaim.expected, expected);
        let claim = &reclaim.expected.claim;
        let mut claimed = earlier.claim.iter();
        let given_up = claimed.any(|(dimension, priority)| claim.get(dimension).is_none_or(|now| now < priority));
        earlier
            .asides
            .retain(|earlier| !reclaim.expected.asides.contains(earlier));
        if given_up {
            self.top.rose();
        }
        self.give_up(&earlier.asides);
    }

    /// Returns how many of the queue's waiting sets the last look got through before it ran out of steps; 0 where it got
    /// through all.
    pub(crate) fn sets_looked_at(&self, id: QueueId) -> usize {
        let reclaim = self.reclaims.by_queue.get(&id);
        reclaim.map_or(0, |reclaim| reclaim.sets_looked_at)
    }

    /// Notes that the next look at a queue goes on behind this many of its waiting sets.
    pub(crate) fn note_sets_looked_at(&mut self, id: QueueId, sets: usize) {
        if let Some(reclaim) = self.reclaims.by_queue.get_mut(&id) {
            reclaim.sets_looked_at = sets;
        }
    }

    /// Ends the reclaim for a queue, because nobody reclaims any more or nothing waits in it. Only the time when pods may
    /// be evicted for it again is remembered.
    pub(crate) fn end_reclaim(&mut self, id: QueueId, now: Timestamp) {
        let Some(reclaim) = self.reclaims.by_queue.get_mut(&id) else {
            return;
        };
        let expected = std::mem::take(&mut reclaim.expected);
        if reclaim.next_eviction <= now {
            self.reclaims.by_queue.remove(&id);
        }
        if !expected.claim.is_empty() {
            self.top.rose();
        }
        self.give_up(&expected.asides);
    }

    /// Forgets a queue that is gone, and with it what was set aside for its pods.
    pub(super) fn forget_reclaim(&mut self, id: QueueId) {
        if let Some(reclaim) = self.reclaims.by_queue.remove(&id) {
            self.give_up(&reclaim.expected.asides);
        }
    }

    /// Returns the queues that others give something back for.
    pub(crate) fn reclaiming_queues(&self) -> Vec<QueueId> {
        self.reclaims.by_queue.keys().copied().collect()
    }

    /// Whether a dimension is on its way out for a queue other than this queue and the queues below it.
    pub(super) fn is_claimed_by_others(&self, id: QueueId, dimension: Dimension) -> bool {
        let mut claims = self
            .reclaims
            .by_queue
            .iter()
            .filter(|(_, reclaim)| reclaim.expected.claim.contains_key(&dimension));
        claims.any(|(claimant, _)| !self.ancestry(*claimant).any(|ancestor| ancestor == id))
    }

    /// Whether a dimension is on its way out for pods of the same queue that have a higher priority and are of another
    /// group.
    pub(super) fn is_claimed_by_betters(&self, shape: &Shape, dimension: Dimension) -> bool {
        let Some(reclaim) = self.reclaims.by_queue.get(&shape.queue) else {
            return false;
        };
        let Expected { claim, groups, .. } = &reclaim.expected;
        claim.get(&dimension).is_some_and(|claimed| *claimed > shape.priority)
            && shape.group.is_none_or(|group| !groups.contains(&group))
    }

    /// Takes away what a queue claims, so that it can be looked for anew. Until it is [put back](Self::claim_again), the
    /// queue stands in nobody's way.
    pub(crate) fn lift_claim(&mut self, id: QueueId) -> BTreeMap<Dimension, i32> {
        let reclaim = self.reclaims.by_queue.get_mut(&id);
        reclaim.map_or_else(BTreeMap::new, |reclaim| std::mem::take(&mut reclaim.expected.claim))
    }

    /// Puts back what the queue claimed before it was looked at.
    pub(crate) fn claim_again(&mut self, id: QueueId, claim: BTreeMap<Dimension, i32>) {
        if let Some(reclaim) = self.reclaims.by_queue.get_mut(&id) {
            reclaim.expected.claim = claim;
        }
    }

    /// Notes that pods are being evicted for a queue.
    pub(crate) fn begin_evictions(&mut self, id: QueueId, pods: &[PodId], now: Timestamp) {
        for pod in pods {
            self.mark_evicted(*pod, now);
        }
        let next = self.after_eviction(now).unwrap_or(now);
        let evicted = pods.iter().filter_map(|id| Some(Arc::clone(&self.pod(*id)?.uid)));
        let evicted = evicted.collect();
        let reclaim = self.reclaims.by_queue.entry(id).or_default();
        (reclaim.next_eviction, reclaim.evicted) = (next, evicted);
    }

    /// Notes what became of an eviction. A refused eviction is not tried again for a while, and the eviction of another
    /// pod may be tried at once.
    pub fn eviction_ended(&mut self, uid: &str, outcome: EvictionOutcome, now: Timestamp) {
        let Some(id) = self.pod_with_uid(uid) else { return };
        if outcome == EvictionOutcome::Evicted {
            // The time in which an eviction has to take effect begins with the API server's answer, not with the decision:
            // asking for hundreds of pods of one gang may take most of that time, or more. Then nothing seemed to be on its
            // way to queues that have looked since, and they have to look again.
            if let Some(marks) = self.mark_pod(id).filter(|marks| marks.eviction.since.is_some()) {
                marks.eviction.since = Some(now);
                self.stirred += 1;
            }
            self.expect_end(id, now);
            return;
        }
        let Some(marks) = self.mark_pod(id) else { return };
        if outcome == EvictionOutcome::Refused {
            marks.eviction.refused = marks.eviction.refused.saturating_add(1);
            marks.eviction.spared_until = Some(after_refused_eviction(marks.eviction.refused, now));
        }
        marks.eviction.since = None;
        self.stirred += 1;
        for reclaim in self.reclaims.by_queue.values_mut() {
            reclaim.next_look = reclaim.next_look.min(now);
            // Only a queue for which this pod was evicted got nothing by the refusal.
            if reclaim.evicted.iter().any(|evicted| **evicted == *uid) {
                reclaim.next_eviction = now;
            }
        }
    }

    /// Counts pods as gone, to see what would be possible without them.
    pub(crate) fn take_out(&mut self, pods: &[PodId]) {
        debug_assert!(
            pods.iter().collect::<BTreeSet<_>>().len() == pods.len(),
            "a pod gives what it has once"
        );
        for pod in pods {
            self.leave(*pod);
            self.note_away(*pod, true);
        }
    }

    /// Counts the pods as there again, after [`Self::take_out`].
    pub(crate) fn put_back(&mut self, pods: &[PodId]) {
        for pod in pods {
            self.enter(*pod);
            self.note_away(*pod, false);
        }
    }

    /// Counts a waiting pod as let in, to see what else would be possible. As with any pod that is only being let in, the
    /// pod's group has not started, and the pod is neither evicted for others nor taken back by a timeout.
    pub(crate) fn assume_admitted(
        &mut self,
        id: PodId,
        alternative: Option<Alternative>,
        on: Option<NodeId>,
        gpus: Option<CardLists>,
    ) -> Option<Assumed> {
        let charge = self.pod(id).map(|pod| self.charge(pod, alternative.as_ref()))?;
        let (until, written) = (Timestamp::MAX, false);
        let stage = Stage::Admitting { until, written };
        let shape = self.shape_of(id);
        let peers = shape
            .as_ref()
            .and_then(|shape| self.queue(shape.queue).waiting.peers_of(shape));
        let refused = peers.and_then(|(_, peers)| peers.refused);
        self.recount(id, |pod| Assumed {
            pod: id,
            stage: std::mem::replace(&mut pod.stage, stage),
            assigned: std::mem::replace(&mut pod.assigned, alternative),
            charge: pod.charge.replace(charge),
            room: std::mem::replace(&mut pod.room, on),
            gpus: std::mem::replace(&mut pod.gpus, gpus),
            refused,
        })
    }

    /// Counts the pod as waiting again.
    pub(crate) fn no_longer_assume(&mut self, assumed: Assumed) {
        self.recount(assumed.pod, |pod| {
            pod.stage = assumed.stage;
            pod.assigned = assumed.assigned;
            pod.charge = assumed.charge;
            pod.room = assumed.room;
            pod.gpus = assumed.gpus;
        });
        if let (Some(shape), Some(refused)) = (self.shape_of(assumed.pod), assumed.refused) {
            self.remember_refusal(&shape, refused);
        }
    }

    /// Returns the shape of a pod that waits or is being let in.
    fn shape_of(&self, id: PodId) -> Option<Arc<Shape>> {
        let waits = self.pod(id)?.waits.as_ref()?;
        Some(Arc::clone(&waits.shape))
    }
}

/// What became of an eviction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EvictionOutcome {
    /// The pod is on its way out.
    Evicted,
    /// The API server refused, for a disruption budget as a rule.
    Refused,
    /// Another pod of the same set was refused, so this one stays too.
    NotTried,
}
