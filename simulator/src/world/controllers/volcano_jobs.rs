//! Volcano's Jobs. Each gets a group, and its pods are made once the group's phase allows it.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::pod_groups::{VOLCANO, least};
use super::{all, owned, owner, pod, pods_of};
use crate::objects::{Key, Objects, POD_GROUPS, PODS, VOLCANO_JOBS};
use crate::world::pods;

/// Handles each of them.
pub fn run(objects: &mut Objects) {
    let mut owned = owned(objects);
    for (key, job) in all(objects, &VOLCANO_JOBS) {
        let there = pods_of(&mut owned, &job);
        one(objects, &key, &job, &there);
    }
}

fn one(objects: &mut Objects, key: &Key, job: &Value, there: &[(Key, Arc<Value>)]) {
    let who = Arc::from(VOLCANO);
    let group = format!("{}-{}", key.name, job["metadata"]["uid"].as_str().unwrap_or_default());
    let group = Key::new(&*key.namespace, group);
    let state = job["status"]["state"]["phase"].as_str();
    if matches!(state, Some("Completed" | "Failed")) {
        return;
    }
    let tasks = job["spec"]["tasks"].as_array().map_or(&[][..], |tasks| tasks);
    let Some(of_group) = objects.get(&POD_GROUPS, &group) else {
        let _ = objects.create(&who, &POD_GROUPS, group_of(&group, job, tasks));
        return;
    };
    let may_start = matches!(of_group["status"]["phase"].as_str(), Some("Inqueue" | "Running"));
    let (mut running, mut succeeded, mut wanted) = (0_u64, 0_u64, 0_u64);
    for task in tasks {
        let name = task["name"].as_str().unwrap_or_default();
        for index in 0..task["replicas"].as_u64().unwrap_or(1) {
            wanted += 1;
            let pod_key = Key::new(&*key.namespace, format!("{}-{name}-{index}", key.name));
            match there.iter().find(|(key, _)| *key == pod_key) {
                Some((_, pod)) if pod["status"]["phase"] == "Succeeded" => succeeded += 1,
                Some((_, pod)) if pod["status"]["phase"] == "Failed" => {
                    let _ = objects.delete(&who, &PODS, &pod_key);
                }
                Some((_, pod)) => running += u64::from(pods::runs(pod)),
                None if may_start => {
                    let mut pod = pod(&task["template"], &pod_key, owner(&VOLCANO_JOBS, job));
                    for (map, entry, value) in [
                        ("annotations", "scheduling.k8s.io/group-name", &*group.name),
                        ("annotations", "volcano.sh/task-spec", name),
                        ("labels", "volcano.sh/task-spec", name),
                        ("labels", "volcano.sh/job-name", &*key.name),
                    ] {
                        if pod["metadata"][map].is_null() {
                            pod["metadata"][map] = json!({});
                        }
                        pod["metadata"][map][entry] = value.into();
                    }
                    pod["spec"]["schedulerName"] = "volcano".into();
                    let _ = objects.create(&who, &PODS, pod);
                }
                None => {}
            }
        }
    }
    let phase = if succeeded == wanted {
        "Completed"
    } else if running > 0 {
        "Running"
    } else {
        "Pending"
    };
    let _ = objects.change(&who, &VOLCANO_JOBS, key, |job| {
        job["status"]["state"]["phase"] = phase.into();
        Ok(())
    });
}

fn group_of(key: &Key, job: &Value, tasks: &[Value]) -> Value {
    let of_tasks: Map<_, _> = tasks
        .iter()
        .filter_map(|task| {
            let least = task["minAvailable"].as_u64().or(task["replicas"].as_u64())?;
            Some((task["name"].as_str()?.to_owned(), least.into()))
        })
        .collect();
    let min_member = job["spec"]["minAvailable"].as_u64().unwrap_or(1);
    // Takes the first pods of the tasks in their order, as many as must run.
    let pods = tasks.iter().flat_map(|task| {
        let count = usize::try_from(task["replicas"].as_u64().unwrap_or(1)).unwrap_or(1);
        std::iter::repeat_n(&task["template"]["spec"], count)
    });
    json!({
        "metadata": {"namespace": key.namespace, "name": key.name, "ownerReferences": owner(&VOLCANO_JOBS, job)},
        "spec": {
            "minMember": min_member, "minTaskMember": of_tasks, "queue": job["spec"]["queue"],
            "minResources": least(pods.take(usize::try_from(min_member).unwrap_or(1))),
        },
        "status": {"phase": "Pending"},
    })
}
