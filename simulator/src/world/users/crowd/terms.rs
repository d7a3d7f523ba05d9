//! The rules for a crowd: what queues may have, deserve and are guaranteed, and that borrowed cards are reclaimed.

use std::collections::BTreeSet;

use crds::keys::{CARD_DESERVED, CARD_GUARANTEE, CARD_QUOTA, CONFIG_MAP, NAMESPACE};
use serde_json::{Value, json};

use super::super::super::chance::{number, one, percent};
use super::super::super::step::Step;
use super::super::{ADMIN, configurations, queues};
use super::Crowd;
use crate::Dice;
use crate::objects::{CONFIG_MAPS, Key, Objects, QUEUES};

/// Whether borrowed cards are reclaimed, as far as the text of the configuration says.
pub fn is_taken_back(objects: &Objects) -> bool {
    let map = objects.get(&CONFIG_MAPS, &Key::new(NAMESPACE, CONFIG_MAP));
    let text = map.and_then(|map| map["data"]["volcano-scheduler.conf"].as_str());
    text.is_some_and(|text| text.contains("reclaim,") || text.contains("reclaim\""))
}

/// Returns a configuration under which borrowed cards are reclaimed.
pub fn configuration(dice: &mut Dice, objects: &Objects) -> Option<Step> {
    let key = Key::new(NAMESPACE, CONFIG_MAP);
    objects.get(&CONFIG_MAPS, &key)?;
    let mut data = configurations::sound(dice);
    let text = data["volcano-scheduler.conf"].as_str()?;
    let (_, rest) = text.split_once('\n')?;
    data["volcano-scheduler.conf"] =
        format!("actions: \"enqueue, allocate, backfill, reclaim, preempt\"\n{rest}").into();
    Some(Step::Change(ADMIN, &CONFIG_MAPS, key, json!({ "data": data })))
}

/// Returns what a queue then says of the card.
fn saying(crowd: &Crowd<'_>, queue: &Value, says: &[(&str, Option<i64>)]) -> Value {
    let mut annotations = json!({});
    for (key, amount) in says {
        let mut counts = queues::counts(queue, key);
        match amount {
            Some(amount) => counts.insert(crowd.card.name.to_owned(), *amount),
            None => counts.remove(crowd.card.name),
        };
        annotations[*key] = json!(counts).to_string().into();
    }
    json!({"metadata": {"annotations": annotations}})
}

/// Queues with the same parent say that each may have everything, and deserves a part. Their parent says the same.
pub fn say(dice: &mut Dice, crowd: &Crowd<'_>) -> Vec<Step> {
    let parents: Vec<_> = crowd
        .teams()
        .map(|(_, queue)| queue["spec"]["parent"].as_str().unwrap_or_default().to_owned())
        .collect::<BTreeSet<_>>()
        .into_iter()
        .collect();
    let Some(parent) = one(dice, &parents) else {
        return Vec::new();
    };
    let mut steps: Vec<_> = above(dice, crowd, parent).into_iter().rev().collect();
    let siblings: Vec<_> = crowd
        .teams()
        .filter(|(_, queue)| queue["spec"]["parent"].as_str().unwrap_or_default() == parent)
        .collect();
    let fair = crowd.total / i64::try_from(siblings.len()).unwrap_or(1).max(1);
    for (name, queue) in siblings {
        let all = (crowd.total - i64::from(percent(dice, 15))).max(0);
        // Together they deserve more than there is, or less; and sometimes less than is guaranteed.
        let deserves = (fair + number(dice, -1, 3)).clamp(0, all);
        let kept = i64::from(percent(dice, 30)).min(all);
        let says = [
            (CARD_QUOTA, Some(all)),
            (CARD_DESERVED, Some(deserves)),
            (CARD_GUARANTEE, Some(kept)),
        ];
        let mut patch = saying(crowd, queue, &says);
        let cpu = percent(dice, 20).then(|| json!({"cpu": number(dice, 2, 12).to_string()}));
        patch["spec"] = json!({
            "capability": {"cpu": "48", "memory": "200Gi", "pods": null}, "deserved": cpu, "guarantee": null,
            "reclaimable": percent(dice, 95),
        });
        let key = Key::new("", name);
        if queue["status"]["state"] == "Closed" {
            let open = json!({"status": {"state": "Open"}});
            steps.push(Step::Change("volcano-controllers", &QUEUES, key.clone(), open));
        }
        steps.push(Step::Change(ADMIN, &QUEUES, key, patch));
    }
    steps
}

/// Gives a queue and the queues above it room for what the queues below them say, from the inside out.
fn above(dice: &mut Dice, crowd: &Crowd<'_>, queue: &str) -> Vec<Step> {
    let (mut steps, mut name) = (Vec::new(), queue.to_owned());
    // Queues may be above themselves.
    for _ in 0..2 {
        let key = Key::new("", &*name);
        let Some(queue) = crowd.objects.get(&QUEUES, &key) else {
            break;
        };
        // What is guaranteed to a queue, no other queue borrows, so none gives it back.
        let kept = (crowd.total / 6).max(1);
        // What queues deserve is also compared where two branches part. A queue that says nothing there gives nothing.
        let deserves = percent(dice, 75).then(|| number(dice, 0, crowd.total / 2 + 1));
        let says = [
            (CARD_QUOTA, Some(crowd.total)),
            (CARD_DESERVED, deserves),
            (CARD_GUARANTEE, percent(dice, 60).then_some(kept)),
        ];
        let mut patch = saying(crowd, queue, &says);
        patch["spec"] = json!({"capability": {"cpu": "64", "memory": "400Gi", "pods": null}, "deserved": null});
        steps.push(Step::Change(ADMIN, &QUEUES, key, patch));
        queue["spec"]["parent"]
            .as_str()
            .unwrap_or_default()
            .clone_into(&mut name);
    }
    steps
}

/// Changes a queue's guarantee, so that its siblings may have less or more.
pub fn guarantee(dice: &mut Dice, crowd: &Crowd<'_>) -> Vec<Step> {
    let takers = crowd.takers();
    let Some((name, queue)) = one(dice, &takers) else {
        return Vec::new();
    };
    let most = queues::counts(queue, CARD_QUOTA).get(crowd.card.name).copied();
    let kept = number(dice, 0, crowd.total / 4 + 2).min(most.unwrap_or(0));
    let mut says = vec![(CARD_GUARANTEE, Some(kept))];
    if percent(dice, 30) {
        says.push((CARD_DESERVED, Some(number(dice, 0, most.unwrap_or(0) + 1))));
    }
    let patch = saying(crowd, queue, &says);
    vec![Step::Change(ADMIN, &QUEUES, Key::new("", *name), patch)]
}
