//! The priorities that pods get from classes (`priorityClassName`), as API servers write them on new pods.

use std::collections::BTreeMap;

use crds::bounds::{TASKS, excerpt};
use crds::spelling;
use serde_json::Value;
use thiserror::Error;

use crate::cluster::Cluster;
use crate::failure::{Failure, lacks_right, words};
use crate::manifests::Manifest;

/// Classes that every cluster has, known even if the cluster's classes can't be read.
const BUILT_IN: [(&str, i64); 2] = [
    ("system-cluster-critical", 2_000_000_000),
    ("system-node-critical", 2_000_001_000),
];

/// A class that does not exist: API servers refuse the pod.
#[derive(Debug, Error)]
#[error(
    "priorityClassName {class:?}: there is no PriorityClass of that name{}: name one of those that kubectl get priorityclasses lists, or have it \
     created", .meant.as_ref().map(|meant| format!(" (did you mean {meant:?}?)")).unwrap_or_default()
)]
pub struct NoClass {
    class: String,
    meant: Option<String>,
}

impl From<NoClass> for Failure {
    fn from(error: NoClass) -> Self {
        Self::NoClass(error.to_string())
    }
}

/// The priorities of classes.
#[derive(Debug, Default)]
pub struct Priorities {
    classes: BTreeMap<String, i64>,
    /// The priority of pods that name no class. If several classes are the default, it is the lowest.
    default: Option<i64>,
    /// Why the cluster's classes are not known, if they are not.
    unknown: Option<String>,
}

impl Priorities {
    /// The priorities of the cluster's classes.
    pub async fn of_cluster(cluster: &Cluster) -> Self {
        let mut priorities = Self::default();
        let listed = cluster.everything("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses");
        match listed.await {
            Ok(classes) => classes.iter().for_each(|class| priorities.add_one(class)),
            Err(error) => priorities.note_unknown(&error),
        }
        priorities
    }

    /// Notes that the cluster's classes can't be read.
    pub fn note_unknown(&mut self, error: &kube::Error) {
        self.unknown = Some(if lacks_right(error) {
            "you may not list priorityclasses".to_owned()
        } else {
            words(error)
        });
    }

    /// Adds the classes among these manifests.
    pub fn add<'m>(&mut self, manifests: impl Iterator<Item = &'m Manifest>) {
        let classes = manifests.filter(|manifest| manifest.group_and_kind() == ("scheduling.k8s.io", "PriorityClass"));
        classes.for_each(|class| self.add_one(&class.object));
    }

    fn add_one(&mut self, class: &Value) {
        let value = class["value"].as_i64().unwrap_or(0);
        let name = class["metadata"]["name"].as_str().unwrap_or_default();
        self.classes.insert(name.to_owned(), value);
        if class["globalDefault"] == true {
            self.default = Some(self.default.map_or(value, |default| default.min(value)));
        }
    }

    /// Writes the priority into a pod's spec, if the spec has none: the priority of the class that the spec names, else of
    /// class `of`. Returns what had to be assumed.
    pub fn write(&self, spec: &mut Value, of: Option<&str>) -> Result<Option<String>, NoClass> {
        if !spec.is_object() || !spec["priority"].is_null() {
            return Ok(None);
        }
        let own = spec["priorityClassName"].as_str().filter(|class| !class.is_empty());
        let class = own.or(of).map(str::to_owned);
        let (priority, note) = self.of_class(class.as_deref())?;
        spec["priority"] = priority.into();
        Ok(note)
    }

    fn of_class(&self, class: Option<&str>) -> Result<(i64, Option<String>), NoClass> {
        let default = self.default.unwrap_or(0);
        let Some(class) = class else {
            return Ok((default, None));
        };
        let built_in = || {
            BUILT_IN
                .iter()
                .find(|(name, _)| *name == class)
                .map(|(_, value)| *value)
        };
        if let Some(priority) = self.classes.get(class).copied().or_else(built_in) {
            return Ok((priority, None));
        }
        let short = excerpt(class);
        if let Some(why) = &self.unknown {
            let note =
                format!("the priority that the class {short:?} stands for is not known ({why}): {default} is taken");
            return Ok((default, Some(note)));
        }
        let names = self.classes.keys().map(String::as_str);
        Err(NoClass {
            class: short.into_owned(),
            meant: spelling::meant_card(class, names).map(str::to_owned),
        })
    }

    /// Writes priorities on all pods that a manifest is or makes. Returns what had to be assumed.
    pub fn write_all(&self, manifest: &mut Value) -> Result<Vec<String>, NoClass> {
        let mut notes = Vec::new();
        let mut write = |spec: Option<&mut Value>, of: Option<&str>| {
            let note = spec.map_or(Ok(None), |spec| self.write(spec, of))?;
            notes.extend(note);
            Ok(())
        };
        let version = manifest["apiVersion"].as_str().unwrap_or_default();
        if version.starts_with("batch.volcano.sh/") {
            // The class that the Job names is for its tasks that name none.
            let of = manifest
                .pointer("/spec/priorityClassName")
                .and_then(Value::as_str)
                .map(str::to_owned);
            let tasks = manifest.pointer_mut("/spec/tasks").and_then(Value::as_array_mut);
            for task in tasks.into_iter().flatten().take(TASKS) {
                write(task.pointer_mut("/template/spec"), of.as_deref())?;
            }
        } else {
            let places = ["/spec/jobTemplate/spec/template/spec", "/spec/template/spec", "/spec"];
            let place = places.into_iter().find(|place| manifest.pointer(place).is_some());
            write(place.and_then(|place| manifest.pointer_mut(place)), None)?;
        }
        notes.dedup();
        Ok(notes)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn class(name: &str, value: i64, is_default: bool) -> Manifest {
        Manifest {
            file: "f".to_owned(),
            object: json!({
                "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": { "name": name },
                "value": value, "globalDefault": is_default,
            }),
        }
    }

    fn of(classes: &[Manifest]) -> Priorities {
        let mut priorities = Priorities::default();
        priorities.add(classes.iter());
        priorities
    }

    fn written(priorities: &Priorities, mut spec: Value) -> (Value, Option<String>) {
        let note = priorities.write(&mut spec, None).unwrap();
        (spec["priority"].clone(), note)
    }

    #[test]
    fn a_pod_gets_the_number_of_its_class_as_from_an_api_server() {
        let known = of(&[
            class("high", 100, false),
            class("usual", 7, true),
            class("other", 9, true),
        ]);
        for (spec, priority) in [
            (json!({ "priorityClassName": "high" }), 100),
            (json!({ "priorityClassName": "system-node-critical" }), 2_000_001_000),
            // Of several default classes, the lowest counts.
            (json!({}), 7),
            (json!({ "priorityClassName": "" }), 7),
            (json!({ "priorityClassName": "high", "priority": 3 }), 3),
        ] {
            assert_eq!(written(&known, spec.clone()), (priority.into(), None), "{spec}");
        }
        assert_eq!(written(&of(&[]), json!({})), (0.into(), None));
    }

    #[test]
    fn a_class_that_is_not_there_is_an_error_with_what_to_do() {
        let known = of(&[class("training-high", 100, false)]);
        let error = known
            .write(&mut json!({ "priorityClassName": "traning-high" }), None)
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "priorityClassName \"traning-high\": there is no PriorityClass of that name (did you mean \"training-high\"?): name one of those that kubectl \
             get priorityclasses lists, or have it created"
        );
        let long = json!({ "priorityClassName": "x".repeat(100_000) });
        assert!(known.write(&mut long.clone(), None).unwrap_err().to_string().len() < 300);
    }

    #[test]
    fn where_classes_can_not_be_read_that_is_said_and_what_is_known_counts() {
        let mut known = of(&[class("high", 100, false)]);
        let status = json!({ "status": "Failure", "code": 403, "message": "User \"eve\" cannot list resource \"priorityclasses\"" });
        known.note_unknown(&kube::Error::Api(serde_json::from_value(status).unwrap()));
        assert_eq!(
            written(&known, json!({ "priorityClassName": "high" })),
            (100.into(), None)
        );
        assert_eq!(written(&known, json!({})), (0.into(), None));
        let note = "the priority that the class \"low\" stands for is not known (you may not list priorityclasses): 0 is taken";
        assert_eq!(
            written(&known, json!({ "priorityClassName": "low" })),
            (0.into(), Some(note.to_owned()))
        );
    }

    #[test]
    fn every_pod_of_a_manifest_gets_one() {
        let known = of(&[class("high", 100, false), class("low", -5, false)]);
        let pod = || json!({ "spec": { "priorityClassName": "high" } });
        let job = json!({ "spec": { "template": pod() } });
        for (mut manifest, place) in [
            (pod(), "/spec"),
            (job.clone(), "/spec/template/spec"),
            (
                json!({ "spec": { "jobTemplate": job } }),
                "/spec/jobTemplate/spec/template/spec",
            ),
        ] {
            known.write_all(&mut manifest).unwrap();
            assert_eq!(manifest.pointer(place).unwrap()["priority"], 100, "{manifest}");
        }
        let mut of_volcano = json!({
            "apiVersion": "batch.volcano.sh/v1alpha1",
            "spec": { "priorityClassName": "low", "tasks": [{ "template": pod() }, { "template": { "spec": {} } }, "text"] },
        });
        known.write_all(&mut of_volcano).unwrap();
        let priority = |task: usize| of_volcano["spec"]["tasks"][task]["template"]["spec"]["priority"].clone();
        assert_eq!((priority(0), priority(1)), (100.into(), (-5).into()));
        for odd in [
            json!(null),
            json!("text"),
            json!([1]),
            json!({ "spec": "text" }),
            json!({ "spec": { "template": 1 } }),
        ] {
            known.write_all(&mut odd.clone()).unwrap();
        }
    }
}
