//! Queues among others on a real control plane: borrowing and giving back, guarantees, hierarchies. The scenarios share one
//! control plane and one configuration, each with queues and cards of its own; that which ends the operator has another one.

mod claims;
mod devices;
mod gangs;
mod hierarchy;
mod reclaim;

use cardgate_tests::nodes;
use cardgate_tests::scenario::Scenario;
use cardgate_tests::workloads::{QueueBuilder, queue};
use cardgate_tests::world::World;
use crds::keys::{CARD_DESERVED, CARD_GUARANTEE};
use serde_json::json;
use tokio::sync::OnceCell;

type Outcome = anyhow::Result<()>;

/// The reason of pods that wait for quota.
const NO_QUOTA: &str = "InsufficientScalarQuota";
/// The reason of pods whose queue may have more than is free.
const NO_ROOM: &str = "NoNodeFits";

const CONFIGURATION: &str = "actions: \"enqueue, allocate, backfill, reclaim, preempt\"\n\
     tiers:\n\
     - plugins:\n  \
       - name: capacity-card\n    \
         arguments:\n      \
           cardUnlimitedCpuMemory: true\n      \
           enableHierarchy: true\n      \
           guaranteeThreshold: 100\n      \
           reclaimInterval: 1\n";

/// The world, configured for these scenarios.
async fn world() -> anyhow::Result<&'static World> {
    static CONFIGURED: OnceCell<()> = OnceCell::const_new();
    let world = World::shared().await?;
    CONFIGURED
        .get_or_try_init(|| world.cardgate.configure(&world.plane, Some(CONFIGURATION), None))
        .await?;
    Ok(world)
}

/// A world of one's own, configured likewise.
async fn own_world() -> anyhow::Result<World> {
    let world = World::start().await?;
    world
        .cardgate
        .configure(&world.plane, Some(CONFIGURATION), None)
        .await?;
    Ok(world)
}

/// A further queue of a scenario.
fn queue_of(scenario: &Scenario<'_>, suffix: &str) -> QueueBuilder {
    queue(&format!("{}-{suffix}", scenario.name()))
}

/// A queue that may have `quota` cards, and deserves and is guaranteed so many.
fn shares(queue: QueueBuilder, card: &str, quota: u64, deserved: Option<u64>, guarantee: u64) -> QueueBuilder {
    let queue = queue
        .quota(card, quota)
        .annotation(CARD_GUARANTEE, &json!({ card: guarantee }).to_string());
    deserved.into_iter().fold(queue, |queue, deserved| {
        queue.annotation(CARD_DESERVED, &json!({ card: deserved }).to_string())
    })
}

/// A node of 8 cards, and two queues that deserve half of them each and may have all: the scenario's own, and its `b`.
async fn halves<'w>(world: &'w World, name: &str) -> anyhow::Result<(Scenario<'w>, String)> {
    let scenario = Scenario::begin(world, name).await?;
    let card = scenario.card("NVIDIA-A100");
    scenario.nodes(&[nodes::nvidia(name, &card, 8, 81_920)]).await?;
    for queue in [scenario.queue(), queue_of(&scenario, "b")] {
        scenario.apply_queue(shares(queue, &card, 8, Some(4), 0)).await?;
    }
    Ok((scenario, card))
}
