//! A control plane with Cardgate in it, shared by all tests of a process: starting one costs seconds.
//!
//! Tests that share it keep out of each other's way by their own namespace, queues and card names. Those that kill,
//! reconfigure or measure Cardgate start their own.

use anyhow::Result;
use tokio::sync::OnceCell;

use crate::cardgate::Cardgate;
use crate::controlplane::{ControlPlane, Options};

/// A control plane and the Cardgate in it.
#[derive(Debug)]
pub struct World {
    // First, so that it ends first.
    /// Cardgate, installed without Volcano and running.
    pub cardgate: Cardgate,
    /// The control plane.
    pub plane: ControlPlane,
}

impl World {
    /// Starts a world of one's own.
    pub async fn start() -> Result<Self> {
        Self::start_with(Options::default()).await
    }

    /// Starts a world of one's own with other options of the control plane.
    pub async fn start_with(options: Options) -> Result<Self> {
        let plane = ControlPlane::start(options).await?;
        let cardgate = Cardgate::start(&plane).await?;
        Ok(Self { cardgate, plane })
    }

    /// The world that all tests of this process share. It ends with the process.
    pub async fn shared() -> Result<&'static Self> {
        static SHARED: OnceCell<World> = OnceCell::const_new();
        SHARED.get_or_try_init(Self::start).await
    }
}
