//! What to do about a reason, in one sentence.

use super::explanation::Explanation;
use super::found::What;
use super::short::{Kept, Place, Short, Used};
use crate::cluster::Cluster;
use crate::reason::{Outlook, Reason};

impl Explanation<'_> {
    /// Returns what to do about the explained reason. Where waiting can help, the sentence says that too.
    pub fn remedy(&self) -> String {
        if let Some(beyond) = &self.beyond {
            return beyond.remedy(self.is_of_pod).to_owned();
        }
        let Some(old) = self.replaces else {
            let remedy = self.reason.remedy(self.outlook, self.is_of_pod);
            return match &self.what {
                What::Quota(short) => with_what_is_raised(self.cluster, remedy, short),
                What::Nodes(nodes) if nodes.are_away && self.outlook == Outlook::NotYet => AWAY.to_owned(),
                What::Said(_) | What::Nodes(_) => remedy.to_owned(),
            };
        };
        format!(
            "an update makes new pods before it ends old ones, and there is no quota for both: set \
             spec.strategy.rollingUpdate.maxSurge to 0 and maxUnavailable to 1, or delete pod {}",
            old.name
        )
    }
}

/// The remedy where every node that could take a pod takes no pods at the moment: other pods are not in the way then.
const AWAY: &str = "ask an administrator to have one of these nodes uncordoned (kubectl uncordon), or mended where it is not ready, or have \
                    a node added";

/// The end of a remedy that asks for a higher limit.
const RAISED: &str = "have the quota raised";

/// What would help where there is too little quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Raise {
    /// What the queue deserves: the queue never has more (`enableOveruse`).
    Deserved,
    /// A higher quota.
    Quota,
    /// A higher quota of a queue, or fewer guarantees of the queues below it.
    QuotaOrGuarantees,
    /// More of what all queues have together, that is, more nodes.
    Nodes,
    /// Nodes that have it and that take no pods at the moment.
    NodesBack,
    /// More of what all queues have together, or fewer guarantees of other queues.
    NodesOrGuarantees,
}

impl Raise {
    fn of(cluster: &Cluster, short: &Short) -> Self {
        let level = match &short.place {
            Place::Level(at) => at.level,
            Place::Node(_) | Place::GpuNodes { .. } => None,
        };
        // What other queues leave to this queue is less than its quota says.
        let is_cut = short.kept == Kept::AsLeft;
        let is_guaranteed = is_cut || matches!(short.used, Used::ByPods { reserved, .. } if reserved > 0);
        let is_away = || short.of.iter().any(|dimension| cluster.away(*dimension) > 0);
        match (short.kept, level) {
            (Kept::AsDeserved, _) => Self::Deserved,
            (_, Some(_)) if !is_guaranteed => Self::Quota,
            (_, Some(_)) if !is_cut => Self::QuotaOrGuarantees,
            _ if is_guaranteed => Self::NodesOrGuarantees,
            _ if is_away() => Self::NodesBack,
            _ => Self::Nodes,
        }
    }

    const fn say(self) -> &'static str {
        match self {
            Self::Deserved => "what the queue deserves raised",
            Self::Quota => "the quota raised",
            Self::QuotaOrGuarantees => "the quota raised or other queues' guarantees lowered",
            Self::Nodes => "nodes added",
            Self::NodesBack => "nodes uncordoned, mended or added",
            Self::NodesOrGuarantees => "nodes added or other queues' guarantees lowered",
        }
    }
}

/// Returns a remedy that says what has to be raised. A higher quota changes nothing where a queue never has more than it deserves, or where
/// all queues together have no more.
fn with_what_is_raised(cluster: &Cluster, remedy: &str, short: &[Short]) -> String {
    let mut raise: Vec<_> = short.iter().map(|short| Raise::of(cluster, short)).collect();
    raise.sort_unstable();
    raise.dedup();
    if raise.is_empty() {
        return remedy.to_owned();
    }
    let raise: Vec<_> = raise.into_iter().map(Raise::say).collect();
    remedy.replace(RAISED, &format!("have {}", raise.join(", and ")))
}

impl Reason {
    /// Returns what to do about this reason for a pod, with whether waiting can help. There are two entries where only the numbers decide
    /// that.
    pub fn remedies(self) -> Vec<(Outlook, &'static str)> {
        let mut outlooks = vec![self.outlook(|| true), self.outlook(|| false)];
        outlooks.dedup();
        let remedies = outlooks.into_iter();
        remedies.map(|outlook| (outlook, self.remedy(outlook, true))).collect()
    }

    /// Returns what to do where every node that could take the pod takes no pods at the moment; none for reasons where a returning node
    /// can't help.
    pub fn remedy_of_nodes_away(self) -> Option<&'static str> {
        matches!(self, Self::NoNodeFits | Self::InsufficientMgpu).then_some(AWAY)
    }

    /// Returns what to do about this reason. `of_pod` says whether what waits is a pod.
    pub(super) fn remedy(self, outlook: Outlook, of_pod: bool) -> &'static str {
        let never = outlook == Outlook::Never;
        match self {
            Self::GetTaskRequestResourceFailed => {
                "create the pod anew with a request that can be read, of a card that the cluster has: kubectl get cardtypes lists them"
            }
            Self::EmptyQueueCapability => "have the queue's owner give it a quota, or name another queue",
            Self::InsufficientCpuQuota | Self::InsufficientMemoryQuota | Self::InsufficientScalarQuota if never => {
                "ask for less, or have the quota raised"
            }
            Self::InsufficientCpuQuota | Self::InsufficientMemoryQuota | Self::InsufficientScalarQuota => {
                "wait until the pods that hold it end, end some of them, or have the quota raised"
            }
            Self::NoCardQuota => "have a quota added for the card, or name another queue",
            Self::CardNameMissing => "create the pod anew with the annotation volcano.sh/card.name",
            Self::SecondCardResource => {
                "create pods that request cards of one resource each, or claim all of them, where nodes have them as devices"
            }
            Self::ResourceClaimNotFound => {
                "wait until Kubernetes has made the claim from its template (kubectl describe pod says why it can't), or create it: \
                 kubectl get resourceclaims lists them"
            }
            Self::ResourceClaimShared => {
                "wait until the other pod has its devices, name its queue, or claim devices of the pod's own by a template"
            }
            Self::SelectorsNotEvaluated => {
                "wait until they are, or select by what devices have in common, such as their product"
            }
            Self::NoDeviceSelected => {
                "create the pod anew with a claim whose class is there and whose selectors match a device: kubectl get \
                 deviceclasses,cardtypes lists classes and cards, or have a node added that has one"
            }
            Self::NoClaimForCard => "create the pod anew with a card that its claims select, or without naming one",
            Self::TooManyAlternatives => {
                "create the pod anew with claims that select fewer cards, or name those that it prefers in the annotation \
                 volcano.sh/card.name"
            }
            Self::HeldByAnotherGate => {
                "ask whoever added the gate: kubectl get pod -o yaml shows it under spec.schedulingGates"
            }
            Self::QueueNotFound => "create the queue, or name another one: kubectl get queues lists them",
            Self::QueueNotOpen => "have the queue opened, or name another one",
            Self::QueueInvalid => "have the queue's owner mend it",
            Self::InnerQueue => "name one of the queues below it: kubectl get queues shows each with its parent",
            Self::NamespaceNotAllowed => "name another queue, or have the namespace let in",
            Self::PodGroupNotFound => "create the PodGroup, or leave the pod's group out",
            Self::PodGroupInvalid => "mend the PodGroup, or the Job",
            Self::PodGroupIncomplete => {
                "create the pods that are missing, or lower spec.minMember or spec.minTaskMember, which a Job of Volcano has as \
                 spec.minAvailable and spec.tasks[].minAvailable"
            }
            Self::InqueueTimeout => "make the pods sooner after the group or Job, or ask for less",
            Self::ReservationTimeout => {
                "make room on a node that it may run on, or have it ask for less; request cards in no init container, where the \
                 scheduler claims those beside the others"
            }
            Self::RefusedByApiServer if !never => {
                "wait until it is tried again, or mend what makes the write fail: a webhook that does not answer, or an API server that has \
                 no time"
            }
            Self::RefusedByApiServer => {
                "have whoever refuses the write (a policy, a webhook, a rule of the API server) let it pass, or create it anew without \
                 what is refused"
            }
            Self::NoNodeFits | Self::InsufficientMgpu | Self::CrossQuotaExceeded if never => {
                "ask for less in one pod, or have a larger node added"
            }
            Self::NoNodeFits | Self::InsufficientMgpu => {
                "wait until pods on these nodes end, end some of them, or have a node added"
            }
            Self::CrossQuotaExceeded => "wait until pods without GPU on these nodes end, or have their quota raised",
            Self::NodesExcluded => {
                "create the pod anew with a node selector, affinity, tolerations and resource claims that leave it a node with the card, \
                 or have such a node added"
            }
            Self::NoMgpuNode => {
                "create the pod anew with a compute policy, a number of cards and a node selector that some mGPU node meets, or \
                 have such a node added"
            }
            Self::TooComplex if of_pod => {
                "split the pod, or wait for cards that are less in use; where it is for whole cards, name fewer, and say less about nodes"
            }
            Self::TooComplex => "make pods of fewer kinds, or wait for cards that are less in use",
        }
    }
}
