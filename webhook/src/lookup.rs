//! Asking the API server itself for what a watch has not delivered (yet), and for what is watched by nobody here.

use std::time::Duration;

use futures::future::BoxFuture;
use thiserror::Error;

use crate::view::{Found, Lookup};

/// How long one answer may take. The API server itself waits for the webhook meanwhile, five seconds at most.
pub const TIME_LIMIT: Duration = Duration::from_secs(2);
/// For how long further questions are asked for one review: with the last answer, less than the API server waits.
pub const ASKING: Duration = Duration::from_secs(2);

/// How long a question waits for its turn where no decision rests on the answer and only few of its kind are asked at once. Meanwhile the body of
/// its review is in memory, of which all reviews have only so much: who makes many wait would keep others' out.
pub const TURN_LIMIT: Duration = Duration::from_millis(100);

/// A question that was not answered.
#[derive(Debug, Error)]
pub enum LookupError {
    /// The API server refused, or could not be reached.
    #[error("the API server did not answer: {0}")]
    Api(String),
    /// The API server took too long.
    #[error("the API server did not answer within {} s", TIME_LIMIT.as_secs())]
    Timeout,
    /// Others ask so many of its kind that its turn did not come.
    #[error("too many such questions were asked at once")]
    Crowded,
    /// What was asked before took so long that whoever waits would not wait for this one too.
    #[error("what was asked before was not answered within {} s, or not at all", ASKING.as_secs())]
    Late,
}

/// Who answers lookups.
pub trait Lookups: Send + Sync {
    /// Asks, within a time limit.
    fn find<'l>(&'l self, lookup: &'l Lookup) -> BoxFuture<'l, Result<Found, LookupError>>;
}
