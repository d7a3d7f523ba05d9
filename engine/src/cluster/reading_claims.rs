//! Reads what the claims of a pod come to: with the pod, and again when the claims, or the devices that exist, have
//! changed (docs/rules.md, **Cards by Dynamic Resource Allocation**).

use std::sync::Arc;

use crds::keys::RESOURCE_OF_CLASS;
use crds::managed::{asks_for_devices_of_classes, requests_any};
use crds::pod::ExtendedResourceClaimStatus;
use crds::pod_bounds::{container_terms, node_terms};
use jiff::Timestamp;

use super::Cluster;
use super::claimed_cards::OfClasses;
use super::claiming::{claims_excess, named_by, provided_claim};
use super::gates::Gates;
use super::pod::{Pod, Stage};
use super::reading::Reading;
use crate::alternative::Assigned;
use crate::amounts::{Amounts, Dimension};
use crate::devices::{Asked, Named, Obstacle};
use crate::ids::{PodId, WorkloadId};
use crate::names::CardId;
use crate::reason::Reason;
use crate::steps::Steps;
use crate::task::{Claimed, Task};

/// The claim that the scheduler made for what a pod requests by resources that classes provide.
#[derive(Debug, Default)]
struct MadeClaim {
    /// Whether the pod was given the claim's devices.
    is_allocated: bool,
    /// What the pod says of the claim.
    status: Option<ExtendedResourceClaimStatus<Box<str>>>,
}

/// The number of steps that it costs to read a pod anew, whatever it says and its claims come to. So where somebody makes and
/// deletes a claim in turn, some of the pods that share it are read in each round.
const READ_POD: usize = 128;

/// The number of steps that each container, request, label, term and the like of the pod costs besides.
const READ_PART: usize = 16;

/// The UID that stands for pods that do not exist.
pub(super) const NOBODY: &str = "";

impl Cluster {
    /// Divides the pods of workloads by their minima, and reads pods anew whose claims have changed. Each pod is read once,
    /// however often its claims changed: otherwise making and deleting a claim that a thousand pods share would have each
    /// of them read each time. The same holds for workloads that are written again and again. Of the pods that
    /// nobody has let in, only as many are read as the turn of their namespace allows. The others are read in the next
    /// rounds, and none is let in before.
    pub fn read_again(&mut self, now: Timestamp) {
        self.balance_workloads();
        while let Some(uid) = self.claimed.unread.pop_first() {
            let Some(pod) = self.pod_with_uid(&uid).and_then(|id| self.pod(id)) else {
                continue;
            };
            let namespace = Arc::clone(&pod.namespace);
            // Nothing comes of what the claims of such pods say before it is their turn.
            let may_wait = matches!(pod.stage, Stage::Blocked | Stage::Waiting);
            if may_wait && self.claimed.turns.is_over(&namespace) {
                self.claimed.turns.put_off(&namespace, uid);
            } else {
                let cost = self.cost_of_reading(&uid);
                self.claimed.turns.pay_for_pod(&namespace, cost);
                self.read_one_again(&uid, now);
            }
        }
    }

    /// Notes that a pod is judged again that was not while it was to be read. Nobody was evicted for it meanwhile, and a look
    /// for that may be due.
    pub(super) fn end_pause(&mut self, uid: &str) {
        let pod = self.pod_with_uid(uid).and_then(|id| self.pod(id));
        if pod.is_some_and(may_be_let_in) {
            self.stirred += 1;
        }
    }

    /// Whether a pod that waits for its turn is still to be read anew: what it claims may be something else by now. A pod that its
    /// claims keep out is not let in anyway.
    pub(crate) fn is_to_be_read(&self, id: PodId) -> bool {
        let is_later = |pod: &Pod| self.claimed.turns.is_later(&pod.namespace, &pod.uid);
        self.pod(id).is_some_and(|pod| is_later(pod) && may_be_let_in(pod))
    }

    /// Whether any pod that waits with a group is still to be read anew.
    pub(crate) fn has_pods_to_be_read(&self, group: WorkloadId) -> bool {
        let group = self.workload(group);
        let mut line = group.line.iter();
        self.claimed.turns.are_any_later(&group.namespace) && line.any(|(_, place)| self.is_to_be_read(place.pod))
    }

    /// Returns how many steps it costs to read a pod that claims devices anew.
    fn cost_of_reading(&self, uid: &str) -> usize {
        self.claimed.pods.get(uid).map_or(0, |claiming| {
            let (metadata, spec) = (&claiming.pod.metadata, &claiming.pod.spec);
            let texts = metadata.labels.len() + metadata.annotations.len() + spec.resource_claims.len();
            READ_POD + READ_PART * (texts + container_terms(spec) + node_terms(spec))
        })
    }

    /// Reads a pod that claims devices anew, as it was seen last.
    pub(super) fn read_one_again(&mut self, uid: &str, now: Timestamp) {
        if let Some(claiming) = self.claimed.pods.get(uid) {
            self.apply_pod_again((*claiming.pod).clone(), now);
        }
    }

    /// Begins another round: goes on reading claims with selectors that are left to be evaluated.
    pub(super) fn read_on(&mut self, now: Timestamp) {
        for namespace in self.claimed.turns.begin() {
            while let Some(uid) = self.claimed.turns.next_of(&namespace) {
                let cost = self.cost_of_reading(&uid);
                self.claimed.turns.pay_for_pod(&namespace, cost);
                self.end_pause(&uid);
                self.read_one_again(&uid, now);
            }
        }
    }

    /// Whether a pod claims devices, by name or by a resource that a class provides, or provided when the pod was placed.
    pub(super) fn may_claim(&self, pod: &crds::pod::Pod<Box<str>>) -> bool {
        let claimed = &self.claimed;
        let is_of_class = |resource: &str| claimed.may_provide(resource) || claimed.of_classes.contains(resource);
        let are_any = !claimed.provided.is_empty() || !claimed.of_classes.is_empty();
        let may_request = || are_any && requests_any(pod, is_of_class);
        // A pod that has claimed devices is read again as it was seen last, even if no class provides them at the moment.
        let is_noted = || {
            let uid = pod.metadata.uid.as_deref();
            uid.is_some_and(|uid| self.claimed.pods.contains_key(uid))
        };
        asks_for_devices_of_classes(pod) || provided_claim(pod).is_some() || may_request() || is_noted()
    }

    /// Adds what the pod's claims come to to what was read of the pod; `as_seen` is the pod, where it may claim anything.
    /// Returns the claims that it names.
    pub(super) fn read_claims(
        &mut self,
        reading: &mut Reading,
        as_seen: Option<crds::pod::Pod<Box<str>>>,
        namespace: &str,
        uid: &str,
    ) -> Vec<Named> {
        let Some(pod) = as_seen else {
            return Vec::new();
        };
        if let Some(excess) = claims_excess(&pod.spec) {
            self.put_excess(reading, excess);
            return Vec::new();
        }
        let made = MadeClaim {
            is_allocated: self.has_provided_devices(&pod, namespace),
            status: pod.status.extended_resource_claim_status.clone(),
        };
        let named = self.note_claiming(pod, namespace);
        let steps = self.claimed.turns.take(namespace);
        let is_left = self.put_claims(reading, &named, &made, (namespace, uid), &steps);
        self.claimed.turns.give_back(namespace, steps, is_left.then_some(uid));
        named
    }

    /// Notes, in what was read of a pod, that the pod has more claims than are looked at.
    pub(super) fn put_excess(&mut self, reading: &mut Reading, excess: Box<str>) {
        let others = Amounts::clone(&reading.task.request);
        self.put_asked(reading, others, Amounts::default(), Asked::unclear(excess.into()));
    }

    /// Adds what the claims of a pod that need not exist would come to. This takes at most `steps` and counts toward no
    /// namespace's turn. No pod comes to pay for the claims by it.
    pub(super) fn imagine_claims(
        &mut self,
        reading: &mut Reading,
        pod: &crds::pod::Pod<Box<str>>,
        namespace: &str,
        steps: &Steps,
    ) -> Vec<Named> {
        if !self.may_claim(pod) {
            return Vec::new();
        }
        let named = named_by(pod);
        self.put_claims(reading, &named, &MadeClaim::default(), (namespace, NOBODY), steps);
        named
    }

    /// Adds what the claims of a pod with this namespace and unique id come to. Returns whether some of them are left to
    /// be evaluated.
    fn put_claims(
        &mut self,
        reading: &mut Reading,
        named: &[Named],
        made: &MadeClaim,
        (namespace, uid): (&str, &str),
        steps: &Steps,
    ) -> bool {
        let assigned = reading.assigned.as_ref().and_then(|assigned| match assigned {
            Assigned::Card(card) => Some(self.names.card_name(*card)),
            Assigned::Counted(_) => None,
        });
        let given = made
            .status
            .as_ref()
            .map(|status| self.claimed.devices.given(namespace, status, assigned));
        let asked = self.claimed.devices.asked_by(namespace, uid, named, assigned, steps);
        let is_left = asked.obstacle == Some(Obstacle::Unevaluated);
        let demand = self.devices_asked(&reading.task.request, namespace, named, made.is_allocated);
        let of_classes =
            self.requested_of_classes(&reading.task.request, asked.is_for_cards(), &given.unwrap_or_default());
        // A pod that the webhook holds only for its classes is looked at here, whatever it turns out to be.
        let names_class = |(dimension, _): (Dimension, i64)| dimension.name(&self.names).starts_with(RESOURCE_OF_CLASS);
        let requests_devices = of_classes.is_any();
        if !named.is_empty() || requests_devices || reading.task.request.iter().any(names_class) {
            let OfClasses {
                others,
                by_class,
                requested,
                given,
                given_for,
                unclear,
            } = of_classes;
            self.put_asked(reading, others, by_class, asked.and_provided(requested, given, unclear));
            if let Some(claimed) = &mut reading.task.claimed {
                Arc::make_mut(claimed).given = given_for;
            }
        }
        if let Some(claimed) = &mut reading.task.claimed {
            Arc::make_mut(claimed).asks_for_devices =
                requests_devices || self.claimed.devices.ask_for_any(namespace, named);
        }
        if let Some(demand) = demand {
            let named = reading.task.cards().collect();
            let claimed = reading.task.claimed.get_or_insert_with(|| {
                // None of the pod's claims is for cards: all that it requests, it requests as resources.
                Arc::new(Claimed {
                    named,
                    others: Arc::clone(&reading.task.request),
                    uncharged: Arc::clone(&reading.task.request),
                    ..Claimed::default()
                })
            });
            Arc::make_mut(claimed).demand = Some(Arc::new(demand));
        }
        is_left
    }

    /// Lets a pod that was let in hold what it was seen to hold, while what it claims can't be said: its claim, its class
    /// or the slices of its node may be away for a while, but what the pod runs on is not. Returns whether it can be said.
    pub(super) fn keep_claimed(&self, reading: &mut Reading, known: Option<PodId>) -> bool {
        let task = &mut reading.task;
        let old = known.and_then(|id| self.pod(id)).filter(|old| old.is_in());
        // A class whose cards are all away may have other devices: the pod has not got these for it.
        let had_cards = || old.is_some_and(|old| old.task.claims_cards());
        let is_given = task.claimed.as_ref().is_some_and(|claimed| claimed.given.is_some());
        let requests_by_class = task.by_class().next().is_some();
        let has_lost_cards = requests_by_class && !is_given && !task.claims_cards() && had_cards();
        let claims_are_known = !claims_are_unknown(task) && !has_lost_cards;
        let is_lost = |claimed: &Arc<Claimed>| !claimed.is_for_cards();
        if reading.gates != Gates::None || claims_are_known || !task.claimed.as_ref().is_none_or(is_lost) {
            return claims_are_known;
        }
        let Some(old) = old else { return claims_are_known };
        if old.task.claimed.as_ref().is_some_and(|claimed| !is_lost(claimed)) {
            task.request = Arc::clone(&old.task.request);
            task.claimed.clone_from(&old.task.claimed);
            task.unreadable.clone_from(&old.task.unreadable);
        }
        claims_are_known
    }
}

/// Whether a pod waits, and its claims don't keep it out.
fn may_be_let_in(pod: &Pod) -> bool {
    let mut claimed = pod.task.claimed.iter();
    pod.stage == Stage::Waiting && claimed.all(|claimed| claimed.refusal.is_none())
}

/// Whether it is not known at the moment what a task claims.
fn claims_are_unknown(task: &Task) -> bool {
    // Where no class provides any more what the task requests, it claims nothing at all.
    task.unreadable.is_some()
        || task.claimed.as_ref().is_none_or(|claimed| {
            matches!(
                claimed.refusal,
                Some(Reason::ResourceClaimNotFound | Reason::NoDeviceSelected | Reason::SelectorsNotEvaluated)
            )
        })
}

/// Returns the cards that a task's claims select, whichever of them it is charged for.
pub(super) fn cards_claimed(task: &Task) -> impl Iterator<Item = CardId> + '_ {
    let claimed = task.claimed.iter();
    claimed.flat_map(|claimed| claimed.cards().chain(claimed.named.iter().copied()))
}
