//! Who wrote while somebody else led: the API server's audit log, beside the Lease as it was seen to change hands.

use std::collections::BTreeMap;

use k8s_openapi::jiff::Timestamp;

use crate::controlplane::Write;

/// The time in which one operator leads: from here to the next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reign {
    /// The name in the Lease.
    pub holder: String,
    /// When it took the Lease.
    pub since: Timestamp,
}

/// Writes that an operator was let make while another one led. `operators` says by which token each writes. Leases are how they
/// come to lead, and events are anybody's.
pub(super) fn usurpations(writes: &[Write], reigns: &[Reign], operators: &BTreeMap<String, String>) -> Vec<String> {
    let mut found = Vec::new();
    for write in writes {
        let author = write.credential().and_then(|token| operators.get(token));
        let (Some(author), Some(target)) = (author, write.object_ref.as_ref()) else {
            continue;
        };
        let Ok(asked) = write.request_received_timestamp.parse::<Timestamp>() else {
            continue;
        };
        let excused = matches!(target.resource.as_str(), "leases" | "events") || write.response_status.code >= 400;
        let leader = reigns.iter().rev().find(|reign| reign.since <= asked);
        if let Some(leader) = leader.filter(|leader| !excused && leader.holder != *author) {
            found.push(format!(
                "{author} wrote {} {}/{} at {asked}, when {} had led since {}",
                target.resource, target.namespace, target.name, leader.holder, leader.since
            ));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn who_writes_while_another_leads_is_found() {
        let at = |second: u32| format!("2026-01-01T00:00:{second:02}.000000Z");
        let write = |token: &str, second: u32, resource: &str, code: u16| -> Write {
            serde_json::from_value(json!({
                "verb": "patch",
                "user": { "username": "operator", "extra": { "authentication.kubernetes.io/credential-id": [token] } },
                "objectRef": { "resource": resource, "name": "a", "namespace": "b" },
                "responseStatus": { "code": code },
                "stageTimestamp": at(second),
                "requestReceivedTimestamp": at(second),
            }))
            .unwrap()
        };
        let reign = |holder: &str, second: u32| Reign {
            holder: holder.to_owned(),
            since: at(second).parse().unwrap(),
        };
        let operators = BTreeMap::from([("one", "operator-1"), ("two", "operator-2")]);
        let operators = operators
            .into_iter()
            .map(|(token, name)| (token.to_owned(), name.to_owned()));
        let operators = operators.collect();
        let reigns = [reign("operator-1", 10), reign("operator-2", 30)];
        let writes = [
            write("one", 20, "pods", 200),
            write("two", 20, "leases", 200),
            write("two", 20, "pods", 403),
            write("one", 40, "pods", 200),
            write("two", 40, "pods", 200),
            write("somebody", 40, "pods", 200),
        ];
        let found = usurpations(&writes, &reigns, &operators);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("operator-1 wrote pods b/a"), "{found:?}");
        assert_eq!(usurpations(&writes[1..2], &reigns, &operators), Vec::<String>::new());
    }
}
