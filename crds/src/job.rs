//! A lean `batch/v1` Job: the fields that Cardgate reads, and no others (see [`crate::lean`]).

use crate::lean::{Metadata, lean};

lean! {
    Job {
        metadata: Metadata<S>,
        spec: JobSpec<S>,
        status: JobStatus<S>,
    }
}

lean! {
    /// What Cardgate reads of a Job's specification.
    JobSpec {
        /// Whether the Job makes no pods for now.
        suspend: Option<bool>,
        /// How long the Job may run, counted from when it was started or resumed.
        active_deadline_seconds: Option<i64>,
        /// What the Job's pods are made from.
        template: Template<S>,
    }
}

lean! {
    /// What pods are made from.
    Template {
        metadata: Metadata<S>,
        spec: TemplateSpec,
    }
}

/// What Cardgate reads of the spec of a pod template.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TemplateSpec {
    /// How long the pods may take to end.
    #[serde(default)]
    pub termination_grace_period_seconds: Option<i64>,
}

lean! {
    /// What Cardgate reads of a Job's status.
    JobStatus {
        /// How many of the Job's pods succeeded.
        succeeded: Option<i32>,
        /// When the Job was last started or resumed, RFC 3339.
        start_time: Option<S>,
        /// How many of the Job's pods failed.
        failed: Option<i32>,
        conditions: Vec<JobCondition<S>>,
    }
}

lean! {
    JobCondition {
        r#type: Option<S>,
        /// `True`, `False` or `Unknown`.
        status: Option<S>,
    }
}

impl<S: AsRef<str>> Job<S> {
    /// Whether the Job makes no pods for now.
    pub fn is_suspended(&self) -> bool {
        self.spec.suspend == Some(true)
    }

    /// Whether the Job has finished and makes no pods any more.
    pub fn is_finished(&self) -> bool {
        let text = |field: &Option<S>| field.as_ref().map(|text| text.as_ref().to_owned());
        self.status.conditions.iter().any(|condition| {
            matches!(text(&condition.r#type).as_deref(), Some("Complete" | "Failed"))
                && text(&condition.status).as_deref() == Some("True")
        })
    }

    /// Whether any of the Job's pods has run to its end.
    pub fn has_ended_pods(&self) -> bool {
        self.status.succeeded.unwrap_or(0) > 0 || self.status.failed.unwrap_or(0) > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(text: &str) -> Job<Box<str>> {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn a_job_is_over_when_a_condition_says_so() {
        assert!(!job("{}").is_finished());
        let with = |kind: &str, status: &str| {
            let conditions =
                format!(r#"[{{"type": "Suspended", "status": "True"}}, {{"type": "{kind}", "status": "{status}"}}]"#);
            job(&format!(
                r#"{{"spec": {{"suspend": true}}, "status": {{"conditions": {conditions}}}}}"#
            ))
        };
        assert!(with("Complete", "True").is_finished());
        assert!(with("Failed", "True").is_finished());
        assert!(!with("Complete", "False").is_finished());
        assert!(!with("FailureTarget", "True").is_finished());
        assert!(with("Failed", "False").is_suspended());
    }

    #[test]
    fn a_job_without_counts_has_no_ended_pods() {
        assert!(!job(r#"{"status": {"active": 2}}"#).has_ended_pods());
        assert!(job(r#"{"status": {"succeeded": 1}}"#).has_ended_pods());
        assert!(job(r#"{"status": {"failed": 1}}"#).has_ended_pods());
    }
}
