//! What both programs, the webhook and the operator, have in common: how they are configured, seen and reached.

pub mod certificates;
pub mod clock;
pub mod configuration;
pub mod diagnostics;
pub mod flags;
pub mod logging;
pub mod ports;
pub mod readiness;

use std::time::Duration;

use kube::client::ClientBuilder;
use kube::{Client, Config};
use thiserror::Error;
use tokio::time::timeout;
use tower::BoxError;
use tower::util::MapFutureLayer;

/// How long the API server has to begin its answer, also to a watch: it gives up what takes longer itself. The client would wait
/// for five minutes, in which a program whose list was lost knows nothing new.
const ANSWER_LIMIT: Duration = Duration::from_mins(1);

/// There is no API server to talk to.
#[derive(Debug, Error)]
#[error("no access to a Kubernetes API: set KUBECONFIG, or run in a pod with a service account")]
pub struct ConnectError(#[from] kube::Error);

/// Connects to the cluster of `KUBECONFIG`, or of the pod that this runs in.
pub async fn connect() -> Result<Client, ConnectError> {
    let config = Config::infer().await.map_err(kube::Error::InferConfig)?;
    let client = ClientBuilder::try_from(config)?.with_layer(&MapFutureLayer::new(in_time));
    Ok(client.build())
}

/// A request, which fails where no answer begins in time. What comes in parts may take as long as it likes after that.
pub async fn in_time<T>(request: impl Future<Output = Result<T, BoxError>>) -> Result<T, BoxError> {
    match timeout(ANSWER_LIMIT, request).await {
        Ok(answer) => answer,
        Err(_) => Err(format!("no answer within {} s", ANSWER_LIMIT.as_secs()).into()),
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_gets_no_answer_does_not_wait_for_ever() {
        let begin = Instant::now();
        let answer = in_time(std::future::pending::<Result<(), BoxError>>()).await;
        assert_eq!(answer.unwrap_err().to_string(), "no answer within 60 s");
        assert_eq!(begin.elapsed(), ANSWER_LIMIT);
        assert_eq!(in_time(async { Ok(1) }).await.unwrap(), 1);
    }
}
