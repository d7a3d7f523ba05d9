//! Whether the devices of a node suffice for what a pod claims, beside what other pods were let in for there without
//! having been given their devices yet (docs/rules.md, **Cards by Dynamic Resource Allocation**).

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use super::Cluster;
use super::aside::{Awaited, SetAside};
use super::claiming::{Claiming, provided_claim};
use super::node::{Node, Supply};
use super::pod::Pod;
use crate::alternative::{Alternative, CardSet};
use crate::amounts::{Amounts, Dimension};
use crate::devices::{ClaimDemand, ClaimKey, DeviceDemand, Meant, Named, Room};
use crate::ids::PodId;
use crate::names::{CardId, ResourceId};
use crate::steps::Steps;
use crate::task::Task;

/// How many steps the search of a node may take for the devices that are set aside for a pod, without any other pods.
const STEPS_TO_KNOW: u64 = 20_000;

/// The most pods that a claim can be reserved for, as Kubernetes limits it. Where more pods name a claim, Cardgate does
/// not wait for all of them to go, since it would have to ask about each of them.
const MOST_CONSUMERS: usize = 256;

/// The devices that are set aside at the moment.
#[derive(Debug, Default)]
pub(super) struct DevicesAside {
    /// The pods that devices are set aside for, by the node that they are expected on.
    pods: HashMap<Arc<str>, Vec<PodId>>,
    /// The pods that are on their way out for these, and have claims.
    leaving: Arc<HashSet<PodId>>,
}

impl DevicesAside {
    fn pods_on(&self, node: &str) -> impl Iterator<Item = PodId> + '_ {
        self.pods.get(node).into_iter().flatten().copied()
    }
}

impl Cluster {
    /// Whether a pod has what it requests by resources that classes provide. The scheduler allocates it before it binds
    /// the pod.
    pub(super) fn has_provided_devices(&self, pod: &crds::pod::Pod<Box<str>>, namespace: &str) -> bool {
        let is_bound = pod.spec.node_name.as_deref().is_some_and(|node| !node.is_empty());
        let is_given = |claim: &str| self.claimed.devices.is_allocated(&(namespace.into(), claim.into()));
        provided_claim(pod).map_or(is_bound, is_given)
    }

    /// Returns what a pod asks of devices that were not allocated to it yet, once what its claims come to was read.
    pub(super) fn devices_asked(
        &self,
        request: &Amounts,
        namespace: &str,
        named: &[Named],
        has_provided: bool,
    ) -> Option<DeviceDemand> {
        let devices = &self.claimed.devices;
        let of_claims = if named.is_empty() {
            None
        } else {
            devices.demand_of(namespace, named)
        };
        if has_provided || self.claimed.provided().next().is_none() {
            return of_claims;
        }
        let provided = request.iter().filter_map(|(dimension, count)| {
            let resource = dimension.resource()?;
            let name = self.names.resource_name(resource);
            let is_provided = count > 0 && self.claimed.provides_cards(name);
            is_provided.then(|| devices.provided_demand(resource, name, count))?
        });
        let provided: Vec<_> = provided.collect();
        if provided.is_empty() {
            return of_claims;
        }
        let mut demand = of_claims.unwrap_or_default();
        demand.claims = demand.claims.into_iter().chain(provided).collect();
        Some(demand)
    }

    /// Returns the claims that come free when these pods go.
    pub(super) fn claims_held_by(&self, pods: &[PodId]) -> HashSet<ClaimKey> {
        let uids: HashSet<_> = pods.iter().filter_map(|id| Some(&self.pod(*id)?.uid)).collect();
        let claiming = uids.iter().filter_map(|uid| self.claimed.pods.get(*uid));
        let keys = claiming.flat_map(Claiming::keys);
        let users = |key: &ClaimKey| self.claimed.users.get(key).into_iter().flatten();
        keys.filter(|key| users(key).all(|uid| uids.contains(uid))).collect()
    }

    /// Notes that a pod comes to be expected on its node, or no longer is.
    pub(super) fn expect_devices(&mut self, id: PodId, pod: &Pod, is_expected: bool) {
        let has_claims = demand(&pod.task).is_some_and(|demand| !demand.claims.is_empty());
        let Some(node) = pod.room.filter(|_| has_claims) else {
            return;
        };
        let name = &self.nodes[node].name;
        if is_expected {
            self.claimed.expected.entry(name.clone()).or_default().insert(id);
        } else if let Some(pods) = self.claimed.expected.get_mut(name) {
            pods.remove(&id);
            if pods.is_empty() {
                self.claimed.expected.remove(name);
            }
        }
    }

    /// Returns the pods that are expected on a node and have not been given their devices yet.
    pub(crate) fn expecting_devices(&self, node: &Node) -> impl Iterator<Item = PodId> + '_ {
        self.claimed.expected.get(&node.name).into_iter().flatten().copied()
    }

    /// Whether a node's free devices suffice for what a task claims, with the cards of one of its alternatives, if the
    /// pods in `without` held none.
    pub(crate) fn devices_suffice(
        &self,
        task: &Task,
        alternative: Option<&Alternative>,
        node: &Node,
        without: &[PodId],
        steps: &Steps,
    ) -> bool {
        let Some(asked) = demand(task).filter(|asked| !asked.claims.is_empty()) else {
            return true;
        };
        let others = self.expecting_devices(node).filter(|id| !without.contains(id));
        let mut others: Vec<_> = others
            .filter_map(|id| self.pod(id).filter(|pod| demand(&pod.task).is_some()))
            .collect();
        let cards = self.cards_of_claims(alternative);
        let mut freed = self.claims_held_by(without);
        if self.claimed.away.is_some() {
            freed.extend(self.claims_about_to_end(node, |id| without.contains(&id)));
        }
        let asked = by_these(asked, cards.as_ref());
        let suffice =
            |freed: &HashSet<ClaimKey>, others: Vec<&Pod>| self.suffice_beside(node, others, &asked, freed, steps);
        if !suffice(&freed, others.clone()) {
            return false;
        }
        // They must also suffice so that the pods for which others are evicted get their devices once these others are
        // gone.
        let aside = self.claimed.aside.pods_on(&node.name);
        let aside: Vec<_> = aside.filter(|id| !without.contains(id)).collect();
        if aside.is_empty() {
            return true;
        }
        let aside: Vec<_> = aside.into_iter().filter_map(|id| self.pod(id)).collect();
        others.extend(&aside);
        freed.extend(self.claims_about_to_end(node, |id| self.claimed.aside.leaving.contains(&id)));
        if !suffice(&freed, others) {
            return false;
        }
        if !steps.are_spent() {
            return true;
        }
        // The other pods expected there took all steps. Now it is checked beside only those pods for whom something is set
        // aside.
        let own = Steps::new(STEPS_TO_KNOW);
        let suffice_beside_aside = self.suffice_beside(node, aside, &asked, &freed, &own);
        steps.spend(STEPS_TO_KNOW - own.left());
        suffice_beside_aside && !own.are_spent()
    }

    /// Whether the devices of a node suffice for what is asked for, beside other pods.
    fn suffice_beside<'d>(
        &'d self,
        node: &Node,
        mut others: Vec<&'d Pod>,
        asked: &(Vec<&'d ClaimDemand>, Meant<'d>),
        freed: &HashSet<ClaimKey>,
        steps: &Steps,
    ) -> bool {
        let of_all = |others: &[&'d Pod]| {
            let others = others.iter().map(|pod| self.expected(pod));
            self.suffice(node, others.chain([asked.clone()]), freed, steps)
        };
        if of_all(&others) {
            return true;
        }
        // A pod that can't be given its devices there, even alone, goes elsewhere or nowhere: its claims may have been
        // made anew.
        let before = others.len();
        others.retain(|pod| self.suffice(node, [self.expected(pod)].into_iter(), freed, steps));
        others.len() < before && of_all(&others) && !steps.are_spent()
    }

    /// Counts what is set aside of nodes for these pods as taken of the nodes' devices too, once the pods in `leaving`
    /// have given theirs back.
    pub(super) fn hold_devices<'a>(&mut self, asides: impl Iterator<Item = &'a SetAside>, leaving: &Awaited) {
        let mut held = DevicesAside {
            leaving: Arc::clone(&leaving.claiming),
            ..DevicesAside::default()
        };
        for aside in asides.filter(|aside| demand(&aside.shape.task).is_some()) {
            let room = aside.room.as_ref().filter(|room| room.keeps_devices);
            if let (Some(room), Some(id)) = (room, self.pod_with_uid(aside.uid())) {
                held.pods.entry(Arc::clone(&room.node)).or_default().push(id);
            }
        }
        self.claimed.aside = held;
    }

    /// Ends all setting aside of devices.
    pub(super) fn release_devices(&mut self) {
        self.claimed.aside = DevicesAside::default();
    }

    /// Counts pods that are taken out as having given their devices back, from here until [`Self::end_looking_ahead`].
    pub(crate) fn look_ahead(&mut self) {
        self.claimed.away = Some(BTreeSet::new());
    }

    /// Counts all that is allocated to claims as taken again, whoever names the claims.
    pub(crate) fn end_looking_ahead(&mut self) {
        self.claimed.away = None;
    }

    /// Notes that a pod is counted as gone, or as there again.
    pub(super) fn note_away(&mut self, id: PodId, is_away: bool) {
        let claims = self.pod(id).is_some_and(|pod| pod.task.claimed.is_some());
        if let Some(away) = self.claimed.away.as_mut().filter(|_| claims) {
            if is_away {
                away.insert(id);
            } else {
                away.remove(&id);
            }
        }
    }

    /// Returns the claims with devices of a node that are about to end: only pods that are counted as gone name them, or
    /// nobody names them any more. Kubernetes' controller ends such claims after their pod. Claims that nobody ends are
    /// not among them (docs/security.md, **What is not protected**).
    fn claims_about_to_end(&self, node: &Node, is_gone: impl Fn(PodId) -> bool) -> Vec<ClaimKey> {
        let is_away = |uid: &Arc<str>| {
            let id = self.pod_with_uid(uid);
            let away = self.claimed.away.as_ref();
            id.is_none_or(|id| is_gone(id) || away.is_some_and(|away| away.contains(&id)))
        };
        let room = self.claimed.devices.room_of(&node.name);
        let holders = room.into_iter().flat_map(Room::holders);
        let ends = holders.filter(|key| match self.claimed.users.get(*key) {
            Some(users) => users.len() <= MOST_CONSUMERS && users.iter().all(is_away),
            None => self.claimed.devices.ends_with_users(key),
        });
        ends.cloned().collect()
    }

    /// Returns the cards that are to meet the claims.
    fn cards_of_claims(&self, alternative: Option<&Alternative>) -> Option<BTreeSet<&str>> {
        let set = alternative?.set()?;
        Some(set.claimed().map(|(card, _)| self.names.card_name(card)).collect())
    }

    /// Whether a node's devices would suffice for what a task claims, if nobody held any.
    pub(crate) fn devices_could_suffice(
        &self,
        task: &Task,
        alternative: Option<&Alternative>,
        node: &Node,
        steps: &Steps,
    ) -> bool {
        let Some(asked) = demand(task).filter(|asked| !asked.claims.is_empty()) else {
            return true;
        };
        let room = self.claimed.devices.room_of(&node.name);
        let freed = room.into_iter().flat_map(Room::holders).cloned().collect();
        let cards = self.cards_of_claims(alternative);
        self.suffice(node, [by_these(asked, cards.as_ref())].into_iter(), &freed, steps)
    }

    /// Whether few steps suffice to find that out. These steps are available even where none are left, and count as spent.
    pub(super) fn is_device_room_known(
        &self,
        task: &Task,
        alternative: Option<&Alternative>,
        node: &Node,
        steps: &Steps,
    ) -> bool {
        let own = Steps::new(STEPS_TO_KNOW);
        self.devices_could_suffice(task, alternative, node, &own);
        steps.spend(STEPS_TO_KNOW - own.left());
        !own.are_spent()
    }

    /// Whether a selector of what a task claims fails on any device of a node. The scheduler gives up on such a pod, for
    /// all nodes, when it comes to that device. Whether it first finds another device can't be known.
    pub(crate) fn selectors_fail(&self, task: &Task, node: &Node) -> bool {
        let claims = demand(task).into_iter().flat_map(|demand| &demand.claims);
        let Some(room) = self.claimed.devices.room_of(&node.name) else {
            return false;
        };
        let mut claims = claims.filter(|demand| !is_by_plugin(demand, node));
        claims.any(|demand| demand.fails_in(room))
    }

    /// Returns what a pod that was let in asks for. Whichever cards it comes to, it takes as many as it is charged for.
    fn expected<'d>(&'d self, pod: &'d Pod) -> (Vec<&'d ClaimDemand>, Meant<'d>) {
        let claims = demand(&pod.task).into_iter().flat_map(|demand| &demand.claims);
        let set = pod.assigned.as_ref().and_then(Alternative::set);
        let counts = |set: &'d CardSet| set.claimed().map(|(card, count)| (self.names.card_name(card), count));
        let meant = Meant {
            cards: None,
            charged: set.map(|set| counts(set).collect()),
        };
        (claims.collect(), meant)
    }

    fn suffice<'d>(
        &self,
        node: &Node,
        pods: impl Iterator<Item = (Vec<&'d ClaimDemand>, Meant<'d>)>,
        freed: &HashSet<ClaimKey>,
        steps: &Steps,
    ) -> bool {
        let pods = pods.map(|(mut claims, meant)| {
            claims.retain(|demand| !is_by_plugin(demand, node));
            (claims, meant)
        });
        let devices = &self.claimed.devices;
        devices.suffice(devices.room_of(&node.name), pods, freed, steps)
    }
}

/// Whether a node's device plugin hands out what is asked for. The scheduler then takes it from there.
fn is_by_plugin(demand: &ClaimDemand, node: &Node) -> bool {
    let resource = demand.provided.map(|(resource, _)| Dimension::Resource(resource));
    resource.is_some_and(|resource| node.offer().is_some_and(|offer| offer.by_plugin(resource) > 0))
}

/// Returns what is asked for, limited to these cards where any are meant.
fn by_these<'d>(demand: &'d DeviceDemand, cards: Option<&'d BTreeSet<&'d str>>) -> (Vec<&'d ClaimDemand>, Meant<'d>) {
    let meant = Meant { cards, charged: None };
    (demand.claims.iter().collect(), meant)
}

/// Returns what a task asks of devices, where it asks for any.
fn demand(task: &Task) -> Option<&DeviceDemand> {
    task.claimed.as_ref()?.demand.as_deref()
}

/// Whether a selector of what a task claims may fail on any device that exists.
pub(crate) fn may_fail(task: &Task) -> bool {
    demand(task).is_some_and(|demand| demand.claims.iter().any(ClaimDemand::may_fail))
}

/// Returns the resources, of those that classes provide, by which a task requests devices that it has not been given yet, and how many.
pub(crate) fn provided_to(task: &Task) -> impl Iterator<Item = (ResourceId, i64)> + '_ {
    let claims = demand(task).into_iter().flat_map(|demand| &demand.claims);
    claims.filter_map(|claim| claim.provided)
}

/// Returns the node on which a task's devices were allocated.
pub(super) fn allocated_at(task: &Task) -> Option<&str> {
    demand(task)?.at.as_deref()
}

/// Whether a task's devices were allocated on another node than this.
pub(crate) fn has_devices_elsewhere(task: &Task, node: &Node) -> bool {
    allocated_at(task).is_some_and(|at| *at != *node.name)
}

/// Returns how many of a card, or of the cards of a resource, a node hands out only as devices. This includes devices that
/// are kept from new pods and devices that earlier pods hold. Whether the remaining devices suffice for a task is decided
/// device by device.
pub(crate) fn devices_there(task: &Task, node: &Node, dimension: Dimension) -> i64 {
    if demand(task).is_none() {
        return 0;
    }
    let cards = node.offer().into_iter().flat_map(|offer| &offer.cards);
    let of_it = cards.filter(|known| match dimension {
        Dimension::Card(card) => known.card == card,
        Dimension::Resource(resource) => known.resource == resource,
    });
    of_it
        .map(|card| (card.supply == Supply::Devices).then(|| card.all_devices()))
        .sum::<Option<i64>>()
        .unwrap_or(0)
}

/// Whether a node's devices decide whether there is room for what a task claims of a dimension: the node has some of it as devices alone,
/// and none in both ways that the task may claim.
pub(super) fn is_judged_by_devices(
    task: &Task,
    alternative: Option<&Alternative>,
    node: &Node,
    dimension: Dimension,
) -> bool {
    if demand(task).is_none() {
        return false;
    }
    let cards = node.offer().into_iter().flat_map(|offer| &offer.cards);
    let resource = match dimension {
        Dimension::Resource(resource) => resource,
        // The devices do not tell for which of several alternatives they would do. Then the number of cards decides.
        Dimension::Card(card) => {
            let mut of_card = cards.filter(|known| known.card == card);
            return task.alternatives.len() == 1 && of_card.all(|card| card.supply == Supply::Devices);
        }
    };
    let may_be_claimed = |card: CardId| match alternative {
        None => true,
        Some(Alternative::Card(own)) => *own == card,
        Some(Alternative::Set(set)) => set.claimed().any(|(own, _)| own == card),
    };
    let of_resource = || cards.clone().filter(|card| card.resource == resource);
    of_resource().any(|card| card.supply == Supply::Devices)
        && !of_resource().any(|card| card.supply == Supply::Both && may_be_claimed(card.card))
}
