//! One process of Cardgate: the operator or the webhook, with ports of its own that it keeps over restarts.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result, bail, ensure};

use super::binaries::Binaries;
use super::{GRACE, NAMESPACE, install};
use crate::controlplane::{Account, ControlPlane};
use crate::http;
use crate::ports::Port;
use crate::process::{Process, Reaper};
use crate::wait::{self, Seen};

/// The metric that changes when a new configuration is in force.
const CONFIGURATION_GENERATION: &str = "cardgate_config_generation";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Operator,
    Webhook,
}

impl Role {
    /// The name of the program, of its service account and of its Deployment.
    fn name(self) -> &'static str {
        match self {
            Self::Operator => "operator",
            Self::Webhook => "webhook",
        }
    }

    pub fn account(self) -> Account {
        Account::new(NAMESPACE, self.name())
    }
}

/// The operator or the webhook, running or not.
#[derive(Debug)]
pub struct Instance {
    role: Role,
    name: String,
    binaries: Arc<Binaries>,
    kubeconfig: PathBuf,
    log: PathBuf,
    args: Vec<String>,
    env: Vec<(String, String)>,
    listen: Port,
    metrics: Port,
    health: Port,
    reaper: Arc<Reaper>,
    process: Mutex<Option<Process>>,
}

impl Instance {
    pub(super) async fn create(
        plane: &ControlPlane,
        role: Role,
        number: usize,
        binaries: &Arc<Binaries>,
        more_env: &[(String, String)],
    ) -> Result<Self> {
        let (args, mut env) = install::deployed(plane, role.name()).await?;
        env.extend_from_slice(more_env);
        let name = format!("{}-{number}", role.name());
        Ok(Self {
            role,
            binaries: Arc::clone(binaries),
            kubeconfig: plane.kubeconfig_of_pod(&role.account(), &name).await?,
            log: plane.dir().join(format!("{name}.log")),
            args,
            env,
            listen: Port::take()?,
            metrics: Port::take()?,
            health: Port::take()?,
            reaper: Arc::clone(plane.reaper()),
            process: Mutex::new(None),
            name,
        })
    }

    /// Another instance with the same program and settings.
    pub(super) async fn sibling(&self, plane: &ControlPlane, number: usize) -> Result<Self> {
        Self::create(plane, self.role, number, &self.binaries, &self.env).await
    }

    /// Starts the process. It is not ready yet.
    pub fn start(&self) -> Result<()> {
        let mut running = self.process();
        ensure!(running.is_none(), "{} runs already", self.name);
        let program = match self.role {
            Role::Operator => &self.binaries.operator,
            Role::Webhook => &self.binaries.webhook,
        };
        let mut command = Command::new(program);
        command
            .env("KUBECONFIG", &self.kubeconfig)
            .env("POD_NAMESPACE", NAMESPACE)
            .env("POD_NAME", &self.name)
            .env("NO_COLOR", "1")
            .env("METRICS_ADDR", self.metrics.address())
            .env("HEALTH_ADDR", self.health.address())
            .env_remove("KUBERNETES_SERVICE_HOST")
            .args(&self.args)
            .envs(self.env.iter().map(|(name, value)| (name, value)));
        // Who debugs wants to choose.
        if let Some(filter) = std::env::var_os("RUST_LOG") {
            command.env("RUST_LOG", filter);
        }
        match self.role {
            // The API server reaches both by this address, so the certificates have to name it.
            Role::Operator => command
                .env("TLS_EXTRA_SANS", "127.0.0.1")
                .env("REVIEW_ADDR", self.listen.address()),
            Role::Webhook => command.env("LISTEN_ADDR", self.listen.address()),
        };
        *running = Some(Process::start(&self.name, &mut command, &self.log, &self.reaper)?);
        Ok(())
    }

    /// Ends the process at once (SIGKILL), as a crash would.
    pub fn kill(&self) -> Result<()> {
        self.take()?.kill()
    }

    /// Stops the process where it is (SIGSTOP), until [`Instance::go_on`].
    pub fn pause(&self) -> Result<()> {
        let running = self.process();
        running.as_ref().context("it does not run")?.pause()
    }

    /// Lets it go on after [`Instance::pause`].
    pub fn go_on(&self) -> Result<()> {
        let running = self.process();
        running.as_ref().context("it does not run")?.go_on()
    }

    /// Starts it again where it has ended by itself, as a kubelet does: an operator ends when it can't hold its Lease. Returns
    /// whether it had.
    pub fn revive(&self) -> Result<bool> {
        {
            let mut running = self.process();
            let ended = running.as_ref().map(Process::exit_status).transpose()?.flatten();
            if ended.is_none() {
                return Ok(false);
            }
            *running = None;
        }
        self.start()?;
        Ok(true)
    }

    /// The file by which it reaches the API server: its account's, with a token of its own.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Ends the process as Kubernetes does (SIGTERM) and waits until it has ended, successfully.
    pub async fn terminate(&self) -> Result<()> {
        let process = self.take()?;
        let status = process.terminate(GRACE).await?;
        ensure!(
            status.success(),
            "{} ended with {status} after SIGTERM\n{}",
            self.name,
            process.log_tail()
        );
        Ok(())
    }

    /// Kills the process, starts it again and waits until it is ready.
    pub async fn restart(&self) -> Result<()> {
        self.kill()?;
        self.start()?;
        self.await_ready().await
    }

    /// Waits until `/readyz` answers 200.
    pub async fn await_ready(&self) -> Result<()> {
        let ready = wait::eventually(format!("{} to be ready", self.name), wait::PATIENCE, async || {
            // No use in waiting for what has ended.
            if let Err(error) = self.ensure_running() {
                return Ok(Seen::Done(Err(error)));
            }
            let (status, text) = self.readiness().await?;
            Ok(if status == 200 {
                Seen::Done(Ok(()))
            } else {
                Seen::NotYet(format!("{status} {text}"))
            })
        });
        match ready.await {
            Ok(outcome) => outcome,
            Err(late) => bail!("{late}\n{}", self.log_tail()),
        }
    }

    /// What `/readyz` answers: the status code and the text.
    pub async fn readiness(&self) -> Result<(u16, String)> {
        http::get(&self.health.address(), "/readyz").await
    }

    /// What `/healthz` answers: the status code and the text.
    pub async fn health(&self) -> Result<(u16, String)> {
        http::get(&self.health.address(), "/healthz").await
    }

    /// All metrics, in Prometheus' text format.
    pub async fn metrics(&self) -> Result<String> {
        let (status, text) = http::get(&self.metrics.address(), "/metrics").await?;
        ensure!(status == 200, "/metrics of {} answers {status}: {text}", self.name);
        Ok(text)
    }

    /// The value of one metric, named with its labels as in the text format. `None` if there is no such metric.
    pub async fn metric(&self, name_and_labels: &str) -> Result<Option<f64>> {
        let text = self.metrics().await?;
        let value = text
            .lines()
            .find_map(|line| line.strip_prefix(name_and_labels)?.strip_prefix(' '));
        value
            .map(|value| value.parse().with_context(|| format!("{name_and_labels} is {value:?}")))
            .transpose()
    }

    /// Which configuration is in force: `cardgate_config_generation`.
    pub async fn generation(&self) -> Result<Option<f64>> {
        self.metric(CONFIGURATION_GENERATION).await
    }

    /// An error with the last lines of the log, if the process is not running.
    pub fn ensure_running(&self) -> Result<()> {
        self.process()
            .as_ref()
            .with_context(|| format!("{} was not started, or was ended", self.name))?
            .ensure_running()
    }

    /// The process id.
    pub fn pid(&self) -> Option<u32> {
        self.process().as_ref().map(Process::pid)
    }

    /// The name, which is also the pod's name for the program.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The log file, which grows over restarts.
    pub fn log_path(&self) -> &Path {
        &self.log
    }

    /// Where metrics are served, by plain HTTP.
    pub fn metrics_address(&self) -> String {
        self.metrics.address()
    }

    /// Where probes are answered, by plain HTTP.
    pub fn health_address(&self) -> String {
        self.health.address()
    }

    /// Where the webhook serves HTTPS, and the operator answers reviews.
    pub fn address(&self) -> String {
        self.listen.address()
    }

    /// Everything logged since the first start.
    pub fn log(&self) -> Result<String> {
        std::fs::read_to_string(&self.log).with_context(|| format!("cannot read {}", self.log.display()))
    }

    /// The log's last lines, for messages.
    pub fn log_tail(&self) -> String {
        self.process()
            .as_ref()
            .map_or_else(|| format!("  {} is not running", self.name), Process::log_tail)
    }

    fn take(&self) -> Result<Process> {
        self.process()
            .take()
            .with_context(|| format!("{} is not running", self.name))
    }

    fn process(&self) -> MutexGuard<'_, Option<Process>> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
