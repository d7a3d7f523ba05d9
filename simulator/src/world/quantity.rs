//! What pods request and nodes have, in exact numbers.

use std::collections::BTreeMap;

use serde_json::Value;

/// Amounts by resource, in thousandths.
pub type Amounts = BTreeMap<String, i128>;

/// Returns a quantity in thousandths; 0 if it is not a quantity.
pub fn milli(quantity: &Value) -> i128 {
    let text = quantity.as_str().unwrap_or_default();
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '-')
        .unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let number: i128 = number.parse().unwrap_or(0);
    let factor: i128 = match suffix {
        "m" => return number,
        "k" => 1_000,
        "Ki" => 1 << 10,
        "M" => 1_000_000,
        "Mi" => 1 << 20,
        "G" => 1_000_000_000,
        "Gi" => 1 << 30,
        "Ti" => 1 << 40,
        _ => 1,
    };
    number * factor * 1_000
}

/// Adds a resource list to a sum.
fn add_list(sum: &mut Amounts, list: &Value) {
    for (resource, quantity) in list.as_object().into_iter().flatten() {
        match sum.get_mut(resource) {
            Some(amount) => *amount += milli(quantity),
            None => drop(sum.insert(resource.clone(), milli(quantity))),
        }
    }
}

/// Returns all amounts of a resource list.
pub fn amounts(list: &Value) -> Amounts {
    let mut sum = Amounts::new();
    add_list(&mut sum, list);
    sum
}

/// Adds to a sum.
pub fn add(sum: &mut Amounts, more: &Amounts) {
    for (resource, amount) in more {
        *sum.entry(resource.clone()).or_default() += amount;
    }
}

/// Raises each amount to the larger one.
fn raise(most: &mut Amounts, other: Amounts) {
    for (resource, amount) in other {
        let most = most.entry(resource).or_default();
        *most = amount.max(*most);
    }
}

/// Adds what a pod requests, and its pod slot, to a sum.
pub fn add_request(sum: &mut Amounts, spec: &Value) {
    if spec["initContainers"].is_array() {
        return add(sum, &request(spec));
    }
    for container in spec["containers"].as_array().into_iter().flatten() {
        add_list(sum, &container["resources"]["requests"]);
    }
    add_list(sum, &spec["overhead"]);
    *sum.entry("pods".to_owned()).or_default() += 1_000;
}

/// Returns what a pod requests, with its pod slot: containers and sidecars, or the largest init container beside the
/// sidecars before it.
pub fn request(spec: &Value) -> Amounts {
    let mut sum = Amounts::new();
    for container in spec["containers"].as_array().into_iter().flatten() {
        add_list(&mut sum, &container["resources"]["requests"]);
    }
    let (mut sidecars, mut largest) = (Amounts::new(), Amounts::new());
    for container in spec["initContainers"].as_array().into_iter().flatten() {
        let mut asked = sidecars.clone();
        add_list(&mut asked, &container["resources"]["requests"]);
        if container["restartPolicy"] == "Always" {
            sidecars.clone_from(&asked);
        }
        raise(&mut largest, asked);
    }
    add(&mut sum, &sidecars);
    raise(&mut sum, largest);
    add_list(&mut sum, &spec["overhead"]);
    sum.insert("pods".to_owned(), 1_000);
    sum
}
