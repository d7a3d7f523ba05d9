//! Devices that drivers publish and pods claim: Dynamic Resource Allocation, read as cards (docs/rules.md, **Cards by Dynamic
//! Resource Allocation**).
//!
//! Pure: which devices there are, which of them a claim asks for, and what was allocated. Whose quota that is, the cluster says.

mod alike;
mod asked;
mod asks;
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

/// The cards that a class provides as a resource; else why that can't be said.
pub type Provided = Result<Cards, Obstacle>;

/// A claim's namespace and name.
pub type ClaimKey = (Box<str>, Box<str>);

/// The devices, the classes, and the claims.
#[derive(Debug, Default)]
pub struct Devices {
    inventory: Inventory,
    rooms: Rooms,
    /// Each with the list of all of them in which it was seen last.
    classes: HashMap<Box<str>, (Arc<DeviceClass>, u64)>,
    claims: HashMap<ClaimKey, KnownClaim>,
    /// Those of them that have not been given devices.
    unallocated: BTreeSet<ClaimKey>,
    /// Whether the API server has no claims at all: nobody sees then what pods claim by an older version of them.
    has_no_claims: bool,
    /// Those of the unallocated that ask for all that a node has.
    for_all: BTreeSet<ClaimKey>,
    selections: Selections,
    /// All of some cards that one node has, without those that are kept from new pods or with them, and of which version of the rooms' shapes
    /// that was found.
    all: HashMap<(Cards, bool), (u64, Vec<CardCounts>)>,
    /// Of claims that several pods may name: who pays, by uid.
    payers: HashMap<ClaimKey, Arc<str>>,
    /// Rises with every change of devices and classes: what claims come to was found of one of these.
    version: u64,
}

impl Devices {
    /// The devices there are.
    pub fn inventory(&self) -> &Inventory {
        &self.inventory
    }

    /// The devices of these drivers are cards, besides those that are known by name.
    pub fn set_drivers(&mut self, drivers: Drivers) -> SliceChange {
        let change = self.inventory.set_drivers(drivers);
        self.renew_rooms(change)
    }

    /// Takes what a slice says.
    pub fn apply_slice(&mut self, slice: &ResourceSlice, epoch: u64, texts: &mut TextPool) -> SliceChange {
        let change = self.inventory.apply(slice, epoch, texts);
        self.renew_rooms(change)
    }

    /// Forgets a slice.
    pub fn remove_slice(&mut self, name: &str) -> SliceChange {
        let change = self.inventory.remove(name);
        self.renew_rooms(change)
    }

    /// Takes what a rule says that taints devices.
    pub fn apply_taint_rule(&mut self, rule: DeviceTaintRule, epoch: u64) -> SliceChange {
        let change = self.inventory.apply_taint_rule(rule, epoch);
        self.renew_rooms(change)
    }

    /// Forgets such a rule.
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

    /// The claims that come to something else when devices have changed so: those that select any of the models that came or went, those
    /// that ask for all of a card of which nodes have other numbers, and those that were allocated devices of these pools. Those that no
    /// pod names concern nobody.
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

    /// Whether a claim selects any of these models, or may, by any of the forms that are looked at. What the steps don't suffice for may:
    /// tenants write as many claims as they like, and their pods are read in the turn of their namespace.
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
        let mut forms = forms_of(claim).filter(|form| is_looked_at(form));
        forms.any(|form| {
            let class = self.classes.get(&form.device_class_name);
            class.is_some_and(|(class, _)| {
                let expressions = self.expressions(class, &form.selectors, steps);
                expressions.is_none_or(|expressions| self.selections.may_select(&expressions, models, steps))
            })
        })
    }

    /// What the selectors of a class say, and these; none where the steps are spent before they are looked up.
    fn expressions(&self, class: &DeviceClass, own: &[Selector], steps: &Steps) -> Option<Box<[Expression]>> {
        let selectors = class.spec.selectors.iter().chain(own);
        let texts = selectors.map(|selector| &*selector.cel.expression);
        self.selections.look_up(texts, steps)
    }

    /// The devices that a node has; none where it has none.
    pub fn room_of(&self, node: &str) -> Option<&Room> {
        self.rooms.at(node)
    }

    /// The cards that a node has by devices, and how many of each.
    pub fn cards_of(&self, node: &str) -> BTreeMap<Arc<DeviceCard>, DeviceCount> {
        self.rooms.at(node).map(Room::cards).unwrap_or_default()
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
                self.version += 1;
                true
            }
        }
    }

    /// Forgets a class; whether there was one.
    pub fn remove_class(&mut self, name: &str) -> bool {
        self.version += 1;
        self.classes.remove(name).is_some()
    }

    /// Takes what a claim says; where that is news, the nodes of which other devices are allocated than before.
    pub fn apply_claim(&mut self, key: &ClaimKey, mut claim: ResourceClaim, epoch: u64) -> Option<BTreeSet<Arc<str>>> {
        // Of what is in there nothing else counts.
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

    /// Forgets a claim; where there was one, the nodes of which devices come free.
    pub fn remove_claim(&mut self, key: &ClaimKey) -> Option<BTreeSet<Arc<str>>> {
        let before = self.claims.remove(key)?.claim;
        self.forget_unallocated(key);
        Some(self.rooms.allocate(key, Some(&before), None, &self.inventory))
    }

    fn forget_unallocated(&mut self, key: &ClaimKey) {
        self.unallocated.remove(key);
        self.for_all.remove(key);
    }

    /// What a claim says.
    pub fn claim(&self, key: &ClaimKey) -> Option<&Arc<ResourceClaim>> {
        self.claims.get(key).map(|known| &known.claim)
    }

    /// Whether what was allocated to a claim comes free once who names it is gone.
    pub fn ends_with_users(&self, key: &ClaimKey) -> bool {
        self.claims.get(key).is_some_and(|known| known.ends_with_users)
    }

    /// Whether a claim was allocated.
    pub fn is_allocated(&self, key: &ClaimKey) -> bool {
        let claim = self.claim(key);
        claim.is_some_and(|claim| claim.status.allocation.is_some())
    }

    /// The classes that were not seen in this list of all of them.
    pub fn classes_missing_in(&self, epoch: u64) -> Vec<Box<str>> {
        let missing = self.classes.iter().filter(|(_, (_, seen))| *seen < epoch);
        missing.map(|(name, _)| name.clone()).collect()
    }

    /// The claims that were not seen in this list of all of them.
    pub fn claims_missing_in(&self, epoch: u64) -> Vec<ClaimKey> {
        let missing = self.claims.iter().filter(|(_, known)| known.seen < epoch);
        missing.map(|(key, _)| key.clone()).collect()
    }

    /// Whether there is anything of this at all.
    pub fn is_empty(&self) -> bool {
        self.classes.is_empty() && self.claims.is_empty() && self.inventory.nodes().next().is_none()
    }

    /// What the devices that are a card say of themselves, as it is shown: one of each kind, of the first few by what they say.
    pub fn shown_of(&self, card: &str) -> Vec<CardDevice> {
        let models = self.inventory.models_of(card);
        models.take(MOST_DEVICES).map(|model| catalogue::shown(model)).collect()
    }

    /// Who pays for a claim that several pods may name; `uid` does where nobody does yet.
    pub fn payer(&mut self, key: &ClaimKey, uid: &Arc<str>) -> Arc<str> {
        let payer = self.payers.entry(key.clone()).or_insert_with(|| Arc::clone(uid));
        Arc::clone(payer)
    }

    /// The pod that pays for a claim that several may name, where one does.
    pub fn payer_of(&self, key: &ClaimKey) -> Option<&Arc<str>> {
        self.payers.get(key)
    }

    /// Whether this pod pays for a claim that several may name.
    pub fn pays(&self, key: &ClaimKey, uid: &str) -> bool {
        self.payer_of(key).is_some_and(|payer| **payer == *uid)
    }

    /// Takes note of whether the API server has claims; whether that is news.
    pub fn set_claims_there(&mut self, are_there: bool) -> bool {
        std::mem::replace(&mut self.has_no_claims, !are_there) == are_there
    }

    /// Somebody else pays from now on, or nobody.
    pub fn set_payer(&mut self, key: &ClaimKey, payer: Option<Arc<str>>) {
        match payer {
            Some(payer) => self.payers.insert(key.clone(), payer),
            None => self.payers.remove(key),
        };
    }

    /// The class that provides a resource: where several do, the newest, and of those the first by name.
    fn provider_of(&self, resource: &str) -> Option<&str> {
        if let Some(class) = resource.strip_prefix(RESOURCE_OF_CLASS) {
            return self.classes.get_key_value(class).map(|(name, _)| &**name);
        }
        let provides = |class: &DeviceClass| class.spec.extended_resource_name.as_deref() == Some(resource);
        let classes = self.classes.iter().filter(|(_, (class, _))| provides(class));
        let newest = classes.map(|(name, (class, _))| (Reverse(class.metadata.creation_timestamp.as_deref()), &**name));
        newest.min().map(|(_, name)| name)
    }

    /// What a class of which nothing is provided at the moment, but whose name this resource has, may provide yet; none where it is there, and
    /// its devices are no cards.
    pub fn not_provided(&self, resource: &str) -> Option<Obstacle> {
        let class = resource.strip_prefix(RESOURCE_OF_CLASS)?;
        let is_there = self.classes.contains_key(class);
        (!is_there).then(|| Obstacle::NoDevice(format!("there is no DeviceClass {class}")))
    }

    /// The resources by which pods may request cards of classes without a claim, each with what the class provides. Not those of classes
    /// whose devices are no cards; but of those that have no device now: what comes may be a card.
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

/// The forms of a claim's requests.
fn forms_of(claim: &ResourceClaim) -> impl Iterator<Item = &SubRequest> {
    let requests = claim.spec.devices.requests.iter();
    requests.flat_map(|request| request.exactly.iter().chain(&request.first_available))
}

/// Whether Kubernetes' controller takes back what was allocated to a claim when who names it is gone: its devices are reserved for somebody, or it is
/// being deleted. Nobody does of any other claim; of its owners tenants say what they like.
fn ends_with_users(claim: &ResourceClaim) -> bool {
    !claim.status.reserved_for.is_empty() || claim.metadata.deletion_timestamp.is_some()
}
