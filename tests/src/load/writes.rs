//! What Cardgate wrote through the API server, from the API server's audit log.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use anyhow::Result;
use tokio::time::Instant;

use super::pods::NAMESPACE;
use crate::cardgate::{self, Cardgate};
use crate::controlplane::{ControlPlane, Write};
use crate::wait::{self, Seen};

/// How long Cardgate must not have written anything before it counts as done.
const QUIET: Duration = Duration::from_secs(3);
/// Reports are written at a limited rate, so they may go on for long after the last pod.
const LIMIT: Duration = Duration::from_mins(5);

/// Writes of Cardgate since some moment, in groups.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Writes {
    /// Patches of the load's pods: admissions.
    pub admissions: usize,
    /// Patches of the load's pods' status: conditions.
    pub conditions: usize,
    /// Writes that were refused.
    pub refused: usize,
    /// Everything else, by resource: events, reports about nodes and queues. Without leases, which depend on time only.
    pub others: BTreeMap<String, usize>,
}

impl Writes {
    fn of(writes: &[Write]) -> Self {
        let mut all = Self::default();
        for write in writes {
            let target = write.object_ref.as_ref();
            let (resource, subresource, namespace) = target.map_or(("", "", ""), |target| {
                (&*target.resource, &*target.subresource, &*target.namespace)
            });
            if write.response_status.code >= 400 {
                all.refused += 1;
            }
            match (resource, subresource) {
                ("pods", "") if namespace == NAMESPACE => all.admissions += 1,
                ("pods", "status") if namespace == NAMESPACE => all.conditions += 1,
                _ => *all.others.entry(resource.to_owned()).or_default() += 1,
            }
        }
        all
    }

    /// All of them.
    pub fn total(&self) -> usize {
        self.admissions + self.conditions + self.others.values().sum::<usize>()
    }
}

impl fmt::Display for Writes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} pods, {} pod conditions", self.admissions, self.conditions)?;
        for (resource, count) in &self.others {
            write!(f, ", {count} {resource}")?;
        }
        if self.refused > 0 {
            write!(f, "; {} of them refused", self.refused)?;
        }
        Ok(())
    }
}

fn is_cardgates(write: &Write) -> bool {
    let own = format!("system:serviceaccount:{}:", cardgate::NAMESPACE);
    let lease = write
        .object_ref
        .as_ref()
        .is_some_and(|target| target.resource == "leases");
    write.user().starts_with(&own) && !lease
}

/// The audit log, as far as it was read.
pub(super) struct Log<'a> {
    plane: &'a ControlPlane,
    writes: Vec<Write>,
    place: u64,
}

/// A moment in the audit log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mark(usize);

impl<'a> Log<'a> {
    pub fn of(plane: &'a ControlPlane) -> Self {
        Self {
            plane,
            writes: Vec::new(),
            place: 0,
        }
    }

    /// Now.
    pub fn mark(&mut self) -> Result<Mark> {
        let (more, place) = self.plane.audit_log_from(self.place)?;
        self.place = place;
        self.writes.extend(more.into_iter().filter(is_cardgates));
        Ok(Mark(self.writes.len()))
    }

    /// Everything after that moment.
    pub fn since(&mut self, mark: Mark) -> Result<Writes> {
        self.mark()?;
        Ok(Writes::of(&self.writes[mark.0..]))
    }

    /// How often Cardgate wrote one of these pods after that moment.
    pub fn of_pods_since(&mut self, mark: Mark, concerns: impl Fn(&str) -> bool) -> Result<usize> {
        self.mark()?;
        let targets = self.writes[mark.0..]
            .iter()
            .filter_map(|write| write.object_ref.as_ref());
        let concerned = targets
            .filter(|target| target.resource == "pods" && target.namespace == NAMESPACE && concerns(&target.name));
        Ok(concerned.count())
    }

    /// Waits until Cardgate has written everything that it wants to.
    pub async fn settle(&mut self, cardgate: &Cardgate) -> Result<()> {
        let mut last = (self.mark()?, Instant::now());
        wait::eventually("Cardgate to have nothing more to write", LIMIT, async || {
            cardgate.operator().ensure_running()?;
            let mark = self.mark()?;
            if mark != last.0 {
                last = (mark, Instant::now());
            }
            Ok(Seen::when(
                last.1.elapsed() >= QUIET,
                format!("{} writes so far", mark.0),
            ))
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn write(user: &str, resource: &str, subresource: &str, code: u16) -> Write {
        serde_json::from_value(json!({
            "verb": "patch",
            "user": { "username": user },
            "objectRef": { "resource": resource, "subresource": subresource, "namespace": NAMESPACE, "name": "a" },
            "responseStatus": { "code": code },
            "stageTimestamp": "2026-01-01T00:00:00.000000Z",
        }))
        .unwrap()
    }

    #[test]
    fn writes_are_grouped_and_those_of_others_and_leases_left_out() {
        let operator = "system:serviceaccount:cardgate-system:operator";
        let mut writes = vec![
            write(operator, "pods", "", 200),
            write(operator, "pods", "", 422),
            write(operator, "pods", "status", 200),
            write(operator, "events", "", 201),
            write(operator, "leases", "", 200),
            write("system:kube-scheduler", "pods", "", 201),
        ];
        writes.retain(is_cardgates);
        let writes = Writes::of(&writes);
        assert_eq!(
            writes.to_string(),
            "2 pods, 1 pod conditions, 1 events; 1 of them refused"
        );
        assert_eq!(writes.total(), 4);
    }
}
