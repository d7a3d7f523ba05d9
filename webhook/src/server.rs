//! HTTP: the routes, and what is wrong with a request before it is looked into.

use std::sync::Arc;
use std::time::Instant;

use actix_web::http::StatusCode;
use actix_web::http::header::{CONTENT_TYPE, ContentType};
use actix_web::web::{self, Bytes, BytesMut, Data, Payload, ServiceConfig};
use actix_web::{HttpRequest, HttpResponse, HttpResponseBuilder};
use futures::StreamExt as _;

use crate::door::{Door, Endpoint, Reply};
use crate::health::Health;
use crate::metrics::{Metrics, Outcome};

/// Longest body. A review holds the old and the new object, and the API server stores objects of up to 1.5 MiB, which take
/// more room as JSON.
pub const MAX_BODY: usize = 8 * 1024 * 1024;
/// The only content type of reviews.
const JSON: &str = "application/json";

/// The routes that the API server calls.
pub fn routes(door: Arc<Door>, health: Arc<Health>) -> impl FnOnce(&mut ServiceConfig) {
    move |config| {
        config
            .app_data(Data::from(door))
            .app_data(Data::from(health))
            .route(Endpoint::Mutate.path(), web::post().to(mutate))
            .route(Endpoint::Validate.path(), web::post().to(validate));
    }
}

/// The routes for probes and for Prometheus.
pub fn diagnostics(health: Arc<Health>, metrics: Arc<Metrics>) -> impl FnOnce(&mut ServiceConfig) {
    move |config| {
        config
            .app_data(Data::from(health))
            .app_data(Data::from(metrics))
            .route("/healthz", web::get().to(|| async { "ok\n" }))
            .route("/readyz", web::get().to(readyz))
            .route("/metrics", web::get().to(metrics_text));
    }
}

async fn mutate(request: HttpRequest, payload: Payload, door: Data<Door>, health: Data<Health>) -> HttpResponse {
    review(Endpoint::Mutate, &request, payload, &door, &health).await
}

async fn validate(request: HttpRequest, payload: Payload, door: Data<Door>, health: Data<Health>) -> HttpResponse {
    review(Endpoint::Validate, &request, payload, &door, &health).await
}

async fn review(
    endpoint: Endpoint,
    request: &HttpRequest,
    payload: Payload,
    door: &Door,
    health: &Health,
) -> HttpResponse {
    let start = Instant::now();
    let reply = match read(request, payload).await {
        Ok(body) => door.answer(endpoint, &body).await,
        Err((status, text)) => Reply {
            status: status.as_u16(),
            body: text.into_bytes(),
            outcome: Outcome::Error,
        },
    };
    door.metrics().answered(endpoint, reply.outcome, start.elapsed());
    let status = StatusCode::from_u16(reply.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = HttpResponseBuilder::new(status);
    if status == StatusCode::OK {
        response.content_type(JSON);
    } else {
        response.content_type(ContentType::plaintext());
    }
    if health.is_draining() {
        // Connections outlive the endpoint that led to this replica; so the API servers are sent to another one by one.
        response.force_close();
    }
    response.body(reply.body)
}

/// Reads the body, unless the headers already say that it is of no use.
async fn read(request: &HttpRequest, mut payload: Payload) -> Result<Bytes, (StatusCode, String)> {
    let content_type = request.headers().get(CONTENT_TYPE);
    let content_type = content_type.and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = content_type.split(';').next().unwrap_or_default().trim();
    if !essence.eq_ignore_ascii_case(JSON) {
        let text = format!("the content type is {content_type:?}: send {JSON}");
        return Err((StatusCode::UNSUPPORTED_MEDIA_TYPE, text));
    }
    let too_large = || {
        let text = format!("the body is longer than {MAX_BODY} bytes: send a smaller object");
        (StatusCode::PAYLOAD_TOO_LARGE, text)
    };
    let broken = |error| (StatusCode::BAD_REQUEST, format!("the body can't be read: {error}"));
    // Most bodies come in one piece, which is then not copied.
    let Some(first) = payload.next().await else {
        return Ok(Bytes::new());
    };
    let mut body = first.map_err(broken)?;
    if let Some(second) = payload.next().await {
        let mut pieces = BytesMut::from(body);
        pieces.extend_from_slice(&second.map_err(broken)?);
        while let Some(piece) = payload.next().await {
            if pieces.len() > MAX_BODY {
                return Err(too_large());
            }
            pieces.extend_from_slice(&piece.map_err(broken)?);
        }
        body = pieces.freeze();
    }
    if body.len() > MAX_BODY {
        return Err(too_large());
    }
    Ok(body)
}

async fn readyz(health: Data<Health>) -> HttpResponse {
    let (ready, text) = health.readiness();
    let status = if ready {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    HttpResponse::build(status)
        .content_type(ContentType::plaintext())
        .body(text)
}

async fn metrics_text(metrics: Data<Metrics>) -> HttpResponse {
    match metrics.encode() {
        Ok(text) => HttpResponse::Ok()
            .content_type("application/openmetrics-text; version=1.0.0; charset=utf-8")
            .body(text),
        Err(error) => HttpResponse::InternalServerError().body(error.to_string()),
    }
}
