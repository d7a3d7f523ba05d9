//! A server as every port of Cardgate is one: its connections, and the time that each step of a request may take, are bounded.

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

/// From the first byte of a TLS handshake to its last: API servers that can be reached at all need milliseconds.
const HANDSHAKE_TIME: Duration = Duration::from_secs(2);
/// From a connection's beginning to the last byte of its first request's headers.
const HEADERS_TIME: Duration = Duration::from_secs(3);
/// How long a connection may take to end once it is to.
const END_TIME: Duration = Duration::from_secs(1);
/// TLS handshakes under way at once in each thread; more wait to be accepted. They can't be told apart yet, so it takes
/// five hundred of them a second to keep anybody waiting.
const HANDSHAKES: usize = 1024;
/// Connections in each thread, handshakes included.
const ACCEPTED: usize = 2048;
/// Files that a program needs at most: connections, twice while the book of them is kept, and what is not theirs.
const OPEN_FILES: u64 = 16_384;

/// What can't be listened on.
#[derive(Debug, Error)]
#[error("can't listen on {address}: {source}")]
pub struct ListenError {
    /// As it was given.
    pub address: SocketAddr,
    /// What the system says: taken, not of this machine, or not allowed.
    pub source: io::Error,
}

/// What there is to choose about a port.
#[derive(Debug, Clone, Copy)]
pub struct Port {
    /// Its name in metrics.
    pub name: &'static str,
    /// Threads that answer; each has connections of its own.
    pub workers: usize,
    /// Connections at once; where there are more, the one that has done nothing for longest is ended.
    pub connections: usize,
    /// How long a connection may wait for its next request; none ends it with the answer.
    pub keep_alive: Option<Duration>,
    /// How long requests under way may take when the program ends.
    pub end: Duration,
}

impl Port {
    /// Metrics: Prometheus comes every few seconds and needs no connection in between. Few connections, since whoever does not read
    /// an answer keeps the text of all metrics in memory.
    pub const METRICS: Self = Self {
        name: "diagnostics",
        workers: 1,
        connections: 64,
        keep_alive: None,
        end: Duration::from_secs(1),
    };

    /// Probes. A kubelet that gets no answer twice starts the program anew: so many connections that its own has been answered before
    /// as many others have come.
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
        // The limits hold for what is bound after them.
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

/// Lets this program open as many files as its ports may need: container runtimes often allow 1,024 at first and more to
/// those that ask. Where that is refused, connections beyond wait to be accepted.
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
