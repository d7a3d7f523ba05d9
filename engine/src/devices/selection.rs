//! What selectors say of devices: evaluated once for all that are alike in what a selector looks at, and remembered.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use super::inventory::{Device, Inventory};
use super::model::{Attribute, Attributes, Described, Model, own_names};
use super::selector::{Says, Selector, SelectorError};
use crate::steps::Steps;

/// So many expressions are remembered.
const MOST_EXPRESSIONS: usize = 4096;
/// So long all of them are: tenants write them, and what is read takes some sixty times as much as its text.
const MOST_TEXT: usize = 1 << 20;
/// So many answers are remembered, of all expressions.
const MOST_ANSWERS: usize = 1 << 18;
/// The steps with which devices of a model are judged at once by a selector that asks for what each has of its own. Where there are more
/// of them, some may satisfy it.
const STEPS: u64 = 1 << 19;
/// What it costs to read one character of an expression, in steps.
const READING: usize = 16;

/// Expressions that were read, and what they said.
#[derive(Debug, Default)]
pub struct Selections(RefCell<Memory>);

#[derive(Debug, Default)]
struct Memory {
    read: HashMap<Box<str>, Known>,
    /// How long all that was read is.
    text: usize,
    answers: usize,
}

/// What is known of one expression.
#[derive(Debug)]
struct Known {
    selector: Result<Selector, SelectorError>,
    /// The names of what each device has of its own that it may look at.
    looks_at: Vec<&'static str>,
    said: HashMap<Alike, Says>,
    /// Whether any device of a model satisfies it, and of which version of the inventory that was found.
    any: HashMap<ByAddress, (u64, bool)>,
}

/// Devices that an expression can't tell apart.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Alike {
    model: ByAddress,
    own: Box<[(Arc<str>, Attribute)]>,
}

/// A model, of which there is one alone that is equal to it at any time.
#[derive(Debug, Clone)]
struct ByAddress(Arc<Model>);

impl PartialEq for ByAddress {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for ByAddress {}

impl Hash for ByAddress {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.0).hash(state);
    }
}

/// Models of devices.
pub type Models = BTreeSet<Arc<Model>>;

/// Why it is not known what expressions select.
#[derive(Debug)]
pub enum Unselected {
    /// One of them can't be evaluated: which, and why.
    Unreadable(String, SelectorError),
    /// The steps are spent. What has been found is remembered: who asks again goes on from there.
    Spent,
}

impl Selections {
    /// The models of which some device satisfies all expressions, as far as that can be found with these steps. One that can't be evaluated
    /// matters where the others leave cards: of what they leave, it could only take away.
    pub fn select<'e>(
        &self,
        expressions: impl Iterator<Item = &'e str> + Clone,
        inventory: &Inventory,
        steps: &Steps,
    ) -> Result<Models, Unselected> {
        let mut memory = self.0.borrow_mut();
        let mut unreadable = None;
        let mut left: Models = inventory.models().map(Arc::clone).collect();
        for expression in expressions {
            if steps.are_spent() {
                return Err(Unselected::Spent);
            }
            if let Err(error) = &memory.read(expression, steps).selector {
                unreadable.get_or_insert_with(|| (expression, error.clone()));
                continue;
            }
            left.retain(|model| steps.are_spent() || memory.says_of_any(expression, model, inventory, steps));
        }
        if steps.are_spent() {
            return Err(Unselected::Spent);
        }
        match unreadable.filter(|_| left.iter().any(|model| model.card.is_some())) {
            Some((expression, error)) => Err(Unselected::Unreadable(expression.chars().take(100).collect(), error)),
            None => Ok(left),
        }
    }

    /// The models on a device of which one of these expressions fails, each asked of those alone that the ones before it select, as far as
    /// that can be found with these steps: the scheduler gives up on a pod that claims so where it comes to such a device. Of what tells
    /// devices of a model apart, all have some, or none.
    pub fn failing<'e>(
        &self,
        expressions: &(impl Iterator<Item = &'e str> + Clone),
        inventory: &Inventory,
        steps: &Steps,
    ) -> Models {
        let mut memory = self.0.borrow_mut();
        let mut fails = |model: &Arc<Model>| {
            let own = inventory.own_of(model).next().cloned().unwrap_or_default();
            let mut said = expressions.clone().map(|expression| {
                let is_read = memory.read(expression, steps).selector.is_ok();
                (is_read && !steps.are_spent()).then(|| memory.says(expression, model, &own, steps))
            });
            said.find(|said| *said != Some(Says::Selected)) == Some(Some(Says::Failed))
        };
        inventory
            .models()
            .filter(|model| fails(model))
            .map(Arc::clone)
            .collect()
    }

    /// Whether these expressions may select any of these models, or fail on them: what they say of single devices is not asked, and when the
    /// steps are spent, nothing is.
    pub fn may_select<'e>(
        &self,
        expressions: &(impl Iterator<Item = &'e str> + Clone),
        models: &BTreeSet<Arc<Model>>,
        steps: &Steps,
    ) -> bool {
        let mut memory = self.0.borrow_mut();
        models.iter().any(|model| {
            expressions.clone().all(|expression| {
                if steps.are_spent() {
                    return true;
                }
                let known = memory.read(expression, steps);
                known.selector.is_err()
                    || !known.looks_at.is_empty()
                    || memory.says(expression, model, &Attributes::new(), steps) != Says::PassedOver
            })
        })
    }

    /// Whether an expression may ask for what each device has of its own.
    pub fn tells_devices_apart(&self, expression: &str, steps: &Steps) -> bool {
        !self.0.borrow_mut().read(expression, steps).looks_at.is_empty()
    }

    /// Whether a device satisfies an expression; none that can't be evaluated. Nothing is said where that costs more than is left.
    pub fn satisfies(&self, expression: &str, device: &Device, steps: &Steps) -> Option<bool> {
        let mut memory = self.0.borrow_mut();
        let known = memory.read(expression, steps);
        let said = known.said.get(&known.alike(&device.model, &device.own)).copied();
        let cost = u64::try_from(known.cost()).unwrap_or(u64::MAX);
        if said.is_none() && steps.left() < cost {
            return None;
        }
        Some(memory.says(expression, &device.model, &device.own, steps) == Says::Selected)
    }
}

impl Memory {
    fn read(&mut self, expression: &str, steps: &Steps) -> &Known {
        if !self.read.contains_key(expression) {
            steps.spend(expression.len().saturating_mul(READING));
            if self.read.len() >= MOST_EXPRESSIONS || self.text.saturating_add(expression.len()) > MOST_TEXT {
                self.forget();
            }
            self.text += expression.len();
            let selector = Selector::read(expression);
            let looks_at = selector.as_ref().map_or_else(
                |_| Vec::new(),
                |selector| own_names().filter(|name| selector.may_name(name)).collect(),
            );
            let known = Known {
                selector,
                looks_at,
                said: HashMap::new(),
                any: HashMap::new(),
            };
            self.read.insert(expression.into(), known);
        }
        &self.read[expression]
    }

    fn says(&mut self, expression: &str, model: &Arc<Model>, own: &Attributes, steps: &Steps) -> Says {
        if self.answers >= MOST_ANSWERS {
            self.forget();
        }
        self.read(expression, steps);
        let Some(known) = self.read.get_mut(expression) else {
            return Says::PassedOver;
        };
        let alike = known.alike(model, own);
        if let Some(said) = known.said.get(&alike) {
            steps.spend(1);
            return *said;
        }
        steps.spend(known.cost());
        let own = (!known.looks_at.is_empty()).then_some(own);
        let says = match &known.selector {
            Ok(selector) => selector.says(&Described { model, own }),
            Err(_) => Says::PassedOver,
        };
        known.said.insert(alike, says);
        self.answers += 1;
        says
    }

    /// Whether any device of a model satisfies an expression.
    fn says_of_any(&mut self, expression: &str, model: &Arc<Model>, inventory: &Inventory, steps: &Steps) -> bool {
        let known = self.read(expression, steps);
        if known.looks_at.is_empty() {
            return self.says(expression, model, &Attributes::new(), steps) == Says::Selected;
        }
        let (key, version) = (ByAddress(Arc::clone(model)), inventory.version());
        if let Some((_, said)) = known.any.get(&key).filter(|(of, _)| *of == version) {
            return *said;
        }
        let says = steps.share(STEPS, |steps| {
            for own in inventory.own_of(model) {
                if steps.are_spent() {
                    return None;
                }
                if self.says(expression, model, own, steps) == Says::Selected {
                    return Some(true);
                }
            }
            Some(false)
        });
        let Some(says) = says else { return true };
        if let Some(known) = self.read.get_mut(expression) {
            known.any.retain(|_, (of, _)| *of == version);
            known.any.insert(key, (version, says));
        }
        says
    }

    fn forget(&mut self) {
        *self = Self::default();
    }
}

impl Known {
    fn cost(&self) -> usize {
        self.selector.as_ref().map_or(1, Selector::cost)
    }

    fn alike(&self, model: &Arc<Model>, own: &Attributes) -> Alike {
        let is_looked_at = |name: &str| {
            let name = name.rsplit_once('/').map_or(name, |(_, name)| name);
            self.looks_at.contains(&name)
        };
        let own: Box<[_]> = if self.looks_at.is_empty() {
            [].into()
        } else {
            let looked_at = own.iter().filter(|(name, _)| is_looked_at(name));
            looked_at
                .map(|(name, value)| (Arc::clone(name), value.clone()))
                .collect()
        };
        Alike {
            model: ByAddress(Arc::clone(model)),
            own,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_read_is_forgotten_before_it_is_much_in_all() {
        let selections = Selections::default();
        let steps = Steps::new(u64::MAX);
        for index in 0..200 {
            // Too long to be read at all, and remembered for that.
            let expression = format!("{index} in [{}]", "1,".repeat(10_000));
            assert!(!selections.tells_devices_apart(&expression, &steps));
            let memory = selections.0.borrow();
            let text: usize = memory.read.keys().map(|expression| expression.len()).sum();
            assert!(text <= 1 << 20 && text == memory.text, "{text}");
        }
    }

    #[test]
    fn when_the_steps_are_spent_expressions_may_select_anything_and_are_not_read() {
        let selections = Selections::default();
        let mut inventory = Inventory::default();
        let slice = serde_json::json!({"metadata": {"name": "s"}, "spec": {"driver": "d", "nodeName": "n",
            "pool": {"name": "n", "generation": 1, "resourceSliceCount": 1}, "devices": [{"name": "d-0"}]}});
        let slice = serde_json::from_value(slice).unwrap();
        let models = inventory
            .apply(&slice, 0, &mut crate::texts::TextPool::default())
            .models;
        assert_eq!(models.len(), 1);
        let steps = Steps::new(100_000);
        let may_select = |index: usize| {
            let expression = format!("device.driver == '{}{index}'", "x".repeat(1_000));
            selections.may_select(&[&*expression].into_iter(), &models, &steps)
        };
        assert!(!may_select(0));
        assert!((1..1_000).any(may_select));
        assert!(selections.0.borrow().read.len() < 10);
    }
}
