//! The command line of each component.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use anyhow::{Context, Result};

use super::Options;
use super::kubeconfig::{Credentials, Endpoint};
use super::pki::{Identity, Pki};
use crate::assets::{Assets, Program};
use crate::ports::Port;
use crate::process::{Process, Reaper};
use crate::workspace;

/// Client-side rate limits that never limit: what is measured is to be the API server, not a client's patience.
const REQUESTS_PER_SECOND: u32 = 5_000;
/// Above the rate, for a moment.
const REQUESTS_BURST: u32 = 10_000;

/// Who writes what: metadata only, and no reads.
const AUDIT_POLICY: &str = r#"{
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        { "level": "Metadata", "verbs": ["create", "update", "patch", "delete", "deletecollection"] },
        { "level": "None" }
    ]
}"#;

/// The same, and of Cardgate's operator what is stored since.
const AUDIT_POLICY_OF_VERSIONS: &str = r#"{
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "omitManagedFields": true,
    "rules": [
        {
            "level": "RequestResponse",
            "users": ["system:serviceaccount:cardgate-system:operator"],
            "verbs": ["create", "update", "patch", "delete", "deletecollection"]
        },
        { "level": "Metadata", "verbs": ["create", "update", "patch", "delete", "deletecollection"] },
        { "level": "None" }
    ]
}"#;

/// The same, and reads too, of Cardgate's own accounts alone.
const AUDIT_POLICY_OF_CARDGATE: &str = r#"{
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {
            "level": "Metadata",
            "users": ["system:serviceaccount:cardgate-system:operator", "system:serviceaccount:cardgate-system:webhook"]
        },
        { "level": "None" }
    ]
}"#;

/// What the API server records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Audit {
    /// Every write.
    Writes,
    /// The same, and which versions the operator's made.
    Versions,
    /// All that Cardgate's accounts do.
    Cardgate,
}

impl Audit {
    fn policy(self) -> &'static str {
        match self {
            Self::Writes => AUDIT_POLICY,
            Self::Versions => AUDIT_POLICY_OF_VERSIONS,
            Self::Cardgate => AUDIT_POLICY_OF_CARDGATE,
        }
    }
}

/// The ports of one control plane.
#[derive(Debug)]
pub(super) struct Ports {
    etcd: Port,
    etcd_peer: Port,
    pub apiserver: Port,
    controller_manager: Port,
    pub scheduler: Port,
    pub kwok: Port,
}

impl Ports {
    pub fn take() -> Result<Self> {
        Ok(Self {
            etcd: Port::take()?,
            etcd_peer: Port::take()?,
            apiserver: Port::take()?,
            controller_manager: Port::take()?,
            scheduler: Port::take()?,
            kwok: Port::take()?,
        })
    }
}

/// What every component needs to start.
pub(super) struct Components<'a> {
    pub assets: &'a Assets,
    pub dir: &'a Path,
    pub pki: &'a Pki,
    pub ports: &'a Ports,
    pub reaper: &'a Arc<Reaper>,
    pub options: &'a Options,
    pub endpoint: &'a Endpoint,
}

impl Components<'_> {
    pub fn etcd(&self) -> Result<Process> {
        let client = format!("http://{}", self.ports.etcd.address());
        let peer = format!("http://{}", self.ports.etcd_peer.address());
        let args = [
            flag("--data-dir", self.dir.join("etcd").display()),
            flag("--listen-client-urls", &client),
            flag("--advertise-client-urls", &client),
            flag("--listen-peer-urls", &peer),
            flag("--initial-advertise-peer-urls", &peer),
            flag("--initial-cluster", format!("default={peer}")),
            // Nothing here outlives a test.
            "--unsafe-no-fsync".to_owned(),
            flag("--log-level", "warn"),
        ];
        self.start(Program::Etcd, args)
    }

    pub fn apiserver(&self) -> Result<Process> {
        let mut args = vec![
            flag("--etcd-servers", format!("http://{}", self.ports.etcd.address())),
            flag("--bind-address", "127.0.0.1"),
            flag("--secure-port", self.ports.apiserver.number()),
            flag("--service-account-key-file", self.pki.verifying_key.display()),
            flag("--service-account-signing-key-file", self.pki.signing_key.display()),
            flag("--service-account-issuer", "https://kubernetes.default.svc"),
            flag("--token-auth-file", self.pki.tokens.display()),
            flag("--authorization-mode", "RBAC"),
            flag("--service-cluster-ip-range", "10.0.0.0/24"),
        ];
        args.extend(self.serving_certificate());
        if !self.options.devices {
            args.push(flag("--runtime-config", "resource.k8s.io/v1=false"));
        }
        if let Some(audit) = self.options.audit {
            args.push(flag(
                "--audit-policy-file",
                self.write("audit-policy.json", audit.policy())?.display(),
            ));
            args.push(flag("--audit-log-path", audit_log(self.dir).display()));
            // Each line is written when it happens, so that a reader sees what has been answered.
            args.push(flag("--audit-log-mode", "blocking"));
            // In megabytes: the log of twenty thousand pods would begin anew in the middle.
            args.push(flag("--audit-log-maxsize", 10_000));
        }
        self.start(Program::KubeApiserver, args)
    }

    pub fn controller_manager(&self, identity: &Identity) -> Result<Process> {
        let mut args = vec![
            flag("--kubeconfig", self.kubeconfig(identity)?.display()),
            flag("--leader-elect", false),
            // As installers do it: each controller is a service account of its own.
            flag("--use-service-account-credentials", true),
            flag("--service-account-private-key-file", self.pki.signing_key.display()),
            flag("--root-ca-file", self.pki.ca.display()),
            flag("--bind-address", "127.0.0.1"),
            flag("--secure-port", self.ports.controller_manager.number()),
            flag("--kube-api-qps", REQUESTS_PER_SECOND),
            flag("--kube-api-burst", REQUESTS_BURST),
        ];
        args.extend(self.serving_certificate());
        self.start(Program::KubeControllerManager, args)
    }

    pub fn scheduler(&self, identity: &Identity, more: &str) -> Result<Process> {
        let kubeconfig = self.kubeconfig(identity)?;
        let config = format!(
            "apiVersion: kubescheduler.config.k8s.io/v1\n\
             kind: KubeSchedulerConfiguration\n\
             leaderElection: {{ leaderElect: false }}\n\
             clientConnection: {{ kubeconfig: {:?}, qps: {REQUESTS_PER_SECOND}, burst: {REQUESTS_BURST} }}\n\
             {more}",
            kubeconfig.display().to_string(),
        );
        let mut args = vec![
            flag("--config", self.write("scheduler.yaml", &config)?.display()),
            flag("--bind-address", "127.0.0.1"),
            flag("--secure-port", self.ports.scheduler.number()),
        ];
        args.extend(self.serving_certificate());
        self.start(Program::KubeScheduler, args)
    }

    pub fn kwok(&self, kubeconfig: &Path) -> Result<Process> {
        let template = workspace::root().join("tests/controlplane/stages.yaml");
        let stages =
            std::fs::read_to_string(&template).with_context(|| format!("cannot read {}", template.display()))?;
        let stages = stages.replace("$JOB_MILLISECONDS", &self.options.job_duration.as_millis().to_string());
        let args = [
            flag("--kubeconfig", kubeconfig.display()),
            flag("--manage-all-nodes", true),
            // As kubelets do it; without leases the controller manager takes the nodes for dead.
            flag("--node-lease-duration-seconds", 40),
            // Room for the addresses of every pod of a load run.
            flag("--cidr", "10.64.0.0/10"),
            flag("--config", self.write("stages.yaml", &stages)?.display()),
            flag("--server-address", self.ports.kwok.address()),
        ];
        self.start(Program::Kwok, args)
    }

    fn serving_certificate(&self) -> [String; 2] {
        [
            flag("--tls-cert-file", self.pki.certificate.display()),
            flag("--tls-private-key-file", self.pki.key.display()),
        ]
    }

    fn kubeconfig(&self, identity: &Identity) -> Result<PathBuf> {
        let path = self
            .dir
            .join(format!("{}.kubeconfig", identity.user.trim_start_matches("system:")));
        let credentials = Credentials {
            token: identity.token.clone(),
            impersonate: None,
        };
        self.endpoint.write_kubeconfig(&credentials, &path)?;
        Ok(path)
    }

    fn write(&self, name: &str, text: &str) -> Result<PathBuf> {
        let path = self.dir.join(name);
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(path)
    }

    fn start(&self, program: Program, args: impl IntoIterator<Item = String>) -> Result<Process> {
        let log = self.dir.join(format!("{}.log", program.name()));
        let mut command = Command::new(self.assets.path(program));
        // Some components write files into their working or home directory unless told otherwise.
        command
            .args(args)
            .current_dir(self.dir)
            .env("HOME", self.dir)
            .env_remove("KUBECONFIG");
        Process::start(program.name(), &mut command, &log, self.reaper)
    }
}

/// The API server's audit log, where it has one.
pub(super) fn audit_log(dir: &Path) -> PathBuf {
    dir.join("audit.log")
}

fn flag(name: &str, value: impl std::fmt::Display) -> String {
    format!("{name}={value}")
}
