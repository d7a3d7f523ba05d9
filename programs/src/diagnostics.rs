//! `/healthz`, `/readyz` and `/metrics`, over plain HTTP.

use std::fmt;
use std::io;
use std::sync::Arc;

use actix_web::HttpResponse;
use actix_web::dev::{Server, ServerHandle};
use actix_web::http::StatusCode;
use actix_web::http::header::ContentType;
use actix_web::web::{Data, ServiceConfig, get};
use futures::future::try_join_all;
use prometheus_client::encoding::text;
use prometheus_client::registry::Registry;
use thiserror::Error;

use crate::flags::CommonFlags;
use crate::ports::refusals::Refusals;
use crate::ports::server::{ListenError, Port};

/// The content type of what `prometheus-client` writes.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The server could not be started.
#[derive(Debug, Error)]
#[error("{0}: choose another with --health-addr or --metrics-addr")]
pub struct DiagnosticsError(#[from] ListenError);

/// What a program reports about itself.
pub trait Diagnostics: Send + Sync + 'static {
    /// Returns why the program does not seem to be alive and should be restarted; none if it is alive.
    fn trouble(&self) -> Option<String>;

    /// Returns whether requests should be sent to the program, and a text for people.
    fn readiness(&self) -> (bool, String);

    /// Returns the program's metrics in Prometheus' format.
    fn metrics(&self) -> Result<String, fmt::Error>;
}

/// Returns all metrics of a registry in the text form that Prometheus reads.
pub fn encode(registry: &Registry) -> Result<String, fmt::Error> {
    let mut text = String::with_capacity(4096);
    text::encode(&mut text, registry)?;
    Ok(text)
}

/// The servers of probes and metrics.
#[expect(missing_debug_implementations, reason = "actix's servers have none")]
pub struct Servers(Vec<Server>);

impl Servers {
    /// Returns the handles by which the servers are stopped.
    pub fn handles(&self) -> Vec<ServerHandle> {
        self.0.iter().map(Server::handle).collect()
    }

    /// Serves until all servers are stopped, or one fails.
    pub async fn serve(self) -> io::Result<()> {
        try_join_all(self.0).await.map(drop)
    }
}

/// Listens on both addresses. They are separate, so that many clients of the metrics do not delay the kubelet's answers. If the addresses
/// are equal, that address serves all three paths.
pub fn start(flags: &CommonFlags, refusals: &Refusals, program: impl Diagnostics) -> Result<Servers, DiagnosticsError> {
    let program: Arc<dyn Diagnostics> = Arc::new(program);
    let mut servers = Vec::new();
    if flags.health_addr != flags.metrics_addr {
        let program = Arc::clone(&program);
        let probes = move || probes(Arc::clone(&program));
        servers.push(Port::HEALTH.plain([flags.health_addr], refusals, probes)?);
    }
    let all = move || routes(Arc::clone(&program));
    servers.push(Port::METRICS.plain([flags.metrics_addr], refusals, all)?);
    Ok(Servers(servers))
}

/// Returns the routes.
pub fn routes(program: Arc<dyn Diagnostics>) -> impl FnOnce(&mut ServiceConfig) {
    move |config| {
        probes(program)(config);
        config.route("/metrics", get().to(metrics));
    }
}

fn probes(program: Arc<dyn Diagnostics>) -> impl FnOnce(&mut ServiceConfig) {
    move |config| {
        config
            .app_data(Data::from(program))
            .route("/healthz", get().to(healthz))
            .route("/readyz", get().to(readyz));
    }
}

async fn healthz(program: Data<dyn Diagnostics>) -> HttpResponse {
    match program.trouble() {
        None => said(true, "ok\n".to_owned()),
        Some(trouble) => said(false, format!("not healthy: {trouble}\n")),
    }
}

async fn readyz(program: Data<dyn Diagnostics>) -> HttpResponse {
    let (ready, text) = program.readiness();
    said(ready, text)
}

fn said(good: bool, text: String) -> HttpResponse {
    let status = if good {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    HttpResponse::build(status)
        .content_type(ContentType::plaintext())
        .body(text)
}

async fn metrics(program: Data<dyn Diagnostics>) -> HttpResponse {
    match program.metrics() {
        Ok(text) => HttpResponse::Ok().content_type(OPEN_METRICS).body(text),
        Err(error) => HttpResponse::InternalServerError().body(format!("can't encode the metrics: {error}\n")),
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;
    use crate::logging::LogFormat;
    use crate::readiness::Readiness;

    struct Nobody;

    impl Diagnostics for Nobody {
        fn trouble(&self) -> Option<String> {
            None
        }

        fn readiness(&self) -> (bool, String) {
            Readiness::default().report()
        }

        fn metrics(&self) -> Result<String, fmt::Error> {
            encode(&Registry::default())
        }
    }

    #[actix_web::test]
    async fn both_addresses_may_be_one_and_a_taken_one_is_named() {
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap();
        let start = |address: SocketAddr| {
            let flags = CommonFlags {
                health_addr: address,
                metrics_addr: address,
                pod_namespace: String::new(),
                log_format: LogFormat::Text,
            };
            start(&flags, &Refusals::default(), Nobody)
        };
        let error = start(address).err().unwrap().to_string();
        assert!(
            error.contains(&address.to_string()) && error.contains("--health-addr"),
            "{error}"
        );
        let any_free: SocketAddr = "127.0.0.1:0".parse().unwrap();
        assert!(start(any_free).is_ok());
    }
}
