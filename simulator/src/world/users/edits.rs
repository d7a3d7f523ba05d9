//! Users' edits of existing objects, beyond what these were made for: finalizers that keep deleted objects, restrictions of
//! pods to nodes, and phases of groups.

use serde_json::{Value, json};

use super::super::chance::{one, percent, weighted};
use super::super::pods;
use super::super::step::Step;
use super::{TEAMS, USER};
use crate::Dice;
use crate::objects::{Key, Objects, POD_GROUPS, PODS};

/// A finalizer of a pod's author.
pub const HOLD: &str = "users.example.com/hold";
/// Phases that a user may write on a group.
const PHASES: [&str; 4] = ["Pending", "Inqueue", "Running", "Completed"];

/// Draws the next edit.
pub fn draw(dice: &mut Dice, objects: &Objects) -> Option<Step> {
    let what: fn(&mut Dice, &Objects) -> Option<Step> = weighted(
        dice,
        (40, hold),
        &[
            (15, let_go),
            (20, edit_constraints),
            (10, delete_held),
            (15, write_phase),
        ],
    );
    what(dice, objects)
}

/// Returns the pods of the teams for which `is` holds.
fn which(objects: &Objects, is: impl Fn(&Value) -> bool) -> Vec<Key> {
    let mut found = pods::which(objects, is);
    found.retain(|key| TEAMS.contains(&&*key.namespace));
    found
}

fn hold(dice: &mut Dice, objects: &Objects) -> Option<Step> {
    let free = which(objects, |pod| pods::is_active(pod) && !pods::has_finalizer(pod, HOLD));
    // Pods that were let in and have no node come first.
    let unplaced = which(objects, pods::waits_for_place);
    let among = if percent(dice, 60) { unplaced } else { free };
    let key = one(dice, &among)?.clone();
    let mut finalizers = objects.get(&PODS, &key)?["metadata"]["finalizers"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    if finalizers.iter().any(|one| one == HOLD) {
        return None;
    }
    finalizers.push(HOLD.into());
    Some(Step::Change(
        USER,
        &PODS,
        key,
        json!({"metadata": {"finalizers": finalizers}}),
    ))
}

fn let_go(dice: &mut Dice, objects: &Objects) -> Option<Step> {
    let held = which(objects, |pod| pods::has_finalizer(pod, HOLD));
    Some(Step::LetGo(one(dice, &held)?.clone()))
}

fn delete_held(dice: &mut Dice, objects: &Objects) -> Option<Step> {
    let held = which(objects, |pod| pods::has_finalizer(pod, HOLD) && !pods::is_deleted(pod));
    Some(Step::Delete(USER, &PODS, one(dice, &held)?.clone()))
}

/// API servers let users exclude nodes for a pod that has gates, and add tolerations to any pod.
fn edit_constraints(dice: &mut Dice, objects: &Objects) -> Option<Step> {
    let gated = which(objects, |pod| pods::is_active(pod) && pods::gates(pod).next().is_some());
    let key = one(dice, &gated)?.clone();
    let pod = objects.get(&PODS, &key)?;
    let spec = if percent(dice, 50) && pod["spec"]["nodeSelector"]["topology.kubernetes.io/zone"].is_null() {
        json!({"nodeSelector": {"topology.kubernetes.io/zone": one(dice, &["zone-a", "zone-b"])?}})
    } else {
        let mut tolerations = pod["spec"]["tolerations"].as_array().cloned().unwrap_or_default();
        tolerations.push(json!({"key": "dedicated", "operator": "Exists"}));
        json!({ "tolerations": tolerations })
    };
    Some(Step::Change(USER, &PODS, key, json!({ "spec": spec })))
}

fn write_phase(dice: &mut Dice, objects: &Objects) -> Option<Step> {
    let groups = objects.list(&POD_GROUPS).map(|(key, _)| key.clone());
    let groups: Vec<_> = groups.filter(|key| TEAMS.contains(&&*key.namespace)).collect();
    let key = one(dice, &groups)?.clone();
    let phase = *one(dice, &PHASES)?;
    Some(Step::Change(
        USER,
        &POD_GROUPS,
        key,
        json!({"status": {"phase": phase}}),
    ))
}
