//! Reviews of anything, at every path of the door, through the real handlers: an answer that is fit to be shown, and what is let
//! in is what the operator can read.

#![expect(clippy::unwrap_used, reason = "a panic is how a target fails")]

#[path = "../../webhook/tests/door/common/mod.rs"]
mod common;

use std::time::Duration;

use actix_web::App;
use actix_web::rt::System;
use actix_web::test::{TestRequest, call_service, init_service, read_body};
use common::{UID, Verdict, World, review};
use crds::card_counts::CardRequest;
use crds::job::Job;
use crds::keys::{CARD_REQUEST, GATE};
use crds::managed::is_managed;
use crds::pod::Pod;
use crds::volcano::{PodGroup, Queue, min_resources};
use engine::Observation;
use engine::cluster::Cluster;
use engine::cluster::queue::Terms;
use engine::names::Names;
use fuzz::corpus;
use fuzz::cost::within;
use fuzz::objects::Bodies;
use k8s_openapi::jiff::Timestamp;
use programs::ports::body::Room;
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use webhook::server::{BODIES, routes};

/// As many cases on every machine: by time alone, a faster one would find what a slower one passed.
const CASES: usize = 300;

/// What an answer may cost without optimisation.
const LIMIT: Duration = Duration::from_secs(1);
/// The longest text of a refusal or warning: the door cuts longer ones.
const LONGEST_TEXT: usize = 4096;
const PATHS: [&str; 3] = ["/mutate", "/validate", "/advise"];

/// Kinds with their corpora.
const KINDS: [((&str, &str, &str), &str); 4] = [
    (("", "v1", "Pod"), "pods"),
    (("scheduling.volcano.sh", "v1beta1", "Queue"), "queues"),
    (("scheduling.volcano.sh", "v1beta1", "PodGroup"), "groups"),
    (("batch", "v1", "Job"), "jobs"),
];

thread_local! {
    static WORLD: World = World::new();
}

/// Status and body of the answer to a POST, by the handlers that serve the port.
fn post(path: &str, body: &str) -> (u16, Vec<u8>) {
    thread_local! {
        static SYSTEM: actix_web::rt::SystemRunner = System::new();
    }
    let (door, diagnosed) = WORLD.with(|world| (world.door.clone(), world.diagnosed()));
    SYSTEM.with(|system| {
        system.block_on(async {
            let app = init_service(App::new().configure(routes(door, diagnosed, Room::new(BODIES)))).await;
            let request = TestRequest::post()
                .uri(path)
                .insert_header(("content-type", "application/json"));
            let response = call_service(&app, request.set_payload(body.to_owned()).to_request()).await;
            (response.status().as_u16(), read_body(response).await.to_vec())
        })
    })
}

fn check_text(text: &str) {
    assert!(
        !text.is_empty() && text.len() <= LONGEST_TEXT,
        "{} bytes: {text}",
        text.len()
    );
    assert!(
        !text.contains(|char: char| char.is_control() && char != '\n'),
        "{text:?}"
    );
}

/// Sends a body to every path; what is let in is judged again, by the door itself and by the operator's eyes.
fn send(body: &str) {
    let review: Option<Value> = serde_json::from_str(body).ok();
    for path in PATHS {
        let (status, answer) = within(LIMIT, format_args!("{path}, a body of {} bytes", body.len()), || {
            post(path, body)
        });
        if status != 200 {
            assert!(status == 400 || status == 413, "{path}: {status}");
            check_text(&String::from_utf8(answer).unwrap());
            continue;
        }
        // Halves of surrogate pairs are JSON, but no text that a Value holds. No API server writes them.
        let Some(review) = &review else {
            let is_json = serde_json::from_str::<IgnoredAny>(body).is_ok();
            assert!(is_json, "what is no JSON is answered as a review: {body}");
            continue;
        };
        if review["request"]["uid"] != UID {
            continue;
        }
        let object = &review["request"]["object"];
        // What the API server sends always has both; without them nothing can be written.
        if !object["metadata"].is_object() || !object["spec"].is_object() {
            continue;
        }
        let verdict = Verdict::read(&answer, object);
        assert!(
            verdict.allowed || path != "/advise",
            "advice refuses: {}",
            verdict.message
        );
        verdict
            .warnings
            .iter()
            .chain((!verdict.allowed).then_some(&verdict.message))
            .for_each(|text| check_text(text));
        if verdict.allowed && path != "/advise" && review["request"]["operation"] == "CREATE" {
            check_accepted(path, review, &verdict.object);
        }
    }
}

/// What was let in, as it is then.
fn check_accepted(path: &str, review: &Value, object: &Value) {
    let request = &review["request"];
    let group = request["kind"]["group"].as_str().unwrap_or_default();
    let kind = request["kind"]["kind"].as_str().unwrap_or_default();
    if object.is_null() || !request["subResource"].as_str().unwrap_or_default().is_empty() {
        return;
    }
    if path == "/mutate" {
        // Webhooks are asked again when another one has written: there is nothing left to write, nor to refuse.
        let mut again = review.clone();
        again["request"]["object"] = object.clone();
        for (path, operations) in [("/mutate", 0), ("/validate", 0)] {
            let (status, answer) = post(path, &again.to_string());
            assert_eq!(status, 200, "{path} again: {object}");
            let verdict = Verdict::read(&answer, object);
            let is_pod = kind == "Pod" && group.is_empty();
            assert!(
                verdict.allowed || !is_pod,
                "{path} refuses what the door wrote: {}: {object}",
                verdict.message
            );
            assert_eq!(verdict.operations, operations, "{path} writes again: {object}");
        }
    }
    // Of the rest the API server makes sure itself: the definitions' schemas, and its own types.
    let metadata = &object["metadata"];
    let text = json!({
        "metadata": {"name": "named", "annotations": metadata["annotations"], "labels": metadata["labels"]},
        "spec": object["spec"],
    });
    let text = text.to_string();
    match (path, group, kind) {
        (_, "", "Pod") => check_pod(request, &text),
        ("/validate", "scheduling.volcano.sh", "Queue") => {
            let queue = serde_json::from_str::<Queue>(&text);
            assert!(queue.is_ok(), "{:?}: {text}", queue.err());
            let terms = queue.map(|queue| Terms::read(&queue, &mut Names::default()));
            assert_eq!(terms.unwrap().problem(), None, "{text}");
        }
        ("/validate", "scheduling.volcano.sh", "PodGroup") => {
            let read = serde_json::from_str::<PodGroup>(&text);
            assert!(read.is_ok(), "{:?}: {text}", read.err());
            let group = read.unwrap();
            assert!(group.spec.least_of_tasks().is_ok(), "{text}");
            assert!(
                group
                    .spec
                    .min_resources
                    .as_ref()
                    .is_none_or(|least| min_resources(least).is_ok()),
                "{text}"
            );
            let asked = group
                .metadata
                .annotations
                .as_ref()
                .and_then(|annotations| annotations.get(CARD_REQUEST));
            assert!(asked.is_none_or(|asked| CardRequest::parse(asked).is_ok()), "{text}");
        }
        ("/validate", "batch", "Job") => {
            // No API server brings a Job of another shape.
            let Ok(job) = serde_json::from_str::<Job<Box<str>>>(&text) else {
                return;
            };
            let asked = job.metadata.annotations.get(CARD_REQUEST);
            assert!(asked.is_none_or(|asked| CardRequest::parse(asked).is_ok()), "{text}");
        }
        _ => {}
    }
}

/// A managed pod is held, and the operator can read what it asks for.
fn check_pod(request: &Value, text: &str) {
    let mut pod: Pod<Box<str>> = serde_json::from_str(text).unwrap();
    let namespace = request["namespace"].as_str().unwrap_or_default();
    if !is_managed(&pod, namespace) || request["userInfo"]["username"] != "jane" || request["operation"] != "CREATE" {
        return;
    }
    pod.metadata.uid = Some("seen".into());
    pod.metadata.namespace = Some(namespace.into());
    pod.metadata.name.get_or_insert_with(|| "named".into());
    let gated = pod.spec.has_gate(GATE);
    let mut cluster = Cluster::new(std::sync::Arc::default());
    cluster.apply(Observation::Pod(Box::new(pod)), Timestamp::UNIX_EPOCH);
    let Some(seen) = cluster.pod_with_uid("seen").and_then(|id| cluster.pod(id)) else {
        return;
    };
    assert!(
        seen.task.unreadable.is_none(),
        "the operator can't read it, {:?}: {text}",
        seen.task.unreadable
    );
    assert!(
        gated || request["object"]["spec"].is_null() || text.contains(GATE) || is_validated_only(request),
        "not held: {text}"
    );
}

/// Validation judges what mutation has held.
fn is_validated_only(request: &Value) -> bool {
    request["object"]["spec"]["schedulingGates"]
        .as_array()
        .is_none_or(|gates| !gates.iter().any(|gate| gate["name"] == GATE))
}

/// A review of each object of the corpora, created and changed.
fn reviews() -> Vec<Value> {
    let of_kind = |(kind, target): ((&'static str, &'static str, &'static str), &str)| {
        let objects = corpus::objects(&corpus::read(target));
        objects.into_iter().flat_map(move |object| {
            [
                review(kind, "CREATE", &object, &Value::Null),
                review(kind, "UPDATE", &object, &object),
            ]
        })
    };
    KINDS.into_iter().flat_map(of_kind).collect()
}

#[test]
fn bodies() {
    let mut templates = reviews();
    for review in &templates {
        send(&review.to_string());
    }
    for entry in corpus::read("reviews") {
        send(&entry.text);
        templates.extend(serde_json::from_str(&entry.text).ok());
    }
    bolero::check!()
        .with_iterations(CASES)
        .with_generator(Bodies::near(templates))
        .for_each(|body| send(body));
}

/// Pods alone, with more said on them: what is accepted is most of what matters.
#[test]
fn pods() {
    let pods = corpus::objects(&corpus::read("pods"));
    let mut templates = pods;
    for pod in &mut templates {
        // As they are created: nothing has been decided yet.
        pod["spec"]["nodeName"] = json!(null);
        pod["metadata"]["namespace"] = json!(common::NAMESPACE);
    }
    let objects = fuzz::objects::Objects::near(templates).with_changes(3);
    bolero::check!()
        .with_iterations(CASES)
        .with_generator(objects)
        .for_each(|pod| send(&review(("", "v1", "Pod"), "CREATE", pod, &Value::Null).to_string()));
}
