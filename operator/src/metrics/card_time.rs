//! Card-seconds: how long the pods of each queue have held cards, and waited for them. Shares and bills are computed from these.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use engine::overview::QueueFigures;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

/// A metric: its name, its help, and a function for its sum.
type Metric = (&'static str, &'static str, fn(&Sums) -> f64);

const METRICS: [Metric; 2] = [
    (
        "cardgate_queue_held_card_seconds",
        "How long pods of the queue, and of those below it, have held cards: two cards for a minute are 120 seconds, \
         of cards shared through mGPU in hundredths of one",
        |sums| sums.held,
    ),
    (
        "cardgate_queue_waited_card_seconds",
        "How long pods of the queue, and of those below it, have waited for cards: one pod that asks for eight, for a \
         minute, adds 480, of cards shared through mGPU in hundredths of one",
        |sums| sums.waited,
    ),
];

/// The most cards for which a queue counts as waiting, even if it asks for more than any cluster has. A single pod may ask for 2^63 - 1
/// cards, and a sum that has grown by that much is too coarse to grow by the seconds of other pods.
const MOST_WAITED_FOR: i64 = 1_000_000;

/// A queue and a card.
type Of = (Arc<str>, Arc<str>);

/// What has been added up so far, and what is added each second.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    held: f64,
    waited: f64,
    holds: i64,
    waits: i64,
}

#[derive(Debug, Default)]
struct State {
    /// The time up to which all sums are added up.
    until: Option<Instant>,
    sums: BTreeMap<Of, Sums>,
}

impl State {
    /// Adds what has accrued since then.
    fn add_until(&mut self, now: Instant) {
        let since = self.until.replace(now).unwrap_or(now);
        let seconds = now.saturating_duration_since(since).as_secs_f64();
        #[expect(
            clippy::cast_precision_loss,
            reason = "no queue has so many cards, and no more are waited for"
        )]
        for sums in self.sums.values_mut() {
            sums.held += sums.holds as f64 * seconds;
            sums.waited += sums.waits as f64 * seconds;
        }
    }
}

/// The card-seconds of all queues.
#[derive(Debug, Clone, Default)]
pub(super) struct CardTime(Arc<Mutex<State>>);

impl CardTime {
    /// Sets what queues hold and ask for from now on. A queue or card that is missing in `queues` is no longer shown.
    pub(super) fn show(&self, queues: &[QueueFigures], now: Instant) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.add_until(now);
        let before = std::mem::take(&mut state.sums);
        let of_queue = |queue: &QueueFigures| {
            let name = Arc::clone(&queue.queue);
            let cards = queue.cards.clone();
            cards.into_iter().map(move |card| (Arc::clone(&name), card))
        };
        state.sums = queues
            .iter()
            .flat_map(of_queue)
            .map(|(queue, card)| {
                let of = (queue, card.card);
                let sums = Sums {
                    holds: card.allocated,
                    waits: card.request.saturating_sub(card.allocated).clamp(0, MOST_WAITED_FOR),
                    ..before.get(&of).copied().unwrap_or_default()
                };
                (of, sums)
            })
            .collect();
    }

    fn at(&self, now: Instant) -> BTreeMap<Of, Sums> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.add_until(now);
        state.sums.clone()
    }
}

impl Collector for CardTime {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let all = self.at(Instant::now());
        for (name, help, sum) in METRICS {
            let mut counter = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for ((queue, card), sums) in &all {
                let labels = [("queue", &**queue), ("card", &**card)];
                counter
                    .encode_family(&labels)?
                    .encode_counter::<NoLabelSet, _, u64>(&sum(sums), None)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use engine::overview::CardFigures;

    use super::*;

    fn queue(name: &str, allocated: i64, request: i64) -> QueueFigures {
        QueueFigures {
            queue: name.into(),
            cards: vec![CardFigures {
                card: "A100".into(),
                deserved: 0,
                allocated,
                request,
                capacity: None,
            }],
            waiting: Vec::new(),
            oldest: None,
            standing: None,
            unsatisfiable: None,
        }
    }

    fn sums(time: &CardTime, queue: &str, now: Instant) -> Option<(f64, f64)> {
        let sums = *time.at(now).get(&(queue.into(), "A100".into()))?;
        Some((sums.held, sums.waited))
    }

    #[test]
    fn what_is_held_and_waited_for_adds_up_second_by_second() {
        let begin = Instant::now();
        let at = |seconds| begin + Duration::from_secs(seconds);
        let time = CardTime::default();
        time.show(&[queue("a", 2, 5), queue("b", 0, 1)], begin);
        assert_eq!(sums(&time, "a", at(10)), Some((20.0, 30.0)));
        // A second look adds nothing.
        assert_eq!(sums(&time, "a", at(10)), Some((20.0, 30.0)));
        time.show(&[queue("a", 5, 5), queue("b", 0, 1)], at(20));
        assert_eq!(sums(&time, "a", at(30)), Some((40.0 + 50.0, 60.0)));
        assert_eq!(sums(&time, "b", at(30)), Some((0.0, 30.0)));
        time.show(&[queue("a", 5, 5)], at(30));
        assert_eq!(sums(&time, "b", at(40)), None);
        // A request that no cluster can satisfy counts only up to the limit, so later waits still add to the sum.
        time.show(&[queue("a", 0, i64::MAX)], at(40));
        time.show(&[queue("a", 0, 1)], at(50));
        let Some((_, before)) = sums(&time, "a", at(50)) else {
            panic!("it is shown")
        };
        assert_eq!(sums(&time, "a", at(51)).map(|(_, waited)| waited - before), Some(1.0));
    }
}
