//! Pods as users write them, with the API server's defaults.

use serde_json::{Value, json};

use super::super::cards::{CORE, Card, GPU, MEMORY};
use super::super::chance::{number, one, percent, weighted};
use super::{claims, name_of_queue};
use crate::Dice;
use crate::objects::Objects;

/// A gate of a controller that is not Cardgate.
pub const FOREIGN_GATE: &str = "example.com/license";

/// So many of a hundred pods claim devices, where there are any.
const CLAIMING: u32 = 40;

/// What users know when they write pods.
pub struct Maker<'a> {
    /// The cards that nodes have.
    pub cards: &'a [Card],
    /// The existing objects.
    pub objects: &'a Objects,
    /// The namespace in which they work.
    pub namespace: &'static str,
}

/// What a pod asks for in cards or devices.
enum Ask {
    Nothing,
    /// Names, resource and count.
    Cards(Option<String>, &'static str, i64),
    Share,
}

/// Draws a pod's metadata and spec.
pub fn template(dice: &mut Dice, make: &Maker<'_>) -> Value {
    let has_claims = make.objects.has_devices && percent(dice, CLAIMING);
    let ask = if has_claims { Ask::Nothing } else { ask(dice, make) };
    let mut annotations = json!({});
    let names_queue = percent(
        dice,
        if matches!(ask, Ask::Nothing) && !has_claims {
            55
        } else {
            88
        },
    );
    if names_queue {
        annotations["scheduling.volcano.sh/queue-name"] = name_of_queue(dice, make.objects).into();
    }
    let mut resources = json!({
        "cpu": one(dice, &["500m", "1", "1", "2", "3"]), "memory": one(dice, &["1Gi", "2Gi", "4Gi"]),
    });
    let mut containers = Vec::new();
    match ask {
        Ask::Nothing => {
            if percent(dice, 30) {
                annotations["volcano.sh/crossquota-scoring-strategy"] =
                    json!(one(dice, &["most-allocated", "least-allocated"]));
            }
        }
        Ask::Cards(names, resource, count) => {
            if let Some(names) = names {
                annotations["volcano.sh/card.name"] = names.into();
            }
            resources[resource] = count.to_string().into();
        }
        Ask::Share => containers = shares(dice, &mut annotations),
    }
    if containers.is_empty() {
        containers.push(resources);
    }
    let containers: Vec<_> = containers
        .into_iter()
        .enumerate()
        .map(|(index, resources)| container(&format!("c{index}"), &resources))
        .collect();
    let mut spec = json!({
        "containers": containers, "restartPolicy": "Always", "schedulerName": "default-scheduler",
        "priority": weighted(dice, (6, 0), &[(3, 10), (2, 100)]), "terminationGracePeriodSeconds": 30,
        "tolerations": [
            {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
        ],
    });
    constrain(dice, make, &mut spec);
    if has_claims {
        claims::put(dice, make, &mut annotations, &mut spec);
    }
    json!({"metadata": {"annotations": annotations, "labels": {}}, "spec": spec})
}

/// Returns a container that requests only this.
pub fn container(name: &str, resources: &Value) -> Value {
    json!({"name": name, "image": "busybox:1.37", "resources": {"limits": resources, "requests": resources}})
}

fn ask(dice: &mut Dice, make: &Maker<'_>) -> Ask {
    let has_shares = make.cards.iter().any(Card::is_shared);
    let whole: Vec<_> = make
        .cards
        .iter()
        .filter(|card| card.resource == GPU)
        .map(|card| card.name)
        .collect();
    let parts: Vec<_> = make
        .cards
        .iter()
        .filter(|card| card.resource != GPU && !card.is_shared())
        .collect();
    let kind = weighted(
        dice,
        (if make.namespace == "batch" { 70 } else { 15 }, 0),
        &[
            (if whole.is_empty() { 0 } else { 25 }, 1),
            (if whole.len() < 2 { 0 } else { 18 }, 2),
            (10, 3),
            (if parts.is_empty() { 0 } else { 16 }, 4),
            (if has_shares { 28 } else { 0 }, 5),
            (3, 6),
        ],
    );
    let count = weighted(dice, (5, 1), &[(3, 2), (1, 3)]);
    let first = number(dice, 0, 8).unsigned_abs().try_into().unwrap_or(0_usize);
    match kind {
        1 => Ask::Cards(one(dice, &whole).map(|card| (*card).to_owned()), GPU, count),
        2 => {
            let names: Vec<_> = (0..2).map(|next| whole[(first + next) % whole.len()]).collect();
            Ask::Cards(Some(names.join("|")), GPU, count)
        }
        3 => Ask::Cards(None, GPU, count),
        4 => one(dice, &parts).map_or(Ask::Nothing, |card| {
            Ask::Cards(Some(card.name.to_owned()), card.resource, count)
        }),
        5 => Ask::Share,
        // A misspelt card, or one that does not exist.
        6 => {
            let name = *one(
                dice,
                &[
                    "NVIDIA-A10O-SXM4-80GB",
                    "A100",
                    "NVIDIA-B200",
                    "NVIDIA-A100-SXM4-80GB||",
                ],
            )
            .unwrap_or(&"A100");
            Ask::Cards(Some(name.to_owned()), GPU, count)
        }
        _ => Ask::Nothing,
    }
}

/// Draws what containers request of shared cards, and the annotations on that.
fn shares(dice: &mut Dice, annotations: &mut Value) -> Vec<Value> {
    if percent(dice, 55) {
        annotations["vke.volcengine.com/mgpu-compute-policy"] = "native-burst-share".into();
    }
    if percent(dice, 15) {
        annotations["volcano.sh/card.name"] = "NVIDIA-L40S/mgpu".into();
    }
    let base = |core: i64, memory: i64| {
        let mut resources = json!({"cpu": "500m", "memory": "1Gi", CORE: core.to_string()});
        if memory > 0 {
            resources[MEMORY] = memory.to_string().into();
        }
        resources
    };
    match weighted(dice, (6, 0), &[(2, 1), (2, 2)]) {
        0 => (0..number(dice, 1, 3))
            .map(|_| base(number(dice, 1, 10) * 10, number(dice, 1, 24) * 1_000))
            .collect(),
        1 => vec![base(100 * number(dice, 1, 3), 0)],
        _ => {
            annotations["vke.volcengine.com/container-multiple-gpu"] = "2,1".into();
            vec![base(2 * number(dice, 1, 6) * 10, 6_000), base(50, 4_000)]
        }
    }
}

/// Draws where the pod may run, and what else it has.
fn constrain(dice: &mut Dice, make: &Maker<'_>, spec: &mut Value) {
    const ZONE: &str = "topology.kubernetes.io/zone";
    if percent(dice, 6) {
        spec["nodeSelector"] = json!({ZONE: one(dice, &["zone-a", "zone-b"])});
    }
    if percent(dice, 8) {
        let terms = if percent(dice, 50) {
            json!([{"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["zone-b"]}]}])
        } else {
            json!([
                {"matchExpressions": [{"key": ZONE, "operator": "NotIn", "values": ["zone-a"]}]},
                {"matchExpressions": [{"key": "nvidia.com/gpu.product", "operator": "Exists"}]},
            ])
        };
        spec["affinity"] = json!({"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms},
        }});
    }
    if percent(dice, 30)
        && let Some(tolerations) = spec["tolerations"].as_array_mut()
    {
        tolerations.push(json!({"key": "dedicated", "operator": "Exists"}));
    }
    if percent(dice, 8) {
        let resources = json!({"cpu": "2", "memory": "1Gi"});
        let mut init = container("init", &resources);
        if percent(dice, 40) {
            init["restartPolicy"] = "Always".into();
            init["resources"] = json!({"requests": {"cpu": "250m"}, "limits": {"cpu": "250m"}});
        }
        spec["initContainers"] = json!([init]);
    }
    if percent(dice, 6) {
        spec["schedulingGates"] = json!([{"name": FOREIGN_GATE}]);
    }
    if make.namespace == "research" && percent(dice, 15) {
        spec["schedulerName"] = "volcano".into();
    }
}
