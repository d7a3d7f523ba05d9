//! The load run: Cardgate beside three references, on control planes of the same kind, one after the other.
//!
//! The references are the stock kube-scheduler without gates, a bare loop that decides nothing and removes every gate with the
//! same patch, and this loop with a bare webhook that adds every gate and looks at nothing. Everything shares the machine, so each write and each webhook call takes from the pods' rate.

mod bare;
mod bare_webhook;
mod figures;
mod observer;
mod phases;
mod pods;
mod report;
mod scene;
mod usage;
mod writes;

use std::time::Duration;

use anyhow::{Result, ensure};

pub use self::figures::Durations;
pub use self::phases::{Burst, Freed, Restarts, Reviews, Singles};
pub use self::report::Report;
pub use self::scene::Contender;
pub use self::usage::Memory;
pub use self::writes::Writes;

use self::scene::Scene;
use self::writes::Log;
use crate::cardgate::Instance;

/// What is run.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Nodes, of 8 cards each, or of as many as all pods need.
    pub nodes: usize,
    /// Pods of one card that are created at once.
    pub pods: usize,
    /// Pods that are created one by one, before.
    pub singles: usize,
    /// How many pods are being created at a time.
    pub creators: usize,
    /// How often quota is freed; 0 leaves it out.
    pub releases: usize,
    /// How often it is asked why a pod waits; 0 leaves it out.
    pub reviews: usize,
    /// How often the operator is restarted in each way; 0 leaves it out.
    pub restarts: usize,
    /// How many pods wait meanwhile.
    pub waiting: usize,
    /// How often each contender is measured, in turns.
    pub rounds: usize,
    /// Who is measured.
    pub contenders: Vec<Contender>,
    /// Whether to start even if as many control planes run as tests may have.
    pub at_once: bool,
}

impl Plan {
    /// How many pods may run at a time. The queues of freed quota, of questions and of restarts hold a few of their own.
    fn running(&self) -> usize {
        self.pods + self.singles + 3 * pods::CARDS_OF_A_NODE + self.releases
    }

    /// How many cards each node has: more than 8 where the pods would not all run on them.
    fn cards_of_a_node(&self) -> usize {
        self.running().div_ceil(self.nodes.max(1)).max(pods::CARDS_OF_A_NODE)
    }

    /// What can't work.
    fn check(&self) -> Result<()> {
        let (needed, room) = (self.running(), self.nodes * pods::PODS_OF_A_NODE);
        ensure!(
            needed <= room,
            "{} nodes take {room} pods, and {needed} may run at a time: give more nodes or fewer pods",
            self.nodes
        );
        ensure!(
            [self.pods, self.singles, self.creators, self.rounds]
                .iter()
                .all(|count| *count > 0),
            "pods, singles, creators and rounds must be positive"
        );
        Ok(())
    }
}

/// One contender's figures from one control plane.
#[derive(Debug, Clone)]
pub struct Run {
    /// Whose.
    pub contender: Contender,
    /// Pods one by one.
    pub singles: Singles,
    /// All pods at once.
    pub burst: Burst,
    /// The most cards of a node that were in use at a time.
    pub most_on_a_node: usize,
    /// What only Cardgate has.
    pub cardgate: Option<CardgateFigures>,
}

/// Figures that only Cardgate has.
#[derive(Debug, Clone)]
pub struct CardgateFigures {
    /// Writes while all pods were let in, and after it until nothing more was written.
    pub writes: Writes,
    /// Memory with all nodes and no pods: operator and webhook.
    pub idle: [Memory; 2],
    /// Memory after the load: operator and webhook.
    pub after: [Memory; 2],
    /// Freed quota.
    pub freed: Option<Freed>,
    /// Questions why pods wait.
    pub reviews: Option<Reviews>,
    /// Restarts.
    pub restarts: Option<Restarts>,
}

/// Runs the plan, with progress on stderr.
pub async fn run(plan: &Plan) -> Result<Report> {
    usage::ensure_supported()?;
    plan.check()?;
    let load_average = usage::load_average()?;
    let mut runs = Vec::new();
    for round in 1..=plan.rounds {
        for contender in &plan.contenders {
            if plan.rounds > 1 {
                eprintln!("round {round} of {}: {contender}", plan.rounds);
            }
            runs.push(measure(plan, *contender).await?);
        }
    }
    Ok(Report {
        plan: plan.clone(),
        load_average,
        runs,
    })
}

async fn measure(plan: &Plan, contender: Contender) -> Result<Run> {
    let scene = Scene::set(plan, contender).await?;
    let (singles, burst, cardgate) = if contender == Contender::Cardgate {
        let (singles, burst, figures) = measure_cardgate(&scene, plan).await?;
        (singles, burst, Some(figures))
    } else {
        let singles = phases::singles(&scene, plan).await?;
        (singles, phases::burst(&scene, plan).await?, None)
    };
    let most_on_a_node = scene.observer.look(|seen| seen.most_on_a_node);
    ensure!(
        most_on_a_node <= plan.cards_of_a_node(),
        "{most_on_a_node} pods of one card were on a node of {} cards",
        plan.cards_of_a_node()
    );
    scene.strike().await?;
    Ok(Run {
        contender,
        singles,
        burst,
        most_on_a_node,
        cardgate,
    })
}

async fn measure_cardgate(scene: &Scene, plan: &Plan) -> Result<(Singles, Burst, CardgateFigures)> {
    let cardgate = scene.cardgate()?;
    let memory = || {
        let of = |instance: &Instance| Memory::of_process(instance.pid().unwrap_or_default());
        anyhow::Ok([of(cardgate.operator())?, of(cardgate.webhook())?])
    };
    let mut log = Log::of(&scene.plane);
    log.settle(cardgate).await?;
    let idle = memory()?;
    let singles = phases::singles(scene, plan).await?;
    log.settle(cardgate).await?;
    let mark = log.mark()?;
    let burst = phases::burst(scene, plan).await?;
    let after = memory()?;
    log.settle(cardgate).await?;
    let writes = log.since(mark)?;
    let freed = if plan.releases > 0 {
        Some(phases::freed(scene, plan).await?)
    } else {
        None
    };
    let reviews = if plan.reviews > 0 {
        Some(phases::reviews(scene, plan).await?)
    } else {
        None
    };
    let restarts = if plan.restarts > 0 {
        Some(phases::restarts(scene, plan).await?)
    } else {
        None
    };
    let figures = CardgateFigures {
        writes,
        idle,
        after,
        freed,
        reviews,
        restarts,
    };
    Ok((singles, burst, figures))
}

/// The aims that the report compares with.
pub mod aims {
    use super::Duration;

    /// Pods per second, in percent of the bare loop's; of pairs, the median.
    pub const PERCENT_OF_BARE: f64 = 90.0;
    /// CPU of all processes together for a pod, in percent of what it is beside the bare loop.
    pub const PERCENT_OF_CPU: f64 = 105.0;
    /// Writes per admitted pod.
    pub const WRITES_PER_POD: f64 = 1.0;
    /// From creation to admission on an idle cluster, in the middle.
    pub const IDLE_ADMISSION: Duration = Duration::from_millis(20);
    /// Until freed quota is used again.
    pub const REUSE: Duration = Duration::from_millis(200);
    /// Until it is answered why a pod waits, in 99 of 100 cases, while 10,000 wait.
    pub const REVIEW: Duration = Duration::from_millis(100);
    /// From the operator's start to the first admission.
    pub const RESTART: Duration = Duration::from_secs(1);
    /// The operator's memory, in bytes.
    pub const OPERATOR_MEMORY: u64 = 30_000_000;
    /// The webhook's memory, in bytes.
    pub const WEBHOOK_MEMORY: u64 = 15_000_000;
}
