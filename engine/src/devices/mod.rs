//! Devices that drivers publish and pods claim: Dynamic Resource Allocation, read as cards (docs/rules.md, **Cards by Dynamic Resource
//! Allocation**).
//!
//! This module is pure. It knows which devices there are, which of them a claim asks for, and what was allocated. Which quota pays for them
//! is decided in the cluster module.

mod alike;
mod asked;
mod asks;
mod bindings;
mod bounds;
mod card;
mod catalogue;
mod charged;
mod demand;
mod inventory;
mod lacking;
mod model;
mod optional;
mod placing;
mod reading;
mod room;
mod selection;
mod selector;
mod taint_rules;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use crds::card_type::{CardDevice, MOST_DEVICES};
use crds::dra::{DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice, Selector, SubRequest};
use crds::keys::RESOURCE_OF_CLASS;
use crds::lean::Metadata;

use crate::steps::Steps;
use crate::texts::TextPool;
pub use asked::{Asked, CardCounts, Obstacle, RequestAsked};
pub use asks::Named;
pub use bounds::{TURN, cut_excess};
pub use card::{DeviceCard, Drivers};
pub use catalogue::{Catalogue, Unknown, not_evaluated};
pub use demand::{ClaimDemand, DeviceDemand, Meant};
pub use inventory::{Inventory, SliceChange};
use model::Model;
use reading::KnownClaim;
use room::Rooms;
pub use room::{DeviceCount, Room};
use selection::{Expression, Selections};

/// Cards, each once.
pub type Cards = BTreeSet<Arc<DeviceCard>>;

/// The cards that a class provides as a resource, or why that can't be said.
pub type Provided = Result<Cards, Obstacle>;

/// A claim's namespace and name.
pub type ClaimKey = (Box<str>, Box<str>);

/// The devices, the classes, and the claims.
#[derive(Debug, Default)]
pub struct Devices {
    inventory: Inventory,
    rooms: Rooms,
    /// Each class, with the number of the list of all classes in which it was last seen.
    classes: HashMap<Box<str>, (Arc<DeviceClass>, u64)>,
    claims: HashMap<ClaimKey, KnownClaim>,
    /// The claims that no devices were allocated to yet.
    unallocated: BTreeSet<ClaimKey>,
    /// Whether the API server serves no claims at all. Then Cardgate can't see what pods claim by an older version of the API.
    has_no_claims: bool,
    /// The unallocated claims that ask for all devices of a node.
    for_all: BTreeSet<ClaimKey>,
    selections: Selections,
    /// All of some cards that one node has, by the cards and by whether devices that are kept from new pods are included; with the version
    /// of the rooms' shapes for which that was found.
    all: HashMap<(Cards, bool), (u64, Vec<CardCounts>)>,
    /// The uid of the pod that pays, for each claim that several pods may name.
    payers: HashMap<ClaimKey, Arc<str>>,
    /// Rises with every change of devices and classes. What a claim comes to was found for one of these versions.
    version: u64,
}

impl Devices {
    /// Returns the inventory of devices.
    pub fn inventory(&self) -> &Inventory {
        &self.inventory
    }

    /// Sets the drivers whose devices are cards, beside the drivers that are known by name.
    pub fn set_drivers(&mut self, drivers: Drivers) -> SliceChange {
        let change = self.inventory.set_drivers(drivers);
        self.renew_rooms(change)
    }

    /// Takes in what a slice says.
    pub fn apply_slice(&mut self, slice: &ResourceSlice, epoch: u64, texts: &mut TextPool) -> SliceChange {
        let change = self.inventory.apply(slice, epoch, texts);
        self.renew_rooms(change)
    }

    /// Forgets a slice.
    pub fn remove_slice(&mut self, name: &str) -> SliceChange {
        let change = self.inventory.remove(name);
        self.renew_rooms(change)
    }

    /// Takes in what a `DeviceTaintRule` says.
    pub fn apply_taint_rule(&mut self, rule: DeviceTaintRule, epoch: u64) -> SliceChange {
        let change = self.inventory.apply_taint_rule(rule, epoch);
        self.renew_rooms(change)
    }

    /// Forgets a `DeviceTaintRule`.
    pub fn remove_taint_rule(&mut self, name: &str) -> SliceChange {
        let change = self.inventory.remove_taint_rule(name);
        self.renew_rooms(change)
    }

    fn renew_rooms(&mut self, mut change: SliceChange) -> SliceChange {
        self.version += u64::from(change != SliceChange::default());
        for node in &change.nodes {
            change.numbers.extend(self.rooms.renew(node, &self.inventory));
        }
        change
    }

    /// Returns the claims that may come to something else after this change of devices: claims that select any of the models that came or
    /// went, claims that ask for all of a card of which nodes have other numbers, and claims that were allocated devices of the changed
    /// pools. Claims that no pod names are left out.
    pub fn claims_concerned_by(&self, change: &SliceChange, is_named: impl Fn(&ClaimKey) -> bool) -> Vec<ClaimKey> {
        let pools = change.pools.iter();
        let holders: BTreeSet<_> = pools.flat_map(|pool| self.rooms.holders_of(pool)).collect();
        let held = holders.into_iter().filter(|key| is_named(key));
        let mut concerned: Vec<_> = held.cloned().collect();
        if !change.models.is_empty() {
            concerned.extend(self.concerned_by_models(change, &is_named));
        }
        concerned.extend(self.concerned_by_numbers(change, is_named));
        concerned
    }

    fn concerned_by_numbers(&self, change: &SliceChange, is_named: impl Fn(&ClaimKey) -> bool) -> Vec<ClaimKey> {
        let cards = change.numbers.iter();
        let models = cards.flat_map(|card| self.inventory.models_of(&card.name));
        let models: BTreeSet<_> = models
            .filter(|model| !change.models.contains(*model))
            .map(Arc::clone)
            .collect();
        if models.is_empty() {
            return Vec::new();
        }
        let is_for_all = |form: &SubRequest| form.count().is_none();
        let named = self.for_all.iter().filter(|key| is_named(key));
        let steps = Steps::new(TURN);
        let selects = |key: &&ClaimKey| {
            let claim = self.claim(key);
            claim.is_some_and(|claim| self.selects_any(claim, &models, is_for_all, &steps))
        };
        named.filter(selects).cloned().collect()
    }

    fn concerned_by_models(&self, change: &SliceChange, is_named: impl Fn(&ClaimKey) -> bool) -> Vec<ClaimKey> {
        let steps = Steps::new(TURN);
        let selects = |key: &&ClaimKey| {
            let claim = self.claim(key);
            claim.is_some_and(|claim| self.selects_any(claim, &change.models, |_| true, &steps))
        };
        let named = self.unallocated.iter().filter(|key| is_named(key));
        named.filter(selects).cloned().collect()
    }

    /// Whether a claim selects any of these models, or may select one, by any of the forms that `is_looked_at` lets through. A claim counts
    /// as selecting one when the steps are spent: tenants may write any number of claims, and their pods are read in their namespace's turn.
    fn selects_any(
        &self,
        claim: &ResourceClaim,
        models: &BTreeSet<Arc<Model>>,
        is_looked_at: impl Fn(&SubRequest) -> bool,
        steps: &Steps,
    ) -> bool {
        if bounds::excess([&claim.spec].into_iter()).is_some() {
            return false;
        }
        let forms = claim.spec.devices.requests.iter().flat_map(|request| {
            let exactly = request.exactly.iter().map(|form| (form, &form.selectors[..]));
            // What may come for an alternative without devices depends on all devices of its class (`may_be_cards`).
            exactly.chain(request.first_available.iter().map(|form| (form, &[][..])))
        });
        let mut forms = forms.filter(|(form, _)| is_looked_at(form));
        forms.any(|(form, own)| {
            let class = self.classes.get(&form.device_class_name);
            class.is_some_and(|(class, _)| {
                let expressions = self.expressions(class, own, steps);
                expressions.is_none_or(|expressions| self.selections.may_select(&expressions, models, steps))
            })
        })
    }

    /// Looks up the expressions of a class's selectors and of these selectors; returns none where the steps are spent before that is done.
    fn expressions(&self, class: &DeviceClass, own: &[Selector], steps: &Steps) -> Option<Box<[Expression]>> {
        let selectors = class.spec.selectors.iter().chain(own);
        let texts = selectors.map(|selector| &*selector.cel.expression);
        self.selections.look_up(texts, steps)
    }

    /// Returns the devices that a node has; none where it has no devices.
    pub fn room_of(&self, node: &str) -> Option<&Room> {
        self.rooms.at(node)
    }

    /// Returns the cards that a node has as devices, and how many of each.
    pub fn cards_of(&self, node: &str) -> BTreeMap<Arc<DeviceCard>, DeviceCount> {
        self.rooms.at(node).map(Room::cards).unwrap_or_default()
    }

    /// Takes in what a class says. Returns whether it is new.
    pub fn apply_class(&mut self, class: DeviceClass, epoch: u64) -> bool {
        let name = class.metadata.name.clone().unwrap_or_default();
        match self.classes.get_mut(&name) {
            Some((known, seen)) if known.spec == class.spec => {
                *seen = epoch;
                false
            }
            _ => {
                self.classes.insert(name, (Arc::new(class), epoch));
                self.version += 1;
                true
            }
        }
    }

    /// Forgets a class. Returns whether it was known.
    pub fn remove_class(&mut self, name: &str) -> bool {
        self.version += 1;
        self.classes.remove(name).is_some()
    }

    /// Takes in what a claim says. Where that is new, returns the nodes on which other devices are allocated than before.
    pub fn apply_claim(&mut self, key: &ClaimKey, mut claim: ResourceClaim, epoch: u64) -> Option<BTreeSet<Arc<str>>> {
        // Nothing else of the metadata and the reservations counts.
        let ends_with_users = ends_with_users(&claim);
        claim.metadata = Metadata::default();
        claim.status.reserved_for.clear();
        cut_excess(&mut claim.spec);
        if let Some(known) = self.claims.get_mut(key)
            && *known.claim == claim
        {
            known.seen = epoch;
            known.ends_with_users = ends_with_users;
            return None;
        }
        if claim.status.allocation.is_some() {
            self.forget_unallocated(key);
        } else {
            self.unallocated.insert(key.clone());
            if forms_of(&claim).any(|form| form.count().is_none()) {
                self.for_all.insert(key.clone());
            } else {
                self.for_all.remove(key);
            }
        }
        let claim = Arc::new(claim);
        let before = self
            .claims
            .insert(key.clone(), KnownClaim::new(Arc::clone(&claim), epoch, ends_with_users));
        let before = before.as_ref().map(|before| &*before.claim);
        Some(self.rooms.allocate(key, before, Some(&claim), &self.inventory))
    }

    /// Forgets a claim. Where it was known, returns the nodes on which devices come free.
    pub fn remove_claim(&mut self, key: &ClaimKey) -> Option<BTreeSet<Arc<str>>> {
        let before = self.claims.remove(key)?.claim;
        self.forget_unallocated(key);
        Some(self.rooms.allocate(key, Some(&before), None, &self.inventory))
    }

    fn forget_unallocated(&mut self, key: &ClaimKey) {
        self.unallocated.remove(key);
        self.for_all.remove(key);
    }

    /// Returns a claim, as it was last seen.
    pub fn claim(&self, key: &ClaimKey) -> Option<&Arc<ResourceClaim>> {
        self.claims.get(key).map(|known| &known.claim)
    }

    /// Whether the devices allocated to a claim come free once the pods that name it are gone.
    pub fn ends_with_users(&self, key: &ClaimKey) -> bool {
        self.claims.get(key).is_some_and(|known| known.ends_with_users)
    }

    /// Whether devices were allocated to a claim.
    pub fn is_allocated(&self, key: &ClaimKey) -> bool {
        let claim = self.claim(key);
        claim.is_some_and(|claim| claim.status.allocation.is_some())
    }

    /// Returns the classes that were not seen in this list of all classes.
    pub fn classes_missing_in(&self, epoch: u64) -> Vec<Box<str>> {
        let missing = self.classes.iter().filter(|(_, (_, seen))| *seen < epoch);
        missing.map(|(name, _)| name.clone()).collect()
    }

    /// Returns the claims that were not seen in this list of all claims.
    pub fn claims_missing_in(&self, epoch: u64) -> Vec<ClaimKey> {
        let missing = self.claims.iter().filter(|(_, known)| known.seen < epoch);
        missing.map(|(key, _)| key.clone()).collect()
    }

    /// Whether there are no classes, no claims and no devices.
    pub fn is_empty(&self) -> bool {
        self.classes.is_empty() && self.claims.is_empty() && self.inventory.nodes().next().is_none()
    }

    /// Returns what the devices of a card say of themselves, as shown to users: one device of each kind, for the first few kinds.
    pub fn shown_of(&self, card: &str) -> Vec<CardDevice> {
        let models = self.inventory.models_of(card);
        models.take(MOST_DEVICES).map(|model| catalogue::shown(model)).collect()
    }

    /// Returns the uid of the pod that pays for a claim that several pods may name. Where no pod pays yet, this pod (`uid`) does from now
    /// on.
    pub fn payer(&mut self, key: &ClaimKey, uid: &Arc<str>) -> Arc<str> {
        let payer = self.payers.entry(key.clone()).or_insert_with(|| Arc::clone(uid));
        Arc::clone(payer)
    }

    /// Returns the uid of the pod that pays for a claim that several pods may name, where one does.
    pub fn payer_of(&self, key: &ClaimKey) -> Option<&Arc<str>> {
        self.payers.get(key)
    }

    /// Whether this pod pays for a claim that several pods may name.
    pub fn pays(&self, key: &ClaimKey, uid: &str) -> bool {
        self.payer_of(key).is_some_and(|payer| **payer == *uid)
    }

    /// Notes whether the API server serves claims. Returns whether that is new.
    pub fn set_claims_there(&mut self, are_there: bool) -> bool {
        std::mem::replace(&mut self.has_no_claims, !are_there) == are_there
    }

    /// Sets the pod that pays for a claim from now on; none where no pod does.
    pub fn set_payer(&mut self, key: &ClaimKey, payer: Option<Arc<str>>) {
        match payer {
            Some(payer) => self.payers.insert(key.clone(), payer),
            None => self.payers.remove(key),
        };
    }

    /// Returns the class that provides a resource. Where several do, that is the newest; among equally new ones, the first by name.
    fn provider_of(&self, resource: &str) -> Option<&str> {
        if let Some(class) = resource.strip_prefix(RESOURCE_OF_CLASS) {
            return self.classes.get_key_value(class).map(|(name, _)| &**name);
        }
        let provides = |class: &DeviceClass| class.spec.extended_resource_name.as_deref() == Some(resource);
        let classes = self.classes.iter().filter(|(_, (class, _))| provides(class));
        let newest = classes.map(|(name, (class, _))| (Reverse(class.metadata.creation_timestamp.as_deref()), &**name));
        newest.min().map(|(_, name)| name)
    }

    /// Returns an obstacle where the class that this resource names does not exist (it may be created yet). Returns none where the class
    /// exists: then its devices are no cards.
    pub fn not_provided(&self, resource: &str) -> Option<Obstacle> {
        let class = resource.strip_prefix(RESOURCE_OF_CLASS)?;
        let is_there = self.classes.contains_key(class);
        (!is_there).then(|| Obstacle::NoDevice(format!("there is no DeviceClass {class}")))
    }

    /// Returns the resources by which pods may request devices of classes without a claim, cards or not.
    pub fn of_classes(&self) -> impl Iterator<Item = String> + '_ {
        self.classes.iter().flat_map(|(name, (class, _))| {
            let extended = class.spec.extended_resource_name.as_deref();
            let extended = extended.filter(|resource| !resource.is_empty());
            [format!("{RESOURCE_OF_CLASS}{name}")]
                .into_iter()
                .chain(extended.map(str::to_owned))
        })
    }

    /// Returns the resources by which pods may request cards of classes without a claim, each with what the class provides. Classes whose
    /// devices are no cards are left out. Classes that have no device now are included, since a device that comes later may be a card.
    pub fn provided(&mut self) -> Vec<(String, Provided)> {
        let classes: Vec<_> = self
            .classes
            .iter()
            .map(|(name, (class, _))| (name.clone(), Arc::clone(class)))
            .collect();
        let mut provided = Vec::new();
        for (name, class) in classes {
            let of_class = self.provided_by(&class);
            if of_class.as_ref().is_ok_and(BTreeSet::is_empty) {
                continue;
            }
            let extended = class.spec.extended_resource_name.as_deref();
            let extended =
                extended.filter(|resource| !resource.is_empty() && self.provider_of(resource) == Some(&*name));
            provided.extend(extended.map(|resource| (resource.to_owned(), of_class.clone())));
            provided.push((format!("{RESOURCE_OF_CLASS}{name}"), of_class));
        }
        provided.sort_by(|(one, _), (other, _)| one.cmp(other));
        provided
    }
}

/// Returns the forms of a claim's requests.
fn forms_of(claim: &ResourceClaim) -> impl Iterator<Item = &SubRequest> {
    let requests = claim.spec.devices.requests.iter();
    requests.flat_map(|request| request.exactly.iter().chain(&request.first_available))
}

/// Whether Kubernetes' controller takes back the devices allocated to a claim when its users are gone: the devices are reserved for a pod,
/// or the claim is being deleted. For other claims nothing does. The claim's owner references don't count, since tenants may write anything
/// there.
fn ends_with_users(claim: &ResourceClaim) -> bool {
    !claim.status.reserved_for.is_empty() || claim.metadata.deletion_timestamp.is_some()
}
