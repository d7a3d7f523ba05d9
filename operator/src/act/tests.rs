use std::sync::atomic::AtomicUsize;

use engine::Answer;
use engine::refs::WorkloadKind;
use serde_json::json;

use super::evict::tests::actor;
use super::patch::tests::admission;
use super::*;

/// Otherwise each try would say on the Job that its pods may be created.
#[tokio::test(start_paused = true)]
async fn a_job_is_said_to_be_resumed_when_it_is() {
    for (code, is_resumed) in [(200, true), (403, false)] {
        let server = tower::service_fn(move |_: http::Request<kube::client::Body>| {
            let answer = if is_resumed {
                json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": {"name": "j"}})
            } else {
                json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": "a policy", "code": code})
            };
            let body = kube::client::Body::from(answer.to_string().into_bytes());
            let answer = http::Response::builder().status(code).body(body);
            async { answer }
        });
        let (actor, mut heard) = actor(Client::new(server, "default"));
        let job = WorkloadRef {
            kind: WorkloadKind::Job,
            namespace: "team".into(),
            name: "j".into(),
            uid: "1".into(),
        };
        actor.resume(Resumption { job, queue: "q".into() });
        // The channel closes when this actor is dropped and all its requests are over.
        drop(actor);
        let mut events = Vec::new();
        while let Some(event) = heard.recv().await {
            events.push(event);
        }
        assert!(matches!(events[0], Event::Outcome(_)), "{events:?}");
        let said = events.iter().filter(|event| matches!(event, Event::Resumed(_))).count();
        assert_eq!(
            (events.len(), said),
            (1 + usize::from(is_resumed), usize::from(is_resumed))
        );
    }
}

/// Otherwise a client that writes a pod again and again would keep it from being admitted: each refusal is told, and makes the pod stand
/// aside longer.
#[tokio::test(start_paused = true)]
async fn a_pod_that_others_write_meanwhile_is_tried_again_and_one_that_is_refused_is_not() {
    for (code, most_tries, is_admitted) in [(409, 3, true), (422, 1, false)] {
        let tries = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&tries);
        let server = tower::service_fn(move |request: http::Request<kube::client::Body>| {
            let is_patch = request.method() == http::Method::PATCH;
            let is_refused = is_patch && counted.fetch_add(1, Ordering::Relaxed) < 2;
            let (code, answer) = if is_refused {
                (
                    code,
                    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": "no", "code": code}),
                )
            } else {
                let metadata = json!({"namespace": "team", "name": "trainer", "uid": "u1"});
                let spec = json!({"containers": [], "schedulingGates": [{"name": GATE}]});
                (
                    200,
                    json!({"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": spec}),
                )
            };
            let body = kube::client::Body::from(answer.to_string().into_bytes());
            let answer = http::Response::builder().status(code).body(body);
            async { answer }
        });
        let (actor, mut heard) = actor(Client::new(server, "default"));
        actor.admit(admission(false, false));
        drop(actor);
        let Some(Event::Outcome(Outcome::Admission(_, answer))) = heard.recv().await else {
            panic!("no answer");
        };
        assert_eq!(matches!(answer, Answer::Accepted), is_admitted, "{code}: {answer:?}");
        assert_eq!(tries.load(Ordering::Relaxed), most_tries, "{code}");
    }
}
