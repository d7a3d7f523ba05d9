//! What an operator does with nothing but an API server: takes part in the election, follows the configuration, runs the mind, and reports.
//! What it also needs from the machine, such as ports, signals and the log, is in [`crate::program`].

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use crds::configuration::LogLevel;
use kube::Client;
use programs::readiness::Readiness;
use tokio::sync::{Mutex, mpsc, oneshot, watch};
use tokio::time::timeout;
use tracing::{info, warn};

use crate::act::WRITE_LIMIT;
use crate::context::Context;
use crate::extender::Question;
use crate::lease::Candidate;
use crate::metrics::Metrics;
use crate::mind::attend::{Attendant, Configured, MindError, Place};
use crate::mind::{Decide, Outlets};
use crate::policy_parameters::{LeaderName, ParameterKeeper};
use crate::pulse::Liveness;
use crate::recorder::Recorder;
use crate::report::{self, Inbox, LAST_EVENTS, Reporter};
use crate::review::{Exit, Inquiry};
use crate::shutdown::Stop;
use crate::{configuration, keep};

/// How long the mind may take to end. It is long enough for most writes under way, and short enough to give the Lease back within the 30 s
/// that Kubernetes leaves a pod.
const STOP_LIMIT: Duration = Duration::from_secs(8);

/// What an operator needs from outside.
pub struct Surroundings {
    /// The client for reading and writing.
    pub client: Client,
    /// The reporter's own client, so that its requests share no connection with admissions.
    pub reports_client: Client,
    /// Cardgate's own namespace.
    pub namespace: String,
    /// The name of this replica.
    pub instance: String,
    /// Receives measurements.
    pub metrics: Arc<Metrics>,
    /// Receives what has been seen.
    pub readiness: Arc<Readiness>,
    /// Receives whether the mind is alive.
    pub liveness: Arc<Liveness>,
    /// Questions of schedulers.
    pub asked: mpsc::Receiver<Question>,
    /// Questions of people.
    pub reviewed: Exit<Inquiry>,
    /// How the mind decides.
    pub decide: Decide,
    /// Where the mind runs.
    pub thinks: Place,
}

/// An operator that has not started yet.
pub struct Operator {
    context: Context,
    candidate: Candidate,
    fence: LeaderName,
    reporter: Reporter,
    inbox: Inbox,
    attendant: Attendant,
    parameters: ParameterKeeper,
}

impl Operator {
    /// Returns an operator in these surroundings.
    pub fn new(surroundings: Surroundings) -> Self {
        let Surroundings {
            client,
            reports_client,
            namespace,
            instance,
            metrics,
            readiness,
            liveness,
            asked,
            reviewed,
            decide,
            thinks,
        } = surroundings;
        let (candidate, leadership) = Candidate::new(
            client.clone(),
            &namespace,
            instance.clone(),
            Arc::clone(&metrics),
            Arc::clone(&readiness),
        );
        let (reports, inbox) = report::channel();
        let reporter = Reporter {
            client: reports_client,
            instance: instance.clone(),
            leadership: leadership.clone(),
            metrics: Arc::clone(&metrics),
        };
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
            inquiries: reviewed,
            configured: Arc::new(Configured::default()),
            decide,
            thinks,
        };
        let fence = LeaderName::new(client.clone(), &namespace, instance.clone(), Arc::clone(&metrics));
        let context = Context {
            recorder: Recorder::new(client.clone(), instance, Arc::clone(&metrics)),
            client,
            namespace,
            leadership,
            metrics,
            readiness,
        };
        let parameters = ParameterKeeper::new(context.clone(), attendant.outlets.parameters.subscribe(), fence.clone());
        Self {
            context,
            candidate,
            fence,
            reporter,
            inbox,
            attendant,
            parameters,
        }
    }

    /// Returns what other parts need that look after Cardgate's objects.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// Operates until `stop`, then finishes the work under way and gives the Lease back. `set_log_level` gets the log level of every
    /// configuration that comes into force.
    pub async fn run(self, stop: Stop, set_log_level: impl Fn(Option<LogLevel>)) -> anyhow::Result<()> {
        let readiness = Arc::clone(&self.context.readiness);
        let configured = Arc::clone(&self.attendant.configured);
        let (thought, no_more_thoughts) = oneshot::channel::<()>();
        let minding = tokio::spawn(minding(self.attendant, stop.clone(), thought));
        let (reported, no_more_reports) = oneshot::channel::<()>();
        let mut election = Box::pin(self.candidate.run(self.fence, async {
            stop.wait().await;
            readiness.drain();
            info!("shutting down: what is under way is finished, then the Lease is given back");
            finished(no_more_thoughts, no_more_reports).await
        }));
        // Reports are written in a separate task, so decisions do not wait for them.
        let reporting = tokio::spawn(async move {
            self.reporter.run(self.inbox).await;
            drop(reported);
        });
        let parameters = tokio::spawn(keep::run(self.parameters));
        let configuring = Box::pin(configuration::run(self.context, |configuration| {
            set_log_level(configuration.capacity.log_level);
            let configured = Arc::clone(&configured);
            async move { configured.put_in_force(configuration).await }
        }));
        tokio::select! {
            biased;
            ended = &mut election => return ended.context("the election"),
            ended = configuring => ended?,
            ended = reporting => ended.context("the reporter ended")?,
            ended = parameters => ended.context("the keeper of what the policies read ended")?,
            ended = minding => ended.context("the mind is left alone")?.context("the mind")?,
        }
        election.await.context("the election")
    }
}

/// Keeps a mind until the program is told to end; then drops `thought`.
async fn minding(attendant: Attendant, stop: Stop, thought: oneshot::Sender<()>) -> Result<(), MindError> {
    let ended = attendant.run(stop).await;
    drop(thought);
    ended
}

/// Waits for the mind to end and for its last events to be written, each for a limited time. Returns how long the mind's writes may still
/// be on their way.
async fn finished(no_more_thoughts: oneshot::Receiver<()>, no_more_reports: oneshot::Receiver<()>) -> Duration {
    if timeout(STOP_LIMIT, no_more_thoughts).await.is_ok() {
        // Only the leader's events are written, and the next leader does not know what happened before, such as why pods were evicted.
        if timeout(LAST_EVENTS, no_more_reports).await.is_err() {
            warn!("the last reports have not ended within {} s", LAST_EVENTS.as_secs());
        }
        return Duration::ZERO;
    }
    warn!(
        "the mind has not ended within {} s: nothing more is written for it",
        STOP_LIMIT.as_secs()
    );
    WRITE_LIMIT
}
