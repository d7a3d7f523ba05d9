//! The operator's flags, each with an environment twin.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{ArgAction, Parser, Subcommand};
use programs::flags::CommonFlags;

use crate::certificates::Name;
use crate::uninstall;

/// Discovers the cards of the cluster, lets waiting pods in within their queues' quotas, and shows what there is.
///
/// Connects to the cluster of KUBECONFIG, or of the pod it runs in. Of several operators one leads; the others stand by.
/// RUST_LOG sets what is logged, such as "info" or "info,operator=debug".
#[derive(Debug, Clone, Parser)]
#[command(name = "operator", version)]
#[expect(
    clippy::doc_markdown,
    reason = "these are the words of --help, which shows backticks as they are"
)]
pub struct Cli {
    /// What to do instead of operating.
    #[command(subcommand)]
    pub task: Option<Task>,

    /// The flags that both programs have.
    #[command(flatten)]
    pub common: CommonFlags,

    /// Where the scheduler extender is served, by TLS, to who shows a certificate of the same authority; without it, it is not
    #[arg(long, env = "EXTENDER_ADDR")]
    pub extender_addr: Option<SocketAddr>,

    /// Directory of the extender's certificate and its callers' authorities, tls.crt, tls.key and ca.crt as PEM: where Secret
    /// cardgate-extender-tls is mounted
    #[arg(
        long,
        env = "EXTENDER_TLS_DIR",
        value_name = "PATH",
        default_value = "/etc/cardgate/extender-tls"
    )]
    pub extender_tls_dir: PathBuf,

    /// File with a token for callers under /volcano that can't show a certificate, at least 16 characters; without it, all show
    /// one
    #[arg(long, env = "EXTENDER_TOKEN_FILE", value_name = "PATH")]
    pub extender_token_file: Option<PathBuf>,

    /// Where CardReviews are answered, by TLS: API servers ask, for people; without it, they are not
    #[arg(long, env = "REVIEW_ADDR")]
    pub review_addr: Option<SocketAddr>,

    /// Directory of the certificate for that, tls.crt, tls.key and ca.crt as PEM: where Secret cardgate-review-tls is mounted
    #[arg(
        long,
        env = "REVIEW_TLS_DIR",
        value_name = "PATH",
        default_value = "/etc/cardgate/review-tls"
    )]
    pub review_tls_dir: PathBuf,

    /// Name of this replica in the Lease and in events; by default the host's name, which is the pod's
    #[arg(long, env = "POD_NAME")]
    pub pod_name: Option<String>,

    /// Issue the webhook's certificates and tell the API server whom to trust; false leaves both to somebody else, such as
    /// cert-manager
    #[arg(long, env = "MANAGE_CERTIFICATES", default_value_t = true, action = ArgAction::Set, num_args = 0..=1,
          default_missing_value = "true")]
    pub manage_certificates: bool,

    /// Further names and addresses in the certificates of the webhook and the extender, beside those of their Services
    #[arg(long, env = "TLS_EXTRA_SANS", value_delimiter = ',')]
    pub tls_extra_sans: Vec<Name>,
}

/// What to do once, instead of operating.
#[derive(Debug, Clone, Subcommand)]
pub enum Task {
    /// Remove Cardgate from the cluster: let every waiting pod go, resume every held Job, then delete all that is Cardgate's
    ///
    /// Takes KUBECONFIG, or the service account of manifests/overlays/uninstall. What it was killed over, it finishes when it is
    /// started again.
    Uninstall(uninstall::Uninstall),
}

impl Cli {
    /// Name of this replica: as given, or the host's.
    pub fn instance(&self) -> String {
        let host = || std::env::var("HOSTNAME").ok().filter(|name| !name.is_empty());
        self.pod_name
            .clone()
            .or_else(host)
            .unwrap_or_else(|| format!("operator-{}", std::process::id()))
    }
}
