//! The operator: discovers cards, lets waiting pods in within their queues' quotas, and shows what there is.

use operator::cli::Cli;
use operator::{decide, program};

#[tokio::main(worker_threads = 2)]
async fn main() -> anyhow::Result<()> {
    program::run(Cli::read(), decide::decide_watched).await
}
