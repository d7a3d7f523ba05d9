//! What a program is made of: the crates that are compiled into it, and what comes with the compiler and the C library.

use std::collections::BTreeSet;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::{Platform, Program};
use crate::workspace;

/// One thing that a program is made of.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Part {
    /// Its name, where it comes from.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Its licence, an SPDX expression.
    pub licence: String,
    /// Where it comes from.
    pub origin: Origin,
}

/// Where parts come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// This project.
    Ours,
    /// crates.io.
    Crate,
    /// The machine that builds.
    Toolchain,
}

/// What a program is made of for a platform, each part once.
pub fn of(program: &Program, platform: &Platform) -> Result<BTreeSet<Part>> {
    let mut cargo = workspace::cargo();
    cargo.args([
        "tree", "--locked", "--edges", "normal", "--prefix", "none", "--format", "{p}\t{l}",
    ]);
    cargo.args(["--package", program.package, "--target", &platform.triple]);
    let text = output(&mut cargo)?;
    let mut parts = text
        .lines()
        .filter(|line| !line.trim().is_empty())
        .map(|line| part(line).with_context(|| format!("`cargo tree` says {line:?}")))
        .collect::<Result<BTreeSet<_>>>()?;
    let rustc = output(Command::new("rustc").arg("--version"))?;
    parts.insert(toolchain("rust-std", version_in(&rustc)?, "MIT OR Apache-2.0"));
    let libc = output(Command::new("getconf").arg("GNU_LIBC_VERSION"))?;
    parts.insert(toolchain("glibc", version_in(&libc)?, "LGPL-2.1-or-later"));
    Ok(parts)
}

/// A line of `cargo tree`: `name vVERSION`, perhaps `(proc-macro)` or a path, a tab, and the licence, perhaps with `(*)` behind it.
pub(super) fn part(line: &str) -> Result<Part> {
    let (package, licence) = line.split_once('\t').context("no licence")?;
    let licence = licence.trim_end_matches("(*)").trim();
    let mut words = package.split(' ');
    let name = words.next().context("no name")?;
    let version = words
        .next()
        .and_then(|word| word.strip_prefix('v'))
        .context("no version")?;
    ensure!(!licence.is_empty(), "{name} says no licence");
    let ours = words.any(|word| word.starts_with("(/") || word.contains(":\\"));
    Ok(Part {
        name: name.to_owned(),
        version: version.to_owned(),
        // As it was written before SPDX had operators.
        licence: licence.replace('/', " OR "),
        origin: if ours { Origin::Ours } else { Origin::Crate },
    })
}

fn toolchain(name: &str, version: &str, licence: &str) -> Part {
    Part {
        name: name.to_owned(),
        version: version.to_owned(),
        licence: licence.to_owned(),
        origin: Origin::Toolchain,
    }
}

/// The second word, as `rustc 1.95.0 (...)` and `glibc 2.36` have the version.
fn version_in(text: &str) -> Result<&str> {
    text.split_whitespace()
        .nth(1)
        .with_context(|| format!("no version in {text:?}"))
}

/// What a command prints.
pub(super) fn output(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("can't run {command:?}"))?;
    ensure!(
        output.status.success(),
        "{command:?} failed: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(String::from_utf8(output.stdout)?)
}
