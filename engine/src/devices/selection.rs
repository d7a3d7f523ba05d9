//! What selectors say of devices. Each selector is evaluated once for all devices that are alike in what it looks at, and the answer is
//! remembered.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use super::inventory::{Device, Inventory};
use super::model::{Attribute, Attributes, Described, Model, own_names};
use super::selector::{Says, Selector, SelectorError};
use crate::steps::Steps;

/// The most expressions that are remembered.
const MOST_EXPRESSIONS: usize = 4096;
/// The most characters of all remembered expressions together: tenants write them, and a read expression takes about sixty times the memory
/// of its text.
const MOST_TEXT: usize = 1 << 20;
/// The most answers that are remembered, of all expressions together.
const MOST_ANSWERS: usize = 1 << 18;
/// The steps for judging the devices of one model at once by a selector that asks for what each device has of its own. Where there are more
/// devices, some of them may satisfy the selector.
const STEPS: u64 = 1 << 19;
/// The cost of reading one character of an expression, in steps.
const READING: usize = 16;
/// The number of characters of an expression that are looked up in one step.
const LOOKED_UP: usize = 64;

/// A selector's expression, looked up by its text. From then on it is known by its address, so that its length no longer matters: each
/// expression is asked of every device.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Expression(Arc<str>);

/// Expressions that were read, and what they said of devices.
#[derive(Debug, Default)]
pub struct Selections(RefCell<Memory>);

#[derive(Debug, Default)]
struct Memory {
    /// The texts that were read, each once. A caller that looked a text up before the memory was cleared holds another copy, which is read
    /// by itself. So the caller need not look anything up again.
    texts: HashSet<Arc<str>>,
    read: HashMap<ByAddress<str>, Known>,
    /// How long all read texts are together.
    text: usize,
    answers: usize,
}

/// What is known of one expression.
#[derive(Debug)]
struct Known {
    selector: Result<Selector, SelectorError>,
    /// The names of attributes that each device has of its own and that the expression may look at.
    looks_at: Vec<&'static str>,
    said: HashMap<Alike, Says>,
    /// Whether any device of a model satisfies the expression, and the version of the inventory for which that was found.
    any: HashMap<ByAddress<Model>, (u64, bool)>,
}

/// Devices that an expression can't tell apart.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Alike {
    model: ByAddress<Model>,
    own: Box<[(Arc<str>, Attribute)]>,
}

/// A key that compares by address. It holds a model, of which no two equal ones exist at a time, or the text of an expression.
#[derive(Debug)]
struct ByAddress<T: ?Sized>(Arc<T>);

impl<T: ?Sized> ByAddress<T> {
    fn of(shared: &Arc<T>) -> Self {
        Self(Arc::clone(shared))
    }
}

impl<T: ?Sized> Clone for ByAddress<T> {
    fn clone(&self) -> Self {
        Self::of(&self.0)
    }
}

impl<T: ?Sized> PartialEq for ByAddress<T> {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl<T: ?Sized> Eq for ByAddress<T> {}

impl<T: ?Sized> Hash for ByAddress<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.0).hash(state);
    }
}

/// Models of devices.
pub type Models = BTreeSet<Arc<Model>>;

/// Why it is not known what expressions select.
#[derive(Debug)]
pub enum Unselected {
    /// One of the expressions can't be evaluated: which, and why.
    Unreadable(String, SelectorError),
    /// The steps are spent. What was found so far is remembered, so the next call goes on from there.
    Spent,
}

impl Selections {
    /// Looks expressions up by their texts; the cost grows with their length. Returns none where the steps are spent.
    pub fn look_up<'e>(&self, texts: impl Iterator<Item = &'e str>, steps: &Steps) -> Option<Box<[Expression]>> {
        let memory = self.0.borrow();
        let look_up = |text: &str| {
            if steps.are_spent() {
                return None;
            }
            steps.spend(1 + text.len() / LOOKED_UP);
            Some(Expression(
                memory.texts.get(text).map_or_else(|| text.into(), Arc::clone),
            ))
        };
        texts.map(look_up).collect()
    }

    /// Returns the models of which some device satisfies all expressions, as far as these steps suffice. An expression that can't be
    /// evaluated is an error only where the others leave cards: it could only take away from what they leave.
    pub fn select(
        &self,
        expressions: &[Expression],
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
                unreadable.get_or_insert_with(|| (&expression.0, error.clone()));
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

    /// Returns the models on a device of which one of these expressions fails, as far as these steps suffice. Each expression is asked only
    /// of the devices that the expressions before it select. The scheduler gives up on a pod with such a claim when it comes to such a
    /// device. This assumes that of the attributes in which devices of a model differ, all devices of the model have the same ones.
    pub fn failing(&self, expressions: &[Expression], inventory: &Inventory, steps: &Steps) -> Models {
        let mut memory = self.0.borrow_mut();
        let mut fails = |model: &Arc<Model>| {
            let own = inventory.own_of(model).next().cloned().unwrap_or_default();
            let mut said = expressions.iter().map(|expression| {
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

    /// Whether these expressions may select any of these models, or fail on them. What an expression says of single devices is not asked:
    /// such an expression may select. The same holds once the steps are spent.
    pub fn may_select(&self, expressions: &[Expression], models: &BTreeSet<Arc<Model>>, steps: &Steps) -> bool {
        let mut memory = self.0.borrow_mut();
        models.iter().any(|model| {
            expressions.iter().all(|expression| {
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

    /// Whether any of these expressions may ask for what each device has of its own.
    pub fn tell_devices_apart(&self, expressions: &[Expression], steps: &Steps) -> bool {
        let mut memory = self.0.borrow_mut();
        let mut expressions = expressions.iter();
        expressions.any(|expression| !memory.read(expression, steps).looks_at.is_empty())
    }

    /// Whether a device satisfies an expression; no device satisfies one that can't be evaluated. Returns none where finding out costs more
    /// steps than are left.
    pub fn satisfies(&self, expression: &Expression, device: &Device, steps: &Steps) -> Option<bool> {
        let mut memory = self.0.borrow_mut();
        let known = memory.read(expression, steps);
        let says = match known.said(&device.model, &device.own, steps) {
            Ok(said) => said,
            Err(_) if steps.left() < u64::try_from(known.cost()).unwrap_or(u64::MAX) => return None,
            Err(alike) => memory.evaluate(expression, alike, &device.own, steps),
        };
        Some(says == Says::Selected)
    }
}

impl Memory {
    fn read(&mut self, expression: &Expression, steps: &Steps) -> &mut Known {
        let Expression(text) = expression;
        let key = ByAddress::of(text);
        if !self.read.contains_key(&key) {
            steps.spend(text.len().saturating_mul(READING));
            if self.read.len() >= MOST_EXPRESSIONS || self.text.saturating_add(text.len()) > MOST_TEXT {
                self.forget();
            }
            self.text += text.len();
            self.texts.insert(Arc::clone(text));
        }
        self.read.entry(key).or_insert_with(|| Known::read(text))
    }

    fn says(&mut self, expression: &Expression, model: &Arc<Model>, own: &Attributes, steps: &Steps) -> Says {
        let said = self.read(expression, steps).said(model, own, steps);
        said.unwrap_or_else(|alike| self.evaluate(expression, alike, own, steps))
    }

    /// Evaluates an expression for devices of which it was not asked before.
    fn evaluate(&mut self, expression: &Expression, alike: Alike, own: &Attributes, steps: &Steps) -> Says {
        if self.answers >= MOST_ANSWERS {
            self.forget();
        }
        let known = self.read(expression, steps);
        steps.spend(known.cost());
        let own = (!known.looks_at.is_empty()).then_some(own);
        let model = &*alike.model.0;
        let says = match &known.selector {
            Ok(selector) => selector.says(&Described { model, own }),
            Err(_) => Says::PassedOver,
        };
        known.said.insert(alike, says);
        self.answers += 1;
        says
    }

    /// Whether any device of a model satisfies an expression.
    fn says_of_any(
        &mut self,
        expression: &Expression,
        model: &Arc<Model>,
        inventory: &Inventory,
        steps: &Steps,
    ) -> bool {
        let known = self.read(expression, steps);
        if known.looks_at.is_empty() {
            return self.says(expression, model, &Attributes::new(), steps) == Says::Selected;
        }
        steps.spend(1);
        let (key, version) = (ByAddress::of(model), inventory.version());
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
        let known = self.read(expression, steps);
        known.any.retain(|_, (of, _)| *of == version);
        known.any.insert(key, (version, says));
        says
    }

    fn forget(&mut self) {
        *self = Self::default();
    }
}

impl Known {
    fn read(text: &str) -> Self {
        let selector = Selector::read(text);
        let looks_at = selector.as_ref().map_or_else(
            |_| Vec::new(),
            |selector| own_names().filter(|name| selector.may_name(name)).collect(),
        );
        Self {
            selector,
            looks_at,
            said: HashMap::new(),
            any: HashMap::new(),
        }
    }

    fn cost(&self) -> usize {
        self.selector.as_ref().map_or(1, Selector::cost)
    }

    /// Returns what the expression said of this device, or of a device that it can't tell from this one; else the key of such devices.
    fn said(&self, model: &Arc<Model>, own: &Attributes, steps: &Steps) -> Result<Says, Alike> {
        steps.spend(1);
        let alike = self.alike(model, own);
        self.said.get(&alike).copied().ok_or(alike)
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
            model: ByAddress::of(model),
            own,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one_device() -> Inventory {
        let mut inventory = Inventory::default();
        let slice = serde_json::json!({"metadata": {"name": "s"}, "spec": {"driver": "d", "nodeName": "n",
            "pool": {"name": "n", "generation": 1, "resourceSliceCount": 1}, "devices": [{"name": "d-0"}]}});
        let slice = serde_json::from_value(slice).unwrap();
        inventory.apply(&slice, 0, &mut crate::texts::TextPool::default());
        inventory
    }

    fn looked_up(selections: &Selections, text: &str, steps: &Steps) -> Expression {
        let [expression] = &*selections.look_up([text].into_iter(), steps).unwrap() else {
            panic!("one was looked up");
        };
        expression.clone()
    }

    #[test]
    fn what_was_read_is_forgotten_before_it_is_much_in_all() {
        let selections = Selections::default();
        let steps = Steps::new(u64::MAX);
        for index in 0..200 {
            // The expression is too long to be read at all, and that is remembered.
            let expression = looked_up(&selections, &format!("{index} in [{}]", "1,".repeat(10_000)), &steps);
            assert!(!selections.tell_devices_apart(&[expression], &steps));
            let memory = selections.0.borrow();
            let text: usize = memory.read.keys().map(|expression| expression.0.len()).sum();
            assert!(text <= 1 << 20 && text == memory.text, "{text}");
        }
    }

    #[test]
    fn what_was_looked_up_is_asked_by_its_address_however_long_it_is() {
        let (selections, steps) = (Selections::default(), Steps::new(u64::MAX));
        let inventory = one_device();
        let (_, device) = inventory.on_node("n").next().unwrap();
        let spent = |work: &dyn Fn()| {
            let before = steps.left();
            work();
            before - steps.left()
        };
        let costs = [10, 10_000].map(|length| {
            let text = format!("device.driver != '{}'", "x".repeat(length));
            let look_up = || looked_up(&selections, &text, &steps);
            let ask = |expression: &Expression| {
                spent(&|| assert_eq!(selections.satisfies(expression, device, &steps), Some(true)))
            };
            let expression = look_up();
            let first = ask(&expression);
            let again = ask(&expression);
            assert_eq!(ask(&look_up()), again, "looked up once more, it is the same");
            let looked_up = spent(&|| drop(look_up()));
            // If texts were compared, this expression would be known already.
            let elsewhere = Expression((&*text).into());
            assert_eq!(elsewhere, expression);
            assert_eq!(ask(&elsewhere), first);
            selections.0.borrow_mut().forget();
            assert_eq!(ask(&expression), first, "who holds it goes on with it");
            assert_eq!(ask(&look_up()), again);
            (looked_up, first, again)
        });
        let [
            (short_looked_up, short_first, short_again),
            (long_looked_up, long_first, long_again),
        ] = costs;
        assert_eq!((short_again, long_again), (1, 1));
        assert!(
            long_looked_up > 100 * short_looked_up && long_first > 10 * short_first,
            "{costs:?}"
        );
    }

    #[test]
    fn when_the_steps_are_spent_expressions_may_select_anything_and_are_not_read() {
        let selections = Selections::default();
        let models: Models = one_device().models().map(Arc::clone).collect();
        assert_eq!(models.len(), 1);
        let steps = Steps::new(100_000);
        let may_select = |index: usize| {
            let expression = format!("device.driver == '{}{index}'", "x".repeat(1_000));
            let expressions = selections.look_up([&*expression].into_iter(), &steps);
            expressions.is_none_or(|expressions| selections.may_select(&expressions, &models, &steps))
        };
        assert!(!may_select(0));
        assert!((1..1_000).any(may_select));
        assert!(selections.0.borrow().read.len() < 10);
    }
}
