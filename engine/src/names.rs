//! Numbers that stand for names, so that comparing and counting do not touch text.

use std::collections::HashMap;
use std::sync::Arc;

use crds::resources::{CPU, MEMORY, PODS};

/// A Kubernetes resource name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceId(u32);

/// A card name. Its order is that of its number, not of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CardId(u32);

impl ResourceId {
    /// `cpu`: its amounts are in milli, those of all others in whole units.
    pub const CPU: Self = Self(0);
    /// `memory`, in bytes.
    pub const MEMORY: Self = Self(1);
    /// `pods`: the slots of a node.
    pub const PODS: Self = Self(2);
}

impl ResourceId {
    /// Returns the place of this resource in tables by resource.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl CardId {
    /// Returns the place of this card in tables by card.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Resource and card names. An id is valid as long as anything that the cluster holds uses it. Ids of names that are no longer
/// used are given to other names (`Cluster::forget_unused_names`).
#[derive(Debug)]
pub struct Names {
    resources: Table,
    cards: Table,
    /// How many uses of names were looked at to find out which are used.
    looked_at: usize,
}

impl Default for Names {
    fn default() -> Self {
        let mut resources = Table::default();
        // This is the order of the constants of `ResourceId`.
        for name in [CPU, MEMORY, PODS] {
            resources.id(name);
        }
        Self {
            resources,
            cards: Table::default(),
            looked_at: 0,
        }
    }
}

impl Names {
    /// Returns the id of a resource name; a new name gets one.
    pub fn resource(&mut self, name: &str) -> ResourceId {
        // What every pod asks for needs no lookup.
        match name {
            CPU => ResourceId::CPU,
            MEMORY => ResourceId::MEMORY,
            PODS => ResourceId::PODS,
            _ => ResourceId(self.resources.id(name)),
        }
    }

    /// Returns the id of a card name; a new name gets one.
    pub fn card(&mut self, name: &str) -> CardId {
        CardId(self.cards.id(name))
    }

    /// Returns how many numbers of card names there are, used or not.
    pub fn card_numbers(&self) -> usize {
        self.cards.names.len()
    }

    /// Returns how many card names are known.
    pub fn known_cards(&self) -> usize {
        self.cards.ids.len()
    }

    /// Returns the ids of all numbers, used or not.
    pub(crate) fn card_ids(&self) -> impl Iterator<Item = CardId> {
        (0_u32..).take(self.card_numbers()).map(CardId)
    }

    /// Notes that something is gone that used this many names of cards and of resources.
    pub(crate) fn gone(&mut self, cards: usize, resources: usize) {
        self.cards.turnover += cards;
        self.resources.turnover += resources;
    }

    /// Whether so much has come and gone that it is worth finding out which names are used: half as many names as there are, and
    /// enough for what the last look took. What it takes depends on how often names are used, and a few may be used everywhere.
    pub(crate) fn is_look_due(&self) -> bool {
        let least = SMALL_TABLE.max(self.looked_at / LOOKED_AT_FOR_A_NAME);
        let is_due = |table: &Table| table.turnover >= least.max(table.ids.len() / 2);
        is_due(&self.cards) || is_due(&self.resources)
    }

    /// Forgets the names that are not used, given by number, as `looked_at` uses of names say. Returns the free numbers of card
    /// names.
    pub(crate) fn keep(&mut self, cards: &[bool], resources: &[bool], looked_at: usize) -> Vec<CardId> {
        self.looked_at = looked_at;
        self.resources.keep(resources);
        self.cards.keep(cards);
        self.cards.renamed.clear();
        self.cards.free.iter().copied().map(CardId).collect()
    }

    /// Returns the resources whose numbers stood for other names when this was last asked.
    pub(crate) fn take_renamed_resources(&mut self) -> Vec<ResourceId> {
        let renamed = std::mem::take(&mut self.resources.renamed);
        renamed.into_iter().map(ResourceId).collect()
    }

    /// Returns the id of a card name that was seen before.
    pub fn known_card(&self, name: &str) -> Option<CardId> {
        self.cards.ids.get(name).copied().map(CardId)
    }

    /// Returns the id of a resource name that was seen before.
    pub(crate) fn known_resource(&self, name: &str) -> Option<ResourceId> {
        self.resources.ids.get(name).copied().map(ResourceId)
    }

    /// Returns the text of a resource name.
    pub fn resource_name(&self, id: ResourceId) -> &str {
        &self.resources.names[id.0 as usize]
    }

    /// Returns the text of a resource name, shared.
    pub(crate) fn resource_text(&self, id: ResourceId) -> Arc<str> {
        Arc::clone(&self.resources.names[id.index()])
    }

    /// Returns the texts of all resource names, in the order of their ids.
    pub fn resource_names(&self) -> impl Iterator<Item = &str> {
        self.resources.names.iter().map(|name| &**name)
    }

    /// Returns the texts of all card names, in the order of their ids.
    pub(crate) fn card_names(&self) -> impl Iterator<Item = &str> {
        self.cards.names.iter().map(|name| &**name)
    }

    /// Returns the text of a card name.
    pub fn card_name(&self, id: CardId) -> &str {
        &self.cards.names[id.index()]
    }
}

/// With fewer changes than this, it is not checked which names are used.
const SMALL_TABLE: usize = 1024;
/// How many uses of names are looked at for each name that has come or gone: some microsecond's worth.
const LOOKED_AT_FOR_A_NAME: usize = 64;

#[derive(Debug, Default)]
struct Table {
    /// By number; empty where the number is free.
    names: Vec<Arc<str>>,
    ids: HashMap<Arc<str>, u32>,
    /// Numbers that are free, the lowest last.
    free: Vec<u32>,
    /// Numbers that have been given to other names.
    renamed: Vec<u32>,
    /// How many names have come, and how many uses of names have gone, since the last check.
    turnover: usize,
}

impl Table {
    fn id(&mut self, name: &str) -> u32 {
        if let Some(id) = self.ids.get(name) {
            return *id;
        }
        self.turnover += 1;
        let name: Arc<str> = name.into();
        let id = if let Some(id) = self.free.pop() {
            self.names[id as usize] = Arc::clone(&name);
            self.renamed.push(id);
            id
        } else {
            self.names.push(Arc::clone(&name));
            u32::try_from(self.names.len() - 1).unwrap_or(u32::MAX)
        };
        self.ids.insert(name, id);
        id
    }

    /// Forgets the names that are not used.
    fn keep(&mut self, used: &[bool]) {
        self.turnover = 0;
        let is_used = |id: u32| used.get(id as usize).copied().unwrap_or(true);
        self.ids.retain(|_, id| is_used(*id));
        self.ids.shrink_to(2 * self.ids.len());
        let last = self.ids.values().max().map_or(0, |id| *id as usize + 1);
        self.names.truncate(last);
        self.names.shrink_to(2 * last);
        let nobody: Arc<str> = "".into();
        self.free.clear();
        for (id, name) in (0_u32..).zip(&mut self.names) {
            if !is_used(id) {
                *name = Arc::clone(&nobody);
                self.free.push(id);
            }
        }
        self.free.reverse();
    }
}
