//! HTTP: the routes, and the checks of a request before its body is looked into.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use actix_web::http::StatusCode;
use actix_web::http::header::{CONTENT_TYPE, ContentType};
use actix_web::web::{self, Data, Payload, ServiceConfig};
use actix_web::{HttpRequest, HttpResponse, HttpResponseBuilder};
use programs::diagnostics::Diagnostics;
use programs::ports::body::{self, Body, BodyError, Limits, Room, Values};
use programs::ports::connections;
use programs::ports::refusals::Reason;
use thiserror::Error;
use tracing::debug;

use crate::door::{Door, Outcome};
use crate::endpoint::Endpoint;
use crate::health::Health;
use crate::metrics::Metrics;

/// Longest body. A review holds the old and the new object. The API server stores objects of up to 1.5 MiB, which are longer
/// as JSON.
pub const MAX_BODY: usize = 8 * 1024 * 1024;
/// Limits of a body. An API server waits 5 s for the whole answer.
const BODY: Limits = Limits {
    longest: MAX_BODY,
    time: Duration::from_secs(4),
    values: Some(Values {
        most: MAX_VALUES,
        // A toleration takes this much, and twice that while its list grows; each counts twice.
        room: 96,
    }),
};
/// Values in a body. A Volcano Job with as many tasks as are allowed has some ten thousand, and an update of it twice as
/// many.
pub const MAX_VALUES: usize = 128 * 1024;
/// What all bodies may take at once while they arrive or are answered, with what is read of them. Together with all
/// connections that is half of the memory that the Deployment allows.
pub const BODIES: usize = 96 * 1024 * 1024;
/// The name of the reviews' port in metrics.
pub const PORT: &str = "https";
/// The only content type of reviews.
const JSON: &str = "application/json";

/// The routes that the API server calls. All threads share one allowance for bodies.
pub fn routes(door: Arc<Door>, diagnosed: Diagnosed, bodies: Arc<Room>) -> impl FnOnce(&mut ServiceConfig) {
    move |config| {
        config
            .app_data(Data::from(door))
            .app_data(Data::new(diagnosed))
            .app_data(Data::from(bodies))
            .route(Endpoint::Mutate.path(), web::post().to(mutate))
            .route(Endpoint::Validate.path(), web::post().to(validate))
            .route(Endpoint::Advise.path(), web::post().to(advise));
    }
}

/// What the webhook says of itself.
#[derive(Debug, Clone)]
pub struct Diagnosed {
    /// Whether the webhook lives, and is ready.
    pub health: Arc<Health>,
    /// What the webhook measures.
    pub metrics: Arc<Metrics>,
}

impl Diagnostics for Diagnosed {
    fn trouble(&self) -> Option<String> {
        self.health.trouble()
    }

    fn readiness(&self) -> (bool, String) {
        self.health.readiness()
    }

    fn metrics(&self) -> Result<String, fmt::Error> {
        self.metrics.ready().show(self.readiness().0);
        self.metrics.encode()
    }
}

/// What every review needs.
type Shared = (Data<Door>, Data<Diagnosed>, Data<Room>);

async fn mutate(request: HttpRequest, payload: Payload, shared: Shared) -> HttpResponse {
    review(Endpoint::Mutate, &request, payload, &shared).await
}

async fn validate(request: HttpRequest, payload: Payload, shared: Shared) -> HttpResponse {
    review(Endpoint::Validate, &request, payload, &shared).await
}

async fn advise(request: HttpRequest, payload: Payload, shared: Shared) -> HttpResponse {
    review(Endpoint::Advise, &request, payload, &shared).await
}

/// Why a request is answered without its body being looked into.
#[derive(Debug, Error)]
enum Refusal {
    /// The content type is not JSON.
    #[error("the content type is {0:?}: send {JSON}")]
    ContentType(String),
    /// The body did not arrive.
    #[error(transparent)]
    Body(#[from] BodyError),
}

impl Refusal {
    fn reason(&self) -> Option<Reason> {
        match self {
            Self::ContentType(_) => None,
            Self::Body(error) => error.reason(),
        }
    }

    fn response(&self) -> HttpResponse {
        let status = match self {
            Self::ContentType(_) => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::Body(error) => return error.response(),
        };
        // An API server never gets this answer, so the connection of this client need not stay open.
        HttpResponse::build(status)
            .force_close()
            .content_type(ContentType::plaintext())
            .body(self.to_string())
    }
}

async fn review(
    endpoint: Endpoint,
    request: &HttpRequest,
    payload: Payload,
    (door, diagnosed, bodies): &Shared,
) -> HttpResponse {
    let (health, metrics) = (&diagnosed.health, &diagnosed.metrics);
    let start = Instant::now();
    let body = match read(request, payload, bodies).await {
        Ok(body) => body,
        Err(refusal) => {
            if let Some(reason) = refusal.reason() {
                metrics.refusals().count(PORT, reason);
            }
            metrics.answered(endpoint, Outcome::Error, start.elapsed());
            debug!(path = endpoint.path(), %refusal, "a body is not looked into");
            return refusal.response();
        }
    };
    let _spared = connections::busy(request);
    let under_way = health.begin();
    let reply = door.answer(endpoint, &body).await;
    drop(under_way);
    metrics.answered(endpoint, reply.outcome, start.elapsed());
    let status = StatusCode::from_u16(reply.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = HttpResponseBuilder::new(status);
    if status == StatusCode::OK {
        response.content_type(JSON);
    } else {
        response.content_type(ContentType::plaintext());
    }
    if health.is_draining() {
        // Connections outlive the endpoint that led to this replica. So the API servers are sent to another replica one by
        // one.
        response.force_close();
    }
    response.body(reply.body)
}

/// Reads the body, unless the headers already say that it is useless.
async fn read(request: &HttpRequest, payload: Payload, bodies: &Arc<Room>) -> Result<Body, Refusal> {
    let content_type = request.headers().get(CONTENT_TYPE);
    let content_type = content_type.and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = content_type.split(';').next().unwrap_or_default().trim();
    if !essence.eq_ignore_ascii_case(JSON) {
        return Err(Refusal::ContentType(content_type.to_owned()));
    }
    Ok(body::read(bodies, payload, BODY).await?)
}
