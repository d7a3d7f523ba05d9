//! Conditions and events.

use cardgate_tests::wait::{self, Seen};
use cardgate_tests::workloads::{pod, queue};
use crds::keys::{ADMITTED_CONDITION, GATE};
use engine::reason::Reason;
use engine::refs::PodRef;
use k8s_openapi::api::core::v1::{ObjectReference, Pod, PodCondition};
use k8s_openapi::api::events::v1::Event;
use kube::api::{Patch, PatchParams, PostParams};
use kube::runtime::watcher;
use kube::{Api, ResourceExt as _};
use operator::report::{EventKind, PodReport, Report};
use serde_json::json;

use super::{Bench, Outcome};

fn pod_ref(pod: &Pod) -> PodRef {
    PodRef {
        namespace: "default".into(),
        name: pod.name_any().into(),
        uid: pod.uid().unwrap_or_default().into(),
    }
}

fn waits(reason: Reason, message: &str, same_status: bool) -> PodReport {
    PodReport {
        status: false,
        same_status,
        reason: reason.into(),
        message: message.to_owned(),
    }
}

/// The condition of Cardgate.
fn admitted(pod: Option<&Pod>) -> Option<PodCondition> {
    let conditions = pod?.status.as_ref()?.conditions.as_ref()?;
    conditions
        .iter()
        .find(|condition| condition.type_ == ADMITTED_CONDITION)
        .cloned()
}

/// Creates a pod that waits at Cardgate's gate: of others the operator may say nothing.
async fn create(pods: &Api<Pod>, name: &str) -> kube::Result<Pod> {
    let pod = pod(name).gate(GATE).build();
    pods.create(&PostParams::default(), &pod).await
}

fn report(pod: &Pod, condition: PodReport) -> Report {
    Report::Pod {
        pod: pod_ref(pod),
        condition,
        event: true,
    }
}

/// The condition of Cardgate, once its reason is this.
async fn await_reason(pods: &Api<Pod>, name: &str, reason: &str) -> anyhow::Result<PodCondition> {
    wait::object(pods, name, format!("the reason {reason}"), |pod| match admitted(pod) {
        Some(condition) if condition.reason.as_deref() == Some(reason) => Seen::Done(condition),
        other => Seen::NotYet(format!("{other:?}")),
    })
    .await
}

/// Waits until there are exactly these events of Cardgate's: object and reason, in order. API servers have their own.
async fn await_events(events: &Api<Event>, expected: &[(&str, &str)]) -> Outcome {
    wait::objects(events, watcher::Config::default(), "the events", |found| {
        let is_ours = |event: &&&Event| event.reporting_controller.as_deref() == Some("card.volcano.sh/operator");
        let of = |event: &&Event| Some((event.regarding.clone()?.name?, event.reason.clone()?));
        let mut seen: Vec<_> = found.iter().filter(is_ours).filter_map(of).collect();
        seen.sort();
        let same = seen
            .iter()
            .map(|(name, reason)| (name.as_str(), reason.as_str()))
            .eq(expected.iter().copied());
        Seen::when(same, format!("{seen:?}"))
    })
    .await
}

#[tokio::test]
async fn a_pod_says_why_it_waits() -> Outcome {
    let bench = Bench::start().await?;
    let pods: Api<Pod> = Api::default_namespaced(bench.client.clone());
    let waiting = create(&pods, "waiting").await?;
    let foreign = json!({ "status": { "conditions": [{ "type": "example.com/Ready", "status": "True" }] } });
    pods.patch_status("waiting", &PatchParams::default(), &Patch::Strategic(foreign))
        .await?;

    let running = bench.reporter(true).await?;
    let numbers = "queue a: NVIDIA-A100 asked 2, used 8, quota 8";
    running
        .reports
        .send(report(&waiting, waits(Reason::InsufficientScalarQuota, numbers, false)));
    let first = await_reason(&pods, "waiting", "InsufficientScalarQuota").await?;
    assert_eq!(
        (first.status.as_str(), first.message.as_deref()),
        ("False", Some(numbers))
    );
    assert!(first.last_transition_time.is_some());
    let status = pods.get("waiting").await?.status.unwrap_or_default();
    let conditions = status.conditions.unwrap_or_default();
    assert!(
        conditions
            .iter()
            .any(|condition| condition.type_ == "example.com/Ready"),
        "{conditions:?}"
    );

    // Another reason for the same status: the transition time stays, and is still there.
    running.reports.send(report(
        &waiting,
        waits(Reason::NoNodeFits, "no node can take the pod now", true),
    ));
    let second = await_reason(&pods, "waiting", "NoNodeFits").await?;
    assert_eq!(second.last_transition_time, first.last_transition_time);

    let events: Api<Event> = Api::default_namespaced(bench.client.clone());
    await_events(
        &events,
        &[("waiting", "InsufficientScalarQuota"), ("waiting", "NoNodeFits")],
    )
    .await?;
    let described = bench.plane.kubectl().run(["describe", "pod", "waiting"]).await?;
    let event = described
        .lines()
        .find(|line| line.contains("InsufficientScalarQuota"))
        .unwrap_or(&described);
    for part in ["Warning", "card.volcano.sh/operator", numbers] {
        assert!(event.contains(part), "{event}");
    }
    running.end().await
}

#[tokio::test]
async fn nothing_is_said_of_pods_that_were_let_in_or_are_gone() -> Outcome {
    let bench = Bench::start().await?;
    let pods: Api<Pod> = Api::default_namespaced(bench.client.clone());
    let (quick, present) = (create(&pods, "quick").await?, create(&pods, "present").await?);
    let (mut gone, mut another) = (present.clone(), present.clone());
    gone.metadata.name = Some("gone".to_owned());
    gone.metadata.uid = Some("00000000-0000-0000-0000-000000000001".to_owned());
    another.metadata.uid = Some("00000000-0000-0000-0000-000000000002".to_owned());

    let running = bench.reporter(true).await?;
    for pod in [&quick, &gone, &another] {
        running
            .reports
            .send(report(pod, waits(Reason::QueueNotFound, "m", false)));
    }
    running.reports.send(Report::ForgetPod {
        uid: quick.uid().unwrap_or_default().into(),
    });
    running.reports.send(Report::ForgetPod { uid: "unknown".into() });
    running
        .reports
        .send(report(&present, waits(Reason::InsufficientCpuQuota, "m", false)));
    await_reason(&pods, "present", "InsufficientCPUQuota").await?;
    let events: Api<Event> = Api::default_namespaced(bench.client.clone());
    await_events(&events, &[("present", "InsufficientCPUQuota")]).await?;
    running.end().await?;

    wait::eventually("all writes to be in the log", wait::PATIENCE, async || {
        let writes = bench.plane.audit_log()?.into_iter().filter_map(|write| {
            let target = write.object_ref?;
            (target.subresource == "status" && target.resource == "pods")
                .then_some((target.name, write.response_status.code))
        });
        let mut writes: Vec<_> = writes.collect();
        writes.sort();
        let writes: Vec<_> = writes.iter().map(|(name, code)| (name.as_str(), *code)).collect();
        let expected = [("gone", 404), ("present", 200), ("present", 422)];
        Ok(Seen::when(writes == expected, format!("{writes:?}")))
    })
    .await
}

#[tokio::test]
async fn the_same_event_again_is_counted() -> Outcome {
    let bench = Bench::start().await?;
    bench.plane.apply(&queue("team-a").build()).await?;
    let running = bench.reporter(true).await?;
    let regarding = ObjectReference {
        api_version: Some("scheduling.volcano.sh/v1beta1".to_owned()),
        kind: Some("Queue".to_owned()),
        name: Some("team-a".to_owned()),
        ..ObjectReference::default()
    };
    let events: Api<Event> = Api::default_namespaced(bench.client.clone());
    for count in 1..=3 {
        running.reports.send(Report::Event {
            regarding: Box::new(regarding.clone()),
            kind: EventKind::Warning,
            reason: Reason::QueueInvalid.into(),
            message: "mend it".to_owned(),
        });
        wait::objects(
            &events,
            watcher::Config::default(),
            format!("{count} occurrences"),
            |found| {
                let of_queue = found
                    .iter()
                    .filter(|event| event.reason.as_deref() == Some("QueueInvalid"));
                let counts: Vec<_> = of_queue
                    .map(|event| event.series.as_ref().map_or(1, |series| series.count))
                    .collect();
                Seen::when(counts == [count], format!("{counts:?}"))
            },
        )
        .await?;
    }
    running.end().await
}
