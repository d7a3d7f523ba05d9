//! The program: who there is, and who tells whom.
//!
//! Whoever panics ends the program, with one exception: the mind, which works on what tenants write, is replaced.

use std::sync::Arc;
use std::time::Duration;
use std::{panic, thread};

use actix_web::dev::Server;
use anyhow::Context as _;
use kube::Client;
use programs::certificates::provider;
use programs::ports::server::allow_open_files;
use programs::{connect, diagnostics, logging};
use tokio::sync::{Mutex, oneshot, watch};
use tokio::time::timeout;
use tracing::{info, warn};

use crate::act::WRITE_LIMIT;
use crate::certificates::{CertificateKeeper, Leaf};
use crate::cli::Cli;
use crate::context::Context;
use crate::extender::{ExtenderError, Mounted, Questions};
use crate::installation::InstallationWatch;
use crate::lease::{Candidate, Leadership};
use crate::metrics::Metrics;
use crate::mind::attend::{self, Attendant, Configured, MindError};
use crate::mind::{Decide, Outlets};
use crate::policy_parameters::ParameterKeeper;
use crate::pulse::Liveness;
use crate::recorder::Recorder;
use crate::report::{self, Reporter};
use crate::server::Diagnosed;
use crate::shutdown::Stop;
use crate::{configuration, extender, keep, shutdown};
use programs::readiness::Readiness;

/// How long the mind may take to end: long enough for most of what is under way, and short enough for the Lease to be given
/// back within the 30 s that Kubernetes leaves a pod.
const STOP_LIMIT: Duration = Duration::from_secs(8);

/// Runs the operator until it is told to end. How it decides is a parameter for tests, whose minds fall and stand still.
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
    let (candidate, leadership) = Candidate::new(
        client.clone(),
        &cli.common.pod_namespace,
        cli.instance(),
        Arc::clone(&metrics),
        Arc::clone(&readiness),
    );
    let (reports, inbox) = report::channel();
    let reporter = Reporter {
        client: connect().await?,
        instance: cli.instance(),
        leader: leadership.changes(),
        metrics: Arc::clone(&metrics),
    };
    let (questions, asked) = extender::channel();
    let extender = start_extender(&cli, questions, &client, &leadership, &metrics)?;
    let configured = Arc::new(Configured::default());
    let attendant = Attendant {
        client: client.clone(),
        leadership: leadership.clone(),
        outlets: Outlets {
            reports,
            parameters: watch::Sender::default(),
            metrics: Arc::clone(&metrics),
            readiness: Arc::clone(&readiness),
        },
        liveness,
        questions: Arc::new(Mutex::new(asked)),
        configured: Arc::clone(&configured),
        decide,
    };
    let context = Context {
        client: client.clone(),
        namespace: cli.common.pod_namespace.clone(),
        leadership: leadership.clone(),
        metrics: Arc::clone(&metrics),
        readiness: Arc::clone(&readiness),
        recorder: Recorder::new(client.clone(), cli.instance(), Arc::clone(&metrics)),
    };
    let parameters = ParameterKeeper::new(context.clone(), attendant.outlets.parameters.subscribe());
    let keeper = CertificateKeeper {
        context: context.clone(),
        leaves: leaves(&cli),
    };
    let installation = InstallationWatch(context.clone());

    let (thought, no_more_thoughts) = oneshot::channel::<()>();
    let minding = tokio::spawn(minding(attendant, stop.clone(), thought));
    let election = candidate.run(async {
        stop.clone().wait().await;
        readiness.drain();
        info!("shutting down: what is under way is finished, then the Lease is given back");
        finished(no_more_thoughts).await
    });
    tokio::pin!(election);
    // Writing reports is a task of its own: decisions don't wait for it.
    let reporting = tokio::spawn(reporter.run(inbox));
    let parameters = tokio::spawn(keep::run(parameters));
    let installation = tokio::spawn(installation.run());
    let certificates = tokio::spawn(keep_certificates(keeper, cli.manage_certificates));
    let configuring = Box::pin(configuration::run(context, |configuration| {
        log.set(configuration.capacity.log_level);
        let configured = Arc::clone(&configured);
        async move { configured.put_in_force(configuration).await }
    }));
    tokio::select! {
        ended = &mut election => return ended.context("the election"),
        ended = served => return ended.context("the health server ended"),
        ended = serve(extender) => return ended.context("the scheduler extender ended"),
        ended = configuring => ended?,
        ended = reporting => ended.context("the reporter ended")?,
        ended = installation => ended.context("the watch on the installation ended")??,
        ended = parameters => ended.context("the keeper of what the policies read ended")?,
        ended = certificates => ended.context("the keeper of certificates ended")?,
        ended = minding => ended.context("the mind is left alone")?.context("the mind")?,
    }
    election.await.context("the election")
}

/// The certificates that are to be there.
fn leaves(cli: &Cli) -> Vec<Leaf> {
    let mut leaves = vec![Leaf::webhook(&cli.common.pod_namespace, &cli.tls_extra_sans)];
    if cli.extender_addr.is_some() {
        leaves.extend(Leaf::extender(&cli.common.pod_namespace, &cli.tls_extra_sans));
    }
    leaves
}

/// Sets what holds for the whole process.
fn prepare() -> anyhow::Result<()> {
    allow_open_files();
    let installed = provider().install_default();
    installed.map_err(|_| anyhow::anyhow!("a crypto provider is already installed"))
}

/// Serves schedulers that ask, where they are to be served.
fn start_extender(
    cli: &Cli,
    questions: Questions,
    client: &Client,
    leadership: &Leadership,
    metrics: &Metrics,
) -> Result<Option<Server>, ExtenderError> {
    let Some(address) = cli.extender_addr else {
        return Ok(None);
    };
    let mounted = Mounted::new(cli.extender_tls_dir.clone(), cli.extender_token_file.clone());
    tokio::spawn(Arc::clone(&mounted).follow());
    let server = extender::start(address, &mounted, metrics.refusals(), questions)?;
    let (client, leads) = (client.clone(), leadership.changes());
    let (namespace, pod) = (cli.common.pod_namespace.clone(), cli.instance());
    tokio::spawn(async move { extender::keep_leader_label(client, &namespace, &pod, leads).await });
    Ok(Some(server))
}

/// Keeps certificates, where nobody else does.
async fn keep_certificates(keeper: CertificateKeeper, is_ours: bool) {
    if is_ours {
        keep::run(keeper).await;
    } else {
        std::future::pending::<()>().await;
    }
}

/// Serves for ever where there is a server.
async fn serve(server: Option<Server>) -> std::io::Result<()> {
    match server {
        Some(server) => server.await,
        None => std::future::pending().await,
    }
}

/// Keeps a mind until the program is told to end; then drops `thought`.
async fn minding(attendant: Attendant, stop: Stop, thought: oneshot::Sender<()>) -> Result<(), MindError> {
    let ended = attendant.run(stop).await;
    drop(thought);
    ended
}

/// Waits for the mind to end, for a limited time; returns how long what it began to write may still be on its way.
async fn finished(no_more_thoughts: oneshot::Receiver<()>) -> Duration {
    if timeout(STOP_LIMIT, no_more_thoughts).await.is_ok() {
        return Duration::ZERO;
    }
    warn!(
        "the mind has not ended within {} s: nothing more is written for it",
        STOP_LIMIT.as_secs()
    );
    WRITE_LIMIT
}

/// Lets a panic end the program, except that of a mind.
fn end_with_whoever_panics() {
    let show = panic::take_hook();
    panic::set_hook(Box::new(move |panicked| {
        show(panicked);
        if thread::current().name() != Some(attend::THREAD) {
            std::process::abort();
        }
    }));
}
