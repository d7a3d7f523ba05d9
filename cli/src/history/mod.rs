//! `kubectl card history`: which pods were let in, which were evicted and for which, and which queues were changed, as far
//! as Kubernetes keeps that.

mod kept;

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Event, Pod};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::ResourceExt as _;
use kube::api::ListParams;
use serde::Serialize;

use crate::cluster::Cluster;
use crate::failure::Failure;
use crate::print::{Answer, DASH};

/// The name under which the operator reports its events.
const REPORTER: &str = "card.volcano.sh/operator";

/// What kind of thing happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum What {
    /// A queue was written, or what it may have was changed.
    Queue,
    /// A queue let a Job in as a whole, so that the Job's pods may be made.
    Enqueued,
    /// A pod was let in.
    Admitted,
    /// A pod was evicted, so that another gets its card, or because it was not placed or had more than it was let in for.
    Evicted,
}

/// Where the entry comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Source {
    /// The object itself, as long as it exists.
    Object,
    /// An event, which API servers forget. Everybody who may write events in the namespace may have written it.
    Event,
}

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    pub time: Timestamp,
    pub what: What,
    /// The namespace; `None` if the object has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The object that it happened to, as `kind/name`.
    pub name: String,
    /// The program that did it, as it calls itself; for evictions, the pod that the eviction was for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// What was done, in words.
    pub details: String,
    pub source: Source,
}

/// What happened, and how much of it is known.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct History {
    /// The time from which the history was asked for.
    pub since: Timestamp,
    /// The entries, in order of time.
    pub entries: Vec<Entry>,
    /// The time of the oldest event of Cardgate's that still exists; `None` if none does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oldest_event: Option<Timestamp>,
    /// What Kubernetes does not keep, in words.
    pub unknown: Vec<String>,
}

/// Returns what is known of a namespace, or of all namespaces.
pub async fn read(cluster: &Cluster, namespace: Option<&str>, since: Timestamp) -> Result<History, Failure> {
    let ours = ListParams::default().fields(&format!("reportingComponent={REPORTER}"));
    let events: Vec<Event> = cluster.list_some(namespace, "events", &ours).await?;
    let pods: Vec<Pod> = cluster.list_in(namespace, "pods").await?;
    let mut queues = cluster.queues().await?;
    let mut unread = None;
    if namespace.is_some() {
        let mut named: BTreeSet<String> = pods.iter().filter_map(kept::queue_of).collect();
        match cluster.queue_of_namespace().await {
            Ok(queue) => named.extend(queue),
            Err(failure) => unread = Some(failure),
        }
        queues.retain(|queue| named.contains(&queue.name_any()));
    }
    let mut entries: Vec<_> = kept::of_events(&events, &pods)
        .into_iter()
        .chain(pods.iter().filter_map(kept::of_pod))
        .chain(queues.iter().flat_map(kept::of_queue))
        .filter(|entry| entry.time >= since)
        .collect();
    entries.sort();
    let oldest_event = events.iter().filter_map(kept::time_of).min();
    Ok(History {
        since,
        entries,
        oldest_event,
        unknown: unknown(oldest_event).into_iter().chain(unread).collect(),
    })
}

/// Returns what Kubernetes does not keep, in words.
fn unknown(oldest_event: Option<Timestamp>) -> Vec<String> {
    let events = match oldest_event {
        Some(oldest) => format!("the oldest that is left is of {}", seconds(oldest)),
        None => "none is left".to_owned(),
    };
    vec![
        format!(
            "evictions and Jobs are known from events, which API servers forget after an hour unless told otherwise (--event-ttl); {events}"
        ),
        "admissions are known of pods that are still there, and, from events, of those that had waited".to_owned(),
        "of each program that has written a queue the last time is known, and which fields are its own since; who used it, the API server's \
         audit log knows"
            .to_owned(),
    ]
}

/// Rounds a time to seconds, as people read it.
fn seconds(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

/// Answers with the history, as people read it.
pub async fn answer(cluster: &Cluster, since: SignedDuration, everywhere: bool) -> Result<Answer, Failure> {
    let since = Timestamp::now().checked_sub(since).unwrap_or(Timestamp::MIN);
    let namespace = (!everywhere).then_some(&*cluster.namespace);
    let history = read(cluster, namespace, since).await?;
    let mut answer = Answer::new(&history).map_err(|error| Failure::unprintable(&error))?;
    answer.notes.extend(history.unknown.iter().cloned());
    if history.entries.is_empty() {
        answer.line(&format!("Nothing is known to have happened since {}.", seconds(since)));
        return Ok(answer);
    }
    let row = |entry: &Entry| {
        [
            entry.namespace.clone().unwrap_or_else(|| DASH.to_owned()),
            seconds(entry.time).to_string(),
            format!("{:?}", entry.what),
            entry.name.clone(),
            entry.by.clone().unwrap_or_else(|| DASH.to_owned()),
            entry.details.clone(),
            format!("{:?}", entry.source),
        ]
    };
    let rows: Vec<_> = history.entries.iter().map(row).collect();
    if everywhere {
        let head = ["NAMESPACE", "TIME", "WHAT", "NAME", "BY OR FOR", "DETAILS", "KNOWN BY"];
        answer.table(head, 1, &rows);
    } else {
        let rows: Vec<_> = rows.into_iter().map(|[_, rest @ ..]| rest).collect();
        answer.table(["TIME", "WHAT", "NAME", "BY OR FOR", "DETAILS", "KNOWN BY"], 1, &rows);
    }
    Ok(answer)
}
