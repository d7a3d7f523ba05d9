//! Nodes as real clusters have them, but small: GPU Feature Discovery's labels, device plugins' resources, VKE's mGPU.

use serde_json::{Value, json};

use super::cards::{CORE, GPU, MEMORY, PRODUCT};
use super::chance::{number, one, percent, weighted};
use super::controllers::drivers;
use super::step::Step;
use crate::Dice;
use crate::objects::{Key, NODES, Objects};

/// The author of writes on nodes: their owners.
const ADMIN: &str = "admin";
/// There are never more nodes than this.
const MOST: usize = 8;

/// The model of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Model {
    A100,
    H100,
    /// Two cards, one of them whole, one in slices.
    Mig,
    /// T4, four shares each.
    Mps,
    /// L40S, shared through mGPU.
    Shared,
    Ascend,
    Cpu,
    /// Whole cards, or one and parts of another, as devices: without labels and without a device plugin.
    Devices,
}

/// A new node of this model.
pub fn node(dice: &mut Dice, model: Model, name: &str) -> Value {
    let cards = number(dice, 2, 5);
    let zone = *one(dice, &["zone-a", "zone-b"]).unwrap_or(&"zone-a");
    let cpu = number(dice, 8, 25);
    let mut labels = json!({
        "kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
        "topology.kubernetes.io/zone": zone,
    });
    let mut has = json!({
        "cpu": if percent(dice, 20) { format!("{}m", cpu * 1000 - 550) } else { cpu.to_string() },
        "memory": format!("{}Gi", number(dice, 24, 64)),
        "ephemeral-storage": "900Gi", "hugepages-1Gi": "0",
        "pods": number(dice, 6, 20).to_string(),
    });
    let mut annotations = json!({});
    let mut nvidia = |product: &str, cards: i64, memory: i64| {
        labels[PRODUCT] = product.into();
        labels["nvidia.com/gpu.count"] = cards.to_string().into();
        labels["nvidia.com/gpu.memory"] = memory.to_string().into();
        labels["nvidia.com/gpu.replicas"] = "1".into();
    };
    match model {
        Model::A100 | Model::H100 => {
            match model {
                Model::A100 => nvidia("NVIDIA-A100-SXM4-80GB", cards, 81_920),
                _ => nvidia("NVIDIA-H100-80GB-HBM3", cards, 81_559),
            }
            has[GPU] = cards.to_string().into();
        }
        Model::Mig => {
            nvidia("NVIDIA-A100-PCIE-40GB", 2, 40_536);
            labels["nvidia.com/mig.strategy"] = "mixed".into();
            labels["nvidia.com/mig-1g.5gb.count"] = "4".into();
            labels["nvidia.com/mig-2g.10gb.count"] = "2".into();
            has[GPU] = "1".into();
            has["nvidia.com/mig-1g.5gb"] = "4".into();
            has["nvidia.com/mig-2g.10gb"] = "2".into();
            has["nvidia.com/mig-3g.20gb"] = "0".into();
        }
        Model::Mps => {
            nvidia("Tesla-T4", cards, 15_360);
            labels["nvidia.com/gpu.replicas"] = "4".into();
            labels["nvidia.com/gpu.sharing-strategy"] = "mps".into();
            has["nvidia.com/gpu.shared"] = (4 * cards).to_string().into();
            has[GPU] = "0".into();
        }
        Model::Shared => {
            nvidia("NVIDIA-L40S", cards, 46_068);
            labels["vke.node.gpu.schedule"] = "mgpu".into();
            if percent(dice, 60) {
                labels["vke.volcengine.com/mgpu-compute-policy"] = "native-burst-share".into();
            }
            let ids: Vec<_> = (0..cards).map(|card| format!("GPU-{name}-{card}")).collect();
            annotations["vke.volcengine.com/gpu-ids"] = ids.join(",").into();
            has[CORE] = (100 * cards).to_string().into();
            has[MEMORY] = (46_068 * cards).to_string().into();
            has[GPU] = "0".into();
        }
        Model::Ascend => {
            labels["huawei.com/ascend.product"] = "Ascend-910B".into();
            labels["huawei.com/ascend.count"] = cards.to_string().into();
            labels["huawei.com/ascend.memory"] = "65536".into();
            has["huawei.com/ascend-910"] = cards.to_string().into();
        }
        Model::Cpu => {}
        Model::Devices => annotations[drivers::DRIVEN] = drivers::driven(dice, cards).into(),
    }
    if percent(dice, 20) {
        annotations["volcano.sh/crossquota-cpu"] = number(dice, 2, 10).to_string().into();
    }
    if percent(dice, 10) {
        annotations["volcano.sh/crossquota-percentage-memory"] = number(dice, 10, 90).to_string().into();
    }
    let taints = if percent(dice, 12) {
        json!([{"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}])
    } else {
        json!([])
    };
    json!({
        "metadata": {"name": name, "labels": labels, "annotations": annotations},
        "spec": {"taints": taints, "podCIDR": "10.0.0.0/24"},
        "status": {
            "capacity": has, "allocatable": has,
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        },
    })
}

/// Some model.
pub fn model(dice: &mut Dice) -> Model {
    weighted(
        dice,
        (3, Model::A100),
        &[
            (3, Model::H100),
            (2, Model::Mig),
            (2, Model::Mps),
            (3, Model::Shared),
            (1, Model::Ascend),
            (2, Model::Cpu),
        ],
    )
}

/// Draws a change of a node, or a new node.
pub fn draw(dice: &mut Dice, objects: &Objects) -> Option<Step> {
    let nodes: Vec<_> = objects.list(&NODES).collect();
    if nodes.len() < 3 || (nodes.len() < MOST && percent(dice, 15)) {
        let model = if objects.has_devices && percent(dice, 50) {
            Model::Devices
        } else {
            model(dice)
        };
        let name = format!("{}-{}", format!("{model:?}").to_lowercase(), objects.version());
        return Some(Step::Create(ADMIN, vec![(&NODES, node(dice, model, &name))]));
    }
    let (key, node) = *one(dice, &nodes)?;
    if !is_ready(node) {
        let mends = percent(dice, 70);
        return Some(if mends {
            ready(key, true)
        } else {
            Step::Die(key.name.clone())
        });
    }
    if node["spec"]["unschedulable"] == true {
        let patch = json!({"spec": {"unschedulable": null}});
        return Some(Step::Change(ADMIN, &NODES, key.clone(), patch));
    }
    Some(match dice_of_six(dice) {
        0 => ready(key, false),
        1 => Step::Drain(key.name.clone()),
        2 => Step::Die(key.name.clone()),
        3 => Step::Change(ADMIN, &NODES, key.clone(), json!({"spec": {"unschedulable": true}})),
        4 => relabel(dice, key, node),
        _ => shrink(dice, key, node),
    })
}

fn dice_of_six(dice: &mut Dice) -> i64 {
    number(dice, 0, 6)
}

/// Whether the node's kubelet reports it as ready.
pub fn is_ready(node: &Value) -> bool {
    node["status"]["conditions"]
        .as_array()
        .is_some_and(|all| all.iter().any(|one| one["type"] == "Ready" && one["status"] == "True"))
}

fn ready(key: &Key, is_ready: bool) -> Step {
    let status = if is_ready { "True" } else { "Unknown" };
    let patch = json!({"status": {"conditions": [{"type": "Ready", "status": status}]}});
    let who = if is_ready { "kubelet" } else { "node-controller" };
    Step::Change(who, &NODES, key.clone(), patch)
}

/// Changes the slices, the product, the zone, or the quota of pods without GPU.
fn relabel(dice: &mut Dice, key: &Key, node: &Value) -> Step {
    let has = &node["status"]["allocatable"];
    let patch = if has["nvidia.com/mig-1g.5gb"].is_string() && percent(dice, 70) {
        let (small, large) = *one(dice, &[("4", "2"), ("0", "3"), ("7", "0"), ("2", "2")]).unwrap_or(&("4", "2"));
        let slices = json!({"nvidia.com/mig-1g.5gb": small, "nvidia.com/mig-2g.10gb": large});
        json!({
            "metadata": {"labels": {"nvidia.com/mig-1g.5gb.count": small, "nvidia.com/mig-2g.10gb.count": large}},
            "status": {"allocatable": slices, "capacity": slices},
        })
    } else if has[GPU].as_str().is_some_and(|count| count != "0") && percent(dice, 40) {
        let products = ["NVIDIA-A100-SXM4-80GB", "NVIDIA-H100-80GB-HBM3", "NVIDIA-H200"];
        json!({"metadata": {"labels": {PRODUCT: one(dice, &products)}}})
    } else if has[CORE].is_string() && percent(dice, 40) {
        let policy = if percent(dice, 50) {
            json!("native-burst-share")
        } else {
            Value::Null
        };
        json!({"metadata": {"labels": {"vke.volcengine.com/mgpu-compute-policy": policy}}})
    } else if percent(dice, 50) {
        json!({"metadata": {"labels": {"topology.kubernetes.io/zone": one(dice, &["zone-a", "zone-b"])}}})
    } else {
        let quota = *one(dice, &["2", "6", "-1", "500m", "lots"]).unwrap_or(&"2");
        json!({"metadata": {"annotations": {"volcano.sh/crossquota-cpu": quota}}})
    };
    Step::Change(ADMIN, &NODES, key.clone(), patch)
}

/// A device fails, a device plugin restarts, or a failed device is back.
fn shrink(dice: &mut Dice, key: &Key, node: &Value) -> Step {
    let capacity = node["status"]["capacity"].as_object();
    let resources: Vec<_> = capacity
        .into_iter()
        .flatten()
        .filter(|(resource, _)| resource.contains('/') || *resource == "cpu")
        .filter_map(|(resource, count)| Some((resource, count.as_str()?.parse::<i64>().ok()?)))
        .filter(|(_, count)| *count > 0)
        .collect();
    let Some((resource, count)) = one(dice, &resources) else {
        return ready(key, false);
    };
    let left = match resource.as_str() {
        // Shares come and go with whole cards.
        CORE => number(dice, 0, count / 100 + 1) * 100,
        _ => number(dice, 0, count + 1),
    };
    let mut allocatable = json!({ resource.as_str(): left.to_string() });
    if *resource == CORE {
        let memory = (left / 100) * 46_068;
        allocatable[MEMORY] = memory.to_string().into();
    }
    Step::Change(
        "kubelet",
        &NODES,
        key.clone(),
        json!({"status": {"allocatable": allocatable}}),
    )
}
