//! One queue: what it may have, what it holds and what waits in it.

use std::collections::BTreeSet;
use std::sync::Arc;

use crds::card_counts::CardQuota;
use crds::keys::{CARD_QUOTA, QUEUE_NAMESPACES};
use crds::queue_access::QueueAccess;
use crds::volcano;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt as _;

use super::amounts::{Amounts, Dimension, Totals};
use super::inqueue::Inqueue;
use super::names::{CardId, Names, ResourceId};
use super::share::Share;
use super::waiting::Waiting;
use super::workload::WorkloadId;

/// A queue's place in the cluster's table of queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueId(pub(super) u32);

impl QueueId {
    /// The place of this queue in tables by queue.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// The name of the queue that is none, and that no Queue can have: pods that `CrossQuota` alone holds wait in it. It limits
/// nothing.
pub const NAMELESS: &str = "";

/// What a queue says of itself.
#[derive(Debug, Clone, PartialEq)]
pub struct Terms {
    /// Unique id, for owner references.
    pub uid: Box<str>,
    /// When it was created.
    pub created: Timestamp,
    /// Queues of higher priority go first.
    pub priority: i32,
    /// Set where the queue takes no pods: its state.
    pub closed: Option<Box<str>>,
    /// CPU, memory and card quotas; why they can't be read, where they can't.
    pub quota: Result<Quota, Box<str>>,
    /// Which namespaces may use it; why that can't be read, where it can't.
    pub access: Result<QueueAccess, Box<str>>,
}

/// What a queue may have (Capacity Card, **Queue Annotations for Card Quotas**). What is not named is 0.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Quota {
    /// The limits by dimension: what `spec.capability` names, and the cards.
    pub limits: Amounts,
    /// Neither `spec.capability` nor a card quota is there.
    pub is_empty: bool,
    /// The cards that the quota names, by name; 0 included.
    pub cards: Box<[CardId]>,
}

impl Quota {
    /// The limit of one dimension.
    pub fn limit(&self, dimension: Dimension) -> i64 {
        self.limits.get(dimension)
    }
}

impl Terms {
    /// Reads what a queue says of itself.
    pub fn read(queue: &volcano::Queue, names: &mut Names) -> Self {
        let annotations = queue.annotations();
        Self {
            uid: queue.metadata.uid.as_deref().unwrap_or_default().into(),
            created: queue
                .metadata
                .creation_timestamp
                .as_ref()
                .map_or(Timestamp::UNIX_EPOCH, |time| time.0),
            priority: queue.spec.priority.unwrap_or(0),
            closed: (!queue.is_open()).then(|| {
                queue
                    .status
                    .as_ref()
                    .and_then(|status| status.state.as_deref())
                    .unwrap_or_default()
                    .into()
            }),
            quota: read_quota(queue, annotations.get(CARD_QUOTA).map(String::as_str), names),
            access: QueueAccess::parse(annotations.get(QUEUE_NAMESPACES).map(String::as_str))
                .map_err(|error| format!("annotation {QUEUE_NAMESPACES}: {error}").into()),
        }
    }

    /// Terms of a queue that could not be read at all: it takes nothing until it is mended.
    pub fn unreadable(uid: &str, reason: &str) -> Self {
        Self {
            uid: uid.into(),
            created: Timestamp::UNIX_EPOCH,
            priority: 0,
            closed: None,
            quota: Err(reason.into()),
            access: Err(reason.into()),
        }
    }

    /// What keeps the queue from admitting anything, in the order a user should mend it.
    pub fn problem(&self) -> Option<&str> {
        self.quota
            .as_ref()
            .err()
            .or(self.access.as_ref().err())
            .map(|text| &**text)
    }
}

fn read_quota(queue: &volcano::Queue, cards: Option<&str>, names: &mut Names) -> Result<Quota, Box<str>> {
    let capability = queue.spec.capability.clone().unwrap_or_default();
    let resources = volcano::resource_vector(&capability).map_err(|error| format!("spec.capability: {error}"))?;
    let cards = cards
        .map_or(Ok(CardQuota::default()), CardQuota::parse)
        .map_err(|error| format!("annotation {CARD_QUOTA}: {error}"))?;
    let resource_limits = resources
        .iter()
        .map(|(name, amount)| (Dimension::Resource(names.resource(name)), amount));
    let resource_limits: Vec<_> = resource_limits.collect();
    let card_limits: Vec<_> = cards
        .iter()
        .map(|(name, count)| (Dimension::Card(names.card(name)), count))
        .collect();
    Ok(Quota {
        is_empty: capability.is_empty() && cards.is_empty(),
        cards: cards.iter().map(|(name, _)| names.card(name)).collect(),
        limits: resource_limits.into_iter().chain(card_limits).collect(),
    })
}

/// One queue: what it may have, what it holds and what waits in it.
#[derive(Debug)]
pub struct Queue {
    /// Name.
    pub name: Arc<str>,
    /// What it says of itself; nothing while pods name a queue that is not there.
    pub terms: Option<Terms>,
    /// What its admitted pods hold.
    pub allocated: Totals,
    /// How many pods those are.
    pub admitted: usize,
    /// Its waiting pods.
    pub waiting: Waiting,
    /// What of that its workloads hold beyond their minimum.
    pub elastic: Totals,
    /// What it keeps for workloads that are in it and whose pods have not taken over.
    pub inqueue: Inqueue,
    /// Workloads that wait to be let into it.
    pub held: BTreeSet<WorkloadId>,
    /// How many pods and workloads name it, in whatever stage.
    pub(super) members: usize,
    /// Rises whenever a refused pod could now be let in as far as this queue is concerned.
    pub version: u64,
    pub(super) epoch: u64,
}

impl Queue {
    pub(super) fn new(name: Arc<str>) -> Self {
        Self {
            name,
            terms: None,
            allocated: Totals::default(),
            admitted: 0,
            waiting: Waiting::default(),
            elastic: Totals::default(),
            inqueue: Inqueue::default(),
            held: BTreeSet::new(),
            members: 0,
            version: 0,
            epoch: 0,
        }
    }

    /// Whether this is the queue that is none, for pods that no queue is charged for.
    pub fn is_nameless(&self) -> bool {
        *self.name == *NAMELESS
    }

    /// The quota, where the queue is there and its quota can be read.
    pub fn quota(&self) -> Option<&Quota> {
        self.terms.as_ref()?.quota.as_ref().ok()
    }

    /// The largest part of any quota in use: CPU, memory and cards (Capacity Card, **Resource Tracking**).
    pub fn share(&self) -> Share {
        let Some(quota) = self.quota() else { return Share::ZERO };
        let metered = |dimension| match dimension {
            Dimension::Resource(resource) => matches!(resource, ResourceId::CPU | ResourceId::MEMORY),
            Dimension::Card(_) => true,
        };
        self.allocated
            .iter()
            .filter(|(dimension, _)| metered(*dimension))
            .map(|(dimension, used)| Share::new(used, i128::from(quota.limit(dimension))))
            .max()
            .unwrap_or(Share::ZERO)
    }
}
