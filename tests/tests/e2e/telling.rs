//! What waiting pods, queues and Prometheus are told.

use std::collections::BTreeMap;

use anyhow::Context as _;
use cardgate_tests::cardgate::Instance;
use cardgate_tests::nodes;
use cardgate_tests::scenario::Scenario;
use cardgate_tests::wait::{self, Seen};
use cardgate_tests::world::World;
use crds::card_usage::CardUsage;
use crds::keys;
use k8s_openapi::api::core::v1::{Event, Pod, PodSchedulingGate};
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::json;

use crate::{NO_QUOTA, Outcome, pods};

/// How many events with the reason there are about each pod of the namespace.
async fn events_by_pod(scenario: &Scenario<'_>, reason: &str) -> anyhow::Result<BTreeMap<String, i32>> {
    let about = ListParams::default().fields(&format!("involvedObject.kind=Pod,reason={reason}"));
    let mut counts = BTreeMap::new();
    for event in scenario.api::<Event>().list(&about).await?.items {
        let count = event
            .series
            .and_then(|series| series.count)
            .or(event.count)
            .unwrap_or(1);
        *counts
            .entry(event.involved_object.name.unwrap_or_default())
            .or_default() += count.max(1);
    }
    Ok(counts)
}

#[tokio::test]
async fn every_waiting_pod_is_told_once_why_also_the_hundredth_of_one_shape() -> Outcome {
    const WAITING: usize = 100;
    let scenario = Scenario::begin(World::shared().await?, "hundred").await?;
    let card = scenario.card("NVIDIA-A100");
    scenario.nodes(&[nodes::nvidia("hundred", &card, 8, 81_920)]).await?;
    scenario.apply_queue(scenario.queue().quota(&card, 1)).await?;
    let replicas = i32::try_from(WAITING + 1)?;
    scenario
        .create(&scenario.gpu_pod("web", &card, 1).deployment(replicas))
        .await?;
    scenario
        .expect("web", &pods().running(&card, 1).waiting(NO_QUOTA, WAITING))
        .await?;
    let told_once = async |at_least: usize| {
        wait::eventually(format!("{at_least} events"), wait::PATIENCE, async || {
            let counts = events_by_pod(&scenario, NO_QUOTA).await?;
            Ok(if counts.len() < at_least {
                Seen::NotYet(format!("{} pods have one", counts.len()))
            } else {
                Seen::Done(counts)
            })
        })
        .await
    };
    let counts = told_once(WAITING).await?;
    assert!(counts.values().all(|count| *count == 1), "{counts:?}");
    let list = scenario.api::<Pod>().list(&ListParams::default()).await?.items;
    for pod in list.iter().filter(|pod| cardgate_tests::tally::is_gated(pod)) {
        let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
        let told: Vec<_> = conditions
            .into_iter()
            .flatten()
            .filter(|condition| condition.type_ == keys::ADMITTED_CONDITION)
            .collect();
        let message = told.first().and_then(|condition| condition.message.as_deref());
        let numbers = format!("queue hundred: {card} asked 1, used 1, quota 1");
        assert_eq!((told.len(), message), (1, Some(numbers.as_str())));
    }

    // The numbers change and the reason does not: nobody is told again.
    scenario.apply_queue(scenario.queue().quota(&card, 3)).await?;
    scenario
        .expect("web", &pods().running(&card, 3).waiting(NO_QUOTA, WAITING - 2))
        .await?;
    let counts = told_once(WAITING).await?;
    assert!(counts.values().all(|count| *count == 1), "{counts:?}");
    Ok(())
}

#[tokio::test]
async fn another_reason_is_another_event_and_a_changed_condition() -> Outcome {
    let scenario = Scenario::begin(World::shared().await?, "reasons").await?;
    let card = scenario.card("NVIDIA-A100");
    scenario.nodes(&[nodes::nvidia("reasons", &card, 1, 81_920)]).await?;
    scenario.create(&scenario.gpu_pod("web", &card, 2).build()).await?;
    let waits = async |reason: &str, says: &[&str]| {
        let condition = scenario.waits("web", reason).await?;
        let message = condition.message.unwrap_or_default();
        for part in says {
            assert!(message.contains(part), "{part:?} is missing: {message}");
        }
        let events = scenario.events("web", reason).await?;
        assert_eq!(events.len(), 1, "{events:?}");
        assert_eq!(events[0].type_.as_deref(), Some("Warning"));
        let told = events[0].message.as_deref().unwrap_or_default();
        for part in says {
            assert!(told.contains(part), "{part:?} is missing: {told}");
        }
        anyhow::Ok(condition.last_transition_time)
    };
    let since = waits("QueueNotFound", &["queue reasons does not exist"]).await?;
    scenario.apply_queue(scenario.queue()).await?;
    waits("EmptyQueueCapability", &["reasons", keys::CARD_QUOTA]).await?;
    scenario.apply_queue(scenario.queue().quota(&card, 1)).await?;
    let numbers = format!("queue reasons: {card} asked 2, used 0, quota 1");
    waits(NO_QUOTA, &[&numbers, "waiting can't help: ask for less"]).await?;
    scenario.apply_queue(scenario.queue().quota(&card, 2)).await?;
    let transition = waits(
        "NoNodeFits",
        &["no node can take the pod now", &card, "waiting can't help"],
    )
    .await?;
    // It has been waiting all the time.
    assert_eq!(transition, since);

    // Once it is let in, the condition says so.
    let plane = scenario.plane();
    plane
        .set_allocatable("reasons", &[("nvidia.com/gpu", Some("2"))])
        .await?;
    scenario.expect("web", &pods().running(&card, 1)).await?;
    wait::object(&scenario.api::<Pod>(), "web", "the condition True", |pod| {
        let conditions = pod.and_then(|pod| pod.status.as_ref()?.conditions.clone());
        let admitted = conditions.into_iter().flatten();
        let admitted = admitted.into_iter().find(|one| one.type_ == keys::ADMITTED_CONDITION);
        let now = admitted.map(|condition| (condition.status, condition.reason));
        Seen::when(
            now == Some(("True".to_owned(), Some("Admitted".to_owned()))),
            format!("{now:?}"),
        )
    })
    .await
}

/// Waits until a metric has this value.
async fn shows(instance: &Instance, series: &str, value: f64) -> Outcome {
    wait::eventually(format!("{series} {value}"), wait::PATIENCE, async || {
        let now = instance.metric(series).await?;
        Ok(Seen::when(now == Some(value), format!("{now:?}")))
    })
    .await
}

#[tokio::test]
async fn queues_and_metrics_show_what_is_allocated_and_what_waits() -> Outcome {
    let world = World::shared().await?;
    let scenario = Scenario::begin(world, "figures").await?;
    let card = scenario.card("NVIDIA-A100");
    scenario.nodes(&[nodes::nvidia("figures", &card, 8, 81_920)]).await?;
    let queue = scenario.queue().quota(&card, 4).capability("cpu", "10");
    scenario.apply_queue(queue).await?;
    let web = scenario.gpu_pod("web", &card, 2).request("cpu", "1");
    scenario.create(&web.deployment(3)).await?;
    scenario
        .expect("web", &pods().running(&card, 2).waiting(NO_QUOTA, 1))
        .await?;

    let operator = world.cardgate.operator();
    for (name, value) in [
        ("deserved", 4.0),
        ("allocated", 4.0),
        ("request", 6.0),
        ("capacity", 4.0),
    ] {
        let series = format!("volcano_queue_card_{name}{{queue_name=\"figures\",card=\"{card}\"}}");
        shows(operator, &series, value).await?;
    }
    let waiting = format!("cardgate_waiting_pods{{queue=\"figures\",reason=\"{NO_QUOTA}\"}}");
    shows(operator, &waiting, 1.0).await?;
    for series in ["cardgate_leader", "cardgate_config_valid"] {
        shows(operator, series, 1.0).await?;
    }
    let refused = format!("cardgate_decisions_total{{decision=\"refused\",reason=\"{NO_QUOTA}\"}}");
    let admitted = "cardgate_decisions_total{decision=\"admitted\",reason=\"\"}";
    for (series, least) in [
        (refused.as_str(), 1.0),
        (admitted, 2.0),
        ("cardgate_admission_duration_seconds_count", 2.0),
        ("cardgate_api_writes_total{kind=\"admission\"}", 2.0),
        ("cardgate_api_writes_total{kind=\"pod_condition\"}", 1.0),
        ("cardgate_api_writes_total{kind=\"event\"}", 1.0),
    ] {
        let value = operator.metric(series).await?;
        assert!(value.is_some_and(|value| value >= least), "{series} is {value:?}");
    }
    let text = operator.metrics().await?;
    for series in [
        "cardgate_config_generation ",
        "cardgate_admission_duration_seconds_bucket{",
        "cardgate_certificate_expiry_timestamp_seconds{",
    ] {
        assert!(text.contains(series), "{series} is missing");
    }
    let text = world.cardgate.webhook().metrics().await?;
    for series in [
        "cardgate_webhook_request_duration_seconds_count{path=\"/mutate\",outcome=\"patched\"}",
        "cardgate_config_generation ",
        "cardgate_config_valid 1",
        "cardgate_webhook_certificate_valid 1",
    ] {
        assert!(text.contains(series), "{series} is missing");
    }

    // The same for people.
    let usages: Api<CardUsage> = Api::all(scenario.plane().client().await?);
    wait::object(&usages, "figures", "the figures", |usage| {
        let Some(status) = usage.and_then(|usage| usage.status.as_ref()) else {
            return Seen::NotYet("no status".to_owned());
        };
        let shown = (
            status.quota.as_str(),
            status.allocated.as_str(),
            status.requested.as_str(),
            status.admitted_pods,
            status.waiting_pods,
            status.cpu.as_str(),
            status.share.as_str(),
        );
        let (four, six) = (format!("{card} x4"), format!("{card} x6"));
        let expected = (four.as_str(), four.as_str(), six.as_str(), 2, 1, "2 / 10", "1.00");
        Seen::when(shown == expected, format!("{shown:?}"))
    })
    .await
}

/// `kubectl wait` as the README has it: the condition of its own is written on pods alone that were told to wait.
#[tokio::test]
async fn whoever_waits_for_a_pod_waits_for_pod_scheduled() -> Outcome {
    let scenario = Scenario::begin(World::shared().await?, "kubectl-wait").await?;
    let card = scenario.card("NVIDIA-A100");
    scenario
        .nodes(&[nodes::nvidia("kubectl-wait", &card, 8, 81_920)])
        .await?;
    scenario.apply_queue(scenario.queue().quota(&card, 1)).await?;
    let waits = async |pod: &str, timeout: &str| {
        let pod = format!("pod/{pod}");
        let args = [
            "-n",
            scenario.name(),
            "wait",
            "--for=condition=PodScheduled",
            &pod,
            timeout,
        ];
        Ok::<_, anyhow::Error>(scenario.plane().kubectl().output(args, None).await?.status.success())
    };
    scenario.create(&scenario.gpu_pod("first", &card, 1).build()).await?;
    assert!(waits("first", "--timeout=60s").await?, "let in at once");
    scenario.create(&scenario.gpu_pod("second", &card, 1).build()).await?;
    scenario.waits("second", NO_QUOTA).await?;
    assert!(!waits("second", "--timeout=0s").await?, "held");
    scenario.apply_queue(scenario.queue().quota(&card, 2)).await?;
    assert!(waits("second", "--timeout=60s").await?, "let in later");
    Ok(())
}

#[tokio::test]
async fn a_pod_that_somebody_elses_gate_holds_says_so() -> Outcome {
    let scenario = Scenario::begin(World::shared().await?, "others-gate").await?;
    let card = scenario.card("NVIDIA-A100");
    scenario
        .nodes(&[nodes::nvidia("others-gate", &card, 1, 81_920)])
        .await?;
    scenario.apply_queue(scenario.queue().quota(&card, 1)).await?;
    let mut held = scenario.gpu_pod("held", &card, 1).build();
    held.spec.get_or_insert_default().scheduling_gates = Some(vec![PodSchedulingGate {
        name: "example.com/approval".to_owned(),
    }]);
    scenario.create(&held).await?;
    let condition = scenario.waits("held", "HeldByAnotherGate").await?;
    let message = condition.message.unwrap_or_default();
    assert!(
        message.contains("others' scheduling gates (example.com/approval)"),
        "{message}"
    );

    // Whoever holds it lets it go: now it is its turn.
    let api = scenario.api::<Pod>();
    let gates = api.get("held").await?.spec.and_then(|spec| spec.scheduling_gates);
    let place = gates
        .iter()
        .flatten()
        .position(|gate| gate.name == "example.com/approval");
    let path = format!("/spec/schedulingGates/{}", place.context("its gate is gone")?);
    let open = json!([{ "op": "remove", "path": path }]);
    let open = Patch::Json::<()>(serde_json::from_value(open)?);
    api.patch("held", &PatchParams::default(), &open).await?;
    scenario.expect("held", &pods().running(&card, 1)).await
}
