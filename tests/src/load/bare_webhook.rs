//! The bare webhook: adds the gate and a label to every pod, and looks at none. No webhook that gates can be faster; what it
//! takes, with the API server's part of each call, is what a door by a webhook costs before it has any rule.

use std::net::TcpListener;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use actix_web::dev::ServerHandle;
use actix_web::{App, HttpResponse, HttpServer, rt, web};
use anyhow::{Context, Result, ensure};
use crds::keys::{GATE, QUEUE_LABEL, QUEUE_NAME};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Api;
use kube::api::PostParams;
use rustls::ServerConfig;
use rustls::pki_types::PrivatePkcs8KeyDer;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::pods::NAMESPACE;
use super::usage::Clock;
use crate::controlplane::ControlPlane;
use crate::wait::{self, Seen};
use crate::workloads;

/// Larger than any pod that the API server takes.
const MOST_BYTES: usize = 8 << 20;

/// For as long as the API server may leave a connection unused between two reviews, as at Cardgate's webhook: closed before that,
/// a connection may be closed under a review that is on its way, and the pod is refused.
const KEEP_ALIVE: Duration = Duration::from_mins(2);

/// A running bare webhook, on a thread of its own so that its CPU time can be told from the creators'.
pub(super) struct BareWebhook {
    /// Its CPU time.
    pub clock: Clock,
    server: ServerHandle,
    thread: JoinHandle<Result<()>>,
}

impl BareWebhook {
    /// Starts it, and waits until the API server asks it about each new pod of the load.
    pub async fn start(plane: &ControlPlane) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let signed = rcgen::generate_simple_self_signed([address.ip().to_string()])?;
        let key = PrivatePkcs8KeyDer::from(signed.signing_key.serialize_der());
        let tls = ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(vec![signed.cert.der().clone()], key.into())?;
        let (started, is_started) = oneshot::channel();
        let thread = std::thread::Builder::new()
            .name("bare-webhook".to_owned())
            .spawn(move || serve(listener, tls, started))
            .context("no thread for the bare webhook")?;
        let (server, clock) = is_started.await.context("the bare webhook did not start")?;
        plane
            .apply(&configuration(&format!("https://{address}/"), &signed.cert.pem()))
            .await?;
        await_gate(plane).await?;
        Ok(Self { clock, server, thread })
    }

    /// Ends it; an error if it has ended before.
    pub async fn stop(self) -> Result<()> {
        ensure!(!self.thread.is_finished(), "the bare webhook ended by itself");
        self.server.stop(false).await;
        self.thread
            .join()
            .map_err(|_| anyhow::anyhow!("the bare webhook panicked"))?
    }
}

/// Answers until it is stopped. One thread does all of the work, as the webhook's own; its clock is sent from there.
fn serve(listener: TcpListener, tls: ServerConfig, started: oneshot::Sender<(ServerHandle, Clock)>) -> Result<()> {
    rt::System::new().block_on(async {
        let (worker, works) = oneshot::channel();
        // The application is made anew for each worker, as far as its type says.
        let worker = Arc::new(Mutex::new(Some(worker)));
        let server = HttpServer::new(move || {
            if let Some(worker) = worker.lock().unwrap_or_else(PoisonError::into_inner).take() {
                // The starter is gone only when everything ends.
                let _ = worker.send(Clock::of_this_thread("bare webhook"));
            }
            App::new()
                .app_data(web::PayloadConfig::new(MOST_BYTES))
                .route("/", web::post().to(answer))
        })
        .workers(1)
        .keep_alive(KEEP_ALIVE)
        .disable_signals()
        .listen_rustls_0_23(listener, tls)?
        .run();
        let handle = server.handle();
        let running = rt::spawn(server);
        let clock = works.await.context("the bare webhook has no worker")?;
        let _ = started.send((handle, clock));
        running.await??;
        Ok(())
    })
}

/// As much of an `AdmissionReview` as is needed to answer it.
#[derive(Deserialize)]
struct Review {
    request: Request,
}

#[derive(Deserialize)]
struct Request {
    uid: String,
    object: Object,
}

#[derive(Deserialize)]
struct Object {
    metadata: ObjectMeta,
}

async fn answer(body: web::Bytes) -> HttpResponse {
    let Ok(Review { request }) = serde_json::from_slice(&body) else {
        return HttpResponse::BadRequest().finish();
    };
    let annotations = request.object.metadata.annotations.unwrap_or_default();
    let patch = json!([
        {"op": "add", "path": "/metadata/labels", "value": {QUEUE_LABEL: annotations.get(QUEUE_NAME)}},
        {"op": "add", "path": "/spec/schedulingGates", "value": [{"name": GATE}]},
    ]);
    HttpResponse::Ok().json(json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": {
            "uid": request.uid,
            "allowed": true,
            "patchType": "JSONPatch",
            "patch": ByteString(patch.to_string().into_bytes()),
        },
    }))
}

fn configuration(url: &str, authority: &str) -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": "bare-webhook"},
        "webhooks": [{
            "name": "pods.bare.example.com",
            "admissionReviewVersions": ["v1"],
            "clientConfig": {"url": url, "caBundle": ByteString(authority.as_bytes().to_vec())},
            "rules": [{
                "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"],
                "scope": "Namespaced",
            }],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": NAMESPACE}},
            "failurePolicy": "Fail",
            "sideEffects": "None",
        }],
    })
}

/// Waits until pods get their gates.
async fn await_gate(plane: &ControlPlane) -> Result<()> {
    let pods: Api<Pod> = Api::namespaced(plane.client().await?, NAMESPACE);
    let probe = workloads::pod("bare-webhook-probe")
        .queue("probe")
        .namespace(NAMESPACE)
        .build();
    wait::eventually("the API server to reach the bare webhook", wait::PATIENCE, async || {
        let dry_run = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        let made = pods.create(&dry_run, &probe).await?;
        let gates = made.spec.and_then(|spec| spec.scheduling_gates).unwrap_or_default();
        Ok(Seen::when(!gates.is_empty(), "a pod without a gate"))
    })
    .await
}
