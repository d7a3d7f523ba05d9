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

/// Returns the pod as an API server shows it at this resource version while it has no node.
fn unplaced(version: &str) -> serde_json::Value {
    let metadata = json!({"namespace": "team", "name": "p", "uid": "1", "resourceVersion": version});
    json!({"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": {"containers": []}})
}

/// Returns the same once it has a node.
fn placed(version: &str) -> serde_json::Value {
    let mut pod = unplaced(version);
    pod["spec"]["nodeName"] = "n".into();
    pod
}

/// Starts an API server on which a disruption budget forbids every eviction. Returns its address, and the number of evictions it was asked
/// for.
fn protected() -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = BufReader::new(stream.unwrap());
            let (mut line, mut length) = (String::new(), 0);
            stream.read_line(&mut line).unwrap();
            let is_read = line.starts_with("GET ");
            line.clear();
            while stream.read_line(&mut line).unwrap() > 2 {
                let header = line.to_ascii_lowercase();
                if let Some(value) = header.strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
                line.clear();
            }
            stream.read_exact(&mut vec![0; length]).unwrap();
            let (code, body) = if is_read {
                ("200 OK", unplaced("1").to_string())
            } else {
                counted.fetch_add(1, Ordering::Relaxed);
                let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": "a budget",
                    "reason": "TooManyRequests", "code": 429, "details": {"causes": [{"reason": "DisruptionBudget"}]}});
                ("429 Too Many Requests", status.to_string())
            };
            let answer = format!(
                "HTTP/1.1 {code}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
                body.len()
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

/// A gang may have hundreds of pods, and the API server is asked about each for some seconds.
#[tokio::test(start_paused = true)]
async fn no_further_pods_are_asked_about_once_the_api_server_has_no_time_for_one() {
    const VICTIMS: usize = 200;
    for has_time_for_reads in [false, true] {
        let refused = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&refused);
        let server = tower::service_fn(move |request: http::Request<kube::client::Body>| {
            let is_read = request.method() == http::Method::GET;
            let (code, answer) = if request.uri().path().ends_with("/poddisruptionbudgets") {
                (200, json!({"metadata": {}, "items": []}))
            } else if is_read && has_time_for_reads {
                (200, unplaced("1"))
            } else {
                counted.fetch_add(1, Ordering::Relaxed);
                (
                    429,
                    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": 429,
                    "message": "Too many requests, please try again later.", "reason": "TooManyRequests"}),
                )
            };
            let body = kube::client::Body::from(answer.to_string().into_bytes());
            let answer = http::Response::builder().status(code).body(body);
            async { answer }
        });
        let victim = || Victim {
            pod: pod(),
            reason: Happening::Reclaimed,
            message: String::new(),
        };
        let eviction = Eviction {
            victims: std::iter::repeat_with(victim).take(VICTIMS).collect(),
            waiting: pod(),
            queue: "q".into(),
        };
        let outcomes = actor(kube::Client::new(server, "default")).0.evict_all(&eviction).await;
        assert_eq!(outcomes, [EvictionOutcome::NotTried; VICTIMS]);
        let refused = refused.load(Ordering::Relaxed);
        assert!(refused < VICTIMS, "{has_time_for_reads} {refused}");
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
    for reason in [Happening::ReservationTimeout, Happening::ResourceClaimChanged] {
        let tries: [&[Option<u16>]; 4] = [
            &[None, Some(404)],
            &[Some(500), Some(404)],
            &[Some(504), Some(429), Some(404)],
            &[None, Some(503), None, Some(404)],
        ];
        for answers in tries {
            let (event, asked) = send_back(reason, answers).await;
            assert!(matches!(&event, Some(Event::SentBack(..))), "{answers:?}: {event:?}");
            assert_eq!(asked, answers.len(), "{answers:?}");
        }
        // Here somebody else has removed the pod.
        for answers in [&[Some(404)][..], &[Some(429), Some(404)]] {
            let (event, asked) = send_back(reason, answers).await;
            assert!(matches!(&event, Some(Event::FoundOut(..))), "{answers:?}: {event:?}");
            assert_eq!(asked, answers.len(), "{answers:?}");
        }
        // With several budgets, the API server's refusal has the code of a server error, but is an answer.
        let (event, _) = send_back(reason, &[Some(500); 4]).await;
        assert!(matches!(&event, Some(Event::NotSentBack(..))), "{event:?}");
    }
}

/// Sends a pod back through an API server that gives these answers to evictions, one after the other; none means that it does not answer.
/// It shows the pod without a node until it says that the pod is gone. Returns what the mind is told, and how many of the answers were
/// given.
async fn send_back(reason: Happening, answers: &[Option<u16>]) -> (Option<Event>, usize) {
    let answers = answers.to_vec();
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    let server = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        let is_read = request.method() == http::Method::GET;
        let next = answers[counted.load(Ordering::Relaxed)];
        let code = if is_read && next != Some(404) {
            Some(200)
        } else {
            counted.fetch_add(1, Ordering::Relaxed);
            next
        };
        async move {
            let Some(code) = code else {
                return Err(std::io::Error::other("no answer"));
            };
            Ok(answer(code, &unplaced("1")))
        }
    });
    let (actor, mut heard) = actor(kube::Client::new(server, "default"));
    actor.send_back(pod(), reason, "it is evicted".to_owned());
    (heard.recv().await, asked.load(Ordering::Relaxed))
}

/// Returns the pod with a code of success, and a status with any other code.
fn answer(code: u16, pod: &serde_json::Value) -> http::Response<kube::client::Body> {
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": code});
    let body = if code < 400 { pod } else { &status };
    let body = kube::client::Body::from(body.to_string().into_bytes());
    http::Response::builder().status(code).body(body).unwrap()
}

/// What an API server shows of a pod and answers to its eviction, in turns; none where it does not answer.
type Answers = Vec<Option<(u16, serde_json::Value)>>;

/// Sends a pod back. Returns what the mind is told, and the requests: of evictions the resource version that they are for.
async fn send_back_from(reason: Happening, answers: Answers) -> (Option<Event>, Vec<String>) {
    let asked = Arc::new(std::sync::Mutex::new(Vec::new()));
    let noted = Arc::clone(&asked);
    let server = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        let (answers, noted) = (answers.clone(), Arc::clone(&noted));
        async move {
            let is_read = request.method() == http::Method::GET;
            let body = request.into_body().collect_bytes().await.unwrap();
            let eviction: serde_json::Value = serde_json::from_slice(&body).unwrap_or_default();
            let version = &eviction["deleteOptions"]["preconditions"]["resourceVersion"];
            let mut noted = noted.lock().unwrap();
            let next = answers[noted.len()].clone();
            noted.push(if is_read {
                "read".to_owned()
            } else {
                format!("evict {version}")
            });
            let (code, pod) = next.ok_or_else(|| std::io::Error::other("no answer"))?;
            Ok::<_, std::io::Error>(answer(code, &pod))
        }
    });
    let (actor, mut heard) = actor(kube::Client::new(server, "default"));
    actor.send_back(pod(), reason, "it is evicted".to_owned());
    // The channel closes when this actor is dropped and all its requests are over.
    drop(actor);
    let event = heard.recv().await;
    let asked = asked.lock().unwrap().clone();
    (event, asked)
}

/// A watch may be silent for minutes before it is found to be dead. Otherwise all pods that the scheduler has placed meanwhile would be
/// evicted, with a second of grace.
#[tokio::test(start_paused = true)]
async fn whom_the_scheduler_has_placed_is_not_sent_back_as_unplaced() {
    let shows = |pod: serde_json::Value| Some((200, pod));
    let (done, conflict) = (Some((201, json!({}))), Some((409, json!({}))));
    let unplaced_for = Happening::ReservationTimeout;

    let (event, asked) = send_back_from(unplaced_for, vec![shows(placed("7"))]).await;
    assert!(event.is_none(), "neither evicted nor refused: {event:?}");
    assert_eq!(asked, ["read"]);
    // It is placed after it was read.
    let answers = vec![shows(unplaced("7")), conflict.clone(), shows(placed("8"))];
    let (event, asked) = send_back_from(unplaced_for, answers).await;
    assert!(event.is_none(), "{event:?}");
    assert_eq!(asked, ["read", "evict \"7\"", "read"]);
    // Something else is written on it.
    let answers = vec![shows(unplaced("7")), conflict, shows(unplaced("8")), done.clone()];
    let (event, asked) = send_back_from(unplaced_for, answers).await;
    assert!(matches!(&event, Some(Event::SentBack(..))), "{event:?}");
    assert_eq!(asked, ["read", "evict \"7\"", "read", "evict \"8\""]);
    // Who has more than it was let in for may run.
    let (event, asked) = send_back_from(Happening::ResourceClaimChanged, vec![done]).await;
    assert!(matches!(&event, Some(Event::SentBack(..))), "{event:?}");
    assert_eq!(asked, ["evict null"]);
}

/// A tenant that writes its pod in a loop would otherwise keep it, and its quota, for ever.
#[tokio::test(start_paused = true)]
async fn an_unplaced_pod_that_is_written_again_and_again_is_sent_back() {
    let reads = |pod: serde_json::Value| Some((200, pod));
    let rewritten = ["1", "2", "3", "4"].map(|version| [reads(unplaced(version)), Some((409, json!({})))]);
    let asked_before: Vec<_> = ["1", "2", "3", "4"]
        .iter()
        .flat_map(|version| ["read".to_owned(), format!("evict \"{version}\"")])
        .collect();
    for (last, is_evicted) in [(unplaced("5"), true), (placed("5"), false)] {
        let answers = [rewritten.concat(), vec![reads(last), Some((201, json!({})))]].concat();
        let (event, asked) = send_back_from(Happening::ReservationTimeout, answers).await;
        assert_eq!(matches!(event, Some(Event::SentBack(..))), is_evicted, "{event:?}");
        let expected = if is_evicted {
            &["read", "evict null"][..]
        } else {
            &["read"]
        };
        assert_eq!(asked[..8], asked_before);
        assert_eq!(asked[8..], *expected);
    }
}

/// Whoever could not be read was not evicted, so if it is gone then, somebody else has removed it.
#[tokio::test(start_paused = true)]
async fn who_could_not_be_read_counts_as_not_evicted() {
    let mut other = unplaced("9");
    other["metadata"]["uid"] = "2".into();
    for gone in [Some((404, json!({}))), Some((200, other))] {
        for unread in [None, Some((500, json!({}))), Some((429, json!({})))] {
            let (event, asked) = send_back_from(Happening::ReservationTimeout, vec![unread, gone.clone()]).await;
            assert!(matches!(&event, Some(Event::FoundOut(..))), "{event:?}");
            assert_eq!(asked, ["read", "read"]);
        }
    }
    let (event, asked) = send_back_from(Happening::ReservationTimeout, vec![None; 4]).await;
    assert!(event.is_none(), "{event:?}");
    assert_eq!(asked, ["read"; 4]);
}
