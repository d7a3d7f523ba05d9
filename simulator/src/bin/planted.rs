//! `cargo planted`: plants bugs in a copy of the sources, and reports which of them the simulator finds.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Mutex;
use std::thread;

use anyhow::{Context as _, Result, anyhow, ensure};
use clap::Parser;
use serde::Deserialize;

/// All bugs whose names begin so must be found.
const MUST_BE_FOUND: &str = "ledger:";
/// The placeholder in a bug for whether the bug is tried.
const PLANTED: &str = "PLANTED";
/// The environment variable that tells the copy which bug is tried; without it none is.
const VARIABLE: &str = "CARDGATE_PLANTED";
/// The code added to the engine of the copy, which all other code uses: whether a bug is tried.
const SWITCH: &str = r#"
extern crate self as engine;

pub mod planted {
    pub fn is(number: usize) -> bool {
        static TRIED: std::sync::OnceLock<Option<usize>> = std::sync::OnceLock::new();
        *TRIED.get_or_init(|| std::env::var("CARDGATE_PLANTED").ok()?.parse().ok()) == Some(number)
    }
}
"#;
/// The file that this code is added to.
const ENGINE: &str = "engine/src/lib.rs";
/// Ends a program that has used so many seconds of CPU time, whatever else the machine does meanwhile.
const LIMITED: &str = r#"ulimit -t "$1"; shift; exec "$@""#;

/// Plants the bugs of `simulator/planted.yaml` in a copy of the sources, compiles it once, runs `cargo simulate` with each bug, and
/// prints which are found, and by which rule. Seeds that fail without a bug are left out. Fails where a bug in the sums of the
/// ledger survives.
#[derive(Debug, Parser)]
#[command(name = "planted")]
struct Cli {
    /// Only bugs whose name contains this
    #[arg(long, default_value = "")]
    only: String,
    /// How many seeds each is tried with
    #[arg(long, default_value_t = 300)]
    seeds: u64,
    /// The first of them
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// How many things happen in each world
    #[arg(long, default_value_t = 100)]
    steps: usize,
    /// How many seconds a seed may compute: who never comes to an end has a bug, too
    #[arg(long, default_value_t = 300)]
    patience: u64,
    /// How many are tried at once
    #[arg(long, default_value_t = 2)]
    jobs: usize,
    /// Only tell whether each bug still has its place in the sources
    #[arg(long)]
    check: bool,
}

/// One bug: a text and its replacement.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Bug {
    /// What the program does wrong with the bug.
    name: String,
    /// The file, from the project's root.
    file: PathBuf,
    /// The original text, which occurs once.
    from: String,
    /// Its replacement, with `PLANTED` for whether the bug is tried.
    to: String,
}

fn main() -> Result<ExitCode> {
    let cli = Cli::parse();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .context("the project's root")?;
    let (bugs, planted) = plant(root)?;
    if cli.check {
        println!("{} bugs have their places", bugs.len());
        return Ok(ExitCode::SUCCESS);
    }
    let program = compile(root, &planted)?;
    let seeds: Vec<u64> = (cli.seed..cli.seed + cli.seeds).collect();
    let without = at_once(cli.jobs, seeds, |seed| Ok((seed, run(&program, &cli, seed, None)?)))?;
    let mut seeds = Vec::new();
    for (seed, end) in without {
        match end {
            End::Passed => seeds.push(seed),
            end => println!("left out, since it fails without a bug: {end:?}"),
        }
    }
    seeds.sort_unstable();
    ensure!(!seeds.is_empty(), "every seed fails without a bug");
    println!("{} seeds pass without a bug", seeds.len());
    let tried: Vec<_> = bugs
        .iter()
        .enumerate()
        .filter(|(_, bug)| bug.name.contains(&cli.only))
        .collect();
    ensure!(!tried.is_empty(), "no bug is called so");
    let count = tried.len();
    let ends = at_once(cli.jobs, tried, |(number, bug)| {
        let end = first_failure(&program, &cli, &seeds, number)?;
        match &end {
            End::Passed => println!("SURVIVED  {}", bug.name),
            End::Broken(how) => println!("found     {}  ({how})", bug.name),
            End::Never(seed) => println!("no end    {}  (seed {seed})", bug.name),
        }
        Ok((end, bug))
    })?;
    let by_rule = ends.iter().filter(|(end, _)| matches!(end, End::Broken(_))).count();
    let survived: Vec<_> = ends.iter().filter(|(end, _)| matches!(end, End::Passed)).collect();
    println!(
        "{by_rule} of {count} found by a rule ({} %), {} come to no end, {} survive",
        100 * by_rule / count,
        count - by_rule - survived.len(),
        survived.len()
    );
    let is_unforgivable = survived.iter().any(|(_, bug)| bug.name.starts_with(MUST_BE_FOUND));
    Ok(ExitCode::from(u8::from(is_unforgivable)))
}

/// Applies `each` to all of these, so many at once. Returns the results in the order in which they come.
fn at_once<T: Send, R: Send>(jobs: usize, all: Vec<T>, each: impl Fn(T) -> Result<R> + Sync) -> Result<Vec<R>> {
    let (left, done) = (Mutex::new(all.into_iter()), Mutex::new(Vec::new()));
    let poisoned = || anyhow!("another one has panicked");
    thread::scope(|scope| {
        let work = || -> Result<()> {
            while let Some(one) = {
                let mut left = left.lock().map_err(|_| poisoned())?;
                left.next()
            } {
                let result = each(one)?;
                done.lock().map_err(|_| poisoned())?.push(result);
            }
            Ok(())
        };
        let workers: Vec<_> = (0..jobs.max(1)).map(|_| scope.spawn(work)).collect();
        workers
            .into_iter()
            .try_for_each(|worker| worker.join().map_err(|_| poisoned())?)
    })?;
    done.into_inner().map_err(|_| poisoned())
}

/// Returns the bugs, and the files with all of the bugs in them.
fn plant(root: &Path) -> Result<(Vec<Bug>, BTreeMap<PathBuf, String>)> {
    let bugs: Vec<Bug> = serde_saphyr::from_str(&fs::read_to_string(root.join("simulator/planted.yaml"))?)?;
    let mut planted: BTreeMap<PathBuf, String> = BTreeMap::new();
    for (number, bug) in bugs.iter().enumerate() {
        if !planted.contains_key(&bug.file) {
            planted.insert(bug.file.clone(), fs::read_to_string(root.join(&bug.file))?);
        }
        let text = planted.entry(bug.file.clone()).or_default();
        let times = text.matches(&bug.from).count();
        ensure!(
            times == 1,
            "{}: `from` stands {times} times in {}",
            bug.name,
            bug.file.display()
        );
        ensure!(
            bug.to.contains(PLANTED),
            "{}: `to` does not ask for {PLANTED}",
            bug.name
        );
        let to = bug.to.replace(PLANTED, &format!("engine::planted::is({number})"));
        *text = text.replacen(&bug.from, &to, 1);
    }
    let engine = PathBuf::from(ENGINE);
    ensure!(!planted.contains_key(&engine), "the switch is added to {ENGINE}");
    planted.insert(engine, fs::read_to_string(root.join(ENGINE))? + SWITCH);
    Ok((bugs, planted))
}

/// Compiles a copy of all sources, in which these files replace the originals. Files of the copy that have not changed are
/// left alone, so that little is compiled again.
fn compile(root: &Path, planted: &BTreeMap<PathBuf, String>) -> Result<PathBuf> {
    let (copy, target) = (root.join("target/planted/sources"), root.join("target/planted/target"));
    let listed = Command::new("git")
        .args(["ls-files", "-z"])
        .current_dir(root)
        .output()?;
    ensure!(listed.status.success(), "git ls-files failed");
    for name in String::from_utf8(listed.stdout)?.split_terminator('\0') {
        let contents = match planted.get(Path::new(name)) {
            Some(text) => text.clone().into_bytes(),
            None => fs::read(root.join(name)).unwrap_or_default(),
        };
        let path = copy.join(name);
        if fs::read(&path).is_ok_and(|there| there == contents) {
            continue;
        }
        fs::create_dir_all(path.parent().context("a file without directory")?)?;
        fs::write(&path, contents)?;
    }
    let mut cargo = Command::new("cargo");
    // The variables that cargo sets for a program it runs would make some libraries compile again.
    let said = std::env::vars_os().map(|(name, _)| name);
    for name in said.filter(|name| name.to_string_lossy().starts_with("CARGO_")) {
        cargo.env_remove(name);
    }
    let built = cargo
        .args([
            "build",
            "--package",
            "cardgate-simulator",
            "--bin",
            "simulate",
            "--profile",
            "simulate",
        ])
        // Warnings about the code of bugs do not matter.
        .args(["--config", "build.rustflags=[\"--cap-lints=allow\"]"])
        .env("CARGO_TARGET_DIR", &target)
        .current_dir(&copy)
        .status()?;
    ensure!(built.success(), "a bug does not compile");
    Ok(target.join("simulate/simulate"))
}

/// How a seed ends.
#[derive(Debug)]
enum End {
    /// No rule is broken.
    Passed,
    /// A rule is broken: this one.
    Broken(String),
    /// The seed did not end: this seed.
    Never(u64),
}

/// Returns how the first seed ends that finds the bug.
fn first_failure(program: &Path, cli: &Cli, seeds: &[u64], bug: usize) -> Result<End> {
    for seed in seeds {
        let end = run(program, cli, *seed, Some(bug))?;
        if !matches!(end, End::Passed) {
            return Ok(end);
        }
    }
    Ok(End::Passed)
}

/// How a seed ends.
fn run(program: &Path, cli: &Cli, seed: u64, bug: Option<usize>) -> Result<End> {
    let mut command = Command::new("sh");
    command
        .args(["-c", LIMITED, "sh", &cli.patience.to_string()])
        .arg(program)
        .args(["--seeds", "1", "--no-shortening", "--seed", &seed.to_string()])
        .args(["--steps", &cli.steps.to_string()])
        .stdin(Stdio::null())
        .stderr(Stdio::null());
    if let Some(bug) = bug {
        command.env(VARIABLE, bug.to_string());
    }
    let ended = command
        .output()
        .with_context(|| format!("can't run {}", program.display()))?;
    if ended.status.code().is_none() {
        return Ok(End::Never(seed));
    }
    let said = String::from_utf8(ended.stdout)?;
    let rule = said.lines().find(|line| line.starts_with("seed "));
    Ok(match rule {
        Some(rule) => End::Broken(rule.chars().take(160).collect()),
        None if ended.status.success() => End::Passed,
        None => End::Broken(format!("seed {seed}: the simulator itself fails")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bug_has_its_place_in_the_sources() {
        let (bugs, _) = plant(Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()).unwrap();
        assert!(bugs.len() >= 40, "{} bugs", bugs.len());
        let in_ledger = bugs.iter().filter(|bug| bug.name.starts_with(MUST_BE_FOUND));
        assert!(in_ledger.count() > 0, "no bug must be found");
    }
}
