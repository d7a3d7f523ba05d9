use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use engine::decide::Victim;
use engine::happening::Happening;
use kube::Config;
use programs::certificates::provider;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::super::WRITE_LIMIT;
use super::*;
use crate::herald::Herald;
use crate::lease::Leadership;

/// Evicts through an API server that gives these answers to evictions, one after the other, and accepts them from then on. Also returns how
/// many evictions it was asked for.
async fn evict(answers: Vec<(u16, &'static str)>) -> (Result<(), Failure>, usize) {
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    let server = tower::service_fn(move |_: http::Request<kube::client::Body>| {
        let (code, message) = *answers
            .get(counted.fetch_add(1, Ordering::Relaxed))
            .unwrap_or(&(201, ""));
        let status = if code < 400 { "Success" } else { "Failure" };
        let answer = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": status, "message": message, "code": code});
        let body = kube::client::Body::from(answer.to_string().into_bytes());
        let answer = http::Response::builder().status(code).body(body);
        async { answer }
    });
    let (actor, _heard) = actor(kube::Client::new(server, "default"));
    (
        actor.evict(&pod(), How::Gracefully).await,
        asked.load(Ordering::Relaxed),
    )
}

/// Returns an actor that leads, and the receiver of what it tells the mind.
pub(in crate::act) fn actor(client: kube::Client) -> (Actor, mpsc::Receiver<Event>) {
    let (events, heard) = mpsc::channel(1);
    let leadership = Leadership::told(Arc::new(Herald::new(true)));
    (Actor::new(client, events, leadership, Arc::default()), heard)
}

pub(super) fn pod() -> PodRef {
    PodRef {
        namespace: "team".into(),
        name: "p".into(),
        uid: "1".into(),
    }
}

#[tokio::test(start_paused = true)]
async fn who_is_taken_for_a_former_leader_asks_again() {
    const FORMER: &str = "pods \"p\" is forbidden: ValidatingAdmissionPolicy 'x' with binding 'x' denied request: another operator \
                          of Cardgate leads, by key \"leader\" of ConfigMap \"cardgate-policy\"";
    let (answer, asked) = evict(vec![(403, FORMER), (422, FORMER)]).await;
    assert!(answer.is_ok() && asked == 3, "{answer:?} {asked}");
    // The operator does not ask for ever: another operator may really lead.
    let (answer, asked) = evict(vec![(403, FORMER); 100]).await;
    assert!(
        matches!(answer, Err(Failure::AboutRequester(_))) && asked < 10,
        "{answer:?} {asked}"
    );
    // A refusal that is about the pod itself is an answer.
    for code in [403, 429] {
        let (answer, asked) = evict(vec![(code, "a budget")]).await;
        assert!(
            matches!(answer, Err(Failure::Api(_))) && asked == 1,
            "{answer:?} {asked}"
        );
    }
}
/// Starts an API server on which a disruption budget forbids every eviction. Returns its address, and the number of requests it has got.
fn protected() -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = BufReader::new(stream.unwrap());
            let (mut line, mut length) = (String::new(), 0);
            while stream.read_line(&mut line).unwrap() > 2 {
                let header = line.to_ascii_lowercase();
                if let Some(value) = header.strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
                line.clear();
            }
            stream.read_exact(&mut vec![0; length]).unwrap();
            counted.fetch_add(1, Ordering::Relaxed);
            let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": "a budget",
                "reason": "TooManyRequests", "code": 429, "details": {"causes": [{"reason": "DisruptionBudget"}]}});
            let status = status.to_string();
            let answer = format!(
                "HTTP/1.1 429 Too Many Requests\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: \
                 close\r\n\r\n{status}",
                status.len()
            );
            stream.get_mut().write_all(answer.as_bytes()).unwrap();
        }
    });
    (address, asked)
}

#[tokio::test]
async fn a_disruption_budget_is_heard_at_once() {
    // An error means that a provider is installed already; any provider does.
    let _ = provider().install_default();
    let (address, asked) = protected();
    let client = programs::client(Config::new(address.parse().unwrap())).unwrap();
    let (actor, mut heard) = actor(client);
    actor.send_back(pod(), Happening::ReservationTimeout, "it is evicted".to_owned());
    // If the actor asked again and again, there would be no event, since a missing answer is told to nobody. The event also does not say
    // that the pod was evicted.
    let event = timeout(WRITE_LIMIT * 2, heard.recv()).await;
    assert!(
        matches!(&event, Ok(Some(Event::NotSentBack(_, why))) if why == "a budget"),
        "{event:?}"
    );
    assert_eq!(asked.load(Ordering::Relaxed), 1);
}

/// A dry run for a pod that a budget protects says nothing new, and costs a request.
#[tokio::test]
async fn nobody_is_asked_of_whom_budgets_protect() {
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    let server = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        let path = request.uri().path();
        let answer = if path.ends_with("/eviction") {
            counted.fetch_add(1, Ordering::Relaxed);
            json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201})
        } else if path.ends_with("/poddisruptionbudgets") {
            json!({"kind": "PodDisruptionBudgetList", "apiVersion": "policy/v1", "metadata": {}, "items": [{"metadata": {},
                "spec": {"selector": {}}, "status": {"currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2,
                "disruptionsAllowed": 1}}]})
        } else {
            json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": {"name": "p"}})
        };
        let answer = http::Response::new(kube::client::Body::from(answer.to_string().into_bytes()));
        async { Ok::<_, std::convert::Infallible>(answer) }
    });
    let victim = || Victim {
        pod: pod(),
        reason: Happening::Reclaimed,
        message: String::new(),
    };
    let eviction = Eviction {
        victims: vec![victim(), victim()],
        waiting: pod(),
        queue: "q".into(),
    };
    let outcomes = actor(kube::Client::new(server, "default")).0.evict_all(&eviction).await;
    assert_eq!(outcomes, [EvictionOutcome::NotTried, EvictionOutcome::Refused]);
    assert_eq!(asked.load(Ordering::Relaxed), 1);
}

/// An API server that has no time for a moment protects no pod. Otherwise an older pod would be evicted in place of the pod whose turn it
/// is.
#[tokio::test(start_paused = true)]
async fn what_fails_for_the_moment_is_no_refusal() {
    let budget = json!({"causes": [{"reason": "DisruptionBudget", "message": "needs 1 healthy pods"}]});
    for (details, expected) in [
        (json!({}), EvictionOutcome::Evicted),
        (budget, EvictionOutcome::Refused),
    ] {
        let asked = Arc::new(AtomicUsize::new(0));
        let server = tower::service_fn(move |request: http::Request<kube::client::Body>| {
            let path = request.uri().path();
            let (code, answer) = if path.ends_with("/poddisruptionbudgets") {
                (200, json!({"metadata": {}, "items": []}))
            } else if !path.ends_with("/eviction") {
                (
                    200,
                    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": {"name": "p"}}),
                )
            } else if asked.fetch_add(1, Ordering::Relaxed) == 0 {
                let message = "Too many requests, please try again later.";
                (
                    429,
                    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": 429, "message": message,
                    "reason": "TooManyRequests", "details": details}),
                )
            } else {
                (
                    201,
                    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}),
                )
            };
            let body = kube::client::Body::from(answer.to_string().into_bytes());
            let answer = http::Response::builder().status(code).body(body);
            async { answer }
        });
        let eviction = Eviction {
            victims: vec![Victim {
                pod: pod(),
                reason: Happening::Reclaimed,
                message: String::new(),
            }],
            waiting: pod(),
            queue: "q".into(),
        };
        let outcomes = actor(kube::Client::new(server, "default")).0.evict_all(&eviction).await;
        assert_eq!(outcomes, [expected]);
    }
}

/// A pod that is sent back keeps what it has for one second, not for its own grace period. A pod that makes room ends with its own grace
/// period.
#[tokio::test]
async fn only_who_is_sent_back_has_to_end_at_once() {
    for (how, expected) in [
        (
            How::Briefly,
            json!({"preconditions": {"uid": "1"}, "gracePeriodSeconds": 1}),
        ),
        (How::Gracefully, json!({"preconditions": {"uid": "1"}})),
        (How::DryRun, json!({"preconditions": {"uid": "1"}})),
    ] {
        let (sent, mut got) = mpsc::channel(1);
        let server = tower::service_fn(move |request: http::Request<kube::client::Body>| {
            let sent = sent.clone();
            async move {
                let body = request.into_body().collect_bytes().await.unwrap();
                sent.send(body).await.unwrap();
                let answer =
                    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
                let body = kube::client::Body::from(answer.to_string().into_bytes());
                Ok::<_, std::convert::Infallible>(http::Response::new(body))
            }
        });
        let (actor, _heard) = actor(kube::Client::new(server, "default"));
        actor.evict(&pod(), how).await.unwrap();
        let body = got.recv().await.unwrap();
        let eviction: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(eviction["deleteOptions"], expected, "{how:?}");
    }
}

/// Otherwise nobody would tell that the pod was evicted: once it is gone, nothing can be found out.
#[tokio::test(start_paused = true)]
async fn who_is_gone_after_an_eviction_without_an_answer_was_sent_back() {
    let tries: [&[Option<u16>]; 4] = [
        &[None, Some(404)],
        &[Some(500), Some(404)],
        &[Some(504), Some(429), Some(404)],
        &[None, Some(503), None, Some(404)],
    ];
    for answers in tries {
        let (event, asked) = send_back(answers).await;
        assert!(matches!(&event, Some(Event::SentBack(..))), "{answers:?}: {event:?}");
        assert_eq!(asked, answers.len(), "{answers:?}");
    }
    // Here somebody else has removed the pod.
    for answers in [&[Some(404)][..], &[Some(429), Some(404)]] {
        let (event, asked) = send_back(answers).await;
        assert!(matches!(&event, Some(Event::FoundOut(..))), "{answers:?}: {event:?}");
        assert_eq!(asked, answers.len(), "{answers:?}");
    }
    // With several budgets, the API server's refusal has the code of a server error, but is an answer.
    let (event, _) = send_back(&[Some(500); 4]).await;
    assert!(matches!(&event, Some(Event::NotSentBack(..))), "{event:?}");
}

/// Sends a pod back through an API server that gives these answers, one after the other; none means that it does not answer. Returns what
/// the mind is told, and how often the API server was asked.
async fn send_back(answers: &[Option<u16>]) -> (Option<Event>, usize) {
    let answers = answers.to_vec();
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    let server = tower::service_fn(move |_: http::Request<kube::client::Body>| {
        let code = answers[counted.fetch_add(1, Ordering::Relaxed)];
        async move {
            let Some(code) = code else {
                return Err(std::io::Error::other("no answer"));
            };
            let answer =
                json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": code});
            let body = kube::client::Body::from(answer.to_string().into_bytes());
            Ok(http::Response::builder().status(code).body(body).unwrap())
        }
    });
    let (actor, mut heard) = actor(kube::Client::new(server, "default"));
    actor.send_back(pod(), Happening::ReservationTimeout, "it is evicted".to_owned());
    (heard.recv().await, asked.load(Ordering::Relaxed))
}
