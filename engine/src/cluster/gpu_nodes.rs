//! Nodes with GPUs, and what pods without GPU hold of them (`CrossQuota`).
//!
//! The quotas of all GPU nodes lie in one table, with a row for each node and in the row a line for each limited resource.
//! So a look at all of them reads one piece of memory.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use crds::configuration::Enforcement;
use crds::keys::{GPU_NODE_LABEL, NODE_LABEL_SET};
use jiff::Timestamp;

use super::node::Offer;
use super::pod::Pod;
use super::set_back::SetBack;
use super::{Cluster, gpus};
use crate::amounts::{Amounts, Dimension};
use crate::ids::{Id as _, NodeId};
use crate::names::ResourceId;
use crate::policies::cross_quota::{self, BadAnnotation, Line, Source};
use crate::task::Task;

/// The value of [`GPU_NODE_LABEL`] on nodes with GPUs, and on no others.
pub const GPU_NODE: &str = NODE_LABEL_SET;

/// The GPU nodes, in no order.
#[derive(Debug, Default)]
pub struct GpuNodes {
    /// The resources that are limited for pods without GPU.
    resources: Vec<ResourceId>,
    nodes: Vec<NodeId>,
    lines: Vec<Line>,
    sources: Vec<Source>,
    /// The row of each node that has a row, by the node's id.
    rows: Vec<Option<usize>>,
    /// Pods that a scheduler is placing, by uid.
    assumed: BTreeMap<Arc<str>, Assumed>,
    /// Annotations that can't be read.
    bad: BTreeMap<NodeId, Vec<BadAnnotation>>,
    /// GPU nodes without the label that says so. The scheduler may take them for nodes without GPU.
    unlabelled: BTreeSet<NodeId>,
    /// Other nodes with that label.
    mislabelled: BTreeSet<NodeId>,
    /// Whether each resource name seen so far is a GPU's, by its id.
    is_gpu: Vec<bool>,
}

/// A pod that a scheduler is placing.
#[derive(Debug)]
struct Assumed {
    /// The nodes that it may be placed on, by id.
    nodes: Vec<NodeId>,
    request: Arc<Amounts>,
    until: Timestamp,
}

impl GpuNodes {
    /// Returns the limited resources, in the order of the lines.
    pub fn resources(&self) -> &[ResourceId] {
        &self.resources
    }

    /// Returns the resources that this names: the limited resources, and those of pods that a scheduler is placing.
    pub(super) fn named_resources(&self) -> impl Iterator<Item = Dimension> + '_ {
        let requests = self.assumed.values().flat_map(|assumed| assumed.request.iter());
        let limited = self.resources.iter().copied().map(Dimension::Resource);
        requests.map(|(dimension, _)| dimension).chain(limited)
    }

    /// Moves times back after the clock was set back, so that pods count as being placed for no longer because of that.
    pub(super) fn bring_back(&mut self, back: SetBack) {
        let assumed = self.assumed.values_mut();
        assumed.for_each(|assumed| back.bring_back(&mut assumed.until));
    }

    /// Forgets resources with this number or a higher one.
    pub(super) fn forget_resources_from(&mut self, number: usize) {
        self.is_gpu.truncate(number);
    }

    /// Returns the GPU nodes and the lines of their resources, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (NodeId, &[Line])> {
        self.nodes
            .iter()
            .copied()
            .zip(self.lines.chunks_exact(self.resources.len().max(1)))
    }

    /// Returns how many GPU nodes there are.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Whether this node is a GPU node.
    pub fn contains(&self, node: NodeId) -> bool {
        self.place(node).is_some()
    }

    /// Returns the lines of a GPU node.
    pub fn lines(&self, node: NodeId) -> Option<&[Line]> {
        let row = self.row(node)?;
        Some(&self.lines[row])
    }

    /// Returns where the quotas of a GPU node come from, in the order of the lines.
    pub fn sources(&self, node: NodeId) -> Option<&[Source]> {
        let row = self.row(node)?;
        Some(&self.sources[row])
    }

    /// Returns the annotations of a GPU node that can't be read.
    pub fn bad_annotations(&self, node: NodeId) -> &[BadAnnotation] {
        self.bad.get(&node).map_or(&[], Vec::as_slice)
    }

    /// Returns the nodes whose label does not say what they are, and whether they are GPU nodes.
    pub fn to_label(&self) -> impl Iterator<Item = (NodeId, bool)> + '_ {
        let unlabelled = self.unlabelled.iter().map(|node| (*node, true));
        unlabelled.chain(self.mislabelled.iter().map(|node| (*node, false)))
    }

    /// Whether every GPU node carries its label, so that pods can be kept off all of them by it.
    pub(crate) fn all_labelled(&self) -> bool {
        self.unlabelled.is_empty()
    }

    /// Returns what a pod asks for of each limited resource.
    pub fn request(&self, request: &Amounts) -> Vec<i64> {
        let of = |resource: &ResourceId| request.get(Dimension::Resource(*resource));
        self.resources.iter().map(of).collect()
    }

    /// Returns the nodes, by id, on which a scheduler may be placing this pod.
    pub(crate) fn assumed_nodes(&self, uid: &str) -> &[NodeId] {
        self.assumed.get(uid).map_or(&[], |assumed| &assumed.nodes)
    }

    /// Returns how many pods schedulers are placing.
    pub fn count_assumed(&self) -> usize {
        self.assumed.len()
    }

    fn place(&self, node: NodeId) -> Option<usize> {
        self.rows.get(node.index()).copied().flatten()
    }

    fn set_place(&mut self, node: NodeId, place: Option<usize>) {
        if self.rows.len() <= node.index() {
            self.rows.resize(node.index() + 1, None);
        }
        self.rows[node.index()] = place;
    }

    fn row(&self, node: NodeId) -> Option<Range<usize>> {
        let width = self.resources.len();
        self.place(node).map(|place| place * width..(place + 1) * width)
    }

    /// Returns what is assumed on a node, resource by resource.
    fn assumed_on(&self, node: NodeId) -> Vec<i128> {
        let mut sums = vec![0; self.resources.len()];
        for assumed in self.assumed.values() {
            if assumed.nodes.binary_search(&node).is_ok() {
                for (sum, resource) in sums.iter_mut().zip(&self.resources) {
                    *sum += i128::from(assumed.request.get(Dimension::Resource(*resource)));
                }
            }
        }
        sums
    }

    fn count_assumption(&mut self, assumed: &Assumed, sign: i128) {
        let request = self.request(&assumed.request);
        for node in &assumed.nodes {
            if let Some(row) = self.row(*node) {
                for (line, asked) in self.lines[row].iter_mut().zip(&request) {
                    line.assumed += sign * i128::from(*asked);
                }
            }
        }
    }

    fn set_row(&mut self, node: NodeId, lines: Vec<Line>, sources: Vec<Source>) {
        if let Some(row) = self.row(node) {
            self.lines[row.clone()].copy_from_slice(&lines);
            self.sources[row].copy_from_slice(&sources);
        } else {
            self.set_place(node, Some(self.nodes.len()));
            self.nodes.push(node);
            self.lines.extend(lines);
            self.sources.extend(sources);
        }
    }

    fn remove_row(&mut self, node: NodeId) {
        let (Some(row), Some(place)) = (self.row(node), self.place(node)) else {
            return;
        };
        self.set_place(node, None);
        let last = self.lines.len() - self.resources.len()..;
        self.lines.copy_within(last.clone(), row.start);
        self.sources.copy_within(last.clone(), row.start);
        self.lines.truncate(last.start);
        self.sources.truncate(last.start);
        self.nodes.swap_remove(place);
        if let Some(moved) = self.nodes.get(place) {
            self.set_place(*moved, Some(place));
        }
    }

    fn set_label(&mut self, node: NodeId, label: Option<&str>) {
        let is_gpu_node = self.contains(node);
        let keep = |set: &mut BTreeSet<NodeId>, wrong: bool| {
            if wrong {
                set.insert(node);
            } else {
                set.remove(&node);
            }
        };
        keep(&mut self.unlabelled, is_gpu_node && label != Some(GPU_NODE));
        keep(&mut self.mislabelled, !is_gpu_node && label.is_some());
    }

    fn forget(&mut self, node: NodeId) {
        self.remove_row(node);
        self.bad.remove(&node);
        self.unlabelled.remove(&node);
        self.mislabelled.remove(&node);
    }

    pub(super) fn set_used(&mut self, node: NodeId, used: &[i128]) {
        if let Some(row) = self.row(node) {
            for (line, used) in self.lines[row].iter_mut().zip(used) {
                line.used = *used;
            }
        }
    }
}

impl Cluster {
    /// Returns the GPU nodes; none where `CrossQuota` is not configured.
    pub fn gpu_nodes(&self) -> &GpuNodes {
        &self.gpu_nodes
    }

    /// **CPU Pod Detection**: whether a pod with this request asks for a GPU.
    pub(crate) fn asks_for_gpu(&self, request: &Amounts) -> bool {
        request.iter().any(|(dimension, _)| self.is_gpu(dimension))
    }

    /// Whether a dimension is a resource that the configuration calls a GPU.
    fn is_gpu(&self, dimension: Dimension) -> bool {
        let resource = dimension.resource();
        resource.is_some_and(|resource| self.gpu_nodes.is_gpu.get(resource.index()).copied().unwrap_or_default())
    }

    /// Whether a pod with this task and request counts towards the quotas of its GPU node: it asks for no GPU, and shares
    /// none.
    pub(crate) fn is_without_gpu(&self, task: &Task, request: &Amounts) -> bool {
        let by_class = task.by_class().any(|(dimension, _)| self.is_gpu(dimension));
        !task.shares_cards() && !by_class && !self.asks_for_gpu(request)
    }

    /// Whether a pod counts towards the quotas of the GPU node on which it has room.
    pub(crate) fn counts_without_gpu(&self, pod: &Pod) -> bool {
        self.is_without_gpu(&pod.task, pod.request()) && (pod.is_placed() || self.counts_where_expected(&pod.task))
    }

    /// Whether pods with this task count where they are expected. Where a scheduler asks before it chooses a node, they
    /// don't, since they may go to another node; but those that are pinned to their cards can't.
    pub(crate) fn counts_where_expected(&self, task: &Task) -> bool {
        self.configuration.cardgate.enforce_cross_quota == Enforcement::Gating
            || task.mgpu.is_some() && gpus::pins(&self.configuration)
    }

    /// Matches resource names that were not seen before. Code that reads a pod or node calls this, so that code that
    /// counts or decides never has to match names.
    pub(super) fn meet_resources(&mut self) {
        let renamed = self.names.take_renamed_resources();
        let Some(arguments) = &self.configuration.cross_quota else {
            return;
        };
        for resource in renamed {
            if let Some(is_gpu) = self.gpu_nodes.is_gpu.get_mut(resource.index()) {
                *is_gpu = arguments.gpu_resources.matches(self.names.resource_name(resource));
            }
        }
        let names = self.names.resource_names().skip(self.gpu_nodes.is_gpu.len());
        let new: Vec<_> = names.map(|name| arguments.gpu_resources.matches(name)).collect();
        self.gpu_nodes.is_gpu.extend(new);
    }

    /// Notes that a scheduler is placing a pod. The pod counts on all of these nodes until it is bound or gone, or until
    /// `until`.
    pub(crate) fn assume(&mut self, uid: &Arc<str>, mut nodes: Vec<NodeId>, request: Arc<Amounts>, until: Timestamp) {
        self.end_assumption(uid);
        nodes.sort_unstable();
        let assumed = Assumed { nodes, request, until };
        self.gpu_nodes.count_assumption(&assumed, 1);
        self.gpu_nodes.assumed.insert(Arc::clone(uid), assumed);
    }

    /// Notes that a pod is not being placed any more.
    pub(crate) fn end_assumption(&mut self, uid: &str) {
        let Some(assumed) = self.gpu_nodes.assumed.remove(uid) else {
            return;
        };
        self.gpu_nodes.count_assumption(&assumed, -1);
        // Once the configuration gates pods again, some pods may wait for what was assumed before. Pods that are pinned to
        // their cards wait for it in any case.
        let gating = self.configuration.cardgate.enforce_cross_quota == Enforcement::Gating;
        let pins = gpus::pins(&self.configuration);
        for node in assumed.nodes {
            let offer = self.nodes[node].offer();
            if gating || pins && offer.is_some_and(|offer| offer.mgpu.is_some()) {
                self.node_changes.note(node);
            }
        }
    }

    /// Ends the placing of pods that were being placed for too long: they count no more where they might have gone.
    pub fn expire_assumed(&mut self, now: Timestamp) {
        let assumed = self.gpu_nodes.assumed.iter();
        let expired = assumed.filter(|(_, assumed)| assumed.until <= now);
        for uid in expired.map(|(uid, _)| Arc::clone(uid)).collect::<Vec<_>>() {
            self.end_assumption(&uid);
        }
    }

    /// Applies **GPU Node Detection** and computes quotas, when what a node says or the configuration has changed.
    pub(super) fn refresh_gpu_node(&mut self, id: NodeId) {
        let node = &self.nodes[id];
        let Some(offer) = node.offer() else {
            self.gpu_nodes.forget(id);
            return;
        };
        let has_gpu = offer
            .allocatable
            .iter()
            .any(|(dimension, amount)| amount > 0 && self.is_gpu(dimension));
        let label = offer.label(GPU_NODE_LABEL).map(str::to_owned);
        let mut bad = Vec::new();
        if let Some(arguments) = self.configuration.cross_quota.as_ref().filter(|_| has_gpu) {
            let quotas = arguments.resources.iter().zip(&self.gpu_nodes.resources);
            let quotas: Vec<_> = quotas
                .map(|(resource, id)| {
                    let allocatable = offer.allocatable.get(Dimension::Resource(*id));
                    cross_quota::quota(resource, allocatable, |key| offer.quota_annotation(key), &mut bad)
                })
                .collect();
            let held = |place: usize| node.held_without_gpu.get(place).copied().unwrap_or_default();
            let assumed = self.gpu_nodes.assumed_on(id);
            let lines = quotas.iter().enumerate().map(|(place, quota)| Line {
                quota: quota.amount,
                used: held(place),
                assumed: assumed[place],
            });
            let lines: Vec<_> = lines.collect();
            let sources = quotas.iter().map(|quota| quota.source).collect();
            self.gpu_nodes.set_row(id, lines, sources);
        } else {
            self.gpu_nodes.remove_row(id);
        }
        self.gpu_nodes.set_label(id, label.as_deref());
        if self.gpu_nodes.bad_annotations(id) != bad {
            self.changes.bad_quotas.insert(id);
            self.gpu_nodes.bad.insert(id, bad);
        }
    }

    /// Looks at every node anew and counts every pod anew, under another configuration.
    pub(super) fn refresh_gpu_nodes(&mut self) {
        let mut before = std::mem::take(&mut self.gpu_nodes);
        self.gpu_nodes.assumed = std::mem::take(&mut before.assumed);
        if let Some(arguments) = self.configuration.cross_quota.clone() {
            let names = arguments.resources.iter();
            self.gpu_nodes.resources = names.map(|resource| self.names.resource(&resource.name)).collect();
            self.meet_resources();
        }
        self.count_all_without_gpu();
        let nodes = self.node_order.to_vec();
        for id in nodes {
            self.refresh_gpu_node(id);
            let has_cards = self.nodes[id].offer().is_some_and(Offer::has_signs_of_cards);
            if has_cards || before.contains(id) || self.gpu_nodes.contains(id) {
                self.changes.nodes.insert(id);
            }
        }
    }
}
