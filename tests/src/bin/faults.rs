//! `cargo faults`: what holds while everything around Cardgate breaks.

use anyhow::bail;
use cardgate_tests::faults::{self, Fault, Plan};
use clap::Parser;

/// Breaks what Cardgate runs on, one thing after the other, during a burst of pods of all kinds on a real control plane.
///
/// Everything is watched, and judged by the simulator's judge: no queue at any level, card, mGPU card or node quota is exceeded by
/// what was let in; results are written with the gate's removal or not at all; no gang is cut in two for longer than a crash takes
/// to heal; nobody is evicted in vain, or told the same again and again; nobody writes while another operator leads; nobody waits
/// in the end who could run, and every number shown is true. In the end every pod runs that can, and an operator that is started again writes nothing.
#[derive(Parser)]
struct Arguments {
    /// About how many pods each burst has.
    #[arg(long, default_value_t = 2000)]
    pods: usize,
    /// How often each fault strikes.
    #[arg(long, default_value_t = 8)]
    strikes: usize,
    /// What the order of strikes comes from.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Which faults; all if not given.
    #[arg(long, value_delimiter = ',')]
    only: Vec<Fault>,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let Arguments {
        pods,
        strikes,
        seed,
        only,
    } = Arguments::parse();
    let plan = Plan {
        pods,
        strikes,
        seed,
        faults: if only.is_empty() { Fault::ALL.to_vec() } else { only },
        at_once: true,
    };
    let outcomes = faults::run(&plan, |outcome| println!("{outcome}")).await?;
    let broken = outcomes.iter().filter(|outcome| !outcome.violations.is_empty());
    let broken: Vec<_> = broken.map(|outcome| outcome.fault.to_string()).collect();
    if !broken.is_empty() {
        bail!("did not hold under: {}; the seed was {seed}", broken.join(", "));
    }
    Ok(())
}
