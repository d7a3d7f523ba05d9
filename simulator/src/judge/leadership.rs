//! Nobody writes without leading: the Lease names the writer, who has renewed it in time.

use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::{Finding, broken, is_operator};
use crate::objects::{CARD_INVENTORIES, CARD_TYPES, CARD_USAGES, EVENTS, LEASES, SECRETS, Write};

/// The rule.
pub const RULE: &str = "nobody writes without leading";

/// Who leads, as the Lease says.
#[derive(Debug, Default)]
pub struct Leadership {
    /// Who wrote itself into the Lease last, and until when it leads by that.
    held: Option<(String, Timestamp)>,
}

impl Leadership {
    /// Looks at a write. The times in the Lease are its holder's and prove nothing: what counts is when it was written. A Lease
    /// that somebody else takes away may not be known to its holder before that time is over: no other operator leads before.
    /// Events and certificates decide nothing, and are anybody's. Nor do reports: what a process had sent when it was stopped
    /// arrives when it goes on, and the next report of who leads replaces it.
    pub fn judge(&mut self, write: &Write) -> Finding {
        if write.resource == &LEASES {
            if let (true, Some(lease)) = (is_operator(&write.who), &write.after) {
                let spec = &lease["spec"];
                let term = SignedDuration::from_secs(spec["leaseDurationSeconds"].as_i64().unwrap_or(0));
                let until = write.at.checked_add(term).unwrap_or(Timestamp::MAX);
                self.held = spec["holderIdentity"].as_str().map(|holder| (holder.to_owned(), until));
            }
            return Ok(());
        }
        let decides = ![&EVENTS, &SECRETS, &CARD_INVENTORIES, &CARD_TYPES, &CARD_USAGES].contains(&write.resource);
        if !is_operator(&write.who) || !decides {
            return Ok(());
        }
        let what = |why: String| format!("{} writes {} {}: {why}", write.who, write.resource.plural, write.key);
        match &self.held {
            None => broken(RULE, what("nobody leads".to_owned())),
            Some((holder, _)) if *holder != *write.who => broken(RULE, what(format!("{holder} leads"))),
            Some((_, until)) if write.at > *until => broken(RULE, what(format!("its Lease was over at {until}"))),
            Some(_) => Ok(()),
        }
    }

    /// The clock on the wall jumped: as much time is left as before.
    pub fn jump(&mut self, by: SignedDuration) {
        if let Some((_, until)) = &mut self.held {
            *until = until.checked_add(by).unwrap_or(Timestamp::MAX);
        }
    }
}
