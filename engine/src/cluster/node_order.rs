//! Nodes by name.

use std::ops::Deref;

use super::node::Node;
use crate::ids::NodeId;
use crate::table::Table;

/// Some of the nodes, by name.
#[derive(Debug, Default)]
pub struct NodeOrder(Vec<NodeId>);

impl NodeOrder {
    /// Adds a node to these, or removes it.
    pub(super) fn set(&mut self, id: NodeId, belongs: bool, nodes: &Table<NodeId, Node>) {
        match self
            .0
            .binary_search_by_key(&&nodes[id].name, |other| &nodes[*other].name)
        {
            Err(place) if belongs => self.0.insert(place, id),
            Ok(place) if !belongs => {
                self.0.remove(place);
            }
            Ok(_) | Err(_) => {}
        }
    }
}

impl Deref for NodeOrder {
    type Target = [NodeId];

    fn deref(&self) -> &[NodeId] {
        &self.0
    }
}
