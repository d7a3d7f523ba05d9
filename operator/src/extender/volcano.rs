//! The extender plugin of Volcano's scheduler (`pkg/scheduler/plugins/extender`): the same questions in another form.
//!
//! Volcano looks at one node after the other, and places many pods before it binds the first one. So its predicate requests do not make the
//! pod count anywhere. A pod that Volcano has allocated counts on its node, from the allocation event until the pod is bound or given up.

use std::collections::BTreeMap;

use actix_web::HttpResponse;
use actix_web::web::{Data, Payload};
use crds::pod::Pod;
use serde::{Deserialize, Serialize};

use super::{Asked, Bodies, Failure, Questions, ask_about_nodes, respond};

/// The prefix of all its paths.
pub(super) const PREFIX: &str = "/volcano/";
/// The path where one node is checked for a task.
pub const PREDICATE_PATH: &str = "/volcano/predicate";
/// The path where nodes are scored for a task.
pub const PRIORITIZE_PATH: &str = "/volcano/prioritize";
/// The path where Volcano reports that a task is allocated to a node.
pub const ALLOCATE_PATH: &str = "/volcano/allocate";
/// The path where Volcano reports that a task is no longer allocated.
pub const DEALLOCATE_PATH: &str = "/volcano/deallocate";

/// Volcano's codes of a predicate: whether evictions of other pods would help, or not.
const UNSCHEDULABLE: i32 = 2;
const UNSCHEDULABLE_AND_UNRESOLVABLE: i32 = 3;

/// `PredicateRequest`, `PrioritizeRequest` and `EventHandlerRequest`. Of Volcano's own types, only names are read.
#[derive(Debug, Deserialize)]
struct Request {
    task: Task,
    node: Option<Node>,
    nodes: Option<Vec<Node>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Task {
    pod: Pod<Box<str>>,
    #[serde(default)]
    node_name: Box<str>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Node {
    name: Box<str>,
}

/// `PredicateResponse`; `EventHandlerResponse` has only its message. Volcano reads the reason of a refusal from `status` since 1.10, from
/// `errorMessage` in 1.6 and 1.7, and in events of any version.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Verdict {
    status: String,
    error_message: String,
    code: i32,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Scores {
    node_score: BTreeMap<Box<str>, i64>,
    error_message: &'static str,
}

impl Request {
    fn read(body: &[u8]) -> Result<Self, Failure> {
        serde_json::from_slice(body).map_err(Failure::Volcano)
    }
}

pub(super) async fn predicate(questions: Data<Questions>, bodies: Data<Bodies>, payload: Payload) -> HttpResponse {
    let answer = async {
        let body = bodies.read(payload).await?;
        let Request { task, node, .. } = Request::read(&body)?;
        drop(body);
        let nodes = vec![node.ok_or(Failure::NoNodes)?.name];
        verdict(&questions, task.pod, nodes, Asked::Look).await
    };
    respond(answer.await)
}

pub(super) async fn allocate(questions: Data<Questions>, bodies: Data<Bodies>, payload: Payload) -> HttpResponse {
    let answer = async {
        let Task { pod, node_name } = Request::read(&bodies.read(payload).await?)?.task;
        verdict(&questions, pod, vec![node_name], Asked::Filter).await
    };
    respond(answer.await)
}

/// A pod that may go to no node counts on no node.
pub(super) async fn deallocate(questions: Data<Questions>, bodies: Data<Bodies>, payload: Payload) -> HttpResponse {
    let answer = async {
        let Task { pod, .. } = Request::read(&bodies.read(payload).await?)?.task;
        verdict(&questions, pod, Vec::new(), Asked::Filter).await
    };
    respond(answer.await)
}

pub(super) async fn prioritize(questions: Data<Questions>, bodies: Data<Bodies>, payload: Payload) -> HttpResponse {
    let answer = async {
        let body = bodies.read(payload).await?;
        let Request { task, nodes, .. } = Request::read(&body)?;
        drop(body);
        let nodes = nodes.ok_or(Failure::NoNodes)?;
        let names: Vec<_> = nodes.into_iter().map(|node| node.name).collect();
        let scores = ask_about_nodes(&questions, task.pod, names.clone(), Asked::Prioritize).await?;
        Ok(serde_json::to_vec(&Scores {
            node_score: names.into_iter().zip(scores).collect(),
            error_message: "",
        })?)
    };
    respond(answer.await)
}

async fn verdict(
    questions: &Questions,
    pod: Pod<Box<str>>,
    nodes: Vec<Box<str>>,
    asked: impl FnOnce(super::Refused) -> Asked,
) -> Result<Vec<u8>, Failure> {
    let refused = ask_about_nodes(questions, pod, nodes, asked).await?;
    let verdict = refused.first().map(|(_, refusal)| Verdict {
        status: refusal.to_string(),
        error_message: refusal.to_string(),
        code: if refusal.is_final() {
            UNSCHEDULABLE_AND_UNRESOLVABLE
        } else {
            UNSCHEDULABLE
        },
    });
    Ok(serde_json::to_vec(&verdict.unwrap_or_default())?)
}

#[cfg(test)]
mod tests {
    use actix_web::App;
    use actix_web::test::{TestRequest, call_and_read_body, call_service, init_service};
    use serde_json::{Value, json};
    use tokio::sync::mpsc;

    use programs::ports::refusals::Refusals;

    use super::*;
    use crate::extender::{Question, routes};
    use engine::decide::extender::{CardsRefusal, Refusal};

    /// Sends a request. Returns the question that it asks, and the answer when each node's result is `refusal`.
    async fn exchange(path: &str, body: Value, refusal: Option<Refusal>) -> (String, Value) {
        let (questions, mut asked) = mpsc::channel(1);
        let app =
            init_service(App::new().configure(routes(questions, Bodies::new(1 << 20, Refusals::default())))).await;
        let mind = async {
            let Some(Question::Nodes { pod, nodes, asked }) = asked.recv().await else {
                panic!("no question about nodes");
            };
            let refused: Vec<_> = nodes
                .iter()
                .enumerate()
                .filter_map(|(place, _)| Some((place, refusal.clone()?)))
                .collect();
            let kind = match asked {
                Asked::Look(answer) => answer.send(refused).map(|()| "look"),
                Asked::Filter(answer) => answer.send(refused).map(|()| "filter"),
                Asked::Prioritize(answer) => {
                    answer.send((10..).take(nodes.len()).collect()).unwrap();
                    Ok("prioritize")
                }
            };
            format!(
                "{} {} {nodes:?}",
                kind.unwrap(),
                pod.metadata.name.as_deref().unwrap_or_default()
            )
        };
        let request = TestRequest::post().uri(path).set_payload(body.to_string()).to_request();
        let (asked, answer) = tokio::join!(mind, call_and_read_body(&app, request));
        (asked, serde_json::from_slice(&answer).unwrap())
    }

    fn task(node: &str) -> Value {
        json!({"UID": "u", "Name": "p", "NodeName": node, "Resreq": {"MilliCPU": 1.5}, "Pod": {"metadata": {"name": "p"}}})
    }

    #[actix_web::test]
    async fn a_predicate_looks_at_one_node() {
        let body = json!({"task": task(""), "node": {"Name": "g1", "Tasks": {}, "Idle": {"MilliCPU": 1}}});
        let fits = json!({"status": "", "errorMessage": "", "code": 0});
        let asked = r#"look p ["g1"]"#.to_owned();
        assert_eq!(
            exchange(PREDICATE_PATH, body.clone(), None).await,
            (asked.clone(), fits)
        );
        for (refusal, code) in [(CardsRefusal::CardsInUse, 2), (CardsRefusal::NoDeviceIds, 3)] {
            let text = refusal.to_string();
            let answer = exchange(PREDICATE_PATH, body.clone(), Some(Refusal::Cards(refusal))).await;
            assert_eq!(
                answer,
                (
                    asked.clone(),
                    json!({"status": text, "errorMessage": text, "code": code})
                )
            );
        }
    }

    #[actix_web::test]
    async fn nodes_are_scored_by_name() {
        let body = json!({"task": task(""), "nodes": [{"Name": "g1"}, {"Name": "g2"}]});
        let scores = json!({"nodeScore": {"g1": 10, "g2": 11}, "errorMessage": ""});
        assert_eq!(
            exchange(PRIORITIZE_PATH, body, None).await,
            (r#"prioritize p ["g1", "g2"]"#.to_owned(), scores)
        );
    }

    #[actix_web::test]
    async fn what_is_allocated_counts_there_and_what_is_given_up_nowhere() {
        let body = json!({"task": task("g1")});
        let fits = json!({"status": "", "errorMessage": "", "code": 0});
        let allocated = exchange(ALLOCATE_PATH, body.clone(), None).await;
        assert_eq!(allocated, (r#"filter p ["g1"]"#.to_owned(), fits.clone()));
        let given_up = exchange(DEALLOCATE_PATH, body, None).await;
        assert_eq!(given_up, ("filter p []".to_owned(), fits));
    }

    /// What Volcano's scheduler (its main branch after 1.15) sent about two nodes with four cards each, two Jobs that request no card, and
    /// one Job that shares cards. `managedFields` are left out.
    #[actix_web::test]
    async fn volcanos_own_requests_are_understood_and_answered_in_its_form() {
        let over = CardsRefusal::CardsInUse;
        for (path, recording, asked, refused) in [
            (
                PREDICATE_PATH,
                include_str!("recordings/predicate.json"),
                r#"look x2-w-0 ["a100-1"]"#,
                false,
            ),
            (
                PREDICATE_PATH,
                include_str!("recordings/predicate-refused.json"),
                r#"look x2-w-0 ["a100-2"]"#,
                true,
            ),
            (
                PREDICATE_PATH,
                include_str!("recordings/predicate-mgpu.json"),
                r#"look mx-w-1 ["m1"]"#,
                true,
            ),
            (
                ALLOCATE_PATH,
                include_str!("recordings/allocate.json"),
                r#"filter x1-w-0 ["a100-2"]"#,
                false,
            ),
            (
                ALLOCATE_PATH,
                include_str!("recordings/allocate-refused.json"),
                r#"filter x2-w-0 ["a100-2"]"#,
                true,
            ),
            (
                DEALLOCATE_PATH,
                include_str!("recordings/deallocate.json"),
                "filter x2-w-0 []",
                false,
            ),
        ] {
            let body = serde_json::from_str(recording).unwrap();
            let (question, answer) = exchange(path, body, refused.then(|| Refusal::Cards(over.clone()))).await;
            assert_eq!(question, asked, "{path}");
            // Volcano reads `status` of a predicate and `errorMessage` of an allocation. Both must be strings.
            for field in ["status", "errorMessage"] {
                let text = answer[field].as_str().expect("a string");
                assert_eq!(text.is_empty(), !refused, "{path}: {answer}");
            }
            assert!(answer["code"].is_i64());
        }
        let body = serde_json::from_str(include_str!("recordings/prioritize.json")).unwrap();
        let (question, answer) = exchange(PRIORITIZE_PATH, body, None).await;
        assert_eq!(question, r#"prioritize x2-w-0 ["a100-2", "a100-1"]"#);
        assert_eq!(
            answer,
            json!({"nodeScore": {"a100-1": 11, "a100-2": 10}, "errorMessage": ""})
        );
    }

    #[actix_web::test]
    async fn a_body_that_finds_no_room_or_is_too_long_is_told_so() {
        let (questions, mut asked) = mpsc::channel(1);
        let room = Bodies::new(64, Refusals::default());
        let app = init_service(App::new().configure(routes(questions, room))).await;
        let request = |path: &str, length: usize| TestRequest::post().uri(path).set_payload(" ".repeat(length));
        for path in [
            crate::extender::FILTER_PATH,
            crate::extender::BIND_PATH,
            PREDICATE_PATH,
            ALLOCATE_PATH,
        ] {
            for (length, status) in [(64, 400), (65, 503), (super::super::BODY.longest + 1, 413)] {
                let answer = call_service(&app, request(path, length).to_request()).await;
                assert_eq!(answer.status(), status, "{path}: {length}");
            }
        }
        assert!(asked.try_recv().is_err());
    }
}
