//! What people ask by `CardReview`s, as API servers bring it, through the real handlers, beside a mind that answers: an answer that is fit to
//! be shown, or a sentence why there is none.

#![expect(clippy::unwrap_used, reason = "a panic is how a target fails")]

mod clusters;

use std::sync::Arc;
use std::time::Duration;

use actix_web::App;
use actix_web::rt::{System, spawn};
use actix_web::test::{TestRequest, call_service, init_service, read_body};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use crds::bounds::printable;
use crds::card_review::CardReviewStatus;
use engine::explain::review;
use fuzz::corpus;
use fuzz::cost::within;
use fuzz::objects::Bodies;
use k8s_openapi::jiff::Timestamp;
use operator::review::{NoAnswer, ReviewPath, channel, routes};
use programs::ports::body::Room;
use programs::ports::refusals::Refusals;
use serde::Deserialize;
use serde_json::{Value, json};

/// As many cases on every machine: by time alone, a faster one would find what a slower one passed.
const CASES: usize = 300;
/// What an answer may cost without optimisation.
const LIMIT: Duration = Duration::from_secs(5);
/// The longest sentence that anybody is told: one that is cut, and its dots.
const LONGEST_TEXT: usize = 4096 + 3;
const PATH: &str = "/review/secret";

thread_local! {
    static SYSTEM: actix_web::rt::SystemRunner = System::new();
}

/// Sends a body, to a cluster of its own, and checks the answer, of which this is the `response`, where the body is a review.
fn send(body: &str) -> Value {
    SYSTEM.with(|system| {
        system.block_on(async {
            let (inquiries, asked) = channel();
            let mind = spawn(async move {
                let mut cluster = clusters::of_corpora("");
                loop {
                    let inquiry = asked.take().await;
                    let known = review(&mut cluster, &inquiry.namespace, inquiry.asked, Timestamp::UNIX_EPOCH);
                    drop(inquiry.answer.send(known.map_err(NoAnswer::from)));
                }
            });
            let path = Arc::new(ReviewPath::known(PATH.to_owned()));
            let app =
                init_service(App::new().configure(routes(inquiries, path, Room::new(64 << 20), Refusals::default())))
                    .await;
            let request = TestRequest::post().uri(PATH).set_payload(body.to_owned()).to_request();
            let response = call_service(&app, request).await;
            let status = response.status().as_u16();
            let response = check(body, status, &read_body(response).await);
            // A mind that fell would not be there any more.
            assert!(!mind.is_finished(), "{body}");
            mind.abort();
            response
        })
    })
}

/// What of a body is judged; the rest of it may be anything that is skipped.
#[derive(Deserialize)]
struct Asked {
    request: Request,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Request {
    uid: String,
    #[serde(default)]
    dry_run: bool,
}

fn is_told(text: &str) -> bool {
    !text.is_empty() && text.len() <= LONGEST_TEXT && printable(text) == text
}

fn check(body: &str, status: u16, answer: &[u8]) -> Value {
    if status != 200 {
        let text = String::from_utf8_lossy(answer);
        assert!([400, 413].contains(&status), "{status} {text}");
        assert!(is_told(text.trim_end_matches('\n')), "{text:?}");
        return Value::Null;
    }
    let mut answer: Value = serde_json::from_slice(answer).unwrap();
    let response = answer["response"].take();
    let Asked { request } = serde_json::from_str(body).unwrap();
    assert_eq!(response["uid"], request.uid);
    if response["allowed"] == false {
        let code = response["status"]["code"].as_u64().unwrap();
        assert!([404, 409, 422].contains(&code), "{code}: {response}");
        assert!(is_told(response["status"]["message"].as_str().unwrap()), "{response}");
        return response;
    }
    assert!(request.dry_run, "nothing else is answered");
    let patch = STANDARD.decode(response["patch"].as_str().unwrap()).unwrap();
    let patch: Value = serde_json::from_slice(&patch).unwrap();
    let known: CardReviewStatus = serde_json::from_value(patch[0]["value"].clone()).unwrap();
    assert!(is_told(&known.message), "{:?}", known.message);
    assert!(
        known.admitted || !known.blocks.is_empty() || known.position.is_some() || known.queue.is_none(),
        "{known:?}"
    );
    for block in &known.blocks {
        assert!(is_told(&block.message), "{block:?}");
    }
    response
}

/// Questions about what is there and what need not be.
fn questions() -> Vec<Value> {
    let of = |target| corpus::objects(&corpus::read(target));
    let pods = of("pods");
    let task = json!({"name": "t", "replicas": 3, "template": pods[0]});
    let of_volcano = json!({"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "train"},
        "spec": {"minAvailable": 2, "queue": "cards", "tasks": [task]}});
    let made = pods.iter().map(|pod| {
        let template = json!({"metadata": pod["metadata"], "spec": pod["spec"]});
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {"replicas": 2, "template": template}})
    });
    let manifests = pods.iter().cloned().chain(made).chain(of("jobs")).chain([of_volcano]);
    let manifests = manifests.map(|manifest| json!({"manifest": manifest}));
    let named = pods.iter().map(|pod| json!({"pod": pod["metadata"]["name"]}));
    let others = [
        json!({"queue": "cards"}),
        json!({"job": "held"}),
        json!({"podGroup": "training"}),
        json!({"workload": {"kind": "StatefulSet", "name": "web"}}),
        json!({}),
    ];
    let specs = manifests.chain(named).chain(others);
    let asked = specs.map(|spec| {
        json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
            "uid": "705ab4f5-6393-11e8-b7cc-42010a800002", "namespace": "default", "dryRun": true, "userInfo": {"username": "jane"},
            "object": {"apiVersion": "card.volcano.sh/v1alpha1", "kind": "CardReview", "metadata": {}, "spec": spec},
        }})
    });
    asked.collect()
}

#[test]
fn reviewed() {
    let questions = questions();
    for question in &questions {
        send(&question.to_string());
    }
    for entry in corpus::read("reviews") {
        send(&entry.text);
    }
    bolero::check!()
        .with_iterations(CASES)
        .with_generator(Bodies::near(questions))
        .for_each(|body| {
            within(LIMIT, format_args!("a body of {} bytes", body.len()), || send(body));
        });
}

/// Each takes up to a kilobyte when it is read, wherever in the manifest it stands.
#[test]
fn what_holds_too_many_values_is_not_read() {
    let answer = |values: usize| {
        let mut question = questions().swap_remove(0);
        question["request"]["object"]["spec"]["manifest"]["unknown"] = json!(vec![json!({"a": 0}); values]);
        send(&question.to_string())
    };
    assert_eq!(answer(10_000)["allowed"], true);
    let refused = answer(20_000)["status"]["message"].take();
    assert!(refused.as_str().unwrap().contains("smaller manifest"), "{refused}");
}
