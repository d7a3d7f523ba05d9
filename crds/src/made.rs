//! The pods that a manifest makes, and the whole that they are let in as.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use thiserror::Error;

use crate::bounds::{TASKS, excerpt, json_error, shown};
use crate::keys::{CARD_REQUEST, GROUP_NAME, QUEUE_NAME, TASK_SPEC};
use crate::managed::DAEMON_SET;
use crate::pod::{OwnerReference, Pod};

/// The result of a manifest.
#[derive(Debug)]
pub struct Made {
    /// For each template, and there is at least one: its first pod, and how many such pods there are at once.
    pub pods: Vec<(Pod<Box<str>>, u64)>,
    /// The Job that is let in as a whole or not at all, if it is one.
    pub whole: Option<Whole>,
}

/// A Job that is let in as a whole: in Job mode, or as the group that Volcano makes for it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Whole {
    /// The Job's name.
    pub name: String,
    /// The cards that the Job asks for as a whole, if it says so.
    pub card_request: Option<String>,
    /// How many of its pods the Job needs at least.
    pub min_member: u64,
    /// How many pods of each task the Job needs, by task name, if tasks are told apart.
    pub tasks: BTreeMap<String, u64>,
}

/// A manifest that makes no pods.
#[derive(Debug, Error)]
pub enum NoPod {
    /// It has neither containers nor a template.
    #[error(
        "spec.manifest is no Pod and has no pod template: give a Pod, or what has spec.template, such as a Job or Deployment"
    )]
    NoTemplate,
    /// Its pod can't be read.
    #[error("spec.manifest: the pod can't be read: {0}: see kubectl explain pod")]
    Unreadable(String),
    /// A part that must be a map is none.
    #[error("spec.manifest: {place} is no map ({text}): write it as one, or leave it out")]
    NoMap {
        /// The place of that part.
        place: String,
        /// The text found there.
        text: String,
    },
    /// A Volcano Job has more tasks than a group may name.
    #[error("spec.manifest: spec.tasks has {0} tasks, more than {TASKS}: give some of them one template")]
    TooManyTasks(usize),
}

/// Returns what a manifest makes at once.
pub fn made_by(mut manifest: Value) -> Result<Made, NoPod> {
    // A CronJob makes Jobs.
    if let Some(template) = manifest
        .pointer_mut("/spec/jobTemplate")
        .filter(|template| template.is_object())
    {
        let name = manifest_name(&template["metadata"]);
        let mut job = template.take();
        job["kind"] = "Job".into();
        let name = name.or_else(|| manifest_name(&manifest["metadata"]));
        return made_by_job(job, name.unwrap_or_default());
    }
    let name = manifest_name(&manifest["metadata"]).unwrap_or_default();
    let is_of_volcano = manifest["apiVersion"]
        .as_str()
        .is_some_and(|version| version.starts_with("batch.volcano.sh/"));
    match manifest["kind"].as_str() {
        Some("Job") if is_of_volcano => made_by_volcano(&manifest, name),
        Some("Job") => made_by_job(manifest, name),
        _ => {
            let count = manifest.pointer("/spec/replicas").and_then(Value::as_u64);
            let is_daemon_set = manifest["kind"].as_str() == Some(DAEMON_SET);
            let template = manifest.pointer_mut("/spec/template").map(Value::take);
            let mut pod = pod_of(template.unwrap_or(manifest))?;
            if is_daemon_set {
                // The pod as the `DaemonSet` controller makes it, and as `CrossQuota` recognises it.
                pod.metadata.owner_references = vec![OwnerReference {
                    kind: Some(DAEMON_SET.into()),
                    name: Some(name.into()),
                    controller: Some(true),
                    ..OwnerReference::default()
                }];
            }
            Ok(Made {
                pods: vec![(pod, count.unwrap_or(1))],
                whole: None,
            })
        }
    }
}

fn manifest_name(metadata: &Value) -> Option<String> {
    let named = metadata["name"].as_str().or_else(|| metadata["generateName"].as_str());
    named.map(|name| excerpt(name).into_owned())
}

fn made_by_job(mut job: Value, name: String) -> Result<Made, NoPod> {
    let number = |key: &str| job["spec"][key].as_u64();
    let parallel = number("parallelism").unwrap_or(1);
    let count = number("completions").map_or(parallel, |all| all.min(parallel));
    let request = card_request(&job);
    let template = job.pointer_mut("/spec/template").map(Value::take);
    let pod = pod_of(template.unwrap_or(job))?;
    let whole = request.map(|request| Whole {
        name,
        card_request: Some(request),
        min_member: count,
        tasks: BTreeMap::new(),
    });
    Ok(Made {
        pods: vec![(pod, count)],
        whole,
    })
}

/// A Volcano Job: its controller makes a group for it, and the pods of each task, which name the group.
fn made_by_volcano(job: &Value, name: String) -> Result<Made, NoPod> {
    let spec = &job["spec"];
    let tasks = spec["tasks"].as_array().map_or(&[][..], Vec::as_slice);
    if tasks.len() > TASKS {
        return Err(NoPod::TooManyTasks(tasks.len()));
    }
    let (mut pods, mut least, mut of_tasks) = (Vec::new(), 0_u64, BTreeMap::new());
    for (index, task) in tasks.iter().enumerate() {
        let of_task = task["name"].as_str();
        let of_task = of_task.map_or_else(|| format!("default{index}"), str::to_owned);
        let replicas = task["replicas"].as_u64().unwrap_or(1);
        let needed = task["minAvailable"].as_u64().unwrap_or(replicas);
        least = least.saturating_add(needed);
        let template = of_group(task["template"].clone(), index, spec, &name, &of_task)?;
        pods.push((pod_of(template)?, replicas));
        of_tasks.insert(of_task, needed);
    }
    if pods.is_empty() {
        return Err(NoPod::NoTemplate);
    }
    let named = spec["minAvailable"].as_u64().filter(|least| *least > 0);
    Ok(Made {
        pods,
        whole: Some(Whole {
            name,
            card_request: card_request(job),
            min_member: named.unwrap_or(least),
            tasks: of_tasks,
        }),
    })
}

/// Returns a pod of a task as Volcano makes it. The group has no name yet, so the pod names one that no other group can
/// have.
fn of_group(mut template: Value, index: usize, job: &Value, name: &str, task: &str) -> Result<Value, NoPod> {
    let place = format!("spec.tasks[{index}].template");
    let root = map_in(&mut template, &place)?;
    let metadata = map_in(
        root.entry("metadata").or_insert(Value::Null),
        &format!("{place}.metadata"),
    )?;
    let annotations = metadata.entry("annotations").or_insert(Value::Null);
    let annotations = map_in(annotations, &format!("{place}.metadata.annotations"))?;
    annotations.insert(GROUP_NAME.to_owned(), format!("{name}/").into());
    annotations.insert(TASK_SPEC.to_owned(), task.into());
    if let Some(queue) = job["queue"].as_str() {
        annotations.entry(QUEUE_NAME).or_insert_with(|| queue.into());
    }
    let class = &job["priorityClassName"];
    let spec = map_in(root.entry("spec").or_insert(Value::Null), &format!("{place}.spec"))?;
    if class.is_string() && spec.get("priorityClassName").is_none_or(Value::is_null) {
        spec.insert("priorityClassName".to_owned(), class.clone());
    }
    Ok(template)
}

/// Returns the value as a map; an absent value becomes one.
fn map_in<'v>(value: &'v mut Value, place: &str) -> Result<&'v mut serde_json::Map<String, Value>, NoPod> {
    if value.is_null() {
        *value = json!({});
    }
    let text = if value.is_object() {
        String::new()
    } else {
        value.to_string()
    };
    value.as_object_mut().ok_or_else(|| NoPod::NoMap {
        place: place.to_owned(),
        text: shown(&text),
    })
}

fn card_request(job: &Value) -> Option<String> {
    job["metadata"]["annotations"][CARD_REQUEST].as_str().map(str::to_owned)
}

fn pod_of(mut pod: Value) -> Result<Pod<Box<str>>, NoPod> {
    if !pod.pointer("/spec/containers").is_some_and(Value::is_array) {
        return Err(NoPod::NoTemplate);
    }
    write_quantities_as_text(&mut pod);
    serde_json::from_value(pod).map_err(|error| NoPod::Unreadable(json_error(&error)))
}

/// Turns numbers among a pod's quantities into texts, as API servers do in the objects that they know: `nvidia.com/gpu: 1`.
pub fn write_quantities_as_text(pod: &mut Value) {
    let Some(spec) = pod.get_mut("spec") else {
        return;
    };
    as_text(spec.pointer_mut("/overhead"));
    of_resources(spec);
    for kind in ["containers", "initContainers"] {
        let containers = spec.get_mut(kind).and_then(Value::as_array_mut);
        containers.into_iter().flatten().for_each(of_resources);
    }
}

fn of_resources(owner: &mut Value) {
    for kind in ["/resources/requests", "/resources/limits"] {
        as_text(owner.pointer_mut(kind));
    }
}

fn as_text(quantities: Option<&mut Value>) {
    let quantities = quantities.and_then(Value::as_object_mut);
    for quantity in quantities.into_iter().flat_map(|map| map.values_mut()) {
        if let Value::Number(number) = quantity {
            *quantity = Value::String(number.to_string());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod_of(manifest: Value) -> Result<Pod<Box<str>>, NoPod> {
        made_by(manifest).map(|made| made.pods.into_iter().next().unwrap().0)
    }

    #[test]
    fn a_manifest_is_a_pod_or_makes_some() {
        let pod = json!({ "metadata": { "annotations": { "a": "b" } }, "spec": { "containers": [{ "name": "c" }] } });
        let job = json!({ "kind": "Job", "spec": { "template": pod } });
        let cron = json!({ "kind": "CronJob", "spec": { "jobTemplate": job } });
        for manifest in [pod.clone(), job, cron] {
            let read = pod_of(manifest).unwrap();
            assert_eq!(read.metadata.annotations.get("a"), Some("b"));
        }
        for nothing in [
            json!(null),
            json!({}),
            json!({ "spec": [] }),
            json!({ "spec": { "template": null } }),
        ] {
            assert!(matches!(pod_of(nothing), Err(NoPod::NoTemplate)));
        }
        let bad = pod_of(json!({ "spec": { "containers": [1] } }));
        assert!(matches!(bad, Err(NoPod::Unreadable(_))));
    }

    #[test]
    fn quantities_of_a_manifest_may_be_numbers() {
        let resources = json!({ "requests": { "cpu": 0.5 }, "limits": { "nvidia.com/gpu": 1, "memory": "1Gi" } });
        let container = json!({ "resources": resources });
        let spec = json!({
            "containers": [container], "initContainers": [container], "overhead": { "cpu": 2 }, "resources": resources,
        });
        let read = pod_of(json!({ "spec": spec })).unwrap().spec;
        assert_eq!(read.overhead.get("cpu"), Some("2"));
        let all = [
            &read.containers[0].resources,
            &read.init_containers[0].resources,
            &read.resources,
        ];
        for resources in all {
            assert_eq!(resources.requests.get("cpu"), Some("0.5"));
            assert_eq!(resources.limits.get("nvidia.com/gpu"), Some("1"));
            assert_eq!(resources.limits.get("memory"), Some("1Gi"));
        }
    }

    #[test]
    fn as_many_pods_count_as_are_made_at_once() {
        let template = json!({ "spec": { "containers": [] } });
        let job = |spec: Value| json!({ "kind": "Job", "spec": spec });
        for (manifest, count) in [
            (template.clone(), 1),
            (
                json!({ "kind": "Deployment", "spec": { "replicas": 3, "template": template } }),
                3,
            ),
            (json!({ "kind": "DaemonSet", "spec": { "template": template } }), 1),
            (job(json!({ "parallelism": 4, "template": template })), 4),
            (
                job(json!({ "parallelism": 4, "completions": 2, "template": template })),
                2,
            ),
            (job(json!({ "completions": 5, "template": template })), 1),
        ] {
            let made = made_by(manifest.clone()).unwrap();
            assert_eq!((made.pods[0].1, made.whole), (count, None), "{manifest}");
        }
    }

    #[test]
    fn a_job_in_job_mode_is_a_whole() {
        let template = json!({ "spec": { "containers": [] } });
        let job = json!({
            "kind": "Job", "metadata": { "name": "train", "annotations": { CARD_REQUEST: "{}" } },
            "spec": { "parallelism": 4, "template": template },
        });
        let expected = Whole {
            name: "train".to_owned(),
            card_request: Some("{}".to_owned()),
            min_member: 4,
            tasks: BTreeMap::new(),
        };
        assert_eq!(made_by(job.clone()).unwrap().whole, Some(expected.clone()));
        let mut of_cron = job;
        of_cron["metadata"]["name"] = Value::Null;
        let cron = json!({ "kind": "CronJob", "metadata": { "name": "train" }, "spec": { "jobTemplate": of_cron } });
        assert_eq!(made_by(cron).unwrap().whole, Some(expected));
    }

    #[test]
    fn a_job_of_volcano_is_a_whole_of_the_pods_of_its_tasks() {
        let task = |name: &str, replicas: u64| json!({ "name": name, "replicas": replicas, "template": { "spec": { "containers": [] } } });
        let spec = json!({ "queue": "team-a", "tasks": [task("master", 1), task("worker", 3)] });
        let job = |spec: Value| {
            json!({
                "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": { "name": "train" }, "spec": spec,
            })
        };
        let made = made_by(job(spec.clone())).unwrap();
        let whole = made.whole.unwrap();
        assert_eq!((whole.min_member, whole.tasks.get("worker")), (4, Some(&3)));
        let pods = made.pods.iter().map(|(pod, count)| {
            let annotations = &pod.metadata.annotations;
            (annotations.get(TASK_SPEC), annotations.get(QUEUE_NAME), *count)
        });
        let queue = Some("team-a");
        assert_eq!(
            pods.collect::<Vec<_>>(),
            [(Some("master"), queue, 1), (Some("worker"), queue, 3)]
        );
        let mut fewer = spec;
        fewer["minAvailable"] = 2.into();
        fewer["tasks"][1]["minAvailable"] = 1.into();
        let whole = made_by(job(fewer)).unwrap().whole.unwrap();
        assert_eq!((whole.min_member, whole.tasks.get("worker")), (2, Some(&1)));
    }

    #[test]
    fn no_job_of_volcano_makes_it_fall() {
        for spec in [
            json!("text"),
            json!({ "tasks": [] }),
            json!({ "tasks": "text" }),
            json!({ "tasks": ["text"] }),
            json!({ "tasks": [{ "template": "text" }] }),
            json!({ "tasks": [{ "template": { "metadata": 1 } }] }),
            json!({ "tasks": [{ "template": { "metadata": { "annotations": [] } } }] }),
            json!({ "tasks": [{ "template": { "spec": "text" } }] }),
            json!({ "tasks": vec![json!({ "template": { "spec": { "containers": [] } } }); 257] }),
        ] {
            for version in ["batch.volcano.sh/v1alpha1", "batch/v1"] {
                let job = json!({ "apiVersion": version, "kind": "Job", "metadata": "text", "spec": spec });
                assert!(made_by(job).is_err(), "{spec}");
                assert!(made_by(json!({ "kind": "CronJob", "spec": { "jobTemplate": { "spec": spec } } })).is_err());
            }
        }
    }
}
