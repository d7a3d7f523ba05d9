//! Objects near those of a corpus, as JSON.

use bolero::{Driver, ValueGenerator};
use serde_json::{Map, Value};

use crate::draw::{below, once_in, one_of};
use crate::texts::change;
use crate::words::{PIECES, names};

/// How often a piece of a list is repeated at most.
const MANY: usize = 1500;
/// What API servers take of a request.
const LARGEST: usize = 3 << 20;
/// What is deeper than this is not looked into for changes.
const DEEPEST: usize = 24;

/// Objects of a corpus with some changes.
#[derive(Debug, Clone)]
pub struct Objects {
    templates: Vec<Value>,
    changes: usize,
}

impl Objects {
    /// Objects near these.
    pub fn near(templates: impl IntoIterator<Item = Value>) -> Self {
        let templates = templates.into_iter().collect();
        Self { templates, changes: 6 }
    }

    /// Objects with at most so many changes.
    #[must_use]
    pub fn with_changes(self, changes: usize) -> Self {
        Self { changes, ..self }
    }
}

impl ValueGenerator for Objects {
    type Output = Value;

    fn generate<D: Driver>(&self, driver: &mut D) -> Option<Value> {
        let mut object = one_of(driver, &self.templates)?.clone();
        for _ in 0..below(driver, self.changes + 1)? {
            change_within(driver, &mut object, &self.templates)?;
        }
        (object.to_string().len() <= LARGEST).then_some(object)
    }
}

/// Changes something somewhere in an object.
fn change_within<D: Driver>(driver: &mut D, object: &mut Value, others: &[Value]) -> Option<()> {
    let mut place = object;
    for _ in 0..DEEPEST {
        let children = match place {
            Value::Array(list) => list.len(),
            Value::Object(map) => map.len(),
            _ => 0,
        };
        if children == 0 || once_in(driver, 6)? {
            break;
        }
        let child = below(driver, children)?;
        place = match place {
            Value::Array(list) => list.get_mut(child)?,
            Value::Object(map) => map.values_mut().nth(child)?,
            _ => break,
        };
    }
    match place {
        Value::Object(map) => change_map(driver, map, others),
        Value::Array(list) => change_list(driver, list, others),
        Value::String(text) if !once_in(driver, 4)? => change(driver, text, &[]),
        value => {
            *value = any_value(driver, others)?;
            Some(())
        }
    }
}

fn change_map<D: Driver>(driver: &mut D, map: &mut Map<String, Value>, others: &[Value]) -> Option<()> {
    match below(driver, 5)? {
        0 => {
            let key = map.keys().nth(below(driver, map.len())?).cloned();
            key.and_then(|key| map.remove(&key));
        }
        1 => {
            // The same, under another name.
            let key = map.keys().nth(below(driver, map.len())?).cloned();
            if let Some(value) = key.and_then(|key| map.remove(&key)) {
                map.insert(any_name(driver)?, value);
            }
        }
        2 if once_in(driver, 8)? => {
            let (name, value) = (any_name(driver)?, any_value(driver, others)?);
            map.extend((0..below(driver, MANY)?).map(|index| (format!("{name}{index}"), value.clone())));
        }
        _ => {
            map.insert(any_name(driver)?, any_value(driver, others)?);
        }
    }
    Some(())
}

fn change_list<D: Driver>(driver: &mut D, list: &mut Vec<Value>, others: &[Value]) -> Option<()> {
    let index = below(driver, list.len())?;
    match below(driver, 5)? {
        0 if !list.is_empty() => drop(list.remove(index)),
        1 => list.reverse(),
        2 | 3 if !list.is_empty() => {
            let times = if once_in(driver, 8)? { MANY } else { 4 };
            let again = list[index].clone();
            list.extend(std::iter::repeat_n(again, below(driver, times)?));
        }
        _ => list.push(any_value(driver, others)?),
    }
    Some(())
}

fn any_name<D: Driver>(driver: &mut D) -> Option<String> {
    if once_in(driver, 12)? {
        return Some((*one_of(driver, PIECES)?).to_owned());
    }
    let mut names = names();
    let name = names.nth(below(driver, names.len())?)?;
    Some(name.to_owned())
}

fn any_value<D: Driver>(driver: &mut D, others: &[Value]) -> Option<Value> {
    Some(match below(driver, 10)? {
        0 => Value::Null,
        1 => Value::Bool(driver.gen_bool(None)?),
        2 => Value::from(driver.produce::<i64>()?),
        3 => Value::from(i32::try_from(below(driver, 300)?).ok()?),
        4 => Value::Array(Vec::new()),
        5 => Value::Object(Map::new()),
        6 => {
            // A part of another object, which is right somewhere else.
            let mut part = one_of(driver, others)?;
            for _ in 0..below(driver, 6)? {
                let next = match part {
                    Value::Array(list) => list.get(below(driver, list.len())?),
                    Value::Object(map) => map.values().nth(below(driver, map.len())?),
                    _ => None,
                };
                part = next.unwrap_or(part);
            }
            part.clone()
        }
        _ => Value::from(*one_of(driver, PIECES)?),
    })
}

/// Bodies of requests: objects as JSON, now and then damaged as texts.
#[derive(Debug, Clone)]
pub struct Bodies(Objects);

impl Bodies {
    /// Bodies near these.
    pub fn near(templates: impl IntoIterator<Item = Value>) -> Self {
        Self(Objects::near(templates))
    }
}

impl ValueGenerator for Bodies {
    type Output = String;

    fn generate<D: Driver>(&self, driver: &mut D) -> Option<String> {
        let mut body = self.0.generate(driver)?.to_string();
        if once_in(driver, 6)? {
            for _ in 0..=below(driver, 3)? {
                change(driver, &mut body, &[])?;
            }
        }
        Some(body)
    }
}
