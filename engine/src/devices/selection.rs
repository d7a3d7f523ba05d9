//! Which models of devices a request's selectors leave: evaluated once for each model, and remembered.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::inventory::Inventory;
use super::model::{Described, Model, own_names};
use super::selector::{Selector, SelectorError};

/// So many expressions are remembered.
const MOST_REMEMBERED: usize = 4096;
/// So many devices of the models in question are looked at one by one, for a selector that asks for what each has of its own.
const MOST_LOOKED_AT: usize = 4096;

/// Expressions that were read, and what they said of each model.
#[derive(Debug, Default)]
pub struct Selections {
    read: HashMap<Box<str>, Known>,
}

/// What is known of one expression.
#[derive(Debug)]
struct Known {
    selector: Result<Selector, SelectorError>,
    /// Whether it may look at what each device has of its own.
    is_individual: bool,
    said: HashMap<Arc<Model>, bool>,
    /// The inventory's version by which it was said, where it depends on single devices.
    version: u64,
}

/// Models of devices.
pub type Models = BTreeSet<Arc<Model>>;

impl Selections {
    /// The models of which some device satisfies all expressions; else which of them can't be evaluated, and why.
    pub fn select<'e>(
        &mut self,
        expressions: impl Iterator<Item = &'e str> + Clone,
        inventory: &Inventory,
    ) -> Result<Models, (String, SelectorError)> {
        for expression in expressions.clone() {
            self.read(expression, inventory);
            if let Some(Err(error)) = self.read.get(expression).map(|known| &known.selector) {
                return Err((expression.chars().take(100).collect(), error.clone()));
            }
        }
        let mut left: Models = inventory.models().map(Arc::clone).collect();
        for expression in expressions {
            if let Some(known) = self.read.get_mut(expression) {
                left.retain(|model| known.says(model, inventory));
            }
        }
        Ok(left)
    }

    fn read(&mut self, expression: &str, inventory: &Inventory) {
        if self.read.contains_key(expression) {
            return;
        }
        if self.read.len() >= MOST_REMEMBERED {
            self.read.clear();
        }
        let selector = Selector::read(expression);
        let is_individual = selector
            .as_ref()
            .is_ok_and(|selector| own_names().any(|name| selector.may_name(name)));
        self.read.insert(
            expression.into(),
            Known {
                selector,
                is_individual,
                said: HashMap::new(),
                version: inventory.version(),
            },
        );
    }
}

impl Known {
    fn says(&mut self, model: &Arc<Model>, inventory: &Inventory) -> bool {
        let Ok(selector) = &self.selector else { return false };
        if self.is_individual && self.version != inventory.version() || self.said.len() > MOST_REMEMBERED {
            self.said.clear();
            self.version = inventory.version();
        }
        if let Some(said) = self.said.get(model) {
            return *said;
        }
        let describe = |own| Described { model, own };
        let says = if self.is_individual {
            let mut devices = inventory.own_of(model).take(MOST_LOOKED_AT);
            devices.any(|own| selector.selects(&describe(Some(own))))
        } else {
            selector.selects(&describe(None))
        };
        self.said.insert(Arc::clone(model), says);
        says
    }
}
