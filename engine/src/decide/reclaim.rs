//! Reclaim and preempt: which pods are evicted for which waiting pods (the capacity document, **Reclaimable** and **Preemptive**;
//! docs/rules.md, **Queues**).
//!
//! Pods that are on their way out already are counted as gone first. Only what is still missing then is taken from others, and
//! only if that is sufficient: each plan is tried on the ledger itself, by the same verdict that will let the pod in.

mod aside;
mod candidacy;
mod cut_short;
mod draw;
mod entitled;
mod kinds;
mod needs;
mod pool;
mod pools;
mod sets;
mod slack;
mod told;
mod turns;
mod victims;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;

use super::effort::Effort;
use super::line::{InLine, alternatives_of};
use super::mgpu::WithoutSome;
use super::{Grant, enqueue, verdict};
use crate::alternative::Alternative;
use crate::amounts::Dimension;
use crate::cluster::Cluster;
use crate::cluster::aside::SetAside;
use crate::cluster::reclaims::{Assumed, BeforeLook, Expected};
use crate::cluster::waiting::Shape;
use crate::happening::Happening;
use crate::ids::{PodId, QueueId, WorkloadId};
use crate::refs::PodRef;
use crate::trail::Trail;
pub(super) use aside::Aside;
use aside::STEPS_OF_ASIDE;
use entitled::{Asked, asked, beyond_deserved, is_entitled};
use pool::{FoundAt, Key, Plan, Pool, is_share};
use pools::Pools;
use sets::{Set, waiting_sets};
use told::describe;
use turns::{in_turn, one_in_turn};

/// Once room is made for so many pods of a queue, a look begins no further pod or gang. A gang is not cut for it.
const PODS_PER_LOOK: usize = 32;

/// Pods that are evicted for a waiting pod: all of them or none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Eviction {
    /// The pods that are evicted, in this order.
    pub victims: Vec<Victim>,
    /// The pod that waits.
    pub waiting: PodRef,
    /// The queue that [`Self::waiting`] waits in.
    pub queue: Arc<str>,
}

/// A pod that is evicted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Victim {
    /// The pod that the Eviction API is asked about.
    pub pod: PodRef,
    /// `Reclaimed` or `Preempted`.
    pub reason: Happening,
    /// Says which pod needs what, with the numbers of this moment.
    pub message: String,
}

/// In which ways pods may be taken back.
#[derive(Debug, Clone, Copy)]
struct Modes {
    reclaim: bool,
    preempt: bool,
}

/// What came of looking at some queues.
#[derive(Debug, Default)]
pub(super) struct Looked {
    pub evictions: Vec<Eviction>,
    /// How many queues were looked at.
    pub queues: usize,
    /// How many steps that took.
    pub steps: u64,
}

/// Looks at queues that wait for what other queues have beyond what they deserve. A queue that was looked at in vain rests until
/// something changes. With `is_rest_checked`, debug builds look at one of the resting queues nevertheless.
pub(super) fn look(cluster: &mut Cluster, now: Timestamp, is_rest_checked: bool, trail: &dyn Trail) -> Looked {
    let configuration = cluster.configuration();
    let modes = Modes {
        reclaim: configuration.reclaims(),
        preempt: configuration.has_action("preempt"),
    };
    if cluster.end_stale_rest(now) && !is_rest_checked {
        return Looked::default();
    }
    for queue in cluster.reclaiming_queues() {
        let known = cluster.queue(queue);
        // A queue that is gone or can't be read is not looked at any more: what was set aside for it would stay so for ever.
        if known.waiting.is_empty() || known.quota().is_none() || !(modes.reclaim || modes.preempt) {
            cluster.end_reclaim(queue, now);
        }
    }
    if !modes.reclaim && !modes.preempt {
        return Looked::default();
    }
    let waiting = cluster.queues().filter(|(_, queue)| !queue.waiting.is_empty());
    let waiting = waiting.filter(|(_, queue)| queue.quota().is_some());
    let (in_vain, waiting): (Vec<_>, Vec<_>) = waiting.partition(|(id, _)| cluster.is_in_vain(*id));
    let all_are_in_vain = waiting.is_empty();
    let resting: Vec<_> = in_vain.into_iter().map(|(id, _)| id).collect();
    let waiting: Vec<_> = waiting.into_iter().map(|(id, _)| id).collect();
    let due = in_turn(cluster, &waiting, now);
    if all_are_in_vain {
        cluster.note_all_in_vain();
    }
    debug_assert!(
        one_in_turn(&resting, now)
            .filter(|queue| is_rest_checked && cluster.reclaim_due_since(*queue, now).is_some())
            .filter(|queue| !waiting_sets(cluster, *queue, now).is_empty())
            .is_none_or(|queue| look_at(cluster, queue, modes, now, trail).0.is_empty()),
        "a queue rests for which something may be taken back"
    );
    let mut looked = Looked {
        queues: due.len(),
        ..Looked::default()
    };
    for queue in due {
        let (evictions, steps) = look_at(cluster, queue, modes, now, trail);
        looked.evictions.extend(evictions);
        looked.steps += steps;
    }
    looked
}

/// Returns what is taken back for a queue, and how many steps it took to find that out.
fn look_at(
    cluster: &mut Cluster,
    queue: QueueId,
    modes: Modes,
    now: Timestamp,
    trail: &dyn Trail,
) -> (Vec<Eviction>, u64) {
    let sets = waiting_sets(cluster, queue, now);
    let waiting: usize = sets.iter().map(Set::count).sum();
    let expected_nothing = cluster.expects_nothing(queue);
    let in_sets = sets.iter().flat_map(|set| match set {
        Set::OneByOne(_, pods) => pods.clone(),
        Set::Together(_, pods) => pods.iter().map(|(pod, _)| *pod).collect(),
    });
    let before = cluster.before_look(in_sets);
    // Room that other pods were evicted for goes to nobody else: the next claimant needs more.
    let aside = cluster.set_aside(Some(queue));
    cluster.take_asides(&aside);
    let claimed = cluster.lift_claim(queue);
    let leaving = cluster.leaving(waiting, now);
    // A pod that is only expected on a node does not move the nodes' cursors: however often it is looked at, the node is the
    // same.
    let cursors = cluster.cursors();
    cluster.look_ahead();
    cluster.take_out(&leaving);
    let mut look = Look {
        modes,
        now,
        may_evict: cluster.may_evict_for(queue, now),
        is_leaving: !leaving.is_empty(),
        taken: Vec::new(),
        borrowing: BTreeMap::new(),
        assumed: Vec::new(),
        evicted_for: BTreeSet::new(),
        groups: BTreeSet::new(),
        evictions: Vec::new(),
        others: aside,
        pools: Pools::default(),
        effort: Effort::of_gang(),
        keeping: Effort::of_keeping(),
        before,
    };
    look.effort.spend_on_leaving(leaving.len());
    let next = look.look_at_sets(cluster, queue, &sets, trail);
    let assumed = look.assumed.iter();
    let is_share = |dimension| is_share(cluster, dimension);
    let asides = assumed.filter_map(|assumed| {
        let mut aside = cluster.to_set_aside(assumed.pod, queue, is_share, look.effort.common())?;
        aside.borrowed = look.borrowing.get(&assumed.pod).cloned().unwrap_or_default();
        Some(aside)
    });
    let leaving_or_taken: Vec<_> = leaving.iter().chain(&look.taken).copied().collect();
    let awaited = leaving_or_taken
        .iter()
        .filter_map(|id| Some(Arc::clone(&cluster.pod(*id)?.uid)));
    let by_others = cluster.awaited_by_others(queue);
    let awaited = awaited.filter(|uid| !by_others.contains(uid));
    let mut expected = Expected {
        claim: BTreeMap::new(),
        groups: std::mem::take(&mut look.groups),
        asides: asides.collect(),
        awaited: awaited.collect(),
    };
    look.forget_assumptions(cluster, 0);
    cluster.put_back(&look.taken);
    cluster.put_back(&leaving);
    cluster.mark_those_evicted_for(&mut expected.asides, &look.evicted_for, &expected.groups);
    keep_shares_as_requested(cluster, &mut expected.asides, &look.effort);
    let cost = cluster.forgo_room(&mut expected.asides, &expected.groups, &leaving_or_taken);
    look.effort.spend(cost);
    expected.claim = cluster.claim_of(queue, &expected.asides);
    cluster.end_looking_ahead();
    cluster.set_cursors(&cursors);
    cluster.free_asides(&look.others);
    cluster.claim_again(queue, claimed);
    if !look.taken.is_empty() {
        cluster.begin_evictions(queue, &look.taken, now);
    }
    cluster.looked_at(queue, expected, now);
    cluster.note_sets_looked_at(queue, next);
    let is_quiet = next == 0 && leaving.is_empty() && look.others.is_empty() && look.taken.is_empty();
    if is_quiet && expected_nothing && cluster.expects_nothing(queue) {
        cluster.looked_in_vain(queue, &look.before, now);
    }
    let steps = look.effort.spent().saturating_add(look.keeping.spent());
    (look.evictions, steps)
}

/// Lets a pod that has room on the cards of its node already, and waits for quota, keep shares of no other card there from other
/// pods, unless some pod was evicted for it.
fn keep_shares_as_requested(cluster: &Cluster, asides: &mut [SetAside], effort: &Effort) {
    for aside in asides {
        let node = aside.node_of_unevicted().and_then(|node| cluster.node_named(node));
        let cards = WithoutSome::of(cluster, &aside.shape, effort);
        if cards.zip(node).is_some_and(|(cards, node)| cards.fits(node, &[])) {
            aside.keep_what_it_requests();
        }
    }
}

/// One look at one queue.
struct Look {
    modes: Modes,
    now: Timestamp,
    may_evict: bool,
    is_leaving: bool,
    /// Pods that are taken back; they count as gone.
    taken: Vec<PodId>,
    /// The pods that get what their queue does not deserve, and of which dimensions: pods of a gang may, beside what its other pods
    /// get.
    borrowing: BTreeMap<PodId, BTreeSet<Dimension>>,
    /// Pods that get in through the evictions; they count as there.
    assumed: Vec<Assumed>,
    /// The pods that others are evicted for.
    evicted_for: BTreeSet<PodId>,
    /// The groups whose pods get in together.
    groups: BTreeSet<WorkloadId>,
    evictions: Vec<Eviction>,
    /// What looks at other queues have set aside; it counts as taken.
    others: Vec<SetAside>,
    pools: Pools,
    /// What the whole look may cost, except for `keeping`.
    effort: Effort,
    /// What it may cost to keep what was set aside. It is counted apart: a pod that takes all steps of a look would leave none
    /// for that.
    keeping: Effort,
    before: BeforeLook,
}

impl Look {
    /// Makes room for a pod, if it is entitled to what it gets or `may_borrow` what is free. Returns whether the pod will get in.
    fn make_room(&mut self, cluster: &mut Cluster, shape: &Shape, id: PodId, may_borrow: bool) -> bool {
        if let Ok(grant) = verdict::judge(cluster, shape, None, &self.effort) {
            // A gang whose first pods have room waits for its other pods. A pod that others were evicted for keeps what came free
            // until it is let in: its turn may come later, or the claim of an evicted pod may still be there.
            let something_gives_way = self.gives_way() || shape.group.is_some() || cluster.was_evicted_for(id, shape);
            let is_deserved = self.deserves(cluster, shape, id, grant.alternative.as_ref());
            return something_gives_way && (is_deserved || may_borrow) && self.assume(cluster, id, grant);
        }
        let has_come_back = |pod| cluster.has_come_back(pod, self.now);
        if !self.may_evict || cluster.pod(id).is_some_and(has_come_back) || cluster.is_to_be_read(id) {
            return false;
        }
        let mut alternatives = alternatives_of(shape).into_iter();
        alternatives.any(|alternative| !self.effort.is_spent() && self.evict_for(cluster, shape, id, alternative))
    }

    /// Whether a pod is entitled to what it would get. A pod that is not entitled is noted as borrowing it.
    fn deserves(&mut self, cluster: &Cluster, shape: &Shape, id: PodId, alternative: Option<&Alternative>) -> bool {
        let beyond = beyond_deserved(cluster, shape, id, alternative);
        let is_deserved = beyond.is_empty();
        if is_deserved {
            self.borrowing.remove(&id);
        } else {
            self.borrowing.insert(id, beyond);
        }
        is_deserved
    }

    /// Looks at these pods. Where they are entitled to what they ask for, what is set aside for pods of other queues that merely borrow that
    /// counts as free meanwhile.
    fn before_borrowers<R>(
        &mut self,
        cluster: &mut Cluster,
        pods: &[InLine],
        effort: &Effort,
        look: impl FnOnce(&mut Self, &mut Cluster) -> R,
    ) -> R {
        if self.others.iter().all(|aside| aside.borrowed.is_empty()) {
            return look(self, cluster);
        }
        let asked = Asked::by(cluster, pods);
        effort.spend(asked.cost);
        let goes_before = |aside: &&SetAside| asked.goes_before(cluster, aside);
        let is_lent = self.others.iter().any(|aside| goes_before(&aside)) && asked.is_within_own_deserved(cluster);
        if !is_lent {
            return look(self, cluster);
        }
        let kept = self.others.iter().filter(|aside| !goes_before(aside));
        let kept: Vec<_> = kept.cloned().collect();
        effort.spend(STEPS_OF_ASIDE.saturating_mul(self.others.len()));
        let count_as_taken = |cluster: &mut Cluster, before: &[SetAside], now: &[SetAside]| {
            cluster.free_asides(before);
            cluster.take_asides(now);
        };
        count_as_taken(cluster, &self.others, &kept);
        if !asked.is_within_deserved(cluster) {
            count_as_taken(cluster, &kept, &self.others);
            return look(self, cluster);
        }
        // What was found out about who could give something back rests on what counts as taken.
        self.pools.close();
        let looked = look(self, cluster);
        count_as_taken(cluster, &kept, &self.others);
        self.pools.close();
        looked
    }

    /// Whether pods that leave make room.
    fn gives_way(&self) -> bool {
        self.is_leaving || !self.taken.is_empty()
    }

    /// Takes back what a pod lacks of one of its alternatives, if the pod is entitled to what it gets that way. Returns whether
    /// the pod will get in.
    fn evict_for(
        &mut self,
        cluster: &mut Cluster,
        shape: &Shape,
        id: PodId,
        alternative: Option<&Alternative>,
    ) -> bool {
        let Some((plan, asked)) = self.plan(cluster, shape, id, alternative) else {
            return false;
        };
        if let Some(pool) = self.pools.get() {
            cluster.add_to_bookmark(&mut self.before.bookmark, pool.pods(&plan.set));
        }
        let ranks = self.needed(cluster, shape, id, &plan.set);
        let victims = self.pools.get_mut().map_or_else(Vec::new, |pool| pool.take(&ranks));
        let described = describe(cluster, shape, id, &victims, asked, &plan.missing);
        cluster.take_out(&victims);
        let (Some(grant), Some(eviction)) = (self.entitled(cluster, shape, id), described) else {
            cluster.put_back(&victims);
            self.pools.close();
            return false;
        };
        self.taken.extend(victims);
        self.evictions.push(eviction);
        self.evicted_for.insert(id);
        self.borrowing.remove(&id);
        self.assume(cluster, id, grant)
    }

    /// Returns what a pod would get now, if it is entitled to that.
    fn entitled(&self, cluster: &mut Cluster, shape: &Shape, id: PodId) -> Option<Grant> {
        let grant = verdict::judge(cluster, shape, None, &self.effort).ok();
        grant.filter(|grant| is_entitled(cluster, shape, id, grant.alternative.as_ref()))
    }

    /// Returns which of the candidates have to go. When some pods of the waiting pod's own queue are gone, that queue may come
    /// within what is guaranteed to it, and then less is missing at the levels above than was counted. The dearest candidate is
    /// spared first. When no steps are left, no further candidate is spared.
    fn needed(&self, cluster: &mut Cluster, shape: &Shape, id: PodId, ranks: &[usize]) -> Vec<usize> {
        let mut needed = ranks.to_vec();
        let Some(pool) = self.pools.get().filter(|_| ranks.len() > 1) else {
            return needed;
        };
        cluster.take_out(&pool.pods(ranks));
        for rank in ranks {
            if self.effort.is_spent() {
                break;
            }
            let spared = pool.pods(&[*rank]);
            cluster.put_back(&spared);
            if self.entitled(cluster, shape, id).is_some() {
                needed.retain(|needed| needed != rank);
            } else {
                cluster.take_out(&spared);
            }
        }
        cluster.put_back(&pool.pods(&needed));
        needed
    }

    /// Makes room for all pods of a gang, or for none of them. What is taken back for the gang is taken back together. A gang
    /// that takes more steps than there are is given up here, as in its own turn. Returns whether all of its pods get in.
    fn make_room_for_all(&mut self, cluster: &mut Cluster, id: WorkloadId, pods: &[InLine]) -> bool {
        let (taken, assumed, evictions) = (self.taken.len(), self.assumed.len(), self.evictions.len());
        // Beside what is taken back for it, a gang takes what is free, as it will when it is let in. Of what is free alone,
        // nothing is set aside for it.
        let was_evicted_for = cluster.was_evicted_for_any(pods.iter().map(|(pod, _)| *pod));
        let is_made = |look: &mut Self, cluster: &mut Cluster| {
            pods.iter()
                .all(|(pod, shape)| look.make_room(cluster, shape, *pod, true) && !look.effort.is_spent())
        };
        // The queue must take the gang as a whole before its first pod is in, or the evictions would be in vain. That is asked
        // while none of its pods counts as in.
        let is_taken = |look: &mut Self, cluster: &mut Cluster| {
            look.forget_assumptions(cluster, assumed);
            let pods: Vec<_> = pods.iter().map(|(pod, _)| *pod).collect();
            enqueue::would_take(cluster, id, &pods, &look.effort)
        };
        let may_be_made = |look: &Self| {
            let is_borrowing = |(pod, _): &InLine| look.borrowing.contains_key(pod);
            was_evicted_for || look.evictions.len() > evictions || !pods.iter().any(is_borrowing)
        };
        if is_made(self, cluster) && is_taken(self, cluster) && is_made(self, cluster) && may_be_made(self) {
            let mut together = self.evictions.drain(evictions..);
            if let Some(mut first) = together.next() {
                first.victims.extend(together.flat_map(|eviction| eviction.victims));
                self.evictions.push(first);
            }
            self.groups.insert(id);
            return true;
        }
        self.forget_assumptions(cluster, assumed);
        let back: Vec<_> = self.taken.drain(taken..).collect();
        cluster.put_back(&back);
        // What was found out about the gang's pods may rest on what was assumed.
        self.pools.turn_back(self.stands_at(), &self.taken);
        self.evictions.truncate(evictions);
        for (pod, _) in pods {
            self.evicted_for.remove(pod);
        }
        false
    }

    /// Returns how many pods are taken back and how many are let in by now.
    fn stands_at(&self) -> FoundAt {
        (self.taken.len(), self.assumed.len())
    }

    /// Returns the cheapest set of the pool to take back so that a pod of this shape gets in by this alternative, and what the
    /// pod is charged for then. None where nothing would be sufficient.
    fn plan(
        &mut self,
        cluster: &Cluster,
        shape: &Shape,
        id: PodId,
        alternative: Option<&Alternative>,
    ) -> Option<(Plan, Vec<(Dimension, i128)>)> {
        let is_known = |alternative: &Alternative| alternative.all(|card| cluster.resource_of(card).is_some());
        if !alternative.is_none_or(is_known) {
            return None;
        }
        let asked = asked(cluster, id, alternative);
        // What the pod may lack: quota, and room on a node.
        let charged = asked.iter().map(|(dimension, _)| *dimension);
        let requested = shape.task.request_with(alternative).iter();
        let requested = requested.map(|(dimension, _)| dimension);
        let key = Key::new(cluster, shape, charged.chain(requested));
        let at = self.stands_at();
        let anew = |counts: bool| {
            let effort = if counts { self.effort.clone() } else { Effort::of_gang() };
            Pool::new(cluster, shape, key.clone(), (self.modes, self.now), at, &effort)
        };
        let pool = self.pools.open(&key, at, &self.taken, anew);
        let plan = pool.cheapest(cluster, shape, alternative, &asked, &self.effort)?;
        Some((plan, asked))
    }

    /// Counts all assumed pods but the first `keep` as waiting again.
    fn forget_assumptions(&mut self, cluster: &mut Cluster, keep: usize) {
        while self.assumed.len() > keep {
            if let Some(assumed) = self.assumed.pop() {
                cluster.no_longer_assume(assumed);
            }
        }
    }

    fn assume(&mut self, cluster: &mut Cluster, id: PodId, grant: Grant) -> bool {
        let assumed = cluster.assume_admitted(id, grant.alternative, grant.node, grant.gpus);
        let is_there = assumed.is_some();
        self.assumed.extend(assumed);
        is_there
    }
}
