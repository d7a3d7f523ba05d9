//! A mind that hangs or falls over what somebody wrote. Cardgate should have no such place, so these operators stumble on
//! purpose (`stumbling-operator`): what happens then is the operator's own.

use std::time::{Duration, Instant};

use cardgate_tests::cardgate::{NAMESPACE, Settings};
use cardgate_tests::nodes;
use cardgate_tests::scenario::Scenario;
use cardgate_tests::tally::Tally;
use cardgate_tests::wait::{self, Seen};
use cardgate_tests::workloads::{QueueBuilder, pod, queue};
use cardgate_tests::world::World;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::DeleteParams;
use operator::lease::{LEASE, TERM};
use operator::pulse::SILENCE;

use super::Outcome;
use super::tenant::Tenant;

/// The reason of pods that the mind keeps off.
const SET_ASIDE: &str = "SetAside";

async fn stumbling_world() -> anyhow::Result<World> {
    let program = env!("CARGO_BIN_EXE_stumbling-operator").into();
    World::start_cardgate_with(Settings {
        operator_program: Some(program),
        ..Settings::default()
    })
    .await
}

/// A victim with a queue, and cards for it.
async fn victim(world: &World) -> anyhow::Result<(Scenario<'_>, String)> {
    let scenario = Scenario::begin(world, "victim").await?;
    let card = scenario.card("NVIDIA-A100");
    scenario.nodes(&[nodes::nvidia("victim-1", &card, 8, 81_920)]).await?;
    let roomy: QueueBuilder = scenario.queue().quota(&card, 8);
    scenario.apply_queue(roomy).await?;
    Ok((scenario, card))
}

/// An attacker with a queue without any quota.
async fn attacker<'a>(world: &'a World, card: &str) -> anyhow::Result<(Scenario<'a>, Tenant)> {
    let scenario = Scenario::begin(world, "attacker").await?;
    world.plane.apply(&queue("attacker").quota(card, 0).build()).await?;
    let tenant = Tenant::of(&world.plane, "attacker").await?;
    Ok((scenario, tenant))
}

fn over_quota(name: &str, card: &str) -> Pod {
    let pod = pod(name).namespace("attacker").queue("attacker");
    pod.card(card).request("nvidia.com/gpu", 1).build()
}

/// Who holds the Lease, and how often it changed hands.
async fn leader(world: &World) -> anyhow::Result<(Option<String>, Option<i32>)> {
    let leases: Api<Lease> = Api::namespaced(world.plane.client().await?, NAMESPACE);
    let spec = leases.get(LEASE).await?.spec.unwrap_or_default();
    let holder = spec.holder_identity.filter(|holder| !holder.is_empty());
    Ok((holder, spec.lease_transitions))
}

async fn expect_metric(world: &World, series: &str, expected: f64) -> Outcome {
    wait::eventually(series, wait::PATIENCE, async || {
        let now = world.cardgate.operator().metric(series).await?;
        Ok(Seen::when(now == Some(expected), format!("{now:?}, not {expected}")))
    })
    .await
}

#[tokio::test]
async fn a_pod_that_the_mind_stumbles_over_is_set_aside_and_everybody_else_goes_on() -> Outcome {
    let world = stumbling_world().await?;
    let (victim, card) = victim(&world).await?;
    let (attacker, tenant) = attacker(&world, &card).await?;
    let operator = world.cardgate.operator();
    let (pid, led) = (operator.pid(), leader(&world).await?);
    victim.create(&victim.gpu_pod("before", &card, 1).build()).await?;
    victim.expect("before", &Tally::none().running(&card, 1)).await?;

    // One over which the mind panics, and one that it would judge for ever.
    for (name, how, word) in [
        ("falls-1", "fell", "fell"),
        ("stands-still-1", "stood_still", "stood_still"),
    ] {
        tenant.create(&over_quota(name, &card)).await?;
        let condition = attacker.waits(name, SET_ASIDE).await?;
        let message = condition.message.unwrap_or_default();
        for part in ["set aside", "looked at again when it is changed", word] {
            assert!(message.contains(part), "{part:?} is missing: {message}");
        }
        attacker.events(name, SET_ASIDE).await?;
        expect_metric(&world, &format!("cardgate_stumbles_total{{how=\"{how}\"}}"), 1.0).await?;
        // Everybody else: whoever came meanwhile, and what runs is still counted.
        let after = format!("after-{name}");
        victim.create(&victim.gpu_pod(&after, &card, 3).build()).await?;
        victim.expect(&after, &Tally::none().running(&card, 1)).await?;
    }
    expect_metric(&world, "cardgate_set_aside{kind=\"Pod\"}", 2.0).await?;
    // Who is gone is set aside no more.
    let pods = tenant.api::<Pod>();
    pods.delete("stands-still-1", &DeleteParams::default()).await?;
    expect_metric(&world, "cardgate_set_aside{kind=\"Pod\"}", 1.0).await?;
    victim.create(&victim.gpu_pod("too-many", &card, 2).build()).await?;
    victim.waits("too-many", "InsufficientScalarQuota").await?;

    // Whoever goes on with it is set aside with all that waits in the namespace; and nobody else.
    tenant.create(&over_quota("harmless", &card)).await?;
    attacker.waits("harmless", "InsufficientScalarQuota").await?;
    tenant.create(&over_quota("falls-2", &card)).await?;
    attacker.waits("harmless", SET_ASIDE).await?;
    tenant.create(&over_quota("falls-3", &card)).await?;
    attacker.waits("falls-3", SET_ASIDE).await?;
    expect_metric(&world, "cardgate_stumbles_total{how=\"fell\"}", 2.0).await?;
    victim.create(&victim.gpu_pod("last", &card, 1).build()).await?;
    victim.expect("last", &Tally::none().running(&card, 1)).await?;

    // One and the same process has led all the time, and ends as it should.
    assert_eq!((operator.pid(), leader(&world).await?), (pid, led));
    assert_eq!(operator.health().await?.0, 200);
    operator.terminate().await?;
    assert_eq!(leader(&world).await?.0, None);
    Ok(())
}

#[tokio::test]
async fn a_slow_mind_is_counted_and_a_silent_one_leads_until_the_kubelet_is_told() -> Outcome {
    let world = stumbling_world().await?;
    let (victim, card) = victim(&world).await?;
    let (_, tenant) = attacker(&world, &card).await?;
    let operator = world.cardgate.operator();
    let led = leader(&world).await?;

    tenant.create(&over_quota("dawdles", &card)).await?;
    wait::eventually("a slow round to be counted", wait::PATIENCE, async || {
        let counted = operator.metric("cardgate_slow_rounds_total{step=\"decide\"}").await?;
        // A busy machine may slow down others.
        Ok(Seen::when(
            counted.is_some_and(|counted| counted >= 1.0),
            format!("{counted:?}"),
        ))
    })
    .await?;
    wait::eventually("the slow round to be logged", wait::PATIENCE, async || {
        let log = operator.log()?;
        let slow = log.lines().filter(|line| line.contains("a slow round"));
        let slow: Vec<_> = slow.collect();
        let told = slow.iter().any(|line| line.contains("judging Pod attacker/dawdles"));
        Ok(Seen::when(told, format!("{slow:?}")))
    })
    .await?;
    victim.create(&victim.gpu_pod("meanwhile", &card, 1).build()).await?;
    victim.expect("meanwhile", &Tally::none().running(&card, 1)).await?;

    // It says of nothing that it is at it: nobody can be set aside, so the process is to be started anew.
    tenant.create(&over_quota("sleeps", &card)).await?;
    let begin = Instant::now();
    let (_, text) = wait::eventually("/healthz to fail", SILENCE + wait::PATIENCE, async || {
        let (status, text) = operator.health().await?;
        let leads = operator.metric("cardgate_leader").await?;
        anyhow::ensure!(leads == Some(1.0), "it no longer leads");
        Ok(if status == 503 {
            Seen::Done((status, text))
        } else {
            Seen::NotYet(format!("{status} {text}"))
        })
    })
    .await?;
    let silent = text.split_once("the deciding thread has not answered for ");
    let seconds: Option<u64> = silent.and_then(|(_, rest)| rest.split_once(" s")?.0.parse().ok());
    assert!(seconds.is_some_and(|seconds| seconds >= SILENCE.as_secs()), "{text}");
    assert!(text.contains("its step \"decide\""), "{text}");
    assert!(begin.elapsed() > 2 * TERM && begin.elapsed() < SILENCE + Duration::from_secs(10));
    assert_eq!(operator.readiness().await?.0, 503);
    // Much longer than others wait for a holder that is silent, it has led.
    assert_eq!(leader(&world).await?, led);

    // What the kubelet does then. What is stuck is not waited for, and the Lease is given back all the same.
    operator.terminate().await?;
    assert_eq!(leader(&world).await?.0, None);
    operator.start()?;
    wait::eventually("another process to lead", wait::PATIENCE, async || {
        Ok(Seen::when(
            operator.metric("cardgate_leader").await? == Some(1.0),
            "it does not",
        ))
    })
    .await
}
