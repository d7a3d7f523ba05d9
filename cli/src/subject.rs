//! What the user asks about: by name, or as a manifest.

use std::path::Path;

use crds::card_review::{CardReviewSpec, ReviewedWorkload};
use crds::made::{NoPod, made_by};
use serde_json::Value;
use thiserror::Error;

use crate::files::{FileError, read_text, shown};

/// The longest file that is read. etcd allows no longer manifest.
const LONGEST: u64 = 3 << 20;
/// The most manifests in one file; each is a question of its own.
const MOST: usize = 50;

/// What is asked about.
#[derive(Debug, PartialEq)]
pub struct Subject {
    pub spec: CardReviewSpec,
    /// The namespace that a manifest names; `None` for the namespace of the command.
    pub namespace: Option<String>,
}

/// What a file asks about.
#[derive(Debug)]
pub struct InFile {
    pub subjects: Vec<Subject>,
    /// A text for each object in the file that makes no pods, and so is not asked about.
    pub passed_over: Vec<String>,
}

/// Why something can't be asked about.
#[derive(Debug, Error)]
pub enum SubjectError {
    #[error(
        "{0:?} names nothing: write a pod's name, or KIND/NAME such as job/train, deployment/web, podgroup/gang or queue/team-a"
    )]
    Nameless(String),
    #[error("{0:?} and {1:?}: ask about one at a time: a pod's name, KIND/NAME, or KIND NAME")]
    SeveralNamed(String, String),
    #[error(
        "{0:?} is no kind that is known, so {1:?} is no name of one: ask about one at a time, as kubectl card why NAME of a pod, or KIND/NAME. Known \
         are pod, job, cronjob, podgroup, queue, deployment, replicaset, statefulset and daemonset, and any other controller of pods as its pods \
         name it, such as RayCluster"
    )]
    NoKind(String, String),
    #[error(transparent)]
    File(#[from] FileError),
    #[error("{0} is no YAML or JSON: {1}")]
    Syntax(String, Box<serde_saphyr::Error>),
    #[error("{0} has no manifest in it")]
    Empty(String),
    #[error(
        "nothing in {0} makes pods: give a Pod, or what has a pod template (spec.template), such as a Job or Deployment"
    )]
    NoPods(String),
    #[error("{0} has {1} manifests: ask about at most {MOST} at once")]
    TooMany(String, usize),
}

/// Returns the subject for a pod's name, for `KIND/NAME`, or for kind and name as two words.
pub fn of_words(words: &[String]) -> Result<Subject, SubjectError> {
    match words {
        [kind, name] if kind.contains('/') || name.contains('/') => {
            Err(SubjectError::SeveralNamed(kind.clone(), name.clone()))
        }
        // These are probably names of two pods, since a controller's kind has capitals.
        [kind, name] if is_unknown(kind) => Err(SubjectError::NoKind(kind.clone(), name.clone())),
        words => named(&words.join("/")),
    }
}

/// Whether a word is neither a kind that people type nor the kind of a controller as pods write it.
fn is_unknown(kind: &str) -> bool {
    let asked = named(&format!("{kind}/name"));
    let workload = asked.ok().and_then(|subject| subject.spec.workload);
    workload.is_some_and(|workload| workload.kind == kind && !kind.contains(char::is_uppercase))
}

/// Returns the subject for a pod's name, or for `KIND/NAME`.
pub fn named(text: &str) -> Result<Subject, SubjectError> {
    let (kind, name) = text.split_once('/').unwrap_or(("pod", text));
    if kind.is_empty() || name.is_empty() || name.contains('/') {
        return Err(SubjectError::Nameless(text.to_owned()));
    }
    let name = name.to_owned();
    let none = CardReviewSpec::default();
    let spec = match &*kind.to_lowercase() {
        "pod" | "pods" | "po" => CardReviewSpec {
            pod: Some(name),
            ..none
        },
        "job" | "jobs" | "job.batch" | "jobs.batch" => CardReviewSpec {
            job: Some(name),
            ..none
        },
        "podgroup" | "podgroups" | "pg" => CardReviewSpec {
            pod_group: Some(name),
            ..none
        },
        "queue" | "queues" | "q" => CardReviewSpec {
            queue: Some(name),
            ..none
        },
        lower => {
            let kind = match lower {
                "deployment" | "deployments" | "deploy" | "deployment.apps" | "deployments.apps" => "Deployment",
                "replicaset" | "replicasets" | "rs" | "replicaset.apps" | "replicasets.apps" => "ReplicaSet",
                "statefulset" | "statefulsets" | "sts" | "statefulset.apps" | "statefulsets.apps" => "StatefulSet",
                "daemonset" | "daemonsets" | "ds" | "daemonset.apps" | "daemonsets.apps" => "DaemonSet",
                "cronjob" | "cronjobs" | "cj" | "cronjob.batch" | "cronjobs.batch" => "CronJob",
                // Any other controller of pods, as its pods name it.
                _ => kind,
            };
            let workload = ReviewedWorkload {
                kind: kind.to_owned(),
                name,
            };
            CardReviewSpec {
                workload: Some(workload),
                ..none
            }
        }
    };
    Ok(Subject { spec, namespace: None })
}

/// Returns a kind as people type it before a name. The kind of an unknown controller stays as its pods name it.
pub fn typed(kind: &str) -> String {
    match kind {
        "Pod" | "Job" | "PodGroup" | "ReplicaSet" | "StatefulSet" | "DaemonSet" => kind.to_lowercase(),
        _ => kind.to_owned(),
    }
}

/// Reads the manifests of a file as subjects; `-` is the input.
pub fn of_file(path: &Path) -> Result<InFile, SubjectError> {
    of_text(&read_text(path, LONGEST)?, shown(path))
}

fn of_text(text: &str, shown: String) -> Result<InFile, SubjectError> {
    let manifests: Vec<Value> =
        serde_saphyr::from_multiple(text).map_err(|error| SubjectError::Syntax(shown.clone(), error.into()))?;
    let manifests = manifests.into_iter().filter(|manifest| !manifest.is_null());
    let manifests: Vec<_> = manifests.flat_map(each).collect();
    if manifests.is_empty() {
        return Err(SubjectError::Empty(shown));
    }
    let (with_pods, without): (Vec<_>, Vec<_>) = manifests.into_iter().partition(makes_pods);
    match with_pods.len() {
        0 => Err(SubjectError::NoPods(shown)),
        count if count > MOST => Err(SubjectError::TooMany(shown, count)),
        _ => Ok(InFile {
            subjects: with_pods.into_iter().map(of_manifest).collect(),
            passed_over: without.iter().map(passed_over).collect(),
        }),
    }
}

/// Returns the items of a list, which `kubectl get -o yaml` prints for several objects, or the object itself.
fn each(mut manifest: Value) -> Vec<Value> {
    if manifest["kind"] != "List" {
        return vec![manifest];
    }
    match manifest["items"].take() {
        Value::Array(items) => items,
        _ => Vec::new(),
    }
}

fn makes_pods(manifest: &Value) -> bool {
    !matches!(made_by(manifest.clone()), Err(NoPod::NoTemplate))
}

fn passed_over(manifest: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let kind = text(&manifest["kind"]);
    let what = format!("{kind} {}", text(&manifest["metadata"]["name"]));
    // Each question is about one manifest.
    let advice = if kind == "PodGroup" {
        ": its pods are asked about as the cluster has it at the moment; kubectl card simulate takes a file as a whole"
    } else {
        ""
    };
    format!("not asked about: {}, which makes no pods{advice}", what.trim())
}

fn of_manifest(manifest: Value) -> Subject {
    Subject {
        namespace: manifest["metadata"]["namespace"].as_str().map(str::to_owned),
        spec: CardReviewSpec {
            manifest: Some(manifest),
            ..CardReviewSpec::default()
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_pods_unless_it_says_otherwise() {
        let spec = |text: &str| named(text).unwrap().spec;
        for pod in ["train-0", "pod/train-0", "po/train-0", "Pods/train-0"] {
            assert_eq!(spec(pod).pod.as_deref(), Some("train-0"), "{pod}");
        }
        assert_eq!(spec("job/train").job.as_deref(), Some("train"));
        assert_eq!(spec("pg/gang").pod_group.as_deref(), Some("gang"));
        assert_eq!(spec("queue/team-a").queue.as_deref(), Some("team-a"));
        for (text, kind) in [
            ("deploy/web", "Deployment"),
            ("sts/web", "StatefulSet"),
            ("RayCluster/web", "RayCluster"),
        ] {
            let workload = spec(text).workload.unwrap();
            assert_eq!((&*workload.kind, &*workload.name), (kind, "web"));
        }
        for nothing in ["", "pod/", "/web", "a/b/c"] {
            assert!(
                named(nothing).unwrap_err().to_string().contains("KIND/NAME"),
                "{nothing}"
            );
        }
    }

    #[test]
    fn kind_and_name_may_be_two_words_as_in_kubectl() {
        let meant = |words: &[&str]| of_words(&words.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(meant(&["train-0"]).unwrap(), named("train-0").unwrap());
        assert_eq!(meant(&["pod", "train-0"]).unwrap(), named("train-0").unwrap());
        assert_eq!(meant(&["deploy", "web"]).unwrap(), named("deploy/web").unwrap());
        let several = meant(&["job/a", "job/b"]).unwrap_err().to_string();
        assert!(several.contains("one at a time"), "{several}");
        assert_eq!(meant(&["RayCluster", "web"]).unwrap(), named("RayCluster/web").unwrap());
        assert_eq!(meant(&["cj", "nightly"]).unwrap(), named("CronJob/nightly").unwrap());
        // Of two pods, the first was reported as unknown, as a kind of the second.
        let pods = meant(&["top1", "same"]).unwrap_err().to_string();
        assert!(
            pods.starts_with("\"top1\" is no kind that is known, so \"same\" is no name of one: ")
                && pods.contains("pod, job, cronjob"),
            "{pods}"
        );
    }

    #[test]
    fn what_a_list_has_is_asked_about_each_by_itself() {
        let text = "kind: List\nitems:\n- {kind: Pod, spec: {containers: []}}\n- {kind: Queue, metadata: {name: q}}\n\
                    - {kind: Job, spec: {template: {spec: {containers: []}}}}\n";
        let found = of_text(text, "f".to_owned()).unwrap();
        assert_eq!(found.subjects.len(), 2, "{found:?}");
        assert_eq!(found.passed_over, ["not asked about: Queue q, which makes no pods"]);
    }

    #[test]
    fn every_manifest_of_a_file_is_asked_about_in_its_own_namespace() {
        let text = "---\nkind: Pod\nmetadata: {namespace: team-a}\nspec: {containers: []}\n---\n\
                    kind: Job\nspec: {template: {spec: {containers: []}}}\n---\n";
        let found = of_text(text, "f".to_owned()).unwrap();
        let [pod, job] = found.subjects.as_slice() else {
            panic!("{found:?}")
        };
        assert!(found.passed_over.is_empty(), "{found:?}");
        assert_eq!(pod.namespace.as_deref(), Some("team-a"));
        assert_eq!(pod.spec.manifest.as_ref().unwrap()["kind"], "Pod");
        assert_eq!(
            (job.namespace.as_ref(), &job.spec.manifest.as_ref().unwrap()["kind"]),
            (None, &"Job".into())
        );
    }

    #[test]
    fn what_makes_no_pods_is_passed_over_where_something_does() {
        let queue = "kind: Queue\nmetadata: {name: team-a}\n";
        let found = of_text(
            &format!("{queue}---\nkind: Pod\nspec: {{containers: []}}\n"),
            "f".to_owned(),
        )
        .unwrap();
        assert_eq!(found.subjects.len(), 1);
        assert_eq!(
            found.passed_over,
            ["not asked about: Queue team-a, which makes no pods"]
        );
        let found = of_text(
            "kind: PodGroup\nmetadata: {name: g}\n---\nkind: Pod\nspec: {containers: []}\n",
            "f".to_owned(),
        );
        let told = found.unwrap().passed_over.remove(0);
        assert!(
            told.starts_with("not asked about: PodGroup g, which makes no pods: ")
                && told.ends_with("kubectl card simulate takes a file as a whole"),
            "{told}"
        );
        let alone = of_text(queue, "f".to_owned()).unwrap_err().to_string();
        assert!(alone.starts_with("nothing in f makes pods: give a Pod"), "{alone}");
    }

    #[test]
    fn what_is_no_manifest_is_told() {
        let said = |text: &str| of_text(text, "f".to_owned()).unwrap_err().to_string();
        assert!(said("").contains("has no manifest"));
        assert!(said("a: [").contains("is no YAML"));
        let many = "spec: {containers: []}\n---\n".repeat(60);
        assert!(said(&many).contains("60 manifests"));
    }
}
