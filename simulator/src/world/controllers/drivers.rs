//! Drivers. Each publishes the devices of its node slice by slice, so that a pool is incomplete for a while.
//!
//! An annotation of the node says what the node has. It stands for the hardware, and only the node's driver reads it.

use std::sync::Arc;

use serde_json::{Value, json};

use super::all;
use crate::Dice;
use crate::devices::NVIDIA;
use crate::objects::{Key, NODES, Objects, SLICES};
use crate::world::chance::{number, one, percent};
use crate::world::step::Step;

/// The annotation of a node with its hardware: a generation, and the devices of each slice.
pub const DRIVEN: &str = "simulator.example.com/devices";
/// The author of slices.
const DRIVER: &str = "driver";

/// Returns the hardware of a new node: whole cards of one product, or one whole card and parts of another.
pub fn driven(dice: &mut Dice, cards: i64) -> String {
    let product = *one(dice, &["NVIDIA A100 80GB PCIe", "NVIDIA H100 80GB HBM3"]).unwrap_or(&"NVIDIA A100 80GB PCIe");
    let has_parts = product.contains("PCIe") && percent(dice, 55);
    let whole = if has_parts { 1 } else { cards };
    let mut devices: Vec<_> = (0..whole).map(|index| gpu(index, product)).collect();
    if has_parts {
        devices.extend((0..number(dice, 2, 8)).map(|index| part(index, product)));
    }
    let parts = split(dice, devices);
    json!({"generation": 1, "slices": parts}).to_string()
}

fn gpu(index: i64, product: &str) -> Value {
    json!({
        "name": format!("gpu-{index}"),
        "attributes": {
            "type": {"string": "gpu"}, "productName": {"string": product}, "index": {"int": index},
            "uuid": {"string": format!("GPU-{index}")}, "driverVersion": {"version": "570.86.15"},
        },
        "capacity": {"memory": {"value": "80Gi"}},
    })
}

fn part(index: i64, product: &str) -> Value {
    json!({
        "name": format!("gpu-9-mig-{index}"),
        "attributes": {
            "type": {"string": "mig"}, "productName": {"string": product}, "profile": {"string": "1g.10gb"},
            "parentUUID": {"string": "GPU-9"},
        },
        "capacity": {"memory": {"value": "9728Mi"}},
    })
}

/// Splits the same devices into one slice, or two.
fn split(dice: &mut Dice, mut devices: Vec<Value>) -> Vec<Vec<Value>> {
    let at = devices.len() / 2;
    if at == 0 || percent(dice, 60) {
        return vec![devices];
    }
    let second = devices.split_off(at);
    vec![devices, second]
}

fn read(node: &Value) -> Option<Value> {
    serde_json::from_str(node["metadata"]["annotations"][DRIVEN].as_str()?).ok()
}

/// Draws a change of a node's devices: one fails or recovers, they are published in other slices, or the driver ends or is
/// back.
pub fn draw(dice: &mut Dice, objects: &Objects) -> Option<Step> {
    let driven = objects.list(&NODES).filter_map(|(key, node)| Some((key, read(node)?)));
    let driven: Vec<_> = driven.collect();
    let (key, mut driven) = one(dice, &driven)?.clone();
    let generation = driven["generation"].as_i64().unwrap_or(1);
    let mut devices: Vec<_> = driven["slices"]
        .as_array()?
        .iter()
        .filter_map(|slice| slice.as_array())
        .flatten()
        .cloned()
        .collect();
    let is_ended = driven["ended"] == true;
    driven["ended"] = (!is_ended && percent(dice, 15)).into();
    if percent(dice, 50) && !devices.is_empty() {
        let which = usize::try_from(number(dice, 0, 8)).unwrap_or(0) % devices.len();
        let is_sick = devices[which]["taints"].is_array();
        devices[which]["taints"] = if is_sick {
            Value::Null
        } else {
            let effect = one(dice, &["NoSchedule", "NoExecute", "None"]);
            json!([{"key": "gpu.nvidia.com/xid", "value": "79", "effect": effect}])
        };
    }
    driven["generation"] = (generation + i64::from(percent(dice, 70))).into();
    if driven["generation"] != generation {
        driven["slices"] = json!(split(dice, devices));
    } else if let [slice] = driven["slices"].as_array_mut()?.as_mut_slice() {
        *slice = devices.into();
    }
    let patch = json!({"metadata": {"annotations": {DRIVEN: driven.to_string()}}});
    Some(Step::Change(DRIVER, &NODES, key.clone(), patch))
}

/// Lets each driver publish the next slice that differs from its node, and remove what is left over.
pub fn run(objects: &mut Objects) {
    let who = Arc::from(DRIVER);
    for (key, _) in all(objects, &SLICES) {
        let slice = objects
            .get(&SLICES, &key)
            .map(|slice| slice["spec"]["nodeName"].clone());
        let node = slice.as_ref().and_then(Value::as_str).unwrap_or_default();
        if objects.get(&NODES, &Key::new("", node)).is_none() {
            let _ = objects.delete(&who, &SLICES, &key);
        }
    }
    for (node, says) in all(objects, &NODES) {
        if let Some(driven) = read(&says) {
            publish(objects, &node.name, &driven);
        }
    }
}

fn publish(objects: &mut Objects, node: &str, driven: &Value) {
    let who = Arc::from(DRIVER);
    let is_ended = driven["ended"] == true;
    let wanted = driven["slices"]
        .as_array()
        .filter(|_| !is_ended)
        .map_or(&[][..], Vec::as_slice);
    for (index, devices) in wanted.iter().enumerate() {
        let key = Key::new("", format!("{node}-{index}"));
        let spec = json!({
            "driver": NVIDIA, "nodeName": node, "devices": devices,
            "pool": {"name": node, "generation": driven["generation"], "resourceSliceCount": wanted.len()},
        });
        let written = match objects.get(&SLICES, &key) {
            None => objects.create(&who, &SLICES, json!({"metadata": {"name": key.name}, "spec": spec})),
            Some(known) if known["spec"] == spec => continue,
            Some(_) => objects.change(&who, &SLICES, &key, |slice| {
                slice["spec"] = spec;
                Ok(())
            }),
        };
        debug_assert!(written.is_ok(), "nobody else writes slices");
        return;
    }
    for index in wanted.len()..2 {
        let _ = objects.delete(&who, &SLICES, &Key::new("", format!("{node}-{index}")));
    }
}
