//! What goes wrong between an operator and the API server. Faults are data, drawn beforehand, so that a history can be
//! shortened by leaving some out.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::WAY;
use super::asked::{Asked, Verb};
use super::refused::Refused;
use crate::objects::{CARD_INVENTORIES, CARD_TYPES, CARD_USAGES, LEASES, NODES, POD_GROUPS, PODS, Resource};

/// Whom a fault befalls: the first request that fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    /// The patch that lets a pod in.
    Admission,
    /// A write of a pod's condition.
    Condition,
    /// Any other write, except of the Lease.
    OtherWrite,
    /// An eviction, or what is asked before one.
    Eviction,
    /// A write of the Lease.
    Lease,
    /// Something that is read.
    Read,
    /// A list, or a watch that begins.
    List,
}

/// What becomes of such a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// It is refused with this HTTP status, and nothing is done.
    Refused(u16),
    /// It is done, and nobody is told.
    Unanswered,
    /// It is done so much later, and nobody is told.
    Late(Duration),
    /// It takes so long to get there.
    SlowThere(Duration),
    /// It is done at once, and the answer takes so long.
    SlowBack(Duration),
}

/// What somebody's policy forbids for a while, in one namespace or in all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Forbidden {
    /// To tell pods why they wait.
    Conditions,
    /// To write how far groups are.
    Groups,
    /// To label nodes.
    NodeLabels,
    /// To evict pods.
    Evictions,
    /// To show what queues, nodes and cards have.
    Reports,
}

/// What becomes of one request, and how long its messages take besides.
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

/// A request that takes its time.
#[derive(Debug)]
pub(super) struct Late {
    pub who: Arc<str>,
    pub asked: Asked,
    /// How old the world was when it was sent.
    pub sent: Duration,
    /// And is when it arrives.
    pub due: Duration,
}

/// All that is to go wrong, and goes wrong.
#[derive(Debug, Default)]
pub struct Faults {
    /// What befalls requests that are still to come.
    planned: Vec<(Whose, What)>,
    /// What was sent, and arrives later.
    on_their_way: Vec<Late>,
    /// What is refused, with which HTTP status, and how old the world is when that ends.
    forbidden: BTreeMap<Forbidden, (u16, Duration)>,
    /// Until which age of the world nobody reaches the API server.
    down_until: Option<Duration>,
    /// How late what is watched is told, by kind.
    pub(super) lags: BTreeMap<&'static Resource, Duration>,
    /// Versions up to this one are no longer known.
    pub(super) forgotten: u64,
}

impl Faults {
    /// Plans one more.
    pub fn plan(&mut self, whose: Whose, what: What) {
        self.planned.push((whose, what));
    }

    /// Nobody reaches the API server until this age of the world.
    pub fn go_down(&mut self, until: Duration) {
        self.down_until = Some(until);
    }

    /// What is watched of a kind is told so much later from now on.
    pub fn lag(&mut self, resource: &'static Resource, by: Duration) {
        self.lags.insert(resource, by);
    }

    /// The API server forgets what was up to this version: who watches from an older one has to list anew.
    pub fn forget(&mut self, version: u64) {
        self.forgotten = version;
    }

    /// Whatever is of this kind is refused with this HTTP status, until the world is so old.
    pub fn forbid(&mut self, what: Forbidden, code: u16, until: Duration) {
        self.forbidden.insert(what, (code, until));
    }

    /// What is refused at this age of the world.
    pub fn forbidden(&self, age: Duration) -> impl Iterator<Item = Forbidden> + '_ {
        let lasting = self.forbidden.iter().filter(move |(_, (_, until))| *until > age);
        lasting.map(|(what, _)| *what)
    }

    /// Nothing is refused for a while any more.
    pub fn allow_all(&mut self) {
        self.forbidden.clear();
    }

    /// Nothing goes wrong any more, but what is refused for a while. What was sent arrives all the same.
    pub fn end(&mut self) {
        self.planned.clear();
        self.down_until = None;
        self.lags.clear();
    }

    /// Whether something that was sent has not arrived yet.
    pub fn is_something_on_its_way(&self) -> bool {
        !self.on_their_way.is_empty()
    }

    /// Whether nobody reaches the API server at this age of the world.
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
        // Only operators have bad luck.
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

/// The refusal of this status, as the real API server words it.
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
