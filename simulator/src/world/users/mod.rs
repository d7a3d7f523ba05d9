//! Users. They create, change and delete what they may, and make mistakes.

pub mod claims;
pub mod configurations;
pub mod crowd;
pub mod edits;
pub mod groups;
pub mod keys;
pub mod queues;
pub mod template;
pub mod workloads;

use serde_json::json;

use super::cards;
use super::chance::{number, one, percent, weighted};
use super::pods;
use super::step::Step;
use crate::Dice;
use crate::objects::{
    CONFIG_MAPS, DEPLOYMENTS, JOBS, Key, NAMESPACES, Objects, POD_GROUPS, PODS, Resource, VOLCANO_JOBS,
};

/// A user who works in a namespace.
pub const USER: &str = "user";
/// An administrator of the cluster.
pub const ADMIN: &str = "admin";
/// With this many pods no user creates any more.
const CROWDED: usize = 42;
/// Where users work. One of these namespaces names a queue, and one has opted in to quotas of pods without GPU.
pub const TEAMS: [&str; 3] = ["research", "serving", "batch"];

/// Draws what a user does next.
pub fn draw(dice: &mut Dice, objects: &Objects, beside_volcano: bool) -> Option<Step> {
    let living = objects.list(&PODS).filter(|(_, pod)| pods::is_active(pod)).count();
    if objects.has_devices && percent(dice, 9) {
        return claims::draw(dice, objects).filter(|step| !matches!(step, Step::Create(ADMIN, _)) || living < CROWDED);
    }
    let creates = if living < CROWDED { 60 } else { 0 };
    let what: fn(&mut Dice, &Objects, bool) -> Option<Step> = weighted(
        dice,
        (creates, create as fn(&mut Dice, &Objects, bool) -> Option<Step>),
        &[
            (12, |dice, objects, _| scale(dice, objects)),
            (12, |dice, objects, _| delete(dice, objects)),
            (12, |dice, objects, _| queues::draw(dice, objects)),
            (4, |dice, objects, _| groups::change(dice, objects)),
            (4, |dice, objects, _| namespace(dice, objects)),
            (3, |dice, objects, _| configuration(dice, objects)),
            (8, |dice, objects, _| open(dice, objects)),
        ],
    );
    what(dice, objects, beside_volcano)
}

/// Draws the creation of pods, in one way or another.
fn create(dice: &mut Dice, objects: &Objects, beside_volcano: bool) -> Option<Step> {
    let cards = cards::present(objects);
    let namespace = *one(dice, &TEAMS)?;
    let make = template::Maker {
        cards: &cards,
        objects,
        namespace,
    };
    let volcano = if beside_volcano { 3 } else { 0 };
    let objects = match weighted(dice, (6, 0), &[(5, 1), (3, 2), (3, 3), (5, 4), (volcano, 5)]) {
        0 => workloads::pod(dice, &make),
        1 => workloads::deployment(dice, &make),
        2 => workloads::job(dice, &make),
        3 => workloads::held_job(dice, &make),
        4 => groups::gang(dice, &make),
        _ => groups::volcano_job(dice, &make),
    };
    Some(Step::Create(USER, objects))
}

fn any(dice: &mut Dice, objects: &Objects, of: &[&'static Resource]) -> Option<(&'static Resource, Key)> {
    let all: Vec<_> = of
        .iter()
        .flat_map(|resource| objects.list(resource).map(|(key, _)| (*resource, key.clone())))
        .filter(|(_, key)| TEAMS.contains(&&*key.namespace))
        .collect();
    one(dice, &all).cloned()
}

/// Draws more or fewer replicas of something.
fn scale(dice: &mut Dice, objects: &Objects) -> Option<Step> {
    let (resource, key) = any(dice, objects, &[&DEPLOYMENTS, &JOBS])?;
    let count = number(dice, 0, 5);
    let spec = if resource == &JOBS {
        match number(dice, 0, 3) {
            0 => json!({"suspend": percent(dice, 50)}),
            _ => json!({"parallelism": count}),
        }
    } else if percent(dice, 75) {
        json!({"replicas": count})
    } else {
        json!({"template": {"metadata": {"labels": {"release": objects.version().to_string()}}}})
    };
    Some(Step::Change(USER, resource, key, json!({"spec": spec})))
}

/// Draws the deletion of something.
fn delete(dice: &mut Dice, objects: &Objects) -> Option<Step> {
    let kinds: [&'static Resource; 5] = [&PODS, &DEPLOYMENTS, &JOBS, &POD_GROUPS, &VOLCANO_JOBS];
    let kind = weighted(
        dice,
        (8, kinds[0]),
        &[(4, kinds[1]), (3, kinds[2]), (2, kinds[3]), (2, kinds[4])],
    );
    let (resource, key) = any(dice, objects, &[kind])?;
    Some(Step::Delete(USER, resource, key))
}

/// A namespace begins or ceases to name a queue or to be under `CrossQuota`.
fn namespace(dice: &mut Dice, objects: &Objects) -> Option<Step> {
    let name = *one(dice, &TEAMS)?;
    let patch = if percent(dice, 50) {
        let queue = percent(dice, 60).then(|| queues::any(dice, objects)).flatten();
        json!({"metadata": {"annotations": {"scheduling.volcano.sh/queue-name": queue}}})
    } else {
        let label = percent(dice, 60).then_some("enabled");
        json!({"metadata": {"labels": {"card.volcano.sh/crossquota": label}}})
    };
    Some(Step::Change(ADMIN, &NAMESPACES, Key::new("", name), patch))
}

/// Draws another configuration; sometimes one that can't be read.
fn configuration(dice: &mut Dice, objects: &Objects) -> Option<Step> {
    let data = if percent(dice, 20) {
        configurations::broken(dice)
    } else {
        configurations::sound(dice)
    };
    let key = Key::new("cardgate-system", "cardgate-config");
    objects.get(&CONFIG_MAPS, &key)?;
    Some(Step::Change(ADMIN, &CONFIG_MAPS, key, json!({ "data": data })))
}

/// Another controller releases a pod that it held back.
fn open(dice: &mut Dice, objects: &Objects) -> Option<Step> {
    let held: Vec<_> = objects
        .list(&PODS)
        .filter_map(|(key, pod)| {
            let mut gates = pods::gates(pod);
            let gate = gates.find(|gate| *gate == template::FOREIGN_GATE)?;
            Some(Step::Open(key.clone(), gate.to_owned()))
        })
        .collect();
    one(dice, &held).cloned()
}

/// Draws a queue's name, mostly of one that takes pods.
pub fn name_of_queue(dice: &mut Dice, objects: &Objects) -> String {
    if percent(dice, 2) {
        return "ghost".to_owned();
    }
    queues::any(dice, objects).unwrap_or_else(|| "default".to_owned())
}
