//! `cargo simulate`: random worlds around the real operator, one for each seed.

use std::collections::BTreeMap;
use std::io::{IsTerminal as _, Write as _};
use std::num::NonZero;
use std::ops::{ControlFlow, Range};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Instant;

use clap::Parser;
use simulator::run::{Options, Outcome, simulate};
use simulator::shorten::shorten;
use simulator::tally::Tally;

/// Runs the real operator in worlds made at random, with faults between any two steps, and judges what it does.
///
/// Each seed is one history: the same on every machine. What breaks a rule is shown with its seed and as few steps as it takes.
/// RUST_LOG shows what the operator logs.
#[derive(Debug, Parser)]
#[command(name = "simulate")]
#[expect(
    clippy::doc_markdown,
    reason = "these are the words of --help, which shows backticks as they are"
)]
#[expect(clippy::struct_excessive_bools, reason = "they are switches")]
struct Cli {
    /// How many seeds
    #[arg(long, default_value_t = 100)]
    seeds: u64,
    /// The first seed
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// How many things happen in each world before it comes to rest
    #[arg(long, default_value_t = 200)]
    steps: usize,
    /// One of so many things that happen is a fault; 0 for no faults
    #[arg(long, default_value_t = 4)]
    faults: u32,
    /// No devices that drivers publish, in any world: the worlds as they were before there were any
    #[arg(long)]
    no_devices: bool,
    /// No writes that are refused for a while, in any world: the worlds as they were before there were any
    #[arg(long)]
    no_refusals: bool,
    /// No finalizers, phases and narrower pods that users write, in any world: the worlds as they were before there were any
    #[arg(long)]
    no_edits: bool,
    /// No crowds that ask for more than there is, in any world: the worlds as they were before there were any
    #[arg(long)]
    no_crowded: bool,
    /// No keys of the configuration that seldom are written, in any world: the worlds as they were before there were any
    #[arg(long)]
    no_keys: bool,
    /// No clock that runs ahead and is set back, in any world: the worlds as they were before there were any
    #[arg(long)]
    no_clock: bool,
    /// How many worlds at once; as many as there are processors if not given
    #[arg(long, short)]
    jobs: Option<NonZero<usize>>,
    /// Go on after a failure
    #[arg(long)]
    keep_going: bool,
    /// Show failures as they are, without looking for a shorter history
    #[arg(long)]
    no_shortening: bool,
    /// Show who wrote what
    #[arg(long)]
    writes: bool,
}

fn main() -> anyhow::Result<ExitCode> {
    let cli = Cli::parse();
    let filter = tracing_subscriber::EnvFilter::try_from_default_env().unwrap_or_else(|_| "off".into());
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .init();
    let options = Options {
        steps: cli.steps,
        faults: cli.faults,
        rests: true,
        devices: !cli.no_devices,
        refusals: !cli.no_refusals,
        edits: !cli.no_edits,
        crowded: !cli.no_crowded,
        keys: !cli.no_keys,
        clock: !cli.no_clock,
    };
    let begin = Instant::now();
    let mut tally = Tally::default();
    let (mut steps, mut writes, mut failures, mut seeds) = (0, 0, 0_u32, 0);
    let shows_progress = std::io::stderr().is_terminal();
    let all = cli.seed..cli.seed.saturating_add(cli.seeds);
    let jobs = cli.jobs.or_else(|| thread::available_parallelism().ok());
    each_seed(all, jobs.map_or(1, NonZero::get), &options, |seed, outcome| {
        seeds += 1;
        steps += outcome.steps;
        writes += outcome.writes.len();
        tally += outcome.tally;
        if cli.writes {
            println!("{}", outcome.told().join("\n"));
        }
        if let Some(failure) = outcome.failure {
            failures += 1;
            println!("seed {seed}: {} does not hold: {}", failure.rule, failure.what);
            let failure = if cli.no_shortening {
                failure
            } else {
                shorten(seed, failure, &options)?
            };
            println!("  after {} steps: {}", failure.history.len(), failure.what);
            for step in &failure.history {
                println!("    {:?}, then {:?}", step.what, step.pause);
            }
            if !cli.keep_going {
                return Ok(ControlFlow::Break(()));
            }
        }
        if shows_progress {
            eprint!("\r{seeds} seeds, {steps} steps, {failures} failures ");
            std::io::stderr().flush()?;
        }
        Ok(ControlFlow::Continue(()))
    })?;
    let took = begin.elapsed().as_secs_f64();
    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    let rate = |count: usize| count as f64 / took;
    println!(
        "{seeds} seeds, {steps} steps, {writes} writes in {took:.1} s: {:.0} steps a second, and {:.0} writes, each judged; \
         {failures} failures",
        rate(steps),
        rate(writes)
    );
    println!("{tally}");
    Ok(if failures == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Runs the worlds of these seeds, so many at once. Hands the results over in the order of the seeds, until that is enough.
fn each_seed(
    seeds: Range<u64>,
    jobs: usize,
    options: &Options,
    mut take: impl FnMut(u64, Outcome) -> anyhow::Result<ControlFlow<()>>,
) -> anyhow::Result<()> {
    let next = AtomicU64::new(seeds.start);
    let (sender, outcomes) = mpsc::sync_channel(jobs);
    thread::scope(|scope| {
        for _ in 0..jobs {
            let (sender, next) = (sender.clone(), &next);
            scope.spawn(move || {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    // The receiver is gone once it has enough.
                    if seed >= seeds.end || sender.send((seed, simulate(seed, options))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        let (mut due, mut early) = (seeds.start, BTreeMap::new());
        for (seed, outcome) in outcomes {
            early.insert(seed, outcome);
            while let Some(outcome) = early.remove(&due) {
                if take(due, outcome?)?.is_break() {
                    return Ok(());
                }
                due += 1;
            }
        }
        Ok(())
    })
}
