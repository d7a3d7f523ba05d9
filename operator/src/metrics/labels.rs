//! Labels of metrics: enums, so that the number of series is bounded by construction.

use std::fmt::{self, Write as _};

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};

use super::Reason;

/// What was decided about a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Decision {
    /// It was let in.
    Admitted,
    /// It waits, for this reason. Counted when the reason is new to the pod.
    Refused(Reason),
    /// It was taken back, since the scheduler could not place it in time.
    SentBack,
    /// It was taken back for another one (reclaim, preempt).
    Evicted,
    /// The scheduler could not place it in time, and it has no controller that would make another.
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

/// An object of the installation: there are as many as the manifests have.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct InstallationLabels {
    pub kind: &'static str,
    pub name: String,
}

/// Declares an enum whose members have a word each.
macro_rules! words {
    ($(#[$meta:meta])* $name:ident { $($(#[$member_meta:meta])* $member:ident = $word:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[$member_meta])* $member,)+
        }

        impl $name {
            /// The word that metrics and the log show.
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
        /// Follows what changes of a kind.
        Watch = "watch",
        /// Makes an object.
        Create = "create",
        /// Replaces an object.
        Update = "update",
        /// Changes a part of an object.
        Patch = "patch",
        /// Removes an object.
        Delete = "delete",
    }
}

words! {
    /// What is written.
    Write {
        /// The patch that lets a pod in.
        Admission = "admission",
        /// That of a pod, through the Eviction API.
        Eviction = "eviction",
        /// Of a pod, with its cards.
        Binding = "binding",
        /// Of a Job, to be resumed.
        Resumption = "resumption",
        /// The label of a GPU node.
        NodeLabel = "node_label",
        /// The condition of a pod.
        PodCondition = "pod_condition",
        /// The status of a group.
        PodGroup = "pod_group",
        /// An event beside an object.
        Event = "event",
        /// A node's inventory.
        CardInventory = "card_inventory",
        /// A card type.
        CardType = "card_type",
        /// A queue's usage.
        CardUsage = "card_usage",
        /// The leader's Lease.
        Lease = "lease",
        /// A Secret with certificates.
        CertificateSecret = "certificate_secret",
        /// The certificates of the authority, in a webhook configuration.
        CaBundle = "ca_bundle",
        /// The path at which API servers bring reviews, in a webhook configuration.
        ReviewPath = "review_path",
        /// What the policies inside the API server read.
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
    /// What the mind does, again and again.
    Step {
        /// Takes in what has happened.
        Hear = "hear",
        /// Answers schedulers that ask.
        Answer = "answer",
        /// Decides, and hands out what is to be done.
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
    /// How a mind came to be replaced.
    Stumble {
        /// It panicked, and another one took over.
        Fell = "fell",
        /// It was at one piece of work for too long.
        StoodStill = "stood_still",
    }
}

impl Stumble {
    pub(super) const ALL: [Self; 2] = [Self::Fell, Self::StoodStill];
}

words! {
    /// A certificate that the operator keeps.
    Certificate {
        /// The authority that signs.
        Authority = "authority",
        /// What the webhook serves with.
        Webhook = "webhook",
        /// What the scheduler extender serves with.
        Extender = "extender",
        /// What reviews are answered with.
        Review = "review",
        /// What schedulers show to the extender.
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
    /// Given up by us.
    Timeout,
    /// No connection, or an answer that is none.
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
