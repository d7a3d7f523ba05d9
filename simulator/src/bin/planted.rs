//! `cargo planted`: plants bugs in a copy of the sources, and tells which of them the simulator finds.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use clap::Parser;
use serde::Deserialize;

/// Bugs of these sums must be found, all of them.
const MUST_BE_FOUND: &str = "ledger:";
/// What stands in a bug for whether it is tried.
const PLANTED: &str = "PLANTED";
/// Where the copy reads which bug is tried; none where it is not set.
const VARIABLE: &str = "CARDGATE_PLANTED";
/// What is added to the engine of the copy, which all others use: whether a bug is tried.
const SWITCH: &str = r#"
extern crate self as engine;

pub mod planted {
    pub fn is(number: usize) -> bool {
        static TRIED: std::sync::OnceLock<Option<usize>> = std::sync::OnceLock::new();
        *TRIED.get_or_init(|| std::env::var("CARDGATE_PLANTED").ok()?.parse().ok()) == Some(number)
    }
}
"#;
/// The file that it is added to.
const ENGINE: &str = "engine/src/lib.rs";
/// How long a run is left alone before it is looked at again.
const LOOK: Duration = Duration::from_millis(50);

/// Plants the bugs of `simulator/planted.yaml` in a copy of the sources, compiles it once, runs `cargo simulate` with each bug, and
/// prints which are found. Seeds that fail without a bug are left out. Fails where a bug in the sums of the ledger survives.
#[derive(Debug, Parser)]
#[command(name = "planted")]
struct Cli {
    /// Only bugs whose name contains this
    #[arg(long, default_value = "")]
    only: String,
    /// How many seeds each is tried with
    #[arg(long, default_value_t = 40)]
    seeds: u64,
    /// The first of them
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// How many things happen in each world
    #[arg(long, default_value_t = 200)]
    steps: usize,
    /// How many seconds a seed may take: who never comes to an end has a bug, too
    #[arg(long, default_value_t = 120)]
    patience: u64,
    /// Only tell whether each bug still has its place in the sources
    #[arg(long)]
    check: bool,
}

/// One bug: what takes the place of what.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Bug {
    /// What the program then does wrong.
    name: String,
    /// Where, from the project's root.
    file: PathBuf,
    /// What stands there, once.
    from: String,
    /// What is put in its place, with `PLANTED` for whether the bug is tried.
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
    let mut seeds = Vec::new();
    for seed in cli.seed..cli.seed + cli.seeds {
        match run(&program, &cli, seed, None)? {
            None => seeds.push(seed),
            Some(how) => println!("left out, since it fails without a bug: {how}"),
        }
    }
    ensure!(!seeds.is_empty(), "every seed fails without a bug");
    println!("{} seeds pass without a bug", seeds.len());
    let (mut found, mut tried, mut unforgivable) = (0, 0, 0);
    for (number, bug) in bugs.iter().enumerate().filter(|(_, bug)| bug.name.contains(&cli.only)) {
        tried += 1;
        if let Some(how) = first_failure(&program, &cli, &seeds, number)? {
            found += 1;
            println!("found     {}  ({how})", bug.name);
        } else {
            unforgivable += usize::from(bug.name.starts_with(MUST_BE_FOUND));
            println!("SURVIVED  {}", bug.name);
        }
    }
    ensure!(tried > 0, "no bug is called so");
    println!("{found} of {tried} found ({} %)", 100 * found / tried);
    Ok(ExitCode::from(u8::from(unforgivable > 0)))
}

/// The bugs, and the files with them, with all of them in.
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

/// Compiles a copy of all sources, with these instead of those that are there. Files that are in it already, unchanged, are left
/// alone, so that little is compiled anew.
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
    // What cargo says to a program that it runs makes some libraries compile anew.
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
        // What bugs look like is nobody's business.
        .args(["--config", "build.rustflags=[\"--cap-lints=allow\"]"])
        .env("CARGO_TARGET_DIR", &target)
        .current_dir(&copy)
        .status()?;
    ensure!(built.success(), "a bug does not compile");
    Ok(target.join("simulate/simulate"))
}

/// How the first of the seeds fails that finds the bug.
fn first_failure(program: &Path, cli: &Cli, seeds: &[u64], bug: usize) -> Result<Option<String>> {
    for seed in seeds {
        if let Some(how) = run(program, cli, *seed, Some(bug))? {
            return Ok(Some(how));
        }
    }
    Ok(None)
}

/// How a seed fails.
fn run(program: &Path, cli: &Cli, seed: u64, bug: Option<usize>) -> Result<Option<String>> {
    let mut command = Command::new(program);
    command
        .args(["--seeds", "1", "--no-shortening", "--seed", &seed.to_string()])
        .args(["--steps", &cli.steps.to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    if let Some(bug) = bug {
        command.env(VARIABLE, bug.to_string());
    }
    let mut child = command
        .spawn()
        .with_context(|| format!("can't run {}", program.display()))?;
    let Some(said) = wait(&mut child, Duration::from_secs(cli.patience))? else {
        return Ok(Some(format!("seed {seed} comes to no end")));
    };
    let rule = said.lines().find(|line| line.starts_with("seed "));
    Ok(rule.map(|rule| rule.chars().take(160).collect()))
}

/// What a program says until it ends; none where it has to be ended.
fn wait(child: &mut Child, patience: Duration) -> Result<Option<String>> {
    let mut output = child.stdout.take().context("what it says")?;
    // Read beside, so that a full pipe keeps nobody waiting.
    let said = std::thread::spawn(move || std::io::read_to_string(&mut output));
    let begin = Instant::now();
    while child.try_wait()?.is_none() {
        if begin.elapsed() > patience {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(LOOK);
    }
    match said.join() {
        Ok(said) => Ok(Some(said?)),
        Err(_) => bail!("what it says can't be read"),
    }
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
