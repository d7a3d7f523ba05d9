//! What kube-proxy is to a Service: an address behind which every new connection goes to one of the replicas that are ready.
//! Connections that are open stay where they are.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use anyhow::{Context as _, Result};
use tokio::net::{TcpListener, TcpStream};

/// An address, and who is behind it. It ends with its runtime.
#[derive(Debug)]
pub struct Service {
    address: String,
    endpoints: Arc<RwLock<Vec<String>>>,
}

impl Service {
    /// Begins to forward connections, to nobody yet.
    pub async fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr().context("no address")?.to_string();
        let endpoints = Arc::new(RwLock::new(Vec::new()));
        let known = Arc::clone(&endpoints);
        tokio::spawn(async move {
            let turn = AtomicUsize::new(0);
            while let Ok((mut client, _)) = listener.accept().await {
                let chosen = {
                    let known: std::sync::RwLockReadGuard<'_, Vec<String>> =
                        known.read().unwrap_or_else(PoisonError::into_inner);
                    let turn = turn.fetch_add(1, Ordering::Relaxed);
                    known.get(turn % known.len().max(1)).cloned()
                };
                // Without endpoints the connection is closed, as a node without a rule for the Service refuses it.
                let Some(chosen) = chosen else { continue };
                tokio::spawn(async move {
                    if let Ok(mut replica) = TcpStream::connect(chosen).await {
                        // Either side may end it when it likes.
                        let _ = tokio::io::copy_bidirectional(&mut client, &mut replica).await;
                    }
                });
            }
        });
        Ok(Self { address, endpoints })
    }

    /// Where it listens.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// New connections go to these from now on.
    pub fn send_to(&self, endpoints: impl IntoIterator<Item = String>) {
        let mut known = self.endpoints.write().unwrap_or_else(PoisonError::into_inner);
        *known = endpoints.into_iter().collect();
    }
}
