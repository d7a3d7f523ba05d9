//! Why a pod waits, in one word: what conditions, events and metrics say.

/// Why a pod waits. The first five are the Capacity Card document's own (**Event Recording**).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// The request can't be read, or names no card that the cluster has.
    GetTaskRequestResourceFailed,
    /// The queue has neither capability nor card quota.
    EmptyQueueCapability,
    /// Not enough CPU left in the queue.
    InsufficientCpuQuota,
    /// Not enough memory left in the queue.
    InsufficientMemoryQuota,
    /// Not enough of any acceptable card left in the queue.
    InsufficientScalarQuota,
    /// The pod does not say which cards it asks for, and the queue has a quota for none that they could be.
    NoCardQuota,
    /// The pod does not say which cards it asks for, and must.
    CardNameMissing,
    /// The pod asks for cards of several resources, of which one alone can be charged.
    SecondCardResource,
    /// The queue does not exist.
    QueueNotFound,
    /// The queue takes no pods at the moment.
    QueueNotOpen,
    /// What the queue says can't be read.
    QueueInvalid,
    /// Other queues are parts of the queue: pods go there.
    InnerQueue,
    /// The queue is not for this namespace.
    NamespaceNotAllowed,
    /// The pod names a group that does not exist.
    PodGroupNotFound,
    /// What the pod's group says can't be read.
    PodGroupInvalid,
    /// Fewer pods wait than the group lets in together.
    PodGroupIncomplete,
    /// The queue has kept what the group or Job asks for, and its pods did not take over in time.
    InqueueTimeout,
    /// The quota allows it, but no node can take it now.
    NoNodeFits,
    /// The pod's own node selector, affinity or missing tolerations exclude every node with the card.
    NodesExcluded,
    /// GPU nodes could take the pod, but for their quotas for pods without GPU.
    CrossQuotaExceeded,
    /// No mGPU node has room on its cards now.
    InsufficientMgpu,
    /// No mGPU node would do, whatever is free on it: policies, numbers of cards, or the pod's own selectors.
    NoMgpuNode,
    /// The containers' shares of cards can be combined in more ways than are tried, and none of those fits. So it stays until
    /// the pod asks for something else, or other cards are free.
    TooComplex,
}

impl Reason {
    /// All reasons, for metrics that show each from the start.
    pub const ALL: [Self; 23] = [
        Self::GetTaskRequestResourceFailed,
        Self::EmptyQueueCapability,
        Self::InsufficientCpuQuota,
        Self::InsufficientMemoryQuota,
        Self::InsufficientScalarQuota,
        Self::NoCardQuota,
        Self::CardNameMissing,
        Self::SecondCardResource,
        Self::QueueNotFound,
        Self::QueueNotOpen,
        Self::QueueInvalid,
        Self::InnerQueue,
        Self::NamespaceNotAllowed,
        Self::PodGroupNotFound,
        Self::PodGroupInvalid,
        Self::PodGroupIncomplete,
        Self::InqueueTimeout,
        Self::NoNodeFits,
        Self::NodesExcluded,
        Self::CrossQuotaExceeded,
        Self::InsufficientMgpu,
        Self::NoMgpuNode,
        Self::TooComplex,
    ];

    /// The reason with this word.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.as_str() == word)
    }

    /// Whether it is what mGPU nodes say.
    pub fn is_about_mgpu(self) -> bool {
        matches!(self, Self::InsufficientMgpu | Self::NoMgpuNode | Self::TooComplex)
    }

    /// The word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::GetTaskRequestResourceFailed => "GetTaskRequestResourceFailed",
            Self::EmptyQueueCapability => "EmptyQueueCapability",
            Self::InsufficientCpuQuota => "InsufficientCPUQuota",
            Self::InsufficientMemoryQuota => "InsufficientMemoryQuota",
            Self::InsufficientScalarQuota => "InsufficientScalarQuota",
            Self::NoCardQuota => "NoCardQuota",
            Self::CardNameMissing => "CardNameMissing",
            Self::SecondCardResource => "SecondCardResource",
            Self::QueueNotFound => "QueueNotFound",
            Self::QueueNotOpen => "QueueNotOpen",
            Self::QueueInvalid => "QueueInvalid",
            Self::InnerQueue => "InnerQueue",
            Self::NamespaceNotAllowed => "NamespaceNotAllowed",
            Self::PodGroupNotFound => "PodGroupNotFound",
            Self::PodGroupInvalid => "PodGroupInvalid",
            Self::PodGroupIncomplete => "PodGroupIncomplete",
            Self::InqueueTimeout => "InqueueTimeout",
            Self::NoNodeFits => "NoNodeFits",
            Self::NodesExcluded => "NodesExcluded",
            Self::CrossQuotaExceeded => "CrossQuotaExceeded",
            Self::InsufficientMgpu => "InsufficientMGPU",
            Self::NoMgpuNode => "NoMGPUNode",
            Self::TooComplex => "TooComplex",
        }
    }
}
