//! What a pod's unallocated claims ask of the devices of one node, and whether a node has it.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use crds::dra::{Constraint, DeviceTaint, DeviceToleration, Request, ResourceClaim, SubRequest};

use super::bounds;
use super::charged::{Charged, keep_charged};
use super::inventory::Device;
use super::model::{Attribute, Model};
use super::placing::{Answer, Form, Question, Thing, Tie, Wanted};
use super::room::Room;
use super::selection::Expression;
use super::{ClaimKey, Devices, Named, forms_of};
use crate::names::ResourceId;
use crate::steps::Steps;

/// What a pod asks of devices.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct DeviceDemand {
    /// One entry for each claim that is not allocated.
    pub claims: Box<[ClaimDemand]>,
    /// The node with the devices that were allocated to the other claims.
    pub at: Option<Arc<str>>,
}

/// What one claim asks for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ClaimDemand {
    /// The claim, where several pods may name it: its devices are then asked for once for all of them.
    pub shared: Option<ClaimKey>,
    /// The resource and how many are requested of it, where this is no claim yet but a resource that a class provides.
    pub provided: Option<(ResourceId, i64)>,
    wanted: Arc<DevicesWanted>,
}

/// What is asked for, with its hash. A claim that many pods name has it once, and it is looked at once.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct DevicesWanted {
    requests: Box<[RequestDemand]>,
    ties: Box<[TieDemand]>,
    /// The models of devices on which one of the selectors fails.
    fails_on: Box<[Arc<Model>]>,
    hash: u64,
}

impl DevicesWanted {
    fn new(requests: Box<[RequestDemand]>, ties: Box<[TieDemand]>, fails_on: Box<[Arc<Model>]>) -> Self {
        let mut hasher = DefaultHasher::new();
        (&requests, &ties, &fails_on).hash(&mut hasher);
        let hash = hasher.finish();
        Self {
            requests,
            ties,
            fails_on,
            hash,
        }
    }
}

impl Hash for DevicesWanted {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

/// What else limits the devices that may meet a pod's claims.
#[derive(Debug, Default, Clone)]
pub struct Meant<'c> {
    /// If set, of the devices that are cards only these cards may be used. Other devices are not limited by it.
    pub cards: Option<&'c BTreeSet<&'c str>>,
    /// If set, only the alternatives that come to this charge may be used.
    pub charged: Option<Charged<'c>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct RequestDemand {
    forms: Box<[FormDemand]>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct FormDemand {
    /// The selectors of the form's class, and the form's own.
    selectors: Box<[Expression]>,
    /// How many devices; none for all that a node has.
    count: Option<usize>,
    tolerations: Box<[DeviceToleration]>,
    /// The ties of the claim that hold for this form, by their numbers.
    ties: Box<[u16]>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct TieDemand {
    attribute: Box<str>,
    differ: bool,
}

impl Devices {
    /// Returns what the claims that a pod names ask for in cards, as found when it was last read what they come to; none where they ask for
    /// no cards, or where that was not found.
    pub fn demand_of(&self, namespace: &str, named: &[Named]) -> Option<DeviceDemand> {
        if bounds::excess(self.not_allocated(namespace, named)).is_some() {
            return None;
        }
        let mut demand = DeviceDemand::default();
        let mut claims = Vec::new();
        for Named { claim, shared, .. } in named {
            let key: ClaimKey = (namespace.into(), claim.clone()?);
            let claim = self.claim(&key)?;
            if claim.status.allocation.is_some() {
                demand.at = demand.at.or_else(|| self.node_of(claim));
                continue;
            }
            let wanted = &self.known_to_ask(&key)?.wanted;
            claims.extend((!wanted.requests.is_empty()).then(|| ClaimDemand {
                shared: shared.then_some(key),
                provided: None,
                wanted: Arc::clone(wanted),
            }));
        }
        demand.claims = claims.into();
        (demand != DeviceDemand::default()).then_some(demand)
    }

    /// Returns what a pod asks for that requests `count` devices by a resource that a class provides.
    pub fn provided_demand(&self, resource: ResourceId, name: &str, count: i64) -> Option<ClaimDemand> {
        let (class, _) = self.classes.get(self.provider_of(name)?)?;
        let form = SubRequest {
            device_class_name: class.metadata.name.clone().unwrap_or_default(),
            count: Some(count),
            ..SubRequest::default()
        };
        // No step limit: administrators write classes.
        let steps = Steps::new(u64::MAX);
        let selectors = self.expressions(class, &[], &steps)?;
        let fails_on = self.fails_on([&form].into_iter(), &steps);
        let request = RequestDemand {
            forms: [form_demand(&form, selectors, Box::default())].into(),
        };
        Some(ClaimDemand {
            shared: None,
            provided: Some((resource, count)),
            wanted: Arc::new(DevicesWanted::new([request].into(), [].into(), fails_on)),
        })
    }

    /// Returns the node with the devices that were allocated to a claim.
    fn node_of(&self, claim: &ResourceClaim) -> Option<Arc<str>> {
        let allocation = claim.status.allocation.as_ref()?;
        let mut held = allocation.devices.results.iter().filter(|result| !result.admin_access);
        held.find_map(|result| self.inventory.node_of(&result.driver, &result.pool, &result.device))
    }

    /// Returns what a claim asks of the devices of one node, as far as it is for cards.
    pub(super) fn wanted_by(&self, claim: &ResourceClaim, steps: &Steps) -> DevicesWanted {
        let devices = &claim.spec.devices;
        let ties = devices.constraints.iter().filter_map(|constraint| {
            let (attribute, differ) = match (&constraint.match_attribute, &constraint.distinct_attribute) {
                (Some(attribute), _) => (attribute.clone(), false),
                (None, Some(attribute)) => (attribute.clone(), true),
                (None, None) => return None,
            };
            Some((constraint, TieDemand { attribute, differ }))
        });
        let ties: Vec<_> = ties.collect();
        let ties_of = |request: &Request, form: &SubRequest| {
            let named = ties.iter().map(|(constraint, _)| constraint.requests.len());
            steps.spend(ties.len() + named.sum::<usize>());
            let all = (0..).zip(&ties);
            let holding = all.filter(|(_, (constraint, _))| is_tied(constraint, request, form));
            holding.map(|(place, _)| place).collect()
        };
        let requests = devices.requests.iter().filter_map(|request| {
            let forms = request.exactly.iter().chain(&request.first_available);
            let forms = forms.filter(|form| !form.admin_access).filter_map(|form| {
                let (class, _) = self.classes.get(&form.device_class_name)?;
                let selectors = self.expressions(class, &form.selectors, steps)?;
                let is_for_cards = self.are_for_cards(&selectors, steps);
                is_for_cards.then(|| form_demand(form, selectors, ties_of(request, form)))
            });
            let forms: Box<[_]> = forms.collect();
            (!forms.is_empty()).then_some(RequestDemand { forms })
        });
        let requests = requests.collect();
        let fails_on = self.fails_on(forms_of(claim), steps);
        DevicesWanted::new(requests, ties.into_iter().map(|(_, tie)| tie).collect(), fails_on)
    }

    /// Returns the models of devices on which a selector of these forms fails.
    fn fails_on<'f>(&self, forms: impl Iterator<Item = &'f SubRequest>, steps: &Steps) -> Box<[Arc<Model>]> {
        let mut failing = BTreeSet::new();
        for form in forms {
            let class = self.classes.get(&form.device_class_name);
            let selectors = class.and_then(|(class, _)| self.expressions(class, &form.selectors, steps));
            if let Some(selectors) = selectors {
                failing.extend(self.selections.failing(&selectors, &self.inventory, steps));
            }
        }
        failing.into_iter().collect()
    }

    /// Whether these selectors leave any card. Selectors that can't be evaluated are reported where the claim is charged.
    fn are_for_cards(&self, selectors: &[Expression], steps: &Steps) -> bool {
        let selected = self.selections.select(selectors, &self.inventory, steps);
        selected.is_ok_and(|models| models.iter().any(|model| model.card.is_some()))
    }

    /// Whether a node's devices suffice for the claims of all these pods at once, if the claims in `freed` held nothing. Where finding out
    /// takes more than the steps, only the number of devices counts.
    pub fn suffice<'d>(
        &self,
        room: Option<&Room>,
        pods: impl Iterator<Item = (Vec<&'d ClaimDemand>, Meant<'d>)>,
        freed: &HashSet<ClaimKey>,
        steps: &Steps,
    ) -> bool {
        let empty = Room::default();
        let room = room.unwrap_or(&empty);
        let (counters, could_be) = room.without(freed);
        let things = room.lots.iter().map(|lot| Thing {
            takes: lot
                .would_take(|claim| freed.contains(claim))
                .unwrap_or_default()
                .to_vec(),
            is_shared: lot.device.is_shared,
        });
        let mut question = Question {
            devices: things.collect(),
            counters,
            ..Question::default()
        };
        let mut known = BTreeSet::new();
        let card_of = |lot: usize| Some(&*room.lots[lot].device.model.card.as_ref()?.name);
        for (claims, Meant { cards, charged }) in pods {
            let first = question.requests.len();
            for demand in claims {
                if demand.shared.as_ref().is_none_or(|key| known.insert(key)) {
                    let is_meant = |card| cards.is_none_or(|cards| cards.contains(card));
                    let may_be = |lot: usize| could_be[lot] && card_of(lot).is_none_or(is_meant);
                    self.ask(&mut question, room, may_be, demand, steps);
                }
            }
            if let Some(charged) = charged {
                keep_charged(&mut question.requests[first..], card_of, &charged);
            }
        }
        question.answer(steps) != Answer::NoRoom
    }

    fn ask(
        &self,
        question: &mut Question,
        room: &Room,
        could_be: impl Fn(usize) -> bool,
        demand: &ClaimDemand,
        steps: &Steps,
    ) {
        let first = question.ties.len();
        let demand = &*demand.wanted;
        steps.spend(demand.ties.len() * room.lots.len());
        for tie in &demand.ties {
            question.ties.push(tie.of(room));
        }
        for request in &demand.requests {
            let forms = request.forms.iter().filter_map(|form| {
                let is_selected = |device: &Device| {
                    form.selectors
                        .iter()
                        .all(|selector| self.satisfies(selector, device, steps))
                };
                let selected: Vec<_> = (0..room.lots.len())
                    .filter(|lot| is_selected(&room.lots[*lot].device))
                    .collect();
                let is_free = |lot: &usize| could_be(*lot) && form.tolerates(&room.lots[*lot].device.taints);
                let of: Vec<_> = selected.iter().copied().filter(is_free).collect();
                let count = match form.count {
                    Some(count) => count,
                    // All devices that there are, and no fewer.
                    None if of.len() == selected.len() && !of.is_empty() => of.len(),
                    None => return None,
                };
                let ties = form.ties.iter().map(|tie| first + usize::from(*tie)).collect();
                Some(Form { of, count, ties })
            });
            question.requests.push(Wanted { forms: forms.collect() });
        }
    }

    /// Whether a device satisfies a selector. A device that can't be judged any more counts as satisfying it.
    fn satisfies(&self, selector: &Expression, device: &Device, steps: &Steps) -> bool {
        self.selections.satisfies(selector, device, steps).unwrap_or(true)
    }
}

impl ClaimDemand {
    /// Whether one of the claim's selectors fails on any existing device.
    pub fn may_fail(&self) -> bool {
        !self.wanted.fails_on.is_empty()
    }

    /// Whether one of the claim's selectors fails on any device of a node.
    pub fn fails_in(&self, room: &Room) -> bool {
        let fails = |device: &Device| self.wanted.fails_on.contains(&device.model);
        self.may_fail() && room.lots.iter().any(|lot| fails(&lot.device))
    }
}

fn form_demand(form: &SubRequest, selectors: Box<[Expression]>, ties: Box<[u16]>) -> FormDemand {
    FormDemand {
        ties,
        selectors,
        count: form.count().map(|count| usize::try_from(count).unwrap_or(usize::MAX)),
        tolerations: form.tolerations.clone().into(),
    }
}

impl FormDemand {
    fn tolerates(&self, taints: &[DeviceTaint]) -> bool {
        taints
            .iter()
            .all(|taint| self.tolerations.iter().any(|toleration| toleration.tolerates(taint)))
    }
}

/// Whether a constraint holds for a form of a request: the constraint names no request, or names this request or this form of it.
fn is_tied(constraint: &Constraint, request: &Request, form: &SubRequest) -> bool {
    let names = |named: &str| match named.split_once('/') {
        Some((of, part)) => *of == *request.name && *part == *form.name,
        None => *named == *request.name,
    };
    constraint.requests.is_empty() || constraint.requests.iter().any(|named| names(named))
}

impl TieDemand {
    fn of(&self, room: &Room) -> Tie {
        let value_of = |lot: usize| room.lots[lot].device.attribute(&self.attribute);
        let lots = 0..room.lots.len();
        // What lists have in common is left to the scheduler.
        if lots
            .clone()
            .any(|lot| matches!(value_of(lot), Some(Attribute::List(_))))
        {
            return Tie {
                values: vec![Some(0); room.lots.len()],
                differ: false,
            };
        }
        let mut known = HashMap::new();
        let values = lots.map(|lot| {
            let number = known.len();
            Some(*known.entry(value_of(lot)?).or_insert(number))
        });
        Tie {
            values: values.collect(),
            differ: self.differ,
        }
    }
}
