//! Configurations that can't be read.

use std::ffi::OsString;

use anyhow::{Context as _, Result, ensure};
use cardgate_tests::cardgate::{self, Cardgate, Instance, NAMESPACE};
use cardgate_tests::controlplane::ControlPlane;
use cardgate_tests::nodes;
use cardgate_tests::scenario::Scenario;
use cardgate_tests::tally::Tally;
use cardgate_tests::wait::{self, Seen};
use cardgate_tests::world::World;
use crds::keys::CONFIG_MAP;
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::Api;
use kube::api::{DeleteParams, ListParams, PostParams};
use serde_json::json;

use crate::{Outcome, capacity_card, configured};

/// Waits until readiness and the metric tell that the newest configuration is not in force, and why.
async fn tells(instance: &Instance, part: &str) -> Outcome {
    wait::eventually(format!("{} to tell", instance.name()), wait::PATIENCE, async || {
        let (status, text) = instance.readiness().await?;
        let valid = instance.metric("cardgate_config_valid").await?;
        let told = status == 200 && text.contains(part) && valid == Some(0.0);
        Ok(Seen::when(told, format!("{status} {text}, valid: {valid:?}")))
    })
    .await
}

/// What `kubectl card check` says to who may see everything.
async fn check(world: &World) -> Result<String> {
    let built = tokio::task::spawn_blocking(cardgate::build).await??;
    let mut check = tokio::process::Command::new(&built.plugin);
    // Of several files, those count that are there.
    let mut files = OsString::from("/nowhere/config:");
    files.push(world.plane.kubectl().kubeconfig());
    let check = check.arg("check").env("KUBECONFIG", files).output().await?;
    Ok(String::from_utf8(check.stdout)?)
}

#[tokio::test]
async fn an_invalid_configuration_leaves_the_last_good_one_in_force_and_is_told_everywhere() -> Outcome {
    let (world, _turn) = configured(Some(&capacity_card(true)), None).await?;
    let (operator, webhook) = (world.cardgate.operator(), world.cardgate.webhook());
    let good = (operator.generation().await?, webhook.generation().await?);
    let invalid = capacity_card(true).replace("true", "perhaps");
    Cardgate::write_configuration(&world.plane, Some(&invalid), Some("unnamedCards: deny\n")).await?;
    for instance in [operator, webhook] {
        tells(instance, "cardUnlimitedCpuMemory").await?;
    }
    assert_eq!((operator.generation().await?, webhook.generation().await?), good);
    let events: Api<Event> = Api::namespaced(world.plane.client().await?, NAMESPACE);
    let about = ListParams::default().fields(&format!("involvedObject.name={CONFIG_MAP},reason=InvalidConfiguration"));
    wait::eventually("the event", wait::PATIENCE, async || {
        let found = events.list(&about).await?.items;
        let texts: Vec<_> = found.iter().filter_map(|event| event.message.as_deref()).collect();
        let told = texts.iter().any(|text| {
            ["volcano-scheduler.conf", "cardUnlimitedCpuMemory", "perhaps"]
                .iter()
                .all(|part| text.contains(part))
        });
        Ok(Seen::when(told, format!("{texts:?}")))
    })
    .await?;

    // However long ago that was said.
    events.delete_collection(&DeleteParams::default(), &about).await?;
    let said = check(world).await?;
    let line = said.lines().find(|line| line.contains("cardUnlimitedCpuMemory"));
    let line = line.with_context(|| said.clone())?;
    ensure!(line.starts_with("PROBLEM   configuration"), "{line}");

    // Neither half of it is in force: CPU is not counted, and card names are not required.
    let scenario = Scenario::begin(world, "last-good").await?;
    let card = scenario.card("NVIDIA-A100");
    scenario.nodes(&[nodes::nvidia("last-good", &card, 8, 81_920)]).await?;
    scenario.apply_queue(scenario.queue().quota(&card, 8)).await?;
    let web = scenario.gpu_pod("web", &card, 1).request("cpu", 4);
    scenario.create(&web.build()).await?;
    scenario.expect("web", &Tally::none().running(&card, 1)).await?;
    scenario
        .create(&scenario.pod("unnamed").request("nvidia.com/gpu", 1).build())
        .await?;

    // A good one is in force at once, and everything says so.
    let good = capacity_card(false);
    world.cardgate.configure(&world.plane, Some(&good), None).await?;
    for instance in [operator, webhook] {
        assert_eq!(instance.metric("cardgate_config_valid").await?, Some(1.0));
        let (status, text) = instance.readiness().await?;
        assert!(status == 200 && !text.contains("invalid"), "{status} {text}");
    }
    // What was said of the one before stays for an hour, and is no longer so.
    let event = json!({
        "metadata": {"name": "said-before"}, "type": "Warning", "reason": "InvalidConfiguration",
        "message": "unnamedCards: sometimes",
        "involvedObject": {"kind": "ConfigMap", "name": CONFIG_MAP, "namespace": NAMESPACE},
    });
    let event = serde_json::from_value(event)?;
    events.create(&PostParams::default(), &event).await?;
    let said = check(world).await?;
    ensure!(!said.contains("sometimes"), "{said}");
    let next = scenario.gpu_pod("next", &card, 1).request("cpu", 4);
    scenario.create(&next.build()).await?;
    scenario
        .expect("next", &Tally::none().waiting("InsufficientCPUQuota", 1))
        .await
}

/// Waits until the operator's account may read the configuration, or may not, and the API server knows.
async fn let_operator_read(plane: &ControlPlane, may: bool) -> Outcome {
    let rule = json!({
        "apiGroups": [""], "resources": ["configmaps"], "resourceNames": [CONFIG_MAP], "verbs": ["list", "watch"],
    });
    let patch = if may {
        json!([{ "op": "add", "path": "/rules/2", "value": rule }])
    } else {
        json!([{ "op": "test", "path": "/rules/2", "value": rule }, { "op": "remove", "path": "/rules/2" }])
    };
    let kubectl = plane.kubectl();
    let text = patch.to_string();
    let change = ["-n", NAMESPACE, "patch", "role", "operator", "--type=json", "-p", &text];
    kubectl.run(change).await?;
    let (resource, user) = (format!("configmaps/{CONFIG_MAP}"), Cardgate::operator_account().user());
    let asked = ["auth", "can-i", "list", &resource, "-n", NAMESPACE, "--as", &user];
    wait::eventually(
        format!("the right to read, or not: {may}"),
        wait::PATIENCE,
        async || {
            let answer = kubectl.output(asked, None).await?;
            let said = String::from_utf8_lossy(&answer.stdout).into_owned();
            Ok(Seen::when(said.trim() == if may { "yes" } else { "no" }, said))
        },
    )
    .await
}

#[tokio::test]
async fn nothing_is_decided_before_the_configuration_could_be_read() -> Outcome {
    let (world, _turn) = configured(None, None).await?;
    let scenario = Scenario::begin(world, "unread").await?;
    let card = scenario.card("NVIDIA-A100");
    scenario.nodes(&[nodes::nvidia("unread", &card, 8, 81_920)]).await?;
    scenario.apply_queue(scenario.queue().quota(&card, 8)).await?;
    let operator = world.cardgate.operator();
    operator.kill()?;
    let_operator_read(&world.plane, false).await?;
    operator.start()?;
    let created: Pod = scenario.create(&scenario.gpu_pod("web", &card, 1).build()).await?;
    wait::eventually("the operator to lead and to wait", wait::PATIENCE, async || {
        let (status, text) = operator.readiness().await?;
        let leads = operator.metric("cardgate_leader").await? == Some(1.0);
        let waits = status == 503 && text.contains("waiting for: configuration");
        Ok(Seen::when(leads && waits, format!("{status} {text}, leads: {leads}")))
    })
    .await?;
    let stays = scenario.expect_for_good("web", &Tally::of([&created])).await;
    // Others need an operator that can read.
    let_operator_read(&world.plane, true).await?;
    stays?;
    scenario.expect("web", &Tally::none().running(&card, 1)).await
}
