//! A proxy between Cardgate and the API server that holds back writes of chosen pods, as a network or an overloaded API server does:
//! whoever wrote gets no answer, and what became of the write is another matter.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result};
use futures::future;
use http::header::HOST;
use http::uri::{Authority, Scheme};
use http::{Method, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Either, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::tls::Identity;

/// What becomes of a write that gets no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Held {
    /// It reaches the API server when the pod is released.
    Late,
    /// It never reaches the API server.
    Lost,
    /// It reaches the API server at once, and the answer is lost.
    Unanswered,
}

type Answer = Response<Either<Incoming, Full<Bytes>>>;

/// The proxy. It ends with its runtime.
#[derive(Debug)]
pub struct ApiProxy {
    kubeconfig: PathBuf,
    forwarder: Arc<Forwarder>,
}

impl ApiProxy {
    /// Starts a proxy for the holder of this kubeconfig, whose own kubeconfig it writes beside it.
    pub async fn start(kubeconfig: &Path) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let mut config: Value = serde_json::from_str(&std::fs::read_to_string(kubeconfig)?)?;
        let cluster = &mut config["clusters"][0]["cluster"];
        let server: Uri = cluster["server"].as_str().context("no server")?.parse()?;
        let authority = cluster["certificate-authority"].as_str().context("no authority")?;
        let identity = Identity {
            authorities: std::fs::read(authority)?,
            own: None,
        };
        let connector = hyper_rustls::HttpsConnectorBuilder::new()
            .with_tls_config(identity.config()?)
            .https_only()
            .enable_http1()
            .build();
        cluster["server"] = format!("http://{}", listener.local_addr()?).into();
        let own = kubeconfig.with_extension("proxied");
        std::fs::write(&own, serde_json::to_string(&config)?)?;
        let forwarder = Arc::new(Forwarder {
            client: Client::builder(TokioExecutor::new()).build(connector),
            server: server.authority().context("no address")?.clone(),
            pods: Mutex::default(),
        });
        tokio::spawn(serve(listener, Arc::clone(&forwarder)));
        Ok(Self {
            kubeconfig: own,
            forwarder,
        })
    }

    /// The kubeconfig by which the API server is reached through the proxy.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// From now on, writes of this pod get no answer.
    pub fn hold(&self, pod: &str, held: Held) {
        self.forwarder.pods().insert(pod.to_owned(), HeldPod::new(held));
    }

    /// From now on, the pod's writes are answered again; those that are late are carried out now.
    pub fn release(&self, pod: &str) {
        if let Some(pod) = self.forwarder.pods().get(pod) {
            pod.is_released.send_replace(true);
        }
    }

    /// What the API server answered to the writes of this pod that were or are held back, in HTTP's status codes, and how many of
    /// them there were.
    pub fn held(&self, pod: &str) -> (usize, Vec<u16>) {
        let pods = self.forwarder.pods();
        pods.get(pod)
            .map(|pod| (pod.held_back, pod.codes.clone()))
            .unwrap_or_default()
    }
}

#[derive(Debug)]
struct HeldPod {
    held: Held,
    is_released: watch::Sender<bool>,
    held_back: usize,
    codes: Vec<u16>,
}

impl HeldPod {
    fn new(held: Held) -> Self {
        Self {
            held,
            is_released: watch::channel(false).0,
            held_back: 0,
            codes: Vec::new(),
        }
    }
}

#[derive(Debug)]
struct Forwarder {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    server: Authority,
    pods: Mutex<BTreeMap<String, HeldPod>>,
}

async fn serve(listener: TcpListener, forwarder: Arc<Forwarder>) {
    while let Ok((stream, _)) = listener.accept().await {
        let forwarder = Arc::clone(&forwarder);
        let service = service_fn(move |request| Arc::clone(&forwarder).answer(request));
        // Whoever goes away in the middle is no failure of the proxy's.
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
    }
}

impl Forwarder {
    async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Result<Answer, Infallible> {
        let (head, body) = request.into_parts();
        let answered = match body.collect().await {
            Ok(body) => {
                self.pass_on(Request::from_parts(head, Full::new(body.to_bytes())))
                    .await
            }
            Err(error) => Err(error.into()),
        };
        Ok(answered.unwrap_or_else(|error: anyhow::Error| {
            let mut answer = Response::new(Either::Right(Full::new(format!("{error:#}").into())));
            *answer.status_mut() = StatusCode::BAD_GATEWAY;
            answer
        }))
    }

    /// Sends a request, or holds it back. Whoever gets no answer goes away, so what is held back is sent by itself.
    async fn pass_on(self: Arc<Self>, request: Request<Full<Bytes>>) -> Result<Answer> {
        let Some((pod, held, mut released)) = self.hold_back(&request) else {
            let answer = self.send(request).await?;
            return Ok(answer.map(Either::Left));
        };
        tokio::spawn(async move {
            if held == Held::Late {
                // Ends also where nobody can release it any more.
                let _ = released.wait_for(|is_released| *is_released).await;
            }
            if held != Held::Lost
                && let Ok(answer) = self.send(request).await
                && let Some(pod) = self.pods().get_mut(&pod)
            {
                pod.codes.push(answer.status().as_u16());
            }
        });
        future::pending().await
    }

    /// The pod whose write this is, and what becomes of it, where it is held back.
    fn hold_back(&self, request: &Request<Full<Bytes>>) -> Option<(String, Held, watch::Receiver<bool>)> {
        let name = request.uri().path().split_once("/pods/")?.1;
        let mut pods = self.pods();
        let pod = pods.get_mut(name).filter(|_| request.method() == Method::PATCH)?;
        if *pod.is_released.borrow() {
            return None;
        }
        pod.held_back += 1;
        Some((name.to_owned(), pod.held, pod.is_released.subscribe()))
    }

    async fn send(&self, mut request: Request<Full<Bytes>>) -> Result<Response<Incoming>> {
        let mut uri = request.uri().clone().into_parts();
        uri.scheme = Some(Scheme::HTTPS);
        uri.authority = Some(self.server.clone());
        *request.uri_mut() = Uri::from_parts(uri)?;
        request.headers_mut().remove(HOST);
        Ok(self.client.request(request).await?)
    }

    fn pods(&self) -> MutexGuard<'_, BTreeMap<String, HeldPod>> {
        self.pods.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
