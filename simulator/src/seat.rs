//! A seat of an operator: the real operator, started, stopped, killed and restarted, with a clock that the simulator sets.

use std::sync::Arc;
use std::time::Duration;

use crds::card_review::CardReviewStatus;
use engine::decide;
use engine::explain::Asked;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use operator::herald::Herald;
use operator::mind::attend::Place;
use operator::operate::{Operator, Surroundings};
use operator::review::{self, Inquiries, NoAnswer};
use operator::{configuration, extender, shutdown};
use programs::clock;
use programs::readiness::Readiness;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;
use tokio::time::{advance, sleep};

use crate::api::Server;

/// How long the kubelet takes to restart an operator that has ended.
const RESTART: Duration = Duration::from_secs(2);

/// A place where an operator runs, or none at the moment.
pub struct Seat {
    name: String,
    server: Server,
    running: Option<Running>,
    /// When the kubelet starts it.
    start_at: Timestamp,
    /// Until when the process is frozen, and since when.
    frozen: Option<(Timestamp, Timestamp)>,
}

/// A running operator. Dropping it is like killing the process, whatever it was doing.
struct Running {
    runtime: Runtime,
    task: JoinHandle<anyhow::Result<()>>,
    /// Kept, since without it the stop signal could not be sent. Only the kubelet sends it.
    stop: Arc<Herald>,
    _questions: extender::Questions,
    /// Where users ask why something waits.
    inquiries: Inquiries,
}

impl Seat {
    /// A seat with this name. It starts an operator at once.
    pub fn new(name: String, server: Server, now: Timestamp) -> Self {
        Self {
            name,
            server,
            running: None,
            start_at: now,
            frozen: None,
        }
    }

    /// Kills the operator. The kubelet starts another one after a while.
    pub fn crash(&mut self, now: Timestamp, back_in: Duration) {
        self.running = None;
        self.frozen = None;
        self.start_at = now.checked_add(back_in).unwrap_or(now);
    }

    /// Freezes the operator's process until then, as a busy machine does.
    pub fn freeze(&mut self, now: Timestamp, until: Timestamp) {
        if self.running.is_some() && self.frozen.is_none() {
            self.frozen = Some((until, now));
        }
    }

    /// Sets the wall clock forward or back, and no other clock. So nobody's wait gets longer or shorter.
    pub fn jump(&mut self, by: SignedDuration) {
        let later = |at: Timestamp| at.checked_add(by).unwrap_or(at);
        self.start_at = later(self.start_at);
        self.frozen = self.frozen.map(|(until, since)| (later(until), later(since)));
    }

    /// Lets a frozen process go on.
    pub fn thaw(&mut self, now: Timestamp) {
        if let Some((until, _)) = &mut self.frozen {
            *until = now;
        }
    }

    /// Tells the operator to end.
    pub fn stop(&mut self) {
        if let Some(running) = &self.running {
            running.stop.tell(true);
        }
    }

    /// Whether the next run starts an operator.
    pub fn is_about_to_start(&self, now: Timestamp) -> bool {
        self.running.is_none() && now >= self.start_at && self.frozen.is_none_or(|(until, _)| now >= until)
    }

    /// Asks the operator, if it leads. Other operators do not know the cluster.
    pub fn ask(&mut self, namespace: &str, asked: Asked) -> Option<Result<CardReviewStatus, NoAnswer>> {
        let Running { runtime, inquiries, .. } = self.running.as_mut()?;
        runtime.block_on(inquiries.ask("jane", namespace, asked)).ok()
    }

    /// Lets the operator run for this time. Returns why it has ended, if it has.
    pub fn run(&mut self, now: Timestamp, time: Duration) -> Result<Option<String>, std::io::Error> {
        if self.frozen.is_some_and(|(until, _)| now < until) {
            return Ok(None);
        }
        if self.running.is_none() {
            if now < self.start_at {
                return Ok(None);
            }
            self.running = Some(start(&self.name, &self.server, now)?);
        }
        let Some(running) = &mut self.running else {
            return Ok(None);
        };
        let stood_still = self
            .frozen
            .take()
            .map(|(_, since)| now.duration_since(since).unsigned_abs());
        running.runtime.block_on(async {
            if let Some(stood_still) = stood_still {
                // Others run as soon as the clock has moved, so it must not be ahead of theirs.
                clock::tell(now.checked_sub(stood_still).unwrap_or(now));
                advance(stood_still).await;
            }
            clock::tell(now);
            sleep(time).await;
        });
        if !running.task.is_finished() {
            return Ok(None);
        }
        let Some(Running { runtime, task, .. }) = self.running.take() else {
            return Ok(None);
        };
        let ended = match runtime.block_on(task) {
            Ok(Ok(())) => "it was told to".to_owned(),
            Ok(Err(error)) => format!("{error:#}"),
            Err(error) => error.to_string(),
        };
        self.start_at = now.checked_add(RESTART).unwrap_or(now);
        Ok(Some(ended))
    }
}

fn start(name: &str, server: &Server, now: Timestamp) -> Result<Running, std::io::Error> {
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build()?;
    let (stop, stopped) = shutdown::on_word();
    let (questions, asked) = extender::channel();
    let (inquiries, reviewed) = review::channel();
    let task = {
        let _inside = runtime.enter();
        clock::tell(now);
        let operator = Operator::new(Surroundings {
            client: server.client(name),
            reports_client: server.client(name),
            namespace: crds::keys::NAMESPACE.to_owned(),
            instance: name.to_owned(),
            metrics: Arc::default(),
            readiness: Arc::new(Readiness::waiting_for([configuration::READY_PART])),
            liveness: Arc::default(),
            asked,
            reviewed,
            decide: decide::decide_watched,
            thinks: Place::AmongOthers,
        });
        runtime.spawn(operator.run(stopped, |_| {}))
    };
    Ok(Running {
        runtime,
        task,
        stop,
        _questions: questions,
        inquiries,
    })
}
