//! What was found in the way, as data.

use super::short::Short;
use crate::alternative::Alternative;
use crate::cluster::waiting::Shape;

/// What is in the way.
#[derive(Debug)]
pub(super) enum What<'c> {
    /// An obstacle without amounts, in words.
    Said(String),
    /// Too little quota is left; what the reason names comes first.
    Quota(Vec<Short>),
    /// Too little room on nodes.
    Nodes(Nodes<'c>),
}

/// What nodes say to a pod.
#[derive(Debug)]
pub(super) struct Nodes<'c> {
    /// The sentence that leads the counts.
    pub lead: String,
    /// For each kind of node, how many nodes say what.
    pub counts: Vec<NodeCount>,
    /// Whether nothing is missing but that nodes take pods again: they are cordoned, or not ready.
    pub are_away: bool,
    /// What the quotas of GPU nodes have too little of, for pods without GPU.
    pub over_quota: Vec<Short>,
    /// The shape of the pod that asks.
    pub shape: &'c Shape,
    /// The card alternatives that nodes are asked for; empty where the pod asks for no card.
    pub alternatives: Vec<&'c Alternative>,
}

/// How many nodes of one kind say what.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NodeCount {
    /// How many of the kind there are.
    pub nodes: usize,
    /// The name of one such node: a node, an mGPU node.
    pub kind: &'static str,
    /// The card that they have, or the cards, where that matters.
    pub card: Option<String>,
    /// How many of the nodes say what; nodes that are closest to taking the pod come first.
    pub parts: Vec<(usize, String)>,
}
