//! `kubectl card why` without a subject: everything that waits, with the reason that the object shows, or else the reason
//! that a question about it brings.

use crds::card_review::{CardReviewSpec, CardReviewStatus, Outlook};
use crds::keys::{ADMITTED_CONDITION, GATE, JOB_HELD};
use futures::{StreamExt as _, stream};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt as _;
use serde::Serialize;
use serde_json::Value;

use crate::cluster::Cluster;
use crate::failure::Failure;
use crate::print::Answer;
use crate::span;

use super::{WAITS, ask};

/// Shown as reason while there is none yet.
const NOT_DECIDED: &str = "<none yet>";
/// How many Jobs without a reason are asked about, and how many of them at once.
const MOST_ASKED: usize = 64;
const AT_ONCE: usize = 8;
/// The condition of groups that are not let in, in Volcano's words.
const UNSCHEDULABLE: &str = "Unschedulable";

/// Something that waits for its queue.
#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Waiting {
    pub kind: &'static str,
    pub namespace: String,
    pub name: String,
    /// Since when the object has existed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// Why it waits, in one word; empty while there is no reason yet.
    pub reason: String,
    /// Why it waits, with the numbers.
    pub message: String,
}

/// Returns everything that waits in a namespace, or in all, the oldest first, and notes on what is not known.
async fn waiting(cluster: &Cluster, namespace: Option<&str>) -> Result<(Vec<Waiting>, Vec<String>), Failure> {
    let pods: Vec<Pod> = cluster.list_in(namespace, "pods").await?;
    let jobs: Vec<Job> = cluster.list_in(namespace, "jobs").await?;
    let mut notes = Vec::new();
    let groups = match groups(cluster, namespace).await {
        Ok(groups) => groups,
        // The kind is not installed.
        Err(Failure::NotInstalled(_)) => Vec::new(),
        Err(failure) => {
            notes.push(format!("without PodGroups: {failure}"));
            Vec::new()
        }
    };
    let waiting = pods.iter().filter_map(pod).chain(jobs.iter().filter_map(job));
    let mut waiting: Vec<_> = waiting.chain(groups.iter().filter_map(group)).collect();
    waiting.sort_by(|a, b| (a.since, &a.namespace, &a.name).cmp(&(b.since, &b.namespace, &b.name)));
    notes.extend(ask_about_jobs(cluster, &mut waiting).await);
    Ok((waiting, notes))
}

async fn groups(cluster: &Cluster, namespace: Option<&str>) -> Result<Vec<Value>, Failure> {
    let groups = cluster.everything_in(namespace, "scheduling.volcano.sh", "v1beta1", "PodGroup", "podgroups");
    groups
        .await
        .map_err(|error| Failure::of_list_in("podgroups", namespace, &error))
}

/// Asks the operator about waiting Jobs, since a Job has no condition that says why it waits. Returns why some were left
/// out, if so.
async fn ask_about_jobs(cluster: &Cluster, waiting: &mut [Waiting]) -> Option<String> {
    let jobs = waiting
        .iter_mut()
        .filter(|waiting| waiting.kind == "Job")
        .take(MOST_ASKED);
    let asked = stream::iter(jobs).map(|job| async {
        let spec = CardReviewSpec {
            job: Some(job.name.clone()),
            ..CardReviewSpec::default()
        };
        let answered = ask(cluster, &job.namespace, spec).await;
        answered.map(|status| job.learn(status))
    });
    let answered: Vec<_> = asked.buffer_unordered(AT_ONCE).collect().await;
    let failure = answered.into_iter().find_map(Result::err)?;
    Some(format!("why some Jobs wait is not known: {failure}"))
}

impl Waiting {
    /// Takes over from an answer why the object waits.
    fn learn(&mut self, status: CardReviewStatus) {
        let never = status.blocks.iter().find(|block| block.outlook == Outlook::Never);
        let (reason, message) = match never.or(status.blocks.first()) {
            Some(block) => (block.reason.clone(), block.message.clone()),
            None => (String::new(), status.message),
        };
        (self.reason, self.message) = (reason, message);
    }
}

/// Returns a group that is not let into its queue, or only with fewer pods than must run together. Its condition says so.
fn group(group: &Value) -> Option<Waiting> {
    let metadata = &group["metadata"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let conditions = group["status"]["conditions"].as_array()?;
    // A condition of Volcano's scheduler names its session. Decisions of that scheduler are not shown here.
    let said = conditions.iter().find(|condition| {
        let is_ours = text(&condition["transitionID"]).is_empty();
        is_ours && condition["type"] == UNSCHEDULABLE && condition["status"] == "True"
    })?;
    if metadata.get("deletionTimestamp").is_some() {
        return None;
    }
    Some(Waiting {
        kind: "PodGroup",
        namespace: text(&metadata["namespace"]),
        name: text(&metadata["name"]),
        since: metadata["creationTimestamp"]
            .as_str()
            .and_then(|time| time.parse().ok()),
        reason: text(&said["reason"]),
        message: text(&said["message"]),
    })
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

/// Returns a Job that is suspended until its queue lets it in.
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
            "suspended until its queue takes it: kubectl card why job/{} asks why",
            job.name_any()
        ),
    })
}

/// Answers with the list, as people read it.
pub async fn answer(cluster: &Cluster, everywhere: bool) -> Result<Answer, Failure> {
    let namespace = (!everywhere).then_some(&*cluster.namespace);
    let (waiting, notes) = waiting(cluster, namespace).await?;
    let mut answer = Answer::new(&waiting).map_err(|error| Failure::unprintable(&error))?;
    answer.notes = notes;
    if waiting.is_empty() {
        if let Some(namespace) = namespace
            && let Ok(None) = cluster.get_if_seen::<Namespace>(None, namespace).await
        {
            answer.notes.push(format!("there is no namespace {namespace}"));
        }
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
        // A reason from an earlier admission no longer counts once the pod waits again.
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

    #[test]
    fn a_group_waits_while_cardgate_says_that_it_is_not_let_in() {
        let of = |status: &str, session: &str| {
            group(&json!({
                "metadata": { "name": "g", "namespace": "n", "creationTimestamp": "2026-11-23T12:00:00Z" },
                "status": { "conditions": [
                    { "type": "Scheduled", "status": "True", "reason": "Other", "message": "" },
                    { "type": UNSCHEDULABLE, "status": status, "transitionID": session, "reason": "R", "message": "M" },
                ] },
            }))
        };
        let waits = of("True", "").unwrap();
        assert_eq!(
            (waits.kind, &*waits.name, &*waits.reason, &*waits.message),
            ("PodGroup", "g", "R", "M")
        );
        assert!(waits.since.is_some());
        assert_eq!((of("False", ""), of("True", "session")), (None, None));
        assert_eq!(group(&json!({ "metadata": { "name": "g" } })), None);
    }

    #[test]
    fn a_held_job_says_what_was_answered() {
        let mut held = Waiting {
            kind: "Job",
            namespace: "n".to_owned(),
            name: "j".to_owned(),
            since: None,
            reason: String::new(),
            message: "unknown".to_owned(),
        };
        let answer = json!({
            "admitted": false, "message": "job j waits: M",
            "blocks": [{ "reason": "R", "message": "M", "outlook": "NotYet", "remedy": "" }],
        });
        held.learn(serde_json::from_value(answer).unwrap());
        assert_eq!((&*held.reason, &*held.message), ("R", "M"));
        // It was let in meanwhile, or the operator does not decide about it.
        held.learn(CardReviewStatus {
            message: "job j is let in".to_owned(),
            ..CardReviewStatus::default()
        });
        assert_eq!((&*held.reason, &*held.message), ("", "job j is let in"));
    }
}
