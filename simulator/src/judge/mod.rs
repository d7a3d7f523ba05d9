//! Says whether what the API server stores is as it must be, from its objects and from who wrote what, and from nothing else.
//!
//! No line here is shared with what decides: quantities, cards, queues and configurations are read by small readers of its own,
//! and everything is counted anew from the objects each time. It is meant to be believed by reading it.
//!
//! # What is held against Cardgate
//! Only what it wrote itself. What others bind around it, quotas that are lowered, nodes that shrink: none of that is an excess
//! of Cardgate's. It reads by watches, so what others changed within the last [`Judge::lag`] may not have reached it: there the
//! old or the new counts, whichever is kinder. Its own admissions are known to itself at once, also to the next leader, who
//! lists before it decides: they always count.

mod admission;
mod amounts;
mod cards;
mod configuration;
mod cross_quota;
mod gangs;
mod leadership;
mod nodes;
mod pods;
mod queues;
mod quota;
mod rest;
mod results;
mod shares;
mod shown;
mod stored;
#[cfg(test)]
mod tests;
mod told;
mod view;

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::objects::{Objects, PODS, Write};
use stored::Stored;

/// Who writes as an operator: `operator-0` and its like.
const OPERATORS: &str = "operator";

/// How long what others changed may be on its way to an operator, unless the judge is told.
const LAG: SignedDuration = SignedDuration::from_secs(30);

/// What must hold and does not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// The rule, in a few words that stay the same.
    pub rule: &'static str,
    /// The objects concerned, and the numbers.
    pub what: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.rule, self.what)
    }
}

/// A finding, or none.
type Finding = Result<(), Broken>;

/// Refuses with a rule and what of it.
fn broken(rule: &'static str, what: impl Into<String>) -> Finding {
    Err(Broken {
        rule,
        what: what.into(),
    })
}

/// Whether this is an operator's name.
fn is_operator(who: &str) -> bool {
    who.starts_with(OPERATORS)
}

/// Looks at every write, in the order of the writes, and at what is there when all is quiet.
#[derive(Debug)]
pub struct Judge {
    /// The newest version that was looked at.
    seen: u64,
    /// What is stored after the writes that were looked at.
    stored: Stored,
    /// How long what others changed may be on its way to an operator.
    lag: SignedDuration,
    leadership: leadership::Leadership,
    gangs: gangs::Gangs,
    /// When operators were started, which is not known of yet.
    starts: VecDeque<Timestamp>,
}

impl Default for Judge {
    fn default() -> Self {
        Self::new()
    }
}

impl Judge {
    /// A judge who has seen nothing yet.
    pub fn new() -> Self {
        Self {
            seen: 0,
            stored: Stored::default(),
            lag: LAG,
            leadership: leadership::Leadership::default(),
            gangs: gangs::Gangs::default(),
            starts: VecDeque::new(),
        }
    }

    /// The same, of a world in which what others changed reaches an operator after this time at the latest.
    #[must_use]
    pub fn lag(mut self, lag: SignedDuration) -> Self {
        self.lag = lag;
        self
    }

    /// Looks at the writes since the last call.
    pub fn after_step(&mut self, objects: &Objects) -> Result<(), Broken> {
        for write in objects.writes_after(self.seen) {
            self.hear(write)?;
        }
        Ok(())
    }

    /// An operator is started: it reads its first configuration then, and what can't be read leaves it with the defaults.
    pub fn started(&mut self, at: Timestamp) {
        self.starts.push_back(at);
    }

    /// The newest configuration that can be put in force.
    pub fn configuration(&self) -> Option<&Arc<Value>> {
        self.stored.configuration()
    }

    /// The clock on the wall jumps forward: what was a moment ago still was.
    pub fn jump(&mut self, by: SignedDuration) {
        self.leadership.jump(by);
        self.gangs.jump(by);
        self.stored.jump(by);
    }

    /// Looks at one write, which follows those that were heard before.
    pub fn hear(&mut self, write: &Write) -> Result<(), Broken> {
        self.seen = self.seen.max(write.version);
        while let Some(at) = self.starts.pop_front_if(|at| *at <= write.at) {
            let reads_until = at.checked_add(self.lag).unwrap_or(Timestamp::MAX);
            self.stored.started(at, reads_until);
        }
        let since = earlier(write.at, self.lag);
        let finding = self.judge(write, since);
        self.gangs.hear(write, stored::changes_terms(write));
        self.stored.take(write, since);
        finding
    }

    fn judge(&mut self, write: &Write, since: Timestamp) -> Finding {
        self.leadership.judge(write)?;
        if !is_operator(&write.who) || write.resource != &PODS {
            return Ok(());
        }
        results::judge(write)?;
        if admission::is_one(write) {
            admission::judge(write, &self.stored, since)?;
        }
        Ok(())
    }

    /// Looks at what is there when the world has fallen quiet: after all writes were looked at.
    pub fn at_rest(&self, objects: &Objects) -> Result<(), Broken> {
        rest::judge(&self.stored, objects.now)?;
        self.gangs.at_rest(&self.stored)?;
        shown::judge(&self.stored, objects.now)
    }
}

/// A time so much before another.
fn earlier(at: Timestamp, by: SignedDuration) -> Timestamp {
    at.checked_sub(by).unwrap_or(Timestamp::MIN)
}
