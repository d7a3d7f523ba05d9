//! The scheduler extender: what Cardgate's policies say about nodes, for schedulers that ask (Kubernetes' extender API v1).
//!
//! Only the operator that leads knows the cluster, so only it answers; the others say 503, and a scheduler tries the pod
//! again. Requests are read and answers written here, on threads of their own; what is said is said by the mind, which
//! takes one question after the other: so two pods never get the same last core, whoever asks for them at once.

mod leader_label;
pub mod volcano;
pub mod wire;

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use actix_web::http::header::ContentType;
use actix_web::web::{Bytes, Data, PayloadConfig, ServiceConfig, post};
use actix_web::{App, HttpResponse, HttpServer};
use crds::pod::Pod;
use thiserror::Error;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use crate::decide::extender::Refusal;
use crate::pod_ref::PodRef;
pub use leader_label::{LEADER_LABEL, keep_leader_label};

/// Longest body: five thousand nodes in full have about fifty million bytes.
const MAX_BODY: usize = 128 << 20;
/// How many questions may wait for the mind; a scheduler asks one at a time.
const QUESTIONS_AHEAD: usize = 64;
/// How long an answer may take; schedulers wait five seconds where they are not told otherwise.
const ANSWER_LIMIT: Duration = Duration::from_secs(4);
/// Where nodes are filtered.
pub const FILTER_PATH: &str = "/scheduler/filter";
/// Where nodes are scored.
pub const PRIORITIZE_PATH: &str = "/scheduler/prioritize";

/// Where a pod is bound.
pub const BIND_PATH: &str = "/scheduler/bind";

/// What a scheduler asks, and where the answer goes.
#[derive(Debug)]
pub enum Question {
    /// About one pod and these nodes.
    Nodes {
        /// The pod.
        pod: Box<Pod<Box<str>>>,
        /// The nodes.
        nodes: Vec<Box<str>>,
        /// What is asked about them.
        asked: Asked,
    },
    /// To bind a pod.
    Bind {
        /// The pod.
        pod: PodRef,
        /// The node.
        node: Box<str>,
        /// Whether it is bound, and why it is not.
        answer: oneshot::Sender<Result<(), String>>,
    },
}

/// Takes the places of nodes that can't take a pod, and why.
pub type Refused = oneshot::Sender<Vec<(usize, Refusal)>>;

/// What a scheduler asks about nodes.
#[derive(Debug)]
pub enum Asked {
    /// Which nodes can't take the pod. From then on the pod counts on all others, and nowhere else, until it is bound.
    Filter(Refused),
    /// The same, and nothing comes of it.
    Look(Refused),
    /// How good each node is for the pod.
    Prioritize(oneshot::Sender<Vec<i64>>),
}

/// Where questions go.
pub type Questions = mpsc::Sender<Question>;

/// Both ends of the way to the mind.
pub fn channel() -> (Questions, mpsc::Receiver<Question>) {
    mpsc::channel(QUESTIONS_AHEAD)
}

/// The extender could not be started.
#[derive(Debug, Error)]
#[error("can't listen on {address}: choose another with --extender-addr")]
pub struct ExtenderError {
    address: SocketAddr,
    source: io::Error,
}

/// Listens on `address`. Await the result to serve.
pub fn start(address: SocketAddr, questions: Questions) -> Result<actix_web::dev::Server, ExtenderError> {
    let server = HttpServer::new(move || App::new().configure(routes(questions.clone())))
        .workers(2)
        .disable_signals()
        .bind(address)
        .map_err(|source| ExtenderError { address, source })?;
    Ok(server.run())
}

/// The paths and what they answer.
pub fn routes(questions: Questions) -> impl FnOnce(&mut ServiceConfig) {
    move |config| {
        config
            .app_data(Data::new(questions))
            .app_data(PayloadConfig::new(MAX_BODY))
            .route(FILTER_PATH, post().to(filter))
            .route(PRIORITIZE_PATH, post().to(prioritize))
            .route(BIND_PATH, post().to(bind))
            .route(volcano::PREDICATE_PATH, post().to(volcano::predicate))
            .route(volcano::PRIORITIZE_PATH, post().to(volcano::prioritize))
            .route(volcano::ALLOCATE_PATH, post().to(volcano::allocate))
            .route(volcano::DEALLOCATE_PATH, post().to(volcano::deallocate));
    }
}

/// Why there is no answer.
#[derive(Debug, Error)]
pub enum Failure {
    /// Not JSON, or JSON of another shape.
    #[error("the body is no ExtenderArgs or ExtenderBindingArgs of extender API v1: {0}")]
    Body(#[from] serde_json::Error),
    /// The same of Volcano's extender plugin.
    #[error("the body is no request of Volcano's extender plugin: {0}")]
    Volcano(serde_json::Error),
    /// Nothing to look at.
    #[error("the body names no nodes, in NodeNames or Nodes, or in Volcano's node or nodes")]
    NoNodes,
    /// Nobody here knows the cluster.
    #[error("this operator stands by, or has not seen the whole cluster yet: ask the one that leads, or ask again")]
    NotLeading,
    /// The mind has other things to do.
    #[error("no answer within {} s", ANSWER_LIMIT.as_secs())]
    Late,
}

impl Failure {
    fn response(&self) -> HttpResponse {
        tracing::warn!("a scheduler's question is not answered: {self}");
        let mut response = match self {
            Self::Body(_) | Self::Volcano(_) | Self::NoNodes => HttpResponse::BadRequest(),
            Self::NotLeading | Self::Late => HttpResponse::ServiceUnavailable(),
        };
        response
            .content_type(ContentType::plaintext())
            .body(format!("{self}\n"))
    }
}

async fn filter(questions: Data<Questions>, body: Bytes) -> HttpResponse {
    let answer = async {
        let args = wire::Args::read(&body)?;
        let refused = ask_about_nodes(&questions, args.pod(), args.names()?, Asked::Filter).await?;
        args.filtered(&refused)
    };
    respond(answer.await)
}

async fn prioritize(questions: Data<Questions>, body: Bytes) -> HttpResponse {
    let answer = async {
        let args = wire::Args::read(&body)?;
        let names = args.names()?;
        let scores = ask_about_nodes(&questions, args.pod(), names.clone(), Asked::Prioritize).await?;
        Ok(wire::prioritized(&names, &scores)?)
    };
    respond(answer.await)
}

async fn bind(questions: Data<Questions>, body: Bytes) -> HttpResponse {
    let answer = async {
        let (pod, node) = wire::BindingArgs::read(&body)?.into_pod_and_node();
        let bound = ask(&questions, |answer| Question::Bind { pod, node, answer }).await?;
        Ok(wire::bound(bound.err().as_deref().unwrap_or_default())?)
    };
    respond(answer.await)
}

fn respond(answer: Result<Vec<u8>, Failure>) -> HttpResponse {
    match answer {
        Ok(body) => HttpResponse::Ok().content_type(ContentType::json()).body(body),
        Err(failure) => failure.response(),
    }
}

async fn ask_about_nodes<T>(
    questions: &Questions,
    pod: Pod<Box<str>>,
    nodes: Vec<Box<str>>,
    asked: impl FnOnce(oneshot::Sender<T>) -> Asked,
) -> Result<T, Failure> {
    let pod = Box::new(pod);
    let question = |answer| Question::Nodes {
        pod,
        nodes,
        asked: asked(answer),
    };
    ask(questions, question).await
}

async fn ask<T>(questions: &Questions, question: impl FnOnce(oneshot::Sender<T>) -> Question) -> Result<T, Failure> {
    let (sender, answer) = oneshot::channel();
    let question = question(sender);
    let answered = async {
        questions.send(question).await.map_err(|_| Failure::NotLeading)?;
        answer.await.map_err(|_| Failure::NotLeading)
    };
    timeout(ANSWER_LIMIT, answered).await.unwrap_or(Err(Failure::Late))
}
