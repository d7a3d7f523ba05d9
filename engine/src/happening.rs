//! What happened, in one word: what events and conditions say, besides why something waits.
//!
//! Everything that users are told names a [`Happening`] or a [`Reason`], so that the documents can list them all.

use crate::reason::Reason;
use crate::worded::worded;

worded! {
    /// What happened.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub enum Happening {
        /// It was let in after it had waited, and as what.
        Admitted = "Admitted",
        /// It was evicted for a pod of a queue that has less than it deserves, and for which.
        Reclaimed = "Reclaimed",
        /// It was evicted for a pod of higher priority in its queue, and for which.
        Preempted = "Preempted",
        /// The scheduler has not placed it in time: it is evicted, or, where nobody would replace it, keeps its quota.
        ReservationTimeout = "ReservationTimeout",
        /// Its claims were made anew after it was let in, and are for more than its queue has quota for: it is evicted.
        ResourceClaimChanged = "ResourceClaimChanged",
        /// The API server does not let it be evicted: it keeps its quota, and that is tried again.
        EvictionRefused = "EvictionRefused",
        /// It runs on shared cards that Cardgate did not choose, and is charged first fit.
        MgpuCardsUnknown = "MGPUCardsUnknown",
        /// Its claims got other cards than it was let in for: those are charged.
        OtherCardsAllocated = "OtherCardsAllocated",
        /// The operator crashed or hung while it processed the object, and goes on without it. That is a mistake of Cardgate's: report it
        /// to its developers, with the object. It is looked at again when it is changed.
        SetAside = "SetAside",
        /// Its queue keeps what it asks for, and its pods may be made.
        Enqueued = "Enqueued",
        /// The API server refuses its phase.
        PhaseNotWritten = "PhaseNotWritten",
        /// An annotation with a quota for pods without GPU can't be read; the next source counts.
        InvalidCrossQuota = "InvalidCrossQuota",
        /// The API server refuses the label by which pods are kept off the node, or narrowed to its cards: that is tried again.
        NodeNotLabelled = "NodeNotLabelled",
        /// The configuration can't be read, or is gone: the last good one stays in force.
        InvalidConfiguration = "InvalidConfiguration",
        /// Something in the configuration has no effect, or hardly the one that is meant.
        ConfigurationWarning = "ConfigurationWarning",
        /// Volcano's scheduler sets the phases of groups, and so does Cardgate.
        EnqueueBesideVolcano = "EnqueueBesideVolcano",
        /// The patterns of crossquota match nothing of a node with cards: pods without GPU may take all of it.
        NotAGpuNode = "NotAGPUNode",
        /// An object that enforcement rests on is missing.
        InstallationIncomplete = "InstallationIncomplete",
        /// An object that enforcement rests on says something else than this version was installed with.
        InstallationChanged = "InstallationChanged",
        /// Such an object is as it was installed again.
        InstallationRestored = "InstallationRestored",
        /// There is a new certificate authority; the ones before it stay until they expire.
        CertificateAuthority = "CertificateAuthority",
        /// There is a new certificate.
        ServingCertificate = "ServingCertificate",
        /// The API server refuses what Cardgate writes there: delete it, so that it is made anew.
        SecretNotWritable = "SecretNotWritable",
    }
}

impl Happening {
    /// Returns the kind of object that it is told on, for documents.
    pub const fn on(self) -> &'static str {
        match self {
            Self::Admitted
            | Self::Reclaimed
            | Self::Preempted
            | Self::ReservationTimeout
            | Self::ResourceClaimChanged
            | Self::EvictionRefused
            | Self::MgpuCardsUnknown
            | Self::OtherCardsAllocated => "Pod",
            Self::SetAside => "Pod, and whatever else is read",
            Self::Enqueued => "Job",
            Self::PhaseNotWritten => "PodGroup",
            Self::InvalidCrossQuota | Self::NodeNotLabelled => "Node",
            Self::InvalidConfiguration
            | Self::ConfigurationWarning
            | Self::EnqueueBesideVolcano
            | Self::NotAGpuNode
            | Self::InstallationIncomplete
            | Self::InstallationChanged
            | Self::InstallationRestored => "ConfigMap `cardgate-config`",
            Self::CertificateAuthority => "Secret `cardgate-ca`",
            Self::ServingCertificate | Self::SecretNotWritable => "Secrets with certificates",
        }
    }
}

/// The reason of an event, or of a pod's condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cause {
    /// Why something waits.
    Waits(Reason),
    /// What happened.
    Happened(Happening),
}

impl Cause {
    /// Returns the word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Waits(reason) => reason.as_str(),
            Self::Happened(happening) => happening.as_str(),
        }
    }
}

impl From<Reason> for Cause {
    fn from(reason: Reason) -> Self {
        Self::Waits(reason)
    }
}

impl From<Happening> for Cause {
    fn from(happening: Happening) -> Self {
        Self::Happened(happening)
    }
}
