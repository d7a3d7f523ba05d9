//! What a pod asks for.

use std::sync::Arc;

use crds::mgpu::MgpuRequest;

use crate::amounts::{Amounts, Dimension};
use crate::devices::DeviceDemand;
use crate::names::{CardId, ResourceId};
use crate::reason::Reason;

/// How it is known which cards a pod asks for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Naming {
    /// The pod names them, or is charged for none.
    #[default]
    Own,
    /// Its queue has a quota for them (docs/rules.md, **Card quota**, `unnamedCards`).
    ByQueue,
    /// It can't be charged for what it asks, for this reason.
    Refused(Reason),
}

/// What a pod's claims select (docs/rules.md, **Cards by Dynamic Resource Allocation**).
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Claimed {
    /// The cards, of which it gets one; none where the claims are for other devices.
    pub cards: Box<[CardId]>,
    /// Whether they are in the order of the claim.
    pub ordered: bool,
    /// The cards that the pod's annotation names.
    pub named: Arc<[CardId]>,
    /// Why it can't be charged for them, or not yet.
    pub refusal: Option<Reason>,
    /// What it asks of the devices of its node; none where it asks for none.
    pub demand: Option<Arc<DeviceDemand>>,
}

/// What a pod asks for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Task {
    /// Its resources, and one slot for a pod.
    pub request: Arc<Amounts>,
    /// The cards it names, most preferred first, or those that it is read to name, by name.
    pub cards: Arc<[CardId]>,
    /// Whether it names them itself.
    pub says_cards: bool,
    /// How it is known which they are.
    pub naming: Naming,
    /// What it claims of devices; none where it claims none.
    pub claimed: Option<Arc<Claimed>>,
    /// Whether neither it nor its group nor its namespace names a queue.
    pub unqueued: bool,
    /// The shares of cards that its containers ask for; none where they ask for none.
    pub mgpu: Option<Arc<MgpuRequest>>,
    /// Why the request can't be read, where it can't: then nothing lets the pod in.
    pub unreadable: Option<Box<str>>,
}

impl Task {
    /// Whether it is charged for cards: then CPU and memory may be unlimited.
    pub(crate) fn is_for_cards(&self) -> bool {
        !self.cards.is_empty() || self.naming == Naming::ByQueue
    }

    /// How many cards, where each is one of `resource`.
    pub fn count(&self, resource: ResourceId) -> i64 {
        self.request.get(Dimension::Resource(resource))
    }
}
