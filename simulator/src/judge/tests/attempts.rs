use std::time::Duration;

use super::super::attempts::{RULE, judge};
use super::history::key;
use crate::api::asked::Verb;
use crate::api::attempts::Attempt;
use crate::objects::{LEASES, NODES, PODS, Resource};

/// Returns attempts at one object, the first after a minute, each so many seconds after the one before.
fn attempts(resource: &'static Resource, subresource: &str, code: u16, count: u64, interval: u64) -> Vec<Attempt> {
    let at = |number| Attempt {
        who: "operator-0".into(),
        age: Duration::from_secs(60 + number * interval),
        verb: Verb::Patch,
        resource,
        key: key(resource, "one"),
        subresource: subresource.to_owned(),
        code,
    };
    (0..count).map(at).collect()
}

#[test]
fn what_changes_nothing_is_asked_for_at_long_intervals_or_not_at_all() {
    let minute = Duration::from_mins(1);
    for (resource, subresource, code, count, interval, breaks) in [
        (&NODES, "", 422, 12, 60, false),
        (&NODES, "", 422, 5, 1, false),
        (&NODES, "", 422, 6, 1, true),
        (&NODES, "", 422, 30, 20, true),
        (&NODES, "", 200, 1, 1, true),
        (&LEASES, "", 409, 30, 1, false),
        (&PODS, "eviction", 201, 12, 60, false),
        (&PODS, "eviction", 201, 30, 1, true),
    ] {
        let all = attempts(resource, subresource, code, count, interval);
        let found = judge(&all, minute / 2, 13 * minute).err();
        assert_eq!(found.map(|broken| broken.rule), breaks.then_some(RULE), "{all:?}");
        // What happened before the world came to rest is not judged here.
        assert_eq!(judge(&all, 20 * minute, 30 * minute), Ok(()));
    }
}
