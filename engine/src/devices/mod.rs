//! Devices that drivers publish and pods claim: Dynamic Resource Allocation, read as cards (docs/rules.md, **Cards by Dynamic
//! Resource Allocation**).
//!
//! Pure: which devices there are, which of them a claim asks for, and what was allocated. Whose quota that is, the cluster says.

mod asks;
mod card;
mod inventory;
mod model;
mod selection;
mod selector;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use crds::dra::{DeviceClass, ResourceClaim, ResourceSlice};
use crds::lean::Metadata;

use crate::texts::TextPool;
pub use asks::{Asked, CardsAsked, Named, Obstacle};
pub use card::{DeviceCard, Drivers};
pub use inventory::{Inventory, SliceChange};
use selection::Selections;

/// How the name of a resource begins that stands for a class of devices.
const IMPLICIT: &str = "deviceclass.resource.kubernetes.io/";

/// A claim's namespace and name.
pub type ClaimKey = (Box<str>, Box<str>);

/// The devices, the classes, and the claims.
#[derive(Debug, Default)]
pub struct Devices {
    inventory: Inventory,
    /// Each with the list of all of them in which it was seen last.
    classes: HashMap<Box<str>, (Arc<DeviceClass>, u64)>,
    /// The same.
    claims: HashMap<ClaimKey, (Arc<ResourceClaim>, u64)>,
    selections: Selections,
    /// Of claims that several pods may name: who pays, by uid.
    payers: HashMap<ClaimKey, Arc<str>>,
}

impl Devices {
    /// The devices there are.
    pub fn inventory(&self) -> &Inventory {
        &self.inventory
    }

    /// The devices of these drivers are cards, besides those that are known by name.
    pub fn set_drivers(&mut self, drivers: Drivers) -> SliceChange {
        self.inventory.set_drivers(drivers)
    }

    /// Takes what a slice says.
    pub fn apply_slice(&mut self, slice: &ResourceSlice, epoch: u64, texts: &mut TextPool) -> SliceChange {
        self.inventory.apply(slice, epoch, texts)
    }

    /// Forgets a slice.
    pub fn remove_slice(&mut self, name: &str) -> SliceChange {
        self.inventory.remove(name)
    }

    /// Takes what a class says; whether it is news.
    pub fn apply_class(&mut self, class: DeviceClass, epoch: u64) -> bool {
        let name = class.metadata.name.clone().unwrap_or_default();
        match self.classes.get_mut(&name) {
            Some((known, seen)) if known.spec == class.spec => {
                *seen = epoch;
                false
            }
            _ => {
                self.classes.insert(name, (Arc::new(class), epoch));
                true
            }
        }
    }

    /// Forgets a class; whether there was one.
    pub fn remove_class(&mut self, name: &str) -> bool {
        self.classes.remove(name).is_some()
    }

    /// Takes what a claim says; whether it is news.
    pub fn apply_claim(&mut self, key: &ClaimKey, mut claim: ResourceClaim, epoch: u64) -> bool {
        // Nothing that is in there counts.
        claim.metadata = Metadata::default();
        match self.claims.get_mut(key) {
            Some((known, seen)) if **known == claim => {
                *seen = epoch;
                false
            }
            _ => {
                self.claims.insert(key.clone(), (Arc::new(claim), epoch));
                true
            }
        }
    }

    /// Forgets a claim; whether there was one.
    pub fn remove_claim(&mut self, key: &ClaimKey) -> bool {
        self.claims.remove(key).is_some()
    }

    /// The classes that were not seen in this list of all of them.
    pub fn classes_missing_in(&self, epoch: u64) -> Vec<Box<str>> {
        let missing = self.classes.iter().filter(|(_, (_, seen))| *seen < epoch);
        missing.map(|(name, _)| name.clone()).collect()
    }

    /// The claims that were not seen in this list of all of them.
    pub fn claims_missing_in(&self, epoch: u64) -> Vec<ClaimKey> {
        let missing = self.claims.iter().filter(|(_, (_, seen))| *seen < epoch);
        missing.map(|(key, _)| key.clone()).collect()
    }

    /// Whether there is anything of this at all.
    pub fn is_empty(&self) -> bool {
        self.classes.is_empty() && self.claims.is_empty() && self.inventory.nodes().next().is_none()
    }

    /// Who pays for a claim that several pods may name; `uid` does where nobody does yet.
    pub fn payer(&mut self, key: &ClaimKey, uid: &Arc<str>) -> Arc<str> {
        let payer = self.payers.entry(key.clone()).or_insert_with(|| Arc::clone(uid));
        Arc::clone(payer)
    }

    /// Somebody else pays from now on, or nobody.
    pub fn set_payer(&mut self, key: &ClaimKey, payer: Option<Arc<str>>) {
        match payer {
            Some(payer) => self.payers.insert(key.clone(), payer),
            None => self.payers.remove(key),
        };
    }

    /// The resources by which pods may request cards of classes without a claim, each with its cards.
    pub fn provided(&mut self) -> Vec<(String, BTreeSet<DeviceCard>)> {
        let classes: Vec<_> = self
            .classes
            .iter()
            .map(|(name, (class, _))| (name.clone(), Arc::clone(class)))
            .collect();
        let mut provided = Vec::new();
        for (name, class) in classes {
            let cards = self.provided_by(&class);
            if cards.is_empty() {
                continue;
            }
            let extended = class
                .spec
                .extended_resource_name
                .as_deref()
                .filter(|name| !name.is_empty());
            provided.extend(extended.map(|resource| (resource.to_owned(), cards.clone())));
            provided.push((format!("{IMPLICIT}{name}"), cards));
        }
        provided.sort();
        provided
    }
}
