//! What Volcano's controller makes of its Jobs: a group, and the pods of each task, which name the group.

use std::collections::BTreeMap;

use crds::keys::{GROUP_NAME, QUEUE_NAME, TASK_SPEC};
use crds::made::write_quantities_as_text;
use crds::pod::PodSpec;
use crds::pod_request::pod_request;
use crds::resources::{CPU, ResourceVector};
use serde_json::{Map, Value, json};

use crate::manifests::Manifest;
use crate::templates::{owner_references, pod_of};

/// The scheduler of a Job that names none.
const SCHEDULER: &str = "volcano";

/// A group and its pods, as they are created.
#[derive(Debug)]
pub struct Made {
    /// The Job's group.
    pub group: Manifest,
    /// The Job's pods, task by task.
    pub pods: Vec<Manifest>,
}

/// Whether an object is a Volcano Job.
pub fn is_one(manifest: &Manifest) -> bool {
    manifest.group_and_kind() == ("batch.volcano.sh", "Job")
}

/// Returns what is made of a new Job, at most `most` pods. The error says which template is none of pods, or that the
/// requests of the pods can't be summed up.
pub fn expand(job: &Manifest, most: u64) -> Result<Made, String> {
    let spec = &job.object["spec"];
    let tasks = spec["tasks"].as_array().map_or(&[][..], Vec::as_slice);
    let metadata = &job.object["metadata"];
    let group = format!("{}-{}", job.name(), metadata["uid"].as_str().unwrap_or_default());
    let mut pods = Vec::new();
    let (mut least, mut of_tasks) = (0_u64, Map::new());
    for (index, task) in tasks.iter().enumerate() {
        let name = task["name"]
            .as_str()
            .map_or_else(|| format!("default{index}"), str::to_owned);
        if !is_of_a_pod(&task["template"]) {
            return Err(format!("the template of task {name} is none of a pod"));
        }
        let replicas = task["replicas"].as_u64().unwrap_or(1);
        let of_task = task["minAvailable"].as_u64().unwrap_or(replicas);
        least = least.saturating_add(of_task);
        of_tasks.insert(name.clone(), of_task.into());
        let room = most.saturating_sub(pods.len() as u64);
        pods.extend((0..replicas.min(room)).map(|index| pod(job, task, &name, index, &group)));
    }
    let min_member = spec["minAvailable"]
        .as_u64()
        .filter(|least| *least > 0)
        .unwrap_or(least);
    let first = pods.iter().take(usize::try_from(min_member).unwrap_or(usize::MAX));
    let min_resources = min_resources(first)?;
    let object = json!({
        "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup",
        "metadata": {
            "name": group, "namespace": job.namespace(), "annotations": metadata["annotations"], "ownerReferences": owner_references(job),
        },
        "spec": {
            "minMember": min_member, "minTaskMember": of_tasks, "minResources": min_resources,
            "queue": spec["queue"], "priorityClassName": spec["priorityClassName"],
        },
    });
    let file = job.file.clone();
    Ok(Made {
        group: Manifest { file, object },
        pods,
    })
}

/// Whether an API server would accept a template, as far as the code here writes into it.
fn is_of_a_pod(template: &Value) -> bool {
    let annotations = &template["metadata"]["annotations"];
    template["spec"].is_object() && (annotations.is_null() || annotations.is_object())
}

fn pod(job: &Manifest, task: &Value, name: &str, index: u64, group: &str) -> Manifest {
    let mut pod = pod_of(&task["template"], &job.file, job.namespace().unwrap_or_default());
    write_quantities_as_text(&mut pod.object);
    let metadata = &mut pod.object["metadata"];
    metadata["name"] = format!("{}-{name}-{index}", job.name()).into();
    metadata["ownerReferences"] = owner_references(job);
    metadata["annotations"][GROUP_NAME] = group.into();
    metadata["annotations"][TASK_SPEC] = name.into();
    // The door does not know the group, so the queue is written on the pod.
    if metadata["annotations"][QUEUE_NAME].is_null() && job.object["spec"]["queue"].is_string() {
        metadata["annotations"][QUEUE_NAME] = job.object["spec"]["queue"].clone();
    }
    let (spec, of_job) = (&mut pod.object["spec"], &job.object["spec"]);
    spec["schedulerName"] = of_job["schedulerName"].as_str().unwrap_or(SCHEDULER).into();
    if spec["priorityClassName"].is_null() && of_job["priorityClassName"].is_string() {
        spec["priorityClassName"] = of_job["priorityClassName"].clone();
    }
    pod
}

/// Returns the sum of what the pods request.
fn min_resources<'p>(pods: impl Iterator<Item = &'p Manifest>) -> Result<Map<String, Value>, String> {
    let mut sums = BTreeMap::<String, i64>::new();
    let mut count = 0_u64;
    for pod in pods {
        let spec: PodSpec<String> =
            serde_json::from_str(&pod.object["spec"].to_string()).map_err(|error| error.to_string())?;
        let request: ResourceVector<'_> = pod_request(&spec).map_err(|error| error.to_string())?;
        for (resource, amount) in request.iter() {
            let sum = sums.entry(resource.to_owned()).or_default();
            *sum = sum.saturating_add(amount);
        }
        count += 1;
    }
    let written = sums.into_iter().map(|(resource, amount)| {
        // CPU is the only resource counted in thousandths.
        let unit = if resource == CPU { "m" } else { "" };
        (resource, format!("{amount}{unit}").into())
    });
    Ok(written.chain([("pods".to_owned(), count.to_string().into())]).collect())
}
