//! An administrator's accident: something that enforcement rests on, or that is shown, is taken away.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context as _, Result};
use cardgate_tests::nodes;
use cardgate_tests::scenario::Scenario;
use cardgate_tests::tally::Tally;
use cardgate_tests::wait::{self, Seen};
use cardgate_tests::world::World;
use crds::keys::NAMESPACE;
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::Api;
use kube::api::ListParams;
use operator::installation::parts;
use serde_json::Value;

use crate::Outcome;

/// How long it may take until everything is shown again.
const BACK_WITHIN: Duration = Duration::from_secs(30);

/// Waits until the metric has this value, and the readiness text says so, or does not any more.
async fn is_noticed(world: &World, problem: &str, kind: &str, name: &str, there: bool) -> Outcome {
    let metric = format!("cardgate_installation_{problem}{{kind=\"{kind}\",name=\"{name}\"}}");
    let words = format!(
        "installation: {kind} {name} is {}",
        if problem == "missing" { "missing" } else { "not as" }
    );
    wait::eventually(
        format!("{kind} {name}: {problem} {there}"),
        wait::PATIENCE,
        async || {
            let operator = world.cardgate.operator();
            let value = operator.metric(&metric).await?;
            let (status, text) = operator.readiness().await?;
            let says = text.contains(&words);
            Ok(Seen::when(
                value == Some(f64::from(u8::from(there))) && says == there && status == 200,
                format!("{metric} {value:?}; readyz {status}: {text}"),
            ))
        },
    )
    .await
}

/// Waits for an event about the installation that names the object.
async fn is_told(world: &World, reason: &str, name: &str) -> Outcome {
    let events: Api<Event> = Api::namespaced(world.plane.client().await?, NAMESPACE);
    let about = ListParams::default().fields(&format!("involvedObject.name=cardgate-config,reason={reason}"));
    wait::eventually(format!("an event {reason} about {name}"), wait::PATIENCE, async || {
        let found = events.list(&about).await?.items;
        let told = found
            .iter()
            .filter(|event| event.message.as_deref().unwrap_or_default().contains(name))
            .count();
        Ok(Seen::when(told > 0, format!("{} events", found.len())))
    })
    .await
}

/// An object as it could be applied again.
async fn saved(world: &World, kind: &str, name: &str) -> Result<Value> {
    let text = world.plane.kubectl().run(["get", kind, name, "-o", "json"]).await?;
    let mut object: Value = serde_json::from_str(&text)?;
    let metadata = object["metadata"].as_object_mut().context("no metadata")?;
    for field in [
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "generation",
        "managedFields",
    ] {
        metadata.remove(field);
    }
    object.as_object_mut().context("no object")?.remove("status");
    Ok(object)
}

#[tokio::test]
async fn each_object_of_the_installation_is_missed_and_welcomed_back() -> Outcome {
    let world = World::start().await?;
    let kubectl = world.plane.kubectl();
    let (_, ready) = world.cardgate.operator().readiness().await?;
    assert!(!ready.contains("installation:"), "{ready}");
    for part in parts(NAMESPACE)? {
        // That one the operator writes itself.
        if part.kind == "ConfigMap" {
            continue;
        }
        let (kind, name) = (part.kind, part.name.as_str());
        let object = saved(&world, kind, name).await?;
        kubectl.run(["delete", kind, name]).await?;
        is_noticed(&world, "missing", kind, name, true).await?;
        is_told(&world, "InstallationIncomplete", name).await?;
        kubectl.apply(&object.to_string()).await?;
        is_noticed(&world, "missing", kind, name, false).await?;
        is_told(&world, "InstallationRestored", name).await?;
    }
    // Weakened in place, it is missed as well.
    for (kind, name, path, value) in [
        (
            "ValidatingAdmissionPolicy",
            "cardgate-pod-create",
            "/spec/failurePolicy",
            "\"Ignore\"",
        ),
        (
            "MutatingWebhookConfiguration",
            "cardgate",
            "/webhooks/0/failurePolicy",
            "\"Ignore\"",
        ),
        (
            "ValidatingWebhookConfiguration",
            "cardgate",
            "/webhooks/0/objectSelector",
            "{\"matchLabels\": {\"cards\": \"counted\"}}",
        ),
        (
            "ValidatingAdmissionPolicyBinding",
            "cardgate-pod-update",
            "/spec/validationActions",
            "[\"Audit\"]",
        ),
    ] {
        let object = saved(&world, kind, name).await?;
        let patch = format!("[{{\"op\": \"replace\", \"path\": \"{path}\", \"value\": {value}}}]");
        kubectl.run(["patch", kind, name, "--type=json", "-p", &patch]).await?;
        is_noticed(&world, "changed", kind, name, true).await?;
        is_told(&world, "InstallationChanged", name).await?;
        kubectl.run(["delete", kind, name]).await?;
        kubectl.apply(&object.to_string()).await?;
        is_noticed(&world, "changed", kind, name, false).await?;
    }
    Ok(())
}

async fn shown(world: &World, kind: &str) -> Result<BTreeSet<String>> {
    let text = world.plane.kubectl().run(["get", kind, "-o", "json"]).await?;
    let list: Value = serde_json::from_str(&text)?;
    let complete = list["items"].as_array().into_iter().flatten();
    let complete = complete.filter(|object| object["status"].is_object());
    Ok(complete
        .filter_map(|object| Some(object["metadata"]["name"].as_str()?.to_owned()))
        .collect())
}

#[tokio::test]
async fn what_is_shown_is_back_soon_after_its_definitions_are() -> Outcome {
    const KINDS: [&str; 3] = ["cardinventories", "cardtypes", "cardusages"];
    let world = World::start().await?;
    let kubectl = world.plane.kubectl();
    let scenario = Scenario::begin(&world, "shown").await?;
    scenario.nodes(&nodes::every_shape()).await?;
    let card = scenario.card("NVIDIA-A100");
    scenario.nodes(&[nodes::nvidia("shown", &card, 2, 81_920)]).await?;
    scenario.apply_queue(scenario.queue().quota(&card, 1)).await?;
    scenario.create(&scenario.gpu_pod("one", &card, 1).build()).await?;
    scenario.expect("one", &Tally::none().running(&card, 1)).await?;
    let mut before = Vec::new();
    for kind in KINDS {
        let least = if kind == "cardusages" { 1 } else { 10 };
        let what = format!("{kind} to be shown");
        wait::eventually(what, wait::PATIENCE, async || {
            let shown = shown(&world, kind).await?;
            Ok(Seen::when(shown.len() >= least, format!("{shown:?}")))
        })
        .await?;
        // Every object's status follows it by a write of its own.
        wait::holds("as many", Duration::from_secs(1), async || {
            shown(&world, kind).await.map(|_| Seen::Done(()))
        })
        .await?;
        before.push(shown(&world, kind).await?);
    }

    for kind in KINDS {
        kubectl
            .run(["delete", "crd", &format!("{kind}.card.volcano.sh")])
            .await?;
    }
    kubectl
        .run(["apply", "--server-side", "-f", "manifests/base/crds"])
        .await?;
    wait::eventually("everything to be back", BACK_WITHIN, async || {
        let mut missing = Vec::new();
        for (kind, before) in KINDS.iter().zip(&before) {
            missing.extend(before.difference(&shown(&world, kind).await?).cloned());
        }
        Ok(Seen::when(missing.is_empty(), format!("missing: {missing:?}")))
    })
    .await?;

    // One by one too.
    for (kind, before) in KINDS.iter().zip(&before) {
        let one = before.first().context("nothing is shown")?;
        kubectl.run(["delete", kind, one]).await?;
        wait::eventually(format!("{one} to be back"), BACK_WITHIN, async || {
            let shown = shown(&world, kind).await?;
            Ok(Seen::when(shown.contains(one), format!("{shown:?}")))
        })
        .await?;
    }
    Ok(())
}

#[tokio::test]
async fn what_is_charged_stays_while_the_definitions_of_queues_are_away() -> Outcome {
    let world = World::start().await?;
    let kubectl = world.plane.kubectl();
    let scenario = Scenario::begin(&world, "away").await?;
    let card = scenario.card("NVIDIA-A100");
    scenario.nodes(&[nodes::nvidia("away", &card, 4, 81_920)]).await?;
    let queue = || scenario.queue().quota(&card, 2);
    scenario.apply_queue(queue()).await?;
    scenario.create(&scenario.gpu_pod("one", &card, 1).build()).await?;
    scenario.expect("one", &Tally::none().running(&card, 1)).await?;

    // Nothing is let in while nobody says what the queue has.
    for kind in ["queues", "podgroups"] {
        kubectl
            .run(["delete", "crd", &format!("{kind}.scheduling.volcano.sh")])
            .await?;
    }
    scenario.create(&scenario.gpu_pod("two", &card, 2).build()).await?;
    scenario.waits("two", "QueueNotFound").await?;
    for file in ["queues", "podgroups"] {
        let path = format!("manifests/overlays/without-volcano/{file}.yaml");
        kubectl.run(["apply", "--server-side", "-f", &path]).await?;
    }
    wait::eventually("the queue to be taken", wait::PATIENCE, async || {
        scenario.apply_queue(queue()).await?;
        Ok(Seen::Done(()))
    })
    .await?;
    // One of two is in use, as before.
    let waits = wait::eventually("the second to know its queue", BACK_WITHIN, async || {
        let waits = scenario.waits("two", "InsufficientScalarQuota").await?;
        Ok(Seen::Done(waits.message.unwrap_or_default()))
    })
    .await?;
    assert!(waits.contains("asked 2, used 1, quota 2"), "{waits}");
    scenario.delete::<Pod>("one").await?;
    scenario.expect("two", &Tally::none().running(&card, 1)).await?;
    Ok(())
}
