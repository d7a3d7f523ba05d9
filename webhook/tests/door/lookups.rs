//! What the API server's answers mean, over real HTTP.

#![allow(clippy::unwrap_used, reason = "part of tests")]

use std::sync::Arc;
use std::time::Duration;

use actix_web::dev::ServerHandle;
use actix_web::{App, HttpRequest, HttpResponse, HttpServer, rt, web};
use kube::{Client, Config};
use programs::clock::now;
use serde_json::json;
use webhook::api_lookups::ApiLookups;
use webhook::knowledge::{GroupFacts, NamespaceFacts, QueueCondition};
use webhook::lookup::{LookupError, Lookups as _, TIME_LIMIT};
use webhook::view::{Found, Lookup, PodsOf};

/// For how long the API server below says nothing about some claims.
const SILENCE: Duration = Duration::from_mins(1);

/// An API server with one object of each kind; what is called `gone` does not exist, nor does the kind of what is called
/// `uninstalled`.
async fn api(request: HttpRequest) -> HttpResponse {
    let status = |code: u16, reason: &str| json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "no", "reason": reason, "code": code});
    let made = |at: &str| {
        json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata",
            "metadata": {"name": "it", "creationTimestamp": at}})
    };
    match request.path() {
        "/apis/scheduling.volcano.sh/v1beta1/queues/team-a" => HttpResponse::Ok().json(json!({
            "metadata": {"name": "team-a", "annotations": {"card.volcano.sh/namespaces": "team=a"}},
            "status": {"state": "Closed"}
        })),
        "/apis/scheduling.volcano.sh/v1beta1/queues/odd" => {
            HttpResponse::Ok().json(json!({"metadata": {"name": "odd"}, "spec": {"capability": "much"}}))
        }
        "/apis/scheduling.volcano.sh/v1beta1/namespaces/research/podgroups/training" => HttpResponse::Ok()
            .json(json!({"metadata": {"name": "training", "namespace": "research"}, "spec": {"queue": "team-a"}})),
        "/api/v1/namespaces/research" => {
            let accepted = request.headers().get("accept").unwrap().to_str().unwrap();
            assert!(
                accepted.contains("PartialObjectMetadata"),
                "no more than needed: {accepted}"
            );
            HttpResponse::Ok().json(json!({
                "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata",
                "metadata": {"name": "research", "labels": {"team": "a"}}
            }))
        }
        "/apis/card.volcano.sh/v1alpha1/cardusages/team-a" => HttpResponse::Ok().json(json!({
            "metadata": {"name": "team-a"}, "spec": {"queue": "team-a"}, "status": {"admittedPods": 2, "waitingPods": 3}
        })),
        "/apis/card.volcano.sh/v1alpha1/cardusages/new" | "/apis/card.volcano.sh/v1alpha1/cardusages/old" => {
            HttpResponse::NotFound().json(status(404, "NotFound"))
        }
        "/apis/card.volcano.sh/v1alpha1/cardusages/old-without-status" => {
            HttpResponse::Ok().json(json!({"metadata": {"name": "old"}, "spec": {"queue": "old"}}))
        }
        "/apis/scheduling.volcano.sh/v1beta1/queues/new" => HttpResponse::Ok().json(made(&now().to_string())),
        path if path.starts_with("/apis/scheduling.volcano.sh/v1beta1/queues/old") => {
            HttpResponse::Ok().json(made("2026-01-02T03:04:05Z"))
        }
        "/apis/resource.k8s.io/v1/namespaces/research/resourceclaims/long" => {
            let expressions = ["a".repeat(10_000), "b".repeat(10_000)];
            let selectors = expressions.map(|expression| json!({"cel": {"expression": expression}}));
            let toleration = json!({"key": "k".repeat(200), "operator": "Exists"});
            let form = json!({"deviceClassName": "c", "selectors": selectors, "tolerations": vec![toleration; 16]});
            let requests = vec![json!({"name": "r", "exactly": form}); 32];
            let constraint = json!({"requests": vec!["r"; 32], "matchAttribute": "x".repeat(300)});
            HttpResponse::Ok().json(json!({"metadata": {"name": "long", "namespace": "research"},
                "spec": {"devices": {"requests": requests, "constraints": vec![constraint; 32]}}}))
        }
        path if path.ends_with("/slow") => {
            rt::time::sleep(SILENCE).await;
            HttpResponse::NotFound().finish()
        }
        path if path.ends_with("/gone") => HttpResponse::NotFound().json(status(404, "NotFound")),
        path if path.ends_with("/forbidden") => HttpResponse::Forbidden().json(status(403, "Forbidden")),
        _ => HttpResponse::NotFound().body("404 page not found\n"),
    }
}

fn queue(name: &str) -> Lookup {
    Lookup::Queue(name.to_owned())
}

fn group(name: &str) -> Lookup {
    Lookup::Group {
        namespace: "research".to_owned(),
        name: name.to_owned(),
    }
}

fn namespace(name: &str) -> Lookup {
    Lookup::Namespace(name.to_owned())
}

fn claim(name: &str) -> Lookup {
    Lookup::Claim {
        namespace: "research".to_owned(),
        name: name.to_owned(),
    }
}

/// Lookups that ask that API server.
fn serve() -> (ServerHandle, ApiLookups) {
    let server = HttpServer::new(|| App::new().default_service(web::to(api)))
        .workers(1)
        .disable_signals()
        .bind("127.0.0.1:0")
        .unwrap();
    let url = format!("http://{}", server.addrs()[0]).parse().unwrap();
    let server = server.run();
    let handle = server.handle();
    rt::spawn(server);
    (handle, ApiLookups::new(Client::try_from(Config::new(url)).unwrap()))
}

#[actix_web::test]
async fn answers_are_read_and_absence_is_an_answer() {
    let (handle, lookups) = serve();

    for name in ["gone", "uninstalled"] {
        for lookup in [queue(name), group(name), namespace(name)] {
            let found = lookups.find(&lookup).await.unwrap();
            let absent = matches!(found, Found::Queue(None) | Found::Group(None) | Found::Namespace(None));
            assert!(absent, "{lookup}: {found:?}");
        }
    }
    let refused = lookups.find(&queue("forbidden")).await;
    assert!(matches!(refused, Err(LookupError::Api(_))), "{refused:?}");

    let Found::Queue(Some(facts)) = lookups.find(&queue("team-a")).await.unwrap() else {
        panic!("the queue exists");
    };
    assert_eq!(
        (&facts.condition, &*facts.selector),
        (&QueueCondition::NotOpen("Closed".into()), "team=a")
    );
    let Found::Queue(Some(facts)) = lookups.find(&queue("odd")).await.unwrap() else {
        panic!("the queue exists");
    };
    assert!(matches!(facts.condition, QueueCondition::Unreadable(_)), "{facts:?}");
    let Found::Group(Some(facts)) = lookups.find(&group("training")).await.unwrap() else {
        panic!("the group exists");
    };
    let queue = Some("team-a".into());
    assert_eq!(facts, Arc::new(GroupFacts { queue }));
    let Found::Namespace(Some(facts)) = lookups.find(&namespace("research")).await.unwrap() else {
        panic!("the namespace exists");
    };
    let labels = [("team".to_owned(), "a".to_owned())].into();
    assert_eq!(facts, Arc::new(NamespaceFacts { labels, queue: None }));
    for (queue, shown) in [
        ("team-a", PodsOf::Shown(2)),
        ("old", PodsOf::NotShown),
        ("old-without-status", PodsOf::NotShown),
        ("new", PodsOf::Shown(0)),
        ("gone", PodsOf::Shown(0)),
        ("uninstalled", PodsOf::Shown(0)),
    ] {
        let found = lookups.find(&Lookup::PodsOf(queue.to_owned())).await.unwrap();
        assert!(
            matches!(found, Found::PodsOf(found) if found == shown),
            "{queue}: {found:?}"
        );
    }
    // A tenant's claim can be as long as objects can be, and many reviews keep theirs at once.
    let long = claim("long");
    let Found::Claim(Some(spec)) = lookups.find(&long).await.unwrap() else {
        panic!("the claim exists");
    };
    let length = format!("{spec:?}").len();
    assert!((32_768..50_000).contains(&length), "{length}");
    handle.stop(false).await;
}

/// Whatever waits to ask keeps its review's body in memory, of which all have only so much.
#[actix_web::test]
async fn where_many_ask_about_claims_nobody_waits_for_long_to_ask_about_another() {
    let (handle, lookups) = serve();
    let lookups = Arc::new(lookups);
    let crowd: Vec<_> = (0..64)
        .map(|_| {
            let lookups = Arc::clone(&lookups);
            rt::spawn(async move { lookups.find(&claim("slow")).await.is_err() })
        })
        .collect();
    rt::task::yield_now().await;
    let waits = rt::time::timeout(TIME_LIMIT / 4, lookups.find(&claim("gone"))).await;
    assert!(matches!(waits, Ok(Err(_))), "{waits:?}");
    // Others are asked about as before.
    let other = rt::time::timeout(TIME_LIMIT / 4, lookups.find(&queue("team-a"))).await;
    assert!(matches!(other, Ok(Ok(Found::Queue(Some(_))))), "{other:?}");
    for asks in crowd {
        assert!(asks.await.unwrap());
    }
    // And so is the claim when they have gone.
    let later = lookups.find(&claim("gone")).await;
    assert!(matches!(later, Ok(Found::Claim(None))), "{later:?}");
    handle.stop(false).await;
}
