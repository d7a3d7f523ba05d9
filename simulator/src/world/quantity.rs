//! What pods request and nodes have, in exact numbers.

use std::collections::BTreeMap;

use serde_json::Value;

/// Amounts by resource, in thousandths.
pub type Amounts = BTreeMap<String, i128>;

/// A quantity in thousandths; 0 for what is none.
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

/// All amounts of a resource list.
pub fn amounts(list: &Value) -> Amounts {
    let list = list.as_object().into_iter().flatten();
    list.map(|(resource, quantity)| (resource.clone(), milli(quantity)))
        .collect()
}

/// Adds to a sum.
pub fn add(sum: &mut Amounts, more: &Amounts) {
    for (resource, amount) in more {
        *sum.entry(resource.clone()).or_default() += amount;
    }
}

/// What a pod requests, and its place: containers and sidecars, or the largest init container beside the sidecars before it.
pub fn request(spec: &Value) -> Amounts {
    let list = |containers: &str| spec[containers].as_array().cloned().unwrap_or_default();
    let mut sum = Amounts::new();
    for container in list("containers") {
        add(&mut sum, &amounts(&container["resources"]["requests"]));
    }
    let (mut sidecars, mut largest) = (Amounts::new(), Amounts::new());
    for container in list("initContainers") {
        let mut asked = amounts(&container["resources"]["requests"]);
        if container["restartPolicy"] == "Always" {
            add(&mut sidecars, &asked);
            asked = sidecars.clone();
        } else {
            add(&mut asked, &sidecars);
        }
        for (resource, amount) in asked {
            let most = largest.entry(resource).or_default();
            *most = amount.max(*most);
        }
    }
    add(&mut sum, &sidecars);
    for (resource, amount) in largest {
        let most = sum.entry(resource).or_default();
        *most = amount.max(*most);
    }
    add(&mut sum, &amounts(&spec["overhead"]));
    sum.insert("pods".to_owned(), 1_000);
    sum
}
