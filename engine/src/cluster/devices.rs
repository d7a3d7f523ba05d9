//! Devices that drivers publish and pods claim (docs/rules.md, **Cards by Dynamic Resource Allocation**): what nodes have of them,
//! and what the claims of pods come to.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use crds::card_resources::is_extended;
use crds::dra::{DeviceClass, ResourceClaim, ResourceSlice};
use crds::managed::requests_any;
use jiff::Timestamp;

use super::outgrown::Outgrown;
use super::pod::{Gates, Reading};
use super::{Cluster, Kind};
use crate::alternative::Assigned;
use crate::devices::{ClaimKey, DeviceCard, Devices, Drivers, Named, SliceChange};
use crate::ids::{NodeId, PodId, QueueId};
use crate::names::CardId;
use crate::reason::Reason;
use crate::task::{Claimed, Task};

/// Devices, and the pods that claim them.
#[derive(Debug, Default)]
pub(super) struct ClaimedDevices {
    pub devices: Devices,
    /// Pods that claim devices, as they were seen last: what they come to changes with devices, classes and claims.
    pub(super) pods: HashMap<Arc<str>, Claiming>,
    /// Those of them that request anything that a class may provide.
    pub(super) requesting: BTreeSet<Arc<str>>,
    /// The pods that name each claim.
    pub(super) users: HashMap<ClaimKey, BTreeSet<Arc<str>>>,
    /// By node, the pods that are expected there and have not been given their devices.
    pub(super) expected: HashMap<Arc<str>, BTreeSet<PodId>>,
    /// The resources by which classes provide cards, and which.
    pub(super) provided: BTreeMap<String, BTreeSet<DeviceCard>>,
    /// Nodes whose labels don't say which cards they have by devices.
    pub(super) to_label: BTreeSet<NodeId>,
    /// Pods that were let in for less than their claims come to.
    pub(super) outgrown: Outgrown,
    /// While it is looked at what could be taken back: the pods that are counted as gone.
    pub(super) away: Option<BTreeSet<PodId>>,
}

/// The UID of pods that are not there.
pub(super) const NOBODY: &str = "";

/// A pod that claims devices.
#[derive(Debug)]
pub(super) struct Claiming {
    pod: Box<crds::pod::Pod<Box<str>>>,
    named: Vec<Named>,
    /// The claim that the scheduler made for it.
    provided: Option<ClaimKey>,
    /// What its claims said when it was let in; none where nobody here let it in.
    pub(super) let_in_by: Option<Vec<(ClaimKey, Arc<ResourceClaim>)>>,
}

impl Claiming {
    /// The text of an annotation of the pod.
    pub(super) fn annotation(&self, key: &str) -> Option<&str> {
        self.pod.metadata.annotations.get(key)
    }

    /// All claims of the pod.
    pub(super) fn keys(&self) -> BTreeSet<ClaimKey> {
        let namespace = self.pod.metadata.namespace.as_deref().unwrap_or_default();
        keys_of(namespace, &self.named).chain(self.provided.clone()).collect()
    }
}

impl ClaimedDevices {
    /// Whether pods may request cards by this resource without a claim.
    pub(super) fn provides(&self, resource: &str) -> bool {
        self.provided.contains_key(resource)
    }

    /// Those by which they may request this card.
    pub(super) fn provided_as(&self, card: &str) -> impl Iterator<Item = &str> {
        let provided = self.provided.iter();
        let provided = provided.filter(move |(_, cards)| cards.iter().any(|provided| provided.name == card));
        provided.map(|(resource, _)| resource.as_str())
    }

    /// All such resources.
    pub(super) fn provided(&self) -> impl Iterator<Item = &str> {
        self.provided.keys().map(String::as_str)
    }
}

impl Cluster {
    /// Takes what a slice says.
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

    /// The devices of those drivers are cards that the configuration names.
    pub(super) fn refresh_card_drivers(&mut self, now: Timestamp) {
        let drivers = Drivers::new(&self.configuration.cardgate.card_drivers);
        let change = self.claimed.devices.set_drivers(drivers);
        self.slices_changed(change, now);
    }

    fn slices_changed(&mut self, change: SliceChange, now: Timestamp) {
        if !change.models.is_empty() {
            // How many there are may be as before, and what they say of themselves not.
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
        self.see_again(pods.into_iter().collect(), now);
    }

    /// These nodes have other devices than before, or others of them are allocated.
    fn devices_changed(&mut self, nodes: BTreeSet<Arc<str>>, now: Timestamp) {
        for node in nodes {
            if let Some(id) = self.nodes.id(&node)
                && let Some(mut offer) = self.node(id).offer().cloned()
            {
                offer.put_devices(&self.claimed.devices.cards_of(&node), &mut self.names);
                self.set_offer(id, offer, now);
                // Which of its devices are free may matter where their number is the same.
                self.node_changes.note(id);
            }
        }
    }

    /// Takes what a class says.
    pub(crate) fn apply_class(&mut self, class: DeviceClass, now: Timestamp) {
        let epoch = self.epoch(Kind::DeviceClass);
        if self.claimed.devices.apply_class(class, epoch) {
            self.classes_changed(now);
        }
    }

    /// Forgets a class.
    pub(crate) fn remove_class(&mut self, name: &str, now: Timestamp) {
        if self.claimed.devices.remove_class(name) {
            self.classes_changed(now);
        }
    }

    /// Takes note of the resources by which classes provide cards now; those of which that is something else than before.
    fn renew_provided(&mut self) -> BTreeSet<String> {
        let provided: BTreeMap<_, _> = self.claimed.devices.provided().into_iter().collect();
        let before = std::mem::replace(&mut self.claimed.provided, provided);
        let now = &self.claimed.provided;
        let resources = before.keys().chain(now.keys());
        let changed: BTreeSet<_> = resources
            .filter(|resource| before.get(*resource) != now.get(*resource))
            .cloned()
            .collect();
        if changed.is_empty() {
            return changed;
        }
        for card in before.values().chain(now.values()).flatten().collect::<BTreeSet<_>>() {
            let card = self.names.card(&card.name);
            self.changes.cards.insert(card);
        }
        // The door and the policies are told which resources are cards.
        self.changes.resources_of_cards = true;
        self.version += 1;
        changed
    }

    /// What claims come to may be something else: classes are others than before.
    fn classes_changed(&mut self, now: Timestamp) {
        self.renew_provided();
        let pods: Vec<_> = self.claimed.pods.keys().map(Arc::clone).collect();
        self.see_again(pods, now);
    }

    /// Takes what a claim says.
    pub(crate) fn apply_resource_claim(&mut self, claim: ResourceClaim, now: Timestamp) {
        let key = key_of(&claim);
        let epoch = self.epoch(Kind::ResourceClaim);
        if let Some(nodes) = self.claimed.devices.apply_claim(&key, claim, epoch) {
            self.devices_changed(nodes, now);
            self.claim_changed(&key, now);
        }
    }

    /// Forgets a claim.
    pub(crate) fn remove_resource_claim(&mut self, namespace: &str, name: &str, now: Timestamp) {
        let key = (namespace.into(), name.into());
        if let Some(nodes) = self.claimed.devices.remove_claim(&key) {
            self.devices_changed(nodes, now);
            self.claim_changed(&key, now);
        }
    }

    fn claim_changed(&mut self, key: &ClaimKey, now: Timestamp) {
        let users = self.claimed.users.get(key).into_iter().flatten();
        let users: Vec<_> = users.map(Arc::clone).collect();
        self.see_again(users, now);
    }

    /// What a list of all objects of these kinds does not name is gone.
    pub(super) fn forget_unlisted_devices(&mut self, kind: Kind, epoch: u64, now: Timestamp) {
        match kind {
            Kind::ResourceSlice => {
                for name in self.claimed.devices.inventory().missing_in(epoch) {
                    self.remove_slice(&name, now);
                }
            }
            Kind::DeviceClass => {
                for name in self.claimed.devices.classes_missing_in(epoch) {
                    self.remove_class(&name, now);
                }
            }
            _ => {
                for (namespace, name) in self.claimed.devices.claims_missing_in(epoch) {
                    self.remove_resource_claim(&namespace, &name, now);
                }
            }
        }
    }

    /// Reads pods anew, as they were seen last.
    fn see_again(&mut self, pods: Vec<Arc<str>>, now: Timestamp) {
        for uid in pods {
            if let Some(claiming) = self.claimed.pods.get(&uid) {
                self.apply_pod_again((*claiming.pod).clone(), now);
            }
        }
    }

    /// Whether a pod claims devices, by name or by a resource that a class provides.
    pub(super) fn may_claim(&self, pod: &crds::pod::Pod<Box<str>>) -> bool {
        !pod.spec.resource_claims.is_empty()
            || !self.claimed.provided.is_empty() && requests_any(pod, |resource| self.claimed.provides(resource))
    }

    /// Remembers a pod that claims devices, as it was seen; what it names.
    fn note_claiming(&mut self, pod: crds::pod::Pod<Box<str>>, namespace: &str) -> Vec<Named> {
        let uid = pod.metadata.uid.as_deref().unwrap_or_default();
        let named = named_by(&pod);
        let uid: Arc<str> = match self.claimed.pods.get_key_value(uid) {
            Some((uid, _)) => Arc::clone(uid),
            None => uid.into(),
        };
        let provided = provided_claim(&pod).map(|claim| (namespace.into(), claim.into()));
        if requests_any(&pod, is_extended) {
            self.claimed.requesting.insert(Arc::clone(&uid));
        }
        let claiming = Claiming {
            pod: Box::new(pod),
            named: named.clone(),
            provided,
            let_in_by: self
                .claimed
                .pods
                .get_mut(&uid)
                .and_then(|before| before.let_in_by.take()),
        };
        let keys = claiming.keys();
        let before = self.claimed.pods.insert(Arc::clone(&uid), claiming);
        let before = before.map(|before| before.keys()).unwrap_or_default();
        for key in before.difference(&keys) {
            self.unname_claim(key, &uid);
        }
        for key in keys {
            self.claimed.users.entry(key).or_default().insert(Arc::clone(&uid));
        }
        for key in shared_keys(namespace, &named) {
            self.claimed.devices.payer(&key, &uid);
        }
        named
    }

    /// Forgets a pod that claimed devices: whoever shares a claim that it paid for pays from now on. `was_in` says whether the pod had
    /// been let in.
    pub(super) fn forget_claiming(&mut self, uid: &str, was_in: bool, now: Timestamp) {
        let Some((uid, claiming)) = self.claimed.pods.remove_entry(uid) else {
            return;
        };
        self.claimed.requesting.remove(&uid);
        let namespace = claiming.pod.metadata.namespace.as_deref().unwrap_or_default();
        for key in claiming.keys() {
            self.unname_claim(&key, &uid);
        }
        for key in shared_keys(namespace, &claiming.named) {
            if !self.claimed.devices.pays(&key, &uid) {
                continue;
            }
            let users = self.claimed.users.get(&key).into_iter().flatten();
            let waits = |uid: &Arc<str>| {
                let pod = self.pod_with_uid(uid).and_then(|id| self.pod(id));
                pod.map(|pod| (!pod.is_in(), pod.created, Arc::clone(&pod.uid)))
            };
            // Who was let in already, first; nobody waits for what another pod of theirs has given back.
            let next = users.filter_map(|uid| Some((waits(uid)?, Arc::clone(uid)))).min();
            let next_waits = next.as_ref().is_some_and(|((waits, ..), _)| *waits);
            let next = next.map(|(_, uid)| uid);
            self.claimed.devices.set_payer(&key, next.clone());
            if was_in == next_waits {
                self.claim_changed(&key, now);
            } else {
                // The others wait for somebody, or for nobody, as before.
                self.see_again(next.into_iter().collect(), now);
            }
        }
    }

    fn unname_claim(&mut self, key: &ClaimKey, uid: &Arc<str>) {
        if let Some(users) = self.claimed.users.get_mut(key) {
            users.remove(uid);
            if users.is_empty() {
                self.claimed.users.remove(key);
            }
        }
    }

    /// Those that share a claim with a pod which was let in, or no longer is, are looked at again.
    pub(super) fn see_sharers_again(&mut self, id: PodId, named: &[Named], now: Timestamp) {
        let Some(pod) = self.pod(id).filter(|_| named.iter().any(|named| named.shared)) else {
            return;
        };
        let (uid, namespace) = (Arc::clone(&pod.uid), Arc::clone(&pod.namespace));
        for key in shared_keys(&namespace, named) {
            if self.claimed.devices.payer(&key, &uid) == uid {
                let users = self.claimed.users.get(&key).into_iter().flatten();
                let others = users.filter(|user| **user != uid).map(Arc::clone).collect();
                self.see_again(others, now);
            }
        }
    }

    /// Adds to what was read of a pod what its claims come to; `as_seen` is the pod, where it may claim anything. What it names.
    pub(super) fn read_claims(
        &mut self,
        reading: &mut Reading,
        as_seen: Option<crds::pod::Pod<Box<str>>>,
        namespace: &str,
        uid: &str,
    ) -> Vec<Named> {
        let has_provided = as_seen
            .as_ref()
            .is_some_and(|pod| self.has_provided_devices(pod, namespace));
        let named = as_seen.map_or_else(Vec::new, |pod| self.note_claiming(pod, namespace));
        self.put_claims(reading, &named, has_provided, namespace, uid);
        named
    }

    /// Adds to what was read of a pod that need not be there what its claims would come to. Nobody comes to pay for them by that.
    pub(super) fn imagine_claims(
        &mut self,
        reading: &mut Reading,
        pod: &crds::pod::Pod<Box<str>>,
        namespace: &str,
    ) -> Vec<Named> {
        if !self.may_claim(pod) {
            return Vec::new();
        }
        let named = named_by(pod);
        self.put_claims(reading, &named, false, namespace, NOBODY);
        named
    }

    /// Adds what claims come to. `has_provided` says whether the pod was given what it requests by resources that classes provide.
    fn put_claims(&mut self, reading: &mut Reading, named: &[Named], has_provided: bool, namespace: &str, uid: &str) {
        let demand = self.devices_asked(&reading.task.request, namespace, named, has_provided);
        let assigned = reading.assigned.as_ref().and_then(|assigned| match assigned {
            Assigned::Card(card) => Some(self.names.card_name(*card)),
            Assigned::Counted(_) => None,
        });
        let asked = self.claimed.devices.asked_by(namespace, uid, named, assigned);
        let (others, requested) = self.requested_of_classes(&reading.task.request, asked.is_for_cards());
        if !named.is_empty() || !requested.is_empty() {
            self.put_asked(reading, others, asked.and_provided(requested));
        }
        if let Some(demand) = demand {
            let named = reading.task.cards().collect();
            let claimed = reading.task.claimed.get_or_insert_with(|| {
                Arc::new(Claimed {
                    named,
                    ..Claimed::default()
                })
            });
            Arc::make_mut(claimed).demand = Some(Arc::new(demand));
        }
    }

    /// A pod that was let in holds what it was seen to hold while that can't be said: its claim or the slices of its node may be away
    /// for a while, and what it runs on is not.
    pub(super) fn keep_claimed(&self, reading: &mut Reading, known: Option<PodId>) {
        let task = &mut reading.task;
        let is_lost = |claimed: &Arc<Claimed>| !claimed.is_for_cards();
        let cannot_be_said = task.unreadable.is_some()
            || task.claimed.as_ref().is_some_and(|claimed| {
                matches!(
                    claimed.refusal,
                    Some(Reason::ResourceClaimNotFound | Reason::NoDeviceSelected)
                )
            });
        if reading.gates != Gates::None || !cannot_be_said || !task.claimed.as_ref().is_some_and(is_lost) {
            return;
        }
        let Some(old) = known.and_then(|id| self.pod(id)).filter(|old| old.is_in()) else {
            return;
        };
        if old.task.claimed.as_ref().is_some_and(|claimed| !is_lost(claimed)) {
            task.request = Arc::clone(&old.task.request);
            task.claimed.clone_from(&old.task.claimed);
            task.unreadable.clone_from(&old.task.unreadable);
        }
    }

    /// Whether a pod that shares a claim has to wait for whoever pays for it: that must be let in, in the same queue.
    pub(super) fn check_payers(
        &self,
        task: &mut Task,
        namespace: &str,
        uid: &str,
        queue: Option<QueueId>,
        named: &[Named],
    ) {
        let Some(claimed) = task.claimed.as_ref() else { return };
        if claimed.refusal != Some(Reason::ResourceClaimShared) {
            return;
        }
        let all_paid = shared_keys(namespace, named).all(|key| {
            let Some(payer) = self.claimed.devices.payer_of(&key).filter(|payer| &***payer != uid) else {
                return true;
            };
            let pod = self.pod_with_uid(payer).and_then(|id| self.pod(id));
            pod.is_some_and(|pod| pod.is_in() && pod.queue == queue)
        });
        if all_paid {
            let mut paid = Claimed::clone(claimed);
            paid.refusal = None;
            task.claimed = Some(Arc::new(paid));
        }
    }
}

/// The claims that a pod names.
fn named_by(pod: &crds::pod::Pod<Box<str>>) -> Vec<Named> {
    let made = |name: &str| {
        let mut statuses = pod.status.resource_claim_statuses.iter();
        let status = statuses.find(|status| status.name.as_deref() == Some(name))?;
        status.resource_claim_name.clone()
    };
    let claims = pod.spec.resource_claims.iter().map(|claim| {
        let name = claim.name.clone().unwrap_or_default();
        let by_name = claim.resource_claim_name.clone();
        Named {
            shared: by_name.is_some(),
            claim: by_name.or_else(|| made(&name)),
            name,
        }
    });
    claims.collect()
}

fn keys_of<'n>(namespace: &'n str, named: &'n [Named]) -> impl Iterator<Item = ClaimKey> + 'n {
    let claims = named.iter().filter_map(|named| named.claim.clone());
    claims.map(move |claim| (namespace.into(), claim))
}

fn shared_keys<'n>(namespace: &'n str, named: &'n [Named]) -> impl Iterator<Item = ClaimKey> + 'n {
    let shared = named.iter().filter(|named| named.shared);
    let claims = shared.filter_map(|named| named.claim.clone());
    claims.map(move |claim| (namespace.into(), claim))
}

fn key_of(claim: &ResourceClaim) -> ClaimKey {
    let text = |text: &Option<Box<str>>| text.clone().unwrap_or_default();
    (text(&claim.metadata.namespace), text(&claim.metadata.name))
}

/// The cards that a task's claims select, whichever of them it is charged for.
pub(super) fn cards_claimed(task: &Task) -> impl Iterator<Item = CardId> + '_ {
    let claimed = task.claimed.iter();
    claimed.flat_map(|claimed| claimed.cards().chain(claimed.named.iter().copied()))
}

/// The claim that the scheduler made for what a pod requests by resources that classes provide.
pub(super) fn provided_claim(pod: &crds::pod::Pod<Box<str>>) -> Option<&str> {
    let status = pod.status.extended_resource_claim_status.as_ref()?;
    status.resource_claim_name.as_deref()
}
