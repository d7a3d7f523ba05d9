//! The order and the times of writes, with explicit time.

use proptest::prelude::*;

use super::*;

/// A queue with a clock.
struct Clock {
    queue: WriteQueue,
    now: Instant,
}

impl Clock {
    fn new() -> Self {
        Self {
            queue: WriteQueue::default(),
            now: Instant::now(),
        }
    }

    fn offer(&mut self, target: &Target, urgency: Urgency) {
        self.queue.offer(target, urgency, self.now, self.now);
    }

    fn take(&mut self) -> Option<Target> {
        self.queue.take(self.now)
    }

    fn done(&mut self, target: &Target, outcome: Outcome) {
        self.queue.done(target, outcome, 1, self.now);
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
    }

    /// Returns how long it takes until there is something to take. The queue must have nothing before that, and something then.
    #[track_caller]
    fn wait(&mut self) -> Duration {
        let at = self.queue.wake_at().expect("something waits");
        let wait = at.saturating_duration_since(self.now);
        assert_eq!(self.queue.wake_at(), Some(at));
        if wait > Duration::ZERO {
            assert_eq!(
                self.queue.take(at.checked_sub(Duration::from_nanos(1)).unwrap()),
                None,
                "too early"
            );
        }
        self.now = self.now.max(at);
        wait
    }
}

fn inventory(name: &str) -> Target {
    Target::Inventory(name.into())
}

fn condition(uid: &str) -> Target {
    Target::Condition(uid.into())
}

fn event(key: &str) -> Target {
    Target::Event(key.into())
}

#[test]
fn conditions_go_before_events_and_events_before_numbers_of_use() {
    let mut clock = Clock::new();
    clock.offer(&inventory("n"), Urgency::Usage);
    clock.offer(&event("e"), Urgency::Event);
    clock.offer(&condition("p"), Urgency::Prompt);
    clock.offer(&condition("q"), Urgency::Prompt);
    clock.pass(QUIET);
    assert_eq!(clock.take(), Some(condition("p")));
    assert_eq!(clock.take(), Some(condition("q")));
    assert_eq!(clock.take(), Some(event("e")));
    assert_eq!(clock.take(), Some(inventory("n")));
    assert_eq!(clock.take(), None);
}

#[test]
fn who_has_much_to_hear_at_once_keeps_nobody_else_from_being_written() {
    let mut clock = Clock::new();
    let usage = Target::Usage("team-a".into());
    clock.offer(&usage, Urgency::of_use(&usage));
    clock.offer(&event("e"), Urgency::Event);
    clock.pass(QUIET);
    let mut taken = Vec::new();
    for number in 0..8 {
        clock.offer(&condition(&number.to_string()), Urgency::Prompt);
    }
    for _ in 0..9 {
        let target = clock.take().expect("something is due");
        clock.done(&target, Outcome::Settled);
        taken.push(target);
    }
    // The event has been due for longest.
    assert_eq!(
        taken.iter().position(|target| *target == event("e")),
        Some(3),
        "{taken:?}"
    );
    assert_eq!(taken.iter().position(|target| *target == usage), Some(7), "{taken:?}");
}

#[test]
fn a_write_that_is_withdrawn_is_never_made() {
    let mut clock = Clock::new();
    let later = clock.now + QUIET;
    clock.queue.offer(&condition("p"), Urgency::Prompt, later, clock.now);
    assert_eq!(clock.take(), None);
    clock.queue.withdraw(&condition("p"));
    clock.pass(QUIET);
    assert_eq!((clock.take(), clock.queue.wake_at()), (None, None));
    // The same holds for a running write that fails.
    clock.offer(&condition("p"), Urgency::Prompt);
    assert_eq!(clock.take(), Some(condition("p")));
    clock.queue.withdraw(&condition("p"));
    clock.done(&condition("p"), Outcome::Failed);
    assert_eq!((clock.queue.wake_at(), clock.queue.slots.len()), (None, 0));
}

#[test]
fn one_object_has_one_write_at_a_time_and_the_newest_comes_after() {
    let mut clock = Clock::new();
    clock.offer(&inventory("n"), Urgency::Prompt);
    clock.offer(&inventory("n"), Urgency::Prompt);
    assert_eq!(clock.take(), Some(inventory("n")));
    assert_eq!(clock.take(), None);
    clock.offer(&inventory("n"), Urgency::Usage);
    clock.offer(&inventory("n"), Urgency::Prompt);
    assert_eq!(clock.take(), None);
    clock.done(&inventory("n"), Outcome::Settled);
    assert_eq!(clock.take(), Some(inventory("n")));
    clock.done(&inventory("n"), Outcome::Settled);
    assert_eq!(clock.take(), None);
}

#[test]
fn numbers_of_use_wait_for_quiet() {
    let mut clock = Clock::new();
    clock.offer(&inventory("n"), Urgency::Usage);
    assert_eq!(clock.wait(), QUIET);
    clock.offer(&inventory("m"), Urgency::Usage);
    assert_eq!(clock.wait(), QUIET);
    assert_eq!(clock.take(), Some(inventory("n")));
    assert_eq!(clock.take(), Some(inventory("m")));
}

/// The last pods of a burst are still being placed.
#[test]
fn after_a_long_burst_numbers_of_nodes_wait_longer_than_those_of_queues() {
    let queue = Target::Usage("team-a".into());
    let after = |busy_for: Duration| {
        let mut clock = Clock::new();
        let start = clock.now;
        while clock.now <= start + busy_for {
            clock.offer(&inventory("n"), Urgency::NodeUsage);
            clock.offer(&queue, Urgency::Usage);
            clock.pass(QUIET / 2);
        }
        let last = clock.now.checked_sub(QUIET / 2).unwrap();
        clock.wait();
        assert_eq!((clock.now - last, clock.take()), (QUIET, Some(queue.clone())));
        if clock.take().is_some() {
            return QUIET;
        }
        clock.wait();
        assert_eq!(clock.take(), Some(inventory("n")));
        // It is over then: the next pod is shown at once.
        clock.done(&inventory("n"), Outcome::Settled);
        clock.pass(USAGE_INTERVAL);
        let waited = clock.now - (last + USAGE_INTERVAL);
        clock.offer(&inventory("n"), Urgency::NodeUsage);
        assert_eq!(clock.wait(), QUIET);
        waited
    };
    assert_eq!(after(Duration::from_secs(4)), QUIET);
    assert_eq!(after(Duration::from_secs(9)), Duration::from_secs(9) / QUIET_OF_BUSY);
    let now = Instant::now();
    let since = now.checked_sub(Duration::from_mins(10)).unwrap();
    let before = Busy {
        since,
        last: now,
        nodes_at: now,
    };
    assert_eq!(Busy::after(Some(before), now).nodes_at, now + LONGEST_QUIET);
}

/// So nobody who lets a pod come now and then keeps the numbers of all nodes from being written.
#[test]
fn single_changes_after_a_burst_are_none_of_it() {
    let mut clock = Clock::new();
    let start = clock.now;
    while clock.now <= start + Duration::from_secs(9) {
        clock.offer(&inventory("n"), Urgency::NodeUsage);
        clock.pass(QUIET / 2);
    }
    clock.pass(QUIET / 2 + QUIET / QUIET_OF_BUSY);
    let last = clock.now;
    clock.offer(&Target::Usage("team-a".into()), Urgency::Usage);
    clock.pass(QUIET);
    clock.offer(&Target::Usage("team-a".into()), Urgency::Usage);
    while clock.take() != Some(inventory("n")) {
        clock.wait();
    }
    assert_eq!(clock.now - last, QUIET * 2);
}

/// Offers numbers every 50 ms from now on, and returns the first five that are written and when.
fn written_without_quiet(urgency: Urgency, pace: &Pace) -> Vec<(Duration, Target)> {
    let mut clock = Clock::new();
    let start = clock.now;
    let mut written = Vec::new();
    while clock.now < start + pace.longest_wait + pace.interval * 5 {
        clock.offer(&inventory(&(clock.now - start).as_millis().to_string()), urgency);
        while let Some(target) = clock.take() {
            written.push((clock.now - start, target.clone()));
            clock.done(&target, Outcome::Settled);
        }
        clock.pass(Duration::from_millis(50));
    }
    written
}

#[test]
fn without_quiet_numbers_of_use_trickle_after_the_longest_wait() {
    for (urgency, pace) in [(Urgency::Usage, BUSY), (Urgency::NodeUsage, BUSY_NODES)] {
        let expected: Vec<_> = (0..5_u32)
            .map(|place| {
                // The oldest numbers come first; the first of them were offered at the start.
                (
                    pace.longest_wait + pace.interval * place,
                    inventory(&(u64::from(place) * 50).to_string()),
                )
            })
            .collect();
        assert_eq!(written_without_quiet(urgency, &pace), expected);
    }
}

#[test]
fn a_thousand_nodes_do_not_make_a_queue_wait() {
    let mut clock = Clock::new();
    for number in 0..1000 {
        let node = inventory(&number.to_string());
        clock.offer(&node, Urgency::of_use(&node));
    }
    let queue = Target::Usage("team-a".into());
    clock.offer(&queue, Urgency::of_use(&queue));
    clock.pass(BUSY.longest_wait);
    // Pods are still being admitted.
    let node = inventory("0");
    clock.offer(&node, Urgency::of_use(&node));
    assert_eq!((clock.take(), clock.take()), (Some(queue), None));
}

#[test]
fn numbers_of_use_of_one_object_keep_their_interval_and_discoveries_do_not() {
    let mut clock = Clock::new();
    clock.offer(&inventory("n"), Urgency::Prompt);
    assert_eq!(clock.take(), Some(inventory("n")));
    clock.done(&inventory("n"), Outcome::Settled);
    clock.offer(&inventory("n"), Urgency::Usage);
    assert_eq!(clock.wait(), USAGE_INTERVAL);
    assert_eq!(clock.take(), Some(inventory("n")));
    clock.done(&inventory("n"), Outcome::Settled);
    clock.offer(&inventory("n"), Urgency::Usage);
    clock.offer(&inventory("n"), Urgency::Prompt);
    assert_eq!(clock.take(), Some(inventory("n")));
    clock.done(&inventory("n"), Outcome::Settled);
    // The queue forgets objects that have rested.
    clock.pass(USAGE_INTERVAL);
    assert_eq!(
        (clock.take(), clock.queue.slots.len(), clock.queue.resting.len()),
        (None, 0, 0)
    );
}

#[test]
fn failures_pause_one_object_longer_and_longer() {
    let mut clock = Clock::new();
    clock.offer(&condition("p"), Urgency::Prompt);
    for pause in [1, 2, 4, 8, 16, 32, 60, 60] {
        assert_eq!(clock.take(), Some(condition("p")));
        clock.done(&condition("p"), Outcome::Failed);
        // Neither another offer nor another object changes that.
        clock.offer(&condition("p"), Urgency::Prompt);
        clock.offer(&condition("q"), Urgency::Prompt);
        assert_eq!(clock.take(), Some(condition("q")));
        clock.done(&condition("q"), Outcome::Settled);
        assert_eq!(clock.wait(), Duration::from_secs(pause));
    }
    assert_eq!(clock.take(), Some(condition("p")));
    clock.done(&condition("p"), Outcome::Settled);
    clock.offer(&condition("p"), Urgency::Prompt);
    assert_eq!(clock.take(), Some(condition("p")));
    clock.done(&condition("p"), Outcome::Failed);
    assert_eq!(clock.wait(), FIRST_PAUSE, "a success ends the series");
}

#[test]
fn a_pause_after_a_failure_holds_for_urgent_writes_too_and_ends_with_a_success() {
    let mut clock = Clock::new();
    let fail = |clock: &mut Clock| {
        assert_eq!(clock.take(), Some(inventory("n")));
        clock.done(&inventory("n"), Outcome::Failed);
    };
    clock.offer(&inventory("n"), Urgency::Usage);
    clock.wait();
    fail(&mut clock);
    clock.offer(&inventory("n"), Urgency::Prompt);
    assert_eq!(clock.wait(), FIRST_PAUSE);
    assert_eq!(clock.take(), Some(inventory("n")));
    clock.done(&inventory("n"), Outcome::Settled);
    clock.offer(&inventory("n"), Urgency::Prompt);
    fail(&mut clock);
    assert_eq!(clock.wait(), FIRST_PAUSE);
}

#[test]
fn no_more_writes_go_on_than_allowed() {
    let mut clock = Clock::new();
    for number in 0..=CONCURRENCY {
        clock.offer(&condition(&number.to_string()), Urgency::Prompt);
    }
    for number in 0..CONCURRENCY {
        assert_eq!(clock.take(), Some(condition(&number.to_string())));
    }
    assert_eq!((clock.take(), clock.queue.wake_at()), (None, None));
    clock.done(&condition("0"), Outcome::Settled);
    assert_eq!(clock.take(), Some(condition(&CONCURRENCY.to_string())));
}

#[test]
fn a_write_that_is_late_gives_its_place_to_the_next_one() {
    let mut clock = Clock::new();
    let all: Vec<_> = (0..CONCURRENCY + LATE)
        .map(|number| condition(&number.to_string()))
        .collect();
    for target in &all {
        clock.offer(target, Urgency::Prompt);
    }
    for target in &all {
        assert_eq!(clock.take().as_ref(), Some(target));
        clock.queue.late(target);
        clock.queue.late(target);
    }
    clock.offer(&condition("one more"), Urgency::Prompt);
    assert_eq!(clock.take(), None, "the last ones keep their places");
    clock.done(&all[0], Outcome::Settled);
    assert_eq!(clock.take(), None, "one that was late has none to give");
    for target in &all[1..] {
        clock.done(target, Outcome::Settled);
    }
    assert_eq!(clock.take(), Some(condition("one more")));
    clock.done(&condition("one more"), Outcome::Settled);
    assert_eq!((clock.queue.in_flight, clock.queue.late), (0, 0));
}

#[test]
fn the_budget_allows_a_burst_and_then_a_rate() {
    let mut clock = Clock::new();
    let start = clock.now;
    let write = |clock: &mut Clock, number: u32, requests| {
        let target = condition(&number.to_string());
        clock.offer(&target, Urgency::Prompt);
        clock.wait();
        assert_eq!(clock.take(), Some(target.clone()));
        clock.queue.done(&target, Outcome::Settled, requests, clock.now);
    };
    for number in 0..BURST {
        write(&mut clock, number, 1);
    }
    assert_eq!(clock.now, start);
    write(&mut clock, BURST, 1);
    assert_eq!(clock.now, start + INTERVAL);
    // A write of three requests costs three; a write that turned out needless costs nothing.
    write(&mut clock, BURST + 1, 3);
    write(&mut clock, BURST + 2, 0);
    write(&mut clock, BURST + 3, 1);
    assert_eq!(clock.now, start + INTERVAL * 5);
    // A pause refills the budget, up to a burst.
    clock.pass(INTERVAL * BURST * 10);
    let start = clock.now;
    for number in 0..=BURST {
        write(&mut clock, number, 1);
    }
    assert_eq!(clock.now, start + INTERVAL);
}

/// What may happen to a queue.
#[derive(Debug, Clone)]
enum Step {
    Offer(u8, Urgency, u64),
    Withdraw(u8),
    Take,
    Done(bool, u32),
    Pass(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let urgency = prop::sample::select(&URGENCIES[..]);
    prop_oneof![
        3 => (0..4_u8, urgency, 0..2000_u64).prop_map(|(name, urgency, delay)| Step::Offer(name, urgency, delay)),
        1 => (0..4_u8).prop_map(Step::Withdraw),
        3 => Just(Step::Take),
        3 => (any::<bool>(), 0..3_u32).prop_map(|(settled, requests)| Step::Done(settled, requests)),
        2 => (0..3000_u64).prop_map(Step::Pass),
    ]
}

proptest! {
    /// In every sequence of steps, each target that is offered and not withdrawn is written in the end, and no object is written twice at
    /// the same time.
    #[test]
    fn everything_is_written_in_the_end(steps in prop::collection::vec(step(), 0..60)) {
        let mut clock = Clock::new();
        let target = |name: u8| inventory(&name.to_string());
        let mut unwritten = std::collections::BTreeSet::new();
        let mut going_on: Vec<u8> = Vec::new();
        let started = |found: Target| (0..4_u8).find(|name| target(*name) == found).unwrap();
        for step in steps {
            match step {
                Step::Offer(name, urgency, delay) => {
                    let not_before = clock.now + Duration::from_millis(delay);
                    clock.queue.offer(&target(name), urgency, not_before, clock.now);
                    unwritten.insert(name);
                }
                Step::Withdraw(name) => {
                    clock.queue.withdraw(&target(name));
                    unwritten.remove(&name);
                }
                Step::Take => {
                    if let Some(found) = clock.take() {
                        let name = started(found);
                        prop_assert!(!going_on.contains(&name));
                        prop_assert!(unwritten.remove(&name), "nothing was to be written");
                        going_on.push(name);
                    }
                }
                Step::Done(settled, requests) => {
                    if let Some(name) = going_on.pop() {
                        let outcome = if settled { Outcome::Settled } else { Outcome::Failed };
                        let was_withdrawn = clock.queue.slots[&target(name)].withdrawn;
                        clock.queue.done(&target(name), outcome, requests, clock.now);
                        if !settled && !was_withdrawn {
                            unwritten.insert(name);
                        }
                    }
                }
                Step::Pass(time) => clock.pass(Duration::from_millis(time)),
            }
        }
        for name in going_on {
            clock.queue.done(&target(name), Outcome::Settled, 1, clock.now);
        }
        while let Some(at) = clock.queue.wake_at() {
            clock.now = clock.now.max(at);
            let found = clock.take();
            prop_assert!(found.is_some(), "woken for nothing");
            let name = started(found.unwrap());
            prop_assert!(unwritten.remove(&name));
            clock.done(&target(name), Outcome::Settled);
        }
        prop_assert!(unwritten.is_empty(), "{unwritten:?} forgotten");
        clock.pass(USAGE_INTERVAL);
        prop_assert_eq!(clock.take(), None);
        prop_assert_eq!((clock.queue.slots.len(), clock.queue.in_flight), (0, 0), "leaked");
    }
}
