//! `kubectl card why` about nothing in particular: all that waits, with the reason that stands on it.

use crds::keys::{ADMITTED_CONDITION, GATE, JOB_HELD};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt as _;
use serde::Serialize;

use crate::cluster::Cluster;
use crate::failure::Failure;
use crate::print::Answer;
use crate::span;

use super::WAITS;

/// What stands for the reason of what nothing is said of yet.
const NOT_DECIDED: &str = "<none yet>";

/// Something that waits for its queue.
#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Waiting {
    pub kind: &'static str,
    pub namespace: String,
    pub name: String,
    /// Since when it has been there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// Why it waits, in one word; empty while nothing has been said.
    pub reason: String,
    /// Why, with the numbers.
    pub message: String,
}

/// All that waits in a namespace, or in all, the oldest first.
pub async fn waiting(cluster: &Cluster, namespace: Option<&str>) -> Result<Vec<Waiting>, Failure> {
    let pods: Vec<Pod> = cluster.list_in(namespace, "pods").await?;
    let jobs: Vec<Job> = cluster.list_in(namespace, "jobs").await?;
    let mut waiting: Vec<_> = pods.iter().filter_map(pod).chain(jobs.iter().filter_map(job)).collect();
    waiting.sort_by(|a, b| (a.since, &a.namespace, &a.name).cmp(&(b.since, &b.namespace, &b.name)));
    Ok(waiting)
}

fn pod(pod: &Pod) -> Option<Waiting> {
    let gates = pod.spec.as_ref()?.scheduling_gates.as_ref()?;
    if !gates.iter().any(|gate| gate.name == GATE) || pod.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    let said = conditions
        .into_iter()
        .flatten()
        .find(|condition| condition.type_ == ADMITTED_CONDITION && condition.status == "False");
    Some(Waiting {
        kind: "Pod",
        namespace: pod.namespace().unwrap_or_default(),
        name: pod.name_any(),
        since: pod.metadata.creation_timestamp.as_ref().map(|time| time.0),
        reason: said.and_then(|said| said.reason.clone()).unwrap_or_default(),
        message: said.and_then(|said| said.message.clone()).unwrap_or_default(),
    })
}

/// A Job that is suspended until its queue takes it.
fn job(job: &Job) -> Option<Waiting> {
    let is_suspended = job.spec.as_ref()?.suspend == Some(true);
    if !is_suspended || !job.annotations().contains_key(JOB_HELD) || job.metadata.deletion_timestamp.is_some() {
        return None;
    }
    Some(Waiting {
        kind: "Job",
        namespace: job.namespace().unwrap_or_default(),
        name: job.name_any(),
        since: job.metadata.creation_timestamp.as_ref().map(|time| time.0),
        reason: String::new(),
        message: format!(
            "suspended until its queue takes it: kubectl card why job/{} says why",
            job.name_any()
        ),
    })
}

/// The list, as people read it.
pub async fn answer(cluster: &Cluster, everywhere: bool) -> Result<Answer, Failure> {
    let namespace = (!everywhere).then_some(&*cluster.namespace);
    let waiting = waiting(cluster, namespace).await?;
    let mut answer = Answer::new(&waiting).map_err(|error| Failure::unprintable(&error))?;
    if waiting.is_empty() {
        answer.line(&match namespace {
            Some(namespace) => format!("Nothing waits in namespace {namespace}."),
            None => "Nothing waits.".to_owned(),
        });
        return Ok(answer);
    }
    answer.code = WAITS;
    let now = Timestamp::now();
    let row = |waiting: &Waiting| {
        let name = format!("{}/{}", waiting.kind.to_lowercase(), waiting.name);
        let age = waiting.since.map(|since| span::short(now.duration_since(since)));
        let reason = if waiting.reason.is_empty() {
            NOT_DECIDED
        } else {
            &waiting.reason
        };
        [
            waiting.namespace.clone(),
            name,
            age.unwrap_or_default(),
            reason.to_owned(),
            waiting.message.clone(),
        ]
    };
    let rows: Vec<_> = waiting.iter().map(row).collect();
    if everywhere {
        answer.table(["NAMESPACE", "NAME", "AGE", "REASON", "MESSAGE"], 0, &rows);
    } else {
        let rows: Vec<_> = rows.into_iter().map(|[_, rest @ ..]| rest).collect();
        answer.table(["NAME", "AGE", "REASON", "MESSAGE"], 0, &rows);
    }
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_cardgate_holds_waits() {
        let of = |gates: &[&str], status: &str| {
            let gates: Vec<_> = gates.iter().map(|name| json!({ "name": name })).collect();
            let object = json!({
                "metadata": { "name": "p", "namespace": "n" },
                "spec": { "containers": [], "schedulingGates": gates },
                "status": { "conditions": [{ "type": ADMITTED_CONDITION, "status": status, "reason": "R", "message": "M" }] },
            });
            pod(&serde_json::from_value(object).unwrap())
        };
        let held = of(&[GATE, "other"], "False").unwrap();
        assert_eq!((&*held.reason, &*held.message), ("R", "M"));
        // What is said of its admission is over once it waits again.
        assert_eq!(of(&[GATE], "True").unwrap().reason, "");
        assert_eq!(of(&["other"], "False"), None);
        assert_eq!(of(&[], "False"), None);
        let of = |suspend: bool, key: &str| {
            let object = json!({
                "metadata": { "name": "j", "annotations": { key: "" } },
                "spec": { "suspend": suspend, "template": {} },
            });
            job(&serde_json::from_value(object).unwrap())
        };
        assert!(of(true, JOB_HELD).is_some());
        assert_eq!((of(false, JOB_HELD), of(true, "other")), (None, None));
    }
}
