//! `kubectl card ui`: cards, nodes, queues and why something waits, as pages on the user's own machine, with the user's own
//! rights.

mod access;
mod page;
mod server;
mod views;

use std::net::{Ipv4Addr, SocketAddr};

use crate::cluster::Cluster;
use crate::failure::Failure;
use crate::print::Answer;
use access::Key;

/// Serves the pages until the user ends it.
pub async fn serve(cluster: Cluster, port: u16) -> Result<Answer, Failure> {
    // A user without the right to ask is told here, not by a page.
    cluster.card_types().await?;
    let unserved = |error: &dyn std::error::Error| Failure::Ui(error.to_string());
    let key = Key::new().map_err(|error| unserved(&error))?;
    let bound = server::Bound::to(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    let bound =
        bound.map_err(|error| Failure::Ui(format!("{error}; --port names another port, 0 any that is free")))?;
    eprintln!("Open {} (Ctrl-C ends it).", key.address(bound.address));
    eprintln!("Whoever has this address reads what you may read in the cluster.");
    let served = bound.serve(cluster, key).await;
    served.map_err(|error| unserved(&error))?;
    Ok(Answer::default())
}
