//! A small world: nodes with cards of one kind, a queue with a quota, and pods that come and go.

use std::sync::Arc;

use crds::keys::{CARD_NAME, CARD_QUOTA, GATE, QUEUE_NAME};
use rand::RngExt as _;
use serde_json::json;

use crate::Dice;
use crate::objects::{Key, NAMESPACES, NODES, Objects, PODS, QUEUES};

const CARD: &str = "NVIDIA-A100";
/// What the queue may have.
pub const QUOTA: usize = 5;

/// What happens in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// A pod is created.
    Come(u32),
    /// A pod ends.
    Go(String),
    /// The scheduler and the kubelets do what there is to do.
    Work,
}

/// The world.
pub struct World;

impl World {
    /// Makes what there is at the beginning.
    pub fn new(_dice: &mut Dice, objects: &mut Objects) -> Self {
        let user = Arc::<str>::from("user");
        let mut made = Vec::new();
        made.push(objects.create(&user, &NAMESPACES, json!({"metadata": {"name": "cardgate-system"}})));
        made.push(objects.create(&user, &NAMESPACES, json!({"metadata": {"name": "team"}})));
        for number in 0..2 {
            let node = json!({
                "metadata": {"name": format!("gpu-{number}"), "labels": {"nvidia.com/gpu.product": CARD, "nvidia.com/gpu.memory": "81920"}},
                "spec": {},
                "status": {
                    "allocatable": {"cpu": "64", "memory": "256Gi", "pods": "110", "nvidia.com/gpu": "4"},
                    "conditions": [{"type": "Ready", "status": "True"}],
                },
            });
            made.push(objects.create(&user, &NODES, node));
        }
        let queue = json!({
            "metadata": {"name": "team-a", "annotations": {CARD_QUOTA: json!({CARD: QUOTA}).to_string()}},
            "spec": {"capability": {"cpu": "1000", "memory": "1000Gi"}},
        });
        made.push(objects.create(&user, &QUEUES, queue));
        for made in made {
            if let Err(refusal) = made {
                tracing::error!(?refusal, "the world can't be made");
            }
        }
        Self
    }

    /// Draws what happens next.
    pub fn draw(&self, dice: &mut Dice, objects: &Objects) -> Step {
        match dice.random_range(0..10) {
            0..4 => Step::Come(dice.random_range(1..3)),
            4..6 => {
                let pods: Vec<_> = objects.list(&PODS).map(|(key, _)| key.name.clone()).collect();
                if pods.is_empty() {
                    Step::Work
                } else {
                    Step::Go(pods[dice.random_range(0..pods.len())].clone())
                }
            }
            _ => Step::Work,
        }
    }

    /// Lets it happen.
    pub fn take(&mut self, step: &Step, objects: &mut Objects) {
        match step {
            Step::Come(count) => {
                let pod = json!({
                    "metadata": {
                        "generateName": "trainer-", "namespace": "team",
                        "annotations": {CARD_NAME: CARD, QUEUE_NAME: "team-a"},
                    },
                    "spec": {"containers": [{"name": "c", "image": "i", "resources": {
                        "requests": {"cpu": "1", "nvidia.com/gpu": count.to_string()},
                        "limits": {"nvidia.com/gpu": count.to_string()},
                    }}]},
                });
                if let Err(refusal) = objects.create(&"user".into(), &PODS, pod) {
                    tracing::error!(?refusal, "a pod was refused");
                }
            }
            Step::Go(name) => {
                let _ = objects.finish(&"kubelet".into(), &PODS, &Key::new("team", &**name));
            }
            Step::Work => {
                self.come_to_rest(objects);
            }
        }
    }

    /// Does what is left to do.
    pub fn come_to_rest(&mut self, objects: &mut Objects) -> bool {
        let waits = |pod: &serde_json::Value| {
            let gates = pod["spec"]["schedulingGates"].as_array();
            gates.is_none_or(|gates| gates.iter().all(|gate| gate["name"] != GATE)) && pod["spec"]["nodeName"].is_null()
        };
        let waiting: Vec<_> = objects
            .list(&PODS)
            .filter(|(_, pod)| waits(pod))
            .map(|(key, _)| key.clone())
            .collect();
        let some = !waiting.is_empty();
        for key in waiting {
            let node = (0..2).map(|number| format!("gpu-{number}")).find(|node| {
                let there = objects.list(&PODS).filter(|(_, pod)| pod["spec"]["nodeName"] == **node);
                let used: u64 = there.map(|(_, pod)| cards(pod)).sum();
                let asked = objects.get(&PODS, &key).map_or(0, |pod| cards(pod));
                used + asked <= 4
            });
            let Some(node) = node else { continue };
            let _ = objects.change(&"scheduler".into(), &PODS, &key, |pod| {
                pod["spec"]["nodeName"] = node.into();
                pod["status"]["phase"] = "Running".into();
                Ok(())
            });
        }
        some
    }
}

/// How many cards a pod asks for.
pub fn cards(pod: &serde_json::Value) -> u64 {
    let count = pod["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"].as_str();
    count.and_then(|count| count.parse().ok()).unwrap_or(0)
}

/// More than the quota is let in.
pub fn broken(objects: &Objects) -> Option<String> {
    let is_in = |pod: &serde_json::Value| pod["spec"]["schedulingGates"].as_array().is_none_or(Vec::is_empty);
    let held: u64 = objects
        .list(&PODS)
        .filter(|(_, pod)| is_in(pod))
        .map(|(_, pod)| cards(pod))
        .sum();
    (held > QUOTA as u64).then(|| format!("{held} cards are in use of {QUOTA}"))
}
