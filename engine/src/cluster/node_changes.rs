//! Records which nodes may have got room, one after the other.

use crate::ids::NodeId;

/// How many node changes are remembered. A refusal that is older makes every node be looked at again.
const REMEMBERED_CHANGES: usize = 1 << 16;

/// The changes that may make room, by node, oldest first.
#[derive(Debug, Default)]
pub(super) struct NodeChanges {
    nodes: Vec<NodeId>,
    /// How many changes there were before those in `nodes`.
    before: u64,
}

impl NodeChanges {
    /// Returns how many changes have happened.
    pub(super) fn count(&self) -> u64 {
        self.before + self.nodes.len() as u64
    }

    /// Returns the changes since `count` had happened; none when that is too long ago to know.
    pub(super) fn since(&self, count: u64) -> Option<&[NodeId]> {
        self.nodes.get(self.place(count)?..)
    }

    /// Forgets the changes since `count` had happened, because nothing had changed after all.
    pub(super) fn forget_since(&mut self, count: u64) {
        if let Some(length) = self.place(count) {
            self.nodes.truncate(length);
        }
    }

    /// Notes that a node may have got room.
    pub(super) fn note(&mut self, id: NodeId) {
        if self.nodes.len() == REMEMBERED_CHANGES {
            self.before += self.nodes.len() as u64;
            self.nodes.clear();
        }
        self.nodes.push(id);
    }

    fn place(&self, count: u64) -> Option<usize> {
        usize::try_from(count.checked_sub(self.before)?).ok()
    }
}
