//! The Job that removes Cardgate, with the kubelet's part done here.

use std::process::Command;

use anyhow::{Context, Result};
use k8s_openapi::api::batch::v1::Job;
use kube::Api;

use super::{NAMESPACE, binaries};
use crate::controlplane::{Account, ControlPlane};
use crate::process::Process;

/// The kustomization, as users apply it.
const KUSTOMIZATION: &str = "manifests/overlays/uninstall";
/// The name of the Job and of its account.
const NAME: &str = "uninstall";

/// Applies the kustomization and starts its program under its own account, with more arguments than the Job gives it.
pub async fn start(plane: &ControlPlane, more: &[&str]) -> Result<Process> {
    plane.kubectl().run(["apply", "-k", KUSTOMIZATION]).await?;
    let jobs: Api<Job> = Api::namespaced(plane.client().await?, NAMESPACE);
    let job = jobs.get(NAME).await?;
    let pod = job.spec.and_then(|spec| spec.template.spec);
    let container = pod.and_then(|pod| pod.containers.into_iter().next());
    let container = container.context("the Job has no container")?;
    let env = container.env.into_iter().flatten();
    let operator = tokio::task::spawn_blocking(binaries::build).await??.operator;
    let mut command = Command::new(operator);
    command
        .args(container.args.unwrap_or_default())
        .args(more)
        .envs(env.filter_map(|variable| Some((variable.name, variable.value?))))
        .env(
            "KUBECONFIG",
            plane.kubeconfig_of_account(&Account::new(NAMESPACE, NAME)).await?,
        )
        .env("POD_NAMESPACE", NAMESPACE)
        .env("NO_COLOR", "1")
        .env_remove("KUBERNETES_SERVICE_HOST");
    let log = plane.dir().join("uninstall.log");
    Process::start(NAME, &mut command, &log, plane.reaper())
}
