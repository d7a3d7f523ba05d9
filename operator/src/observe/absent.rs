//! Kinds that a cluster may lack, and what the API server's answers say about that.

use std::time::Duration;

use engine::cluster::Kind;
use kube::runtime::watcher;
use tokio::time::Instant;

/// HTTP status of a kind that is not installed.
const NOT_FOUND: u16 = 404;
/// HTTP status of what the role of this program does not allow.
const FORBIDDEN: u16 = 403;

/// For how long answers have to say that a previously listed kind of Kubernetes' own is unknown, until that is believed. The time between
/// two such answers counts if nothing else was heard meanwhile. While a control plane is upgraded or rolled back, some of its API servers
/// know the kind and others do not, as a rule for minutes; and since connections are kept, the same server may answer all that time. There
/// is no hurry: objects that are kept for too long keep new pods away from devices, or are charged a while longer. Objects that are
/// forgotten too early give devices to pods to which the scheduler gives none.
const GONE_AFTER: Duration = Duration::from_hours(1);

/// What follows from an answer to the watch of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    /// The kind does not exist: it has no objects.
    NotThere,
    /// This API server does not know the kind, and another one did: what was known stays.
    AsBefore,
    /// The kind existed. It has to be listed, which tells whether it still exists. Otherwise the watch would continue where it was, as soon
    /// as the kind exists again.
    ListAnew,
    /// The role of this program does not allow reading the kind, and need not.
    Forbidden,
    /// The watch was interrupted.
    Interrupted,
}

/// What is known about the existence of a kind.
#[derive(Debug)]
pub(super) struct Absence {
    kind: Kind,
    /// Whether the kind was listed.
    was_listed: bool,
    /// For how long the kind was unknown since it was last listed: the sum of the times between successive answers that said so.
    unknown_for: Duration,
    /// When the last answer said that the kind is unknown; none if something else was heard since.
    unknown_at: Option<Instant>,
    /// Whether the warning has been given that the kind may not be read.
    is_told_forbidden: bool,
    /// Whether the warning has been given that an API server no longer knows the kind.
    is_told_unknown: bool,
}

impl Absence {
    /// Returns the state of a kind that has not been requested yet.
    pub(super) fn of(kind: Kind) -> Self {
        Self {
            kind,
            was_listed: false,
            unknown_for: Duration::ZERO,
            unknown_at: None,
            is_told_forbidden: false,
            is_told_unknown: false,
        }
    }

    /// Whether the kind was listed, so that everything known about it stays.
    pub(super) fn was_listed(&self) -> bool {
        self.was_listed
    }

    /// Notes that the kind was listed.
    pub(super) fn note_listed(&mut self) {
        self.was_listed = true;
        self.unknown_for = Duration::ZERO;
        self.unknown_at = None;
        let was_told = [&mut self.is_told_forbidden, &mut self.is_told_unknown].map(std::mem::take);
        if was_told.contains(&true) {
            tracing::info!(kind = self.kind.plural(), "listed again");
        }
    }

    /// Returns what an error says about the kind.
    pub(super) fn meaning_of(&mut self, error: &watcher::Error) -> Meaning {
        // Any other answer, or none, does not say that the kind is unknown.
        let unknown_at = self.unknown_at.take();
        let (answer, is_list) = match error {
            watcher::Error::InitialListFailed(answer) => (answer, true),
            watcher::Error::WatchStartFailed(answer) => (answer, false),
            _ => return Meaning::Interrupted,
        };
        match answer {
            kube::Error::Api(status) if status.code == NOT_FOUND && may_be_absent(self.kind) => {
                if is_list {
                    self.not_known(unknown_at)
                } else {
                    Meaning::ListAnew
                }
            }
            kube::Error::Api(status) if status.code == FORBIDDEN && may_be_forbidden(self.kind) => Meaning::Forbidden,
            _ => Meaning::Interrupted,
        }
    }

    /// Notes that an API server does not know the kind. `before` is when the previous answer said the same; none if it said something else.
    fn not_known(&mut self, before: Option<Instant>) -> Meaning {
        let now = Instant::now();
        self.unknown_for += before.map_or(Duration::ZERO, |before| now - before);
        self.unknown_at = Some(now);
        if self.was_listed && is_of_kubernetes(self.kind) && self.unknown_for < GONE_AFTER {
            return Meaning::AsBefore;
        }
        self.was_listed = false;
        Meaning::NotThere
    }

    /// Returns the warning that an API server does not know the kind although another one did. The warning is given once, until the kind is
    /// listed.
    pub(super) fn take_warning_of_unknown(&mut self) -> Option<String> {
        if std::mem::replace(&mut self.is_told_unknown, true) {
            return None;
        }
        Some(format!(
            "an API server does not know {} any more, as while a control plane is renewed or taken back: what is known of them stays as it \
             was until one lists them again, or for {} minutes. Whoever waits for new ones waits until then; see that all API servers are of \
             one version",
            self.kind.plural(),
            GONE_AFTER.as_secs() / 60
        ))
    }

    /// Returns the warning that the kind may not be read. The warning is given once, until it may be read.
    pub(super) fn take_warning(&mut self) -> Option<String> {
        if std::mem::replace(&mut self.is_told_forbidden, true) {
            return None;
        }
        let plural = self.kind.plural();
        let meanwhile = if self.was_listed {
            "those that are known stay as they were"
        } else {
            "none of them counts, and a pod may be let in for a device that one of them keeps it from"
        };
        Some(format!(
            "the operator may not list {plural} (resource.k8s.io): until it may, {meanwhile}. Apply ClusterRole cardgate-operator of this \
             version (manifests/install.yaml, or the chart), or allow list and watch of {plural} in your own role; `kubectl card check` says \
             what else of the roles is not as this version needs it"
        ))
    }
}

/// Whether there are clusters without this kind: without Volcano's groups, with a Kubernetes before 1.34, or, for rules that taint devices,
/// before 1.37.
fn may_be_absent(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::PodGroup | Kind::ResourceSlice | Kind::DeviceClass | Kind::DeviceTaintRule | Kind::ResourceClaim
    )
}

/// Whether the kind comes and goes with versions of Kubernetes. Any other kind is gone when its definition is deleted, on all API servers
/// at once.
fn is_of_kubernetes(kind: Kind) -> bool {
    may_be_absent(kind) && kind != Kind::PodGroup
}

/// Whether everything else works without this kind, as it did before operators requested it: older roles do not allow it. API servers that
/// do not know the kind only say so to clients that may read it.
fn may_be_forbidden(kind: Kind) -> bool {
    kind == Kind::DeviceTaintRule
}

#[cfg(test)]
mod tests;
