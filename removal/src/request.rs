//! One request to the API server: it is answered within a time limit, or counted as failed.

use std::fmt::Display;
use std::time::Duration;

use thiserror::Error;
use tokio::time::timeout;

/// How long one request may take.
const TIME_LIMIT: Duration = Duration::from_secs(10);

/// HTTP status of a list that took so long that the API server has forgotten it.
const EXPIRED: u16 = 410;

/// A request that failed.
#[derive(Debug, Error)]
pub enum RequestError {
    /// No answer within the time limit.
    #[error("no answer within {} s", TIME_LIMIT.as_secs())]
    TimedOut,
    /// The API server refused the request.
    #[error("{message}")]
    Refused {
        /// The HTTP status.
        code: u16,
        /// The reason, in the API server's words.
        message: String,
    },
    /// The list has expired. It goes on from this token, with the objects as they are now.
    #[error("{message}")]
    #[expect(missing_docs, reason = "one line says it")]
    Expired { message: String, next: String },
    /// The API server could not be reached, or its answer could not be understood.
    #[error(transparent)]
    Failed(kube::Error),
}

impl From<kube::Error> for RequestError {
    fn from(error: kube::Error) -> Self {
        let kube::Error::Api(status) = error else {
            return Self::Failed(error);
        };
        let (code, message) = (status.code, status.message);
        let next = status.metadata.and_then(|metadata| metadata.continue_);
        match next.filter(|next| code == EXPIRED && !next.is_empty()) {
            Some(next) => Self::Expired { message, next },
            None => Self::Refused { code, message },
        }
    }
}

impl RequestError {
    /// Returns the HTTP status; none if there was no answer.
    pub fn code(&self) -> Option<u16> {
        match self {
            Self::Refused { code, .. } => Some(*code),
            Self::Expired { .. } => Some(EXPIRED),
            Self::TimedOut | Self::Failed(_) => None,
        }
    }

    /// Whether the API server, or a proxy before it, may answer differently in a moment.
    pub(crate) fn is_passing(&self) -> bool {
        const BUSY: u16 = 429;
        match self {
            Self::Refused { code, .. } => *code == BUSY || *code >= 500,
            Self::Expired { .. } | Self::Failed(_) => true,
            Self::TimedOut => false,
        }
    }

    /// Whether the failure concerns only the object that was to be written: somebody has changed the object meanwhile, or the write would
    /// make it too large or invalid.
    pub(crate) fn is_of_object(&self) -> bool {
        const CONFLICT: u16 = 409;
        const TOO_LARGE: u16 = 413;
        const INVALID: u16 = 422;
        let Self::Refused { code, message } = self else {
            return false;
        };
        // Some API servers pass on etcd's message as an error of their own.
        let is_too_large = || {
            ["request is too large", "larger than max"]
                .iter()
                .any(|says| message.contains(says))
        };
        // A policy may refuse all objects alike, with any code.
        let is_by_policy = message.contains("ValidatingAdmissionPolicy") || message.contains("admission webhook");
        !is_by_policy && (matches!(*code, CONFLICT | TOO_LARGE | INVALID) || is_too_large())
    }

    /// Whether the client lacks the right. A refusal by a policy or a webhook is about the object.
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
    /// The reason, in words.
    pub reason: String,
    /// Whether the client lacks the right.
    pub is_forbidden: bool,
}

impl Obstacle {
    /// Returns the obstacle for a failed request about this object.
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
