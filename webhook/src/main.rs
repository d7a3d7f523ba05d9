//! The program `webhook`: reads its flags and starts its parts.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use futures::future::join_all;
use programs::certificates::provider;
use programs::flags;
use programs::ports::body::Room;
use programs::ports::server::{Port, allow_open_files};
use programs::{diagnostics, logging};
use tokio::signal::unix::{SignalKind, signal};
use tracing::info;
use webhook::Options;
use webhook::api_lookups::ApiLookups;
use webhook::door::Door;
use webhook::flags::Flags;
use webhook::health::Health;
use webhook::knowledge::Knowledge;
use webhook::metrics::Metrics;
use webhook::server::{self, Diagnosed};
use webhook::tls::{self, ServingCertificate};
use webhook::watch::{self, Fed};

/// One worker answers some 20,000 reviews a second, so more workers than this gain nothing.
const MAX_DEFAULT_WORKERS: usize = 2;
/// How long an idle connection of an API server is kept open. Opening a connection costs more than a hundred reviews.
const KEEP_ALIVE: Duration = Duration::from_mins(2);
/// Connections of API servers at once. An API server opens one for every request under way, 200 by default.
const CONNECTIONS: usize = 512;
/// How long requests under way may take when the program ends. After that time the API server has given up on them.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(10);

fn main() -> anyhow::Result<()> {
    let flags: Flags = flags::read();
    logging::start(env!("CARGO_CRATE_NAME"), flags.common.log_format)?;
    allow_open_files();
    provider()
        .install_default()
        .map_err(|_| anyhow!("a crypto provider is already installed"))?;
    // This runtime runs watches and signals; reviews are answered by threads of their own.
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("can't start the runtime")?
        .block_on(run(flags))
}

async fn run(flags: Flags) -> anyhow::Result<()> {
    let client = programs::connect().await?;
    let fed = Fed {
        knowledge: Arc::new(Knowledge::default()),
        metrics: Arc::new(Metrics::default()),
    };
    let certificate = Arc::new(ServingCertificate::default());
    let health = Arc::new(Health::new(fed.knowledge.clone(), certificate.clone()));
    let options = Options {
        replace_scheduler_name: flags.replace_scheduler_name,
    };
    let lookups = Arc::new(ApiLookups::new(client.clone()));
    let door = Arc::new(Door::new(fed.knowledge.clone(), lookups, options, fed.metrics.clone()));

    let bodies = Room::new(server::BODIES);
    let diagnosed = Diagnosed {
        health: health.clone(),
        metrics: fed.metrics.clone(),
    };
    let served = diagnosed.clone();
    let refusals = fed.metrics.refusals();
    let reviews = Port {
        name: server::PORT,
        workers: flags.workers.unwrap_or_else(default_workers).max(1),
        connections: CONNECTIONS,
        keep_alive: Some(KEEP_ALIVE),
        end: SHUTDOWN_TIMEOUT,
    };
    let reviews = reviews
        .tls(
            flags.listen_addr,
            &tls::server_config(certificate.clone())?,
            refusals,
            move || server::routes(door.clone(), served.clone(), bodies.clone()),
        )
        .context("choose another address with --listen-addr")?;
    let diagnostics = diagnostics::start(&flags.common, refusals, diagnosed)?;
    let mut watches = watch::start(&client, &flags.common.pod_namespace, &fed);
    watches.spawn(tls::follow(flags.tls_dir, certificate, fed.metrics.clone()));
    info!(version = env!("CARGO_PKG_VERSION"), address = %flags.listen_addr, "serving");

    let (reviews_handle, diagnostics_handles) = (reviews.handle(), diagnostics.handles());
    let shutdown = async {
        wait_for_shutdown(&health, Duration::from_secs(flags.shutdown_delay)).await?;
        reviews_handle.stop(true).await;
        join_all(diagnostics_handles.iter().map(|handle| handle.stop(false))).await;
        Ok(())
    };
    let served = async {
        tokio::try_join!(
            async { reviews.await.context("the HTTPS server failed") },
            async { diagnostics.serve().await.context("the HTTP server failed") },
            shutdown,
        )
    };
    tokio::select! {
        served = served => served?,
        _ = watches.join_next() => return Err(anyhow!("a watch ended, which it never should")),
    };
    info!("stopped");
    Ok(())
}

/// Returns when the program should stop. After SIGTERM it first waits for `delay`, so that the API servers notice. After
/// Ctrl+C or a second signal it returns at once.
async fn wait_for_shutdown(health: &Health, delay: Duration) -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => return Ok(()),
    }
    health.drain();
    info!(
        ?delay,
        "SIGTERM: not ready any more, serving on until the API servers know"
    );
    tokio::select! {
        () = tokio::time::sleep(delay) => {}
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}

fn default_workers() -> usize {
    std::thread::available_parallelism().map_or(1, |parallelism| parallelism.get().min(MAX_DEFAULT_WORKERS))
}
