//! The operator: discovers cards, admits waiting pods within their queues' quotas, and shows the cluster's cards and usage.

use engine::decide;
use operator::cli::{Cli, Task};
use operator::{program, uninstall};
use programs::flags;

#[tokio::main(worker_threads = 2)]
async fn main() -> anyhow::Result<()> {
    let cli: Cli = flags::read();
    match &cli.task {
        None => program::run(cli, decide::decide_watched).await,
        Some(Task::Uninstall(wanted)) => uninstall::run_once(&cli.common, wanted).await,
    }
}
