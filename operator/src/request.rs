//! One request to the API server: it is answered within a time limit, or counted as failed. None is repeated here.

use std::time::Duration;

use kube::core::Status;
use programs::logging::plain;
use thiserror::Error;
use tokio::time::timeout;

use crate::metrics::{Metrics, Verb};

/// The text by which the policies refuse a request because only the leader may decide.
const ANOTHER_LEADS: &str = " denied request: another operator of Cardgate leads, ";
/// The text of an API server that has not yet read what a policy reads.
const NOT_YET_READ: &str = "not yet synced to use for admission";

/// A request that failed.
#[derive(Debug, Error)]
pub enum RequestError {
    /// No answer within the time limit.
    #[error("no answer within {} s", .0.as_secs())]
    TimedOut(Duration),
    /// The API server refused the request, or could not be reached.
    #[error("{}", plain(.0))]
    Refused(#[from] kube::Error),
}

impl RequestError {
    /// Returns the HTTP status; none if there was no answer.
    pub fn code(&self) -> Option<u16> {
        match self {
            Self::Refused(kube::Error::Api(status)) => Some(status.code),
            _ => None,
        }
    }

    /// Whether the object that was to be written is gone, or another object has its name by now. If the write names the object's unique id,
    /// the API server takes the latter for an attempt to change that id.
    pub fn is_gone(&self) -> bool {
        let Self::Refused(kube::Error::Api(status)) = self else {
            return false;
        };
        let causes = status.details.iter().flat_map(|details| &details.causes);
        matches!(status.code, 404 | 409) || causes.into_iter().any(|cause| cause.field == "metadata.uid")
    }

    /// Whether the request was refused because of the client: see [`is_about_requester`].
    pub fn is_about_requester(&self) -> bool {
        matches!(self, Self::Refused(kube::Error::Api(status)) if is_about_requester(status))
    }
}

/// Whether a request was refused because of the client and not because of its content, so that it may be accepted a moment later. An API
/// server that has just started knows nobody's rights. An API server that has not yet seen who leads now takes the new leader for a former
/// one.
pub fn is_about_requester(status: &Status) -> bool {
    let message = &*status.message;
    // These are the words of Kubernetes' authorizers. A refusal by another policy or a webhook is about the object.
    let asked = message.split_once("User \"").map_or("", |(_, asked)| asked);
    let verbs = ["get", "patch", "create", "list"];
    let has_no_right = verbs
        .iter()
        .any(|verb| asked.contains(&format!("\" cannot {verb} resource \"")));
    has_no_right && status.code == 403 || message.contains(ANOTHER_LEADS) || message.contains(NOT_YET_READ)
}

impl Metrics {
    /// Awaits an answer for a limited time.
    pub async fn in_time<T>(
        &self,
        verb: Verb,
        limit: Duration,
        request: impl Future<Output = kube::Result<T>>,
    ) -> Result<T, RequestError> {
        match timeout(limit, request).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => {
                self.api_error(verb, &error);
                Err(error.into())
            }
            Err(_) => {
                self.api_timeout(verb);
                Err(RequestError::TimedOut(limit))
            }
        }
    }
}
