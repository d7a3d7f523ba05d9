//! The real kubectl, as a user would call it.

use std::path::PathBuf;
use std::process::{Output, Stdio};

use crate::workspace;
use anyhow::{Context, Result, ensure};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

/// kubectl with the credentials of one user, in the workspace's root.
#[derive(Debug, Clone)]
pub struct Kubectl {
    pub(super) program: PathBuf,
    pub(super) kubeconfig: PathBuf,
    pub(super) cache: PathBuf,
    pub(super) user: Option<String>,
}

impl Kubectl {
    /// The same, on behalf of another user (`--as`).
    #[must_use]
    pub fn as_user(&self, user: &str) -> Self {
        Self {
            user: Some(user.to_owned()),
            ..self.clone()
        }
    }

    /// The kubeconfig file in use.
    pub fn kubeconfig(&self) -> &std::path::Path {
        &self.kubeconfig
    }

    /// Where kubectl itself is.
    pub fn program(&self) -> &std::path::Path {
        &self.program
    }

    /// Runs kubectl and returns what it printed to stdout. Failing is an error with what it printed to stderr.
    pub async fn run<A: AsRef<str>>(&self, args: impl IntoIterator<Item = A>) -> Result<String> {
        self.expect_success(args, None).await
    }

    /// `kubectl apply -f -` with this text.
    pub async fn apply(&self, yaml: &str) -> Result<String> {
        self.expect_success(["apply", "-f", "-"], Some(yaml)).await
    }

    /// Runs kubectl, with this text on stdin if there is any, and returns everything, also where it failed.
    pub async fn output<A: AsRef<str>>(
        &self,
        args: impl IntoIterator<Item = A>,
        stdin: Option<&str>,
    ) -> Result<Output> {
        let mut command = Command::new(&self.program);
        command
            .current_dir(workspace::root())
            .env("KUBECONFIG", &self.kubeconfig)
            .env("KUBECACHEDIR", &self.cache)
            .stdin(if stdin.is_some() { Stdio::piped() } else { Stdio::null() })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        if let Some(user) = &self.user {
            command.args(["--as", user]);
        }
        for arg in args {
            command.arg(arg.as_ref());
        }
        let mut child = command
            .spawn()
            .with_context(|| format!("cannot start {}", self.program.display()))?;
        if let (Some(text), Some(mut pipe)) = (stdin, child.stdin.take()) {
            pipe.write_all(text.as_bytes())
                .await
                .context("kubectl does not read its stdin")?;
        }
        child.wait_with_output().await.context("cannot wait for kubectl")
    }

    async fn expect_success<A: AsRef<str>>(
        &self,
        args: impl IntoIterator<Item = A>,
        stdin: Option<&str>,
    ) -> Result<String> {
        let args: Vec<String> = args.into_iter().map(|arg| arg.as_ref().to_owned()).collect();
        let output = self.output(&args, stdin).await?;
        ensure!(
            output.status.success(),
            "kubectl {} failed ({}): {}",
            args.join(" "),
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        );
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}
