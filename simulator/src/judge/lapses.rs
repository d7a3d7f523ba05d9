//! What is kept for groups that send no pods lapses, and each time it stays away for longer. So an unchanged world comes to
//! rest, though never for good.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::{Broken, is_operator, leadership};
use crate::objects::{Key, POD_GROUPS, Write};

/// The rule.
pub const RULE: &str = "who was kept something in vain waits for twice as long each time";

/// How long the first wait is.
const FIRST: SignedDuration = SignedDuration::from_secs(30);
/// The longest wait, which the docs promise.
const LONGEST: SignedDuration = SignedDuration::from_hours(1);
/// How much later than its decision a write may be.
const SLACK: SignedDuration = SignedDuration::from_secs(2);

/// The history of a group.
#[derive(Debug, Default)]
struct Lapse {
    times: u32,
    /// When the group was last let into its queue.
    began: Option<Timestamp>,
    ended: Option<Timestamp>,
}

/// Returns how often, by these writes, what was kept for a group lapsed in vain, after this `timeout`, in a world that only
/// operators change. A group that is told of the lapse comes back to its queue after at least 30 seconds the first time,
/// twice as long after each further time, and an hour at most.
///
/// A group whose pods wait for something else is told that instead. It is recognised by how long it was in its queue. How
/// soon it comes back is not judged, since pods of it may have been let in meanwhile.
pub fn judge(writes: &[Write], timeout: SignedDuration) -> Result<u32, Broken> {
    let mut groups = BTreeMap::<&Key, Lapse>::new();
    let mut all = 0_u32;
    for write in writes {
        let (Some(before), Some(after)) = (&write.before, &write.after) else {
            continue;
        };
        if leadership::passes_on(write) {
            // The next operator starts to count anew.
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
                // A group that leaves earlier, and is told nothing new, leaves for another reason.
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

/// Whether a group is told that its time in its queue is over. A group whose pods wait for something else is told that, as
/// before.
fn is_told_so(group: &Value) -> bool {
    reasons(group).contains("InqueueTimeout")
}

fn reasons(group: &Value) -> BTreeSet<&str> {
    let conditions = group["status"]["conditions"].as_array().into_iter().flatten();
    conditions
        .filter_map(|condition| condition["reason"].as_str())
        .collect()
}
