//! Numbers for names, so that comparing and counting does not touch text.

use std::collections::HashMap;
use std::sync::Arc;

use crds::resources::{CPU, MEMORY, PODS};

/// A Kubernetes resource name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceId(u32);

/// A card name. Its order is the order of first appearance, not of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CardId(u32);

impl ResourceId {
    /// `cpu`.
    pub const CPU: Self = Self(0);
    /// `memory`.
    pub const MEMORY: Self = Self(1);
    /// `pods`: the slots of a node.
    pub const PODS: Self = Self(2);
}

impl ResourceId {
    /// The place of this resource in tables by resource.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl CardId {
    /// The place of this card in tables by card.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Resource and card names seen so far. Both sets are small and are never emptied: ids stay valid for ever.
#[derive(Debug)]
pub struct Names {
    resources: Table,
    cards: Table,
}

impl Default for Names {
    fn default() -> Self {
        let mut resources = Table::default();
        // In the order of the constants of `ResourceId`.
        for name in [CPU, MEMORY, PODS] {
            resources.id(name);
        }
        Self {
            resources,
            cards: Table::default(),
        }
    }
}

impl Names {
    /// The id of a resource name, new ones included.
    pub fn resource(&mut self, name: &str) -> ResourceId {
        ResourceId(self.resources.id(name))
    }

    /// The id of a card name, new ones included.
    pub fn card(&mut self, name: &str) -> CardId {
        CardId(self.cards.id(name))
    }

    /// The id of a card name that was seen before.
    pub fn known_card(&self, name: &str) -> Option<CardId> {
        self.cards.ids.get(name).copied().map(CardId)
    }

    /// The text of a resource name.
    pub fn resource_name(&self, id: ResourceId) -> &str {
        &self.resources.names[id.0 as usize]
    }

    /// The text of a resource name, shared.
    pub fn resource_text(&self, id: ResourceId) -> Arc<str> {
        Arc::clone(&self.resources.names[id.index()])
    }

    /// The texts of all resource names, in the order of their ids.
    pub fn resource_names(&self) -> impl Iterator<Item = &str> {
        self.resources.names.iter().map(|name| &**name)
    }

    /// The texts of all card names, in the order of their ids.
    pub fn card_names(&self) -> impl Iterator<Item = &str> {
        self.cards.names.iter().map(|name| &**name)
    }

    /// The text of a card name.
    pub fn card_name(&self, id: CardId) -> &str {
        &self.cards.names[id.index()]
    }
}

#[derive(Debug, Default)]
struct Table {
    names: Vec<Arc<str>>,
    ids: HashMap<Arc<str>, u32>,
}

impl Table {
    fn id(&mut self, name: &str) -> u32 {
        if let Some(id) = self.ids.get(name) {
            return *id;
        }
        let id = u32::try_from(self.names.len()).unwrap_or(u32::MAX);
        let name: Arc<str> = name.into();
        self.names.push(Arc::clone(&name));
        self.ids.insert(name, id);
        id
    }
}
