//! What schedulers ask, at every path of the extender, through the real handlers, beside a mind that answers: an answer in
//! the form that was asked for, or a sentence why there is none.

#![expect(clippy::unwrap_used, reason = "a panic is how a target fails")]

mod clusters;

use std::time::Duration;

use actix_web::App;
use actix_web::rt::{System, spawn};
use actix_web::test::{TestRequest, call_service, init_service, read_body};
use engine::cluster::Cluster;
use engine::decide::extender::{self, Wish};
use fuzz::corpus;
use fuzz::cost::within;
use fuzz::objects::Bodies;
use k8s_openapi::jiff::Timestamp;
use operator::extender::{
    Asked, BIND_PATH, Bodies as Room, FILTER_PATH, PRIORITIZE_PATH, Question, channel, routes, volcano,
};
use programs::ports::refusals::Refusals;
use serde_json::{Value, json};

/// As many cases on every machine: by time alone, a faster one would find what a slower one passed.
const CASES: usize = 150;

/// What an answer may cost without optimisation: an exact search for the cards of a hard pod takes most of it.
const LIMIT: Duration = Duration::from_secs(20);
/// The longest text of what is no answer: a sentence that is cut, its dots and the end of the line.
const LONGEST_TEXT: usize = 4096 + 4;
const PATHS: [&str; 7] = [
    FILTER_PATH,
    PRIORITIZE_PATH,
    BIND_PATH,
    volcano::PREDICATE_PATH,
    volcano::PRIORITIZE_PATH,
    volcano::ALLOCATE_PATH,
    volcano::DEALLOCATE_PATH,
];
const NODES: [&str; 5] = ["whole", "mig", "mps", "shared", "plain"];

/// A cluster whose scheduler asks.
fn cluster() -> Cluster {
    clusters::of_corpora("enforceCrossQuota: extender\nenforceMGPU: extender")
}

/// Answers as the operator's mind does, at once.
fn answer(cluster: &mut Cluster, question: Question) {
    match question {
        Question::Nodes { pod, nodes, asked } => {
            let pod = extender::read(cluster, *pod);
            match asked {
                Asked::Filter(answer) => {
                    let mut filtered = extender::filter(cluster, &pod, &nodes);
                    if answer.send(std::mem::take(&mut filtered.refused)).is_ok() {
                        extender::assume(cluster, &pod, filtered, Timestamp::UNIX_EPOCH);
                    }
                }
                Asked::Look(answer) => drop(answer.send(extender::look(cluster, &pod, &nodes).refused)),
                Asked::Prioritize(answer) => drop(answer.send(extender::prioritize(cluster, &pod, &nodes))),
            }
        }
        Question::Bind { pod, node, answer } => {
            let wish = extender::bind(cluster, &pod, &node);
            let said = match wish {
                Wish::Granted(_) | Wish::Done => Ok(()),
                Wish::NotYet(reason) | Wish::Refused(reason) => Err(reason),
            };
            drop(answer.send(said));
        }
    }
}

thread_local! {
    static SYSTEM: actix_web::rt::SystemRunner = System::new();
}

/// Sends a body to every path, in a cluster of its own.
fn send(body: &str) {
    SYSTEM.with(|system| {
        system.block_on(async {
            let (questions, mut asked) = channel();
            let mind = spawn(async move {
                let mut cluster = cluster();
                while let Some(question) = asked.recv().await {
                    answer(&mut cluster, question);
                }
            });
            let app =
                init_service(App::new().configure(routes(questions, Room::new(64 << 20, Refusals::default())))).await;
            for path in PATHS {
                let request = TestRequest::post().uri(path).set_payload(body.to_owned()).to_request();
                let response = call_service(&app, request).await;
                let status = response.status().as_u16();
                check(path, body, status, &read_body(response).await);
            }
            drop(app);
            mind.await.unwrap();
        });
    });
}

fn check(path: &str, body: &str, status: u16, answer: &[u8]) {
    if status != 200 {
        let text = String::from_utf8_lossy(answer);
        assert!([400, 413].contains(&status), "{path}: {status} {text}");
        assert!(
            !text.is_empty() && text.len() <= LONGEST_TEXT,
            "{path}: {} bytes: {text}",
            text.len()
        );
        assert!(!text.trim_end().contains(char::is_control), "{path}: {text:?}");
        return;
    }
    let answer: Value = serde_json::from_slice(answer).unwrap();
    // Halves of surrogate pairs are JSON, but no text that a Value holds.
    let Ok(asked) = serde_json::from_str::<Value>(body) else {
        return;
    };
    let count = |value: &Value| value.as_array().map_or(0, Vec::len);
    match path {
        FILTER_PATH if asked["NodeNames"].is_array() => {
            let kept = count(&answer["NodeNames"]);
            let failed = [&answer["FailedNodes"], &answer["FailedAndUnresolvableNodes"]];
            let named = |name: &Value| {
                failed
                    .iter()
                    .any(|failed| failed.get(name.as_str().unwrap_or_default()).is_some())
            };
            let refused = asked["NodeNames"]
                .as_array()
                .unwrap()
                .iter()
                .filter(|name| named(name))
                .count();
            assert_eq!(kept + refused, count(&asked["NodeNames"]), "{answer}");
        }
        PRIORITIZE_PATH if asked["NodeNames"].is_array() => {
            assert_eq!(count(&answer), count(&asked["NodeNames"]));
            let scores = answer.as_array().unwrap().iter().map(|host| host["Score"].as_i64());
            assert!(
                scores
                    .clone()
                    .all(|score| score.is_some_and(|score| (0..=100).contains(&score))),
                "{answer}"
            );
        }
        BIND_PATH => assert!(answer["Error"].is_string()),
        _ => assert!(answer.is_object() || answer.is_array()),
    }
}

/// Questions about each pod of the corpus, in every form.
fn questions() -> Vec<Value> {
    let pods = corpus::objects(&corpus::read("pods"));
    let nodes = corpus::objects(&corpus::read("nodes"));
    let of_pod = |pod: &Value| {
        let task = json!({"Pod": pod, "NodeName": "shared"});
        let named: Vec<_> = NODES.iter().map(|name| json!({"Name": name})).collect();
        [
            json!({"Pod": pod, "Nodes": null, "NodeNames": NODES}),
            json!({"Pod": pod, "Nodes": {"metadata": {}, "items": nodes}, "NodeNames": null}),
            json!({"PodName": pod["metadata"]["name"], "PodNamespace": "default", "PodUID": pod["metadata"]["uid"], "Node": "shared"}),
            json!({"task": task, "node": {"Name": "whole"}, "nodes": named}),
        ]
    };
    pods.iter().flat_map(of_pod).collect()
}

#[test]
fn asked() {
    let questions = questions();
    for question in &questions {
        send(&question.to_string());
    }
    for entry in corpus::read("extender") {
        send(&entry.text);
    }
    bolero::check!()
        .with_iterations(CASES)
        .with_generator(Bodies::near(questions))
        .for_each(|body| within(LIMIT, format_args!("a body of {} bytes", body.len()), || send(body)));
}
