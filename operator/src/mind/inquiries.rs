//! Questions of people. The answer comes from what is known, and a question changes nothing.

use std::panic::{AssertUnwindSafe, catch_unwind};

use engine::explain::review;
use k8s_openapi::jiff::Timestamp;
use tokio::time::Instant;

use super::Mind;
use crate::review::{Inquiry, NoAnswer};

/// For how many times the duration of an answer no further question is answered.
const REST: u32 = 4;

/// The share of the mind's time that goes to questions of people: a fifth at most, however many questions are asked, and whatever an answer
/// costs.
#[derive(Debug, Default)]
pub(super) struct Share {
    rests_until: Option<Instant>,
}

impl Share {
    /// Returns until when no question is answered; none if a question may be answered now.
    pub fn rests_until(&self, now: Instant) -> Option<Instant> {
        self.rests_until.filter(|until| now < *until)
    }

    /// Notes how long an answer has taken.
    pub fn taken(&mut self, began: Instant, ended: Instant) {
        self.rests_until = Some(ended + ended.duration_since(began) * REST);
    }
}

impl Mind {
    /// Answers a question. If the computation of the answer panics, the question stays unanswered: everybody may ask questions, and no
    /// question may bring the mind down.
    pub(super) fn answer_inquiry(&mut self, inquiry: Inquiry, now: Timestamp) {
        let Inquiry {
            namespace,
            asked,
            answer,
        } = inquiry;
        if answer.is_closed() {
            return;
        }
        let cluster = &mut self.cluster;
        let known = catch_unwind(AssertUnwindSafe(|| review(cluster, &namespace, asked, now)));
        let known = known.map_or_else(
            |_| {
                tracing::error!(namespace, "a review fell, and is not answered");
                Err(NoAnswer::Fell)
            },
            |known| known.map_err(NoAnswer::from),
        );
        // The client that asked may have gone.
        let _ = answer.send(known);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// A user asks all the time; between two answers the mind does something else for a while.
        #[test]
        fn questions_without_end_take_a_fifth_of_the_time(rounds in vec((1_u64..50_000, 1_u64..2_000), 1..50)) {
            let begin = Instant::now();
            let (mut now, mut answering, mut longest) = (begin, Duration::ZERO, Duration::ZERO);
            let mut share = Share::default();
            for (answer, other) in rounds {
                let (answer, other) = (Duration::from_micros(answer), Duration::from_micros(other));
                while share.rests_until(now).is_some() {
                    now += other;
                }
                let began = now;
                now += answer;
                share.taken(began, now);
                answering += answer;
                longest = longest.max(answer);
            }
            // The mind has not rested yet for the last answer.
            prop_assert!(answering.saturating_sub(longest) * 5 <= now - begin, "{answering:?} of {:?}", now - begin);
        }
    }
}
