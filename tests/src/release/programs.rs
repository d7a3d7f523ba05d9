//! The programs of a release, and how they are compiled: with nothing to load when they start, so that an image holds nothing else.

use std::fmt;
use std::path::PathBuf;
use std::process::Stdio;

use anyhow::{Context, Result, ensure};

use super::VERSION;
use crate::workspace;

/// A program that is released.
#[derive(Debug)]
pub struct Program {
    /// Its crate.
    pub package: &'static str,
    /// The name of its file.
    pub binary: &'static str,
    /// Where it listens in its container; none of a program that is no image.
    pub ports: &'static [u16],
}

/// All of them.
pub const PROGRAMS: [Program; 3] = [
    Program {
        package: "cardgate-operator",
        binary: "operator",
        ports: &[8443, 8080, 8081],
    },
    Program {
        package: "cardgate-webhook",
        binary: "webhook",
        ports: &[9443, 8080, 8081],
    },
    Program {
        package: "cardgate-cli",
        binary: "kubectl-card",
        ports: &[],
    },
];

impl Program {
    /// What its files in a release begin with: for people who look for the plugin, what it is called.
    pub fn released_as(&self, platform: &Platform) -> String {
        let name = if self.ports.is_empty() {
            self.binary
        } else {
            self.package
        };
        format!("{name}-{VERSION}-{}-{}", platform.os, platform.architecture)
    }
}

/// What programs are compiled for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Platform {
    /// Rust's name of it.
    pub triple: String,
    /// The operating system, as Go and images name it.
    pub os: &'static str,
    /// The processor, as Go and images name it.
    pub architecture: &'static str,
}

impl Platform {
    /// This machine's. Fails on one that the images can't be built on.
    pub fn of_this_machine() -> Result<Self> {
        let architecture = match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            other => other,
        };
        ensure!(
            cfg!(all(target_os = "linux", target_env = "gnu")),
            "a release is built on Linux with glibc, since its images hold programs for it; this is {}",
            std::env::consts::OS
        );
        Ok(Self {
            triple: format!("{}-unknown-linux-gnu", std::env::consts::ARCH),
            os: "linux",
            architecture,
        })
    }
}

impl fmt::Display for Platform {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.os, self.architecture)
    }
}

/// Compiles all programs for a platform, and says where they lie, in the order of [`PROGRAMS`].
pub fn build(platform: &Platform) -> Result<Vec<PathBuf>> {
    let mut cargo = workspace::cargo();
    cargo.args(["build", "--release", "--locked", "--target", &platform.triple]);
    for program in &PROGRAMS {
        cargo.args(["--package", program.package]);
    }
    // Of the target alone: macros run in the compiler, which loads them.
    let flags = format!(
        "CARGO_TARGET_{}_RUSTFLAGS",
        platform.triple.to_uppercase().replace('-', "_")
    );
    // Paths of the machine that builds are nobody's business, and differ from one to the next.
    let remap = |from: &str, to: &str| format!("--remap-path-prefix={from}={to}");
    let root = workspace::root().display().to_string();
    let mut rustflags = vec!["-Ctarget-feature=+crt-static".to_owned(), remap(&root, "cardgate")];
    if let Some(home) = cargo_home() {
        rustflags.push(remap(&home.display().to_string(), "cargo"));
    }
    let status = cargo
        .env(flags, rustflags.join(" "))
        .stdin(Stdio::null())
        .status()
        .context("can't run cargo")?;
    ensure!(
        status.success(),
        "cargo build failed ({status}); a linker that misses libc.a needs the C library's development files (Debian: libc6-dev)"
    );
    let directory = workspace::target_dir()?.join(&platform.triple).join("release");
    Ok(PROGRAMS.iter().map(|program| directory.join(program.binary)).collect())
}

fn cargo_home() -> Option<PathBuf> {
    let named = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    named.or_else(|| std::env::home_dir().map(|home| home.join(".cargo")))
}
