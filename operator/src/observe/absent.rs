//! Kinds that a cluster may be without, and what the API server's answers say of that.

use std::time::Duration;

use engine::cluster::Kind;
use kube::runtime::watcher;
use tokio::time::Instant;

/// HTTP status of a kind that is not installed.
const NOT_FOUND: u16 = 404;
/// HTTP status of what the role of this program does not allow.
const FORBIDDEN: u16 = 403;

/// So long answers have to say that Kubernetes has no kind of its own which was listed before, until that is believed: the time between two of
/// them counts where nothing else was heard meanwhile. While a control plane
/// is renewed, or taken back to an older version, some of its API servers know the kind and others don't, for minutes as a rule; and since
/// connections are kept, the same one may answer all that time. Nor is there any hurry: what is kept too long keeps new pods away from
/// devices, or is charged a while longer, and what is forgotten too early gives devices to pods that the scheduler gives to none.
const GONE_AFTER: Duration = Duration::from_hours(1);

/// What follows from an answer to who watches a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    /// It is not there: it has no objects.
    NotThere,
    /// This API server does not know it, and another one did: what was known stands.
    AsBefore,
    /// It was there: it has to be listed, which tells whether it still is. The watch would go on where it was, whenever it is there again.
    ListAnew,
    /// The role of this program does not allow to read it, and need not.
    Forbidden,
    /// The watch was interrupted.
    Interrupted,
}

/// What is known of whether a kind is there.
#[derive(Debug)]
pub(super) struct Absence {
    kind: Kind,
    /// Whether it was listed.
    was_listed: bool,
    /// The times between two answers, one after the other, by which it is not known, summed up since it was listed.
    unknown_for: Duration,
    /// When an answer said so, if nothing else was heard since.
    unknown_at: Option<Instant>,
    /// Whether it was said that it may not be read.
    is_told_forbidden: bool,
    /// Whether it was said that an API server does not know it any more.
    is_told_unknown: bool,
}

impl Absence {
    /// Of a kind that was not asked for yet.
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

    /// Whether there is a list of it, by which everything that it knew stands.
    pub(super) fn was_listed(&self) -> bool {
        self.was_listed
    }

    /// It was listed.
    pub(super) fn is_there(&mut self) {
        self.was_listed = true;
        self.unknown_for = Duration::ZERO;
        self.unknown_at = None;
        let was_told = [&mut self.is_told_forbidden, &mut self.is_told_unknown].map(std::mem::take);
        if was_told.contains(&true) {
            tracing::info!(kind = self.kind.plural(), "listed again");
        }
    }

    /// What an error says of it.
    pub(super) fn meaning_of(&mut self, error: &watcher::Error) -> Meaning {
        // Whatever else is answered, or nothing, does not say that nobody knows it.
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

    /// An API server does not know it; `before` is when the last answer said the same, if it did.
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

    /// What is to be said of a kind that an API server does not know and another one did: once, until it is listed.
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

    /// What is to be said of a kind that may not be read: once, until it may.
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

/// Whether there are clusters without this kind: without Volcano's groups, or of a Kubernetes before 1.34, of rules that taint devices before 1.37.
fn may_be_absent(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::PodGroup | Kind::ResourceSlice | Kind::DeviceClass | Kind::DeviceTaintRule | Kind::ResourceClaim
    )
}

/// Whether it comes and goes with versions of Kubernetes: another one is gone when its definition was deleted, for all API servers alike.
fn is_of_kubernetes(kind: Kind) -> bool {
    may_be_absent(kind) && kind != Kind::PodGroup
}

/// Whether everything else works without this kind, as it did before any operator asked for it: roles of then don't allow it. API servers that
/// don't know the kind say so to nobody but who may read it.
fn may_be_forbidden(kind: Kind) -> bool {
    kind == Kind::DeviceTaintRule
}

#[cfg(test)]
mod tests;
