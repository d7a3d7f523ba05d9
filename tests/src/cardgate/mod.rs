//! Cardgate as it runs in a cluster: `manifests/` applied with kubectl, and the real `operator` and `webhook` as child
//! processes under the manifests' own service accounts, so that RBAC is part of every test.
//!
//! Two things differ from a cluster with container runtimes. The two Deployments are scaled to zero, since kwok's nodes
//! only pretend to run pods, and what a kubelet does for them (environment, volumes) is done here; and the API server reaches
//! the webhook by URL instead of by Service.

mod binaries;
mod install;
mod instance;
pub mod uninstall;
mod volume;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use operator::certificates::{EXTENDER_SECRET, REVIEW_SECRET, SERVING_SECRET};

pub use self::binaries::{Binaries, build};
pub use self::instance::Instance;

use self::instance::Role;
use self::volume::SecretVolume;
use crate::controlplane::{Account, ControlPlane};
use crate::wait::{self, Seen};

/// The namespace of everything that is Cardgate's.
pub use crds::keys::NAMESPACE;

/// How Cardgate is installed and started.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The kustomization below `manifests/`.
    pub kustomization: String,
    /// A program that runs in the operator's place.
    pub operator_program: Option<PathBuf>,
    /// Environment variables of the operator, over those of its Deployment.
    pub operator_env: Vec<(String, String)>,
    /// Environment variables of the webhook, over those of its Deployment.
    pub webhook_env: Vec<(String, String)>,
}

impl Default for Settings {
    /// Plain Kubernetes without Volcano, with the settings of `manifests/`.
    fn default() -> Self {
        Self {
            kustomization: "overlays/without-volcano".to_owned(),
            operator_program: None,
            operator_env: Vec::new(),
            webhook_env: Vec::new(),
        }
    }
}

/// Cardgate, installed and running. Dropping it kills the processes.
#[derive(Debug)]
pub struct Cardgate {
    operator: Instance,
    webhook: Instance,
    plugin: PathBuf,
    // Last: followed as long as somebody reads them.
    _volumes: Vec<SecretVolume>,
}

impl Cardgate {
    /// Installs Cardgate without Volcano, starts it, and waits until it does its work.
    pub async fn start(plane: &ControlPlane) -> Result<Self> {
        Self::start_with(plane, Settings::default()).await
    }

    /// The same with other settings.
    pub async fn start_with(plane: &ControlPlane, settings: Settings) -> Result<Self> {
        Self::install(plane, &settings).await?;
        Self::run(plane, &settings).await
    }

    /// Applies the manifests and waits until the API server enforces their policies. Nothing runs yet, so managed pods
    /// are refused.
    pub async fn install(plane: &ControlPlane, settings: &Settings) -> Result<()> {
        for command in Self::installation(settings) {
            plane.kubectl().run(command).await?;
        }
        Self::await_policies(plane).await
    }

    /// The arguments of the kubectl commands that [`Cardgate::install`] runs in the workspace's root.
    pub fn installation(settings: &Settings) -> Vec<Vec<String>> {
        install::commands(&settings.kustomization)
    }

    /// Waits until the API server enforces the policies of the manifests.
    pub async fn await_policies(plane: &ControlPlane) -> Result<()> {
        install::await_policies(plane).await
    }

    /// Starts what [`Cardgate::install`] has installed, and waits until it does its work.
    pub async fn run(plane: &ControlPlane, settings: &Settings) -> Result<Self> {
        let mut binaries = tokio::task::spawn_blocking(build)
            .await
            .context("the build was interrupted")??;
        binaries.operator = settings.operator_program.clone().unwrap_or(binaries.operator);
        let binaries = Arc::new(binaries);
        let mut volumes = Vec::new();
        let mut mount = async |secret| {
            let volume = SecretVolume::mount(plane, secret).await?;
            let directory = volume.directory().display().to_string();
            volumes.push(volume);
            Ok::<_, anyhow::Error>(directory)
        };
        let mut operator_env = settings.operator_env.clone();
        if operator_env.iter().any(|(name, _)| name == "EXTENDER_ADDR") {
            operator_env.push(("EXTENDER_TLS_DIR".to_owned(), mount(EXTENDER_SECRET).await?));
        }
        operator_env.push(("REVIEW_TLS_DIR".to_owned(), mount(REVIEW_SECRET).await?));
        let operator = Instance::create(plane, Role::Operator, 1, &binaries, &operator_env).await?;
        let mut webhook_env = settings.webhook_env.clone();
        webhook_env.push(("TLS_DIR".to_owned(), mount(SERVING_SECRET).await?));
        let webhook = Instance::create(plane, Role::Webhook, 1, &binaries, &webhook_env).await?;
        install::point_at(plane, &webhook.address()).await?;
        install::point_reviews_at(plane, &operator.address()).await?;
        operator.start()?;
        webhook.start()?;
        let cardgate = Self {
            operator,
            webhook,
            plugin: binaries.plugin.clone(),
            _volumes: volumes,
        };
        cardgate.operator.await_ready().await?;
        cardgate.webhook.await_ready().await?;
        cardgate.await_door(plane).await?;
        Ok(cardgate)
    }

    /// The plugin of kubectl.
    pub fn plugin(&self) -> &Path {
        &self.plugin
    }

    /// The operator that was started first.
    pub fn operator(&self) -> &Instance {
        &self.operator
    }

    /// The webhook.
    pub fn webhook(&self) -> &Instance {
        &self.webhook
    }

    /// Starts one more operator, of this number, which does nothing until it leads.
    pub async fn another_operator(&self, plane: &ControlPlane, number: usize) -> Result<Instance> {
        let operator = self.operator.sibling(plane, number).await?;
        operator.start()?;
        operator.await_ready().await?;
        Ok(operator)
    }

    /// Starts one more webhook, of this number, which nobody asks yet.
    pub async fn another_webhook(&self, plane: &ControlPlane, number: usize) -> Result<Instance> {
        let webhook = self.webhook.sibling(plane, number).await?;
        webhook.start()?;
        webhook.await_ready().await?;
        Ok(webhook)
    }

    /// Makes the API server reach the webhook at another address.
    pub async fn point_door_at(plane: &ControlPlane, address: &str) -> Result<()> {
        install::point_at(plane, address).await
    }

    /// Waits until the API server reaches the webhook, with the certificate authority that the operator injected.
    pub async fn await_door(&self, plane: &ControlPlane) -> Result<()> {
        let pods = kube::Api::default_namespaced(plane.client().await?);
        let managed = crate::workloads::pod("cardgate-probe").queue("default").build();
        wait::eventually("the API server to reach the webhook", wait::PATIENCE, async || {
            self.operator.ensure_running()?;
            self.webhook.ensure_running()?;
            pods.create(
                &kube::api::PostParams {
                    dry_run: true,
                    ..Default::default()
                },
                &managed,
            )
            .await?;
            Ok(Seen::Done(()))
        })
        .await
    }

    /// Writes the configuration's two keys, `volcano-scheduler.conf` and `cardgate.yaml`; `None` removes one. Waits until
    /// operator and webhook use it.
    pub async fn configure(&self, plane: &ControlPlane, scheduler_conf: Option<&str>, own: Option<&str>) -> Result<()> {
        let generations =
            async || Ok::<_, anyhow::Error>((self.operator.generation().await?, self.webhook.generation().await?));
        let before = generations().await?;
        if !Self::write_configuration(plane, scheduler_conf, own).await? {
            return Ok(());
        }
        wait::eventually("the new configuration to be in force", wait::PATIENCE, async || {
            let now = generations().await?;
            Ok(Seen::when(
                now.0 != before.0 && now.1 != before.1,
                format!("generations {now:?}, before {before:?}"),
            ))
        })
        .await
    }

    /// Writes the same without waiting, for configurations that are not to come into force. Returns whether anything
    /// changed.
    pub async fn write_configuration(
        plane: &ControlPlane,
        scheduler_conf: Option<&str>,
        own: Option<&str>,
    ) -> Result<bool> {
        install::configure(plane, scheduler_conf, own).await
    }

    /// Who the operator is for the API server.
    pub fn operator_account() -> Account {
        Role::Operator.account()
    }
}

impl Drop for Cardgate {
    fn drop(&mut self) {
        // libtest shows this with the failure it belongs to.
        if std::thread::panicking() {
            for instance in [&self.operator, &self.webhook] {
                eprintln!("{}", instance.log_tail());
            }
        }
    }
}

/// How long a process may take to end in an orderly way.
const GRACE: Duration = Duration::from_secs(30);
