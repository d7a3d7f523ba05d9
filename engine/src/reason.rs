//! Why a pod waits, in one word: what conditions, events and metrics say.
//!
//! Everything that depends on the reason is a method here that names all reasons, or follows such a method. So the compiler asks
//! for all of it when a reason is added.

use crate::names::ResourceId;
use crate::worded::worded;

worded! {
    /// Why a pod waits. The first five are the Capacity Card document's own (**Event Recording**).
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Reason {
        /// The request can't be read, or names no card that the cluster has.
        GetTaskRequestResourceFailed = "GetTaskRequestResourceFailed",
        /// The queue has neither capability nor card quota.
        EmptyQueueCapability = "EmptyQueueCapability",
        /// Not enough CPU left in the queue.
        InsufficientCpuQuota = "InsufficientCPUQuota",
        /// Not enough memory left in the queue.
        InsufficientMemoryQuota = "InsufficientMemoryQuota",
        /// Not enough of any acceptable card left in the queue.
        InsufficientScalarQuota = "InsufficientScalarQuota",
        /// The pod does not say which cards it asks for, and the queue has a quota for none that they could be.
        NoCardQuota = "NoCardQuota",
        /// The pod does not say which cards it asks for, and must.
        CardNameMissing = "CardNameMissing",
        /// The pod asks for cards of several resources, of which one alone can be charged.
        SecondCardResource = "SecondCardResource",
        /// A resource claim of the pod is not there: Kubernetes makes it from a template, or somebody by hand.
        ResourceClaimNotFound = "ResourceClaimNotFound",
        /// Another pod is charged for a claim that this one shares, and is not let in or has no devices yet, or is in another queue.
        ResourceClaimShared = "ResourceClaimShared",
        /// The selectors of the pod's claims take long to evaluate, and that is done some at a time, namespace by namespace.
        SelectorsNotEvaluated = "SelectorsNotEvaluated",
        /// No device that is there is what the pod's claims select, or only devices that are no cards, where cards may come for another
        /// alternative.
        NoDeviceSelected = "NoDeviceSelected",
        /// The card that the pod names is none of those that its claims select.
        NoClaimForCard = "NoClaimForCard",
        /// What the pod's claims leave can be combined in more ways than a pod may have alternatives.
        TooManyAlternatives = "TooManyAlternatives",
        /// Somebody else's scheduling gate holds the pod: it is not its turn before that is gone.
        HeldByAnotherGate = "HeldByAnotherGate",
        /// The queue does not exist.
        QueueNotFound = "QueueNotFound",
        /// The queue takes no pods at the moment.
        QueueNotOpen = "QueueNotOpen",
        /// What the queue says can't be read.
        QueueInvalid = "QueueInvalid",
        /// Other queues are parts of the queue: pods go there.
        InnerQueue = "InnerQueue",
        /// The queue is not for this namespace.
        NamespaceNotAllowed = "NamespaceNotAllowed",
        /// The pod names a group that does not exist.
        PodGroupNotFound = "PodGroupNotFound",
        /// What the pod's group says can't be read.
        PodGroupInvalid = "PodGroupInvalid",
        /// Fewer pods wait than the group lets in together.
        PodGroupIncomplete = "PodGroupIncomplete",
        /// The queue has kept what the group or Job asks for, and its pods did not take over in time.
        InqueueTimeout = "InqueueTimeout",
        /// Earlier pods of its controller could not be placed, or were given more than they request: it stands aside for a while.
        ReservationTimeout = "ReservationTimeout",
        /// The API server refuses the write that would let it in.
        RefusedByApiServer = "RefusedByAPIServer",
        /// The quota allows it, but no node can take it now.
        NoNodeFits = "NoNodeFits",
        /// The pod's own node selector, affinity or missing tolerations exclude every node with the card.
        NodesExcluded = "NodesExcluded",
        /// GPU nodes could take the pod, but for their quotas for pods without GPU.
        CrossQuotaExceeded = "CrossQuotaExceeded",
        /// No mGPU node has room on its cards now.
        InsufficientMgpu = "InsufficientMGPU",
        /// No mGPU node would do, whatever is free on it: policies, numbers of cards, or the pod's own selectors.
        NoMgpuNode = "NoMGPUNode",
        /// The containers' shares of cards can be combined in more ways than are tried, and none of those fits. So it stays until
        /// the pod asks for something else, or other cards are free. Or, under `admitOn: quota`, the cards that it could have are to be compared
        /// with more nodes than are looked at in one question.
        TooComplex = "TooComplex",
    }
}

/// What a reason is about. This decides which numbers its message shows, and whether a change of a node wakes pods that wait for
/// the reason. A change of the queue or of those above it, of the workload or of the configuration wakes all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum About {
    /// What the pod says in its request: no numbers.
    Request,
    /// What the queue says, whichever pod asks: no numbers.
    Queue,
    /// What the queue has left of this resource; without one, of any other resource and of cards. The message shows what is asked
    /// for, what is used, and the quota.
    Quota(Option<ResourceId>),
    /// What the pod's group or Job says or does: how many pods it has, or what was kept for it.
    Workload,
    /// Nodes: how many give which answer.
    Nodes,
    /// The cards that nodes share through mGPU: how many nodes give which answer.
    Mgpu,
}

/// What it takes for the reason to go away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cure {
    /// Others give back quota, or room on nodes: by themselves, or because they are evicted for it.
    Eviction,
    /// Others give back what a node has for pods without GPU; or they give back quota or room elsewhere, as by
    /// [`Self::Eviction`].
    Release,
    /// More steps for a search that was given up, or other free cards.
    Search,
    /// Nothing that comes free helps: somebody has to change the pod, its group, the queue, the nodes or the configuration, or to
    /// create the missing pods.
    Change,
}

/// Whether waiting can help.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outlook {
    /// Waiting can help: others may give back what is missing, or it may come with time.
    NotYet,
    /// Waiting can't help as things are: somebody has to change the request, the queue, the nodes or the configuration.
    Never,
}

impl Reason {
    /// Returns the reason with this word.
    pub(crate) fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.as_str() == word)
    }

    /// Returns what it is about.
    pub(crate) const fn about(self) -> About {
        match self {
            Self::GetTaskRequestResourceFailed
            | Self::NoCardQuota
            | Self::CardNameMissing
            | Self::SecondCardResource
            | Self::ResourceClaimNotFound
            | Self::ResourceClaimShared
            | Self::SelectorsNotEvaluated
            | Self::NoDeviceSelected
            | Self::NoClaimForCard
            | Self::TooManyAlternatives
            | Self::HeldByAnotherGate
            | Self::ReservationTimeout
            | Self::RefusedByApiServer => About::Request,
            Self::InsufficientCpuQuota => About::Quota(Some(ResourceId::CPU)),
            Self::InsufficientMemoryQuota => About::Quota(Some(ResourceId::MEMORY)),
            Self::InsufficientScalarQuota => About::Quota(None),
            Self::EmptyQueueCapability
            | Self::QueueNotFound
            | Self::QueueNotOpen
            | Self::QueueInvalid
            | Self::InnerQueue
            | Self::NamespaceNotAllowed => About::Queue,
            Self::PodGroupNotFound | Self::PodGroupInvalid | Self::PodGroupIncomplete | Self::InqueueTimeout => {
                About::Workload
            }
            Self::NoNodeFits | Self::NodesExcluded | Self::CrossQuotaExceeded => About::Nodes,
            Self::InsufficientMgpu | Self::NoMgpuNode | Self::TooComplex => About::Mgpu,
        }
    }

    /// Whether it is about what has become of one pod, and not about what pods like it ask for as well.
    pub(crate) const fn is_of_one_pod(self) -> bool {
        matches!(
            self,
            Self::HeldByAnotherGate | Self::ReservationTimeout | Self::RefusedByApiServer
        )
    }

    /// Whether a change of a node wakes pods that wait for it.
    pub(crate) const fn is_woken_by_nodes(self) -> bool {
        match self.about() {
            About::Nodes | About::Mgpu => true,
            About::Request | About::Queue | About::Quota(_) | About::Workload => false,
        }
    }

    /// Returns whether waiting can help. Where only the numbers tell, `could_ever` says whether what is asked for could be had if
    /// others held nothing of it.
    pub(crate) fn outlook(self, could_ever: impl FnOnce() -> bool) -> Outlook {
        let can_help = match self {
            Self::InsufficientCpuQuota
            | Self::InsufficientMemoryQuota
            | Self::InsufficientScalarQuota
            | Self::NoNodeFits
            | Self::InsufficientMgpu
            | Self::CrossQuotaExceeded => could_ever(),
            // Other cards may suffice, the missing pods may come, others may remove their gates, and a pod that stands aside is
            // taken up again.
            Self::TooComplex
            | Self::PodGroupIncomplete
            | Self::InqueueTimeout
            | Self::ResourceClaimNotFound
            | Self::ResourceClaimShared
            | Self::SelectorsNotEvaluated
            | Self::HeldByAnotherGate
            | Self::ReservationTimeout => true,
            Self::GetTaskRequestResourceFailed
            | Self::EmptyQueueCapability
            | Self::NoCardQuota
            | Self::CardNameMissing
            | Self::SecondCardResource
            | Self::NoDeviceSelected
            | Self::NoClaimForCard
            | Self::TooManyAlternatives
            | Self::QueueNotFound
            | Self::QueueNotOpen
            | Self::QueueInvalid
            | Self::InnerQueue
            | Self::NamespaceNotAllowed
            | Self::PodGroupNotFound
            | Self::PodGroupInvalid
            | Self::RefusedByApiServer
            | Self::NodesExcluded
            | Self::NoMgpuNode => false,
        };
        if can_help { Outlook::NotYet } else { Outlook::Never }
    }

    /// Returns what it takes to cure it.
    pub(crate) const fn cure(self) -> Cure {
        match self {
            Self::InsufficientCpuQuota
            | Self::InsufficientMemoryQuota
            | Self::InsufficientScalarQuota
            | Self::NoNodeFits
            | Self::InsufficientMgpu => Cure::Eviction,
            Self::CrossQuotaExceeded => Cure::Release,
            Self::TooComplex => Cure::Search,
            Self::GetTaskRequestResourceFailed
            | Self::EmptyQueueCapability
            | Self::NoCardQuota
            | Self::CardNameMissing
            | Self::SecondCardResource
            | Self::ResourceClaimNotFound
            | Self::ResourceClaimShared
            | Self::SelectorsNotEvaluated
            | Self::NoDeviceSelected
            | Self::NoClaimForCard
            | Self::TooManyAlternatives
            | Self::QueueNotFound
            | Self::QueueNotOpen
            | Self::QueueInvalid
            | Self::InnerQueue
            | Self::NamespaceNotAllowed
            | Self::PodGroupNotFound
            | Self::PodGroupInvalid
            | Self::PodGroupIncomplete
            | Self::InqueueTimeout
            | Self::HeldByAnotherGate
            | Self::ReservationTimeout
            | Self::RefusedByApiServer
            | Self::NodesExcluded
            | Self::NoMgpuNode => Cure::Change,
        }
    }
}
