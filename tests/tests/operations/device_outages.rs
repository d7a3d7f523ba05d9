//! Devices and claims while parts of the cluster come and go: slices, the operator, and the types themselves. Each test has a control
//! plane of its own.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use cardgate_tests::cardgate::Cardgate;
use cardgate_tests::controlplane::{ControlPlane, Options};
use cardgate_tests::devices::{self, NVIDIA, by_name, by_template, card_has, exactly, gpus};
use cardgate_tests::nodes;
use cardgate_tests::scenario::Scenario;
use cardgate_tests::tally::{Tally, is_gated};
use cardgate_tests::wait::{self, Seen};
use cardgate_tests::world::World;
use crds::card_usage::CardUsage;
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::resource::v1::{ResourceClaim, ResourceSlice};
use kube::api::{DeleteParams, ListParams};
use kube::runtime::watcher;
use kube::{Api, ResourceExt as _};

type Outcome = anyhow::Result<()>;

const NO_QUOTA: &str = "InsufficientScalarQuota";

/// How many devices the claims of a namespace have, and the most that they ever had at once, by a watch of its own.
#[derive(Debug, Default)]
struct Watched {
    now: AtomicUsize,
    most: AtomicUsize,
}

impl Watched {
    /// Begins to watch; ends with the task that is returned.
    fn begin(claims: Api<ResourceClaim>) -> (Arc<Self>, tokio::task::JoinHandle<()>) {
        let watched = Arc::new(Self::default());
        let told = Arc::clone(&watched);
        let task = tokio::spawn(async move {
            let mut given = HashMap::<String, usize>::new();
            let mut events = watcher(claims, watcher::Config::default()).boxed();
            while let Some(event) = events.next().await {
                match event {
                    Ok(watcher::Event::Apply(claim) | watcher::Event::InitApply(claim)) => {
                        let allocation = claim.status.as_ref().and_then(|status| status.allocation.as_ref());
                        let results = allocation.and_then(|allocation| allocation.devices.as_ref()?.results.as_ref());
                        given.insert(claim.name_any(), results.map_or(0, Vec::len));
                    }
                    Ok(watcher::Event::Delete(claim)) => {
                        given.remove(&claim.name_any());
                    }
                    Ok(watcher::Event::Init | watcher::Event::InitDone) | Err(_) => {}
                }
                let now = given.values().sum();
                told.now.store(now, Ordering::SeqCst);
                told.most.fetch_max(now, Ordering::SeqCst);
            }
        });
        (watched, task)
    }
}

/// How many pods are no longer held.
async fn let_in(scenario: &Scenario<'_>) -> anyhow::Result<usize> {
    let pods = scenario.api::<Pod>().list(&ListParams::default()).await?;
    Ok(pods.items.iter().filter(|pod| !is_gated(pod)).count())
}

/// Waits until the scenario's queue is charged for so many of a card, after the operator has said anything at all.
async fn charged(world: &World, scenario: &Scenario<'_>, card: &str, count: i64) -> Outcome {
    let usages: Api<CardUsage> = Api::all(world.plane.client().await?);
    let what = format!("{count} of {card} charged");
    wait::object(&usages, scenario.name(), what, |found| {
        let status = found.and_then(|found| found.status.as_ref());
        let cards = status.map(|status| status.cards.clone()).unwrap_or_default();
        let is_charged = cards.iter().any(|of| of.name == card && of.allocated == count);
        Seen::when(is_charged, format!("{cards:?}"))
    })
    .await
}

/// Never more cards are allocated than there is quota for, as the scheduler itself writes it, whatever the order of events, and though
/// the operator is killed in the middle.
#[tokio::test]
async fn a_burst_of_claims_is_never_given_more_than_the_quota() -> Outcome {
    const CLAIMS: i32 = 500;
    const QUOTA: usize = 60;
    let world = World::start().await?;
    devices::classes(&world.plane).await?;
    let scenario = Scenario::begin(&world, "burst").await?;
    let a100 = scenario.card("NVIDIA-A100");
    let products: Vec<_> = (0..12).map(|_| (&*a100, 8)).collect();
    devices::nodes(&scenario, &world, &products).await?;
    card_has(&world, &a100, |status| status.total == 96).await?;
    scenario
        .apply_queue(scenario.queue().quota(&a100, QUOTA as u64))
        .await?;
    devices::template(&world, &scenario, "one", &exactly(NVIDIA, 1, Some(&a100))).await?;
    let (watched, task) = Watched::begin(scenario.api());
    scenario
        .create(&by_template(scenario.pod("burst"), "one").deployment(CLAIMS))
        .await?;
    for least in [QUOTA / 4, QUOTA / 2] {
        wait::eventually(format!("{least} allocated"), wait::PATIENCE * 4, async || {
            let now = watched.now.load(Ordering::SeqCst);
            Ok(Seen::when(now >= least, format!("{now}")))
        })
        .await?;
        // Killed, and begun anew.
        world.cardgate.operator().restart().await?;
    }
    wait::eventually("a full quota", wait::PATIENCE * 4, async || {
        let now = watched.now.load(Ordering::SeqCst);
        Ok(Seen::when(now >= QUOTA, format!("{now} allocated")))
    })
    .await?;
    let waiting = usize::try_from(CLAIMS)? - QUOTA;
    let expected = Tally::none().running(&a100, QUOTA).waiting(NO_QUOTA, waiting);
    wait::eventually("all others to wait", wait::PATIENCE * 4, async || {
        scenario.expect("burst", &expected).await.map(Seen::Done)
    })
    .await?;
    scenario.expect_for_good("burst", &expected).await?;
    assert_eq!(watched.most.load(Ordering::SeqCst), QUOTA);
    task.abort();
    Ok(())
}

/// A driver that begins anew takes its slices away for a while: who runs on them is charged meanwhile, also by an operator that begins then.
#[tokio::test]
async fn slices_that_go_and_come_give_nothing_away() -> Outcome {
    let world = World::start().await?;
    devices::classes(&world.plane).await?;
    let scenario = Scenario::begin(&world, "slices").await?;
    let a100 = scenario.card("NVIDIA-A100");
    devices::nodes(&scenario, &world, &[(&a100, 4), (&a100, 4)]).await?;
    scenario.apply_queue(scenario.queue().quota(&a100, 3)).await?;
    devices::template(&world, &scenario, "one", &exactly(NVIDIA, 1, Some(&a100))).await?;
    let claiming = |name: &str| by_template(scenario.pod(name), "one");
    scenario.create(&claiming("runs").deployment(3)).await?;
    scenario.expect("runs", &Tally::none().running(&a100, 3)).await?;
    scenario.create(&claiming("waits").deployment(2)).await?;
    let waits = Tally::none().waiting(NO_QUOTA, 2);
    scenario.expect("waits", &waits).await?;

    let slices: Api<ResourceSlice> = Api::all(world.plane.client().await?);
    let slice = |index: usize| format!("slices-{index}-{NVIDIA}");
    slices.delete(&slice(0), &DeleteParams::default()).await?;
    card_has(&world, &a100, |status| status.total == 4).await?;
    scenario.expect_for_good("waits", &waits).await?;
    world.cardgate.operator().restart().await?;
    charged(&world, &scenario, &a100, 3).await?;
    scenario.expect_for_good("waits", &waits).await?;
    // All of them: the card is nobody's for a while, and charged nevertheless.
    slices.delete(&slice(1), &DeleteParams::default()).await?;
    for index in [0, 1] {
        let node = format!("slices-{index}");
        devices::publish(&world.plane, &node, NVIDIA, &gpus(&a100, 4)).await?;
    }
    card_has(&world, &a100, |status| (status.total, status.used) == (8, 3)).await?;
    scenario.expect_for_good("waits", &waits).await?;
    scenario.scale("runs", 1).await?;
    scenario.expect("waits", &Tally::none().running(&a100, 2)).await
}

/// On an API server that has no such types everything else works; where they come later, after it was renewed, so do claims.
#[tokio::test]
async fn types_that_come_later_are_taken_up_and_cost_nothing_before() -> Outcome {
    // Kubernetes' own scheduler needs the types.
    let options = Options::default().without_scheduler().without_devices();
    let plane = ControlPlane::start(options).await?;
    let cardgate = Cardgate::start(&plane).await?;
    let card = "NVIDIA-A100.later";
    plane.create_namespace("later", &[], &[]).await?;
    let labelled_node = nodes::nvidia("later-labels", card, 2, 81_920);
    plane
        .create_nodes(&[labelled_node, nodes::NodeSpec::new("later-0")])
        .await?;
    let world = World { cardgate, plane };
    let scenario = Scenario::of(&world, "later").await?;
    scenario.apply_queue(scenario.queue().quota(card, 3)).await?;
    for (name, count) in [("first", 1), ("second", 2)] {
        scenario.create(&scenario.gpu_pod(name, card, 1).build()).await?;
        wait::eventually(format!("{count} to be let in"), wait::PATIENCE, async || {
            let now = let_in(&scenario).await?;
            Ok(Seen::when(now == count, now.to_string()))
        })
        .await?;
    }
    let (status, ready) = world.cardgate.operator().readiness().await?;
    assert_eq!(status, 200, "{ready}");
    let World { cardgate, mut plane } = world;

    plane.kill_apiserver()?;
    plane.start_apiserver_with_devices().await?;
    // On a slow machine that takes longer than a lease: who does not lead any more ends, and is started again, as by its Deployment.
    let operator = cardgate.operator();
    wait::eventually("the operator to lead", wait::PATIENCE * 2, async || {
        operator.revive()?;
        let (status, text) = operator.readiness().await?;
        let leads = operator.metric("cardgate_leader").await?;
        Ok(Seen::when(
            status == 200 && leads == Some(1.0),
            format!("{status} {text}, leads: {leads:?}"),
        ))
    })
    .await?;
    cardgate.await_door(&plane).await?;
    let world = World { cardgate, plane };
    let scenario = Scenario::of(&world, "later").await?;
    devices::classes(&world.plane).await?;
    devices::publish(&world.plane, "later-0", NVIDIA, &gpus(card, 4)).await?;
    wait::eventually("the devices to be seen", wait::PATIENCE * 4, async || {
        card_has(&world, card, |status| status.total == 6).await.map(Seen::Done)
    })
    .await?;
    for (name, count) in [("mine", 1), ("large", 2)] {
        devices::claim(&world, &scenario, name, &exactly(NVIDIA, count, Some(card))).await?;
    }
    scenario
        .create(&by_name(scenario.pod("large"), "large").build())
        .await?;
    scenario.waits("large", NO_QUOTA).await?;
    scenario.create(&by_name(scenario.pod("mine"), "mine").build()).await?;
    wait::eventually("the claim to be let in", wait::PATIENCE, async || {
        let now = let_in(&scenario).await?;
        Ok(Seen::when(now == 3, now.to_string()))
    })
    .await
}
