//! A control plane with Cardgate in it, shared by all tests of a process: starting one costs seconds.
//!
//! Tests that share it keep out of each other's way by their own namespace, queues and card names. Those that kill,
//! reconfigure or measure Cardgate start their own.

use anyhow::{Error, Result};
use tokio::sync::OnceCell;

use crate::cardgate::{Cardgate, Settings};
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

    /// Starts a world of one's own in which Cardgate has other settings.
    pub async fn start_cardgate_with(settings: Settings) -> Result<Self> {
        let plane = ControlPlane::start(Options::default()).await?;
        let cardgate = Cardgate::start_with(&plane, settings).await?;
        Ok(Self { cardgate, plane })
    }

    /// The world that all tests of this process share. It ends with the process. If it fails to start, it fails for all
    /// tests: trying again for each would take minutes to say the same.
    pub async fn shared() -> Result<&'static Self> {
        static SHARED: OnceCell<Result<World, String>> = OnceCell::const_new();
        let start = async || Self::start().await.map_err(|error| format!("{error:#}"));
        SHARED.get_or_init(start).await.as_ref().map_err(Error::msg)
    }
}
