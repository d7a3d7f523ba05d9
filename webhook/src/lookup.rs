//! Questions to the API server about objects that a watch has not delivered (yet), or that no watch of the webhook follows.

use std::time::Duration;

use futures::future::BoxFuture;
use thiserror::Error;

use crate::view::{Found, Lookup};

/// How long one answer may take. Meanwhile the API server waits for the webhook, five seconds at most.
pub const TIME_LIMIT: Duration = Duration::from_secs(2);
/// For how long one review may begin further questions. Together with the last answer this is less than the API server
/// waits.
pub const ASKING: Duration = Duration::from_secs(2);

/// How long a question waits for its turn if no decision rests on the answer and only few questions of its kind are asked at
/// once. Meanwhile the body of its review is in memory, which is limited for all reviews together. So a user who makes many
/// reviews wait would keep the reviews of others out.
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
    /// Others ask so many questions of this kind that its turn did not come.
    #[error("too many such questions were asked at once")]
    Crowded,
    /// Earlier questions took so long that the API server would not wait for this one too.
    #[error("what was asked before was not answered within {} s, or not at all", ASKING.as_secs())]
    Late,
}

/// Answers lookups.
pub trait Lookups: Send + Sync {
    /// Asks one question, within a time limit.
    fn find<'l>(&'l self, lookup: &'l Lookup) -> BoxFuture<'l, Result<Found, LookupError>>;
}
