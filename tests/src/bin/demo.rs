//! `cargo demo`: Cardgate on a real control plane, step by step, and then for you to use.

use std::process::ExitCode;

use clap::Parser;

/// Starts a Kubernetes control plane on this machine, installs Cardgate in it, and shows the Capacity Card document's
/// examples, each command with its real output. Then it stays up for you to use.
///
/// Needs Rust and Go and nothing else. The first start builds the control plane, which takes some minutes, unless
/// `KUBEBUILDER_ASSETS` names a directory with kube-apiserver, etcd, kube-scheduler, kube-controller-manager, kubectl and
/// kwok.
#[derive(Debug, Parser)]
#[command(name = "cargo demo", bin_name = "cargo demo")]
struct Arguments {
    /// End after the examples, with an exit code other than 0 if any step did not have the expected effect.
    #[arg(long)]
    once: bool,
}

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    let arguments = Arguments::parse();
    let as_expected = cardgate_tests::demo::run(arguments.once).await?;
    Ok(if as_expected {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
