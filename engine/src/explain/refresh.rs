//! Keeps true what waiting pods and workloads were told. Their reason may stay while its numbers change, or while it changes whether waiting
//! can help. A change of the latter is told at once; changed numbers are not.

mod outlooks;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::ObjectReference;

use self::outlooks::Outlooks;
use super::notices::{Notice, STEPS_AT_ONCE, cost_of_pod, cost_of_workload, notice};
use super::progress::{Progress, progress_of};
use crate::cluster::Cluster;
use crate::reason::{Outlook, Reason};
use crate::refs::WorkloadRef;
use crate::steps::Steps;

/// How long numbers that may have changed are left as they are. Otherwise a busy queue would write to everything that waits in it all the
/// time.
const REFRESH: SignedDuration = SignedDuration::from_mins(2);

/// When everything is told again, changed or not: API servers drop events after an hour, unless configured otherwise.
const AGAIN: SignedDuration = SignedDuration::from_mins(50);

/// The most waiters that are remembered, since a user may make and delete pods and groups faster than they are looked at again. Where there
/// are more, the namespaces with the most waiters give way. A waiter that is not remembered is told anew only when it has another reason.
const MOST: usize = 50_000;

/// A pod or workload that waits and was told why.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Waiter {
    /// A pod, by its unique id.
    Pod(Arc<str>),
    Workload(WorkloadRef),
}

/// A scheduled look: its time, and the waiter to look at.
type Look = (Timestamp, Waiter);

/// What to tell.
#[derive(Debug)]
pub enum Fresh {
    /// What a pod is told anew.
    Pod(Notice),
    /// What a workload is told anew.
    Workload(Progress),
    /// What a waiter is told again unchanged: its conditions still say it, but events expire.
    Again(Box<Reminder>),
}

/// What a waiter was told long ago, and what is still so.
#[derive(Debug)]
pub struct Reminder {
    /// The object that waits.
    pub regarding: ObjectReference,
    /// Why, in one word.
    pub reason: Reason,
    /// Why, with the numbers of this moment.
    pub message: String,
}

/// What waiters were told, in the order in which they are looked at again: within a namespace by time, and the namespaces in turn, so that a
/// crowd in one namespace does not keep others waiting.
#[derive(Debug, Default)]
pub struct Refresher {
    looks: BTreeMap<Arc<str>, VecDeque<Look>>,
    /// The number of looks of all namespaces.
    count: usize,
    /// The time of the first look of each namespace that is not due yet.
    ahead: BTreeSet<(Timestamp, Arc<str>)>,
    /// The namespaces that are due; the next one first.
    due: VecDeque<Arc<str>>,
    /// What each waiter was told. Each is looked at once, however often it is told something.
    told: HashMap<Waiter, Told>,
    outlooks: Outlooks,
}

#[derive(Debug)]
struct Told {
    /// The hash of the message, which may be long; none where it was told before this process began.
    hash: Option<u64>,
    /// Whether waiting can help, as it was told; none where it was told before this process began.
    outlook: Option<Outlook>,
    /// When the waiter was last told something.
    said: Timestamp,
    look_at: Timestamp,
}

impl Refresher {
    /// Remembers all waiting pods and groups that were told why by an earlier leader. Jobs show nothing of what they were told, so a new
    /// leader tells them again.
    pub fn take_over(&mut self, cluster: &Cluster, now: Timestamp) {
        let groups = cluster.workloads().map(|(_, workload)| workload);
        for (group, terms) in
            groups.filter_map(|group| Some((group, group.terms.as_ref().filter(|_| group.told.is_some())?)))
        {
            self.remember(
                &group.namespace,
                Waiter::Workload(group.to_ref(terms)),
                (None, None, now),
                now,
            );
        }
        for pod in cluster.pods().filter(|pod| pod.told.is_some() && pod.waits.is_some()) {
            let waiter = Waiter::Pod(Arc::clone(&pod.uid));
            self.remember(&pod.namespace, waiter, (None, None, now), now);
        }
    }

    /// Returns how many looks are scheduled.
    #[expect(clippy::len_without_is_empty, reason = "nobody asks whether there are none")]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Notes that a pod is told this.
    pub fn note(&mut self, notice: &Notice, now: Timestamp) {
        let waiter = Waiter::Pod(Arc::clone(&notice.pod.uid));
        let told = (Some(hash(&notice.message)), Some(notice.outlook), now);
        self.remember(&notice.pod.namespace, waiter, told, now);
    }

    /// Notes that a workload is told this.
    pub fn note_progress(&mut self, progress: &Progress, now: Timestamp) {
        if let Some((_, message)) = &progress.refused {
            let waiter = Waiter::Workload(progress.workload.clone());
            let told = (Some(hash(message)), progress.outlook, now);
            self.remember(&progress.workload.namespace, waiter, told, now);
        }
    }

    fn remember(
        &mut self,
        namespace: &Arc<str>,
        waiter: Waiter,
        (hash, outlook, said): (Option<u64>, Option<Outlook>, Timestamp),
        now: Timestamp,
    ) {
        let look_at = now + REFRESH;
        if self.count >= MOST && !self.makes_room(namespace) {
            return;
        }
        let looks = self.looks.entry(Arc::clone(namespace)).or_default();
        if looks.is_empty() {
            self.ahead.insert((look_at, Arc::clone(namespace)));
        }
        looks.push_back((look_at, waiter.clone()));
        self.count += 1;
        let told = Told {
            hash,
            outlook,
            said,
            look_at,
        };
        self.told.insert(waiter, told);
    }

    /// Schedules a waiter before all others of its namespace.
    fn hasten(&mut self, cluster: &Cluster, waiter: Waiter, now: Timestamp) {
        let (Some(namespace), Some(told)) = (waiter.namespace(cluster), self.told.get_mut(&waiter)) else {
            return;
        };
        // Without room, the waiter is looked at in a few minutes anyway.
        if self.count >= MOST {
            return;
        }
        told.look_at = now;
        let looks = self.looks.entry(Arc::clone(&namespace)).or_default();
        let was_ahead = looks
            .front()
            .is_none_or(|(first, _)| self.ahead.remove(&(*first, Arc::clone(&namespace))));
        if was_ahead {
            self.due.push_back(namespace);
        }
        looks.push_front((now, waiter));
        self.count += 1;
    }

    /// Forgets the last look of the namespace that has most, for a namespace that has fewer. Returns false where this namespace has as many.
    fn makes_room(&mut self, namespace: &str) -> bool {
        let own = self.looks.get(namespace).map_or(0, VecDeque::len);
        let most = self.looks.values_mut().max_by_key(|looks| looks.len());
        // A namespace with more than another has one look left afterwards, and so keeps its place in the order.
        let Some(looks) = most.filter(|looks| looks.len() > own + 1) else {
            return false;
        };
        if let Some((look_at, waiter)) = looks.pop_back() {
            self.count -= 1;
            if self.told.get(&waiter).is_some_and(|told| told.look_at == look_at) {
                self.told.remove(&waiter);
            }
        }
        true
    }

    /// Returns the next look that is due, of the namespace whose turn it is.
    fn next_look(&mut self, now: Timestamp) -> Option<(Arc<str>, Look)> {
        while self.ahead.first().is_some_and(|(look_at, _)| is_due(*look_at, now)) {
            self.due.extend(self.ahead.pop_first().map(|(_, namespace)| namespace));
        }
        while self.ahead.last().is_some_and(|(look_at, _)| is_due(*look_at, now)) {
            self.due.extend(self.ahead.pop_last().map(|(_, namespace)| namespace));
        }
        let namespace = self.due.pop_front()?;
        let looks = self.looks.get_mut(&namespace)?;
        let look = looks.pop_front()?;
        self.count -= 1;
        match looks.front().map(|(look_at, _)| *look_at) {
            None => {
                self.looks.remove(&namespace);
            }
            Some(look_at) if is_due(look_at, now) => self.due.push_back(Arc::clone(&namespace)),
            Some(look_at) => {
                self.ahead.insert((look_at, Arc::clone(&namespace)));
            }
        }
        Some((namespace, look))
    }

    /// Looks at the next few waiters. Returns what to tell waiters whose reason is the same but whose message has changed, and waiters that
    /// were told so long ago that the event is gone. Waiters for which it has changed whether waiting can help come first.
    pub fn refresh(&mut self, cluster: &Cluster, now: Timestamp, limit: usize) -> Vec<Fresh> {
        let mut anew = Vec::new();
        if limit > 0 {
            let all = self.looks.values().flatten().map(|(_, waiter)| waiter);
            for waiter in self.outlooks.changed(cluster, &self.told, all) {
                self.hasten(cluster, waiter, now);
            }
        }
        let steps = Steps::new(STEPS_AT_ONCE);
        for _ in 0..limit {
            if steps.are_spent() {
                break;
            }
            let Some((namespace, (look_at, waiter))) = self.next_look(now) else {
                break;
            };
            // The waiter was told something else since this look was scheduled.
            let Some(told) = self.told.remove(&waiter) else {
                continue;
            };
            if told.look_at != look_at {
                self.told.insert(waiter, told);
                continue;
            }
            // A waiter that was let in, or is told another reason now, is dropped.
            steps.spend(cost(cluster, &waiter));
            let Some(fresh) = fresh(cluster, &waiter) else { continue };
            let hash = Some(hash(fresh.message()));
            let (is_new, is_old) = (told.hash != hash, now.duration_since(told.said) >= AGAIN);
            let said = if is_new || is_old { now } else { told.said.min(now) };
            self.remember(&namespace, waiter, (hash, fresh.outlook(), said), now);
            if is_new {
                anew.push(fresh);
            } else if is_old {
                anew.extend(fresh.again());
            }
        }
        anew
    }
}

/// Whether it is time for a look. A look that lies further ahead than any look can was scheduled before the clock was set back.
fn is_due(look_at: Timestamp, now: Timestamp) -> bool {
    look_at <= now || look_at > now + REFRESH
}

impl Waiter {
    /// Returns the namespace in which the waiter waits; none where it is gone.
    fn namespace(&self, cluster: &Cluster) -> Option<Arc<str>> {
        Some(match self {
            Self::Pod(uid) => Arc::clone(&cluster.pod(cluster.pod_with_uid(uid)?)?.namespace),
            Self::Workload(workload) => Arc::clone(&workload.namespace),
        })
    }
}

impl Fresh {
    /// Returns whether waiting can help; none where that is not known.
    fn outlook(&self) -> Option<Outlook> {
        match self {
            Self::Pod(notice) => Some(notice.outlook),
            Self::Workload(progress) => progress.outlook,
            Self::Again(_) => None,
        }
    }

    fn message(&self) -> &str {
        match self {
            Self::Pod(notice) => &notice.message,
            Self::Workload(progress) => progress.refused.as_ref().map_or("", |(_, message)| message),
            Self::Again(reminder) => &reminder.message,
        }
    }

    /// Returns the same as a reminder, for a waiter that was told it already.
    fn again(self) -> Option<Self> {
        let (regarding, (reason, message)) = match self {
            Self::Pod(notice) => (notice.pod.reference(), (notice.reason, notice.message)),
            Self::Workload(progress) => (progress.workload.reference(), progress.refused?),
            Self::Again(_) => return Some(self),
        };
        Some(Self::Again(Box::new(Reminder {
            regarding,
            reason,
            message,
        })))
    }
}

/// Returns the cost of finding what to tell a waiter.
fn cost(cluster: &Cluster, waiter: &Waiter) -> u64 {
    match waiter {
        Waiter::Pod(uid) => {
            let pod = cluster.pod_with_uid(uid).and_then(|id| cluster.pod(id));
            let told = pod.and_then(|pod| Some((pod.waits.as_ref()?, pod.told?)));
            told.map_or(0, |(waits, reason)| cost_of_pod(cluster, &waits.shape, reason))
        }
        Waiter::Workload(workload) => {
            let id = cluster.workload_named(workload.kind, &workload.namespace, &workload.name);
            id.map_or(0, |id| cost_of_workload(cluster, id))
        }
    }
}

/// Returns what to tell a waiter at this moment, if its reason is the one that it was told last.
fn fresh(cluster: &Cluster, waiter: &Waiter) -> Option<Fresh> {
    match waiter {
        Waiter::Pod(uid) => {
            let id = cluster.pod_with_uid(uid)?;
            let told = cluster.pod(id)?.told?;
            let fresh = notice(cluster, id).filter(|fresh| fresh.reason == told)?;
            Some(Fresh::Pod(fresh))
        }
        Waiter::Workload(workload) => {
            let id = cluster.workload_named(workload.kind, &workload.namespace, &workload.name)?;
            let told = cluster.workload(id).told?;
            let fresh = progress_of(cluster, id, true).filter(|fresh| fresh.workload == *workload)?;
            let is_same = fresh.refused.as_ref().is_some_and(|(reason, _)| *reason == told);
            is_same.then_some(Fresh::Workload(fresh))
        }
    }
}

fn hash(message: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    message.hash(&mut hasher);
    hasher.finish()
}
