//! `kubectl card why`: why something waits, and what would let it in. The leading operator answers, by `CardReview`.

pub mod list;
mod podless;
mod text;

use crds::card_review::{CardReview, CardReviewSpec, CardReviewStatus, Outlook};
use crds::keys::JOB_HELD;
use k8s_openapi::api::batch::v1::{Job, JobCondition};
use kube::ResourceExt as _;
use serde_json::{Value, json};

use self::podless::Podless;
use crate::cluster::Cluster;
use crate::failure::Failure;
use crate::print::Answer;
use crate::priorities::Priorities;
use crate::subject::{self, InFile, Subject};

/// Exit code if it waits, and waiting can help.
pub const WAITS: u8 = 4;
/// Exit code if it is never let in as things are.
pub const NEVER: u8 = 5;

/// Asks about the objects of a file. Writes the priorities of their classes on their pods first, since the operator knows no
/// classes.
pub async fn answer_of_file(cluster: &Cluster, asked: InFile) -> Result<Answer, Failure> {
    let priorities = Priorities::of_cluster(cluster).await;
    let mut notes = asked.passed_over;
    let subjects = asked.subjects.into_iter().map(|mut subject| {
        if let Some(manifest) = &mut subject.spec.manifest {
            let supposed = priorities.write_all(manifest)?;
            notes.extend(supposed);
        }
        Ok(subject)
    });
    let subjects = subjects.collect();
    let mut answer = answer(cluster, subjects).await?;
    notes.dedup();
    answer.notes = notes;
    Ok(answer)
}

/// Asks about each of the subjects, in this order. If one of them can't be answered, the others still are.
pub async fn answer(cluster: &Cluster, subjects: Vec<Result<Subject, Failure>>) -> Result<Answer, Failure> {
    let mut answers = Vec::with_capacity(subjects.len());
    for subject in subjects {
        answers.push(match subject {
            Ok(Subject { spec, namespace }) => {
                let namespace = namespace.as_deref().unwrap_or(&cluster.namespace);
                ask_and_look(cluster, namespace, spec).await
            }
            Err(failure) => Err(failure),
        });
    }
    if let [Err(_)] = answers.as_slice()
        && let Some(Err(failure)) = answers.pop()
    {
        return Err(failure);
    }
    let data = answers.iter().map(|answer| match answer {
        Ok(status) => serde_json::to_value(status),
        Err(failure) => Ok(json!({ "error": failure.to_string() })),
    });
    let data: Vec<Value> = data
        .collect::<Result<_, _>>()
        .map_err(|error| Failure::unprintable(&error))?;
    let mut answer = match data.as_slice() {
        [one] => Answer::new(one),
        all => Answer::new(&all),
    }
    .map_err(|error| Failure::unprintable(&error))?;
    for (index, answered) in answers.iter().enumerate() {
        if index > 0 {
            answer.line("");
        }
        match answered {
            Ok(status) => text::lines(status).iter().for_each(|line| answer.line(line)),
            Err(failure) => answer.line(&format!("error: {failure}")),
        }
    }
    // Only if all were answered is it known whether something waits.
    let failed = answers.iter().filter_map(|answer| answer.as_ref().err());
    let failed = failed.map(Failure::code).max();
    let waits = || answers.iter().flatten().map(code).max().unwrap_or_default();
    answer.code = failed.unwrap_or_else(waits);
    Ok(answer)
}

/// Returns the answer about one subject, named as on the command line, line by line.
pub async fn lines(cluster: &Cluster, namespace: &str, what: &str) -> Result<Vec<String>, Failure> {
    let subject = subject::named(what)?;
    let status = ask_and_look(cluster, namespace, subject.spec).await?;
    Ok(text::lines(&status))
}

/// Asks, and adds what the operator does not know. The operator knows only Jobs that ask for cards in advance, so a Job that
/// its user has suspended is reported here. The operator knows controllers only by their pods, so here is also said why a
/// controller has none.
async fn ask_and_look(cluster: &Cluster, namespace: &str, spec: CardReviewSpec) -> Result<CardReviewStatus, Failure> {
    let (job, workload) = (spec.job.clone(), spec.workload.clone());
    let answered = ask(cluster, namespace, spec).await;
    if let (Err(Failure::Unknown(_)), Some(workload)) = (&answered, workload) {
        return match podless::look(cluster, namespace, &workload).await {
            Some(Podless::Said(message)) => Ok(CardReviewStatus {
                admitted: true,
                message,
                ..CardReviewStatus::default()
            }),
            Some(Podless::Jobs(jobs)) => ask_about_jobs(cluster, namespace, jobs).await.unwrap_or(answered),
            None => answered,
        };
    }
    let waits = answered.as_ref().is_ok_and(|status| !status.blocks.is_empty());
    let Some(name) = job.filter(|_| !waits) else {
        return answered;
    };
    // A user who may not read the Job is told no more.
    let found = cluster.get_if_seen::<Job>(Some(namespace), &name).await;
    match found.ok().flatten().as_ref().and_then(suspended) {
        Some(message) => Ok(CardReviewStatus {
            admitted: true,
            message,
            ..answered.unwrap_or_default()
        }),
        None => answered,
    }
}

/// Returns the answer about the first of these Jobs that waits, else about the first that can be answered.
async fn ask_about_jobs(
    cluster: &Cluster,
    namespace: &str,
    jobs: Vec<String>,
) -> Option<Result<CardReviewStatus, Failure>> {
    let mut first = None;
    for job in jobs {
        let spec = CardReviewSpec {
            job: Some(job),
            ..CardReviewSpec::default()
        };
        if let Ok(status) = ask(cluster, namespace, spec).await {
            if !status.blocks.is_empty() {
                return Some(Ok(status));
            }
            first.get_or_insert(Ok(status));
        }
    }
    first
}

/// Returns what to say of a Job that is suspended, but not by Cardgate.
fn suspended(job: &Job) -> Option<String> {
    let is_suspended = job.spec.as_ref()?.suspend == Some(true) && !job.annotations().contains_key(JOB_HELD);
    let status = job.status.as_ref().and_then(|status| status.conditions.as_deref());
    let is_over =
        |condition: &JobCondition| matches!(&*condition.type_, "Complete" | "Failed") && condition.status == "True";
    let is_there = job.metadata.deletion_timestamp.is_none() && !status.unwrap_or_default().iter().any(is_over);
    (is_suspended && is_there).then(|| {
        format!(
            "Job {} is suspended (spec.suspend), and not by Cardgate: it makes no pods until somebody resumes it",
            job.name_any()
        )
    })
}

async fn ask(cluster: &Cluster, namespace: &str, spec: CardReviewSpec) -> Result<CardReviewStatus, Failure> {
    let mut review = CardReview::new("", spec);
    review.metadata.name = None;
    review.metadata.generate_name = Some("why-".to_owned());
    cluster.review(namespace, &review).await
}

/// The exit code, for scripts.
fn code(status: &CardReviewStatus) -> u8 {
    let never = status.blocks.iter().any(|block| block.outlook == Outlook::Never);
    match (status.admitted, never) {
        (true, _) => 0,
        (false, true) => NEVER,
        (false, false) => WAITS,
    }
}

#[cfg(test)]
mod tests {
    use crds::card_review::Block;

    use super::*;

    #[test]
    fn a_job_that_its_user_suspended_is_said_to_be() {
        let job = |suspend: bool, key: &str, condition: &str| {
            let object = json!({
                "metadata": { "name": "j", "annotations": { key: "" } },
                "spec": { "suspend": suspend, "template": {} },
                "status": { "conditions": [{ "type": condition, "status": "True" }] },
            });
            suspended(&serde_json::from_value(object).unwrap())
        };
        let said = job(true, "other", "Suspended").unwrap();
        assert!(
            said.starts_with("Job j is suspended (spec.suspend), and not by Cardgate"),
            "{said}"
        );
        assert_eq!(job(true, JOB_HELD, "Suspended"), None, "Cardgate holds it");
        assert_eq!(job(false, "other", "SuccessCriteriaMet"), None);
        assert_eq!(job(true, "other", "Failed"), None);
    }

    #[test]
    fn scripts_know_who_waits_from_who_waits_in_vain() {
        let block = |outlook| Block {
            outlook,
            ..Block::default()
        };
        let waits = |blocks: &[Outlook]| CardReviewStatus {
            blocks: blocks.iter().copied().map(block).collect(),
            ..CardReviewStatus::default()
        };
        let is_in = CardReviewStatus {
            admitted: true,
            ..CardReviewStatus::default()
        };
        assert_eq!(code(&is_in), 0);
        assert_eq!(code(&waits(&[])), WAITS);
        assert_eq!(code(&waits(&[Outlook::NotYet])), WAITS);
        assert_eq!(code(&waits(&[Outlook::NotYet, Outlook::Never])), NEVER);
    }
}
