//! What a pod asks for by its claims: which cards, and how many of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crds::dra::{ClaimSpec, DeviceClass, Request, ResourceClaim, Selector, SubRequest};
use crds::pod::ExtendedResourceClaimStatus;

use super::asked::{Asked, CardCounts, Obstacle, RequestAsked, Sum};
use super::bounds;
use super::card::DeviceCard;
use super::lacking::{not_made, not_there};
use super::model::Model;
use super::selection::Unselected;
use super::{Cards, ClaimKey, Devices, Provided};
use crate::steps::Steps;

/// The most sets of cards for which it is remembered how many a node has.
const MOST_ALL: usize = 1024;

/// A claim that a pod names: the pod's own name for it, and the claim's name; none while the claim is not made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    /// The pod's name for the claim.
    pub name: Box<str>,
    /// The claim's name.
    pub claim: Option<Box<str>>,
    /// Whether other pods may name the claim too.
    pub shared: bool,
}

/// Why a request can't be said in cards.
pub(super) enum Problem {
    /// No existing device is what the request asks for. The text says why, in words for the user.
    NoDevice(String),
    Unclear(String),
    /// The steps were spent before the answer was known.
    Unevaluated,
}

impl Devices {
    /// Returns what the claims that a pod names come to, as far as these steps suffice. Claims that another pod pays for come to nothing.
    /// `assigned` is the card that the pod was let in for: an allocated device that no driver publishes at the moment counts as that card.
    pub fn asked_by(
        &mut self,
        namespace: &str,
        uid: &str,
        named: &[Named],
        assigned: Option<&str>,
        steps: &Steps,
    ) -> Asked {
        if let Some(why) = bounds::excess(self.not_allocated(namespace, named)) {
            return Asked::kept_by(Obstacle::Unclear(why));
        }
        let mut sum = Sum::default();
        let mut seen = BTreeSet::new();
        let mut choices = 0;
        for Named { name, claim, shared } in named {
            let Some(claim) = claim else {
                return Asked::kept_by(Obstacle::Missing(not_made(name)));
            };
            let key: ClaimKey = (namespace.into(), claim.clone());
            let Some(devices) = self.claim(&key).map(|claim| devices_of(claim)) else {
                let why = if *shared {
                    not_there(name, claim)
                } else {
                    not_made(name)
                };
                return Asked::kept_by(Obstacle::Missing(why));
            };
            // A pod may name one claim several times.
            if !seen.insert(&**claim) {
                continue;
            }
            let is_paid = *shared && self.payers.get(&key).is_some_and(|payer| **payer != *uid);
            if !is_paid {
                sum.devices = sum.devices.saturating_add(devices);
            }
            if let Some(allocated) = self.allocated(&key, assigned) {
                if is_paid {
                    sum.note_paid(claim, !allocated.is_empty());
                } else if !allocated.is_empty() {
                    sum.requests.push(RequestAsked::given(CardCounts::clone(&allocated)));
                }
                continue;
            }
            let Some(asked) = self.asked_for(&key, steps) else {
                return Asked::kept_by(Obstacle::Unevaluated);
            };
            if let Some(why) = &asked.unclear {
                return Asked::kept_by(Obstacle::Unclear(format!("claim {name} ({claim}), {why}")));
            }
            // Claims that another pod pays for count as well: that pod may go, and then this one pays.
            choices += bounds::choices_of(&asked.requests);
            if let Some(why) = bounds::too_many_choices(choices) {
                return Asked::kept_by(Obstacle::Unclear(format!("up to claim {name} ({claim}), {why}")));
            }
            if let Some(why) = &asked.unknown {
                sum.unknown.get_or_insert_with(|| format!("claim {name}, {why}"));
            }
            if is_paid {
                sum.note_paid(claim, !asked.requests.is_empty());
            } else {
                sum.asked_for.extend(asked.requests.iter().cloned());
            }
        }
        sum.asked()
    }

    /// Whether any claim that a pod names asks for a device, card or not; an existing claim may ask for none. Where the API server shows no
    /// claims, any claim may ask for one.
    pub fn ask_for_any(&self, namespace: &str, named: &[Named]) -> bool {
        if self.has_no_claims {
            return !named.is_empty();
        }
        let claims = named.iter().filter_map(|named| named.claim.clone());
        let mut known = claims.filter_map(|claim| self.claim(&(namespace.into(), claim)));
        known.any(|claim| !claim.spec.devices.requests.is_empty())
    }

    /// Returns the specs of the claims that a pod names and that no devices were allocated to.
    pub(super) fn not_allocated<'d>(
        &'d self,
        namespace: &'d str,
        named: &'d [Named],
    ) -> impl Iterator<Item = &'d ClaimSpec> + 'd {
        let keys = named
            .iter()
            .filter_map(move |named| Some((namespace.into(), named.claim.clone()?)));
        let claims = keys.filter_map(|key: ClaimKey| self.claim(&key));
        let open = claims.filter(|claim| claim.status.allocation.is_none());
        open.map(|claim| &claim.spec)
    }

    /// Returns the cards that were allocated for some of a claim's requests; none where nothing is allocated, or where a device is not known
    /// any more.
    pub(super) fn allocated_for(
        &self,
        claim: &ResourceClaim,
        is_meant: impl Fn(&str) -> bool,
        assigned: Option<&str>,
    ) -> Option<CardCounts> {
        let allocation = claim.status.allocation.as_ref()?;
        let mut cards = CardCounts::new();
        let held = allocation.devices.results.iter();
        for device in held.filter(|device| !device.admin_access && is_meant(&device.request)) {
            let card = match self.inventory.device(&device.driver, &device.pool, &device.device) {
                Some(model) => model.card.clone(),
                None => Some(DeviceCard::named(&device.driver, self.inventory.drivers(), assigned?)?.into()),
            };
            if let Some(card) = card {
                let parts = card.parts(&device.consumed_capacity);
                let sum = cards.entry(card).or_default();
                *sum = sum.saturating_add(parts);
            }
        }
        Some(cards)
    }

    /// Returns, by resource, the cards that were allocated to the claim which the scheduler made for the resources of classes that a pod
    /// requests. Resources of which some device is not known are left out.
    pub fn given(
        &self,
        namespace: &str,
        made: &ExtendedResourceClaimStatus<Box<str>>,
        assigned: Option<&str>,
    ) -> BTreeMap<Box<str>, CardCounts> {
        let name = made.resource_claim_name.clone().unwrap_or_default();
        let Some(claim) = self.claim(&(namespace.into(), name)) else {
            return BTreeMap::new();
        };
        let mut requests = BTreeMap::<&str, BTreeSet<&str>>::new();
        for mapping in &made.request_mappings {
            if let (Some(resource), Some(request)) = (&mapping.resource_name, &mapping.request_name) {
                requests.entry(resource).or_default().insert(request);
            }
        }
        let given = requests.into_iter().filter_map(|(resource, requests)| {
            let cards = self.allocated_for(claim, |request| requests.contains(request), assigned)?;
            Some((resource.into(), cards))
        });
        given.collect()
    }

    /// Returns what a request leaves; none where it is for other devices than cards, or only looks at devices (admin access). Alternatives
    /// for which no device exists are passed over, as the scheduler does; but not where only other devices are left and what comes for them
    /// may be cards, which the scheduler would then give in their place.
    pub(super) fn request(&mut self, request: &Request, steps: &Steps) -> Result<Option<RequestAsked>, Problem> {
        let forms = request.exactly.iter().chain(&request.first_available);
        let forms: Vec<_> = forms.filter(|form| !form.admin_access).collect();
        let (mut choices, mut are_others, mut is_there) = (Vec::new(), false, forms.is_empty());
        let mut mixes = false;
        let mut lacking = Vec::new();
        for form in &forms {
            match self.choices(form, steps) {
                Err(Problem::NoDevice(why)) => {
                    lacking.push((*form, why));
                    continue;
                }
                Err(unknown @ (Problem::Unclear(_) | Problem::Unevaluated)) => return Err(unknown),
                Ok(found) => {
                    are_others |= found.is_empty();
                    mixes |= found.len() > 1;
                    choices.extend(found);
                }
            }
            is_there = true;
        }
        if !is_there {
            let why = lacking.into_iter().next().map(|(_, why)| why).unwrap_or_default();
            return Err(Problem::NoDevice(match &*forms {
                [_] => why,
                _ => format!("there is a device for none of its alternatives; of the first, {why}"),
            }));
        }
        if are_others && !choices.is_empty() {
            return Err(Problem::Unclear("one of its alternatives is no card".to_owned()));
        }
        let mut more_may_come = forms.iter().any(|form| form.count().is_none());
        for (form, why) in lacking {
            if !self.may_be_cards(form, steps)? {
                continue;
            }
            if choices.is_empty() {
                let why = format!("one of its alternatives may be cards, and the others are none; of this one, {why}");
                return Err(Problem::NoDevice(why));
            }
            more_may_come = true;
        }
        Ok((!choices.is_empty()).then_some(RequestAsked {
            choices,
            ordered: request.first_available.len() > 1,
            mixes,
            more_may_come,
        }))
    }

    /// Returns the cards that a form's selectors leave; none where they leave only other devices. Devices that several nodes reach are left
    /// too, where nodes also have such devices of their own: the scheduler may give them (`cluster/choice.rs`).
    pub(super) fn form(&mut self, form: &SubRequest, steps: &Steps) -> Result<Cards, Problem> {
        let class = self.classes.get(&form.device_class_name);
        let Some(class) = class.map(|(class, _)| Arc::clone(class)) else {
            let name = &form.device_class_name;
            return Err(Problem::NoDevice(format!("DeviceClass {name} does not exist")));
        };
        let models = self.select(&class, &form.selectors, steps)?;
        if models.is_empty() {
            return Err(Problem::NoDevice(self.why_none(&class, form, steps)));
        }
        let of_cards = || models.iter().filter(|model| model.card.is_some());
        let reach = |model: &&Arc<Model>| self.inventory.reach_of(model);
        let is_of_nodes = of_cards().any(|model| reach(&model).0);
        let mut apart = of_cards().filter(|model| reach(model).1);
        // How many "all of them" are would depend on the node that is taken, and on which claim takes a device first.
        if let Some(model) = apart.next().filter(|_| !is_of_nodes || form.count().is_none()) {
            return Err(Problem::Unclear(format!(
                "it selects devices of {} that several nodes reach, and Cardgate counts those of one node: select such by other \
                 means, or have the driver publish them node by node",
                model.driver
            )));
        }
        Ok(of_cards().filter_map(|model| model.card.clone()).collect())
    }

    /// Whether devices that come later for a form, which nobody has now, may be cards: its class is not there, or has cards now, or no
    /// devices at all.
    fn may_be_cards(&self, form: &SubRequest, steps: &Steps) -> Result<bool, Problem> {
        let Some((class, _)) = self.classes.get(&form.device_class_name) else {
            return Ok(true);
        };
        let of_class = self.select(class, &[], steps)?;
        Ok(of_class.is_empty() || of_class.iter().any(|model| model.card.is_some()))
    }

    /// Returns what a form leaves, ordered by the cards' names; empty where it leaves only other devices.
    fn choices(&mut self, form: &SubRequest, steps: &Steps) -> Result<Vec<CardCounts>, Problem> {
        let cards = self.form(form, steps)?;
        let parts = cards.iter().map(|card| card.parts(&form.capacity.requests));
        let parts = parts.max().unwrap_or(1);
        match form.count() {
            _ if cards.is_empty() => Ok(Vec::new()),
            _ if parts > 1 => Err(Problem::Unclear(format!(
                "it asks for {parts} parts of one device, and Cardgate counts one for each request: ask for each part by a request of its own"
            ))),
            Some(count) => Ok(cards
                .into_iter()
                .map(|card| CardCounts::from([(card, count)]))
                .collect()),
            None => Some(self.all_of(cards, !form.tolerations.is_empty()))
                .filter(|all| !all.is_empty())
                .ok_or_else(|| {
                    let why = "no node has any of the devices that it selects, and it asks for all of a node (allocationMode: All)";
                    Problem::NoDevice(why.to_owned())
                }),
        }
    }

    pub(super) fn select(
        &self,
        class: &DeviceClass,
        own: &[Selector],
        steps: &Steps,
    ) -> Result<BTreeSet<Arc<Model>>, Problem> {
        let expressions = self.expressions(class, own, steps).ok_or(Problem::Unevaluated)?;
        let selected = self.selections.select(&expressions, &self.inventory, steps);
        selected.map_err(|why| match why {
            Unselected::Unreadable(expression, error) => {
                Problem::Unclear(format!("selector {expression:?}: {error}: select by other means"))
            }
            Unselected::Spent => Problem::Unevaluated,
        })
    }

    /// Returns the cards that a class provides as a resource that pods may request.
    pub(super) fn provided_by(&mut self, class: &DeviceClass) -> Provided {
        // No step limit: administrators write classes.
        let name = class.metadata.name.as_deref().unwrap_or_default();
        match self.select(class, &[], &Steps::new(u64::MAX)) {
            Ok(models) if models.is_empty() => {
                let why = "no node has a device that it selects";
                Err(Obstacle::NoDevice(format!("DeviceClass {name}: {why}")))
            }
            Ok(models) => Ok(models.iter().filter_map(|model| model.card.clone()).collect()),
            Err(Problem::NoDevice(why)) => Err(Obstacle::NoDevice(format!("DeviceClass {name}: {why}"))),
            Err(Problem::Unclear(why)) => Err(Obstacle::Unclear(format!("DeviceClass {name}: {why}"))),
            Err(Problem::Unevaluated) => Err(Obstacle::Unevaluated),
        }
    }

    /// Returns all of these cards that one node has. For nodes with the same set of these cards, that is the most of each card that any of
    /// them has. A claim that `tolerates` taints may get devices that are kept from others. Computed again when nodes have other cards.
    fn all_of(&mut self, cards: Cards, tolerates: bool) -> Vec<CardCounts> {
        let version = self.rooms.version();
        let key = (cards, tolerates);
        if let Some((_, all)) = self.all.get(&key).filter(|(of, _)| *of == version) {
            return all.clone();
        }
        let mut most = BTreeMap::<Vec<Arc<DeviceCard>>, CardCounts>::new();
        for shape in self.rooms.shapes() {
            let there = shape.iter().filter(|(card, ..)| key.0.contains(card));
            let there = there.map(|(card, total, there)| (card.clone(), if tolerates { *there } else { *total }));
            let there: CardCounts = there.filter(|(_, count)| *count > 0).collect();
            let of_same = most.entry(there.keys().cloned().collect()).or_default();
            for (card, count) in there {
                let most = of_same.entry(card).or_default();
                *most = count.max(*most);
            }
        }
        let all: Vec<_> = most.into_values().filter(|counts| !counts.is_empty()).collect();
        self.all.retain(|_, (of, _)| *of == version);
        // Tenants choose the keys, so the memory is bounded; a forgotten answer is found again.
        if self.all.len() >= MOST_ALL {
            self.all.clear();
        }
        self.all.insert(key, (version, all.clone()));
        all
    }
}

/// Returns how many devices were allocated to a claim, or else how many it asks for by number; of alternatives, the first counts.
fn devices_of(claim: &ResourceClaim) -> i64 {
    if let Some(allocation) = &claim.status.allocation {
        let results = allocation.devices.results.iter().filter(|device| !device.admin_access);
        return i64::try_from(results.count()).unwrap_or(i64::MAX);
    }
    let requests = claim.spec.devices.requests.iter();
    let forms = requests.filter_map(|request| request.exactly.as_ref().or(request.first_available.first()));
    let counts = forms.filter(|form| !form.admin_access).filter_map(SubRequest::count);
    counts.fold(0, i64::saturating_add)
}
