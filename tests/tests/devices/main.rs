//! Cards by Dynamic Resource Allocation on a real control plane: its claim controller makes the claims, its scheduler allocates. The
//! drivers' part, publishing slices, is done by hand. The scenarios share one control plane and its device classes.

mod claims;
mod door;
mod free_devices;
mod kinds;
mod several_cards;
mod several_nodes;
mod sharing;

use cardgate_tests::devices::{
    FPGA, MIG, NVIDIA, allocated, by_name, by_template, card_has, claim, exactly, form, migs, nodes, publish, template,
};
use cardgate_tests::tally::Tally;
use cardgate_tests::world::World;
use tokio::sync::OnceCell;

type Outcome = anyhow::Result<()>;

/// The reason of pods that wait for quota.
const NO_QUOTA: &str = "InsufficientScalarQuota";

/// The world, with the device classes that NVIDIA's driver installs, and one of another's.
async fn world() -> anyhow::Result<&'static World> {
    static CLASSES: OnceCell<()> = OnceCell::const_new();
    let world = World::shared().await?;
    CLASSES
        .get_or_try_init(|| cardgate_tests::devices::classes(&world.plane))
        .await?;
    Ok(world)
}

fn pods() -> Tally {
    Tally::none()
}
