//! What is said of a controller that has no pods, as far as the user may read it. The operator knows a controller only by
//! its pods.

use std::fmt::Debug;

use crds::card_review::ReviewedWorkload;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::CronJob;
use kube::Resource;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::cluster::Cluster;
use crate::subject::typed;

/// How many Jobs of a `CronJob` are asked about.
const MOST_JOBS: usize = 5;

/// A workload that has no pods itself.
#[derive(Debug, PartialEq)]
pub enum Podless {
    /// Why it has no pods, and what to do.
    Said(String),
    /// The Jobs that it has made and that are running: these have the pods.
    Jobs(Vec<String>),
}

/// Returns why it has no pods. `None` if it does not exist, has pods, or the user may not read it.
pub async fn look(cluster: &Cluster, namespace: &str, workload: &ReviewedWorkload) -> Option<Podless> {
    let name = &workload.name;
    let found = match &*workload.kind {
        "Deployment" => read::<Deployment>(cluster, namespace, name).await,
        "ReplicaSet" => read::<ReplicaSet>(cluster, namespace, name).await,
        "StatefulSet" => read::<StatefulSet>(cluster, namespace, name).await,
        "DaemonSet" => read::<DaemonSet>(cluster, namespace, name).await,
        "CronJob" => read::<CronJob>(cluster, namespace, name).await,
        _ => None,
    }?;
    said(namespace, workload, &found)
}

async fn read<K>(cluster: &Cluster, namespace: &str, name: &str) -> Option<Value>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Serialize + 'static,
{
    let found = cluster.get_if_seen::<K>(Some(namespace), name).await.ok().flatten()?;
    serde_json::to_value(found).ok()
}

/// The same for an object that was read.
fn said(namespace: &str, workload: &ReviewedWorkload, found: &Value) -> Option<Podless> {
    let (kind, name) = (&*workload.kind, &*workload.name);
    let what = format!("{}/{name}", typed(kind).to_lowercase());
    let number = |pointer: &str| found.pointer(pointer).and_then(Value::as_i64);
    let made_by = found.pointer("/metadata/ownerReferences").and_then(Value::as_array);
    let made_by = made_by.and_then(|owners| owners.iter().find(|owner| owner["controller"] == true));
    // Until its controller has processed it, its status says nothing.
    let is_seen = number("/status/observedGeneration") >= number("/metadata/generation");
    let said = match kind {
        "CronJob" => return Some(of_cron_job(namespace, name, found)),
        "DaemonSet" if is_seen && number("/status/desiredNumberScheduled").unwrap_or(0) == 0 => format!(
            "DaemonSet {name} is there and has no pods: none of the nodes is one that it is for (status.desiredNumberScheduled is 0), see its \
             nodeSelector, affinity and tolerations"
        ),
        // Its pods exist, but the operator has not seen them, or knows them by another name.
        "DaemonSet" if number("/status/currentNumberScheduled").unwrap_or(0) > 0 => return None,
        _ if number("/status/replicas").unwrap_or(0) > 0 => return None,
        _ if number("/spec/replicas") == Some(0) => {
            match made_by.and_then(|owner| Some((owner["kind"].as_str()?, owner["name"].as_str()?))) {
                Some((kind, owner)) => format!(
                    "{} {name} is there and has no pods: {kind} {owner}, which made it, wants none of it now; ask about that",
                    workload.kind
                ),
                None => format!(
                    "{kind} {name} is there and has no pods, so nothing of it waits: it is scaled to 0 (spec.replicas); kubectl -n {namespace} scale \
                 {what} --replicas=1 has it make one"
                ),
            }
        }
        _ => format!(
            "{kind} {name} is there and has no pods, though it is to have some: kubectl -n {namespace} describe {what} says why none was created, \
             or whoever makes them for it has not come to it yet"
        ),
    };
    Some(Podless::Said(said))
}

fn of_cron_job(namespace: &str, name: &str, found: &Value) -> Podless {
    let active = found.pointer("/status/active").and_then(Value::as_array);
    let jobs = active.into_iter().flatten().filter_map(|job| job["name"].as_str());
    let jobs: Vec<_> = jobs.take(MOST_JOBS).map(str::to_owned).collect();
    if !jobs.is_empty() {
        return Podless::Jobs(jobs);
    }
    let is_suspended = found.pointer("/spec/suspend") == Some(&Value::Bool(true));
    let next = if is_suspended {
        "it is suspended (spec.suspend), so none is made until somebody resumes it".to_owned()
    } else {
        format!("kubectl -n {namespace} create job --from=cronjob/{name} NAME makes one out of turn")
    };
    Podless::Said(format!(
        "CronJob {name} is there and makes no pods itself, but Jobs, and none of them is under way at the moment; {next}"
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn told(kind: &str, found: &Value) -> Option<Podless> {
        let workload = ReviewedWorkload {
            kind: kind.to_owned(),
            name: "it".to_owned(),
        };
        said("team", &workload, found)
    }

    fn of(kind: &str, found: &Value) -> Option<String> {
        match told(kind, found)? {
            Podless::Said(said) => Some(said),
            Podless::Jobs(jobs) => panic!("{jobs:?}"),
        }
    }

    #[test]
    fn what_is_scaled_to_0_is_said_to_be_and_what_has_pods_is_left_to_others() {
        let none = json!({ "spec": { "replicas": 0 }, "status": {} });
        let said = of("Deployment", &none).unwrap();
        assert!(
            said.starts_with("Deployment it is there and has no pods, so nothing of it waits: it is scaled to 0")
                && said.contains("kubectl -n team scale deployment/it --replicas=1"),
            "{said}"
        );
        assert!(of("StatefulSet", &none).unwrap().contains("scale statefulset/it"));
        let owned = json!({ "metadata": { "ownerReferences": [{ "kind": "Deployment", "name": "web", "controller": true }] },
            "spec": { "replicas": 0 } });
        assert!(
            of("ReplicaSet", &owned)
                .unwrap()
                .contains("Deployment web, which made it")
        );
        let some = json!({ "spec": { "replicas": 2 }, "status": {} });
        assert!(
            of("Deployment", &some)
                .unwrap()
                .contains("kubectl -n team describe deployment/it")
        );
        assert_eq!(
            of(
                "Deployment",
                &json!({ "spec": { "replicas": 2 }, "status": { "replicas": 1 } })
            ),
            None
        );
        let nowhere = json!({ "status": { "desiredNumberScheduled": 0 } });
        assert!(of("DaemonSet", &nowhere).unwrap().contains("none of the nodes"));
        let somewhere = json!({ "status": { "desiredNumberScheduled": 2, "currentNumberScheduled": 1 } });
        assert_eq!(of("DaemonSet", &somewhere), None);
    }

    #[test]
    fn the_pods_of_a_cron_job_are_those_of_its_jobs() {
        let active: Vec<_> = (0..7).map(|index| json!({ "name": format!("it-{index}") })).collect();
        let jobs = told("CronJob", &json!({ "status": { "active": active } }));
        let first = ["it-0", "it-1", "it-2", "it-3", "it-4"].map(str::to_owned);
        assert_eq!(jobs, Some(Podless::Jobs(first.to_vec())));
        let idle = of("CronJob", &json!({ "spec": {}, "status": {} })).unwrap();
        assert!(idle.contains("none of them is under way at the moment"), "{idle}");
        let off = of("CronJob", &json!({ "spec": { "suspend": true } })).unwrap();
        assert!(off.contains("it is suspended (spec.suspend)"), "{off}");
    }
}
