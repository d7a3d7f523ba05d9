//! What a pod asks for by its claims: which cards, and how many of them.

use std::collections::BTreeSet;
use std::sync::Arc;

use crds::dra::{DeviceClass, Request, ResourceClaim, Selector, SubRequest};

use super::card::DeviceCard;
use super::model::Model;
use super::selector::SelectorError;
use super::{ClaimKey, Devices};

/// What a pod's claims come to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Asked {
    /// The cards, each as one of these; none where the claims ask for none.
    pub cards: Option<CardsAsked>,
    /// Why it can't be said, or not yet.
    pub obstacle: Option<Obstacle>,
}

/// So many of one of these cards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CardsAsked {
    /// The cards, most preferred first where a claim orders them, else by name.
    pub cards: Vec<DeviceCard>,
    /// Whether a claim says which it prefers.
    pub ordered: bool,
    /// How many.
    pub count: i64,
    /// Whether these are what was allocated, and not only what is asked for.
    pub allocated: bool,
}

/// Why a pod's claims can't be charged as things are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Obstacle {
    /// A claim is not there yet: Kubernetes' controller makes it from its template, or somebody by hand.
    Missing,
    /// No device that is there is what a request asks for.
    NoDevice,
    /// Another pod of the same namespace pays for a claim that both name, and is not let in yet, or is in another queue.
    PaidByAnother,
    /// What it asks for can't be charged: in words for the user.
    Unclear(String),
}

/// What a pod names: its own name of it, and the claim's; none while that is not made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    /// As the pod calls it.
    pub name: Box<str>,
    /// The claim.
    pub claim: Option<Box<str>>,
    /// Whether other pods may name it too.
    pub shared: bool,
}

/// One request, as far as it is for cards.
#[derive(Debug, Clone, PartialEq, Eq)]
struct RequestAsked {
    cards: Vec<DeviceCard>,
    ordered: bool,
    count: i64,
}

/// Why a request can't be said in cards.
pub(super) enum Problem {
    NoDevice,
    Unclear(String),
}

impl Devices {
    /// What the claims that a pod names come to; those that another pod pays for come to nothing. `assigned` is the card that the pod was
    /// let in for: what it was given is that, where nobody publishes it at the moment.
    pub fn asked_by(&mut self, namespace: &str, uid: &str, named: &[Named], assigned: Option<&str>) -> Asked {
        let mut sum = Sum::default();
        for Named { name, claim, shared } in named {
            let Some(claim) = claim else {
                return Asked::kept_by(Obstacle::Missing);
            };
            let key: ClaimKey = (namespace.into(), claim.clone());
            let Some(found) = self.claims.get(&key).map(|(claim, _)| Arc::clone(claim)) else {
                return Asked::kept_by(Obstacle::Missing);
            };
            let is_paid = *shared && self.payers.get(&key).is_some_and(|payer| **payer != *uid);
            if let Some(allocated) = self.allocated(&found, assigned) {
                if is_paid {
                    sum.is_paid_by_another |= !allocated.is_empty();
                } else {
                    sum.allocated.extend(allocated);
                }
                continue;
            }
            for request in &found.spec.devices.requests {
                let of = || format!("claim {name} ({claim}), request {}", request.name);
                match self.request(request) {
                    Ok(asked) if is_paid => sum.is_paid_by_another |= asked.is_some(),
                    Ok(asked) => sum.requests.extend(asked),
                    Err(Problem::NoDevice) => return Asked::kept_by(Obstacle::NoDevice),
                    Err(Problem::Unclear(why)) => {
                        return Asked::kept_by(Obstacle::Unclear(format!("{}: {why}", of())));
                    }
                }
            }
        }
        sum.asked()
    }

    /// The cards that were allocated to a claim, each as often; none where nothing is, or where a device is not known any more.
    fn allocated(&self, claim: &ResourceClaim, assigned: Option<&str>) -> Option<Vec<DeviceCard>> {
        let allocation = claim.status.allocation.as_ref()?;
        let mut cards = Vec::new();
        for device in allocation.devices.results.iter().filter(|device| !device.admin_access) {
            match self.inventory.device(&device.driver, &device.pool, &device.device) {
                Some(model) => cards.extend(model.card.clone()),
                None => cards.push(DeviceCard::named(&device.driver, self.inventory.drivers(), assigned?)?),
            }
        }
        Some(cards)
    }

    /// The cards that a request asks for; none where they are other devices, or only looked at.
    fn request(&mut self, request: &Request) -> Result<Option<RequestAsked>, Problem> {
        let forms: Vec<_> = request.exactly.iter().chain(&request.first_available).collect();
        let mut asked: Option<RequestAsked> = None;
        for form in forms.iter().filter(|form| !form.admin_access) {
            let Some(cards) = self.form(form)? else {
                if asked.is_some() {
                    return Err(Problem::Unclear("one of its alternatives is no card".to_owned()));
                }
                continue;
            };
            let count = form.count().unwrap_or_else(|| self.most_of(&cards));
            match &mut asked {
                None => {
                    asked = Some(RequestAsked {
                        cards,
                        ordered: forms.len() > 1,
                        count,
                    });
                }
                Some(asked) if asked.count == count => {
                    let further = cards.into_iter().filter(|card| !asked.cards.contains(card));
                    let further: Vec<_> = further.collect();
                    asked.cards.extend(further);
                }
                Some(asked) => {
                    return Err(Problem::Unclear(format!(
                        "its alternatives ask for {} and {count} cards, and Cardgate charges one number: ask for the same number in \
                         each",
                        asked.count
                    )));
                }
            }
        }
        Ok(asked)
    }

    /// The cards that a form's selectors leave, by name; none where they leave other devices alone.
    pub(super) fn form(&mut self, form: &SubRequest) -> Result<Option<Vec<DeviceCard>>, Problem> {
        let Some(class) = self
            .classes
            .get(&form.device_class_name)
            .map(|(class, _)| Arc::clone(class))
        else {
            return Err(Problem::NoDevice);
        };
        let models = self.select(&class, &form.selectors)?;
        if models.is_empty() {
            return Err(Problem::NoDevice);
        }
        let of_cards = || models.iter().filter(|model| model.card.is_some());
        let of_nodes = of_cards().filter(|model| self.inventory.is_of_a_node(model));
        let cards: BTreeSet<_> = of_nodes.filter_map(|model| model.card.clone()).collect();
        if let Some(model) = of_cards().next().filter(|_| cards.is_empty()) {
            return Err(Problem::Unclear(format!(
                "it selects devices of {} that several nodes reach, and Cardgate counts those of one node: select such by other \
                 means, or have the driver publish them node by node",
                model.driver
            )));
        }
        Ok((!cards.is_empty()).then(|| cards.into_iter().collect()))
    }

    fn select(&mut self, class: &DeviceClass, own: &[Selector]) -> Result<BTreeSet<Arc<Model>>, Problem> {
        let expressions = class.spec.selectors.iter().chain(own);
        let expressions = expressions.map(|selector| &*selector.cel.expression);
        let selected = self.selections.select(expressions, &self.inventory);
        selected.map_err(|(expression, error): (String, SelectorError)| {
            Problem::Unclear(format!("selector {expression:?}: {error}: select by other means"))
        })
    }

    /// The cards that a class provides for an extended resource that pods may request.
    pub fn provided_by(&mut self, class: &DeviceClass) -> BTreeSet<DeviceCard> {
        let models = self.select(class, &[]).unwrap_or_default();
        models.iter().filter_map(|model| model.card.clone()).collect()
    }

    /// The most that one node has of these cards: found again when nodes have other cards.
    fn most_of(&mut self, cards: &[DeviceCard]) -> i64 {
        let version = self.rooms.version();
        if let Some((_, most)) = self.most.get(cards).filter(|(of, _)| *of == version) {
            return *most;
        }
        let counts = self.rooms.all().map(|room| {
            let there = room.cards();
            cards.iter().filter_map(|card| Some(there.get(card)?.total)).sum()
        });
        let most = counts.max().unwrap_or(0);
        self.most.retain(|_, (of, _)| *of == version);
        self.most.insert(cards.into(), (version, most));
        most
    }
}

impl Asked {
    /// The same, with what is requested as resources that classes provide.
    #[must_use]
    pub fn and_provided(self, requested: &[CardsAsked]) -> Self {
        if requested.is_empty()
            || self
                .obstacle
                .as_ref()
                .is_some_and(|obstacle| *obstacle != Obstacle::PaidByAnother)
        {
            return self;
        }
        let mut sum = Sum {
            is_paid_by_another: self.obstacle.is_some(),
            ..Sum::default()
        };
        for asked in self.cards.iter().chain(requested) {
            sum.requests.push(RequestAsked {
                cards: asked.cards.clone(),
                ordered: asked.ordered,
                count: asked.count,
            });
        }
        sum.asked()
    }

    fn kept_by(obstacle: Obstacle) -> Self {
        Self {
            cards: None,
            obstacle: Some(obstacle),
        }
    }
}

/// What is asked for in all.
#[derive(Debug, Default)]
struct Sum {
    requests: Vec<RequestAsked>,
    allocated: Vec<DeviceCard>,
    is_paid_by_another: bool,
}

impl Sum {
    fn asked(self) -> Asked {
        let obstacle = self.is_paid_by_another.then_some(Obstacle::PaidByAnother);
        let mut sum: Option<CardsAsked> = None;
        // What was allocated is of one card, unless the node has several: then the first by name is charged for all.
        if let Some(card) = self.allocated.iter().min() {
            sum = Some(CardsAsked {
                cards: vec![card.clone()],
                ordered: false,
                count: count_of(&self.allocated),
                allocated: true,
            });
        }
        for request in self.requests {
            match &mut sum {
                None => {
                    sum = Some(CardsAsked {
                        cards: request.cards,
                        ordered: request.ordered,
                        count: request.count,
                        allocated: false,
                    });
                }
                Some(sum) if is_same(&sum.cards, &request.cards) => {
                    sum.count = sum.count.saturating_add(request.count);
                    sum.ordered |= request.ordered;
                    sum.allocated = false;
                }
                Some(sum) => {
                    let names = |cards: &[DeviceCard]| {
                        let names: Vec<_> = cards.iter().take(8).map(|card| &*card.name).collect();
                        names.join(", ")
                    };
                    return Asked::kept_by(Obstacle::Unclear(format!(
                        "the pod's claims ask for different cards ({}; {}), and a pod is charged for one: make a pod for each",
                        names(&sum.cards),
                        names(&request.cards)
                    )));
                }
            }
        }
        if let Some(sum) = &sum
            && sum.cards.iter().any(|card| card.resource != sum.cards[0].resource)
        {
            return Asked::kept_by(Obstacle::Unclear(
                "the pod's claims leave whole cards and parts of cards alike, which are counted apart: select one kind"
                    .to_owned(),
            ));
        }
        Asked { cards: sum, obstacle }
    }
}

fn is_same(one: &[DeviceCard], other: &[DeviceCard]) -> bool {
    one.iter().collect::<BTreeSet<_>>() == other.iter().collect::<BTreeSet<_>>()
}

fn count_of(cards: &[DeviceCard]) -> i64 {
    i64::try_from(cards.len()).unwrap_or(i64::MAX)
}
