//! The configuration, changed without a restart. It is the cluster's, so these scenarios share a control plane one after the
//! other.

mod beside_volcano;
mod claims;
mod cpu_memory;
mod documents;
mod invalid;
mod own;

use cardgate_tests::world::World;
use tokio::sync::{Mutex, MutexGuard};

type Outcome = anyhow::Result<()>;

/// The reason of pods that wait for quota.
const NO_QUOTA: &str = "InsufficientScalarQuota";

/// The world with this `volcano-scheduler.conf` and this `cardgate.yaml`, and the right to it while the guard lives.
async fn configured(
    scheduler_conf: Option<&str>,
    own: Option<&str>,
) -> anyhow::Result<(&'static World, MutexGuard<'static, ()>)> {
    static TURN: Mutex<()> = Mutex::const_new(());
    let turn = TURN.lock().await;
    let world = World::shared().await?;
    world.cardgate.configure(&world.plane, scheduler_conf, own).await?;
    Ok((world, turn))
}

/// The document's own configuration, with this `cardUnlimitedCpuMemory`.
fn capacity_card(unlimited: bool) -> String {
    format!(
        "actions: \"enqueue, allocate, backfill\"\n\
         tiers:\n\
         - plugins:\n  \
           - name: capacity-card\n    \
             arguments:\n      \
               cardUnlimitedCpuMemory: {unlimited}\n"
    )
}
