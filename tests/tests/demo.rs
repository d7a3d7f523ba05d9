//! `cargo demo` as a user sees it: every step has its effect, the cluster stays up, and Ctrl-C leaves nothing behind.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use cardgate_tests::workspace;
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;
use tokio::time::timeout;

/// With time to compile operator and webhook.
const LIMIT: Duration = Duration::from_mins(10);
/// What the demo says last.
const LAST_LINE: &str = "Ctrl-C ends it and leaves nothing behind.";

#[tokio::test]
async fn the_demo_shows_what_it_promises_and_leaves_nothing_behind() -> Result<()> {
    let mut demo = Command::new(env!("CARGO_BIN_EXE_demo"))
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let mut lines = BufReader::new(demo.stdout.take().context("no stdout")?).lines();
    let mut text = String::new();
    let story = async {
        while let Some(line) = lines.next_line().await? {
            text.extend([line.as_str(), "\n"]);
            if line == LAST_LINE {
                return Ok(());
            }
        }
        anyhow::bail!("the demo ended early")
    };
    timeout(LIMIT, story)
        .await
        .context("the demo takes too long")
        .flatten()
        .with_context(|| text.clone())?;
    ensure!(!text.contains('✗') && text.matches('✓').count() >= 15, "{text}");
    ensure!(!text.contains('\x1b'), "colours where there is no terminal: {text}");
    ensure_as_documented(&text)?;

    let kubeconfig = text
        .lines()
        .find_map(|line| line.trim().strip_prefix("export KUBECONFIG="));
    let kubeconfig = Path::new(kubeconfig.context("no KUBECONFIG")?);
    ensure!(kubeconfig.exists(), "{} is missing", kubeconfig.display());
    let path = text.lines().find_map(|line| line.trim().strip_prefix("export PATH="));
    let mut directories = path.context("no PATH")?.split(':').map(Path::new);
    for program in ["kubectl-card", "kubectl"] {
        let directory = directories.next().context("too few directories in PATH")?;
        ensure!(
            directory.join(program).exists(),
            "{} has no {program}",
            directory.display()
        );
    }
    let pid = demo
        .id()
        .and_then(|id| Pid::from_raw(i32::try_from(id).ok()?))
        .context("no process id")?;
    kill_process(pid, Signal::INT)?;
    let status = timeout(LIMIT, demo.wait()).await.context("the demo does not end")??;
    ensure!(status.success(), "the demo ended with {status}");
    ensure!(!kubeconfig.exists(), "{} is left behind", kubeconfig.display());
    Ok(())
}

/// What is installed is installed by a command of `README.md`, and the configuration is applied as its example says: whoever copies what the
/// demo shows would lose it by an upgrade else.
fn ensure_as_documented(text: &str) -> Result<()> {
    let readme = std::fs::read_to_string(workspace::root().join("README.md"))?;
    let commands = readme.lines().filter_map(|line| line.split('`').nth(1));
    let mut commands = commands.filter(|command| command.starts_with("kubectl apply ") && command.contains(" -k "));
    let is_shown = |command: &str| text.lines().any(|line| line == format!("$ {command}"));
    ensure!(commands.any(is_shown), "no command of README.md installs it: {text}");
    let applied: Vec<_> = text
        .lines()
        .filter(|line| line.starts_with("$ kubectl apply"))
        .collect();
    let of_configuration = applied
        .iter()
        .filter(|line| line.contains("examples/4-node-ordering.yaml"));
    let plain: Vec<_> = of_configuration
        .filter(|line| !line.contains(" --server-side "))
        .collect();
    ensure!(plain.is_empty(), "an upgrade would undo it: {plain:?}");
    Ok(())
}
