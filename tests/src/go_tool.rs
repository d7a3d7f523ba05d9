//! Programs that tests ask and that come from Go modules, such as Helm: each module lies in a directory of its own below `tests/`, and
//! its `go.mod` says which version.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::{locks, workspace};

/// Builds a program into the target directory, with further flags of `go build`; Go does nothing where it is current. Blocks, for
/// minutes the first time.
pub fn build(module: &str, package: &str, flags: &[&str]) -> Result<PathBuf> {
    let program = workspace::target_dir()?.join("go-tools").join(module);
    // Two that build the same program at once would put it in place while one of them runs it.
    let _lock = locks::lock(&program.with_extension("lock"), || ())?;
    let built = Command::new("go")
        .current_dir(workspace::root().join("tests").join(module))
        .arg("build")
        .args(flags)
        .arg("-o")
        .arg(&program)
        .arg(package)
        .output()
        .with_context(|| format!("{module} is built with Go: install it from https://go.dev/dl"))?;
    ensure!(
        built.status.success(),
        "can't build {module}: {}",
        String::from_utf8_lossy(&built.stderr)
    );
    Ok(program)
}
