//! `cargo load`: pods per second with Cardgate, beside the plain scheduler, a loop that only removes gates, a webhook that
//! only adds them, and everything else that a load shows.

use cardgate_tests::load::{self, Contender, Plan};
use clap::{Parser, ValueEnum};

/// Measures Cardgate under load on a real control plane, beside the plain kube-scheduler, a bare loop that decides
/// nothing and removes every gate with the same patch, and the same loop with a bare webhook that adds every gate.
///
/// Each contender gets a fresh control plane with the same settings: kube-scheduler and kube-controller-manager with a
/// client rate limit of 5000 requests/s (burst 10000) in place of their defaults, which would be what is measured, and
/// an audit log of all writes. kwok stands in for the kubelets.
#[derive(Parser)]
struct Arguments {
    /// Nodes, of 8 cards each; of more where the pods need more.
    #[arg(long, default_value_t = 500)]
    nodes: usize,
    /// Pods of one card that are created at once.
    #[arg(long, default_value_t = 2000)]
    pods: usize,
    /// Pods that are created one by one before.
    #[arg(long, default_value_t = 50)]
    singles: usize,
    /// How many pods are being created at a time.
    #[arg(long, default_value_t = 16)]
    creators: usize,
    /// How often quota is freed in a full queue.
    #[arg(long, default_value_t = 20)]
    releases: usize,
    /// How often it is asked why a pod waits, while --waiting pods do.
    #[arg(long, default_value_t = 200)]
    reviews: usize,
    /// How often the operator is restarted, after SIGTERM and after SIGKILL each.
    #[arg(long, default_value_t = 3)]
    restarts: usize,
    /// How often each contender is measured, in turns; the median counts.
    #[arg(long, default_value_t = 1)]
    rounds: usize,
    /// The bare loop, the bare webhook and Cardgate alone, one right after the other, so often; the medians count. At scale:
    /// --nodes 1000 --pods 20000 --pairs 5
    #[arg(long, conflicts_with_all = ["rounds", "only"])]
    pairs: Option<usize>,
    /// How many pods wait while the operator is restarted, and while it is asked; as many as --pods if not given, and with --pairs 1000 at most.
    #[arg(long)]
    waiting: Option<usize>,
    /// What to measure; everything if not given. `freed`, `reviews` and `restart` belong to Cardgate.
    #[arg(long, value_delimiter = ',')]
    only: Vec<Part>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// The stock kube-scheduler, and pods without gates.
    Plain,
    /// The bare loop.
    Bare,
    /// The bare loop, and a webhook that adds the gates and decides nothing either.
    BareWebhook,
    /// Cardgate under load.
    Cardgate,
    /// The same with cards by Dynamic Resource Allocation, one claim for each pod.
    Claims,
    /// The time until freed quota is used again.
    Freed,
    /// The time until it is answered why a pod waits.
    Reviews,
    /// The time from the operator's start to the first admission.
    Restart,
}

impl Arguments {
    fn wants(&self, part: Part) -> bool {
        self.only.is_empty() || self.only.contains(&part)
    }

    fn plan(&self) -> Plan {
        if let Some(pairs) = self.pairs {
            return Plan {
                rounds: pairs,
                contenders: vec![Contender::Bare, Contender::BareWebhook, Contender::Cardgate],
                releases: 0,
                reviews: 0,
                restarts: self.restarts.min(1),
                waiting: self.waiting.unwrap_or(self.pods.min(1000)),
                ..self.plan_of_parts()
            };
        }
        self.plan_of_parts()
    }

    fn plan_of_parts(&self) -> Plan {
        let (freed, reviews, restarts) = (
            self.wants(Part::Freed),
            self.wants(Part::Reviews),
            self.wants(Part::Restart),
        );
        let wanted = |contender: &Contender| match contender {
            Contender::Plain => self.wants(Part::Plain),
            Contender::Bare => self.wants(Part::Bare),
            Contender::BareWebhook => self.wants(Part::BareWebhook),
            Contender::Cardgate => self.wants(Part::Cardgate) || freed || reviews || restarts,
            Contender::Claims => self.wants(Part::Claims),
        };
        Plan {
            nodes: self.nodes,
            pods: self.pods,
            singles: self.singles,
            creators: self.creators,
            releases: if freed { self.releases } else { 0 },
            reviews: if reviews { self.reviews } else { 0 },
            restarts: if restarts { self.restarts } else { 0 },
            waiting: self.waiting.unwrap_or(self.pods),
            rounds: self.rounds,
            contenders: Contender::ALL.into_iter().filter(wanted).collect(),
            at_once: true,
        }
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let report = load::run(&Arguments::parse().plan()).await?;
    println!("{report}");
    Ok(())
}
