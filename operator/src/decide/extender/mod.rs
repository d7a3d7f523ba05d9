//! What the policies say about nodes to a scheduler that asks: `CrossQuota`'s predicate and score, mGPU's filter and score,
//! and the node order of the Capacity Card document, for pods that are not pinned when they are let in.
//!
//! A scheduler does not say which of the nodes it takes, until it binds the pod. With quotas for pods without GPU, it binds by
//! itself: so from the answer until then the pod counts on every node that it may go to: too much for a moment, and never too
//! little. Another operator that comes to lead knows of no such pods; it lists all pods before it answers, and a handover
//! takes longer than a binding. mGPU pods it has the operator bind, which takes their cards at that moment: an earlier answer
//! promises nothing.

mod binding;
mod cards;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use crds::configuration::Enforcement;
use crds::keys::{MGPU_CORE, MGPU_MEMORY, SCORING_STRATEGY};
use crds::managed::{is_reachable, requests_any};
use crds::scoring_strategy::ScoringStrategy;
use k8s_openapi::jiff::{SignedDuration, Timestamp};

use crate::cluster::Cluster;
use crate::cluster::node::NodeId;
use crate::cluster::pod::Stage;
use crate::cluster::waiting::Task;
use crate::policies::card_quota::node_order_score;
use crate::policies::cross_quota::{Line, Scoring, exceeded};
use crate::quantities::format_amount;
pub use binding::{Binding, Wish, bind};
pub use cards::CardsRefusal;
use cards::{CardQuery, Shares};

/// How long a scheduler may take to bind a pod after it has asked, before the pod no longer counts where it might have gone.
const BINDING_LIMIT: SignedDuration = SignedDuration::from_secs(60);

/// A pod that a scheduler asks about.
#[derive(Debug, Clone)]
pub struct Candidate {
    uid: Arc<str>,
    task: Task,
    /// How it orders GPU nodes, where their quotas concern it.
    strategy: Option<ScoringStrategy>,
    /// What it asks for of shared cards, where these concern it.
    shares: Option<Shares>,
}

/// Why a node can't take a pod, in the documents' words and with the numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// A quota for pods without GPU.
    OverQuota(OverQuota),
    /// The node's mGPU cards.
    Cards(CardsRefusal),
    /// The scheduler knows a node that has not been seen here.
    UnknownNode,
}

impl Refusal {
    /// Whether nothing that leaves the node would help, so that nobody is to be evicted for the pod.
    pub fn is_final(&self) -> bool {
        match self {
            Self::OverQuota(over) => over.asked > over.line.quota,
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

/// A quota for pods without GPU that a pod would exceed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OverQuota {
    resource: Arc<str>,
    asked: i64,
    line: Line,
}

impl fmt::Display for OverQuota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let amount = |amount| format_amount(&self.resource, amount);
        let Line { quota, used, assumed } = self.line;
        let (asked, used, quota) = (amount(self.asked.into()), amount(used), amount(quota.into()));
        write!(f, "{} quota exceeded: asked {asked}, used {used}", self.resource)?;
        if assumed != 0 {
            write!(f, ", being placed {}", amount(assumed))?;
        }
        write!(f, ", quota {quota}")
    }
}

/// What is said to a question about nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filtered {
    /// The places of nodes that can't take the pod, in order, and why.
    pub refused: Vec<(usize, Refusal)>,
    /// Whether some of them could, but for pods that are being placed and may yet go elsewhere.
    pub unsettled: bool,
    /// GPU nodes that can.
    within: Vec<NodeId>,
}

/// Reads a pod that a scheduler asks about.
pub fn read(cluster: &mut Cluster, pod: crds::pod::Pod<Box<str>>) -> Candidate {
    let annotation = pod.metadata.annotations.get(SCORING_STRATEGY);
    let strategy: ScoringStrategy = annotation.and_then(|text| text.parse().ok()).unwrap_or_default();
    let namespace: Box<str> = pod.metadata.namespace.clone().unwrap_or_default();
    let everywhere = !is_reachable(&pod, &namespace) || crds::managed::is_of_daemon_set(&pod);
    let shares_cards = requests_any(&pod, |resource| matches!(resource, MGPU_CORE | MGPU_MEMORY));
    let labels = pod.metadata.labels.clone();
    let uid: Arc<str> = pod.metadata.uid.clone().unwrap_or_default().into();
    let task = cluster.read_task(pod, &namespace);
    let configuration = cluster.configuration();
    let concerned = configuration.cardgate.enforce_cross_quota == Enforcement::Extender
        && !everywhere
        && !cluster.asks_for_gpu(&task.request)
        && configuration
            .cross_quota
            .as_ref()
            .is_some_and(|arguments| arguments.selector.selects(|key| labels.get(key)));
    Candidate {
        uid,
        shares: Shares::read(cluster, shares_cards, &task),
        task,
        strategy: concerned.then_some(strategy),
    }
}

/// Which of these nodes can't take the pod, and why. It is being placed anew.
pub fn filter(cluster: &mut Cluster, pod: &Candidate, nodes: &[Box<str>]) -> Filtered {
    cluster.end_assumption(&pod.uid);
    look(cluster, pod, nodes)
}

/// Which of these nodes can't take the pod, and why.
pub fn look(cluster: &Cluster, pod: &Candidate, nodes: &[Box<str>]) -> Filtered {
    let mut filtered = Filtered::default();
    if pod.strategy.is_none() && pod.shares.is_none() {
        return filtered;
    }
    let known = cluster.pod_with_uid(&pod.uid);
    let mut cards = match &pod.shares {
        Some(Shares::Of(request)) => Some(CardQuery::new(cluster, known, request)),
        _ => None,
    };
    let request = cluster.gpu_nodes().request(&pod.task.request);
    for (place, name) in nodes.iter().enumerate() {
        let Some(node) = cluster.node_named(name) else {
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
        } else if pod.strategy.is_some() {
            predicate(cluster, pod, &request, (place, node), &mut filtered);
        }
    }
    filtered
}

/// **Predicate Function**: whether a quota of this node stands against the pod.
fn predicate(
    cluster: &Cluster,
    pod: &Candidate,
    request: &[i64],
    (place, node): (usize, NodeId),
    filtered: &mut Filtered,
) {
    let Some(lines) = lines_without(cluster, pod, request, node) else {
        return;
    };
    let Some(resource) = exceeded(&lines, request) else {
        filtered.within.push(node);
        return;
    };
    let settled: Vec<_> = lines.iter().map(|line| Line { assumed: 0, ..*line }).collect();
    filtered.unsettled |= exceeded(&settled, request).is_none();
    let over = OverQuota {
        resource: cluster.names.resource_text(cluster.gpu_nodes().resources()[resource]),
        asked: request[resource],
        line: lines[resource],
    };
    filtered.refused.push((place, Refusal::OverQuota(over)));
}

/// The answer has been given: until the pod is bound it counts on every node that it may go to.
pub fn assume(cluster: &mut Cluster, pod: &Candidate, filtered: Filtered, now: Timestamp) {
    let known = cluster.pod_with_uid(&pod.uid).and_then(|id| cluster.pod(id));
    if filtered.within.is_empty() || known.is_some_and(|known| known.stage == Stage::Bound) {
        return;
    }
    let until = now.checked_add(BINDING_LIMIT).unwrap_or(Timestamp::MAX);
    cluster.assume(&pod.uid, filtered.within, Arc::clone(&pod.task.request), until);
}

/// **Node Ordering**: the sum of what the policies say about each of these nodes, as whole numbers. As in the documents, a
/// node that a policy says nothing about gets nothing.
pub fn prioritize(cluster: &Cluster, pod: &Candidate, nodes: &[Box<str>]) -> Vec<i64> {
    let configuration = cluster.configuration();
    let request = cluster.gpu_nodes().request(&pod.task.request);
    let arguments = configuration.cross_quota.as_ref();
    let weights: Vec<_> = arguments
        .iter()
        .flat_map(|arguments| arguments.resources.iter().map(|resource| resource.weight))
        .collect();
    let plugin_weight = arguments.map_or(0, |arguments| arguments.weight);
    let cross_quota = |node| {
        let scoring = Scoring {
            strategy: pod.strategy?,
            weights: &weights,
            request: &request,
        };
        let lines = lines_without(cluster, pod, &request, node)?;
        Some(scoring.rounded(&scoring.candidate(&lines), plugin_weight, 1))
    };
    let mut cards = match &pod.shares {
        Some(Shares::Of(request)) => Some(CardQuery::new(cluster, cluster.pod_with_uid(&pod.uid), request)),
        _ => None,
    };
    let mut score = |name: &str| {
        let node = cluster.node_named(name)?;
        let has = |card| cluster.node(node).card(card).is_some();
        let order = node_order_score(&configuration.capacity_card, &pod.task.cards, has);
        let shares = cards.as_mut().and_then(|query| query.score(node));
        let policies = [cross_quota(node), shares, Some(whole(order))];
        Some(policies.into_iter().flatten().fold(0, i64::saturating_add))
    };
    nodes.iter().map(|name| score(name).unwrap_or_default()).collect()
}

/// The nearest whole number.
#[expect(
    clippy::cast_possible_truncation,
    reason = "a score beyond 64 bits is as high as can be"
)]
fn whole(score: f64) -> i64 {
    score.round() as i64
}

/// The lines of a GPU node as if the pod itself were nowhere.
fn lines_without<'a>(cluster: &'a Cluster, pod: &Candidate, request: &[i64], node: NodeId) -> Option<Cow<'a, [Line]>> {
    let table = cluster.gpu_nodes();
    let lines = table.lines(node)?;
    let known = cluster.pod_with_uid(&pod.uid).and_then(|id| cluster.pod(id));
    let expected = known.is_some_and(|known| known.stage != Stage::Bound && known.room == Some(node));
    let assumed = table.is_assumed_on(&pod.uid, node);
    if !expected && !assumed {
        return Some(Cow::Borrowed(lines));
    }
    let without = |(line, asked): (&Line, &i64)| Line {
        used: line.used - if expected { i128::from(*asked) } else { 0 },
        assumed: line.assumed - if assumed { i128::from(*asked) } else { 0 },
        ..*line
    };
    Some(Cow::Owned(lines.iter().zip(request).map(without).collect()))
}
