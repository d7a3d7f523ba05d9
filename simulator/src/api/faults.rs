//! Faults between an operator and the API server. Faults are data, drawn beforehand, so that a history can be shortened by
//! leaving some out.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::WAY;
use super::asked::{Asked, Verb};
use super::refused::Refused;
use crate::objects::{CARD_INVENTORIES, CARD_TYPES, CARD_USAGES, LEASES, NODES, POD_GROUPS, PODS, Resource};

/// Which request a fault strikes: the first that fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    /// The patch that lets a pod in.
    Admission,
    /// A write of a pod's condition.
    Condition,
    /// Any other write, except of the Lease.
    OtherWrite,
    /// An eviction, or the dry run before one.
    Eviction,
    /// A write of the Lease.
    Lease,
    /// A read.
    Read,
    /// A list, or the beginning of a watch.
    List,
}

/// What happens to such a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// It is refused with this HTTP status, and not carried out.
    Refused(u16),
    /// It is carried out, but the answer is lost.
    Unanswered,
    /// It is carried out this much later, and the answer is lost.
    Late(Duration),
    /// It takes this long to arrive.
    SlowThere(Duration),
    /// It is carried out at once, but the answer takes this long.
    SlowBack(Duration),
}

/// Writes that a policy of another owner forbids for a while, in one namespace or in all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Forbidden {
    /// Telling pods why they wait.
    Conditions,
    /// Writing the phases of groups.
    Groups,
    /// Labelling nodes.
    NodeLabels,
    /// Evicting pods.
    Evictions,
    /// Showing what queues, nodes and cards have.
    Reports,
}

/// What happens to one request, and how long its messages take besides.
#[derive(Debug, Clone, Copy)]
pub(super) enum Fate {
    Answered { there: Duration, back: Duration },
    Refused { code: u16 },
    Unanswered,
    Late { by: Duration },
}

impl Fate {
    pub fn way_there(&self) -> Duration {
        match self {
            Self::Answered { there, .. } => *there,
            _ => WAY,
        }
    }

    pub fn way_back(&self) -> Duration {
        match self {
            Self::Answered { back, .. } => *back,
            _ => WAY,
        }
    }
}

/// A request that takes time to arrive.
#[derive(Debug)]
pub(super) struct Late {
    pub who: Arc<str>,
    pub asked: Asked,
    /// The age of the world when the request was sent.
    pub sent: Duration,
    /// The age of the world when it arrives.
    pub due: Duration,
}

/// All planned and current faults.
#[derive(Debug, Default)]
pub struct Faults {
    /// Faults of requests that are still to come.
    planned: Vec<(Whose, What)>,
    /// Requests that were sent and arrive later.
    on_their_way: Vec<Late>,
    /// What is refused, with which HTTP status, and the age of the world when that ends.
    forbidden: BTreeMap<Forbidden, (u16, Duration)>,
    /// The age of the world until which the API server is unreachable.
    down_until: Option<Duration>,
    /// By how much watches deliver late, by kind.
    pub(super) lags: BTreeMap<&'static Resource, Duration>,
    /// Versions up to this one are no longer known.
    pub(super) forgotten: u64,
}

impl Faults {
    /// Plans a fault.
    pub fn plan(&mut self, whose: Whose, what: What) {
        self.planned.push((whose, what));
    }

    /// Makes the API server unreachable until this age of the world.
    pub fn go_down(&mut self, until: Duration) {
        self.down_until = Some(until);
    }

    /// Makes watches on a kind deliver this much later from now on.
    pub fn lag(&mut self, resource: &'static Resource, by: Duration) {
        self.lags.insert(resource, by);
    }

    /// Makes the API server forget everything up to this version. A client that watches from an older version has to list
    /// again.
    pub fn forget(&mut self, version: u64) {
        self.forgotten = version;
    }

    /// Refuses such writes with this HTTP status, until this age of the world.
    pub fn forbid(&mut self, what: Forbidden, code: u16, until: Duration) {
        self.forbidden.insert(what, (code, until));
    }

    /// Returns what is refused at this age of the world.
    pub fn forbidden(&self, age: Duration) -> impl Iterator<Item = Forbidden> + '_ {
        let lasting = self.forbidden.iter().filter(move |(_, (_, until))| *until > age);
        lasting.map(|(what, _)| *what)
    }

    /// Ends all refusals of kinds of writes.
    pub fn allow_all(&mut self) {
        self.forbidden.clear();
    }

    /// Ends all faults except such refusals. Requests that were sent still arrive.
    pub fn end(&mut self) {
        self.planned.clear();
        self.down_until = None;
        self.lags.clear();
    }

    /// Whether a request that was sent has not arrived yet.
    pub fn is_something_on_its_way(&self) -> bool {
        !self.on_their_way.is_empty()
    }

    /// Whether the API server is unreachable at this age of the world.
    pub fn is_down(&self, age: Duration) -> bool {
        self.down_until.is_some_and(|until| age < until)
    }

    /// Decides what becomes of a request.
    pub(super) fn befall(&mut self, who: &str, asked: &Asked, age: Duration) -> Fate {
        let answered = |there, back| Fate::Answered { there, back };
        let mut forbidden = self.forbidden.iter().filter(|(_, (_, until))| *until > age);
        if who.starts_with("operator")
            && let Some((_, (code, _))) = forbidden.find(|(what, _)| what.fits(asked))
        {
            return Fate::Refused { code: *code };
        }
        // Faults strike operators only.
        let fits = |(whose, _): &(Whose, What)| who.starts_with("operator") && whose.fits(asked);
        let Some(place) = self.planned.iter().position(fits) else {
            return answered(WAY, WAY);
        };
        match self.planned.remove(place).1 {
            What::Refused(code) => Fate::Refused { code },
            What::Unanswered => Fate::Unanswered,
            What::Late(by) if asked.verb.writes() => Fate::Late { by },
            What::Late(by) | What::SlowThere(by) => answered(by, WAY),
            What::SlowBack(by) => answered(WAY, by),
        }
    }

    pub(super) fn delay(&mut self, late: Late) {
        self.on_their_way.push(late);
    }

    pub(super) fn arriving(&mut self, which: impl Fn(&Late) -> bool) -> Vec<Late> {
        let (arriving, others) = std::mem::take(&mut self.on_their_way).into_iter().partition(which);
        self.on_their_way = others;
        arriving
    }
}

impl Forbidden {
    fn fits(self, asked: &Asked) -> bool {
        let resource = asked.resource;
        let is_it = match self {
            Self::Conditions => Whose::Condition.fits(asked),
            Self::Groups => resource == &POD_GROUPS,
            Self::NodeLabels => resource == &NODES,
            Self::Evictions => Whose::Eviction.fits(asked),
            Self::Reports => [&CARD_INVENTORIES, &CARD_TYPES, &CARD_USAGES].contains(&resource),
        };
        is_it && asked.verb.writes()
    }
}

impl Whose {
    fn fits(self, asked: &Asked) -> bool {
        let is_lease = asked.resource == &LEASES;
        let is_pod_patch = asked.verb == Verb::Patch && asked.resource == &PODS;
        let is_eviction = asked.subresource == "eviction";
        match self {
            Self::Admission => is_pod_patch && asked.subresource.is_empty(),
            Self::Condition => is_pod_patch && !asked.subresource.is_empty(),
            Self::Eviction => is_eviction,
            Self::OtherWrite => asked.verb.writes() && asked.resource != &PODS && !is_lease && !is_eviction,
            Self::Lease => is_lease && asked.verb.writes(),
            Self::Read => asked.verb == Verb::Get && !is_lease,
            Self::List => matches!(asked.verb, Verb::List | Verb::Watch),
        }
    }
}

/// Returns the refusal with this status, as the real API server words it.
pub(super) fn refusal(code: u16) -> Refused {
    match code {
        403 => Refused::new(
            code,
            "Forbidden",
            "is forbidden: User \"system:serviceaccount:cardgate-system:operator\" cannot do this",
        ),
        409 => Refused::new(
            code,
            "Conflict",
            "Operation cannot be fulfilled: the object has been modified; please apply your changes to the latest version and try again",
        ),
        422 => Refused::new(
            code,
            "Invalid",
            "is invalid: spec: Forbidden: by a policy of this cluster",
        ),
        429 => Refused::new(
            code,
            "TooManyRequests",
            "the server has received too many requests and has asked us to try again later",
        ),
        503 => Refused::new(
            code,
            "ServiceUnavailable",
            "the server is currently unable to handle the request",
        ),
        504 => Refused::new(
            code,
            "Timeout",
            "Timeout: request did not complete within requested timeout",
        ),
        _ => Refused::new(
            code,
            "InternalError",
            "Internal error occurred: etcdserver: request timed out",
        ),
    }
}
