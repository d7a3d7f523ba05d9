//! What happened in worlds, in numbers. A world in which nothing happens proves nothing.

use std::fmt;
use std::ops::AddAssign;

use crds::keys::ADMITTED_CONDITION;
use serde_json::Value;

use crate::fault::Fault;
use crate::objects::{EVENTS, JOBS, POD_GROUPS, PODS, Write};
use crate::run::{Happening, Step};

/// How often each thing happened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Pods that an operator let in.
    pub admitted: usize,
    /// Conditions that told pods why they wait.
    pub told: usize,
    /// Pods that an operator evicted.
    pub evicted: usize,
    /// Evicted pods that were told that it was for a pod of another queue.
    pub reclaimed: usize,
    /// Evicted pods that were told that it was for a pod of higher priority.
    pub preempted: usize,
    /// Phases and conditions written on groups.
    pub groups: usize,
    /// Jobs that were resumed.
    pub resumed: usize,
    /// Faults that struck.
    pub faults: usize,
    /// Operators that were killed.
    pub crashes: usize,
    /// Worlds that came to rest.
    pub rested: usize,
    /// Rested worlds whose state was judged.
    pub judged: usize,
    /// Rested worlds in which restarted operators had nothing else to decide.
    pub begun_anew: usize,
    /// Pods of which a user asked, by a review, why they wait.
    pub asked: usize,
}

impl Tally {
    /// Counts these writes and steps.
    pub fn of<'a>(writes: impl IntoIterator<Item = &'a Write>, history: &[Step]) -> Self {
        let mut tally = Self::default();
        for write in writes.into_iter().filter(|write| write.who.starts_with("operator")) {
            tally.count(write);
        }
        for step in history {
            if let Happening::Fault(fault) = &step.what {
                tally.faults += 1;
                tally.crashes += usize::from(matches!(fault, Fault::Crash(..)));
            }
        }
        tally
    }

    fn count(&mut self, write: &Write) {
        let before = write.before.as_deref().unwrap_or(&Value::Null);
        let Some(after) = write.after.as_deref() else {
            self.evicted += usize::from(write.resource == &PODS);
            return;
        };
        if write.resource == &PODS {
            let deleted = |pod: &Value| !pod["metadata"]["deletionTimestamp"].is_null();
            self.admitted += usize::from(before["spec"]["schedulingGates"] != after["spec"]["schedulingGates"]);
            self.evicted += usize::from(deleted(after) && !deleted(before));
            let mut conditions = after["status"]["conditions"].as_array().into_iter().flatten();
            let waits = conditions.any(|one| one["type"] == ADMITTED_CONDITION && one["status"] == "False");
            self.told += usize::from(waits && before["status"] != after["status"]);
        } else if write.resource == &POD_GROUPS {
            self.groups += 1;
        } else if write.resource == &EVENTS && write.before.is_none() {
            self.reclaimed += usize::from(after["reason"] == "Reclaimed");
            self.preempted += usize::from(after["reason"] == "Preempted");
        } else if write.resource == &JOBS {
            self.resumed += 1;
        }
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.admitted += other.admitted;
        self.told += other.told;
        self.evicted += other.evicted;
        self.reclaimed += other.reclaimed;
        self.preempted += other.preempted;
        self.groups += other.groups;
        self.resumed += other.resumed;
        self.faults += other.faults;
        self.crashes += other.crashes;
        self.rested += other.rested;
        self.judged += other.judged;
        self.begun_anew += other.begun_anew;
        self.asked += other.asked;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            admitted,
            told,
            evicted,
            reclaimed,
            preempted,
            groups,
            resumed,
            faults,
            crashes,
            rested,
            judged,
            begun_anew,
            asked,
        } = self;
        write!(
            f,
            "{admitted} pods let in, {told} told why they wait, {evicted} evicted, {reclaimed} of them for \
             other queues and {preempted} for higher priority; {groups} writes on groups, {resumed} Jobs resumed; \
             {faults} faults, {crashes} of them crashes; {rested} worlds at rest, {judged} of them judged then, and {begun_anew} once more \
             after operators had begun anew; {asked} reviews of pods"
        )
    }
}
