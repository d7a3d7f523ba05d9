//! Everything that the five documents show, to the letter, and what the text beside it says of it: their configurations, queues, pods and
//! workloads. What they show of nodes is beside discovery, and the pods that the door refuses beside the door.

/// A file of what the documents show.
macro_rules! document {
    ($file:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../crds/documents/", $file))
    };
}

mod configurations;
mod mgpu;
mod queues;
mod workloads;

use serde_json::Value;

use crate::world::{Object, bare_queue};

/// What a file says, as the API server would show it.
fn read(text: &str) -> Value {
    let mut shown = serde_saphyr::from_str(text).unwrap();
    quote_quantities(&mut shown);
    shown
}

/// The API server shows the quantities of containers as text.
fn quote_quantities(shown: &mut Value) {
    match shown {
        Value::Object(fields) => {
            for (key, value) in fields {
                if let ("limits" | "requests", Value::Object(quantities)) = (key.as_str(), &mut *value) {
                    let numbers = quantities.values_mut().filter(|quantity| quantity.is_number());
                    numbers.for_each(|number| *number = number.to_string().into());
                }
                quote_quantities(value);
            }
        }
        Value::Array(values) => values.iter_mut().for_each(quote_quantities),
        _ => {}
    }
}

/// An open queue, as a document shows it.
fn queue(text: &str) -> Object {
    let shown = read(text);
    bare_queue(shown["metadata"]["name"].as_str().unwrap()).with(&shown)
}
