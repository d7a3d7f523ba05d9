//! An unchanged world is not asked again and again: what changes nothing is not written at all, and what is refused is tried again some times
//! at once, and then at longer and longer intervals, up to a minute. Leases, and whether somebody could be evicted, are asked for otherwise.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Finding, broken, is_operator};
use crate::api::attempts::Attempt;
use crate::objects::LEASES;

/// The rule.
pub const RULE: &str = "an unchanged world is not asked again and again";

/// How often what is refused is tried besides, while the intervals grow.
const FIRST_TRIES: u64 = 6;
/// The longest interval.
const INTERVAL: Duration = Duration::from_mins(1);
/// What is tried again so soon is the same try, of which there may be so many.
const AT_ONCE: Duration = Duration::from_secs(10);
const MOST_AT_ONCE: u64 = 5;
/// The part of a pod by which it is evicted. What is refused to one is asked of others, and allowed to some.
const EVICTION: &str = "eviction";

/// The tries at one object.
#[derive(Debug, Default)]
struct Tries {
    /// Whether it was refused when it was tried last.
    is_refused: bool,
    /// When the last try began, and of how many requests it is.
    last: Option<(Duration, u64)>,
    count: u64,
}

/// Judges what changed nothing since this age of a world that rested from then on until now.
pub fn judge(attempts: &[Attempt], since: Duration, now: Duration) -> Finding {
    let most = FIRST_TRIES + now.saturating_sub(since).as_secs().div_ceil(INTERVAL.as_secs());
    let mut all = BTreeMap::<_, Tries>::new();
    let is_counted = |attempt: &&Attempt| attempt.resource != &LEASES && is_operator(&attempt.who);
    for attempt in attempts.iter().filter(is_counted) {
        let (resource, key) = (attempt.resource, &attempt.key);
        let subresource = &*attempt.subresource;
        let tries = all.entry((resource, key, subresource)).or_default();
        // What was refused is written once it no longer is, whatever is there by then.
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
