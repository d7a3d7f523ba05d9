//! The routes, without a socket.

#![allow(clippy::unwrap_used, reason = "part of tests")]

use std::sync::Arc;

use crate::common::{self, Verdict, World, pod, pod_review};
use actix_web::App;
use actix_web::http::StatusCode;
use actix_web::test::{TestRequest, call_service, init_service, read_body};
use crds::keys::QUEUE_NAME;
use programs::diagnostics;
use programs::ports::body::Room;
use serde_json::Value;
use webhook::health::Health;
use webhook::knowledge::Knowledge;
use webhook::server::{BODIES, Diagnosed, MAX_BODY, MAX_VALUES, routes};
use webhook::tls::ServingCertificate;

fn managed() -> Vec<u8> {
    serde_json::to_vec(&pod_review(&pod(&[(QUEUE_NAME, "team-a")], &[]))).unwrap()
}

/// Status, content type and body of the answer to a POST.
async fn post(world: &World, path: &str, content_type: Option<&str>, body: Vec<u8>) -> (StatusCode, String, Vec<u8>) {
    let app =
        init_service(App::new().configure(routes(world.door.clone(), world.diagnosed(), Room::new(BODIES)))).await;
    let mut request = TestRequest::post().uri(path).set_payload(body);
    if let Some(content_type) = content_type {
        request = request.insert_header(("content-type", content_type));
    }
    let response = call_service(&app, request.to_request()).await;
    let content_type = response
        .headers()
        .get("content-type")
        .map(|value| value.to_str().unwrap().to_owned());
    (
        response.status(),
        content_type.unwrap_or_default(),
        read_body(response).await.to_vec(),
    )
}

async fn get(world: &World, health: &Arc<Health>, path: &str) -> (StatusCode, String) {
    let diagnosed = Diagnosed {
        health: health.clone(),
        metrics: world.metrics.clone(),
    };
    let app = init_service(App::new().configure(diagnostics::routes(Arc::new(diagnosed)))).await;
    let response = call_service(&app, TestRequest::get().uri(path).to_request()).await;
    let status = response.status();
    (status, String::from_utf8(read_body(response).await.to_vec()).unwrap())
}

#[actix_web::test]
async fn reviews_are_answered_on_both_paths() {
    let world = World::new();
    for (path, operations) in [("/mutate", 2), ("/validate", 0)] {
        for content_type in [
            "application/json",
            "application/json; charset=utf-8",
            "Application/JSON",
        ] {
            let (status, answered, body) = post(&world, path, Some(content_type), managed()).await;
            assert_eq!((status, answered.as_str()), (StatusCode::OK, "application/json"));
            let review: Value = serde_json::from_slice(&managed()).unwrap();
            assert_eq!(
                Verdict::read(&body, &review["request"]["object"]).operations,
                operations,
                "{path}"
            );
        }
    }
}

#[actix_web::test]
async fn what_is_no_review_is_told_so() {
    let world = World::new();
    for (path, content_type, body, expected) in [
        (
            "/mutate",
            Some("text/plain"),
            managed(),
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
        ),
        ("/mutate", None, managed(), StatusCode::UNSUPPORTED_MEDIA_TYPE),
        ("/mutate", Some("application/json"), Vec::new(), StatusCode::BAD_REQUEST),
        (
            "/validate",
            Some("application/json"),
            b"{}".to_vec(),
            StatusCode::BAD_REQUEST,
        ),
        (
            "/mutate",
            Some("application/json"),
            vec![b' '; MAX_BODY + 1],
            StatusCode::PAYLOAD_TOO_LARGE,
        ),
        (
            "/mutate",
            Some("application/json"),
            vec![b','; MAX_VALUES + 1],
            StatusCode::PAYLOAD_TOO_LARGE,
        ),
        ("/", Some("application/json"), managed(), StatusCode::NOT_FOUND),
    ] {
        let (status, answered, text) = post(&world, path, content_type, body).await;
        assert_eq!(status, expected, "{path} {content_type:?}");
        if expected != StatusCode::NOT_FOUND {
            assert_eq!(answered, "text/plain; charset=utf-8");
            assert!(!text.is_empty(), "the answer says what is wrong");
        }
    }
    let (status, ..) = post(&world, "/mutate", Some("application/json"), {
        let mut body = managed();
        body.resize(MAX_BODY, b' ');
        body
    })
    .await;
    assert_eq!(status, StatusCode::OK, "as long as a body may be");
}

#[actix_web::test]
async fn only_posts_are_reviews() {
    let world = World::new();
    let app =
        init_service(App::new().configure(routes(world.door.clone(), world.diagnosed(), Room::new(BODIES)))).await;
    let response = call_service(&app, TestRequest::get().uri("/mutate").to_request()).await;
    assert!(response.status().is_client_error());
}

#[actix_web::test]
async fn readiness_waits_for_everything_and_says_for_what() {
    let knowledge = Arc::new(Knowledge::default());
    let certificate = Arc::new(ServingCertificate::default());
    let health = Arc::new(Health::new(knowledge.clone(), certificate.clone()));
    let world = World::new();
    let (status, text) = get(&world, &health, "/readyz").await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(
        text,
        "not ready, waiting for: queues, podgroups, namespaces, cardtypes, a configuration that can be read, serving certificate (tls.crt and tls.key in --tls-dir)\n"
    );
    assert_eq!(get(&world, &health, "/healthz").await.0, StatusCode::OK, "it lives");

    knowledge.queues.replace([].into());
    knowledge.groups.replace([].into());
    knowledge.namespaces.replace([].into());
    knowledge.card_types.replace([].into());
    knowledge.configure(Some(Arc::default()), None);
    let (status, text) = get(&world, &health, "/readyz").await;
    assert_eq!(
        (status, text.as_str()),
        (
            StatusCode::SERVICE_UNAVAILABLE,
            "not ready, waiting for: serving certificate (tls.crt and tls.key in --tls-dir)\n"
        )
    );

    let shown = async || get(&world, &health, "/metrics").await.1;
    assert!(
        shown().await.contains("cardgate_ready 0\n"),
        "it runs, and serves nobody"
    );
    certificate.replace(&common::certificate("webhook").0).unwrap();
    assert_eq!(
        get(&world, &health, "/readyz").await,
        (StatusCode::OK, "ok\n".to_owned())
    );
    assert!(shown().await.contains("cardgate_ready 1\n"));

    knowledge.configure(None, Some("cardgate.yaml: no".to_owned()));
    let (status, text) = get(&world, &health, "/readyz").await;
    assert_eq!(status, StatusCode::OK, "the last good configuration rules");
    assert!(text.contains("cardgate.yaml: no"), "{text}");

    health.drain();
    let (status, text) = get(&world, &health, "/readyz").await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(text.starts_with("not ready: shutting down\n"), "{text}");
}

#[actix_web::test]
async fn requests_and_refusals_are_counted() {
    let world = World::new();
    let refused = serde_json::to_vec(&pod_review(&pod(&[(QUEUE_NAME, "team-b")], &[]))).unwrap();
    for body in [managed(), managed(), refused, b"{}".to_vec()] {
        post(&world, "/mutate", Some("application/json"), body).await;
    }
    let (status, text) = get(&world, &world.health(), "/metrics").await;
    assert_eq!(status, StatusCode::OK);
    for line in [
        r#"cardgate_webhook_request_duration_seconds_count{path="/mutate",outcome="patched"} 2"#,
        r#"cardgate_webhook_request_duration_seconds_count{path="/mutate",outcome="denied"} 1"#,
        r#"cardgate_webhook_request_duration_seconds_count{path="/mutate",outcome="error"} 1"#,
        r#"cardgate_webhook_denials_total{reason="QueueAccessDenied"} 1"#,
        r#"cardgate_webhook_lookups_total{kind="queue",answered="true"} 1"#,
        r#"cardgate_webhook_lookups_total{kind="namespace",answered="true"} 1"#,
    ] {
        assert!(text.contains(line), "{line} in\n{text}");
    }
}
