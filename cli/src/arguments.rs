//! What can be asked, and how.

use std::path::PathBuf;

use clap::{ArgGroup, Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use k8s_openapi::jiff::SignedDuration;

use crate::span;

/// Who may and who does use GPU cards, as Cardgate counts them, and why something waits. Everything is asked with your own rights.
#[derive(Debug, Parser)]
#[command(
    name = "kubectl-card",
    bin_name = "kubectl card",
    version,
    after_help = "Exit codes:\n  0  answered\n  1  there is no such card, queue, pod or workload\n  2  the command or the \
                  file can't be read\n  3  the cluster can't be asked: not reached, no right, or Cardgate is not installed or not running\n  \
                  4  why, simulate: it waits\n  5  why, simulate: it is never let in as things are\n  6  check: something has to be mended\n  7  lint, simulate: something would be refused"
)]
pub struct Arguments {
    /// What is asked.
    #[command(subcommand)]
    pub verb: Verb,
    /// Whom to ask, and as whom.
    #[command(flatten)]
    pub connection: Connection,
    /// Print more columns, or all there is as JSON or YAML
    #[arg(short, long, global = true, value_enum)]
    pub output: Option<Output>,
}

/// Which cluster is asked, and as whom.
#[derive(Debug, Args)]
pub struct Connection {
    /// Namespace that is meant, and whose queue [default: the context's]
    #[arg(short, long, global = true)]
    pub namespace: Option<String>,
    /// Context of the kubeconfig [default: the current one]
    #[arg(long, global = true)]
    pub context: Option<String>,
    /// Kubeconfig file [default: KUBECONFIG, then ~/.kube/config]
    #[arg(long, global = true)]
    pub kubeconfig: Option<PathBuf>,
    /// Ask on behalf of this user
    #[arg(long = "as", global = true, value_name = "USER")]
    pub user: Option<String>,
    /// Ask on behalf of a user of this group; more than once for more groups
    #[arg(long = "as-group", global = true, value_name = "GROUP", requires = "user")]
    pub groups: Vec<String>,
}

impl Connection {
    /// The options by which another command asks the same cluster, as the same user.
    pub fn options(&self) -> Vec<String> {
        let file = self.kubeconfig.as_ref().map(|file| file.display().to_string());
        let single = [
            ("--context", &self.context),
            ("--kubeconfig", &file),
            ("--as", &self.user),
        ];
        let single = single
            .into_iter()
            .filter_map(|(option, value)| Some((option, value.as_ref()?)));
        let groups = self.groups.iter().map(|group| ("--as-group", group));
        let all = single.chain(groups);
        all.flat_map(|(option, value)| [option.to_owned(), value.clone()])
            .collect()
    }
}

/// A form of the answer besides the plain table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// A table with more columns.
    Wide,
    /// JSON.
    Json,
    /// YAML.
    Yaml,
}

/// What `lint --against` is told that means the cluster, not a file.
pub const AGAINST_CLUSTER: &str = "cluster";

/// What is asked.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Which cards there are, how many are free, and what the namespace's queue may have of each
    ///
    /// The names are what to write in volcano.sh/card.name and volcano.sh/card.quota. Cards that are shared through mGPU are
    /// counted in hundredths.
    Types {
        /// Show the quota of this queue [default: the one that the namespace names]
        #[arg(long)]
        queue: Option<String>,
    },
    /// What queues may have, have and wait for; of one, also what waits in it, first to go first
    ///
    /// Everybody sees quotas. Usage and what waits need the right to list cardusages, which whoever may view the whole cluster has.
    Queue {
        /// Show this queue, card by card
        name: Option<String>,
    },
    /// Which queues hold a card, and what of it no queue is charged for
    ///
    /// Everybody sees how many are free, and how many no queue is charged for. Which queues hold them needs the right to list cardusages,
    /// which whoever may view the whole cluster has.
    Who {
        /// Name of the card, as `kubectl card types` shows it
        card: String,
    },
    /// Why a pod, workload or queue waits, who has what it lacks, who is before it, and what would let it in
    ///
    /// Of nothing in particular, all that waits in the namespace, or in all, with the reason that stands on it. Needs the role view, edit or
    /// cardgate-ask in the namespace. Pods of other namespaces are counted, not named.
    #[command(
        after_help = "Examples:\n  kubectl card why                     all that waits here; -A in all namespaces\n  kubectl card why \
                            train-0             a pod\n  kubectl card why deployment/web      its first pod \
                            that waits\n  kubectl card why job/train           or podgroup/gang, queue/team-a\n  kubectl card why -f pod.yaml         \
                            whether what is not created yet would be let in now"
    )]
    Why {
        /// A pod's name, KIND/NAME, or KIND NAME
        #[arg(value_name = "POD|KIND/NAME", conflicts_with = "file", num_args = 0..=2)]
        what: Vec<String>,
        /// Ask about the manifests of this file, which need not be created; - is the input
        #[arg(short, long, value_name = "FILE")]
        file: Option<PathBuf>,
        /// List what waits in all namespaces
        #[arg(short = 'A', long, conflicts_with_all = ["what", "file"])]
        all_namespaces: bool,
    },
    /// What is used of each card, queue and node, as bars
    ///
    /// Everybody sees cards and quotas. What queues use and which nodes have the cards needs the right to list cardusages and
    /// cardinventories, which whoever may view the whole cluster has; without it a line says so.
    ///
    /// Of a card that a queue names neither in its quota nor in what it deserves, both are - (absent in JSON), and nothing is borrowed: under
    /// the plugin capacity the cluster alone limits it.
    #[command(
        after_help = "Examples:\n  kubectl card top               once\n  kubectl card top --watch       live on a terminal: q \
                            leaves, arrows move\n  kubectl card top -o json | jq '.queues[] | select(.borrowed > 0)'"
    )]
    Top {
        /// Show it live, until q or Ctrl-C
        #[arg(short, long)]
        watch: bool,
    },
    /// Who was let in, who was evicted and for whom, and which program wrote what queues may have, in order of time
    ///
    /// From what Kubernetes itself keeps: events (for an hour, unless the API server is told otherwise), pods that are still there, and the
    /// managed fields of queues. What is not known is said. Needs the role view or edit in the namespace. Whoever may write events in a
    /// namespace may have written some; -o wide says what is known by events.
    #[command(
        after_help = "Examples:\n  kubectl card history                  the last day of this namespace and its queues\n  kubectl card \
                            history --since 1h -A    of all namespaces, for who may view the cluster\n  kubectl card history -o json \
                            | jq '.entries[] | select(.what == \"Evicted\")'"
    )]
    History {
        /// How far to look back: a number with s, m, h, d or w
        #[arg(long, default_value = "24h", value_name = "SPAN", value_parser = span::parse)]
        since: SignedDuration,
        /// Tell of all namespaces
        #[arg(short = 'A', long)]
        all_namespaces: bool,
    },
    /// Cards, nodes, queues, history and why something waits, as pages in your browser, live
    ///
    /// Served on this machine alone, to whoever has the address that is printed, and with your own rights: nothing is installed in the
    /// cluster, and nothing can be changed there.
    #[command(
        after_help = "Examples:\n  kubectl card ui                 open the address that it prints; Ctrl-C ends it\n  kubectl card ui --port 0        any \
                            free port"
    )]
    Ui {
        /// Port on this machine; 0 is any that is free
        #[arg(long, default_value_t = 8091)]
        port: u16,
    },
    /// Whether the installation is as it should be: what is there, what runs, who leads, certificates, your rights, queues and cards
    ///
    /// What you may not see is said to be unseen, with the right that is missing.
    Check,
    /// What would be refused or warned of if these manifests were applied, without a cluster
    ///
    /// The same code judges as in the cluster. What it can't know here (queues that are in none of the files, which cards nodes have)
    /// is said; with --cluster it is asked for, with your own rights. Nodes, queues, namespaces and the configuration (cardgate-config)
    /// among the manifests are known to it.
    #[command(
        after_help = "Examples:\n  kubectl card lint -f job.yaml                 in a pipeline: exit code 7 where one is refused\n  kubectl card \
                            lint -f deploy/ -f queues.yaml   a directory, and the queues that it names\n  helm template . | kubectl card lint \
                            -f - -o json\n  kubectl card lint -f pod.yaml --cluster       with the queues and cards of the cluster\n  kubectl \
                            card lint -f new/ --against old/      whether that may be changed to this\n  kubectl card lint -f new/ --against \
                            cluster   whether it may be applied to what is there"
    )]
    Lint(Linting),
    /// Who would be let in, where, in which order, and why not, if these manifests were applied or quotas and nodes were others
    ///
    /// The operator's own engine decides, as if everybody who is let in ran for ever. From the cluster it takes the rights to list
    /// nodes, queues, namespaces, jobs and pods; without those for podgroups, priorityclasses and what is of resource.k8s.io it says what it left
    /// out. From files alone, it takes none. Where pods are not pinned, the scheduler may choose
    /// another node.
    #[command(
        after_help = "Examples, of which each changes what the first tells:\n  kubectl card simulate --from-cluster    what waits now\n      --set \
                            team-a.NVIDIA-A100=8          with more quota\n      --add-nodes gpu-1=2                 with two more nodes like \
                            gpu-1\n      -f train.yaml                       with a Job that is not created yet\n  kubectl card simulate -f \
                            nodes.yaml -f queues.yaml -f pods.yaml\n                                          before anything is \
                            installed\n\nExit codes, of what the files bring: 0 let in, 4 waits, 5 waits in vain, 7 refused"
    )]
    Simulate(Simulation),
    /// Remove Cardgate from the cluster: let every waiting pod go, resume every held Job, then delete all that is Cardgate's
    ///
    /// In the order that is safe: first nothing new is held, then the operator ends, then all that waits is let go, and what it is known by
    /// goes last. Killed in the middle, the same command goes on. Needs the rights of a cluster-admin.
    #[command(
        after_help = "Examples:\n  kubectl card uninstall --dry-run     what would be done\n  kubectl card uninstall               asks \
                            first\n  kubectl card uninstall --yes         for scripts"
    )]
    Uninstall {
        /// Change nothing; say what would be done
        #[arg(long)]
        dry_run: bool,
        /// Remove all queues and groups too, with their definitions, where Cardgate brought these
        #[arg(long)]
        queues: bool,
        /// Do not ask
        #[arg(short, long)]
        yes: bool,
    },
    /// Print the script that completes these commands in a shell, for those who call `kubectl-card` itself
    ///
    /// `kubectl card` is completed by kubectl's own completion, where an executable `kubectl_complete-card` is on the PATH: that is this
    /// program under another name, with names of cards and queues besides.
    #[command(
        after_help = "Examples:\n  ln -s \"$(command -v kubectl-card)\" ~/.local/bin/kubectl_complete-card    kubectl card, in every shell that \
                      completes kubectl\n  source <(kubectl-card completion bash)                                    kubectl-card, in bash"
    )]
    Completion {
        /// The shell
        #[arg(value_enum)]
        shell: Shell,
    },
}

/// What is judged.
#[derive(Debug, Args)]
pub struct Linting {
    /// File or directory of manifests, YAML or JSON; - is the input
    #[arg(short, long, value_name = "FILE", required = true)]
    pub file: Vec<PathBuf>,
    /// Also the directories in these directories
    #[arg(short = 'R', long)]
    pub recursive: bool,
    /// Judge updates: of what this file or directory has, or the `cluster`, to what -f has; objects in -f alone are created
    #[arg(long, value_name = "FILE|cluster")]
    pub against: Vec<PathBuf>,
    /// Ask the cluster for queues, cards, groups and settings that are not in the files
    #[arg(long)]
    pub cluster: bool,
    /// Exit with 7 for warnings, too
    #[arg(long)]
    pub strict: bool,
}

/// What is simulated.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("begin").args(["file", "from_cluster"]).required(true).multiple(true)))]
pub struct Simulation {
    /// File or directory of manifests that are added: workloads, queues, nodes, the configuration; - is the input
    #[arg(short, long, value_name = "FILE")]
    pub file: Vec<PathBuf>,
    /// Begin with what the cluster has
    #[arg(long)]
    pub from_cluster: bool,
    /// Also the directories in these directories
    #[arg(short = 'R', long)]
    pub recursive: bool,
    /// Give a queue another quota of a card, or of cpu or memory
    #[arg(long, value_name = "QUEUE.CARD=N")]
    pub set: Vec<String>,
    /// Add so many nodes like this one
    #[arg(long, value_name = "NODE=N")]
    pub add_nodes: Vec<String>,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_arguments_do_not_contradict_each_other() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn another_command_is_told_the_same_cluster_and_user() {
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let options = "--context lab --kubeconfig /k --as jane --as-group a --as-group b";
        let asked = Arguments::parse_from(words(&format!("kubectl-card ui -n team {options}")));
        assert_eq!(asked.connection.options(), words(options));
        let asked = Arguments::parse_from(words("kubectl-card ui"));
        assert!(asked.connection.options().is_empty());
    }
}
