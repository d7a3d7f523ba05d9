//! Building the programs.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::command::{self, Line};
use crate::progress::Progress;
use crate::workspace;

/// Where the programs are.
#[derive(Debug, Clone)]
pub struct Binaries {
    /// The operator.
    pub operator: PathBuf,
    /// The webhook.
    pub webhook: PathBuf,
    /// The plugin of kubectl.
    pub plugin: PathBuf,
}

/// Builds all of them, once in a process, optimised or not like the caller. Costs a moment if nothing has changed; blocks.
pub fn build() -> Result<Binaries> {
    static BUILT: Mutex<Option<Binaries>> = Mutex::new(None);
    // Whoever comes meanwhile would wait for cargo's own lock all the same.
    let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    match &*built {
        Some(known) => Ok(known.clone()),
        None => Ok(built.insert(build_by_cargo()?).clone()),
    }
}

fn build_by_cargo() -> Result<Binaries> {
    #[derive(Deserialize)]
    struct Message {
        target: Option<Target>,
        executable: Option<PathBuf>,
    }
    #[derive(Deserialize)]
    struct Target {
        name: String,
    }

    let mut progress = Progress::new("building operator, webhook and plugin");
    let mut cargo = workspace::cargo();
    // All of the workspace, so that the dependencies have the features that they were compiled with for the caller.
    cargo.args([
        "build",
        "--workspace",
        "--bin=operator",
        "--bin=webhook",
        "--bin=kubectl-card",
        "--message-format=json-render-diagnostics",
    ]);
    if !cfg!(debug_assertions) {
        cargo.arg("--release");
    }
    let mut executables = Vec::new();
    let mut compiled = 0;
    command::run(&mut cargo, "install Rust from https://rustup.rs", |line| match line {
        Line::Output(text) => {
            if let Ok(Message {
                target: Some(target),
                executable: Some(path),
            }) = serde_json::from_str(text)
            {
                executables.push((target.name, path));
            }
        }
        Line::Error(text) if text.trim_start().starts_with("Compiling") => {
            compiled += 1;
            progress.show(&format!("crates compiled: {compiled}"));
        }
        Line::None if compiled > 0 => progress.show(&format!("crates compiled: {compiled}")),
        Line::Error(_) | Line::None => {}
    })?;
    if compiled > 0 {
        progress.finish("done");
    }
    let find = |name: &str| {
        let found = executables
            .iter()
            .find(|(target, _)| target == name)
            .map(|(_, path)| path.clone());
        found.with_context(|| format!("cargo built no executable `{name}`"))
    };
    Ok(Binaries {
        operator: find("operator")?,
        webhook: find("webhook")?,
        plugin: find("kubectl-card")?,
    })
}
