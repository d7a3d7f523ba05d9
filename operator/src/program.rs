//! The program: creates its parts and connects them.
//!
//! A panic ends the program, with one exception: the mind, which works on what tenants write, is replaced.

use std::sync::Arc;
use std::{panic, thread};

use actix_web::dev::Server;
use anyhow::Context as _;
use kube::Client;
use programs::certificates::provider;
use programs::ports::server::allow_open_files;
use programs::readiness::Readiness;
use programs::{connect, diagnostics, logging};

use crate::certificates::{CertificateKeeper, Leaf};
use crate::cli::Cli;
use crate::context::Context;
use crate::extender::{ExtenderError, Mounted, Questions};
use crate::installation::InstallationWatch;
use crate::lease::Leadership;
use crate::metrics::Metrics;
use crate::mind::Decide;
use crate::mind::attend::{self, Place};
use crate::operate::{Operator, Surroundings};
use crate::pulse::Liveness;
use crate::review::{Inquiries, PathKeeper, ReviewPath, StartError};
use crate::server::Diagnosed;
use crate::{configuration, extender, keep, review, shutdown};

/// Runs the operator until it is told to end. `decide` is a parameter for tests, whose minds panic and stand still.
pub async fn run(cli: Cli, decide: Decide) -> anyhow::Result<()> {
    end_with_whoever_panics();
    let log = logging::start(env!("CARGO_CRATE_NAME"), cli.common.log_format)?;
    prepare()?;
    let stop = shutdown::on_signal()?;
    let metrics = Arc::new(Metrics::default());
    let readiness = Arc::new(Readiness::waiting_for([configuration::READY_PART]));
    let liveness = Arc::new(Liveness::default());
    let diagnosed = Diagnosed {
        metrics: Arc::clone(&metrics),
        readiness: Arc::clone(&readiness),
        liveness: Arc::clone(&liveness),
    };
    let served = diagnostics::start(&cli.common, metrics.refusals(), diagnosed)?;

    let client = connect().await?;
    let (questions, asked) = extender::channel();
    let (inquiries, reviewed) = review::channel();
    let operator = Operator::new(Surroundings {
        client: client.clone(),
        reports_client: connect().await?,
        namespace: cli.common.pod_namespace.clone(),
        instance: cli.instance(),
        metrics: Arc::clone(&metrics),
        readiness,
        liveness,
        asked,
        reviewed,
        decide,
        thinks: Place::ThreadOfItsOwn,
    });
    let context = operator.context().clone();
    let extender = start_extender(&cli, questions, &metrics)?;
    let review = start_review(&cli, inquiries, &context)?;
    if extender.is_some() || review.is_some() {
        label_leader(&cli, client, &context.leadership);
    }
    let keeper = CertificateKeeper::new(context.clone(), leaves(&cli));
    let operating = operator.run(stop, |level| log.set(level));
    let installation = tokio::spawn(InstallationWatch(context).run());
    let certificates = tokio::spawn(keep_certificates(keeper, cli.manage_certificates));
    tokio::pin!(operating);
    tokio::select! {
        ended = &mut operating => return ended,
        ended = served.serve() => return ended.context("the health server ended"),
        ended = serve(extender) => return ended.context("the scheduler extender ended"),
        ended = serve(review) => return ended.context("the port for reviews ended"),
        ended = installation => ended.context("the watch on the installation ended")??,
        ended = certificates => ended.context("the keeper of certificates ended")?,
    }
    operating.await
}

/// Returns the certificates that have to exist.
fn leaves(cli: &Cli) -> Vec<Leaf> {
    let mut leaves = vec![Leaf::webhook(&cli.common.pod_namespace, &cli.tls_extra_sans)];
    if cli.extender_addr.is_some() {
        leaves.extend(Leaf::extender(&cli.common.pod_namespace, &cli.tls_extra_sans));
    }
    if cli.review_addr.is_some() {
        leaves.push(Leaf::review(&cli.common.pod_namespace, &cli.tls_extra_sans));
    }
    leaves
}

/// Makes settings for the whole process.
fn prepare() -> anyhow::Result<()> {
    allow_open_files();
    let installed = provider().install_default();
    installed.map_err(|_| anyhow::anyhow!("a crypto provider is already installed"))
}

/// Starts the scheduler extender, if it has an address.
fn start_extender(cli: &Cli, questions: Questions, metrics: &Metrics) -> Result<Option<Server>, ExtenderError> {
    let Some(address) = cli.extender_addr else {
        return Ok(None);
    };
    let mounted = Mounted::new(cli.extender_tls_dir.clone(), cli.extender_token_file.clone());
    tokio::spawn(Arc::clone(&mounted).follow());
    Ok(Some(extender::start(address, &mounted, metrics.refusals(), questions)?))
}

/// Starts to answer reviews, if they have an address.
fn start_review(cli: &Cli, inquiries: Inquiries, context: &Context) -> Result<Option<Server>, StartError> {
    let Some(address) = cli.review_addr else {
        return Ok(None);
    };
    let mounted = Mounted::of_reviews(cli.review_tls_dir.clone());
    tokio::spawn(Arc::clone(&mounted).follow());
    let path = Arc::new(ReviewPath::default());
    tokio::spawn(keep::run(PathKeeper {
        context: context.clone(),
        path: Arc::clone(&path),
    }));
    let refusals = context.metrics.refusals();
    Ok(Some(review::start(address, &mounted, &path, refusals, inquiries)?))
}

/// Labels the leader's pod, so that Services whose requests only the leader can answer find it.
fn label_leader(cli: &Cli, client: Client, leadership: &Leadership) {
    let leads = leadership.changes();
    let (namespace, pod) = (cli.common.pod_namespace.clone(), cli.instance());
    tokio::spawn(async move { extender::keep_leader_label(client, &namespace, &pod, leads).await });
}

/// Keeps certificates, unless somebody else does.
async fn keep_certificates(keeper: CertificateKeeper, is_ours: bool) {
    if is_ours {
        keep::run(keeper).await;
    } else {
        std::future::pending::<()>().await;
    }
}

/// Serves for ever if there is a server.
async fn serve(server: Option<Server>) -> std::io::Result<()> {
    match server {
        Some(server) => server.await,
        None => std::future::pending().await,
    }
}

/// Makes a panic end the program, except a panic of a mind.
fn end_with_whoever_panics() {
    let show = panic::take_hook();
    panic::set_hook(Box::new(move |panicked| {
        show(panicked);
        if thread::current().name() != Some(attend::THREAD) {
            std::process::abort();
        }
    }));
}
