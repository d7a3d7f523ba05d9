//! Devices that drivers publish, and the pods that claim them (docs/rules.md, **Cards by Dynamic Resource Allocation**).
//! This says which devices nodes have, and which pods' claims are to be read again when devices, device classes or claims
//! have changed.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use crds::dra::{DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice};
use crds::managed::requests_any;
use jiff::Timestamp;

use super::claiming::Claiming;
use super::device_room::DevicesAside;
use super::evaluating::Turns;
use super::outgrown::Outgrown;
use super::paying::Turn;
use super::pod::{Pod, Stage};
use super::{Cluster, Kind};
use crate::amounts::Dimension;
use crate::devices::{ClaimKey, Devices, Drivers, Provided, SliceChange};
use crate::ids::{NodeId, PodId};

/// Devices, and the pods that claim them.
#[derive(Debug, Default)]
pub(super) struct ClaimedDevices {
    pub devices: Devices,
    /// Pods that claim devices, as they were seen last. What their claims come to changes with devices, classes and
    /// claims.
    pub(super) pods: HashMap<Arc<str>, Claiming>,
    /// Those of these pods that request anything that a class may provide.
    pub(super) requesting: BTreeSet<Arc<str>>,
    /// The pods that name each claim.
    pub(super) users: HashMap<ClaimKey, BTreeSet<Arc<str>>>,
    /// The pods that share each claim, in the order in which they are to pay for it.
    pub(super) in_line: HashMap<ClaimKey, BTreeSet<Turn>>,
    /// Claims that the pods that name them were let in by, and have given up since the claims were made anew; each as it
    /// is by now, or none where that is not known. No pod that names such a claim was let in since.
    pub(super) given_up: HashMap<ClaimKey, Option<Arc<ResourceClaim>>>,
    /// Pods whose claims, or the pod that is charged for them, have changed since they were read.
    pub(super) unread: BTreeSet<Arc<str>>,
    /// What evaluating the selectors of claims has cost in this round.
    pub(super) turns: Turns,
    /// The pods that are expected on each node and have not been given their devices, by node name.
    pub(super) expected: HashMap<Arc<str>, BTreeSet<PodId>>,
    /// The resources by which classes provide cards, or may provide them, and which cards.
    pub(super) provided: BTreeMap<String, Provided>,
    /// The resources by which classes hand devices out, cards or not, but for those that count the cards which they hand out.
    pub(super) of_classes: BTreeSet<String>,
    /// Nodes whose labels don't say which cards they have by devices.
    pub(super) to_label: BTreeSet<NodeId>,
    /// Pods that were let in for less than their claims come to.
    pub(super) outgrown: Outgrown,
    /// The devices that are set aside for pods that others are evicted for, while other pods are judged.
    pub(super) aside: DevicesAside,
    /// The pods that are counted as gone, while Cardgate looks for what could be taken back.
    pub(super) away: Option<BTreeSet<PodId>>,
}

impl ClaimedDevices {
    /// Whether pods may request cards by this resource without a claim, as far as can be said.
    pub(super) fn may_provide(&self, resource: &str) -> bool {
        self.provided.contains_key(resource)
    }

    /// Whether pods may request cards by this resource without a claim.
    pub(super) fn provides_cards(&self, resource: &str) -> bool {
        self.provided.get(resource).is_some_and(Result::is_ok)
    }

    /// Returns the resources by which pods may request this card without a claim.
    pub(super) fn provided_as(&self, card: &str) -> impl Iterator<Item = &str> {
        let provided = self.provided.iter();
        let provided = provided.filter(move |(_, cards)| cards.iter().flatten().any(|provided| provided.name == card));
        provided.map(|(resource, _)| resource.as_str())
    }

    /// Returns all resources by which pods may request cards without a claim.
    pub(super) fn provided(&self) -> impl Iterator<Item = &str> {
        self.provided.keys().map(String::as_str)
    }
}

impl Cluster {
    /// Takes in what a slice says.
    pub(crate) fn apply_slice(&mut self, slice: &ResourceSlice, now: Timestamp) {
        let epoch = self.epoch(Kind::ResourceSlice);
        let change = self.claimed.devices.apply_slice(slice, epoch, &mut self.texts);
        self.slices_changed(change, now);
    }

    /// Forgets a slice.
    pub(crate) fn remove_slice(&mut self, name: &str, now: Timestamp) {
        let change = self.claimed.devices.remove_slice(name);
        self.slices_changed(change, now);
    }

    /// Takes in what a rule says that taints devices.
    pub(crate) fn apply_taint_rule(&mut self, rule: DeviceTaintRule, now: Timestamp) {
        let epoch = self.epoch(Kind::DeviceTaintRule);
        let change = self.claimed.devices.apply_taint_rule(rule, epoch);
        self.slices_changed(change, now);
    }

    /// Forgets a rule that taints devices.
    pub(crate) fn remove_taint_rule(&mut self, name: &str, now: Timestamp) {
        let change = self.claimed.devices.remove_taint_rule(name);
        self.slices_changed(change, now);
    }

    /// Makes the devices of those drivers cards that the configuration names.
    pub(super) fn refresh_card_drivers(&mut self, now: Timestamp) {
        let drivers = Drivers::new(&self.configuration.cardgate.card_drivers);
        let change = self.claimed.devices.set_drivers(drivers);
        self.slices_changed(change, now);
    }

    fn slices_changed(&mut self, change: SliceChange, now: Timestamp) {
        if !change.pools.is_empty() {
            self.prospects += 1;
        }
        if !change.models.is_empty() {
            // The number of devices may be as before while what they say of themselves is not.
            let nodes = change.nodes.iter().filter_map(|node| self.nodes.id(node));
            let offers = nodes.filter_map(|id| self.node(id).offer());
            let cards: Vec<_> = offers
                .flat_map(|offer| offer.cards.iter().map(|card| card.card))
                .collect();
            self.changes.cards.extend(cards);
        }
        for card in change.apart.iter().filter_map(|model| model.card.as_ref()) {
            let id = self.names.card(&card.name);
            self.changes.cards.insert(id);
            self.note_coming_or_going(id);
            // Pods were kept off nodes on which the scheduler could have given them such (`choice.rs`).
            self.version += u64::from(self.devices_apart(id) == 0);
        }
        let is_named = |key: &ClaimKey| self.claimed.users.contains_key(key);
        let concerned = self.claimed.devices.claims_concerned_by(&change, is_named);
        self.devices_changed(change.nodes, now);
        let provided = if change.models.is_empty() {
            BTreeSet::new()
        } else {
            self.renew_provided()
        };
        let users = concerned.iter().filter_map(|key| self.claimed.users.get(key)).flatten();
        let mut pods: BTreeSet<_> = users.map(Arc::clone).collect();
        if !provided.is_empty() {
            let requests = |uid: &&Arc<str>| {
                let pod = self.claimed.pods.get(*uid).map(|claiming| &claiming.pod);
                pod.is_some_and(|pod| requests_any(pod, |resource| provided.contains(resource)))
            };
            pods.extend(self.claimed.requesting.iter().filter(requests).map(Arc::clone));
        }
        self.see_again(pods);
    }

    /// Updates nodes that have other devices than before, or on which other devices are allocated.
    fn devices_changed(&mut self, nodes: BTreeSet<Arc<str>>, now: Timestamp) {
        for node in nodes {
            if let Some(id) = self.nodes.id(&node)
                && let Some(mut offer) = self.node(id).offer().cloned()
            {
                offer.put_devices(&self.claimed.devices.cards_of(&node), &mut self.names);
                self.set_offer(id, offer, now);
                // It may matter which devices are free, even where their number is the same.
                self.node_changes.note(id);
            }
        }
    }

    /// Takes in what a class says.
    pub(crate) fn apply_class(&mut self, class: DeviceClass) {
        let epoch = self.epoch(Kind::DeviceClass);
        if self.claimed.devices.apply_class(class, epoch) {
            self.classes_changed();
        }
    }

    /// Forgets a class.
    pub(crate) fn remove_class(&mut self, name: &str) {
        if self.claimed.devices.remove_class(name) {
            self.classes_changed();
        }
    }

    /// Updates the resources by which classes provide cards, or may provide them. Returns the resources for which this has
    /// changed.
    fn renew_provided(&mut self) -> BTreeSet<String> {
        let provided: BTreeMap<_, _> = self.claimed.devices.provided().into_iter().collect();
        let of_classes = self.claimed.devices.of_classes();
        let is_own = |resource: &String| {
            let cards = provided.get(resource).and_then(|provided| provided.as_ref().ok());
            cards.is_some_and(|cards| cards.iter().any(|card| card.resource == *resource))
        };
        let of_classes = of_classes.filter(|resource| !is_own(resource)).collect();
        let of_classes_before = std::mem::replace(&mut self.claimed.of_classes, of_classes);
        let before = std::mem::replace(&mut self.claimed.provided, provided);
        let now = &self.claimed.provided;
        let resources = before.keys().chain(now.keys());
        let changed = resources.filter(|resource| before.get(*resource) != now.get(*resource));
        let changed = changed.chain(of_classes_before.symmetric_difference(&self.claimed.of_classes));
        let changed: BTreeSet<_> = changed.cloned().collect();
        if changed.is_empty() {
            return changed;
        }
        let cards = before.values().chain(now.values()).flatten().flatten();
        for card in cards.collect::<BTreeSet<_>>() {
            let card = self.names.card(&card.name);
            self.changes.cards.insert(card);
        }
        let is_new = |resource: &&String| !before.contains_key(*resource) && !of_classes_before.contains(*resource);
        // Pods with new resources have to be listed again, since what else they say was not kept.
        self.lists.pods_again |= self.is_waited_for(&changed.iter().filter(is_new).map(String::as_str).collect());
        // What queues may have of these resources is another than before.
        for resource in &changed {
            if let Some(resource) = self.names.known_resource(resource) {
                self.note_to_be_had(Dimension::Resource(resource));
            }
        }
        self.top.rose();
        // The webhook and the policies are told which resources are cards.
        self.changes.resources_of_cards = true;
        self.version += 1;
        changed
    }

    /// Whether a resource is on no node, since it only stands for a class that hands devices out. As soon as nodes or the
    /// configuration say that it counts cards, it does.
    pub(super) fn is_of_class(&self, resource: &str) -> bool {
        self.claimed.of_classes.contains(resource) && !self.is_known_for_cards(resource)
    }

    /// Reads all pods again that request what a class hands out, or may: the resource may be another thing by now.
    pub(super) fn resources_of_cards_changed(&mut self) {
        let requesting: Vec<_> = self.claimed.requesting.iter().map(Arc::clone).collect();
        self.see_again(requesting);
        self.top.rose();
    }

    /// Whether any pod without a node requests any of these resources, and was not seen to claim anything by that.
    fn is_waited_for(&self, resources: &BTreeSet<&str>) -> bool {
        let requests = |pod: &Pod| {
            let mut requested = pod.task.request.iter().filter(|(_, count)| *count > 0);
            requested.any(|(dimension, _)| resources.contains(dimension.name(&self.names)))
        };
        let is_unplaced = |pod: &&Pod| !matches!(pod.stage, Stage::Bound) && !self.claimed.pods.contains_key(&pod.uid);
        !resources.is_empty() && self.pods().filter(is_unplaced).any(requests)
    }

    /// Reads all claiming pods again after classes have changed, since their claims may come to something else.
    fn classes_changed(&mut self) {
        self.prospects += 1;
        self.renew_provided();
        let pods: Vec<_> = self.claimed.pods.keys().map(Arc::clone).collect();
        self.see_again(pods);
    }

    /// Takes in what a claim says.
    pub(crate) fn apply_resource_claim(&mut self, claim: ResourceClaim, now: Timestamp) {
        let key = key_of(&claim);
        let epoch = self.epoch(Kind::ResourceClaim);
        if let Some(nodes) = self.claimed.devices.apply_claim(&key, claim, epoch) {
            self.devices_changed(nodes, now);
            self.claim_changed(&key);
        }
    }

    /// Forgets a claim.
    pub(crate) fn remove_resource_claim(&mut self, namespace: &str, name: &str, now: Timestamp) {
        let key = (namespace.into(), name.into());
        if let Some(nodes) = self.claimed.devices.remove_claim(&key) {
            self.devices_changed(nodes, now);
            self.claim_changed(&key);
        }
    }

    pub(super) fn claim_changed(&mut self, key: &ClaimKey) {
        let users = self.claimed.users.get(key).into_iter().flatten();
        let users: Vec<_> = users.filter(|uid| !self.waits_for_turn(uid)).map(Arc::clone).collect();
        self.see_again(users);
    }

    /// Whether a pod waits until its claims are read in the turn of its namespace. Whatever the claims say by then,
    /// nothing comes of it before.
    fn waits_for_turn(&self, uid: &str) -> bool {
        let pod = self.pod_with_uid(uid).and_then(|id| self.pod(id));
        pod.is_some_and(|pod| {
            matches!(pod.stage, Stage::Waiting | Stage::Blocked) && self.claimed.turns.is_later(&pod.namespace, uid)
        })
    }

    /// Forgets the objects of this kind that a complete list does not name.
    pub(super) fn forget_unlisted_devices(&mut self, kind: Kind, epoch: u64, now: Timestamp) {
        match kind {
            Kind::ResourceSlice => {
                for name in self.claimed.devices.inventory().missing_in(epoch) {
                    self.remove_slice(&name, now);
                }
            }
            Kind::DeviceClass => {
                for name in self.claimed.devices.classes_missing_in(epoch) {
                    self.remove_class(&name);
                }
            }
            Kind::DeviceTaintRule => {
                for name in self.claimed.devices.inventory().taint_rules_missing_in(epoch) {
                    self.remove_taint_rule(&name, now);
                }
            }
            _ => {
                for (namespace, name) in self.claimed.devices.claims_missing_in(epoch) {
                    self.remove_resource_claim(&namespace, &name, now);
                }
            }
        }
    }

    /// Marks these pods to be read anew, as they were seen last.
    pub(super) fn see_again(&mut self, pods: impl IntoIterator<Item = Arc<str>>) {
        self.claimed.unread.extend(pods);
    }

    /// Notes that a pod of this namespace is being read.
    pub(super) fn note_read(&mut self, namespace: &str, uid: &str) {
        self.claimed.unread.remove(uid);
        if self.claimed.turns.forget_waiting(namespace, uid) {
            self.end_pause(uid);
        }
    }

    /// Whether [`Self::read_again`] has left nothing to do before something is decided: no pod is to be read anew, and the pods of
    /// every workload are divided by its minimum.
    pub(crate) fn is_ready_to_decide(&self) -> bool {
        self.claimed.unread.is_empty() && self.are_all_balanced()
    }
}

fn key_of(claim: &ResourceClaim) -> ClaimKey {
    let text = |text: &Option<Box<str>>| text.clone().unwrap_or_default();
    (text(&claim.metadata.namespace), text(&claim.metadata.name))
}
