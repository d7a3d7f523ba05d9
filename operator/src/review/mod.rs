//! Answers `CardReview`s: people's questions about what waits. API servers send the questions to a mutating webhook for this one kind. So
//! they have authenticated the user, and RBAC has decided that the user may ask in this namespace. Requests from elsewhere are not
//! answered.
//!
//! Only the operator that leads knows the cluster, so only it answers. This module reads questions and writes answers, on threads of its
//! own. The mind answers one question at a time, after it has decided, so that no pod waits longer for its admission.

mod lanes;
mod path;
mod wire;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use actix_web::http::header::ContentType;
use actix_web::web::{Data, Payload, ServiceConfig, to};
use actix_web::{HttpRequest, HttpResponse};
use crds::bounds::told;
use crds::card_review::CardReviewStatus;
use engine::explain::{Asked, Unknown};
use programs::ports::body::{self, BodyError, Limits, Room};
use programs::ports::connections;
use programs::ports::refusals::{Reason, Refusals};
use programs::ports::server::{ListenError, Port};
use thiserror::Error;
use tokio::sync::oneshot;
use tokio::time::timeout;

pub use self::lanes::Exit;
use self::lanes::{Entrance, Full, lanes};
pub use self::path::{PathError, PathKeeper, ReviewPath, WEBHOOK};
use self::wire::Refusal;
use crate::extender::Mounted;

/// Limits of one body: a manifest is at most as long as etcd allows.
const BODY: Limits = Limits {
    longest: 3 << 20,
    time: Duration::from_secs(2),
    // The values of the question are counted before it is read; the rest of the body is skipped.
    values: None,
};
/// Memory for all bodies at once.
const BODIES: usize = 24 << 20;
/// The port's name in metrics.
const PORT: &str = "review";
/// Number of connections at once; each API server needs few.
const CONNECTIONS: usize = 64;
/// How long a connection waits for the next question.
const KEEP_ALIVE: Duration = Duration::from_mins(2);
/// How many questions about one namespace may wait for their answers, since several users may ask without end there.
const QUESTIONS_ABOUT_ONE: usize = 8;
/// How long an answer may take; API servers wait five seconds.
const ANSWER_LIMIT: Duration = Duration::from_secs(4);
/// The answer to any other request.
const UNKNOWN: &str = "reviews are brought by API servers alone, at the path that they find in the MutatingWebhookConfiguration cardgate: \
                       create a CardReview to ask\n";

/// A question, and where the answer goes.
#[derive(Debug)]
pub struct Inquiry {
    /// The namespace whose names the user may read.
    pub namespace: String,
    /// What is asked about.
    pub asked: Asked,
    /// The answer.
    pub answer: oneshot::Sender<Result<CardReviewStatus, NoAnswer>>,
}

/// The end where questions are put. Clones share the counts.
#[derive(Debug, Clone)]
pub struct Inquiries {
    mind: Entrance<Inquiry>,
    /// How many questions about each namespace wait for their answers.
    waiting: Arc<Mutex<BTreeMap<String, usize>>>,
}

/// Returns both ends of the channel to the mind.
pub fn channel() -> (Inquiries, Exit<Inquiry>) {
    let (mind, inquiries) = lanes();
    let waiting = Arc::default();
    (Inquiries { mind, waiting }, inquiries)
}

impl Inquiries {
    /// Asks on behalf of this user, in this namespace, and waits for the answer.
    pub async fn ask(
        &self,
        user: &str,
        namespace: &str,
        asked: Asked,
    ) -> Result<Result<CardReviewStatus, NoAnswer>, Failure> {
        let _waiting = self.wait(namespace).ok_or(Failure::Often)?;
        let (answer, answered) = oneshot::channel();
        let inquiry = Inquiry {
            namespace: namespace.to_owned(),
            asked,
            answer,
        };
        self.mind.put(namespace, user, inquiry).map_err(|full| match full {
            Full::All => Failure::Busy,
            Full::Own => Failure::OftenAsked,
        })?;
        let answered = timeout(ANSWER_LIMIT, answered).await.map_err(|_| Failure::Late)?;
        answered.map_err(|_| Failure::NotLeading)
    }

    /// Counts one more question about a namespace while the returned value lives. Returns none if the largest number of questions waits.
    fn wait(&self, namespace: &str) -> Option<Waiting<'_>> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let count = waiting.entry(namespace.to_owned()).or_default();
        if *count >= QUESTIONS_ABOUT_ONE {
            return None;
        }
        *count += 1;
        Some(Waiting {
            inquiries: self,
            namespace: namespace.to_owned(),
        })
    }
}

/// A question that waits for its answer.
#[derive(Debug)]
struct Waiting<'a> {
    inquiries: &'a Inquiries,
    namespace: String,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut waiting = self.inquiries.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = waiting.get_mut(&self.namespace) {
            *count -= 1;
            if *count == 0 {
                waiting.remove(&self.namespace);
            }
        }
    }
}

/// Reviews can't be served.
#[derive(Debug, Error)]
pub enum StartError {
    /// The address is in use, or is not an address of this machine.
    #[error("{0}: choose another with --review-addr")]
    Listen(#[from] ListenError),
    /// TLS can't be set up.
    #[error("TLS can't be set up: {0}")]
    Tls(#[from] rustls::Error),
}

/// Why a question that was taken up has no answer.
#[derive(Debug, Error)]
pub enum NoAnswer {
    /// The object of the question does not exist.
    #[error(transparent)]
    Unknown(#[from] Unknown),
    /// The answer could not be computed; another try would fail too.
    #[error("Cardgate fell over this question: tell whoever keeps it, who finds it in the log of the operator")]
    Fell,
}

/// Why a question is not taken up.
#[derive(Debug, Error)]
#[expect(missing_docs, reason = "the messages say what they are")]
pub enum Failure {
    #[error(transparent)]
    Unread(#[from] BodyError),
    #[error("the body is no AdmissionReview of admission.k8s.io/v1 for a CardReview: {0}")]
    Body(String),
    #[error("nobody here knows the cluster at the moment: another operator leads, or begins to; ask again")]
    NotLeading,
    #[error("too many questions at once: ask again")]
    Busy,
    #[error("{QUESTIONS_ABOUT_ONE} questions about this namespace wait for their answers: ask again")]
    Often,
    #[error("as many of your questions wait for their answers as may: ask again")]
    OftenAsked,
    #[error("no answer within {} s: ask again", ANSWER_LIMIT.as_secs())]
    Late,
}

/// Listens on `address`, with TLS only. Await the result to serve.
pub fn start(
    address: SocketAddr,
    mounted: &Arc<Mounted>,
    path: &Arc<ReviewPath>,
    refusals: &Refusals,
    inquiries: Inquiries,
) -> Result<actix_web::dev::Server, StartError> {
    let port = Port {
        name: PORT,
        workers: 1,
        connections: CONNECTIONS,
        keep_alive: Some(KEEP_ALIVE),
        end: Duration::from_secs(5),
    };
    let room = Room::new(BODIES);
    let (path, counted) = (Arc::clone(path), refusals.clone());
    let routes = move || routes(inquiries.clone(), Arc::clone(&path), Arc::clone(&room), counted.clone());
    Ok(port.tls(address, &mounted.open_server_config()?, refusals, routes)?)
}

/// Returns the one route that is answered, and the answer to any other request.
pub fn routes(
    inquiries: Inquiries,
    path: Arc<ReviewPath>,
    room: Arc<Room>,
    refusals: Refusals,
) -> impl FnOnce(&mut ServiceConfig) {
    move |config| {
        config
            .app_data(Data::new(inquiries))
            .app_data(Data::new(room))
            .app_data(Data::new(refusals))
            .app_data(Data::from(path))
            .default_service(to(review));
    }
}

async fn review(
    request: HttpRequest,
    path: Data<ReviewPath>,
    inquiries: Data<Inquiries>,
    room: Data<Arc<Room>>,
    refusals: Data<Refusals>,
    payload: Payload,
) -> HttpResponse {
    if !path.is(request.path()) {
        refusals.count(PORT, Reason::Unknown);
        tracing::debug!(from = ?request.peer_addr(), "somebody unknown asks");
        return HttpResponse::NotFound()
            .force_close()
            .content_type(ContentType::plaintext())
            .body(UNKNOWN);
    }
    let answered = async {
        let body = body::read(&room, payload, BODY).await;
        if let Some(reason) = body.as_ref().err().and_then(BodyError::reason) {
            refusals.count(PORT, reason);
        }
        // The body is dropped before the question waits.
        let (question, asked) = wire::read(&body?)?;
        let _spared = connections::busy_with_known(&request);
        let asked = match asked {
            Ok(asked) => asked,
            Err(refusal) => return Ok(question.refused(Refusal::Unreadable, refusal)),
        };
        let known = inquiries.ask(question.user(), question.namespace(), asked).await;
        Ok::<_, Failure>(match known {
            Ok(Ok(status)) => question.answered(&status),
            Ok(Err(no_answer)) => question.refused(Refusal::of(&no_answer), no_answer.to_string()),
            // The reason goes to the user; a failing webhook would say less.
            Err(failure) => question.refused(Refusal::AskAgain, failure.to_string()),
        })
    };
    match answered.await {
        Ok(body) => HttpResponse::Ok().content_type(ContentType::json()).body(body),
        Err(Failure::Unread(error)) => error.response(),
        Err(failure) => HttpResponse::BadRequest()
            .content_type(ContentType::plaintext())
            .body(told(failure.to_string()) + "\n"),
    }
}
