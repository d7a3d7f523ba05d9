//! The cluster that the demo plays on, with Cardgate installed and running.

use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::terminal::{self, Record};
use crate::cardgate::{Cardgate, Settings};
use crate::controlplane::{ControlPlane, Options};
use crate::nodes::{self, NodeSpec};
use crate::tally::Tally;
use crate::wait::{self, Seen};

/// How long the pods of a Job run, as the examples' `sleep 1h` says to a real kubelet.
const JOB_DURATION: Duration = Duration::from_hours(1);

/// The cluster and what is said about it.
pub(super) struct Stage<'a> {
    record: &'a mut Record,
    plane: ControlPlane,
    cardgate: Cardgate,
}

/// The nodes of the document's examples beside one of every shape that real clusters have.
fn cluster() -> Vec<NodeSpec> {
    let mut all = vec![
        nodes::nvidia("a100-1", "NVIDIA-A100", 4, 81_920),
        nodes::nvidia("a100-2", "NVIDIA-A100", 4, 81_920),
        nodes::nvidia_mps("a100-mps", "NVIDIA-A100", 4, 81_920, 8),
        nodes::nvidia("h100-pcie", "NVIDIA-H100", 4, 81_559),
        nodes::nvidia("t4", "NVIDIA-T4", 4, 15_360),
    ];
    all.extend(nodes::every_shape());
    all
}

impl<'a> Stage<'a> {
    /// Starts the cluster, installs Cardgate and starts it.
    pub async fn set(record: &'a mut Record) -> Result<Self> {
        terminal::heading("A Kubernetes cluster");
        terminal::say("kube-apiserver, etcd, kube-scheduler and kube-controller-manager as processes of this machine;");
        terminal::say("kwok plays the kubelets, so nodes and running pods are pretended, and all decisions are real.");
        let plane = ControlPlane::start(Options::default().job_duration(JOB_DURATION).at_once()).await?;
        record.note(&format!("the control plane answers at {}", plane.server()));
        let nodes = cluster();
        plane.create_nodes(&nodes).await?;
        record.note(&format!("{} nodes are Ready", nodes.len()));
        kubectl(&plane, &["get", "nodes", "-L", "nvidia.com/gpu.product"]).await?;

        terminal::heading("Cardgate, installed as in any cluster");
        let settings = Settings::default();
        for command in Cardgate::installation(&settings) {
            let words: Vec<&str> = command.iter().map(String::as_str).collect();
            kubectl(&plane, &words).await?;
        }
        Cardgate::await_policies(&plane).await?;
        terminal::say(
            "The Deployments have no replicas here, since kwok runs no containers: operator and webhook run as",
        );
        terminal::say("processes, under the service accounts of the manifests.");
        let cardgate = Cardgate::run(&plane, &settings).await?;
        for instance in [cardgate.operator(), cardgate.webhook()] {
            record.note(&format!(
                "{} is ready (process {})",
                instance.name(),
                instance.pid().unwrap_or_default()
            ));
        }
        Ok(Self {
            record,
            plane,
            cardgate,
        })
    }

    /// Runs kubectl and shows what it prints.
    pub async fn kubectl(&self, args: &[&str]) -> Result<()> {
        kubectl(&self.plane, args).await
    }

    /// Runs kubectl, which is to refuse with a text that has all these parts, and shows what it prints.
    pub async fn refused(&mut self, expectation: &str, args: &[&str], parts: &[&str]) -> Result<()> {
        show_command(args);
        let output = self.plane.kubectl().output(args, None).await?;
        let text = String::from_utf8_lossy(&output.stderr);
        terminal::output(&text);
        let outcome = if output.status.success() {
            Err(anyhow::anyhow!("it was accepted"))
        } else {
            match parts.iter().find(|part| !text.contains(**part)) {
                Some(part) => Err(anyhow::anyhow!("the message does not say {part:?}")),
                None => Ok(()),
            }
        };
        self.record.verdict(expectation, outcome);
        Ok(())
    }

    /// Waits until the pods with this label `app` are where they are expected.
    pub async fn expect_pods(&mut self, expectation: &str, app: &str, expected: &Tally) {
        let outcome = self.plane.await_pods("default", app, expected).await;
        self.record.verdict(expectation, outcome);
    }

    /// Waits until a resource shows these texts in kubectl's table, and shows the table.
    pub async fn expect_table(&mut self, expectation: &str, args: &[&str], texts: &[&str]) -> Result<()> {
        let kubectl = self.plane.kubectl();
        let outcome = wait::eventually(expectation, wait::PATIENCE, async || {
            let table = kubectl.run(args).await?;
            Ok(match texts.iter().find(|text| !table.contains(**text)) {
                None => Seen::Done(()),
                Some(text) => Seen::NotYet(format!("no {text:?} in\n{table}")),
            })
        })
        .await;
        self.kubectl(args).await?;
        self.record.verdict(expectation, outcome);
        Ok(())
    }

    /// Waits until operator and webhook have taken over a new configuration.
    pub async fn expect_configuration(&mut self, expectation: &str, apply: &[&str]) -> Result<()> {
        let before = self.cardgate.operator().generation().await?;
        self.kubectl(apply).await?;
        let outcome = wait::eventually(expectation, wait::PATIENCE, async || {
            let now = self.cardgate.operator().generation().await?;
            Ok(Seen::when(
                now != before,
                format!("the generation in force is still {before:?}"),
            ))
        })
        .await;
        self.record.verdict(expectation, outcome);
        Ok(())
    }

    /// Says how to go on by hand.
    pub fn explain(&self) {
        let kubectl = self.plane.kubectl();
        terminal::heading("It is yours now");
        terminal::say("In another terminal:");
        let directories = [self.cardgate.plugin(), kubectl.program()].map(|program| {
            let directory = program.parent().map(|directory| directory.display().to_string());
            directory.unwrap_or_default()
        });
        terminal::output(&format!("export KUBECONFIG={}", kubectl.kubeconfig().display()));
        terminal::output(&format!(
            "export PATH={}:$PATH    # for kubectl card, and for kubectl, if you have none",
            directories.join(":")
        ));
        terminal::say("For example:");
        terminal::output("kubectl get cards                                # inventories, types, usage");
        terminal::output(
            "kubectl card types                               # the names to write, and what is free of each",
        );
        terminal::output("kubectl describe cardinventory a100-mig-mixed");
        terminal::output("kubectl delete job training                      # frees four A100");
        terminal::output("kubectl scale deployment inference --replicas=40 # more than the quota of 32");
        terminal::output("kubectl get events --field-selector reason=InsufficientScalarQuota");
        terminal::say("Logs and metrics:");
        for instance in [self.cardgate.operator(), self.cardgate.webhook()] {
            terminal::output(&format!("tail -f {}", instance.log_path().display()));
            terminal::output(&format!("curl http://{}/metrics", instance.metrics_address()));
        }
        terminal::say("\nCtrl-C ends it and leaves nothing behind.");
    }
}

fn show_command(args: &[&str]) {
    let words: Vec<&str> = std::iter::once("kubectl").chain(args.iter().copied()).collect();
    terminal::command(&words);
}

async fn kubectl(plane: &ControlPlane, args: &[&str]) -> Result<()> {
    show_command(args);
    let output = plane.kubectl().output(args, None).await?;
    terminal::output(&String::from_utf8_lossy(&output.stdout));
    terminal::output(&String::from_utf8_lossy(&output.stderr));
    if !output.status.success() {
        plane
            .ensure_running()
            .context("kubectl failed because the control plane did")?;
        bail!("kubectl failed ({})", output.status);
    }
    Ok(())
}
