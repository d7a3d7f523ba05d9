//! The webhook's flags, each with an environment twin.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Parser;
use programs::flags::CommonFlags;

/// The door of Cardgate: the admission webhooks for pods, queues, groups and jobs that are subject to card quotas.
///
/// Holds managed pods back by a scheduling gate until the operator grants their quota, and refuses what is malformed. It
/// watches queues, groups, namespaces, card types and ConfigMap "cardgate-config" through the Kubernetes API, as KUBECONFIG or the
/// pod's service account says, and takes its serving certificate from files, replaced without a restart. RUST_LOG sets what is
/// logged, such as "info" or "info,webhook=debug".
#[derive(Debug, Parser)]
#[command(name = "webhook", version)]
#[expect(
    clippy::doc_markdown,
    reason = "these are the words of --help, which shows backticks as they are"
)]
pub struct Flags {
    /// Address of the webhooks, HTTPS: POST /mutate, POST /validate and POST /advise.
    #[arg(long, env, default_value = "0.0.0.0:9443")]
    pub listen_addr: SocketAddr,
    /// Directory of the serving certificate and its key, tls.crt and tls.key as PEM: where Secret "cardgate-webhook-tls" is mounted.
    #[arg(long, env, value_name = "PATH", default_value = "/etc/cardgate/tls")]
    pub tls_dir: PathBuf,
    /// A scheduler that this cluster does not have, such as volcano: pods that name it get default-scheduler instead, with
    /// a warning.
    #[arg(long, env, value_name = "NAME")]
    pub replace_scheduler_name: Option<String>,
    /// Threads that answer reviews [default: one for each CPU, 2 at most].
    #[arg(long, env, value_name = "COUNT")]
    pub workers: Option<usize>,
    /// How long to go on serving after SIGTERM, until every API server knows that this replica is going.
    #[arg(long, env, value_name = "SECONDS", default_value_t = 5)]
    pub shutdown_delay: u64,
    /// The flags that both programs have.
    #[command(flatten)]
    pub common: CommonFlags,
}
