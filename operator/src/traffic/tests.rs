use super::*;

/// Begins as many of `writes` writes as may begin, and returns their number.
fn begin(traffic: &mut Traffic, namespace: &str, writes: usize) -> usize {
    let begins = |_: &usize| {
        let may = traffic.has_room(namespace);
        if may {
            traffic.begin(namespace);
        }
        may
    };
    (0..writes).filter(begins).count()
}

#[test]
fn a_slow_namespace_has_a_few_writes_until_one_is_answered_in_time_and_none_is_late() {
    let (mut traffic, now) = (Traffic::default(), Instant::now());
    assert_eq!(begin(&mut traffic, "a", 100), 100);
    traffic.late("a", now);
    assert_eq!(begin(&mut traffic, "a", 100), 0);
    assert_eq!(begin(&mut traffic, "b", 100), 100, "others are not slow");
    (0..99).for_each(|_| traffic.end("a", true));
    assert_eq!(begin(&mut traffic, "a", 100), SLOW_WRITES - 1, "one is late yet");
    traffic.end("a", false);
    assert_eq!(begin(&mut traffic, "a", 100), 1);
    traffic.end("a", true);
    assert_eq!(begin(&mut traffic, "a", 100), 100);
}

#[test]
fn who_is_answered_or_was_slow_long_ago_is_forgotten() {
    let (mut traffic, now) = (Traffic::default(), Instant::now());
    for namespace in ["fast", "slow"] {
        traffic.begin(namespace);
        traffic.late(namespace, now);
        traffic.end(namespace, false);
    }
    traffic.begin("fast");
    traffic.end("fast", true);
    traffic.begin("other");
    traffic.late("other", now + SLOW_FOR / 2);
    assert_eq!(traffic.namespaces.len(), 2, "the slow one and the other");
    traffic.begin("other");
    traffic.late("other", now + SLOW_FOR);
    assert_eq!(traffic.namespaces.len(), 1);
}
