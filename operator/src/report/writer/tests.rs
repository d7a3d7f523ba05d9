use std::sync::Mutex;

use engine::happening::Happening;
use engine::refs::WorkloadKind;
use http::{Request, Response};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::client::Body;
use kube::core::Status;

use super::*;
use crate::herald::Herald;
use crate::report::{self, EventKind, PodReport};

/// Returns a reporter with this client, in a process that leads.
fn reporter(client: Client) -> Reporter {
    Reporter {
        client,
        metrics: Arc::default(),
        instance: "operator".to_owned(),
        leadership: Leadership::told(Arc::new(Herald::new(true))),
    }
}

/// Whether an event follows at once if the API server answers the write of a group's status with this message.
fn tells_that_it_is_refused(message: &str) -> bool {
    let now = Instant::now();
    let server = tower::service_fn(|_: Request<Body>| async { Ok::<_, std::io::Error>(Response::new(Body::empty())) });
    let mut state = State::new(reporter(Client::new(server, "default")), now);
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

/// A webhook that was called for one namespace and hung once kept all other namespaces from being told anything for minutes.
#[tokio::test(start_paused = true)]
async fn a_namespace_whose_writes_hang_keeps_nobody_else_waiting() {
    let others: Arc<Mutex<Vec<Instant>>> = Arc::default();
    let told = Arc::clone(&others);
    let server = tower::service_fn(move |request: Request<Body>| {
        let path = request.uri().path();
        let hangs = path.contains("/namespaces/hangs/");
        if path.contains("/namespaces/others/") {
            told.lock().unwrap().push(Instant::now());
        }
        async move {
            if hangs {
                std::future::pending::<()>().await;
            }
            Ok::<_, std::io::Error>(Response::new(Body::from(b"{}".to_vec())))
        }
    });
    let (reports, inbox) = report::channel();
    let task = tokio::spawn(reporter(Client::new(server, "default")).run(inbox));
    let tell = |namespace: &str, name: String| {
        let condition = PodReport {
            status: false,
            same_status: false,
            reason: Happening::SetAside.into(),
            message: String::new(),
        };
        let pod = PodRef {
            namespace: namespace.into(),
            name: name.as_str().into(),
            uid: name.as_str().into(),
        };
        reports.send(Report::Pod {
            pod,
            condition,
            event: false,
        });
    };
    (0..120).for_each(|number| tell("hangs", number.to_string()));
    tell("others", "p".to_owned());
    let begin = Instant::now();
    while others.lock().unwrap().is_empty() {
        tokio::time::sleep(SETTLE).await;
    }
    assert!(begin.elapsed() <= SETTLE * 2 + IN_TIME, "{:?}", begin.elapsed());
    task.abort();
}

/// Returns a refusal by a policy.
fn refusal() -> RequestError {
    let status = Status {
        code: 403,
        message: "ValidatingAdmissionPolicy 'x' with binding 'x' denied request: a rule of the cluster's owner"
            .to_owned(),
        ..Status::default()
    };
    RequestError::Refused(kube::Error::Api(Box::new(status)))
}

/// Returns a report of something that happened to a pod.
fn happened(pod: &str) -> Report {
    let regarding = ObjectReference {
        kind: Some("Pod".to_owned()),
        namespace: Some("team".to_owned()),
        name: Some(pod.to_owned()),
        ..ObjectReference::default()
    };
    Report::Event {
        regarding: Box::new(regarding),
        kind: EventKind::Warning,
        reason: Happening::ReservationTimeout.into(),
        message: "it is evicted".to_owned(),
    }
}

/// A policy may refuse what is written about thousands of objects, for hours.
#[tokio::test(start_paused = true)]
async fn what_is_refused_of_groups_and_events_is_tried_ever_more_rarely_and_old_events_no_more() {
    let group = || WorkloadRef {
        kind: WorkloadKind::PodGroup,
        namespace: "team".into(),
        name: "g".into(),
        uid: "1".into(),
    };
    let of_group = Report::Group {
        group: group(),
        phase: engine::cluster::workload::Phase::Pending,
        refused: None,
    };
    for report in [of_group, happened("p")] {
        let server =
            tower::service_fn(|_: Request<Body>| async { Ok::<_, std::io::Error>(Response::new(Body::empty())) });
        let (mut now, time) = (Instant::now(), clock::now());
        let mut state = State::new(reporter(Client::new(server, "default")), now);
        state.take_in(report.clone(), now, time);
        let target = state.queue.take(now).expect("a write");
        let occurrence = match &target {
            Target::Event(key) => state.messages.other_event(key).cloned(),
            _ => None,
        };
        let refuse = |state: &mut State, now: Instant, time: Timestamp| {
            let done = match occurrence.clone() {
                None => Done::Group(group(), Err(refusal())),
                Some(occurrence) => {
                    let written = Written {
                        left: None,
                        requests: 1,
                        error: Some(refusal()),
                        kind_is_gone: false,
                    };
                    Done::Event(target.clone(), Box::new(occurrence), written)
                }
            };
            state.end(done, now, time);
        };
        refuse(&mut state, now, time);
        for _ in 0..20 {
            now += Duration::from_mins(10);
            while let Some(taken) = state.queue.take(now) {
                if taken == target {
                    refuse(&mut state, now, time);
                } else {
                    // The event that tells of the refusal.
                    state.queue.done(&taken, Outcome::Settled, 1, now);
                }
            }
        }
        let pause = state.queue.wake_at().map(|at| at.saturating_duration_since(now));
        assert_eq!(pause, Some(Duration::from_mins(10)), "{target:?}");

        now += Duration::from_mins(10);
        assert_eq!(state.queue.take(now).as_ref(), Some(&target));
        refuse(&mut state, now, time + Duration::from_hours(1));
        assert_eq!(state.queue.is_pending(&target), occurrence.is_none(), "{target:?}");
    }
}

/// The next leader tells what pods wait for. What happened, such as why pods were evicted, is known here alone.
#[tokio::test(start_paused = true)]
async fn events_are_written_before_the_end_and_conditions_are_left_to_the_next_leader() {
    const EVENTS: usize = 100;
    let written: Arc<Mutex<Vec<String>>> = Arc::default();
    let noted = Arc::clone(&written);
    let server = tower::service_fn(move |request: Request<Body>| {
        let is_write = request.method() != http::Method::GET;
        let path = request.uri().path().to_owned();
        let noted = Arc::clone(&noted);
        async move {
            tokio::time::sleep(Duration::from_millis(20)).await;
            if is_write {
                noted.lock().unwrap().push(path);
            }
            Ok::<_, std::io::Error>(Response::new(Body::from(b"{}".to_vec())))
        }
    });
    let (reports, inbox) = report::channel();
    (0..EVENTS).for_each(|number| reports.send(happened(&number.to_string())));
    reports.send(Report::Pod {
        pod: PodRef {
            namespace: "team".into(),
            name: "waits".into(),
            uid: "waits".into(),
        },
        condition: PodReport {
            status: false,
            same_status: false,
            reason: Happening::SetAside.into(),
            message: String::new(),
        },
        event: true,
    });
    drop(reports);
    let begin = Instant::now();
    reporter(Client::new(server, "default")).run(inbox).await;
    assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
    let written = written.lock().unwrap();
    let events = written.iter().filter(|path| path.ends_with("/events")).count();
    assert_eq!((events, written.len()), (EVENTS, EVENTS));
}
