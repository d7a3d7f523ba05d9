//! Flags that can also be set by environment variables.

use std::net::SocketAddr;

use clap::{Args, Parser};
use crds::keys::NAMESPACE;

use crate::logging::LogFormat;

/// The flags of both programs.
#[derive(Debug, Clone, Args)]
#[expect(
    clippy::doc_markdown,
    reason = "these are the words of --help, which shows backticks as they are"
)]
pub struct CommonFlags {
    /// Address of GET /metrics, for Prometheus. Both plain HTTP addresses serve the same paths and may be equal
    #[arg(long, env, default_value = "0.0.0.0:8080")]
    pub metrics_addr: SocketAddr,

    /// Address of GET /healthz and GET /readyz, for the kubelet
    #[arg(long, env, default_value = "0.0.0.0:8081")]
    pub health_addr: SocketAddr,

    /// Cardgate's own namespace, where its ConfigMap is, its Lease and its certificates
    #[arg(long, env, default_value = NAMESPACE)]
    pub pod_namespace: String,

    /// Form of the log
    #[arg(long, env, value_enum, default_value = "text")]
    pub log_format: LogFormat,
}

/// Reads the flags and the environment; an empty variable counts as not set. Flags that cannot be read end the program, with a message.
pub fn read<F: Parser>() -> F {
    let command = F::command().mut_args(|flag| {
        let value = flag.get_env().and_then(std::env::var_os);
        if value.is_some_and(|value| value.is_empty()) {
            flag.env(None::<&str>)
        } else {
            flag
        }
    });
    F::from_arg_matches(&command.get_matches()).unwrap_or_else(|error| error.exit())
}
