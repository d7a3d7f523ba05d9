//! `CrossQuota`'s predicate and score, for a scheduler that chooses the node (CrossQuota, **Predicate Function** and
//! **Node Ordering Function**).

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use crds::format::format_amount;
use crds::scoring_strategy::ScoringStrategy;

use crate::cluster::Cluster;
use crate::cluster::pod::{Pod, Stage};
use crate::ids::NodeId;
use crate::policies::cross_quota::{Line, Scoring, exceeded};
use crate::task::Task;

/// A quota for pods without GPU that a pod would exceed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OverQuota {
    resource: Arc<str>,
    asked: i64,
    line: Line,
}

impl OverQuota {
    /// Whether the pod asks for more than the quota, so that it would not fit whichever pods left the node.
    pub(super) fn is_final(&self) -> bool {
        self.asked > self.line.quota
    }
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

/// What the quotas of one node say to a pod.
pub(super) enum Says {
    /// Nothing: the node is no GPU node.
    Nothing,
    /// The pod stays within the quotas.
    Within,
    /// The pod would exceed a quota. The flag says whether that is so only because of pods that are being placed and may yet go
    /// elsewhere.
    Over(OverQuota, bool),
}

/// One pod's question to many nodes, asked as if the pod itself were nowhere.
pub(super) struct QuotaQuery<'a> {
    cluster: &'a Cluster,
    strategy: ScoringStrategy,
    request: Vec<i64>,
    weights: Vec<u32>,
    /// The node on which the pod counts already.
    counted: Option<NodeId>,
    /// The nodes where the pod may come to be, in order.
    assumed: &'a [NodeId],
}

impl<'a> QuotaQuery<'a> {
    pub(super) fn new(cluster: &'a Cluster, uid: &str, task: &Task, strategy: ScoringStrategy) -> Self {
        let known = cluster.pod_with_uid(uid).and_then(|id| cluster.pod(id));
        let resources = cluster.configuration().cross_quota.iter();
        Self {
            cluster,
            strategy,
            request: cluster.gpu_nodes().request(&task.request),
            weights: resources
                .flat_map(|arguments| arguments.resources.iter().map(|resource| resource.weight))
                .collect(),
            counted: known.and_then(|known| counted_on(cluster, known)),
            assumed: cluster.gpu_nodes().assumed_nodes(uid),
        }
    }

    /// **Predicate Function**: returns whether a quota of this node stands against the pod.
    pub(super) fn ask(&self, node: NodeId) -> Says {
        let Some(lines) = self.lines(node) else {
            return Says::Nothing;
        };
        let Some(place) = exceeded(&lines, &self.request) else {
            return Says::Within;
        };
        let settled: Vec<_> = lines.iter().map(|line| Line { assumed: 0, ..*line }).collect();
        let over = OverQuota {
            resource: self
                .cluster
                .names()
                .resource_text(self.cluster.gpu_nodes().resources()[place]),
            asked: self.request[place],
            line: lines[place],
        };
        Says::Over(over, exceeded(&settled, &self.request).is_none())
    }

    /// **Node Ordering Function**: returns the final score, as a whole number. None where the node is no GPU node, and where the
    /// pod would exceed a quota: a pod that fills a node most would score best there, beyond all that other policies may say.
    pub(super) fn score(&self, node: NodeId) -> Option<i64> {
        let lines = self.lines(node)?;
        if exceeded(&lines, &self.request).is_some() {
            return None;
        }
        let scoring = Scoring {
            strategy: self.strategy,
            weights: &self.weights,
            request: &self.request,
        };
        let weight = self.cluster.configuration().cross_quota.as_ref()?.weight;
        Some(scoring.rounded(&scoring.score_of(&lines), weight, 1))
    }

    /// Returns the quota lines of a GPU node, as if the pod itself were nowhere.
    fn lines(&self, node: NodeId) -> Option<Cow<'a, [Line]>> {
        let lines = self.cluster.gpu_nodes().lines(node)?;
        let counted = self.counted == Some(node);
        let assumed = self.assumed.binary_search(&node).is_ok();
        if !counted && !assumed {
            return Some(Cow::Borrowed(lines));
        }
        let without = |(line, asked): (&Line, &i64)| Line {
            used: line.used - if counted { i128::from(*asked) } else { 0 },
            assumed: line.assumed - if assumed { i128::from(*asked) } else { 0 },
            ..*line
        };
        Some(Cow::Owned(lines.iter().zip(&self.request).map(without).collect()))
    }
}

/// Returns the node on which a pod that is not bound yet counts: where it is being bound, or where it is pinned to its cards.
pub(super) fn counted_on(cluster: &Cluster, pod: &Pod) -> Option<NodeId> {
    pod.room
        .filter(|_| pod.stage != Stage::Bound && cluster.counts_without_gpu(pod))
}
