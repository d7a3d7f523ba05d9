//! When the usage of a queue is shown: the more waits in the queue, the less often. What is shown sums all that waits as a whole, so that
//! thousands of groups in one line would take much of the mind's time if each change of the queue were shown at once.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;

use super::TICK;

/// How long a queue is not shown again for each entry that is gone through to show it. To go through one takes some 2 µs at most, so that
/// the usages of queues take no more than a twentieth of the time each.
const PER_ENTRY: Duration = Duration::from_micros(40);

/// The queues whose usage is to be shown.
#[derive(Debug)]
pub(super) struct Usages<Q> {
    /// Queues that have changed since they were shown.
    changed: BTreeSet<Q>,
    /// When queues are shown again that were shown lately, and take so long that the next tick is too early.
    next: BTreeMap<Q, Instant>,
}

impl<Q> Default for Usages<Q> {
    fn default() -> Self {
        Self {
            changed: BTreeSet::new(),
            next: BTreeMap::new(),
        }
    }
}

impl<Q: Copy + Ord> Usages<Q> {
    /// Returns the queues that are shown now, of those that have `changed` now and those that were put off earlier. `entries` tells how many
    /// entries are gone through to show a queue.
    pub(super) fn due(&mut self, changed: BTreeSet<Q>, now: Instant, entries: impl Fn(Q) -> usize) -> BTreeSet<Q> {
        self.next.retain(|_, next| *next > now);
        self.changed.extend(changed);
        let changed = std::mem::take(&mut self.changed);
        let due;
        (self.changed, due) = changed.into_iter().partition(|queue| self.next.contains_key(queue));
        for queue in &due {
            let entries = u32::try_from(entries(*queue)).unwrap_or(u32::MAX);
            let pause = PER_ENTRY.saturating_mul(entries);
            if pause > TICK {
                self.next.insert(*queue, now + pause);
            }
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts how often a queue with this many entries is shown in a minute in which it changes all the time.
    async fn shown_in_a_minute(entries: usize) -> usize {
        let mut usages = Usages::default();
        let ticks = Duration::from_mins(1).as_millis() / TICK.as_millis();
        let mut shown = 0;
        for _ in 0..ticks {
            shown += usages.due(["queue"].into(), Instant::now(), |_| entries).len();
            tokio::time::advance(TICK).await;
        }
        shown
    }

    #[tokio::test(start_paused = true)]
    async fn a_long_line_is_shown_seldom_and_a_short_one_in_each_tick() {
        let ticks = usize::try_from(Duration::from_mins(1).as_millis() / TICK.as_millis()).unwrap();
        assert_eq!(shown_in_a_minute(0).await, ticks);
        assert_eq!(shown_in_a_minute(1_000).await, ticks);
        assert_eq!(shown_in_a_minute(100_000).await, 15);
    }

    /// What was put off is shown though nothing changes any more, and then not again.
    #[tokio::test(start_paused = true)]
    async fn nothing_that_was_put_off_is_forgotten() {
        let mut usages = Usages::default();
        let (long, short) = ("long", "short");
        let entries = |queue| if queue == long { 50_000 } else { 5 };
        assert_eq!(usages.due([long].into(), Instant::now(), entries), [long].into());
        assert_eq!(
            usages.due([long, short].into(), Instant::now(), entries),
            [short].into()
        );
        tokio::time::advance(Duration::from_millis(1_999)).await;
        assert!(usages.due([].into(), Instant::now(), entries).is_empty());
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(usages.due([].into(), Instant::now(), entries), [long].into());
        tokio::time::advance(Duration::from_secs(10)).await;
        assert!(usages.due([].into(), Instant::now(), entries).is_empty());
    }
}
