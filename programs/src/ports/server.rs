//! The server of every port of Cardgate: its connections are bounded, and so is the time of each step of a request.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use actix_web::dev::Server;
use actix_web::http::KeepAlive;
use actix_web::web::ServiceConfig;
use actix_web::{App, HttpServer};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustls::ServerConfig;
use thiserror::Error;

use crate::ports::connections::Connections;
use crate::ports::refusals::Refusals;

/// Time limit from the first to the last byte of a TLS handshake. API servers that can be reached at all need milliseconds.
const HANDSHAKE_TIME: Duration = Duration::from_secs(2);
/// Time limit from the beginning of a connection to the last byte of its first request's headers.
const HEADERS_TIME: Duration = Duration::from_secs(3);
/// How long a connection may take to close.
const END_TIME: Duration = Duration::from_secs(1);
/// TLS handshakes under way at once in each thread; further connections wait to be accepted. Their clients cannot be told apart yet, so it
/// takes five hundred of them a second to keep others waiting.
const HANDSHAKES: usize = 1024;
/// Connections in each thread, handshakes included.
const ACCEPTED: usize = 2048;
/// The most files that a program needs open: connections, two files each while they are registered, and other files.
const OPEN_FILES: u64 = 16_384;

/// An address on which the program cannot listen.
#[derive(Debug, Error)]
#[error("can't listen on {address}: {source}")]
pub struct ListenError {
    /// The address, as it was given.
    pub address: SocketAddr,
    /// The system's error: the address is in use, not of this machine, or not allowed.
    pub source: io::Error,
}

/// The settings of a port.
#[derive(Debug, Clone, Copy)]
pub struct Port {
    /// Its name in metrics.
    pub name: &'static str,
    /// Threads that answer; each of them has its own connections.
    pub workers: usize,
    /// Connections at once. If there are more, the one that has been idle for longest is ended.
    pub connections: usize,
    /// How long a connection may wait for its next request. With none, the connection ends after the answer.
    pub keep_alive: Option<Duration>,
    /// How long requests under way may take when the program ends.
    pub end: Duration,
}

impl Port {
    /// The port for metrics. Prometheus comes every few seconds and needs no connection in between. There are few connections, because a
    /// client that does not read its answer keeps the text of all metrics in memory.
    pub const METRICS: Self = Self {
        name: "diagnostics",
        workers: 1,
        connections: 64,
        keep_alive: None,
        end: Duration::from_secs(1),
    };

    /// The port for probes. A kubelet that gets no answer twice restarts the program. So there are enough connections that the kubelet's
    /// own is answered before as many others have come.
    pub const HEALTH: Self = Self {
        name: "health",
        connections: 512,
        ..Self::METRICS
    };

    /// Serves plain HTTP on all of these addresses. Await the result to serve.
    pub fn plain<C>(
        self,
        addresses: impl IntoIterator<Item = SocketAddr>,
        refusals: &Refusals,
        routes: impl Fn() -> C + Clone + Send + 'static,
    ) -> Result<Server, ListenError>
    where
        C: FnOnce(&mut ServiceConfig) + 'static,
    {
        self.start(addresses, None, refusals, routes)
    }

    /// Serves HTTPS. Await the result to serve.
    pub fn tls<C>(
        self,
        address: SocketAddr,
        config: &ServerConfig,
        refusals: &Refusals,
        routes: impl Fn() -> C + Clone + Send + 'static,
    ) -> Result<Server, ListenError>
    where
        C: FnOnce(&mut ServiceConfig) + 'static,
    {
        self.start([address], Some(config), refusals, routes)
    }

    fn start<C>(
        self,
        addresses: impl IntoIterator<Item = SocketAddr>,
        tls: Option<&ServerConfig>,
        refusals: &Refusals,
        routes: impl Fn() -> C + Clone + Send + 'static,
    ) -> Result<Server, ListenError>
    where
        C: FnOnce(&mut ServiceConfig) + 'static,
    {
        let connections = Connections::new(self.name, self.connections, refusals.clone());
        // These limits hold for the addresses that are bound after them.
        let mut server = HttpServer::new(move || App::new().configure(routes()))
            .workers(self.workers)
            .max_connections(ACCEPTED)
            .max_connection_rate(HANDSHAKES)
            .tls_handshake_timeout(HANDSHAKE_TIME)
            .client_request_timeout(HEADERS_TIME)
            .client_disconnect_timeout(END_TIME)
            .h1_allow_half_closed(false)
            .keep_alive(self.keep_alive.map_or(KeepAlive::Disabled, KeepAlive::Timeout))
            .shutdown_timeout(self.end.as_secs())
            .on_connect({
                let connections = Arc::clone(&connections);
                move |stream, data| connections.begin(stream, data)
            })
            .disable_signals();
        for address in addresses {
            server = match tls {
                Some(config) => server.bind_rustls_0_23(address, config.clone()),
                None => server.bind(address),
            }
            .map_err(|source| ListenError { address, source })?;
        }
        Ok(server.run())
    }
}

/// Raises the limit of open files to what the ports may need. Container runtimes often allow 1,024 at first, and more to programs that ask.
/// If the system refuses that, further connections wait to be accepted.
pub fn allow_open_files() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let wanted = maximum.map_or(OPEN_FILES, |maximum| maximum.min(OPEN_FILES));
    if current.is_some_and(|current| current < wanted) {
        let limit = Rlimit {
            current: Some(wanted),
            maximum,
        };
        if let Err(error) = setrlimit(Resource::Nofile, limit) {
            tracing::warn!(%error, "can't allow more than {current:?} open files");
        }
    }
}
