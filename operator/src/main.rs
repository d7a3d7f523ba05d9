//! The operator: discovers cards, lets waiting pods in within their queues' quotas, and shows what there is.

use std::sync::Arc;

use anyhow::Context as _;
use kube::Client;
use operator::act::Actor;
use operator::certificates::{CertificateKeeper, Name};
use operator::cli::Cli;
use operator::cluster::Kind;
use operator::configuration::{self, ConfigurationWatch};
use operator::event::Event;
use operator::extender;
use operator::lease::{Candidate, Leadership};
use operator::metrics::Metrics;
use operator::mind::Mind;
use operator::observe::observe;
use operator::policy_parameters::ParameterKeeper;
use operator::recorder::Recorder;
use operator::report::{self, Reporter};
use operator::server::{self, Readiness};
use operator::{logging, shutdown};
use ports::server::allow_open_files;
use tokio::sync::{SetOnce, mpsc, oneshot};
use tracing::info;

/// How many events may wait for the mind; a watch that is ahead of it waits.
const EVENTS_AHEAD: usize = 4096;

#[tokio::main(worker_threads = 2)]
async fn main() -> anyhow::Result<()> {
    let cli = Cli::read();
    let log = logging::start(cli.log_format)?;
    allow_open_files();
    let installed = rustls::crypto::ring::default_provider().install_default();
    installed.map_err(|_| anyhow::anyhow!("a crypto provider is already installed"))?;
    let stop = shutdown::on_signal()?;
    let metrics = Arc::new(Metrics::default());
    let readiness = Arc::new(Readiness::waiting_for([configuration::READY_PART]));
    let served = server::start(
        cli.health_addr,
        cli.metrics_addr,
        Arc::clone(&metrics),
        Arc::clone(&readiness),
    )?;

    let client = connect().await?;
    let (candidate, leadership) = Candidate::new(
        client.clone(),
        &cli.pod_namespace,
        cli.instance(),
        Arc::clone(&metrics),
        Arc::clone(&readiness),
    );
    let (events, heard) = mpsc::channel(EVENTS_AHEAD);
    let (reports, inbox) = report::channel();
    let reporter = Reporter {
        client: connect().await?,
        instance: cli.instance(),
        leader: leadership.changes(),
        metrics: Arc::clone(&metrics),
    };
    let (questions, asked) = extender::channel();
    let extender = cli
        .extender_addr
        .map(|address| extender::start(address, questions.clone()));
    let extender = extender.transpose()?;
    if extender.is_some() {
        let (client, leads) = (client.clone(), leadership.changes());
        let (namespace, pod) = (cli.pod_namespace.clone(), cli.instance());
        tokio::spawn(async move { extender::keep_leader_label(client, &namespace, &pod, leads).await });
    }
    let actor = Actor::new(client.clone(), events.clone(), leadership.clone(), Arc::clone(&metrics));
    let mind = Mind::new(actor, reports, Arc::clone(&metrics), Arc::clone(&readiness));
    let parameters = ParameterKeeper {
        client: client.clone(),
        namespace: cli.pod_namespace.clone(),
        leadership: leadership.clone(),
        metrics: Arc::clone(&metrics),
        wanted: mind.parameters(),
    };
    let recorder = Recorder::new(client.clone(), cli.instance(), Arc::clone(&metrics));
    let configuration = ConfigurationWatch {
        client: client.clone(),
        namespace: cli.pod_namespace.clone(),
        metrics: Arc::clone(&metrics),
        readiness: Arc::clone(&readiness),
        recorder: recorder.clone(),
        leads: leadership.changes(),
    };

    let keeper = CertificateKeeper {
        client: client.clone(),
        namespace: cli.pod_namespace.clone(),
        names: Name::of_webhook(&cli.pod_namespace, &cli.tls_extra_sans),
        leadership: leadership.clone(),
        metrics: Arc::clone(&metrics),
        recorder: recorder.clone(),
    };

    let (thought, no_more_thoughts) = oneshot::channel();
    let mind = async {
        mind.run(heard, asked, stop.clone().wait()).await;
        // The election that waits for this has ended only if the program does.
        let _ = thought.send(());
    };
    let election = candidate.run(async {
        stop.clone().wait().await;
        readiness.drain();
        info!("shutting down: what is under way is finished, then the Lease is given back");
        let _ = no_more_thoughts.await;
    });
    tokio::pin!(election);
    // Reading watches and writing reports are tasks of their own: decisions wait for neither.
    let configured = Arc::new(SetOnce::new());
    let observing = tokio::spawn(lead(
        client,
        leadership,
        Arc::clone(&configured),
        Arc::clone(&readiness),
        events.clone(),
    ));
    let reporting = tokio::spawn(reporter.run(inbox));
    let parameters = tokio::spawn(parameters.run());
    let certificates = tokio::spawn(async move {
        if cli.manage_certificates {
            keeper.run().await;
        } else {
            std::future::pending::<()>().await;
        }
    });
    tokio::select! {
        ended = &mut election => return ended.context("the election"),
        ended = served => return ended.context("the health server ended"),
        ended = serve(extender) => return ended.context("the scheduler extender ended"),
        ended = configuration.run(|configuration| {
            log.set(configuration.capacity.log_level);
            put_in_force(events.clone(), configuration, Arc::clone(&configured))
        }) => ended?,
        ended = observing => ended.context("the watches ended")?,
        ended = reporting => ended.context("the reporter ended")?,
        ended = parameters => ended.context("the keeper of what the policies read ended")?,
        ended = certificates => ended.context("the keeper of certificates ended")?,
        () = mind => {}
    }
    election.await.context("the election")
}

/// Serves for ever where there is a server.
async fn serve(server: Option<actix_web::dev::Server>) -> std::io::Result<()> {
    match server {
        Some(server) => server.await,
        None => std::future::pending().await,
    }
}

async fn connect() -> anyhow::Result<Client> {
    let client = Client::try_default().await;
    client.context("no access to a Kubernetes API: set KUBECONFIG, or run in a pod with a service account")
}

/// Observes the cluster from the moment this process leads: what a former leader has done is seen in the lists. And not
/// before a configuration is in force: it says where pods are charged, and nothing is decided before all is listed.
async fn lead(
    client: Client,
    leadership: Leadership,
    configured: Arc<SetOnce<()>>,
    readiness: Arc<Readiness>,
    events: mpsc::Sender<Event>,
) {
    if leadership.changes().wait_for(|leads| *leads).await.is_ok() {
        for kind in Kind::ALL {
            readiness.awaits(kind.plural());
        }
        configured.wait().await;
        Box::pin(observe(client, events)).await;
    }
}

async fn put_in_force(
    events: mpsc::Sender<Event>,
    configuration: Arc<crds::configuration::Configuration>,
    configured: Arc<SetOnce<()>>,
) {
    let (in_force, told) = oneshot::channel();
    if events.send(Event::Configuration(configuration, in_force)).await.is_ok() {
        // The mind answers, or the program ends.
        let _ = told.await;
    }
    // Later ones change nothing for those who waited for the first.
    let _ = configured.set(());
}
