//! Where the workspace and its target directory are.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

/// The directory of the workspace's `Cargo.toml`.
pub fn root() -> &'static Path {
    // This crate is a direct child of the workspace's root.
    let crate_dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    crate_dir.parent().unwrap_or(crate_dir)
}

/// Cargo's target directory, wherever the user's configuration puts it.
pub fn target_dir() -> Result<&'static Path> {
    #[derive(Deserialize)]
    struct Metadata {
        target_directory: PathBuf,
    }
    static TARGET: OnceLock<PathBuf> = OnceLock::new();
    if let Some(known) = TARGET.get() {
        return Ok(known);
    }
    let output = cargo()
        .args(["metadata", "--no-deps", "--format-version=1", "--offline"])
        .stderr(Stdio::inherit())
        .output()
        .context("cannot run `cargo metadata`")?;
    ensure!(output.status.success(), "`cargo metadata` failed: {}", output.status);
    let metadata: Metadata =
        serde_json::from_slice(&output.stdout).context("`cargo metadata` printed something unexpected")?;
    Ok(TARGET.get_or_init(|| metadata.target_directory))
}

/// `cargo` in the workspace's root, without the variables that the outer cargo set for this process only.
///
/// Build scripts of dependencies ask to be run again when such variables change, so that a nested cargo would compile
/// them anew each time.
pub fn cargo() -> Command {
    const OF_THE_PROCESS: [&str; 9] = [
        "CARGO",
        "CARGO_BIN_NAME",
        "CARGO_CRATE_NAME",
        "CARGO_MANIFEST_DIR",
        "CARGO_MANIFEST_LINKS",
        "CARGO_MANIFEST_PATH",
        "CARGO_PRIMARY_PACKAGE",
        "CARGO_TARGET_TMPDIR",
        "OUT_DIR",
    ];
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.current_dir(root());
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if OF_THE_PROCESS.contains(&&*text) || text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_BIN_EXE_") {
            command.env_remove(name);
        }
    }
    command
}
