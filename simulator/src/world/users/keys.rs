//! Rarely used keys of the configuration: the queue of pods that name none, the root queue, who moves groups from phase to
//! phase, and which plugins there are at all.

use crds::keys::{CONFIG_MAP, NAMESPACE};
use serde_json::{Value, json};

use super::super::chance::{one, weighted};
use super::super::step::Step;
use super::ADMIN;
use crate::Dice;
use crate::objects::{CONFIG_MAPS, Key, Objects};

/// The key that Volcano's scheduler reads too.
const SCHEDULER: &str = "volcano-scheduler.conf";
/// The key that only Cardgate reads.
const OWN: &str = "cardgate.yaml";

/// Draws the current configuration with one of these keys changed.
pub fn draw(dice: &mut Dice, objects: &Objects) -> Option<Step> {
    let key = Key::new(NAMESPACE, CONFIG_MAP);
    let data = &objects.get(&CONFIG_MAPS, &key)?["data"];
    let what: fn(&mut Dice, &Value) -> Option<Value> = weighted(
        dice,
        (30, default_queue),
        &[(25, root_queue), (25, enqueue), (20, no_plugin)],
    );
    let data = what(dice, data)?;
    Some(Step::Change(ADMIN, &CONFIG_MAPS, key, json!({ "data": data })))
}

/// Returns the text with exactly one line for this key, with this value.
fn with(text: &str, key: &str, value: &str) -> String {
    let others = text.lines().filter(|line| !line.starts_with(&format!("{key}:")));
    let own = format!("{key}: {value}");
    let lines: Vec<_> = others.chain([&*own]).collect();
    lines.join("\n") + "\n"
}

fn own(data: &Value, key: &str, value: &str) -> Option<Value> {
    Some(json!({OWN: with(data[OWN].as_str()?, key, value)}))
}

fn default_queue(dice: &mut Dice, data: &Value) -> Option<Value> {
    own(
        data,
        "defaultQueue",
        one(dice, &["default", "solo", "team-2", "ghost"])?,
    )
}

/// Nobody else sets phases in these worlds, so groups wait for a phase that nobody sets.
fn enqueue(dice: &mut Dice, data: &Value) -> Option<Value> {
    own(data, "enqueue", one(dice, &["false", "false", "true"])?)
}

fn root_queue(dice: &mut Dice, data: &Value) -> Option<Value> {
    const HIERARCHY: &str = "        enableHierarchy: true\n";
    let text = data[SCHEDULER].as_str()?;
    let lines: String = text
        .split_inclusive('\n')
        .filter(|line| !line.trim_start().starts_with("rootQueue:"))
        .collect();
    let root = one(dice, &["root", "dept-a", "dept-b"])?;
    let (before, after) = lines.split_once(HIERARCHY)?;
    Some(json!({SCHEDULER: format!("{before}{HIERARCHY}        rootQueue: {root}\n{after}")}))
}

/// With actions alone the defaults apply. With plugins but none for queues, queues limit nothing.
fn no_plugin(dice: &mut Dice, data: &Value) -> Option<Value> {
    let text = data[SCHEDULER].as_str()?;
    let actions = text.lines().find(|line| line.starts_with("actions:"))?;
    let tiers = one(
        dice,
        &["", "tiers: []\n", "tiers:\n- plugins:\n    - name: predicates\n"],
    )?;
    Some(json!({SCHEDULER: format!("{actions}\n{tiers}")}))
}
