//! The demo: a cluster with the nodes that real clusters have, Cardgate installed in it as a user would, and the
//! Capacity Card document's examples, each command with its real output.

mod examples;
mod stage;
mod terminal;

use anyhow::{Context, Result};
use tokio::signal::unix::{SignalKind, signal};

use self::stage::Stage;
use self::terminal::Record;

/// Runs the demo. Returns whether everything had the expected effect. With `once` it ends after the examples, else it
/// stays until Ctrl-C.
pub async fn run(once: bool) -> Result<bool> {
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen to Ctrl-C")?;
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen to SIGTERM")?;
    let mut record = Record::new();
    // Whenever it ends, the stage goes, and everything on it.
    tokio::select! {
        outcome = perform(&mut record, once) => outcome?,
        _ = interrupt.recv() => terminal::say("\ninterrupted: everything is shut down"),
        _ = terminate.recv() => terminal::say("\nterminated: everything is shut down"),
    }
    record.finish();
    Ok(record.failures().is_empty())
}

async fn perform(record: &mut Record, once: bool) -> Result<()> {
    let mut stage = Stage::set(record).await?;
    examples::show(&mut stage).await?;
    if !once {
        stage.explain();
        std::future::pending::<()>().await;
    }
    Ok(())
}
