//! `kubectl card uninstall`: releases everything that Cardgate holds, then removes Cardgate, in the order that is safe.

use std::io::{self, IsTerminal as _, Write as _};

use crds::keys::NAMESPACE;
use removal::Removal;

use crate::cluster::Cluster;
use crate::failure::Failure;
use crate::print::Answer;

/// What a user types to confirm.
const YES: &str = "yes";

/// Removes Cardgate, if the user confirms it.
pub async fn answer(cluster: &Cluster, removal: &Removal, is_sure: bool) -> Result<Answer, Failure> {
    cluster.check_reachable().await?;
    if !is_sure && !removal.dry_run {
        confirm(removal.queues)?;
    }
    // Shows progress: what the removal reports of each step.
    let progress = tracing_subscriber::fmt()
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal())
        .with_target(false)
        .without_time();
    // An error means that a subscriber is installed already.
    let _ = progress.try_init();
    let removed = removal::run(&cluster.client(), NAMESPACE, removal).await;
    removed.map_err(|error| Failure::Removal(error.to_string()))?;
    Ok(Answer::text(if removal.dry_run {
        "Nothing was changed.\n".to_owned()
    } else {
        "Cardgate is removed. What waited comes to the scheduler now.\n".to_owned()
    }))
}

/// Asks the user at the terminal.
fn confirm(queues: bool) -> Result<(), Failure> {
    if !io::stdin().is_terminal() {
        return Err(Failure::NotSure);
    }
    let more = if queues {
        ", and all queues and groups with it"
    } else {
        ""
    };
    eprint!(
        "This removes Cardgate from the cluster{more}. Everything that waits for quota comes to the scheduler at once; the configuration \
         is lost. Write {YES} to go on: "
    );
    let mut said = String::new();
    let read = io::stderr().flush().and_then(|()| io::stdin().read_line(&mut said));
    match read {
        Ok(_) if said.trim() == YES => Ok(()),
        _ => Err(Failure::NotSure),
    }
}
