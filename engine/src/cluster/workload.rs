//! One workload: a `PodGroup`, or a Job that asks for its cards in advance. Its facts are readable everywhere. Only the
//! methods in `changes` and `progress` change them.

mod changes;
mod progress;
mod succeeded;

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;
use std::sync::Arc;

use jiff::Timestamp;

use self::succeeded::Succeeded;
use super::place::{Place, Turn};
use super::pod::{Controller, NotTaken};
use super::reading::GROUP_FOR_POD;
use super::waiting::Refused;
use crate::amounts::Totals;
use crate::ids::{PodId, QueueId, WorkloadId};
use crate::inqueue::Demand;
use crate::lacking::Lacking;
use crate::reason::Reason;
use crate::refs::{WorkloadKind, WorkloadRef};
pub(super) use changes::Moved;

/// How far a workload is, according to its object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Said {
    /// It waits to be let into its queue: a group that is Pending, a Job that Cardgate suspended.
    Waiting,
    /// The workload is in its queue, and none of its pods has run.
    Enqueued,
    /// Pods of the workload run or have run.
    Started,
    /// The workload makes no pods: a group that is Completed or being deleted, or a Job that has finished, is being
    /// deleted or was suspended by its user.
    Over,
}

/// A workload's time in its queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Enqueued {
    /// When the workload was let into the queue.
    pub since: Timestamp,
    /// How often reservations of its namespace had run out in this queue by then.
    pub lapses: u32,
}

/// A write that would have let a workload in, and that the API server did not take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriteRefused {
    /// How many such writes there were by then, this one included.
    pub times: u32,
    /// Whether it would take a later one.
    pub(crate) how: NotTaken,
    /// Why, in the API server's words.
    pub message: Arc<str>,
    /// Until when the workload stands aside because of the refusal.
    pub until: Timestamp,
}

/// How a workload names its queue. Where it says nothing, its namespace names the queue.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueueNaming {
    /// The queue that the workload names itself.
    pub queue: Option<Box<str>>,
    /// The group that its pods belong to: the pods are in the queue of that group.
    pub group: Option<Box<str>>,
}

/// What a workload says of itself.
#[derive(Debug, Clone, PartialEq)]
pub struct WorkloadTerms {
    /// Tells the workload from an earlier one of the same name.
    pub uid: Arc<str>,
    /// When the workload was created.
    pub created: Timestamp,
    /// How the workload names its queue.
    pub naming: QueueNaming,
    /// The queue that the workload names, or that its group, its namespace or the configuration names for it.
    pub queue: QueueId,
    /// How many of its pods the workload needs at least; at least 1. A group's pods are let in together up to this number.
    pub min_member: usize,
    /// How many pods it needs of each task, by task name, where it says that.
    pub tasks: Box<[(Arc<str>, usize)]>,
    /// What it asks for as a whole before its pods exist: `minResources` and `volcano.sh/card.request`.
    pub demand: Demand,
    /// Whether it asks for anything as a whole.
    pub asks: bool,
    /// How far it is.
    pub said: Said,
    /// When its pods are over at the latest, where it runs and has a time limit (`activeDeadlineSeconds`).
    pub ends: Option<Timestamp>,
    /// The phase that its object shows; none for a Job.
    pub phase: Option<Box<str>>,
    /// Why the object can't be read, where it can't.
    pub problem: Option<Box<str>>,
}

impl WorkloadTerms {
    /// Returns the group that a Job's pods belong to: the group that the Job's template names, else the group that
    /// Volcano's controllers make for the pods, where the pods name Volcano's scheduler. The pods are in the group's queue
    /// only in the first case.
    pub(super) fn group_of_pods(&self) -> Cow<'_, str> {
        let named = self.naming.group.as_deref().map(Cow::Borrowed);
        named.unwrap_or_else(|| Cow::Owned(format!("{GROUP_FOR_POD}{}", self.uid)))
    }

    /// Whether the workload asks for something that may be kept for it.
    pub(super) fn may_be_kept(&self) -> bool {
        self.asks && self.problem.is_none() && self.said != Said::Over
    }
}

/// A pod that was let in: its creation time, its unique id, its place in the table.
pub(super) type Member = (Timestamp, Arc<str>, PodId);

/// A phase that a group is shown in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// The group waits to be let into its queue.
    Pending,
    /// The group is in its queue: its pods may be made, and wait for each other.
    Inqueue,
    /// Enough of the group's pods are on their nodes.
    Running,
}

impl Phase {
    /// Returns the phase as `status.phase` has it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Inqueue => "Inqueue",
            Self::Running => "Running",
        }
    }

    /// Returns the phase with this name.
    fn from_word(word: &str) -> Option<Self> {
        let all = [Self::Pending, Self::Inqueue, Self::Running];
        all.into_iter().find(|phase| phase.as_str() == word)
    }
}

/// What a workload was refused for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Its queue can't take it as a whole (**Job Mode**).
    Enqueue,
    /// Its first pods can't be let in together.
    Together,
    /// The search gave up before it found a way to let its first pods in together.
    GivenUp,
}

/// One workload. Only its own methods change its facts.
#[derive(Debug)]
pub struct Workload(Facts);

impl Deref for Workload {
    type Target = Facts;

    fn deref(&self) -> &Facts {
        &self.0
    }
}

/// What is known of a workload.
#[derive(Debug)]
pub struct Facts {
    /// What kind of object it is.
    pub kind: WorkloadKind,
    /// The namespace of the workload and its pods.
    pub namespace: Arc<str>,
    /// The name, unique in the namespace for the kind.
    pub name: Arc<str>,
    /// What the workload says of itself; none while pods name a group that is not there.
    pub terms: Option<WorkloadTerms>,
    /// Since when the workload is in its queue, where Cardgate decided that it is. The decision is for what it asks for
    /// now, in the queue that it names now.
    pub(super) enqueued: Option<Enqueued>,
    /// Since when it has asked for this, in this queue.
    pub(super) waits_since: Timestamp,
    /// The queue in whose line it stands.
    pub(super) in_line: Option<QueueId>,
    /// For a group: the Jobs whose pods belong to it.
    pub(super) jobs: BTreeSet<WorkloadId>,
    /// Those of these Jobs for which something is kept.
    pub(super) jobs_kept: BTreeSet<WorkloadId>,
    /// How often reservations of its namespace in this queue ran out unused.
    pub(super) lapses: u32,
    /// Whether one of its pods has taken over from what it asks for as a whole.
    pub(super) ran: bool,
    /// The minimum that `core` and `extra` are divided by. Where the object has come to say another one, they are divided anew
    /// before anything is decided.
    divided_by: usize,
    /// Its pods that hold quota, up to the minimum, the earliest first.
    pub(super) core: BTreeSet<Member>,
    /// Its pods that hold quota beyond the minimum.
    pub(super) extra: BTreeSet<Member>,
    /// What all its pods that hold quota hold.
    pub(super) held: Totals,
    /// What they held when there were last as many of them as the workload needs; none where that was never seen.
    pub(super) whole: Option<Totals>,
    /// Since when some of its pods hold quota, but fewer than it needs.
    pub(super) torn_since: Option<Timestamp>,
    /// How many of its pods that hold quota there are of each task.
    pub(super) of_tasks: BTreeMap<Arc<str>, usize>,
    /// How many pods its tasks lack, in all. The number is kept because it is asked for each pod that is let in or given up, also where
    /// that is only tried, and a group may name hundreds of tasks.
    pub(super) lacking_of_tasks: usize,
    /// Its pods that have succeeded.
    succeeded: Succeeded,
    /// Its pods that name no queue and were read before it. Until it is there, their queue is the one that they would have
    /// without it.
    pub(super) without_queue: BTreeSet<PodId>,
    /// Its pods that wait in line, in the order in which they go.
    pub line: BTreeSet<(Reverse<i32>, Place)>,
    /// How many pods name it, in whatever stage.
    pub(super) named: usize,
    /// What its queue keeps for it.
    pub(super) reserved: Option<(QueueId, Demand)>,
    /// What its queue was last found to take for it, since it is in its queue.
    pub(super) checked: Option<Demand>,
    /// Whether what was kept for it last was not used in time.
    pub(super) was_kept_in_vain: bool,
    /// The last verdict, where it was a refusal: what was refused, and why.
    pub refused: Option<(Step, Refused)>,
    /// The reason it was told last.
    pub told: Option<Reason>,
    /// What it was made to show last: its phase, and why it is not further.
    pub shown: Option<(Phase, Option<Reason>)>,
    /// When it is tried again, where resuming it was refused or reservations of its namespace ran out.
    pub(super) aside_until: Option<Timestamp>,
    /// The last time that the API server refused to let it in, since it says what it says now.
    pub write_refused: Option<WriteRefused>,
    /// Rises whenever its refused pods could now be let in as far as the workload is concerned.
    pub version: u64,
    pub(super) arrival: u64,
    pub(super) epoch: u64,
}

impl Facts {
    /// Returns which workload it is, for callers that act on it or report about it.
    pub(crate) fn to_ref(&self, terms: &WorkloadTerms) -> WorkloadRef {
        WorkloadRef {
            kind: self.kind,
            namespace: Arc::clone(&self.namespace),
            name: Arc::clone(&self.name),
            uid: Arc::clone(&terms.uid),
        }
    }

    /// Returns how many of its pods are let in together.
    pub fn min_member(&self) -> usize {
        self.terms.as_ref().map_or(1, |terms| terms.min_member)
    }

    /// Returns how many of its pods hold quota. Pods that are being deleted do not count.
    pub fn admitted(&self) -> usize {
        self.core.len() + self.extra.len()
    }

    /// Whether its pods are still divided by an earlier minimum than the one that it says now.
    pub(super) fn is_unbalanced(&self) -> bool {
        self.divided_by != self.min_member()
    }

    /// Returns what its pods hold, and what they held when there were last as many of them as it needs.
    pub(crate) fn held(&self) -> (&Totals, Option<&Totals>) {
        (&self.held, self.whole.as_ref())
    }

    /// Returns since when fewer of its pods hold quota than it needs, though some do.
    pub(crate) fn torn_since(&self) -> Option<Timestamp> {
        self.torn_since
    }

    /// Whether some of its pods hold quota, and fewer than it needs.
    pub(super) fn is_torn(&self) -> bool {
        self.admitted() > 0 && self.missing() > 0
    }

    /// Whether as many of its pods hold quota as it needs. While its object does not exist, and it was not torn before,
    /// whatever pods are left count as whole: pods deleted meanwhile then give it no claim when it is made anew. This does
    /// not apply to a group that was never seen whole.
    pub(super) fn is_whole(&self) -> bool {
        let may_be = self.terms.is_some() || self.torn_since.is_none() && self.whole.is_some();
        may_be && self.admitted() > 0 && self.missing() == 0
    }

    /// Whether what is noted about being whole and being torn is up to date.
    pub(super) fn is_measured(&self) -> bool {
        let is_noted = !self.is_whole() || self.whole.as_ref() == Some(&self.held);
        is_noted && (self.is_torn() == self.torn_since.is_some() || self.terms.is_none())
    }

    /// Returns its pods that hold quota.
    pub fn members(&self) -> impl Iterator<Item = PodId> + '_ {
        self.core.iter().chain(&self.extra).map(|member| member.2)
    }

    /// Returns how many of its pods have succeeded. They count as if they were still there.
    pub fn succeeded(&self) -> usize {
        self.succeeded.count()
    }

    /// Returns how many of its pods count toward the minimum of each task that it names, in the order of these tasks.
    fn counts_of_tasks(&self) -> Vec<usize> {
        let tasks = self.terms.iter().flat_map(|terms| terms.tasks.iter());
        let count =
            |task: &Arc<str>| self.of_tasks.get(task).map_or(0, |admitted| *admitted) + self.succeeded.of_task(task);
        tasks.map(|(task, _)| count(task)).collect()
    }

    /// Returns how many pods are to be let in together before others follow one by one.
    pub fn missing(&self) -> usize {
        let in_all = self.min_member().saturating_sub(self.admitted() + self.succeeded());
        let missing = in_all.max(self.lacking_of_tasks);
        debug_assert_eq!(missing, self.lacking().count(), "what the tasks lack is counted anew");
        missing
    }

    /// Returns which pods are to be let in together before others follow one by one.
    pub fn lacking(&self) -> Lacking {
        let tasks = self.terms.iter().flat_map(|terms| terms.tasks.iter());
        let missing = tasks.zip(self.counts_of_tasks()).filter_map(|((task, least), count)| {
            let missing = least.saturating_sub(count);
            (missing > 0).then(|| (Arc::clone(task), missing))
        });
        let in_all = self.min_member().saturating_sub(self.admitted() + self.succeeded());
        Lacking::new(in_all, missing.collect())
    }

    /// Whether some of its pods are of use only together: it needs several pods, or some pods of certain tasks.
    pub fn is_gang(&self) -> bool {
        self.min_member() > 1 || self.terms.as_ref().is_some_and(|terms| !terms.tasks.is_empty())
    }

    /// Returns how many of its pods that hold quota are beyond its minimum: in all, and for each task.
    pub fn surplus(&self) -> (usize, Vec<(Arc<str>, usize)>) {
        let tasks = self.terms.iter().flat_map(|terms| terms.tasks.iter());
        let of_task =
            |((task, least), count): (&(Arc<str>, usize), usize)| (Arc::clone(task), count.saturating_sub(*least));
        let in_all = (self.admitted() + self.succeeded()).saturating_sub(self.min_member());
        (
            in_all.min(self.admitted()),
            tasks.zip(self.counts_of_tasks()).map(of_task).collect(),
        )
    }

    /// Whether its pods have taken over, so that what it asks for as a whole has no effect any more.
    pub fn is_started(&self) -> bool {
        let said = self.terms.as_ref().map(|terms| terms.said);
        self.ran || self.admitted() > 0 || self.succeeded() > 0 || said == Some(Said::Started)
    }

    /// Whether it is a Job that nobody holds: it makes its pods, or makes none any more.
    pub(super) fn is_unheld_job(&self) -> bool {
        let said = self.terms.as_ref().map(|terms| terms.said);
        self.kind == WorkloadKind::Job && said.is_some_and(|said| said != Said::Waiting)
    }

    /// Returns how many pods name it and neither hold quota, nor stand in line, nor have succeeded.
    pub(crate) fn kept_out(&self) -> usize {
        let known = self.admitted() + self.succeeded() + self.line.len() + self.jobs.len();
        self.named.saturating_sub(known)
    }

    /// Whether its pods belong to no group besides.
    pub(crate) fn names_no_group(&self) -> bool {
        let terms = self.terms.as_ref();
        terms.is_some_and(|terms| terms.naming.group.is_none())
    }

    /// Whether it is in its queue. What its object says about that does not count: anybody who may change the object could
    /// say so.
    pub fn is_enqueued(&self) -> bool {
        self.enqueued.is_some()
    }

    /// Whether it was refused for its pods, and none of these waits any more. Nobody looks at it again until another pod
    /// waits, and it does not itself ask for what the pods asked for.
    pub(super) fn is_refused_for_nobody(&self) -> bool {
        let waits_itself = self.in_line.is_some() || self.aside_until.is_some();
        self.refused.is_some() && self.line.is_empty() && !waits_itself
    }

    /// Returns until when it stands aside.
    pub fn aside_until(&self) -> Option<Timestamp> {
        self.aside_until
    }

    /// Returns what its queue keeps for it.
    pub fn reserved(&self) -> Option<&Demand> {
        self.reservation().map(|(_, demand)| demand)
    }

    /// Returns what is kept for it, and in which queue.
    pub(super) fn reservation(&self) -> Option<(QueueId, &Demand)> {
        self.reserved.as_ref().map(|(queue, demand)| (*queue, demand))
    }

    /// Whether what was kept for it last was not used in time. This is false for a workload that stands aside because of
    /// another workload of its namespace.
    pub(crate) fn was_kept_in_vain(&self) -> bool {
        self.was_kept_in_vain
    }

    /// Whether `demand` asks for more of some resource than its queue was last found to take. Cards are not compared,
    /// since they are always the cards that it asks for; beside them, resources may count or not.
    pub(super) fn was_checked_for_less_than(&self, demand: &Demand) -> bool {
        let mut resources = demand.resources.iter();
        self.checked
            .as_ref()
            .is_none_or(|checked| resources.any(|(dimension, amount)| amount > checked.resources.get(dimension)))
    }

    /// Returns the priority of the first of its waiting pods.
    pub fn priority(&self) -> i32 {
        self.line.first().map_or(0, |(Reverse(priority), _)| *priority)
    }

    /// Returns the workload as its pods name it as their controller.
    pub(crate) fn controller(&self) -> Controller {
        Controller::new(&self.namespace, self.kind.as_str(), &self.name)
    }

    /// Returns its turn among what waits: its priority, and its place among workloads of the same priority.
    pub(crate) fn turn(&self) -> Turn {
        (Reverse(self.priority()), self.place())
    }

    /// Returns its place among what waits.
    pub fn place(&self) -> Place {
        Place {
            returns: self.lapses,
            created: self.waits_since,
            arrival: self.arrival,
            pod: PodId::NONE,
        }
    }
}
