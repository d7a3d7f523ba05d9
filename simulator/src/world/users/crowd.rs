//! A crowd. Queues are filled above what they deserve; then queues beside them ask for their share, so that much is
//! reclaimed.
//!
//! A crowd is about few cards, of which there are fewer than are asked for. In an idle cluster nothing has to be given back.

mod terms;

use crds::keys::{
    CARD_ASSIGNED, CARD_DESERVED, CARD_NAME, CARD_QUOTA, CARD_REQUEST, GROUP_NAME, QUEUE_LABEL, QUEUE_NAME,
};
use serde_json::{Value, json};

use super::super::cards::{CARDS, Card, present};
use super::super::chance::{number, one, percent, weighted};
use super::super::step::Step;
use super::super::{kubelets, nodes, pods};
use super::{ADMIN, TEAMS, USER, queues, template, workloads};
use crate::Dice;
use crate::objects::{DEPLOYMENTS, JOBS, Key, NODES, Objects, POD_GROUPS, PODS, QUEUES, Resource};

/// With this many pods no more come before others have left.
const FULL: usize = 48;
/// With fewer cards than this there is little to reclaim.
const FEW: i64 = 6;
/// With this many nodes no more are added.
const MOST_NODES: usize = 8;
/// The prefix of the names of all objects of a crowd.
const CROWD: &str = "crowd";

/// What a crowd is about.
struct Crowd<'a> {
    objects: &'a Objects,
    card: Card,
    /// How many of the card the nodes have.
    total: i64,
    namespace: &'static str,
}

/// Draws what a crowd does next, one thing after the other.
pub fn draw(dice: &mut Dice, objects: &Objects) -> Vec<Step> {
    let Some(crowd) = Crowd::new(dice, objects) else {
        return Vec::new();
    };
    if !terms::is_taken_back(objects) && percent(dice, 50) {
        return terms::configuration(dice, objects).into_iter().collect();
    }
    if crowd.total < FEW && objects.list(&NODES).count() < MOST_NODES && percent(dice, 30) {
        let name = crowd.name();
        let node = nodes::node(dice, nodes::Model::A100, &name);
        return vec![Step::Create(ADMIN, vec![(&NODES, node)])];
    }
    let are_said = crowd.teams().any(|(_, queue)| deserved(queue, &crowd.card) > 0);
    let living = objects.list(&PODS).filter(|(_, pod)| pods::is_active(pod)).count();
    let (comes, goes) = if living < FULL { (30, 6) } else { (0, 30) };
    let what: fn(&mut Dice, &Crowd<'_>) -> Vec<Step> = weighted(
        dice,
        (if are_said { 18 } else { 60 }, terms::say),
        &[
            (comes, fill),
            (comes, claim),
            (comes / 3, outrank),
            (5, terms::guarantee),
            (goes, leave),
        ],
    );
    let mut steps = what(dice, &crowd);
    steps.extend(crowd.hurry(dice));
    steps
}

impl<'a> Crowd<'a> {
    fn new(dice: &mut Dice, objects: &'a Objects) -> Option<Self> {
        let mut cards = present(objects);
        // Only pods that claim devices know what they are, and shares are no whole numbers of cards.
        cards.retain(|card| !card.is_shared() && CARDS.contains(card) && total(objects, card) > 0);
        // Pods that are to compete ask for the same card.
        let most = cards.iter().max_by_key(|card| total(objects, card))?;
        let card = *(if percent(dice, 75) { most } else { one(dice, &cards)? });
        // The pod that room is made for is named only to its own namespace.
        let namespace = if percent(dice, 80) {
            TEAMS[0]
        } else {
            one(dice, &TEAMS).copied().unwrap_or(TEAMS[0])
        };
        Some(Self {
            objects,
            card,
            total: total(objects, &card),
            namespace,
        })
    }

    /// The queues that take pods.
    fn teams(&self) -> impl Iterator<Item = (&'static str, &'a Value)> {
        let objects = self.objects;
        let names = queues::TEAMS.into_iter().map(|(name, _)| name);
        names.filter_map(move |name| Some((name, &**objects.get(&QUEUES, &Key::new("", name))?)))
    }

    /// Those of these queues that may have the card.
    fn takers(&self) -> Vec<(&'static str, &'a Value)> {
        let may_have = |queue: &Value| queues::counts(queue, CARD_QUOTA).get(self.card.name) > Some(&0);
        let is_open = |queue: &Value| queue["status"]["state"] != "Closed";
        self.teams()
            .filter(|(_, queue)| may_have(queue) && is_open(queue))
            .collect()
    }

    /// How many of the card the pods hold that were let into a queue.
    fn held(&self, queue: &str) -> i64 {
        let pods = self.objects.list(&PODS).filter(|(_, pod)| {
            let metadata = &pod["metadata"];
            pods::is_active(pod)
                && metadata["labels"][QUEUE_LABEL] == queue
                && metadata["annotations"][CARD_ASSIGNED] == self.card.name
        });
        pods.map(|(_, pod)| count(&pod["spec"]["containers"][0]["resources"]["limits"][self.card.resource]))
            .sum()
    }

    /// Returns a template of pods that ask for this many of the card in a queue.
    fn template(&self, dice: &mut Dice, queue: &str, count: i64) -> Value {
        let mut resources = json!({"cpu": one(dice, &["100m", "250m", "500m"]), "memory": "64Mi"});
        resources[self.card.resource] = count.to_string().into();
        let annotations = json!({QUEUE_NAME: queue, CARD_NAME: self.card.name});
        json!({
            "metadata": {"annotations": annotations, "labels": {}},
            "spec": {
                "containers": [template::container("c0", &resources)], "restartPolicy": "Always",
                "schedulerName": "default-scheduler", "priority": 0, "terminationGracePeriodSeconds": 30,
                "tolerations": [
                    {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute",
                        "tolerationSeconds": 300},
                    {"key": "dedicated", "operator": "Exists"},
                ],
            },
        })
    }

    /// Returns a name that no other object has.
    fn name(&self) -> String {
        format!("{CROWD}-{}", self.objects.version())
    }

    /// Returns so many pods without a controller.
    fn pods(&self, template: &Value, count: i64) -> Vec<(&'static Resource, Value)> {
        let pod = |index: i64| {
            let mut pod = template.clone();
            pod["metadata"]["name"] = format!("{}-{index}", self.name()).into();
            pod["metadata"]["namespace"] = self.namespace.into();
            (&PODS, pod)
        };
        (0..count).map(pod).collect()
    }

    /// Admitted pods get a node, and evicted pods are removed, before other pods come.
    fn hurry(&self, dice: &mut Dice) -> Vec<Step> {
        let to_place = pods::which(self.objects, pods::waits_for_place);
        let mut to_stop = pods::which(self.objects, pods::is_deleted);
        to_stop.retain(|key| kubelets::has_to_stop(self.objects, key));
        let placed = to_place.into_iter().map(|key| Step::Schedule(key, 0));
        let stopped = to_stop.into_iter().map(Step::Stop);
        placed.chain(stopped).filter(|_| percent(dice, 40)).collect()
    }

    fn deployment(&self, mut template: Value, name: &str, replicas: i64) -> Value {
        template["metadata"]["labels"]["app"] = name.into();
        let maker = template::Maker {
            cards: &[],
            objects: self.objects,
            namespace: self.namespace,
        };
        workloads::deployment_of(&maker, name, replicas, &template)
    }
}

/// Returns how many of a card the nodes have.
fn total(objects: &Objects, card: &Card) -> i64 {
    let (label, product) = card.product;
    let nodes = objects
        .list(&NODES)
        .filter(|(_, node)| node["metadata"]["labels"][label] == product);
    nodes
        .map(|(_, node)| count(&node["status"]["allocatable"][card.resource]))
        .sum()
}

fn count(amount: &Value) -> i64 {
    amount.as_str().and_then(|text| text.parse().ok()).unwrap_or(0)
}

fn deserved(queue: &Value, card: &Card) -> i64 {
    queues::counts(queue, CARD_DESERVED)
        .get(card.name)
        .copied()
        .unwrap_or(0)
}

/// A user keeps many pods running in a queue, as many as it may have.
fn fill(dice: &mut Dice, crowd: &Crowd<'_>) -> Vec<Step> {
    let mut takers = crowd.takers();
    // Then the other queues have something to ask for.
    let borrows = |(name, queue): &(&'static str, &Value)| crowd.held(name) >= deserved(queue, &crowd.card);
    if percent(dice, 70) && takers.iter().any(borrows) {
        takers.retain(borrows);
    }
    let Some((queue, _)) = one(dice, &takers) else {
        return Vec::new();
    };
    // A pod with two cards might have to give back one of them, which is impossible.
    let each = weighted(dice, (5, 1), &[(4, 2), (1, 3)]);
    let template = crowd.template(dice, queue, each);
    let count = number(dice, 2, 6);
    let created = if percent(dice, 70) {
        crowd.pods(&template, count)
    } else {
        vec![(&DEPLOYMENTS, crowd.deployment(template, &crowd.name(), count))]
    };
    vec![Step::Create(USER, created)]
}

/// A user asks for what a queue deserves and does not have, or for one more than that.
fn claim(dice: &mut Dice, crowd: &Crowd<'_>) -> Vec<Step> {
    let lacking = |(name, queue): &(&'static str, &Value)| deserved(queue, &crowd.card) - crowd.held(name);
    let mut takers = crowd.takers();
    if percent(dice, 85) {
        takers.retain(|taker| lacking(taker) > 0);
    }
    let Some(taker) = one(dice, &takers) else {
        return Vec::new();
    };
    let more = i64::from(percent(dice, 30));
    let (queue, asked) = (taker.0, (lacking(taker) + more).clamp(1, 5));
    let asked = if percent(dice, 40) {
        number(dice, 1, asked + 1)
    } else {
        asked
    };
    let priority = weighted(dice, (6, 0), &[(3, 10), (1, 100)]);
    let name = crowd.name();
    let mut template = crowd.template(dice, queue, 1);
    template["spec"]["priority"] = priority.into();
    let created = match number(dice, 0, 10) {
        // One pod alone, for all of it.
        0..3 => {
            let mut all = crowd.template(dice, queue, asked.min(3));
            all["spec"]["priority"] = priority.into();
            crowd.pods(&all, 1)
        }
        3..6 => crowd.pods(&template, asked),
        6 => vec![(&DEPLOYMENTS, crowd.deployment(template, &name, asked))],
        7 => {
            template["metadata"]["labels"]["job-name"] = name.as_str().into();
            template["spec"]["restartPolicy"] = "Never".into();
            let spec = json!({"parallelism": asked, "completions": asked, "backoffLimit": 6, "template": template});
            let job = json!({"metadata": {"namespace": crowd.namespace, "name": name}, "spec": spec});
            vec![(&JOBS, job)]
        }
        _ => gang(dice, crowd, queue, &name, template, asked),
    };
    vec![Step::Create(USER, created)]
}

/// A gang: all pods together, or none.
fn gang(
    dice: &mut Dice,
    crowd: &Crowd<'_>,
    queue: &str,
    name: &str,
    mut template: Value,
    members: i64,
) -> Vec<(&'static Resource, Value)> {
    template["metadata"]["annotations"][GROUP_NAME] = name.into();
    let mut group = json!({
        "metadata": {"namespace": crowd.namespace, "name": name, "annotations": {}},
        "spec": {"minMember": (members - i64::from(percent(dice, 20))).max(1), "queue": queue},
    });
    if percent(dice, 60) {
        let request = json!({crowd.card.name: members}).to_string();
        group["metadata"]["annotations"][CARD_REQUEST] = request.into();
    }
    let mut created = vec![(&POD_GROUPS, group)];
    created.extend(crowd.pods(&template, members));
    created
}

/// A pod comes that goes first in a queue that has something.
fn outrank(dice: &mut Dice, crowd: &Crowd<'_>) -> Vec<Step> {
    let mut takers = crowd.takers();
    takers.retain(|(name, _)| crowd.held(name) > 0);
    let Some((queue, _)) = one(dice, &takers) else {
        return Vec::new();
    };
    let each = weighted(dice, (3, 1), &[(2, 2)]);
    let mut template = crowd.template(dice, queue, each);
    template["spec"]["priority"] = one(dice, &[10, 100]).copied().unwrap_or(100).into();
    if percent(dice, 20) {
        template["spec"]["preemptionPolicy"] = "Never".into();
    }
    vec![Step::Create(USER, crowd.pods(&template, 1))]
}

/// A user gives up.
fn leave(dice: &mut Dice, crowd: &Crowd<'_>) -> Vec<Step> {
    let kinds = [&DEPLOYMENTS, &JOBS, &PODS];
    let all = kinds
        .into_iter()
        .flat_map(|kind| crowd.objects.list(kind).map(move |(key, object)| (kind, key, object)));
    let own = all.filter(|(_, key, object)| {
        key.name.starts_with(CROWD) && !pods::is_deleted(object) && object["metadata"]["ownerReferences"].is_null()
    });
    let own: Vec<_> = own.map(|(kind, key, _)| (kind, key.clone())).collect();
    one(dice, &own)
        .map(|(kind, key)| Step::Delete(USER, kind, key.clone()))
        .into_iter()
        .collect()
}
