//! What is kept for groups that send nobody ends, and each time it stays away for longer: so an unchanged world comes to rest,
//! though never for good.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::{Broken, is_operator, leadership};
use crate::objects::{Key, POD_GROUPS, Write};

/// The rule.
pub const RULE: &str = "who was kept something in vain waits for twice as long each time";

/// How long the first wait is.
const FIRST: SignedDuration = SignedDuration::from_secs(30);
/// The longest, which the docs promise.
const LONGEST: SignedDuration = SignedDuration::from_hours(1);
/// By how much a write may be later than what was decided.
const SLACK: SignedDuration = SignedDuration::from_secs(2);

/// How a group has fared.
#[derive(Debug, Default)]
struct Lapse {
    times: u32,
    /// When it came to be in its queue last.
    began: Option<Timestamp>,
    ended: Option<Timestamp>,
}

/// Looks at these writes, in a world in which nobody but operators changes anything: how often what was kept for a group ended in
/// vain, which it does after this `timeout`. Before a group that is told so is in its queue again, at least 30 seconds go by after the first
/// time, twice as many after each further one, and an hour at most.
///
/// One whose pods wait for something else is told that in place of it. It is seen by how long it was in its queue; how soon it is there
/// again is not asked, since pods of it may have been let in meanwhile.
pub fn judge(writes: &[Write], timeout: SignedDuration) -> Result<u32, Broken> {
    let mut groups = BTreeMap::<&Key, Lapse>::new();
    let mut all = 0_u32;
    for write in writes {
        let (Some(before), Some(after)) = (&write.before, &write.after) else {
            continue;
        };
        if leadership::passes_on(write) {
            // The next one starts to count anew.
            groups.clear();
        }
        if write.resource != &POD_GROUPS || !is_operator(&write.who) {
            continue;
        }
        let lapse = groups.entry(&write.key).or_default();
        match (phase(before), phase(after)) {
            ("Inqueue", "Pending") => {
                let stayed = lapse
                    .began
                    .map(|began| write.at.duration_since(began) + SLACK >= timeout);
                // One that leaves earlier, and is told nothing new, leaves for another reason.
                if is_told_so(after) || stayed != Some(false) && reasons(before) == reasons(after) {
                    lapse.times += 1;
                    lapse.ended = Some(write.at);
                    all += 1;
                } else {
                    all += u32::from(stayed == Some(true));
                }
            }
            ("Pending", "Inqueue") => {
                lapse.began = Some(write.at);
                let Some(ended) = lapse.ended else { continue };
                let doubled = FIRST.checked_mul(1 << (lapse.times - 1).min(7)).unwrap_or(LONGEST);
                let waited = write.at.duration_since(ended);
                if waited + SLACK < doubled.min(LONGEST) {
                    let what = format!(
                        "{} is in its queue again {waited:#} after time {}",
                        write.key, lapse.times
                    );
                    return Err(Broken { rule: RULE, what });
                }
            }
            _ => {}
        }
    }
    Ok(all)
}

fn phase(group: &Value) -> &str {
    group["status"]["phase"].as_str().unwrap_or_default()
}

/// Whether a group is told that its time in its queue is over. One whose pods wait for something else is told that, as before.
fn is_told_so(group: &Value) -> bool {
    reasons(group).contains("InqueueTimeout")
}

fn reasons(group: &Value) -> BTreeSet<&str> {
    let conditions = group["status"]["conditions"].as_array().into_iter().flatten();
    conditions
        .filter_map(|condition| condition["reason"].as_str())
        .collect()
}
