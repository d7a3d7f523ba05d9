use engine::refs::WorkloadKind;
use serde_json::json;

use super::evict::tests::actor;
use super::*;

/// Else each of its tries would say on the Job that its pods may be made.
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
        // Nobody sends more when this is dropped and all it has begun is over.
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
