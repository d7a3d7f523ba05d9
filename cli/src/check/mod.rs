//! `kubectl card check`: whether the installation is as it should be, as far as the user may see it.

mod cards;
mod configuration;
mod doors;
mod installed;
mod rights;
mod running;

use std::fmt;

use serde::Serialize;

use crate::cluster::Cluster;
use crate::failure::{Failure, lacks_right, words};
use crate::print::Answer;

/// Exit code if something has to be mended.
pub const PROBLEM: u8 = 6;

/// The result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
enum Result {
    /// As it should be.
    Ok,
    /// The user may not see it.
    Unseen,
    /// A person should look at it.
    Warning,
    /// It has to be mended.
    Problem,
}

/// The finding of one check.
#[derive(Debug, Serialize)]
struct Finding {
    result: Result,
    what: String,
    /// What was found, and what to do about it.
    details: String,
}

impl Finding {
    fn new(result: Result, what: impl Into<String>, details: impl Into<String>) -> Self {
        Self {
            result,
            what: what.into(),
            details: details.into(),
        }
    }

    /// A check that could not be done, for want of the right to `verb` or for another reason.
    fn unseen(what: impl Into<String>, verb: &str, error: &kube::Error) -> Self {
        let details = match error {
            error if lacks_right(error) => format!("you may not {verb}"),
            error => words(error),
        };
        Self::new(Result::Unseen, what, details)
    }
}

impl fmt::Display for Result {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ok => "ok",
            Self::Unseen => "unseen",
            Self::Warning => "warning",
            Self::Problem => "PROBLEM",
        })
    }
}

/// Does all checks.
pub async fn answer(cluster: &Cluster) -> std::result::Result<Answer, Failure> {
    cluster.check_reachable().await?;
    let installed = installed::look(cluster).await?;
    let mut findings = installed::findings(&installed);
    findings.extend(doors::findings(cluster, &installed).await);
    findings.extend(running::findings(cluster).await);
    findings.extend(rights::findings(cluster).await);
    let (of_configuration, configuration) = configuration::findings(cluster).await;
    findings.extend(cards::findings(cluster, configuration.as_ref()).await);
    findings.extend(of_configuration);
    let mut answer = Answer::new(&findings).map_err(|error| Failure::unprintable(&error))?;
    let cells: Vec<_> = findings
        .iter()
        .map(|finding| {
            [
                finding.result.to_string(),
                finding.what.clone(),
                finding.details.clone(),
            ]
        })
        .collect();
    answer.table(["RESULT", "WHAT", "DETAILS"], 0, &cells);
    if findings.iter().any(|finding| finding.result == Result::Problem) {
        answer.code = PROBLEM;
    }
    Ok(answer)
}
