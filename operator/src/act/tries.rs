//! Tries a write until it is answered, for a limited time, and finds out the outcome of a write whose answer is missing.

use std::sync::Arc;
use std::time::Duration;

use engine::{Answer, Outcome};
use kube::core::Status;
use tokio::time::{Instant, sleep};

use super::{Actor, Failure};
use crate::event::Event;

/// How long a write is tried.
const TRY_LIMIT: Duration = Duration::from_secs(30);
/// The wait before the second try; doubled every time.
pub(super) const FIRST_WAIT: Duration = Duration::from_millis(100);
/// The longest wait between two tries.
pub(super) const LONGEST_WAIT: Duration = Duration::from_secs(5);
/// The longest wait between two reads of an object while reads get no answer.
const LONGEST_LOOK: Duration = Duration::from_mins(1);
/// After this time, the API server no longer carries out a write that it has not answered: it gives its requests a minute.
const LATEST_WRITE: Duration = Duration::from_secs(65);

/// The result of one try.
#[derive(Debug)]
pub(super) enum Tried {
    Done,
    /// The object is not what the decision was made for, or this process may no longer write.
    NotWritten(String),
    /// The API server refuses the write, and would refuse it again.
    Refused(String),
    /// The write is not done; a later try may work.
    Failed(String),
    /// The write may have been done, or may still be done, or a later try may work.
    Unanswered(String),
}

/// The final result of a write.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Ended {
    Done,
    NotWritten(String),
    Refused(String),
    /// No try was done or refused, and a later one may work.
    Failed(String),
    /// At least one try got no answer. So the write may still be carried out, whatever the other tries were answered.
    Unknown(String),
}

impl Tried {
    /// Returns the result of a failed try, for failures that alone say what the result is.
    pub(super) fn of(failure: Failure) -> Self {
        match failure {
            Failure::Api(status) => match status.code {
                404 => Self::NotWritten("it is gone".to_owned()),
                // The API server may soon know again who the operator is, and what is too much now is not too much later.
                401 | 408 | 429 => Self::Failed(status.message),
                400..500 => Self::Refused(status.message),
                // The API server calls webhooks before it writes anything.
                500 if status.message.contains("failed calling webhook") => Self::Failed(status.message),
                _ => Self::Unanswered(status.message),
            },
            Failure::AboutRequester(reason) | Failure::LookAgain(reason) | Failure::Rewritten(reason) => {
                Self::Failed(reason)
            }
            Failure::NotSent(reason) => Self::NotWritten(reason.to_owned()),
            Failure::Other(reason) => Self::Unanswered(reason),
        }
    }

    /// Returns the result of a try that the API server did not take, though the object is what the decision was made for. If others wrote
    /// at the same time (409), more often than the API server tries by itself, a later try may work.
    pub(super) fn not_taken(status: Status) -> Self {
        match status.code {
            409 => Self::Failed(status.message),
            _ => Self::Refused(status.message),
        }
    }
}

impl Ended {
    /// Returns what the mind is told.
    pub(super) fn answer(&self) -> Answer {
        match self {
            Self::Done => Answer::Accepted,
            Self::NotWritten(_) => Answer::NotWritten,
            Self::Refused(message) => Answer::Refused(Arc::from(&**message)),
            Self::Failed(message) => Answer::Failed(Arc::from(&**message)),
            Self::Unknown(_) => Answer::Unknown,
        }
    }

    /// Returns why the write is not done.
    pub(super) fn reason(&self) -> &str {
        match self {
            Self::Done => "",
            Self::NotWritten(reason) | Self::Refused(reason) | Self::Failed(reason) | Self::Unknown(reason) => reason,
        }
    }
}

/// Tries until the write is done, is refused, or has failed for too long.
pub(super) async fn keep_trying<F: Future<Output = Tried>>(once: impl Fn() -> F) -> Ended {
    let deadline = Instant::now() + TRY_LIMIT;
    let mut wait = FIRST_WAIT;
    let mut is_unanswered = false;
    loop {
        let reason = match once().await {
            Tried::Done => return Ended::Done,
            Tried::NotWritten(reason) | Tried::Refused(reason) if is_unanswered => return Ended::Unknown(reason),
            Tried::NotWritten(reason) => return Ended::NotWritten(reason),
            Tried::Refused(reason) => return Ended::Refused(reason),
            Tried::Failed(reason) => reason,
            Tried::Unanswered(reason) => {
                is_unanswered = true;
                reason
            }
        };
        if Instant::now() + wait >= deadline {
            let reason = format!("given up: {reason}");
            return if is_unanswered {
                Ended::Unknown(reason)
            } else {
                Ended::Failed(reason)
            };
        }
        tracing::debug!(reason, "a write failed, trying again");
        sleep(wait).await;
        wait = (wait * 2).min(LONGEST_WAIT);
    }
}

impl Actor {
    /// Finds out whether a write with an unknown outcome was carried out: reads its object until that is certain, then tells the mind and
    /// returns it. `look` returns what is seen of the object: done, not done, or none if it cannot be read.
    pub(super) async fn find_out<F: Future<Output = Option<bool>>>(
        &self,
        reason: &str,
        outcome: impl Fn(Answer) -> Outcome,
        look: impl Fn() -> F,
    ) -> bool {
        let last_write = Instant::now();
        let mut wait = LONGEST_WAIT;
        loop {
            sleep(wait).await;
            if self.is_retired() || !self.leadership.holds() {
                // The next mind or leader reads everything anew.
                return false;
            }
            let is_certain = last_write.elapsed() >= LATEST_WRITE;
            let answer = match look().await {
                Some(true) => Answer::Accepted,
                Some(false) if is_certain => Answer::Failed(reason.into()),
                Some(false) => {
                    wait = LONGEST_WAIT;
                    continue;
                }
                // There is no answer, and thousands of writes may be in this state.
                None => {
                    wait = (wait * 2).min(LONGEST_LOOK);
                    continue;
                }
            };
            let is_written = matches!(answer, Answer::Accepted);
            tracing::info!(is_written, "found out what became of a write that was not answered");
            // The mind is gone only when the program ends.
            let _ = self.events.send(Event::FoundOut(outcome(answer))).await;
            return is_written;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use kube::core::Status;

    use super::*;

    fn api(code: u16) -> Tried {
        let status = Status {
            code,
            message: code.to_string(),
            ..Status::default()
        };
        Tried::of(Failure::of(status))
    }

    async fn ended(tries: Vec<Tried>) -> Ended {
        let tries = RefCell::new(tries.into_iter());
        keep_trying(|| {
            let next = tries.borrow_mut().next().unwrap_or_else(|| api(429));
            async { next }
        })
        .await
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_refused_for_good_is_not_tried_again() {
        for code in [400, 403, 405, 413, 422] {
            assert_eq!(ended(vec![api(code)]).await, Ended::Refused(code.to_string()));
        }
        assert_eq!(ended(vec![api(404)]).await, Ended::NotWritten("it is gone".to_owned()));
        assert_eq!(ended(vec![api(429), api(401), Tried::Done]).await, Ended::Done);
        assert_eq!(
            ended(Vec::new()).await,
            Ended::Failed("given up: 429".to_owned()),
            "never carried out, and never refused"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn what_an_api_server_refuses_that_does_not_know_yet_who_the_operator_is_is_tried_again() {
        let refused_by = |code: u16, message: &str| {
            let status = Status {
                code,
                message: message.to_owned(),
                ..Status::default()
            };
            Tried::of(Failure::of(status))
        };
        let refused = |message: &str| refused_by(403, message);
        let starting = || {
            refused(
                "pods \"a\" is forbidden: User \"system:serviceaccount:cardgate-system:operator\" cannot patch resource \"pods\" in \
                 API group \"\" in the namespace \"b\"",
            )
        };
        assert_eq!(ended(vec![starting(), starting(), Tried::Done]).await, Ended::Done);
        let unanswered = Tried::of(Failure::Other("no answer".to_owned()));
        assert_eq!(ended(vec![unanswered, starting(), Tried::Done]).await, Ended::Done);
        let policy =
            "pods \"a\" is forbidden: ValidatingAdmissionPolicy 'x' with binding 'x' denied request: User cannot";
        assert_eq!(ended(vec![refused(policy)]).await, Ended::Refused(policy.to_owned()));
        let leader = |code, why: &str| {
            let by =
                "ValidatingAdmissionPolicy 'cardgate-pod-update' with binding 'cardgate-pod-update' denied request";
            refused_by(code, &format!("pods \"a\" is forbidden: {by}: {why}"))
        };
        let another = "another operator of Cardgate leads, by key \"leader\" of ConfigMap \"cardgate-policy\"";
        let unread =
            "failed to configure binding: paramKind kind `/v1, Kind=ConfigMap` not yet synced to use for admission";
        let tries = vec![leader(403, another), leader(422, unread), Tried::Done];
        assert_eq!(ended(tries).await, Ended::Done);
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_not_answered_is_unknown_whatever_is_answered_later() {
        let unanswered = || Tried::of(Failure::Other("no answer".to_owned()));
        assert_eq!(ended(vec![unanswered(), Tried::Done]).await, Ended::Done);
        for later in [api(403), api(404), api(429)] {
            let found = ended(vec![unanswered(), later]).await;
            assert!(matches!(found, Ended::Unknown(_)), "{found:?}");
        }
        let found = ended((0..100).map(|_| api(504)).collect()).await;
        assert!(matches!(found, Ended::Unknown(_)), "{found:?}");
    }
}
