//! One request to the API server: answered within a time, or counted as failed.

use std::fmt::Display;
use std::time::Duration;

use thiserror::Error;
use tokio::time::timeout;

/// How long one request may take.
const TIME_LIMIT: Duration = Duration::from_secs(10);

/// A request that failed.
#[derive(Debug, Error)]
pub enum RequestError {
    /// No answer within the time limit.
    #[error("no answer within {} s", TIME_LIMIT.as_secs())]
    TimedOut,
    /// The API server refused it.
    #[error("{message}")]
    Refused {
        /// The HTTP status.
        code: u16,
        /// Why, in its words.
        message: String,
    },
    /// It could not be reached, or understood.
    #[error(transparent)]
    Failed(kube::Error),
}

impl From<kube::Error> for RequestError {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self::Refused {
                code: status.code,
                message: status.message.clone(),
            },
            error => Self::Failed(error),
        }
    }
}

impl RequestError {
    /// The HTTP status; none where there was no answer.
    pub fn code(&self) -> Option<u16> {
        match self {
            Self::Refused { code, .. } => Some(*code),
            _ => None,
        }
    }

    /// Whether it is about the object that was to be written, and says nothing of others: somebody has changed it meanwhile, or it becomes
    /// too large by what would be written.
    pub(crate) fn is_of_object(&self) -> bool {
        const CONFLICT: u16 = 409;
        const TOO_LARGE: u16 = 413;
        const INVALID: u16 = 422;
        let Self::Refused { code, message } = self else {
            return false;
        };
        // Some API servers pass on what etcd says as a mistake of their own.
        let is_too_large = || {
            ["request is too large", "larger than max"]
                .iter()
                .any(|says| message.contains(says))
        };
        // A policy may refuse every object alike, with whatever code it says.
        let is_by_policy = message.contains("ValidatingAdmissionPolicy") || message.contains("admission webhook");
        !is_by_policy && (matches!(*code, CONFLICT | TOO_LARGE | INVALID) || is_too_large())
    }

    /// Whether whoever asks has not the right: what a policy or a webhook forbids is about the object.
    fn is_forbidden(&self) -> bool {
        matches!(self, Self::Refused { code: 403, message } if message.contains("User \"") && message.contains("\" cannot "))
    }
}

/// Awaits an answer for a limited time.
pub(crate) async fn in_time<T>(request: impl Future<Output = kube::Result<T>>) -> Result<T, RequestError> {
    match timeout(TIME_LIMIT, request).await {
        Ok(answer) => Ok(answer?),
        Err(_) => Err(RequestError::TimedOut),
    }
}

/// What keeps a step from being done.
#[derive(Debug)]
pub(crate) struct Obstacle {
    /// In words.
    pub reason: String,
    /// Whether whoever asks has not the right.
    pub is_forbidden: bool,
}

impl Obstacle {
    /// A request about this object failed.
    pub fn of(what: impl Display, error: &RequestError) -> Self {
        Self {
            reason: format!("{what}: {error}"),
            is_forbidden: error.is_forbidden(),
        }
    }
}

impl From<RequestError> for Obstacle {
    fn from(error: RequestError) -> Self {
        Self {
            reason: error.to_string(),
            is_forbidden: error.is_forbidden(),
        }
    }
}
