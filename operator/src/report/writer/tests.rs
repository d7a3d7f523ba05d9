use engine::refs::WorkloadKind;
use kube::core::Status;

use super::*;
use crate::herald::Herald;

/// Whether an event follows at once where the API server answers the status of a group like this.
fn tells_that_it_is_refused(message: &str) -> bool {
    let now = Instant::now();
    let server = tower::service_fn(|_: http::Request<kube::client::Body>| async {
        Ok::<_, std::io::Error>(http::Response::new(kube::client::Body::empty()))
    });
    let mut state = State::new(
        Reporter {
            client: Client::new(server, "default"),
            metrics: Arc::default(),
            instance: "operator".to_owned(),
            leadership: Leadership::told(Arc::new(Herald::new(true))),
        },
        now,
    );
    let group = WorkloadRef {
        kind: WorkloadKind::PodGroup,
        namespace: "team".into(),
        name: "g".into(),
        uid: "1".into(),
    };
    let target = Target::Group(Arc::clone(&group.uid));
    state.queue.offer(&target, Urgency::Prompt, now, now);
    assert_eq!(state.queue.take(now), Some(target.clone()));
    let status = Status {
        code: 403,
        message: message.to_owned(),
        ..Status::default()
    };
    let refused = RequestError::Refused(kube::Error::Api(Box::new(status)));
    state.end_group(&group, &Err(refused), now);
    assert!(state.queue.is_pending(&target), "it is tried again");
    state.queue.wake_at().is_some_and(|at| at <= now)
}

#[tokio::test(start_paused = true)]
async fn who_is_taken_for_a_former_leader_tells_nobody_that_a_group_is_refused() {
    let refused = "ValidatingAdmissionPolicy 'x' with binding 'x' denied request: ";
    let former = "another operator of Cardgate leads, by key \"leader\" of ConfigMap \"cardgate-policy\"";
    assert!(!tells_that_it_is_refused(&format!("{refused}{former}")));
    assert!(tells_that_it_is_refused(&format!(
        "{refused}a rule of the cluster's owner"
    )));
}
