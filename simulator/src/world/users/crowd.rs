//! A crowd: queues are filled above what they deserve, then others beside them ask for what is theirs, so that much is taken back.
//!
//! All of it is about few cards, of which there is less than is asked for: in a cluster that is idle nobody has to give anything.

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

/// With so many pods nobody comes any more before others have left.
const FULL: usize = 48;
/// Of less than so many cards there is little to take back.
const FEW: i64 = 6;
/// With so many nodes no more are added.
const MOST_NODES: usize = 8;
/// How the names of all begin that are part of a crowd.
const CROWD: &str = "crowd";

/// What a crowd is about.
struct Crowd<'a> {
    objects: &'a Objects,
    card: Card,
    /// How many of them nodes have.
    total: i64,
    namespace: &'static str,
}

/// What happens next in a crowd, one thing after the other.
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
        // What devices are is known to those alone who claim them, and shares are no whole numbers of cards.
        cards.retain(|card| !card.is_shared() && CARDS.contains(card) && total(objects, card) > 0);
        // Who is to be in the way of others asks for the same as they do.
        let most = cards.iter().max_by_key(|card| total(objects, card))?;
        let card = *(if percent(dice, 75) { most } else { one(dice, &cards)? });
        // Whom somebody makes room for is named in his own namespace alone.
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

    /// Those of them that may have the card.
    fn takers(&self) -> Vec<(&'static str, &'a Value)> {
        let may_have = |queue: &Value| queues::counts(queue, CARD_QUOTA).get(self.card.name) > Some(&0);
        let is_open = |queue: &Value| queue["status"]["state"] != "Closed";
        self.teams()
            .filter(|(_, queue)| may_have(queue) && is_open(queue))
            .collect()
    }

    /// How many of the card the pods have that were let into a queue.
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

    /// What pods are made of that ask for so many of the card in a queue.
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

    /// A name that nobody else has.
    fn name(&self) -> String {
        format!("{CROWD}-{}", self.objects.version())
    }

    /// So many pods that nobody makes anew.
    fn pods(&self, template: &Value, count: i64) -> Vec<(&'static Resource, Value)> {
        let pod = |index: i64| {
            let mut pod = template.clone();
            pod["metadata"]["name"] = format!("{}-{index}", self.name()).into();
            pod["metadata"]["namespace"] = self.namespace.into();
            (&PODS, pod)
        };
        (0..count).map(pod).collect()
    }

    /// Who was let in gets a place, and who was evicted is gone, before others come.
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

/// How many of a card nodes have.
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

/// Somebody keeps many pods running in a queue, as many as it may have.
fn fill(dice: &mut Dice, crowd: &Crowd<'_>) -> Vec<Step> {
    let mut takers = crowd.takers();
    // The others have something to ask for then.
    let borrows = |(name, queue): &(&'static str, &Value)| crowd.held(name) >= deserved(queue, &crowd.card);
    if percent(dice, 70) && takers.iter().any(borrows) {
        takers.retain(borrows);
    }
    let Some((queue, _)) = one(dice, &takers) else {
        return Vec::new();
    };
    // Who has two may have to give one of them alone, which nobody can.
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

/// Somebody asks for what a queue deserves and has not; or for one more than that.
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
        // One by itself, for all of it.
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

/// All of them together, or none.
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

/// Somebody comes who goes first in a queue that has something.
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

/// Somebody has had enough.
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
