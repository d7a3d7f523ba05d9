//! Configurations in which any settings are turned on together.

use serde_json::{Value, json};

use super::super::chance::{number, one, percent, weighted};
use crate::Dice;

/// The data of a `ConfigMap` that is valid.
pub fn sound(dice: &mut Dice) -> Value {
    let actions = [
        ("enqueue", 85),
        ("allocate", 100),
        ("backfill", 50),
        ("reclaim", 75),
        ("preempt", 45),
    ];
    let mut named = Vec::new();
    for (action, often) in actions {
        if percent(dice, often) {
            named.push(action);
        }
    }
    let plugin = weighted(dice, (6, "capacity-card"), &[(5, "capacity")]);
    let mut bools = |often: u32| percent(dice, often);
    let mut arguments = vec![
        format!("enableHierarchy: {}", bools(55)),
        format!("enableOveruse: {}", bools(85)),
    ];
    arguments.push(if plugin == "capacity" {
        format!("checkQueueDimensionsOnly: {}", bools(25))
    } else {
        format!("cardUnlimitedCpuMemory: {}", bools(35))
    });
    arguments.push(format!("reclaimInterval: {}", one(dice, &[1, 10, 60]).unwrap_or(&60)));
    arguments.push(format!("guaranteeThreshold: {}", number(dice, 10, 100)));
    let arguments = arguments.join("\n        ");
    let mut plugins = vec![format!("    - name: {plugin}\n      arguments:\n        {arguments}\n")];
    if percent(dice, 60) {
        plugins.push(format!(
            "    - name: predicates\n      arguments:\n        predicate.MGPUEnable: {}\n        predicate.MGPUPolicy: {}\n        \
             predicate.MGPUScheduleMode: {}\n        predicate.MGPUMaxContainersPerCard: {}\n",
            percent(dice, 90),
            one(dice, &["binpack", "spread"]).unwrap_or(&"binpack"),
            one(dice, &["index", "index", "id"]).unwrap_or(&"index"),
            number(dice, 2, 17),
        ));
    }
    if percent(dice, 65) {
        plugins.push(format!(
            "    - name: crossquota\n      arguments:\n        gpu-resource-names: \"nvidia.com/.*,vke.volcengine.com/mgpu-core,huawei.com/ascend-910\"\n        \
             quota-resources: \"{}\"\n        quota.cpu: {}\n        quota-percentage.memory: {}\n        crossQuotaWeight: {}\n",
            one(dice, &["cpu", "cpu,memory", "cpu,memory,pods"]).unwrap_or(&"cpu"),
            number(dice, 2, 10),
            number(dice, 20, 90),
            number(dice, 0, 20),
        ));
    }
    let plugins = plugins.concat();
    json!({
        "volcano-scheduler.conf": format!("actions: \"{}\"\ntiers:\n- plugins:\n{plugins}", named.join(", ")),
        "cardgate.yaml": cardgate(dice),
    })
}

fn cardgate(dice: &mut Dice) -> String {
    let admit_on = weighted(dice, (85, "fit"), &[(15, "quota")]);
    let reservation = weighted(dice, (6, "5m"), &[(2, "30s"), (2, "1h")]);
    let inqueue = weighted(dice, (6, "10m"), &[(2, "30s"), (2, "1h")]);
    let terminating = weighted(dice, (7, "5m"), &[(3, "10s")]);
    let unnamed = weighted(dice, (7, "charge"), &[(1, "deny"), (2, "free")]);
    let unqueued = weighted(dice, (5, "count"), &[(5, "charge")]);
    format!(
        "admitOn: {admit_on}\nreservationTimeout: {reservation}\ninqueueTimeout: {inqueue}\nterminatingTimeout: {terminating}\n\
         unnamedCards: {unnamed}\nunqueuedCards: {unqueued}\nstrictHierarchy: {}\n",
        percent(dice, 20)
    )
}

/// The data of a `ConfigMap` that is refused, so that the last good one stays in force.
pub fn broken(dice: &mut Dice) -> Value {
    let (conf, cardgate) = *one(
        dice,
        &[
            ("tiers: [", ""),
            ("tiers: [{plugins: [{name: capacity}, {name: capacity-card}]}]", ""),
            (
                "tiers: [{plugins: [{name: capacity-card, arguments: {guaranteeThreshold: many}}]}]",
                "",
            ),
            ("", "admitOn: never"),
            ("", "reservationTimeout: -5m"),
            (
                "tiers: [{plugins: [{name: crossquota, arguments: {gpu-resource-names: \"(\"}}]}]",
                "",
            ),
        ],
    )
    .unwrap_or(&("tiers: [", ""));
    json!({"volcano-scheduler.conf": conf, "cardgate.yaml": cardgate})
}
