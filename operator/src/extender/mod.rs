//! The scheduler extender: tells schedulers that ask what Cardgate's policies say about nodes (Kubernetes' extender API v1).
//!
//! Only the operator that leads knows the cluster, so only it answers. The others answer 503, and the scheduler tries the pod again. This
//! module reads requests and writes answers, on threads of its own. The mind decides the answers and takes one question after the other. So
//! two pods never get the same last core, even if two schedulers ask at once.

mod access;
mod leader_label;
mod mounted;
pub mod volcano;
pub mod wire;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use actix_web::HttpResponse;
use actix_web::http::header::ContentType;
use actix_web::middleware::from_fn;
use actix_web::web::{Data, Payload, ServiceConfig, post, scope};
use crds::bounds::told;
use crds::pod::Pod;
use engine::decide::extender::Refusal;
use engine::refs::PodRef;
use programs::ports::body::{self, Body, BodyError, Limits, Room};
use programs::ports::refusals::Refusals;
use programs::ports::server::{ListenError, Port};
use thiserror::Error;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use access::Access;
pub use leader_label::{LEADER_LABEL, keep_leader_label};
pub use mounted::Mounted;

/// Limits of one body: five thousand nodes in full have about fifty million bytes. Schedulers wait five seconds.
const BODY: Limits = Limits {
    longest: 96 << 20,
    time: Duration::from_secs(4),
    // Only schedulers get this far, and the number of values in nodes in full cannot be bounded.
    values: None,
};
/// Memory for all bodies at once: two bodies of five thousand nodes each, arriving or being read. Answers that hold nodes in full take as
/// much again.
const BODIES: usize = 144 << 20;
/// The port's name in metrics.
const PORT: &str = "extender";
/// Number of connections at once: Volcano asks about sixteen nodes at a time.
const CONNECTIONS: usize = 128;
/// How long a connection waits for the next question.
const KEEP_ALIVE: Duration = Duration::from_mins(2);
/// How many questions may wait for the mind; a scheduler asks one at a time.
const QUESTIONS_AHEAD: usize = 64;
/// How long an answer may take. Schedulers wait five seconds unless they are configured otherwise.
const ANSWER_LIMIT: Duration = Duration::from_secs(4);
/// The path where nodes are filtered.
pub const FILTER_PATH: &str = "/scheduler/filter";
/// The path where nodes are scored.
pub const PRIORITIZE_PATH: &str = "/scheduler/prioritize";

/// The path where a pod is bound.
pub const BIND_PATH: &str = "/scheduler/bind";

/// What a scheduler asks, and where the answer goes.
#[derive(Debug)]
pub enum Question {
    /// About one pod and these nodes.
    Nodes {
        /// The pod as the scheduler knows it, which may be ahead of the watch or behind it.
        pod: Box<Pod<Box<str>>>,
        /// The names of the nodes, in the order of the answer.
        nodes: Vec<Box<str>>,
        /// What is asked about them.
        asked: Asked,
    },
    /// To bind a pod.
    Bind {
        /// The pod. Another pod of the same name is not bound.
        pod: PodRef,
        /// Name of the node that the pod is bound to.
        node: Box<str>,
        /// Gets whether the pod is bound, and if not, why.
        answer: oneshot::Sender<Result<(), String>>,
    },
}

/// Takes the places of the nodes that cannot take a pod, each with the reason.
pub type Refused = oneshot::Sender<Vec<(usize, Refusal)>>;

/// What a scheduler asks about nodes.
#[derive(Debug)]
pub enum Asked {
    /// Which nodes cannot take the pod. From then on the pod counts on all other nodes of the question, and nowhere else, until it is
    /// bound.
    Filter(Refused),
    /// The same question, but the answer has no effect.
    Look(Refused),
    /// How good each node is for the pod.
    Prioritize(oneshot::Sender<Vec<i64>>),
}

/// Where questions go.
pub type Questions = mpsc::Sender<Question>;

/// Returns both ends of the channel to the mind.
pub fn channel() -> (Questions, mpsc::Receiver<Question>) {
    mpsc::channel(QUESTIONS_AHEAD)
}

/// The extender could not be started.
#[derive(Debug, Error)]
pub enum ExtenderError {
    /// The address is in use, or is not an address of this machine.
    #[error("{0}: choose another with --extender-addr")]
    Listen(#[from] ListenError),
    /// TLS can't be set up.
    #[error("TLS can't be set up: {0}")]
    Tls(#[from] rustls::Error),
}

/// Listens on `address`, with TLS only. Await the result to serve.
pub fn start(
    address: SocketAddr,
    mounted: &Arc<Mounted>,
    refusals: &Refusals,
    questions: Questions,
) -> Result<actix_web::dev::Server, ExtenderError> {
    let port = Port {
        name: PORT,
        workers: 2,
        connections: CONNECTIONS,
        keep_alive: Some(KEEP_ALIVE),
        end: Duration::from_secs(5),
    };
    let access = Data::new(Access {
        mounted: Arc::clone(mounted),
        refusals: refusals.clone(),
    });
    let bodies = Bodies::new(BODIES, refusals.clone());
    let guarded = move || {
        let (access, routes) = (access.clone(), routes(questions.clone(), bodies.clone()));
        move |config: &mut ServiceConfig| {
            let guarded = scope("").wrap(from_fn(access::check)).configure(routes);
            config.app_data(access).service(guarded);
        }
    };
    Ok(port.tls(address, &mounted.server_config()?, refusals, guarded)?)
}

/// Reads bodies. Clones share one pool of memory.
#[derive(Debug, Clone)]
pub struct Bodies {
    room: Arc<Room>,
    refusals: Refusals,
}

impl Bodies {
    /// Creates a pool of that many bytes. Bodies that find no room in it are counted in `refusals`.
    pub fn new(bytes: usize, refusals: Refusals) -> Self {
        let room = Room::new(bytes);
        Self { room, refusals }
    }

    async fn read(&self, payload: Payload) -> Result<Body, Failure> {
        let body = body::read(&self.room, payload, BODY).await;
        if let Some(reason) = body.as_ref().err().and_then(BodyError::reason) {
            self.refusals.count(PORT, reason);
        }
        Ok(body?)
    }
}

/// Returns the routes and their answers. Access is checked elsewhere.
pub fn routes(questions: Questions, bodies: Bodies) -> impl FnOnce(&mut ServiceConfig) {
    move |config| {
        config
            .app_data(Data::new(questions))
            .app_data(Data::new(bodies))
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
    /// The body did not arrive.
    #[error(transparent)]
    Unread(#[from] BodyError),
    /// The body is not JSON, or JSON of another shape.
    #[error("the body is no ExtenderArgs or ExtenderBindingArgs of extender API v1: {0}")]
    Body(#[from] serde_json::Error),
    /// The same for a body of Volcano's extender plugin.
    #[error("the body is no request of Volcano's extender plugin: {0}")]
    Volcano(serde_json::Error),
    /// The body names no nodes.
    #[error("the body names no nodes, in NodeNames or Nodes, or in Volcano's node or nodes")]
    NoNodes,
    /// This operator does not know the cluster.
    #[error("this operator stands by, or has not seen the whole cluster yet: ask the one that leads, or ask again")]
    NotLeading,
    /// The mind was busy for too long.
    #[error("no answer within {} s", ANSWER_LIMIT.as_secs())]
    Late,
}

impl Failure {
    fn response(&self) -> HttpResponse {
        // The text may quote what was sent.
        let text = told(self.to_string());
        tracing::warn!("a scheduler's question is not answered: {text}");
        let mut response = match self {
            Self::Unread(error) => return error.response(),
            Self::Body(_) | Self::Volcano(_) | Self::NoNodes => HttpResponse::BadRequest(),
            Self::NotLeading | Self::Late => HttpResponse::ServiceUnavailable(),
        };
        response.content_type(ContentType::plaintext()).body(text + "\n")
    }
}

async fn filter(questions: Data<Questions>, bodies: Data<Bodies>, payload: Payload) -> HttpResponse {
    let answer = async {
        let body = bodies.read(payload).await?;
        let args = wire::Args::read(&body)?;
        let refused = ask_about_nodes(&questions, args.pod(), args.names()?, Asked::Filter).await?;
        args.filtered(&refused)
    };
    respond(answer.await)
}

async fn prioritize(questions: Data<Questions>, bodies: Data<Bodies>, payload: Payload) -> HttpResponse {
    let answer = async {
        let body = bodies.read(payload).await?;
        let args = wire::Args::read(&body)?;
        let names = args.names()?;
        let scores = ask_about_nodes(&questions, args.pod(), names.clone(), Asked::Prioritize).await?;
        Ok(wire::prioritized(&names, &scores)?)
    };
    respond(answer.await)
}

async fn bind(questions: Data<Questions>, bodies: Data<Bodies>, payload: Payload) -> HttpResponse {
    let answer = async {
        let (pod, node) = wire::BindingArgs::read(&bodies.read(payload).await?)?.into_pod_and_node();
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
