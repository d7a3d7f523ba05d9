//! The program that removes Cardgate and ends; the removal itself is in [`removal`].

use clap::Args;
use programs::certificates::provider;
use programs::flags::CommonFlags;
use programs::{connect, logging};
use removal::Removal;

/// What is removed, and how.
#[derive(Debug, Clone, Default, Args)]
#[expect(
    clippy::doc_markdown,
    reason = "these are the words of --help, which shows backticks as they are"
)]
pub struct Uninstall {
    /// Change nothing; say what would be done
    #[arg(long, env = "UNINSTALL_DRY_RUN")]
    pub dry_run: bool,

    /// Remove the definitions of Queue and PodGroup too, with all queues and groups, where Cardgate's overlay without Volcano
    /// brought them
    #[arg(long, env = "UNINSTALL_QUEUES")]
    pub queues: bool,
}

/// The program that removes Cardgate and ends.
pub async fn run_once(flags: &CommonFlags, uninstall: &Uninstall) -> anyhow::Result<()> {
    logging::start(env!("CARGO_CRATE_NAME"), flags.log_format)?;
    let installed = provider().install_default();
    installed.map_err(|_| anyhow::anyhow!("a crypto provider is already installed"))?;
    let removal = Removal {
        dry_run: uninstall.dry_run,
        queues: uninstall.queues,
    };
    Ok(removal::run(&connect().await?, &flags.pod_namespace, &removal).await?)
}
