//! Only the leader writes: when a write was sent, the Lease named its author, who had renewed it in time.

use std::time::Duration;

use crds::keys::{LEADER, NAMESPACE};

use super::{Finding, broken, is_operator};
use crate::objects::{CARD_INVENTORIES, CARD_TYPES, CARD_USAGES, CONFIG_MAPS, EVENTS, LEASES, PODS, SECRETS, Write};

/// The rule.
pub const RULE: &str = "nobody writes without leading";

/// Which operator led when, according to the Lease. Times are by a clock that nobody sets.
#[derive(Debug, Default)]
pub struct Leadership {
    /// The terms of leaders, in order. Each lasts until the next begins.
    terms: Vec<Term>,
    /// The leaders that the policies accepted, and since when.
    named: Vec<(String, Duration)>,
}

#[derive(Debug)]
struct Term {
    holder: String,
    from: Duration,
    until: Duration,
}

impl Leadership {
    /// Judges a write. Until a new leader is named where the policies read it, it decides nothing, and what the former
    /// leader had under way is accepted. The times in the Lease are its holder's and prove nothing: what counts is when the
    /// Lease was written. If another client takes the Lease away, its holder may not know that before its time is over; no
    /// other operator leads before. An author can't know how long a write will be on its way either: what counts is when it
    /// was sent. Events and certificates decide nothing, and every operator may write them. The same holds for reports: what
    /// a process had sent when it was stopped arrives when it goes on, and the leader's next report replaces it.
    pub fn judge(&mut self, write: &Write) -> Finding {
        if write.resource == &LEASES {
            if let (true, Some(lease)) = (is_operator(&write.who), &write.after) {
                let spec = &lease["spec"];
                let term = spec["leaseDurationSeconds"].as_u64().unwrap_or(0);
                self.terms.push(Term {
                    holder: spec["holderIdentity"].as_str().unwrap_or_default().to_owned(),
                    from: write.age,
                    until: write.age + Duration::from_secs(term),
                });
            }
            return Ok(());
        }
        if write.resource == &CONFIG_MAPS
            && let Some(name) = write.after.as_ref().and_then(|map| map["data"][LEADER].as_str())
        {
            self.named.push((name.to_owned(), write.age));
        }
        let decides = ![&EVENTS, &SECRETS, &CARD_INVENTORIES, &CARD_TYPES, &CARD_USAGES].contains(&write.resource);
        // An operator says on its own pod whether it leads.
        let is_own = write.resource == &PODS && write.key.namespace == NAMESPACE;
        if !is_operator(&write.who) || !decides || is_own {
            return Ok(());
        }
        let what = |why: String| format!("{} writes {} {}: {why}", write.who, write.resource.plural, write.key);
        let term = self.terms.iter().rev().find(|term| term.from <= write.sent);
        match term {
            None => broken(RULE, what("nobody leads".to_owned())),
            Some(Term { holder, .. }) if *holder != *write.who && self.named(write.sent) == Some(&*write.who) => Ok(()),
            Some(Term { holder, .. }) if *holder != *write.who => broken(RULE, what(format!("{holder} leads"))),
            Some(Term { until, .. }) if write.sent > *until => {
                let over = write.sent.saturating_sub(*until);
                broken(RULE, what(format!("its Lease was over {over:?} before")))
            }
            Some(_) => Ok(()),
        }
    }
}

impl Leadership {
    /// Returns the leader that the policies accepted at this time.
    fn named(&self, at: Duration) -> Option<&str> {
        let named = self.named.iter().rev().find(|(_, since)| *since <= at);
        named.map(|(name, _)| &**name)
    }
}

/// Whether a write gives the Lease to another holder.
pub fn passes_on(write: &Write) -> bool {
    let (true, Some(before), Some(after)) = (write.resource == &LEASES, &write.before, &write.after) else {
        return false;
    };
    before["spec"]["holderIdentity"] != after["spec"]["holderIdentity"]
}
