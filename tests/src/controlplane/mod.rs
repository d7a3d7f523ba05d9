//! A real Kubernetes control plane of child processes: etcd, kube-apiserver, kube-controller-manager, kube-scheduler,
//! and kwok in place of kubelets.
//!
//! RBAC is on, controllers run under their own service accounts, and the API server's default admission plugins are in
//! force, as in the clusters that Cardgate is for.

mod components;
mod identities;
mod kubeconfig;
mod kubectl;
mod pki;
mod resources;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::{Api, Client};
use tempfile::TempDir;

pub use self::identities::Account;
pub use self::kubectl::Kubectl;
pub use self::resources::{Answer, Target, Write};

use self::components::{Audit, Components, Ports};
use self::kubeconfig::{Credentials, Endpoint};
use self::pki::{Identity, Pki};
use crate::assets::{Assets, Program};
use crate::process::{Process, Reaper};
use crate::wait::{self, Seen};
use crate::{locks, workspace};

/// How many control planes run at once, for all test processes of this workspace together: each takes about 800 MB and
/// the better part of a core. The variable changes it.
const PLANES_AT_ONCE: usize = 2;
const PLANES_VARIABLE: &str = "CARDGATE_CONTROL_PLANES";
/// Keeps the logs and everything else of a control plane when it ends.
const KEEP_VARIABLE: &str = "CARDGATE_KEEP";
/// How long a program may take until it is ready: an API server needs half a minute where others use both cores.
const READY_WITHIN: Duration = Duration::from_mins(2);

/// What a control plane consists of. The default is all of it.
#[derive(Debug, Clone)]
pub struct Options {
    /// What is added to the scheduler's configuration; `None` without a scheduler.
    scheduler: Option<String>,
    kwok: bool,
    job_duration: Duration,
    audit: Option<Audit>,
    devices: bool,
    queue: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            scheduler: Some(String::new()),
            kwok: true,
            job_duration: Duration::ZERO,
            audit: None,
            devices: true,
            queue: true,
        }
    }
}

impl Options {
    /// No kube-scheduler: pods stay as they are until someone binds them.
    #[must_use]
    pub fn without_scheduler(self) -> Self {
        Self {
            scheduler: None,
            ..self
        }
    }

    /// No kwok: nodes never become Ready and pods never run.
    #[must_use]
    pub fn without_kwok(self) -> Self {
        Self { kwok: false, ..self }
    }

    /// More of the scheduler's configuration file, as YAML at the top level of a `KubeSchedulerConfiguration`: for
    /// example `profiles` or `extenders`. The connection and the leader election are given.
    #[must_use]
    pub fn scheduler_config(self, yaml: &str) -> Self {
        Self {
            scheduler: Some(yaml.to_owned()),
            ..self
        }
    }

    /// How long the pods of a batch Job run before they succeed, where the pod's annotation
    /// `pod-complete.stage.kwok.x-k8s.io/delay` (such as `5s`) does not say it. The default is not at all.
    #[must_use]
    pub fn job_duration(self, duration: Duration) -> Self {
        Self {
            job_duration: duration,
            ..self
        }
    }

    /// No types of Dynamic Resource Allocation, as before Kubernetes 1.34. Its scheduler of today does not work so.
    #[must_use]
    pub fn without_devices(self) -> Self {
        Self { devices: false, ..self }
    }

    /// Records who writes what through the API server; see [`ControlPlane::audit_log`].
    #[must_use]
    pub fn audit(self) -> Self {
        Self {
            audit: Some(Audit::Writes),
            ..self
        }
    }

    /// The same, and which versions the writes of Cardgate's operator made; see [`Write::version`].
    #[must_use]
    pub fn audit_versions(self) -> Self {
        Self {
            audit: Some(Audit::Versions),
            ..self
        }
    }

    /// Records all that Cardgate's two accounts ask of the API server, reads too; see [`ControlPlane::audit_log`].
    #[must_use]
    pub fn audit_cardgate(self) -> Self {
        Self {
            audit: Some(Audit::Cardgate),
            ..self
        }
    }

    /// Starts even if as many control planes run as tests may have at once: for programs that people start.
    #[must_use]
    pub fn at_once(self) -> Self {
        Self { queue: false, ..self }
    }
}

/// A running control plane. Dropping it ends all of it.
#[derive(Debug)]
pub struct ControlPlane {
    processes: Vec<Process>,
    reaper: Arc<Reaper>,
    dir: PathBuf,
    endpoint: Endpoint,
    admin: Credentials,
    kubectl: Kubectl,
    ports: Ports,
    pki: Pki,
    scheduler: Identity,
    options: Options,
    _turn: Option<File>,
    // Last: the directory goes when nobody writes to it any more.
    _temp: Option<TempDir>,
}

impl ControlPlane {
    /// Starts a control plane and waits until it works. The first time on a machine, it is built before.
    pub async fn start(options: Options) -> Result<Self> {
        // An error means that the process has chosen its provider before.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let assets = tokio::task::spawn_blocking(Assets::locate)
            .await
            .context("the build was interrupted")??;
        let turn = if options.queue {
            let places = workspace::target_dir()?.join("controlplane/running");
            Some(locks::one_of(&places, planes_at_once()?).await?)
        } else {
            None
        };
        let temp = tempfile::Builder::new()
            .prefix("cardgate-")
            .tempdir()
            .context("no temporary directory")?;
        let dir = temp.path().to_owned();
        let temp = if std::env::var_os(KEEP_VARIABLE).is_some() {
            eprintln!(
                "the control plane's directory, which {KEEP_VARIABLE} keeps: {}",
                temp.keep().display()
            );
            None
        } else {
            Some(temp)
        };
        let reaper = Reaper::start(temp.as_ref().map(TempDir::path))?;

        let admin = Identity::new("admin", "system:masters");
        let scheduler = Identity::new("system:kube-scheduler", "");
        let controllers = Identity::new("system:kube-controller-manager", "");
        let pki = Pki::create(&dir, &[&admin, &scheduler, &controllers])?;
        let ports = Ports::take()?;
        let endpoint = Endpoint {
            server: format!("https://{}", ports.apiserver.address()),
            ca: pki.ca.clone(),
        };
        let admin = Credentials {
            token: admin.token,
            impersonate: None,
        };
        let kubeconfig = dir.join("admin.kubeconfig");
        endpoint.write_kubeconfig(&admin, &kubeconfig)?;
        let kubectl = Kubectl {
            program: assets.path(Program::Kubectl),
            kubeconfig,
            cache: dir.join("kubectl-cache"),
            user: None,
        };

        let components = Components {
            assets,
            dir: &dir,
            pki: &pki,
            ports: &ports,
            reaper: &reaper,
            options: &options,
            endpoint: &endpoint,
        };
        let mut processes = vec![components.etcd()?, components.apiserver()?];
        let client = endpoint.client(&admin).await?;
        await_ready(&client, "kube-apiserver", "/readyz", &processes).await?;
        processes.push(components.controller_manager(&controllers)?);
        if let Some(config) = &options.scheduler {
            processes.push(components.scheduler(&scheduler, config)?);
        }
        if options.kwok {
            processes.push(components.kwok(&kubectl.kubeconfig)?);
        }
        let plane = Self {
            processes,
            reaper,
            dir: dir.clone(),
            endpoint,
            admin,
            kubectl,
            ports,
            pki,
            scheduler,
            options,
            _turn: turn,
            _temp: temp,
        };
        plane.await_components(&client).await?;
        Ok(plane)
    }

    /// Starts kube-scheduler, with this added to its configuration, on a control plane that began without one. What the
    /// configuration names can so be made on the control plane before.
    pub async fn start_scheduler(&mut self, config: &str) -> Result<()> {
        let scheduler = self.components(Assets::locate()?).scheduler(&self.scheduler, config)?;
        self.processes.push(scheduler);
        self.await_scheduler().await
    }

    fn components<'a>(&'a self, assets: &'a Assets) -> Components<'a> {
        Components {
            assets,
            dir: &self.dir,
            pki: &self.pki,
            ports: &self.ports,
            reaper: &self.reaper,
            options: &self.options,
            endpoint: &self.endpoint,
        }
    }

    /// Ends the API server at once (SIGKILL).
    pub fn kill_apiserver(&self) -> Result<()> {
        self.process(Program::KubeApiserver)?.kill()
    }

    /// Starts the API server again after [`ControlPlane::kill_apiserver`], and waits until it works.
    pub async fn start_apiserver(&mut self) -> Result<()> {
        let started = self.components(Assets::locate()?).apiserver()?;
        let name = Program::KubeApiserver.name();
        let ended = self.processes.iter_mut().find(|process| process.name() == name);
        *ended.context("there was no API server")? = started;
        await_ready(&self.client().await?, name, "/readyz", &self.processes).await
    }

    /// The same, with the types of Dynamic Resource Allocation where the one before had none.
    pub async fn start_apiserver_with_devices(&mut self) -> Result<()> {
        self.options.devices = true;
        self.start_apiserver().await
    }

    /// etcd, to be paused.
    pub fn etcd(&self) -> Result<&Process> {
        self.process(Program::Etcd)
    }

    fn process(&self, program: Program) -> Result<&Process> {
        let name = program.name();
        let found = self.processes.iter().find(|process| process.name() == name);
        found.with_context(|| format!("{name} was not started"))
    }

    async fn await_scheduler(&self) -> Result<()> {
        let endpoint = Endpoint {
            server: format!("https://{}", self.ports.scheduler.address()),
            ca: self.pki.ca.clone(),
        };
        let scheduler = endpoint.client(&self.admin).await?;
        // Kubernetes 1.30's has no `/readyz`.
        await_ready(&scheduler, "kube-scheduler", "/healthz", &self.processes).await
    }

    async fn await_components(&self, client: &Client) -> Result<()> {
        if self.options.scheduler.is_some() {
            self.await_scheduler().await?;
        }
        if self.options.kwok {
            let address = self.ports.kwok.address();
            wait::eventually("kwok to be ready", wait::PATIENCE, async || {
                self.ensure_running()?;
                let (status, text) = crate::http::get(&address, "/readyz").await?;
                Ok(Seen::when(status == 200, text))
            })
            .await?;
        }
        // The controller manager makes it; no pod can be created before.
        let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), "default");
        wait::eventually("the default service account", wait::PATIENCE, async || {
            self.ensure_running()?;
            Ok(Seen::when(accounts.get_opt("default").await?.is_some(), "none"))
        })
        .await
    }

    /// A client of the cluster's administrator. It belongs to the async runtime that it is made in.
    pub async fn client(&self) -> Result<Client> {
        self.endpoint.client(&self.admin).await
    }

    /// The kubeconfig file of the cluster's administrator.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubectl.kubeconfig
    }

    /// kubectl as the cluster's administrator.
    pub fn kubectl(&self) -> &Kubectl {
        &self.kubectl
    }

    /// The API server's URL.
    pub fn server(&self) -> &str {
        &self.endpoint.server
    }

    /// The directory of logs, keys and kubeconfig files. It goes with the control plane.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The components' processes.
    pub fn processes(&self) -> &[Process] {
        &self.processes
    }

    /// Ends other child processes when this process ends.
    pub fn reaper(&self) -> &Arc<Reaper> {
        &self.reaper
    }

    /// An error that shows the log of a component that has ended, if one has.
    pub fn ensure_running(&self) -> Result<()> {
        self.processes.iter().try_for_each(Process::ensure_running)
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        // etcd last, so that the others do not spend their last moments on logging that it is gone.
        while let Some(process) = self.processes.pop() {
            drop(process);
        }
    }
}

async fn await_ready(client: &Client, name: &str, path: &str, processes: &[Process]) -> Result<()> {
    let ended = || processes.iter().try_for_each(Process::ensure_running);
    let ready = wait::eventually(format!("{name} to be ready"), READY_WITHIN, async || {
        if let Err(error) = ended() {
            return Ok(Seen::Done(Err(error)));
        }
        let request = http::Request::get(path).body(Vec::new())?;
        let text = client.request_text(request).await?;
        Ok(if text == "ok" {
            Seen::Done(Ok(()))
        } else {
            Seen::NotYet(text)
        })
    });
    ready.await?
}

fn planes_at_once() -> Result<usize> {
    match std::env::var(PLANES_VARIABLE) {
        Err(_) => Ok(PLANES_AT_ONCE),
        Ok(text) => text
            .parse()
            .ok()
            .filter(|count| *count > 0)
            .with_context(|| format!("{PLANES_VARIABLE}={text}: a positive number is needed")),
    }
}
