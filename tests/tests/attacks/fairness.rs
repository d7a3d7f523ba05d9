//! Requests are not all equal: what one tenant asks for and can't have costs the others no time.

use std::time::{Duration, Instant};

use cardgate_tests::cardgate::NAMESPACE;
use cardgate_tests::nodes;
use cardgate_tests::scenario::Scenario;
use cardgate_tests::tally::is_gated;
use cardgate_tests::wait::{self, Seen};
use cardgate_tests::workloads::{pod, queue};
use cardgate_tests::world::World;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use operator::lease::LEASE;
use serde_json::json;

use super::Outcome;
use super::tenant::Tenant;

/// Pods that one tenant makes and has no quota for.
const PODS: usize = 500;
/// How many of them are made at once.
const AT_ONCE: usize = 16;
/// Pods of another tenant, while they are made and after.
const TRIES: usize = 10;
/// What the others may cost one pod, on a machine that is busy with making and telling them.
const MOST: Duration = Duration::from_secs(3);

/// Makes a pod that there is quota for, and says how long after the answer to its creation it was let in.
async fn admission(scenario: &Scenario<'_>, name: &str, card: &str) -> anyhow::Result<Duration> {
    scenario.create(&scenario.gpu_pod(name, card, 1).build()).await?;
    let begin = Instant::now();
    wait::object(&scenario.api::<Pod>(), name, "its admission", |pod| {
        Seen::when(pod.is_some_and(|pod| !is_gated(pod)), "it waits")
    })
    .await?;
    Ok(begin.elapsed())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_hundred_pods_over_quota_delay_another_tenants_pod_by_less_than_three_seconds() -> Outcome {
    let world = World::start().await?;
    let victim = Scenario::begin(&world, "victim").await?;
    let card = victim.card("NVIDIA-A100");
    let nodes: Vec<_> = (0..8)
        .map(|index| nodes::nvidia(&format!("victim-{index}"), &card, 8, 81_920))
        .collect();
    victim.nodes(&nodes).await?;
    victim.apply_queue(victim.queue().quota(&card, 64)).await?;
    world.plane.create_namespace("attacker", &[], &[]).await?;
    // Before the victim's by every rule: of higher priority, and with nothing in use.
    world
        .plane
        .apply(&queue("attacker").quota(&card, 0).field("priority", json!(10)).build())
        .await?;
    let tenant = Tenant::of(&world.plane, "attacker").await?;
    let leases: Api<Lease> = Api::namespaced(world.plane.client().await?, NAMESPACE);
    let led = leases.get(LEASE).await?.spec.unwrap_or_default();

    let mut alone = Duration::ZERO;
    for number in 0..TRIES {
        alone = alone.max(admission(&victim, &format!("alone-{number}"), &card).await?);
    }
    // Pods that nothing has in common with another, and pods that are all alike.
    for alike in [false, true] {
        let over_quota = |number: usize| {
            let millis = if alike { 100 } else { 100 + number };
            let name = format!("{}-{number}", if alike { "alike" } else { "other" });
            let pod = pod(&name).namespace("attacker").queue("attacker");
            pod.card(&card)
                .request("nvidia.com/gpu", 1)
                .request("cpu", format!("{millis}m"))
                .build()
        };
        let attack = async {
            let made = stream::iter(0..PODS).map(|number| {
                let pod = over_quota(number);
                let tenant = &tenant;
                async move { tenant.create(&pod).await }
            });
            made.buffer_unordered(AT_ONCE).try_collect::<Vec<_>>().await
        };
        let tries = async {
            let mut slowest = Duration::ZERO;
            for number in 0..TRIES {
                let name = format!("beside-{alike}-{number}");
                slowest = slowest.max(admission(&victim, &name, &card).await?);
            }
            anyhow::Ok(slowest)
        };
        let begin = Instant::now();
        let (made, during) = tokio::join!(attack, tries);
        made?;
        let attack = begin.elapsed();
        let mut slowest = during?;
        // What comes of them goes on: each is told why it waits.
        for number in 0..TRIES {
            slowest = slowest.max(admission(&victim, &format!("after-{alike}-{number}"), &card).await?);
        }
        println!("alike: {alike}, made in {attack:?}; alone {alone:?}, beside them {slowest:?}");
        assert!(
            slowest < alone + MOST,
            "{slowest:?} beside {PODS} pods over quota (alike: {alike}), {alone:?} without them"
        );
    }
    let leads = leases.get(LEASE).await?.spec.unwrap_or_default();
    assert_eq!(leads.holder_identity, led.holder_identity);
    assert_eq!(leads.lease_transitions, led.lease_transitions);
    let metrics = world.cardgate.operator().metrics().await?;
    for line in metrics
        .lines()
        .filter(|line| line.starts_with("cardgate_slow_rounds_total"))
    {
        println!("{line}");
    }
    Ok(())
}
