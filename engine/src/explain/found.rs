//! What was found in the way, in data.

use super::short::Short;
use crate::alternative::Alternative;
use crate::cluster::waiting::Shape;

/// What is in the way.
#[derive(Debug)]
pub(super) enum What<'c> {
    /// Something that has no amounts, in words.
    Said(String),
    /// Too little quota is left: first of what the reason names.
    Quota(Vec<Short>),
    /// Too little room on nodes.
    Nodes(Nodes<'c>),
}

/// What nodes say.
#[derive(Debug)]
pub(super) struct Nodes<'c> {
    /// What comes of it.
    pub lead: String,
    /// How many of which nodes say what.
    pub counts: Vec<NodeCount>,
    /// Whether all that is missing is that nodes take pods again: they are cordoned, or not ready.
    pub are_away: bool,
    /// What the quotas of GPU nodes have too little of for pods without GPU.
    pub over_quota: Vec<Short>,
    /// Who asks them.
    pub shape: &'c Shape,
    /// For which cards; for none in particular where there are none.
    pub alternatives: Vec<&'c Alternative>,
}

/// How many nodes of one kind say what.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NodeCount {
    /// How many of the kind there are.
    pub nodes: usize,
    /// What one of them is called: a node, an mGPU node.
    pub kind: &'static str,
    /// The card that they have, or the cards, where that matters.
    pub card: Option<String>,
    /// How many of them say what, those first that could do best.
    pub parts: Vec<(usize, String)>,
}
