//! What happened, in one word: what events and conditions say besides why something waits.
//!
//! Everything that is told names one of these or a [`Reason`], so that documents have them all.

use crate::reason::Reason;

/// One line for each, with its word and what it is told on.
macro_rules! happenings {
    ($($(#[doc = $meaning:literal])+ $happening:ident = $word:literal, $on:literal;)+) => {
        /// What happened.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Happening {
            $($(#[doc = $meaning])+ $happening,)+
        }

        impl Happening {
            /// All of them, for documents.
            pub const ALL: [Self; [$($word),+].len()] = [$(Self::$happening),+];

            /// The word.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$happening => $word,)+
                }
            }

            /// What it is told on, for documents.
            pub const fn on(self) -> &'static str {
                match self {
                    $(Self::$happening => $on,)+
                }
            }

            /// What it means, for documents.
            pub const fn meaning(self) -> &'static str {
                match self {
                    $(Self::$happening => concat!($($meaning),+).trim_ascii(),)+
                }
            }
        }
    };
}

happenings! {
    /// It was let in after it had waited, and as what.
    Admitted = "Admitted", "Pod";
    /// It was evicted for a pod of a queue that has less than it deserves, and for which.
    Reclaimed = "Reclaimed", "Pod";
    /// It was evicted for a pod of higher priority in its queue, and for which.
    Preempted = "Preempted", "Pod";
    /// The scheduler has not placed it in time: it is evicted, or, where nobody would replace it, keeps its quota.
    ReservationTimeout = "ReservationTimeout", "Pod";
    /// Its claims were made anew after it was let in, and are for more than its queue has quota for: it is evicted.
    ResourceClaimChanged = "ResourceClaimChanged", "Pod";
    /// The API server does not let it be evicted: it keeps its quota, and that is tried again.
    EvictionRefused = "EvictionRefused", "Pod";
    /// It runs on shared cards that Cardgate did not choose, and is charged first fit.
    MgpuCardsUnknown = "MGPUCardsUnknown", "Pod";
    /// Its claims got other cards than it was let in for: those are charged.
    OtherCardsAllocated = "OtherCardsAllocated", "Pod";
    /// The operator fell or stood still over it, and goes on without it: make it simpler, and tell who keeps Cardgate. It is looked at
    /// again when it is changed.
    SetAside = "SetAside", "Pod, and whatever else is read";
    /// Its queue keeps what it asks for, and its pods may be made.
    Enqueued = "Enqueued", "Job";
    /// The API server refuses its phase.
    PhaseNotWritten = "PhaseNotWritten", "PodGroup";
    /// An annotation with a quota for pods without GPU can't be read; the next source counts.
    InvalidCrossQuota = "InvalidCrossQuota", "Node";
    /// The configuration can't be read: the last good one stays in force.
    InvalidConfiguration = "InvalidConfiguration", "ConfigMap `cardgate-config`";
    /// Something in the configuration has no effect, or hardly the one that is meant.
    ConfigurationWarning = "ConfigurationWarning", "ConfigMap `cardgate-config`";
    /// Volcano's scheduler sets the phases of groups, and so does Cardgate.
    EnqueueBesideVolcano = "EnqueueBesideVolcano", "ConfigMap `cardgate-config`";
    /// The patterns of crossquota match nothing of a node with cards: pods without GPU may take all of it.
    NotAGpuNode = "NotAGPUNode", "ConfigMap `cardgate-config`";
    /// An object that enforcement rests on is missing.
    InstallationIncomplete = "InstallationIncomplete", "ConfigMap `cardgate-config`";
    /// An object that enforcement rests on says something else than this version was installed with.
    InstallationChanged = "InstallationChanged", "ConfigMap `cardgate-config`";
    /// Such an object is as it was installed again.
    InstallationRestored = "InstallationRestored", "ConfigMap `cardgate-config`";
    /// There is a new certificate authority; the ones before it stay until they expire.
    CertificateAuthority = "CertificateAuthority", "Secret `cardgate-ca`";
    /// There is a new certificate.
    ServingCertificate = "ServingCertificate", "Secrets with certificates";
    /// The API server refuses what Cardgate writes there: delete it, so that it is made anew.
    SecretNotWritable = "SecretNotWritable", "Secrets with certificates";
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
    /// The word.
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
