//! An unchanged world does not get the same request again and again. A write that changes nothing is not sent at all. A
//! refused write is tried again a few times at once, and then at longer and longer intervals, up to a minute. Leases, and
//! dry runs of evictions, have other rules.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Finding, broken, is_operator};
use crate::api::attempts::Attempt;
use crate::objects::LEASES;

/// The rule.
pub const RULE: &str = "an unchanged world is not asked again and again";

/// How many more times a refused write may be tried while the intervals grow.
const FIRST_TRIES: u64 = 6;
/// The longest interval.
const INTERVAL: Duration = Duration::from_mins(1);
/// Requests this close together are the same try, and so many of them are allowed.
const AT_ONCE: Duration = Duration::from_secs(10);
const MOST_AT_ONCE: u64 = 5;
/// The subresource by which a pod is evicted. An eviction may be refused for one pod and allowed for others.
const EVICTION: &str = "eviction";

/// The tries at one object.
#[derive(Debug, Default)]
struct Tries {
    /// Whether the last try was refused.
    is_refused: bool,
    /// When the last try began, and how many requests it has.
    last: Option<(Duration, u64)>,
    count: u64,
}

/// Judges requests that changed nothing, in a world that rested from age `since` until now.
pub fn judge(attempts: &[Attempt], since: Duration, now: Duration) -> Finding {
    let most = FIRST_TRIES + now.saturating_sub(since).as_secs().div_ceil(INTERVAL.as_secs());
    let mut all = BTreeMap::<_, Tries>::new();
    let is_counted = |attempt: &&Attempt| attempt.resource != &LEASES && is_operator(&attempt.who);
    for attempt in attempts.iter().filter(is_counted) {
        let (resource, key) = (attempt.resource, &attempt.key);
        let subresource = &*attempt.subresource;
        let tries = all.entry((resource, key, subresource)).or_default();
        // A write that was refused before is sent once it is no longer refused, whatever the object says by then.
        let is_allowed = tries.is_refused || subresource == EVICTION;
        tries.is_refused = attempt.code >= 400;
        if attempt.age <= since {
            continue;
        }
        let Attempt { who, verb, code, .. } = attempt;
        let what = || {
            format!(
                "{who}: {verb:?} {} {key} {subresource}, answered by {code}",
                resource.plural
            )
        };
        if attempt.code < 400 && !is_allowed {
            return broken(RULE, format!("{}, which changes nothing", what()));
        }
        let at_once = match &mut tries.last {
            Some((begin, at_once)) if attempt.age < *begin + AT_ONCE => {
                *at_once += 1;
                *at_once
            }
            last => {
                *last = Some((attempt.age, 1));
                tries.count += 1;
                1
            }
        };
        if at_once > MOST_AT_ONCE || tries.count > most {
            let count = tries.count;
            return broken(
                RULE,
                format!("{}, {at_once} times at once, and {count} times in all", what()),
            );
        }
    }
    Ok(())
}
