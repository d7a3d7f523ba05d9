//! What the policies say about nodes to a scheduler that asks: `CrossQuota`'s predicate and score, mGPU's filter and score, and
//! the node order of the Capacity Card document, for pods that are not pinned when they are let in.
//!
//! A scheduler does not say which of the nodes it takes until it binds the pod. Where quotas for pods without GPU apply, it binds
//! the pod itself. So from the answer until the binding the pod counts on every node that it may go to: too much for a moment,
//! and never too little. Another operator that comes to lead knows of no such pods. It lists all pods before it answers, and a
//! handover takes longer than a binding, except where the pod's volumes are made first (docs/security.md).
//!
//! mGPU pods are bound by the operator on the scheduler's behalf, which takes their cards at that moment: an earlier answer promises
//! nothing.

mod binding;
mod cards;
mod quotas;

use std::fmt;
use std::sync::Arc;

use crds::configuration::Enforcement;
use crds::keys::{MGPU_CORE, MGPU_MEMORY, SCORING_STRATEGY};
use crds::managed::{is_reachable, requests_any};
use crds::scoring_strategy::ScoringStrategy;
use jiff::{SignedDuration, Timestamp};

use crate::cluster::Cluster;
use crate::cluster::pod::Stage;
use crate::decide::node_order::score_of_node;
use crate::ids::NodeId;
use crate::task::Task;
pub use binding::{Binding, Wish, bind};
pub use cards::CardsRefusal;
use cards::{CardQuery, Shares};
pub use quotas::OverQuota;
use quotas::{QuotaQuery, Says, counted_on};

/// How long a scheduler may take to bind a pod after it has asked. After that, the pod no longer counts where it might have gone.
const BINDING_LIMIT: SignedDuration = SignedDuration::from_secs(60);
/// The same for a pod that claims volumes, which are made in between: kube-scheduler waits ten minutes for them
/// (`bindTimeoutSeconds` of its plugin `VolumeBinding`).
const BINDING_LIMIT_WITH_VOLUMES: SignedDuration = SignedDuration::from_mins(11);

/// A pod that a scheduler asks about.
#[derive(Debug, Clone)]
pub struct PodQuery {
    uid: Arc<str>,
    task: Task,
    /// How the pod orders GPU nodes, where their quotas concern it.
    strategy: Option<ScoringStrategy>,
    /// What the pod asks for of shared cards, where these concern it.
    shares: Option<Shares>,
    /// Whether volumes are bound before the pod is.
    claims_volumes: bool,
}

impl PodQuery {
    /// Returns what the pod asks of the quotas of GPU nodes, where they concern it.
    fn quotas<'a>(&self, cluster: &'a Cluster) -> Option<QuotaQuery<'a>> {
        let strategy = self.strategy?;
        Some(QuotaQuery::new(cluster, &self.uid, &self.task, strategy))
    }

    /// Returns what the pod asks of the cards of nodes, where they concern it and its request can be read.
    fn cards<'a>(&'a self, cluster: &'a Cluster) -> Option<CardQuery<'a>> {
        match &self.shares {
            Some(Shares::Of(request)) => Some(CardQuery::new(cluster, cluster.pod_with_uid(&self.uid), request)),
            _ => None,
        }
    }
}

/// Why a node can't take a pod, in the documents' words and with the numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// The pod would exceed a quota for pods without GPU.
    OverQuota(OverQuota),
    /// The node's mGPU cards can't take the pod.
    Cards(CardsRefusal),
    /// The scheduler knows a node that has not been seen here.
    UnknownNode,
}

impl Refusal {
    /// Whether the pod could not come to fit even if pods left the node, so that no pod is to be evicted for it.
    pub fn is_final(&self) -> bool {
        match self {
            Self::OverQuota(over) => over.is_final(),
            Self::Cards(refusal) => *refusal != CardsRefusal::CardsInUse,
            Self::UnknownNode => false,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OverQuota(over) => over.fmt(f),
            Self::Cards(refusal) => refusal.fmt(f),
            Self::UnknownNode => f.write_str("Cardgate has not seen the node yet"),
        }
    }
}

/// The answer to a question about nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filtered {
    /// The places of the nodes that can't take the pod, in order, and why.
    pub refused: Vec<(usize, Refusal)>,
    /// Whether some of them could take it, if other pods that are being placed go elsewhere.
    pub unsettled: bool,
    /// The GPU nodes that can take it.
    within: Vec<NodeId>,
}

/// Reads a pod that a scheduler asks about.
pub fn read(cluster: &mut Cluster, pod: crds::pod::Pod<Box<str>>) -> PodQuery {
    let annotation = pod.metadata.annotations.get(SCORING_STRATEGY);
    let strategy: ScoringStrategy = annotation.and_then(|text| text.parse().ok()).unwrap_or_default();
    let namespace: Box<str> = pod.metadata.namespace.clone().unwrap_or_default();
    let everywhere = !is_reachable(&pod, &namespace) || crds::managed::is_of_daemon_set(&pod);
    let shares_cards = requests_any(&pod, |resource| matches!(resource, MGPU_CORE | MGPU_MEMORY));
    let mut volumes = pod.spec.volumes.iter();
    let claims_volumes = volumes.any(|volume| volume.persistent_volume_claim.is_some() || volume.ephemeral.is_some());
    let labels = pod.metadata.labels.clone();
    // A device that the pod claims may be a GPU.
    let claims = cluster.asks_for_devices(&pod, &namespace);
    let uid: Arc<str> = pod.metadata.uid.clone().unwrap_or_default().into();
    let task = cluster.read_task(pod, &namespace);
    let known = cluster.pod_with_uid(&uid).and_then(|id| cluster.pod(id));
    let configuration = cluster.configuration();
    let concerned = configuration.cardgate.enforce_cross_quota == Enforcement::Extender
        && !everywhere
        && !claims
        && !cluster.requests_devices(&task.request)
        && !known.is_some_and(|known| known.task.asks_for_devices())
        && !cluster.asks_for_gpu(&task.request)
        && configuration
            .cross_quota
            .as_ref()
            .is_some_and(|arguments| arguments.selector.selects(|key| labels.get(key)));
    PodQuery {
        uid,
        shares: Shares::read(cluster, shares_cards, known, &task),
        task,
        strategy: concerned.then_some(strategy),
        claims_volumes,
    }
}

/// Returns which of these nodes can't take the pod, and why. The pod is being placed anew, so it no longer counts on earlier
/// nodes.
pub fn filter(cluster: &mut Cluster, pod: &PodQuery, nodes: &[Box<str>]) -> Filtered {
    cluster.end_assumption(&pod.uid);
    look(cluster, pod, nodes)
}

/// Returns which of these nodes can't take the pod, and why.
pub fn look(cluster: &Cluster, pod: &PodQuery, nodes: &[Box<str>]) -> Filtered {
    let mut filtered = Filtered::default();
    if pod.strategy.is_none() && pod.shares.is_none() {
        return filtered;
    }
    let quotas = pod.quotas(cluster);
    let mut cards = pod.cards(cluster);
    for (place, name) in nodes.iter().enumerate() {
        // Nodes that pods name, such as pods of a DaemonSet, may be known before the node itself says what it has.
        let seen = cluster.node_named(name);
        let Some(node) = seen.filter(|node| cluster.node(*node).offer().is_some()) else {
            filtered.unsettled = true;
            filtered.refused.push((place, Refusal::UnknownNode));
            continue;
        };
        let refusal = match (&pod.shares, &mut cards) {
            (_, Some(query)) => query.refusal(node),
            (Some(Shares::Unreadable(reason)), None) => Some(CardsRefusal::Unreadable(reason.clone())),
            _ => None,
        };
        if let Some(refusal) = refusal {
            filtered.refused.push((place, Refusal::Cards(refusal)));
            continue;
        }
        match quotas.as_ref().map_or(Says::Nothing, |query| query.ask(node)) {
            Says::Nothing => {}
            Says::Within => filtered.within.push(node),
            Says::Over(over, unsettled) => {
                filtered.unsettled |= unsettled;
                filtered.refused.push((place, Refusal::OverQuota(over)));
            }
        }
    }
    filtered
}

/// Notes that the answer has been given: until the pod is bound, it counts on every node that it may go to.
pub fn assume(cluster: &mut Cluster, pod: &PodQuery, mut filtered: Filtered, now: Timestamp) {
    let known = cluster.pod_with_uid(&pod.uid).and_then(|id| cluster.pod(id));
    // Where it counts already, it is not counted twice.
    let counted = known.and_then(|known| counted_on(cluster, known));
    filtered.within.retain(|node| Some(*node) != counted);
    if filtered.within.is_empty() || known.is_some_and(|known| known.stage == Stage::Bound) {
        return;
    }
    let limit = if pod.claims_volumes {
        BINDING_LIMIT_WITH_VOLUMES
    } else {
        BINDING_LIMIT
    };
    let until = now.checked_add(limit).unwrap_or(Timestamp::MAX);
    cluster.assume(&pod.uid, filtered.within, Arc::clone(&pod.task.request), until);
}

/// **Node Ordering**: returns the sum of what the policies say about each of these nodes, as whole numbers. As in the documents,
/// a node that a policy says nothing about gets nothing from that policy.
pub fn prioritize(cluster: &Cluster, pod: &PodQuery, nodes: &[Box<str>]) -> Vec<i64> {
    let quotas = pod.quotas(cluster);
    let mut cards = pod.cards(cluster);
    let mut score = |name: &str| {
        let node = cluster.node_named(name)?;
        let order = score_of_node(cluster, &pod.task, node);
        let quotas = quotas.as_ref().and_then(|query| query.score(node));
        let shares = cards.as_mut().and_then(|query| query.score(node));
        let policies = [quotas, shares, Some(whole(order))];
        Some(policies.into_iter().flatten().fold(0, i64::saturating_add))
    };
    nodes.iter().map(|name| score(name).unwrap_or_default()).collect()
}

/// Returns the nearest whole number.
#[expect(
    clippy::cast_possible_truncation,
    reason = "a score beyond 64 bits is as high as can be"
)]
fn whole(score: f64) -> i64 {
    score.round() as i64
}
