//! The operator: discovers cards, lets waiting pods in within their queues' quotas, and shows what there is.

use engine::decide;
use operator::program;
use programs::flags;

#[tokio::main(worker_threads = 2)]
async fn main() -> anyhow::Result<()> {
    program::run(flags::read(), decide::decide_watched).await
}
