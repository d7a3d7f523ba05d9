//! Labels of metrics: enums, so that the number of series is bounded by construction.

use std::fmt::{self, Write as _};

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};

use super::Reason;

/// A decision about a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Decision {
    /// The pod was admitted.
    Admitted,
    /// The pod waits, for this reason. Counted when the reason is new to the pod.
    Refused(Reason),
    /// The pod was evicted, since the scheduler could not place it in time.
    SentBack,
    /// The pod was evicted for another pod (reclaim, preempt).
    Evicted,
    /// The scheduler could not place the pod in time, and the pod has no controller that would create another one.
    Unplaced,
}

impl Decision {
    pub(super) fn all() -> impl Iterator<Item = Self> {
        let refused = Reason::ALL.into_iter().map(Self::Refused);
        [Self::Admitted, Self::SentBack, Self::Evicted, Self::Unplaced]
            .into_iter()
            .chain(refused)
    }
}

impl From<Decision> for DecisionLabels {
    fn from(decision: Decision) -> Self {
        let (decision, reason) = match decision {
            Decision::Admitted => ("admitted", ""),
            Decision::Refused(reason) => ("refused", reason.as_str()),
            Decision::SentBack => ("sent_back", ""),
            Decision::Evicted => ("evicted", ""),
            Decision::Unplaced => ("unplaced", ""),
        };
        Self { decision, reason }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct DecisionLabels {
    decision: &'static str,
    reason: &'static str,
}

/// An object of the installation. There are as many of them as the manifests have.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct InstallationLabels {
    pub kind: &'static str,
    pub name: String,
}

/// Declares an enum with one word for each member.
macro_rules! words {
    ($(#[$meta:meta])* $name:ident { $($(#[$member_meta:meta])* $member:ident = $word:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[$member_meta])* $member,)+
        }

        impl $name {
            /// Returns the word that metrics and the log show.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$member => $word,)+
                }
            }
        }

        impl EncodeLabelValue for $name {
            fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> fmt::Result {
                encoder.write_str(self.as_str())
            }
        }
    };
}

words! {
    /// What a request to the API server does.
    Verb {
        /// Reads one object.
        Get = "get",
        /// Reads all objects of a kind, page by page.
        List = "list",
        /// Follows the changes of a kind.
        Watch = "watch",
        /// Creates an object.
        Create = "create",
        /// Replaces an object.
        Update = "update",
        /// Changes part of an object.
        Patch = "patch",
        /// Removes an object.
        Delete = "delete",
    }
}

words! {
    /// The target of a write.
    Write {
        /// The patch that admits a pod.
        Admission = "admission",
        /// The eviction of a pod, through the Eviction API.
        Eviction = "eviction",
        /// The binding of a pod, with its cards.
        Binding = "binding",
        /// The patch that resumes a Job.
        Resumption = "resumption",
        /// The label of a GPU node.
        NodeLabel = "node_label",
        /// The condition of a pod.
        PodCondition = "pod_condition",
        /// The status of a group.
        PodGroup = "pod_group",
        /// An event beside an object.
        Event = "event",
        /// The inventory of a node.
        CardInventory = "card_inventory",
        /// A card type.
        CardType = "card_type",
        /// The usage of a queue.
        CardUsage = "card_usage",
        /// The Lease of the leader.
        Lease = "lease",
        /// A Secret with certificates.
        CertificateSecret = "certificate_secret",
        /// The certificates of the authority, in a webhook configuration.
        CaBundle = "ca_bundle",
        /// The path to which API servers send reviews, in a webhook configuration.
        ReviewPath = "review_path",
        /// The parameters that the policies inside the API server read.
        PolicyParameters = "policy_parameters",
    }
}

impl Write {
    pub(super) const ALL: [Self; 16] = [
        Self::Admission,
        Self::Binding,
        Self::Eviction,
        Self::Resumption,
        Self::NodeLabel,
        Self::PodCondition,
        Self::PodGroup,
        Self::Event,
        Self::CardInventory,
        Self::CardType,
        Self::CardUsage,
        Self::Lease,
        Self::CertificateSecret,
        Self::CaBundle,
        Self::ReviewPath,
        Self::PolicyParameters,
    ];
}

words! {
    /// A step that the mind repeats.
    Step {
        /// Takes in what has happened.
        Hear = "hear",
        /// Answers schedulers that ask.
        Answer = "answer",
        /// Decides, and hands out the work.
        Decide = "decide",
        /// Answers people.
        Review = "review",
        /// Shows what has changed, and tells pods why they wait.
        Show = "show",
    }
}

impl Step {
    pub(super) const ALL: [Self; 5] = [Self::Hear, Self::Answer, Self::Decide, Self::Review, Self::Show];
}

words! {
    /// Why a mind was replaced.
    Stumble {
        /// It panicked.
        Fell = "fell",
        /// It spent too long on one piece of work.
        StoodStill = "stood_still",
    }
}

impl Stumble {
    pub(super) const ALL: [Self; 2] = [Self::Fell, Self::StoodStill];
}

words! {
    /// A certificate that the operator keeps.
    Certificate {
        /// The certificate of the authority that signs the others.
        Authority = "authority",
        /// The certificate with which the webhook serves.
        Webhook = "webhook",
        /// The certificate with which the scheduler extender serves.
        Extender = "extender",
        /// The certificate with which reviews are answered.
        Review = "review",
        /// The certificate that schedulers show to the extender.
        ExtenderClient = "extender_client",
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct WriteLabels {
    pub(super) kind: Write,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct StepLabels {
    pub(super) step: Step,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct StumbleLabels {
    pub(super) how: Stumble,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct AsideLabels {
    pub(super) kind: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct CertificateLabels {
    pub(super) certificate: Certificate,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ErrorLabels {
    pub(super) verb: Verb,
    pub(super) code: Code,
}

/// How a request failed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Code {
    /// The API server's status code.
    Status(u16),
    /// The operator gave up waiting.
    Timeout,
    /// There was no connection, or an answer that cannot be understood.
    NoAnswer,
}

impl From<&kube::Error> for Code {
    fn from(error: &kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self::Status(status.code),
            _ => Self::NoAnswer,
        }
    }
}

impl EncodeLabelValue for Code {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> fmt::Result {
        match self {
            Self::Status(code) => write!(encoder, "{code}"),
            Self::Timeout => encoder.write_str("timeout"),
            Self::NoAnswer => encoder.write_str("no_answer"),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct QueueLabels {
    pub(super) queue: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct CardLabels {
    pub(super) card: String,
}
