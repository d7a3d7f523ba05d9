//! Queues: what they may have, what they deserve, and which queue they are a part of.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::super::cards::{self, Card};
use super::super::chance::{number, one, percent};
use super::super::step::Step;
use super::ADMIN;
use crate::Dice;
use crate::objects::{Key, Objects, QUEUES};

/// The annotation with the cards that a queue may have.
const QUOTA: &str = "volcano.sh/card.quota";
/// The annotation with the cards that are kept free for a queue.
const GUARANTEE: &str = "volcano.sh/card.guarantee";
/// Queues with queues below them.
pub const DEPARTMENTS: [&str; 2] = ["dept-a", "dept-b"];
/// A part of a department, with teams below it, in some worlds.
pub const UNIT: &str = "unit-a";
/// All other queues. Each has candidates for its parent, of which the first that exists is taken.
pub const TEAMS: [(&str, &[&str]); 7] = [
    ("team-1", &[UNIT, "dept-a"]),
    ("team-5", &[UNIT, "dept-a"]),
    ("team-2", &["dept-a"]),
    ("team-3", &["dept-b"]),
    ("team-4", &["dept-b"]),
    ("solo", &[]),
    ("default", &[]),
];
/// The queues that the unit may be a part of.
pub const ABOVE_UNIT: &[&str] = &["dept-a"];

/// Returns the first of these queues that exists.
pub fn first_there(objects: &Objects, names: &[&'static str]) -> Option<(&'static str, Arc<Value>)> {
    let mut found = names
        .iter()
        .filter_map(|name| Some((*name, Arc::clone(objects.get(&QUEUES, &Key::new("", *name))?))));
    found.next()
}

/// Returns a queue as its owner writes it, within what the queue above it has.
pub fn queue(dice: &mut Dice, name: &str, above: Option<(&str, &Value)>, cards: &[Card]) -> Value {
    let is_department = DEPARTMENTS.contains(&name);
    let is_inner = is_inner(name);
    let (most, cpu) = if is_inner { (7, (16, 48)) } else { (4, (3, 20)) };
    let above_cards = above.map(|(_, queue)| counts(queue, QUOTA)).unwrap_or_default();
    let guarantee_above = above.map(|(_, queue)| counts(queue, GUARANTEE));
    let above_guarantee = |card: &str| Some(guarantee_above.as_ref()?.get(card).copied().unwrap_or(0));
    let (mut quota, mut deserved, mut guarantee) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    for card in cards {
        if !percent(dice, if is_inner { 90 } else { 75 }) {
            continue;
        }
        let unit = if card.is_shared() { 50 } else { 1 };
        let more = if card.resource.contains("shared") || card.resource.contains("mig") {
            2
        } else {
            1
        };
        let drawn = number(dice, i64::from(is_inner) * 2, most * more + 1) * unit;
        let count = above_cards.get(card.name).map_or(drawn, |limit| drawn.min(*limit));
        quota.insert(card.name, count);
        if percent(dice, 50) {
            deserved.insert(card.name, number(dice, 0, count / unit + 1) * unit);
        }
        if percent(dice, if is_inner { 60 } else { 15 }) {
            let kept = count.min(if is_department { 2 } else { 1 } * unit);
            // The unit is to be valid, so it is guaranteed no more than its department.
            let most = if is_inner { above_guarantee(card.name) } else { None };
            guarantee.insert(card.name, most.map_or(kept, |most| kept.min(most)));
        }
    }
    let above_cpu = above.and_then(|(_, queue)| queue["spec"]["capability"]["cpu"].as_str()?.parse::<i64>().ok());
    let drawn = number(dice, cpu.0, cpu.1);
    let cpu = above_cpu.map_or(drawn, |limit| drawn.min(limit));
    let memory = if is_inner { 200 } else { number(dice, 16, 100) };
    let mut spec = json!({
        "weight": 1, "reclaimable": percent(dice, 90), "priority": number(dice, 0, 3),
        "capability": {"cpu": cpu.to_string(), "memory": format!("{memory}Gi")},
    });
    if percent(dice, 10) {
        spec["capability"]["pods"] = number(dice, 2, 12).to_string().into();
    }
    if percent(dice, 8) {
        spec["capability"] = json!({});
    }
    if percent(dice, 45) {
        spec["deserved"] = json!({"cpu": number(dice, 0, cpu + 1).to_string()});
    }
    if percent(dice, if is_department { 60 } else { 25 }) {
        let kept = if is_department { 4 } else { 1 };
        spec["guarantee"] = json!({"resource": {"cpu": cpu.min(kept).to_string()}});
    }
    if let Some((parent, _)) = above {
        spec["parent"] = parent.into();
    }
    let mut annotations = json!({});
    for (key, counts) in [
        (QUOTA, quota),
        ("volcano.sh/card.deserved", deserved),
        (GUARANTEE, guarantee),
    ] {
        if !counts.is_empty() {
            annotations[key] = json!(counts).to_string().into();
        }
    }
    if percent(dice, 5) {
        annotations["card.volcano.sh/namespaces"] = "team in (research,batch)".into();
    }
    json!({"metadata": {"name": name, "annotations": annotations}, "spec": spec})
}

fn is_inner(name: &str) -> bool {
    name == UNIT || DEPARTMENTS.contains(&name)
}

/// Returns the counts of cards that an annotation names.
pub fn counts(queue: &Value, key: &str) -> BTreeMap<String, i64> {
    let text = queue["metadata"]["annotations"][key].as_str().unwrap_or("{}");
    serde_json::from_str(text).unwrap_or_default()
}

/// Draws a queue that takes pods; rarely one with queues below it.
pub fn any(dice: &mut Dice, objects: &Objects) -> Option<String> {
    let takes_inner = percent(dice, 3);
    let names: Vec<_> = objects
        .list(&QUEUES)
        .map(|(key, _)| key.name.clone())
        .filter(|name| takes_inner || !is_inner(name))
        .collect();
    one(dice, &names).cloned()
}

/// Draws the creation, change, closing, opening or deletion of a queue.
pub fn draw(dice: &mut Dice, objects: &Objects) -> Option<Step> {
    let (name, above) = match number(dice, 0, 100) {
        0..22 => (*one(dice, &DEPARTMENTS)?, &[][..]),
        22..30 => (UNIT, ABOVE_UNIT),
        _ => *one(dice, &TEAMS)?,
    };
    let key = Key::new("", name);
    let fresh = |dice: &mut Dice| {
        let parent = first_there(objects, above);
        let parent = parent.as_ref().map(|(name, queue)| (*name, &**queue));
        queue(dice, name, parent, &cards::present(objects))
    };
    let Some(now) = objects.get(&QUEUES, &key) else {
        return Some(Step::Create(ADMIN, vec![(&QUEUES, fresh(dice))]));
    };
    Some(match number(dice, 0, 20) {
        0 => Step::Delete(ADMIN, &QUEUES, key),
        1 | 2 if now["status"]["state"] != "Closed" => Step::Change(
            "volcano-controllers",
            &QUEUES,
            key,
            json!({"status": {"state": "Closed"}}),
        ),
        1..=4 => Step::Change(
            "volcano-controllers",
            &QUEUES,
            key,
            json!({"status": {"state": "Open"}}),
        ),
        // One number goes up or down, as in most changes.
        5..=14 => {
            let counts = counts(now, QUOTA);
            let cards: Vec<_> = counts.into_iter().collect();
            let Some((card, count)) = one(dice, &cards) else {
                return Some(Step::Change(
                    ADMIN,
                    &QUEUES,
                    key,
                    json!({"spec": {"capability": {"cpu": "8"}}}),
                ));
            };
            let mut counts = super::queues::counts(now, QUOTA);
            let unit = if card.ends_with("/mgpu") { 50 } else { 1 };
            counts.insert(card.clone(), (count + number(dice, -2, 4) * unit).max(0));
            let patch = json!({"metadata": {"annotations": {QUOTA: json!(counts).to_string()}}});
            Step::Change(ADMIN, &QUEUES, key, patch)
        }
        15 => Step::Change(
            ADMIN,
            &QUEUES,
            key,
            json!({"metadata": {"annotations": {QUOTA: "{\"NVIDIA-A100\": 1.5}"}}}),
        ),
        16 => Step::Change(
            ADMIN,
            &QUEUES,
            key,
            json!({"spec": {"parent": one(dice, &["dept-a", "dept-b", UNIT, "root", "nobody"])}}),
        ),
        _ => {
            let queue = fresh(dice);
            let patch = json!({"metadata": {"annotations": queue["metadata"]["annotations"]}, "spec": queue["spec"]});
            Step::Change(ADMIN, &QUEUES, key, patch)
        }
    })
}
