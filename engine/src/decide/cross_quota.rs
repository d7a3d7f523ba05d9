//! Where pods without GPU go: to nodes without GPUs first, then to the GPU node with the highest score that has quota
//! left for them (`CrossQuota`, as read in docs/rules.md, **CrossQuota**).

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use crds::configuration::{AdmitOn, CrossQuota, Enforcement};
use crds::label_selector::LabelSelector;
use crds::scoring_strategy::ScoringStrategy;

use super::effort::Effort;
use super::fit::NodeSearch;
use super::{Grant, choice, fit};
use crate::alternative::Alternative;
use crate::amounts::Dimension;
use crate::cluster::Cluster;
use crate::cluster::waiting::Shape;
use crate::ids::NodeId;
use crate::policies::cross_quota::{Line, NodeScore, Scoring, exceeded};

/// The rules for a pod: the plugin's arguments, and the pod's strategy.
#[derive(Debug, Clone, Copy)]
struct Rules<'a> {
    arguments: &'a CrossQuota,
    strategy: ScoringStrategy,
}

/// Returns the rules for pods of this shape. None where `CrossQuota` does not decide where they go. That is so where they claim a
/// device, or request one by a class: it may be a GPU, or be on some nodes alone, which only the scheduler knows. A claim that asks for
/// no device leaves them pods without GPU. It is also so where their namespace no longer opts in, which frees waiting pods as well.
fn rules<'a>(cluster: &'a Cluster, shape: &Shape) -> Option<Rules<'a>> {
    let strategy = shape.cross_quota?;
    let namespace = cluster.namespace(&shape.namespace);
    if namespace.is_some_and(|namespace| !namespace.opts_in_to_cross_quota()) {
        return None;
    }
    let configuration = cluster.configuration();
    let arguments = configuration.cross_quota.as_ref()?;
    let gating = configuration.cardgate.enforce_cross_quota == Enforcement::Gating;
    (gating && is_without_gpu(cluster, shape)).then_some(Rules { arguments, strategy })
}

/// **CPU Pod Detection**: whether pods of this shape surely get no GPU.
fn is_without_gpu(cluster: &Cluster, shape: &Shape) -> bool {
    !shape.task.asks_for_devices() && !shape.task.requests().any(|request| cluster.asks_for_gpu(request))
}

/// Whether `CrossQuota` decides where pods of this shape go.
pub(super) fn governs(cluster: &Cluster, shape: &Shape) -> bool {
    rules(cluster, shape).is_some()
}

/// Whether pods of this shape, with this alternative, wait until a node that is there takes them. For an autoscaler (`admitOn: quota`)
/// they don't, except where `CrossQuota` decides where they go, and no labels lead them to nodes without GPU. Such nodes have no quota,
/// and an autoscaler adds them; but none with cards that, in the way the pods ask for them, GPU nodes alone have.
pub(super) fn asks_nodes(cluster: &Cluster, shape: &Shape, alternative: Option<&Alternative>, effort: &Effort) -> bool {
    let on_quota = cluster.configuration().cardgate.admit_on == AdmitOn::Quota;
    !on_quota || governs(cluster, shape) && !choice::is_selectable(cluster, shape, alternative, true, effort)
}

/// Whether a scheduler asks the quotas about pods of this shape when they are pinned to their cards already, and can go nowhere else.
/// Where a selector says about which labels it does, nobody knows here. Pods that say themselves which node they want stay as they
/// are: those of a `DaemonSet` do, and about these it does not.
fn stops_pinned(cluster: &Cluster, shape: &Shape) -> bool {
    let configuration = cluster.configuration();
    let everybody = |arguments: &CrossQuota| arguments.selector == LabelSelector::default();
    configuration.cardgate.enforce_cross_quota == Enforcement::Extender
        && configuration.cross_quota.as_ref().is_some_and(everybody)
        && cluster.counts_where_expected(&shape.task)
        && is_without_gpu(cluster, shape)
        && shape.constraints.affinity.pinned_to().is_none()
}

/// Returns what pods of this shape ask of the quotas of GPU nodes, where these decide, here or when a scheduler asks.
pub(super) fn asked(cluster: &Cluster, shape: &Shape) -> Option<Vec<i64>> {
    let is_asked = governs(cluster, shape) || stops_pinned(cluster, shape);
    is_asked.then(|| cluster.gpu_nodes().request(&shape.task.request))
}

/// Whether a node has quota left for a pod that asks for this, or has no quotas at all.
pub(super) fn has_quota(cluster: &Cluster, asked: &[i64], node: NodeId) -> bool {
    let lines = cluster.gpu_nodes().lines(node);
    lines.is_none_or(|lines| exceeded(lines, asked).is_none())
}

/// Whether some GPU node beside these, which are in the order of their ids, would do for the pod but for its quota. Where no steps are
/// left to ask, the next one counts as such.
fn is_lacking_beside(
    cluster: &Cluster,
    shape: &Shape,
    alternative: Option<&Alternative>,
    changed: &[NodeId],
    effort: &Effort,
) -> bool {
    let table = cluster.gpu_nodes();
    let request = table.request(&shape.task.request);
    let would_do = |node| {
        effort.look_at_node(shape);
        fit::ask(cluster, shape, alternative, cluster.node(node)).would_do()
    };
    let mut others = table.iter().filter(|(node, _)| changed.binary_search(node).is_err());
    others.any(|(node, lines)| {
        effort.spend(request.len() + 1);
        effort.is_spent() || exceeded(lines, &request).is_some() && would_do(node)
    })
}

/// Returns what the quotas of a node lack for a pod that asks for this. None in two cases: the quotas would not suffice even with
/// no other pod there, or others exceed the quota of something that the pod does not ask for. Nobody is evicted for that, nor for what a
/// scheduler that asks is about to place there or elsewhere: most nodes give that back in a moment.
pub(super) fn lacking(cluster: &Cluster, asked: &[i64], node: NodeId) -> Option<Vec<(Dimension, i128)>> {
    let Some(lines) = cluster.gpu_nodes().lines(node) else {
        return Some(Vec::new());
    };
    let lines = cluster.gpu_nodes().resources().iter().zip(lines).zip(asked);
    let mut missing = Vec::new();
    for ((resource, line), asked) in lines {
        let quota = i128::from(line.quota);
        let more = line.used + i128::from(*asked) - quota;
        // The pod's queue is entitled to nothing of a resource that the pod does not ask for.
        if i128::from(*asked) > quota || (*asked == 0 && more > 0) {
            return None;
        }
        if more > 0 {
            missing.push((Dimension::Resource(*resource), more));
        }
    }
    Some(missing)
}

/// Whether the quotas of a node would suffice for a pod of this shape if no other pod were there.
pub(crate) fn is_within(cluster: &Cluster, shape: &Shape, node: NodeId) -> bool {
    let lines = cluster.gpu_nodes().lines(node);
    let mut lines = asked(cluster, shape).into_iter().zip(lines);
    lines.all(|(asked, lines)| asked.iter().zip(lines).all(|(asked, line)| *asked <= line.quota))
}

/// Returns the node for a pod of this shape, with this alternative.
pub(super) fn find(
    cluster: &mut Cluster,
    shape: &Shape,
    alternative: Option<&Alternative>,
    search: &mut NodeSearch,
) -> Option<Grant> {
    // This comes first: where the search goes on for other nodes depends on what has changed since the last search.
    let mut changed = search.changed(cluster, shape, alternative);
    if search.lacked_quota(shape, alternative) {
        // Of a node that would have done but for its quota, nobody noted what else the others lack. So all nodes are asked once there is
        // none any more.
        changed = changed.filter(|changed| is_lacking_beside(cluster, shape, alternative, changed, &search.effort));
    }
    search.keep_off_gpu_nodes();
    if let Some(node) = search.find(cluster, shape, alternative, changed.as_deref()) {
        // A GPU node may lack its label for a few moments; then it looks to the scheduler like any other node.
        let all_labelled = cluster.gpu_nodes().all_labelled();
        return Some(Grant {
            off_gpu_nodes: all_labelled,
            pinned: !all_labelled,
            ..Grant::of(alternative, Some(node))
        });
    }
    let node = best_gpu_node(cluster, shape, alternative, changed.as_deref(), search)?;
    Some(Grant {
        pinned: true,
        ..Grant::of(alternative, Some(node))
    })
}

/// A GPU node with quota for the pod. The greatest one is the best.
struct Ranked<'a> {
    scoring: &'a Scoring<'a>,
    cluster: &'a Cluster,
    score: NodeScore<'a>,
    node: NodeId,
}

impl Ord for Ranked<'_> {
    /// Compares by score. Of nodes with equal scores, the one whose name comes first is the greater.
    fn cmp(&self, other: &Self) -> Ordering {
        let by_score = self.scoring.compare(&self.score, &other.score);
        let name = |ranked: &Self| &ranked.cluster.node(ranked.node).name;
        by_score.then_with(|| name(other).cmp(name(self)))
    }
}

impl PartialOrd for Ranked<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Ranked<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Ranked<'_> {}

fn best_gpu_node(
    cluster: &Cluster,
    shape: &Shape,
    alternative: Option<&Alternative>,
    changed: Option<&[NodeId]>,
    search: &mut NodeSearch,
) -> Option<NodeId> {
    let rules = rules(cluster, shape)?;
    let table = cluster.gpu_nodes();
    let request = table.request(&shape.task.request);
    // With weight 0, every node scores the same.
    let weights: Vec<u32> = match rules.arguments.weight {
        0 => vec![0; request.len()],
        _ => rules
            .arguments
            .resources
            .iter()
            .map(|resource| resource.weight)
            .collect(),
    };
    let scoring = Scoring {
        strategy: rules.strategy,
        weights: &weights,
        request: &request,
    };
    let rows = changed.map_or(table.len(), <[_]>::len);
    search.spend(rows.saturating_mul(request.len() + 1));
    let mut over_quota = Vec::new();
    let mut within = |(node, lines): &(NodeId, &[Line])| {
        let within = exceeded(lines, &request).is_none();
        if !within {
            over_quota.push(*node);
        }
        within
    };
    let within: Vec<_> = match changed {
        Some(changed) => {
            let rows = changed.iter().filter_map(|node| Some((*node, table.lines(*node)?)));
            rows.filter(&mut within).collect()
        }
        None => table.iter().filter(&mut within).collect(),
    };
    let mut ranked: BinaryHeap<_> = within
        .into_iter()
        .map(|(node, lines)| Ranked {
            scoring: &scoring,
            cluster,
            score: scoring.score_of(lines),
            node,
        })
        .collect();
    while let Some(best) = ranked.pop() {
        if search.ask_gpu_node(cluster, shape, alternative, best.node) {
            return Some(best.node);
        }
    }
    // Asked only now, since it matters only where no node takes the pod.
    for node in over_quota {
        search.ask_node_over_quota(cluster, shape, alternative, node);
    }
    None
}
