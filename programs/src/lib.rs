//! What both programs, the webhook and the operator, have in common: how they are configured, observed and reached.

pub mod certificates;
pub mod clock;
pub mod configuration;
pub mod diagnostics;
pub mod flags;
pub mod lean_requests;
pub mod logging;
pub mod ports;
pub mod readable;
pub mod readiness;

use std::time::Duration;

use crate::readable::readable;
use http::{Method, Request, Response, StatusCode};
use kube::client::{Body, ClientBuilder};
use kube::{Client, Config};
use thiserror::Error;
use tokio::time::{sleep, timeout};
use tower::BoxError;
use tower::util::{MapFutureLayer, MapResponseLayer};

/// How long the API server has to begin its answer, also to a watch. It gives up slower requests itself. The client would wait for five
/// minutes, during which a program whose list was lost learns nothing new.
const ANSWER_LIMIT: Duration = Duration::from_mins(1);
/// How long the pause between two parts of an answer may be, for example when the connection of a list was lost. A watch sends something
/// each minute, and ends after five.
const SILENCE_LIMIT: Duration = Duration::from_secs(310);

/// HTTP status of an API server that has too much to do at the moment.
const BUSY: u16 = 429;
/// HTTP status of an API server that is just starting, or ending.
const UNAVAILABLE: u16 = 503;
/// The pauses before a read that failed for the moment is repeated.
const READ_AGAIN: [Duration; 4] = [
    Duration::from_millis(100),
    Duration::from_millis(300),
    Duration::from_secs(1),
    Duration::from_secs(3),
];
/// How long an API server that has no time is left alone.
const PAUSE: Duration = Duration::from_millis(500);

/// There is no API server to talk to.
#[derive(Debug, Error)]
#[error("no access to a Kubernetes API: set KUBECONFIG, or run in a pod with a service account")]
pub struct ConnectError(#[from] kube::Error);

/// Connects to the cluster of `KUBECONFIG`, or of the pod that this runs in.
pub async fn connect() -> Result<Client, ConnectError> {
    let config = Config::infer().await.map_err(kube::Error::InferConfig)?;
    Ok(client(config)?)
}

/// Returns a client as both programs use it. The client repeats no request: the caller knows for how long repeating is of use. A refusal
/// that is repeated until then looks like a missing answer, for example the refusal by a disruption budget.
pub fn client(config: Config) -> kube::Result<Client> {
    client_that_waits(config, SILENCE_LIMIT)
}

/// Returns a client that waits at most `silence` for the next part of an answer.
fn client_that_waits(mut config: Config, silence: Duration) -> kube::Result<Client> {
    config.default_retry = false;
    config.read_timeout = Some(silence);
    // The wait counts from the request, not from the last use of its connection.
    config.reset_reader_on_write = true;
    let client = ClientBuilder::try_from(config)?
        .with_layer(&MapResponseLayer::new(readable))
        .with_layer(&MapFutureLayer::new(in_time));
    Ok(client.build())
}

/// Returns a client with the given configuration, which accepts answers with any bytes as text.
pub fn client_as_configured(config: Config) -> kube::Result<Client> {
    let client = ClientBuilder::try_from(config)?.with_layer(&MapResponseLayer::new(readable));
    Ok(client.build())
}

/// Returns the same client for reading: a read that fails for the moment is repeated a few times. Otherwise a list with thousands of pages
/// would begin anew with each page that fails, and never end.
pub fn that_reads_again(client: Client) -> Client {
    let namespace = client.default_namespace().to_owned();
    let service = tower::service_fn(move |request: Request<Body>| {
        let client = client.clone();
        async move { read_again(&client, request).await }
    });
    Client::new(service, namespace)
}

async fn read_again(client: &Client, request: Request<Body>) -> Result<Response<Body>, BoxError> {
    let (parts, body) = request.into_parts();
    if parts.method != Method::GET {
        return Ok(client.send(Request::from_parts(parts, body)).await?);
    }
    let ask = || client.send(Request::from_parts(parts.clone(), Body::empty()));
    for pause in READ_AGAIN {
        match ask().await {
            Ok(answer) if !is_passing(answer.status()) => return Ok(answer),
            Ok(_) | Err(_) => sleep(pause).await,
        }
    }
    Ok(ask().await?)
}

/// Whether an API server, or a proxy before it, may answer differently in a moment.
fn is_passing(status: StatusCode) -> bool {
    status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS
}

/// Repeats a request until the API server has time to answer. For callers that set a time limit and would not ask again later.
pub async fn when_it_has_time<T, F: Future<Output = kube::Result<T>>>(ask: impl Fn() -> F) -> kube::Result<T> {
    loop {
        match ask().await {
            Err(kube::Error::Api(status)) if matches!(status.code, BUSY | UNAVAILABLE) => sleep(PAUSE).await,
            answer => return answer,
        }
    }
}

/// Returns the answer to a request, or fails if no answer begins in time. An answer in parts may take any time after that, as long as parts
/// arrive.
pub async fn in_time<T>(request: impl Future<Output = Result<T, BoxError>>) -> Result<T, BoxError> {
    match timeout(ANSWER_LIMIT, request).await {
        Ok(answer) => answer,
        Err(_) => Err(format!("no answer within {} s", ANSWER_LIMIT.as_secs()).into()),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::net::TcpListener;
    use std::pin::pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    use futures::StreamExt as _;
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::Api;
    use kube::core::Status;
    use kube::runtime::watcher::{self, watcher};
    use tokio::sync::mpsc;
    use tokio::time::Instant;

    use super::*;
    use crate::certificates::provider;

    #[tokio::test(start_paused = true)]
    async fn who_gets_no_answer_does_not_wait_for_ever() {
        let begin = Instant::now();
        let answer = in_time(std::future::pending::<Result<(), BoxError>>()).await;
        assert_eq!(answer.unwrap_err().to_string(), "no answer within 60 s");
        assert_eq!(begin.elapsed(), ANSWER_LIMIT);
        assert_eq!(in_time(async { Ok(1) }).await.unwrap(), 1);
    }

    /// A list of 100,000 pods has 5,000 pages, some of which fail.
    #[tokio::test(start_paused = true)]
    async fn what_is_read_is_read_again_where_it_failed_for_the_moment_and_nothing_is_written_twice() {
        for (method, code, expected) in [
            (Method::GET, 503, (200, 3)),
            (Method::GET, 429, (200, 3)),
            (Method::GET, 500, (200, 3)),
            (Method::GET, 410, (410, 1)),
            (Method::GET, 403, (403, 1)),
            (Method::POST, 503, (503, 1)),
        ] {
            let asked = Arc::new(AtomicUsize::new(0));
            let counted = Arc::clone(&asked);
            let server = tower::service_fn(move |_: Request<Body>| {
                let code = if counted.fetch_add(1, Ordering::Relaxed) < 2 {
                    code
                } else {
                    200
                };
                async move { Response::builder().status(code).body(Body::empty()) }
            });
            let client = that_reads_again(Client::new(server, "default"));
            let request = Request::builder()
                .method(&method)
                .uri("/api/v1/pods")
                .body(Body::empty());
            let answer = client.send(request.unwrap()).await.unwrap();
            let found = (answer.status().as_u16(), asked.load(Ordering::Relaxed));
            assert_eq!(found, expected, "{method} {code}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_api_server_that_has_no_time_is_asked_again_and_one_that_refuses_is_not() {
        for (code, expected) in [(BUSY, 3), (UNAVAILABLE, 3), (403, 1)] {
            let asked = Cell::new(0);
            let answer = when_it_has_time(|| {
                asked.set(asked.get() + 1);
                let status = Status {
                    code,
                    ..Status::default()
                };
                let refused = asked.get() < 3;
                async move {
                    if refused {
                        Err(kube::Error::Api(Box::new(status)))
                    } else {
                        Ok(())
                    }
                }
            });
            assert_eq!((answer.await.is_ok(), asked.get()), (expected == 3, expected), "{code}");
        }
    }

    /// Starts an API server that breaks off in the middle of each answer, and keeps the connection. Returns its address, and a receiver of
    /// one item for each such answer.
    fn breaks_off() -> (String, mpsc::UnboundedReceiver<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let (answered, heard) = mpsc::unbounded_channel();
        thread::spawn(move || {
            let mut kept = Vec::new();
            for stream in listener.incoming() {
                let mut stream = BufReader::new(stream.unwrap());
                let mut line = String::new();
                while stream.read_line(&mut line).unwrap() > 2 {
                    line.clear();
                }
                let answer =
                    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{\"items\": [";
                stream.get_mut().write_all(answer).unwrap();
                kept.push(stream);
                if answered.send(()).is_err() {
                    return;
                }
            }
        });
        (address, heard)
    }

    #[tokio::test]
    async fn a_watch_whose_list_breaks_off_lists_again() {
        // An error means that a provider is installed already; any provider does.
        let _ = provider().install_default();
        let (address, mut asked) = breaks_off();
        let client = client_that_waits(Config::new(address.parse().unwrap()), Duration::from_millis(100)).unwrap();
        let mut watch = pin!(watcher(Api::<ConfigMap>::all(client), watcher::Config::default()));
        let watching = async { while watch.next().await.is_some() {} };
        let asks_again = async {
            for _ in 0..2 {
                asked.recv().await.unwrap();
            }
        };
        let asks_again = timeout(Duration::from_secs(10), asks_again);
        tokio::select! {
            () = watching => unreachable!("a watch does not end"),
            again = asks_again => assert!(again.is_ok(), "it has waited for ever"),
        }
    }
}
