//! How much Cardgate writes, by the API server's own audit log. Each test has a control plane of its own.

use std::time::{Duration, Instant};

use cardgate_tests::cardgate::Cardgate;
use cardgate_tests::controlplane::{ControlPlane, Options};
use cardgate_tests::nodes;
use cardgate_tests::scenario::Scenario;
use cardgate_tests::tally::Tally;
use cardgate_tests::wait::{self, Seen};
use cardgate_tests::world::World;
use crds::card_inventory::CardInventory;
use crds::card_type::CardType;
use crds::card_usage::CardUsage;
use crds::slug::slug;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;

type Outcome = anyhow::Result<()>;

/// For how long the operator writes nothing when it has nothing more to write.
const QUIET: Duration = Duration::from_secs(3);

/// What the operator wrote after the first `before` writes of the log, as `verb resource/subresource name`; not its Lease.
fn writes(plane: &ControlPlane, before: usize) -> anyhow::Result<Vec<String>> {
    let operator = Cardgate::operator_account().user();
    let log = plane.audit_log()?;
    let of_operator = log.iter().skip(before).filter(|write| write.user() == operator);
    let texts = of_operator.filter_map(|write| {
        let target = write.object_ref.as_ref()?;
        (target.resource != "leases").then(|| {
            let subresource = if target.subresource.is_empty() { "" } else { "/" };
            format!(
                "{} {}{subresource}{} {}",
                write.verb, target.resource, target.subresource, target.name
            )
        })
    });
    Ok(texts.collect())
}

/// Waits until the operator has nothing more to write, and returns the length of the log, which follows what watches show.
async fn settled(plane: &ControlPlane) -> anyhow::Result<usize> {
    let mut last = (0, Instant::now());
    wait::eventually(
        "the operator to have nothing more to write",
        wait::PATIENCE,
        async || {
            let length = plane.audit_log()?.len();
            let written = writes(plane, 0)?.len();
            if written != last.0 {
                last = (written, Instant::now());
            }
            Ok(if last.1.elapsed() >= QUIET {
                Seen::Done(length)
            } else {
                Seen::NotYet(format!("{written} writes"))
            })
        },
    )
    .await
}

/// Waits until the card type has so many nodes and cards.
async fn await_type(plane: &ControlPlane, card: &str, counts: (i64, i64)) -> Outcome {
    let types: Api<CardType> = Api::all(plane.client().await?);
    wait::object(&types, &slug(card), format!("{counts:?}"), |found| {
        let status = found.and_then(|found| found.status.as_ref());
        let now = status.map(|status| (status.nodes, status.total));
        Seen::when(now == Some(counts), format!("{now:?}"))
    })
    .await
}

#[tokio::test]
async fn idle_nodes_with_heartbeats_cause_no_write() -> Outcome {
    const NODES: usize = 30;
    let world = World::start_with(Options::default().audit()).await?;
    let plane = &world.plane;
    let specs: Vec<_> = (0..NODES)
        .map(|index| nodes::nvidia(&format!("idle-{index}"), "NVIDIA-A100", 8, 81_920))
        .collect();
    plane.create_nodes(&specs).await?;
    let api: Api<CardInventory> = Api::all(plane.client().await?);
    for spec in &specs {
        wait::object(&api, spec.name(), "8 free cards", |found| {
            let free = found.and_then(|found| Some(found.status.as_ref()?.free));
            Seen::when(free == Some(8), format!("{free:?}"))
        })
        .await?;
    }
    await_type(plane, "NVIDIA-A100", (30, 240)).await?;
    let before = settled(plane).await?;

    let nodes: Api<Node> = Api::all(plane.client().await?);
    for _ in 0..3 {
        for spec in &specs {
            // As a kubelet reports every few minutes: times, and details that are none of Cardgate's business.
            let heartbeat = json!({ "status": {
                "conditions": [{ "type": "Ready", "status": "True", "lastHeartbeatTime": Timestamp::now() }],
                "images": [{ "names": [format!("image@{}", Timestamp::now())], "sizeBytes": 1 }],
            }});
            nodes
                .patch_status(spec.name(), &PatchParams::default(), &Patch::Strategic(heartbeat))
                .await?;
        }
    }
    // A change that matters shows that all that came before it has been seen.
    plane
        .set_allocatable("idle-0", &[("nvidia.com/gpu", Some("7"))])
        .await?;
    wait::object(&api, "idle-0", "7 cards", |found| {
        let total = found.and_then(|found| Some(found.status.as_ref()?.total));
        Seen::when(total == Some(7), format!("{total:?}"))
    })
    .await?;
    await_type(plane, "NVIDIA-A100", (30, 239)).await?;
    let card_type = format!("patch cardtypes/status {}", slug("NVIDIA-A100"));
    let expected = ["patch cardinventories/status idle-0", card_type.as_str()];
    let written = || {
        let mut written = writes(plane, before)?;
        written.sort_unstable();
        anyhow::Ok(written)
    };
    wait::eventually("both writes to be in the log", wait::PATIENCE, async || {
        let written = written()?;
        Ok(Seen::when(written == expected, format!("{written:?}")))
    })
    .await?;
    // And no others.
    settled(plane).await?;
    assert_eq!(written()?, expected);
    Ok(())
}

#[tokio::test]
async fn an_admission_is_one_write_and_so_is_each_thing_that_a_waiting_pod_is_told() -> Outcome {
    let world = World::start_with(Options::default().audit()).await?;
    let plane = &world.plane;
    let scenario = Scenario::begin(&world, "counted").await?;
    let card = scenario.card("NVIDIA-A100");
    scenario.nodes(&[nodes::nvidia("counted", &card, 8, 81_920)]).await?;
    scenario.apply_queue(scenario.queue().quota(&card, 6)).await?;
    await_type(plane, &card, (1, 8)).await?;
    let usages: Api<CardUsage> = Api::all(plane.client().await?);
    wait::object(&usages, "counted", "existence", |usage| {
        Seen::when(usage.is_some(), "none")
    })
    .await?;
    let before = plane.audit_log()?.len();

    scenario
        .create(&scenario.gpu_pod("web", &card, 1).deployment(6))
        .await?;
    scenario.expect("web", &Tally::none().running(&card, 6)).await?;
    scenario.create(&scenario.gpu_pod("late", &card, 1).build()).await?;
    scenario.waits("late", "InsufficientScalarQuota").await?;
    scenario.events("late", "InsufficientScalarQuota").await?;
    // One more may come in, and one more waits.
    scenario.apply_queue(scenario.queue().quota(&card, 7)).await?;
    scenario.expect("late", &Tally::none().running(&card, 1)).await?;
    scenario.scale("web", 7).await?;
    scenario
        .expect(
            "web",
            &Tally::none().running(&card, 6).waiting("InsufficientScalarQuota", 1),
        )
        .await?;
    let counts = async || {
        let written = writes(plane, before)?;
        let count = |what: &str| written.iter().filter(|write| write.starts_with(what)).count();
        anyhow::Ok((
            count("patch pods "),
            count("patch pods/status "),
            count("create events "),
            count("create pods/eviction "),
        ))
    };
    // Each that waited has a condition for it and an event, and the one that was let in afterwards a second of each.
    wait::eventually("7 admissions, 3 conditions and 3 events", wait::PATIENCE, async || {
        let now = counts().await?;
        Ok(Seen::when(now == (7, 3, 3, 0), format!("{now:?}")))
    })
    .await?;
    Ok(())
}
