//! Groups of pods that start together, and Volcano's Jobs.

use serde_json::{Map, Value, json};

use super::super::chance::{number, one, percent};
use super::super::step::Step;
use super::template::{Maker, template};
use super::workloads::{Objects as Made, deployment_of, job_of, name};
use super::{USER, name_of_queue, queues};
use crate::Dice;
use crate::objects::{DEPLOYMENTS, JOBS, Objects, POD_GROUPS, VOLCANO_JOBS};

/// The key by which pods name their group.
const GROUP: &str = "scheduling.k8s.io/group-name";
const TASK: &str = "volcano.sh/task-spec";

/// Draws a group, and the workloads whose pods are in it.
pub fn gang(dice: &mut Dice, make: &Maker<'_>) -> Made {
    let name = name(make, "gang");
    let tasks = number(dice, 1, 3);
    let queue = name_of_queue(dice, make.objects);
    let mut objects = Vec::new();
    let (mut members, mut of_tasks) = (0, Map::new());
    let (mut cards, mut least) = (Map::new(), None);
    for task in 0..tasks {
        let replicas = number(dice, 1, 4);
        let mut template = template(dice, make);
        let annotations = &mut template["metadata"]["annotations"];
        annotations[GROUP] = name.as_str().into();
        // Some pods also name their queue, which may be another one.
        if percent(dice, 85)
            && let Some(annotations) = annotations.as_object_mut()
        {
            annotations.remove("scheduling.volcano.sh/queue-name");
        }
        let (label, card) = (
            format!("t{task}"),
            annotations["volcano.sh/card.name"].as_str().map(ToOwned::to_owned),
        );
        let limits = &template["spec"]["containers"][0]["resources"]["limits"];
        if let Some(card) = card {
            let count = limits["nvidia.com/gpu"]
                .as_str()
                .and_then(|count| count.parse::<i64>().ok());
            cards.insert(card, (count.unwrap_or(1) * replicas).into());
        }
        least.get_or_insert_with(|| limits.clone());
        template["metadata"]["labels"] = json!({"app": format!("{name}-{label}"), TASK: label});
        let workload = format!("{name}-{label}");
        if percent(dice, 70) {
            objects.push((&DEPLOYMENTS, deployment_of(make, &workload, replicas, &template)));
        } else {
            let mut job = job_of(dice, make, &workload, template);
            job["spec"]["parallelism"] = replicas.into();
            job["spec"]["completions"] = replicas.into();
            objects.push((&JOBS, job));
        }
        members += replicas;
        of_tasks.insert(label, number(dice, 1, replicas + 1).into());
    }
    // Sometimes the group needs more pods than ever come.
    let min_member = (members - number(dice, 0, 3) + i64::from(percent(dice, 5))).max(1);
    let mut group = json!({
        "metadata": {"namespace": make.namespace, "name": name, "annotations": {}},
        "spec": {"minMember": min_member, "queue": queue},
    });
    if tasks > 1 && percent(dice, 60) {
        group["spec"]["minTaskMember"] = of_tasks.into();
    }
    if percent(dice, 35) && !cards.is_empty() {
        group["metadata"]["annotations"]["volcano.sh/card.request"] = json!(cards).to_string().into();
    }
    if percent(dice, 30) {
        group["spec"]["minResources"] = least.unwrap_or_default();
    }
    // The group may be created after its pods.
    let place = if percent(dice, 85) { 0 } else { objects.len() };
    objects.insert(place, (&POD_GROUPS, group));
    objects
}

/// Draws a Volcano Job.
pub fn volcano_job(dice: &mut Dice, make: &Maker<'_>) -> Made {
    let name = name(make, "vcjob");
    let mut total = 0;
    let mut tasks = Vec::new();
    for task in 0..number(dice, 1, 3) {
        let replicas = number(dice, 1, 4);
        let mut template = template(dice, make);
        if let Some(annotations) = template["metadata"]["annotations"].as_object_mut() {
            annotations.remove("scheduling.volcano.sh/queue-name");
        }
        template["spec"]["restartPolicy"] = "Never".into();
        total += replicas;
        let mut task = json!({"name": format!("t{task}"), "replicas": replicas, "template": template});
        if percent(dice, 30) {
            task["minAvailable"] = number(dice, 1, replicas + 1).into();
        }
        tasks.push(task);
    }
    let job = json!({
        "metadata": {"namespace": make.namespace, "name": name},
        "spec": {
            "minAvailable": number(dice, 1, total + 1), "queue": name_of_queue(dice, make.objects),
            "schedulerName": "volcano", "maxRetry": 3, "tasks": tasks,
        },
    });
    vec![(&VOLCANO_JOBS, job)]
}

/// Draws a change of what a group says.
pub fn change(dice: &mut Dice, objects: &Objects) -> Option<Step> {
    let groups: Vec<_> = objects.list(&POD_GROUPS).map(|(key, _)| key.clone()).collect();
    let key = one(dice, &groups)?.clone();
    let patch = match number(dice, 0, 4) {
        0 => json!({"spec": {"minMember": number(dice, 1, 5)}}),
        1 => json!({"spec": {"queue": queues::any(dice, objects)}}),
        2 => json!({"spec": {"minResources": {"cpu": number(dice, 1, 6).to_string()}}}),
        _ => json!({"metadata": {"annotations": {"volcano.sh/card.request": Value::Null}}}),
    };
    Some(Step::Change(USER, &POD_GROUPS, key, patch))
}
