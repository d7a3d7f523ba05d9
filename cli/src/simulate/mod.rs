//! `kubectl card simulate`: which pods would be let in, where and in which order, and why others would not. The operator's
//! own engine decides.

mod claims;
mod run;
#[cfg(test)]
mod tests;
mod there;
mod volcano_job;
mod world;

use k8s_openapi::jiff::Timestamp;
use serde::Serialize;
use std::collections::BTreeSet;

use crate::arguments::Simulation;
use crate::cluster::Cluster;
use crate::door::Door;
use crate::failure::Failure;
use crate::lint::REFUSED;
use crate::manifests::Manifest;
use crate::print::{Answer, DASH};
use crate::why::{NEVER, WAITS};
use run::Run;
use there::Named;
use world::World;

/// A pod that would be let in.
#[derive(Debug, Serialize)]
struct Admitted {
    order: usize,
    namespace: String,
    pod: String,
    queue: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    card: Option<String>,
    /// Set for a pod that has a choice of cards: the score that the Capacity Card document's node order gives the nodes with
    /// this card.
    #[serde(skip_serializing_if = "Option::is_none")]
    score: Option<f64>,
    /// The node that had room for the pod. A pinned pod stays on this node; for others the scheduler may choose another.
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<String>,
    pinned: bool,
}

/// A pod that would be evicted.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Evicted {
    namespace: String,
    pod: String,
    reason: String,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    on_behalf_of: Option<String>,
}

/// Something that would wait in the end.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Waiting {
    kind: String,
    namespace: String,
    name: String,
    queue: String,
    /// Whether the files contain it.
    is_new: bool,
    reason: String,
    /// Whether it would wait for ever as things are.
    never: bool,
    message: String,
    remedy: String,
}

/// An object that could not be created.
#[derive(Debug, Serialize)]
pub struct Refused {
    kind: String,
    namespace: String,
    name: String,
    message: String,
}

#[derive(Debug, Serialize)]
struct Report {
    /// The objects of the files that exist already.
    #[serde(skip)]
    there: BTreeSet<Named>,
    admitted: Vec<Admitted>,
    evicted: Vec<Evicted>,
    waiting: Vec<Waiting>,
    refused: Vec<Refused>,
    notes: Vec<String>,
}

/// Answers what would become of the cluster's pods, and of the pods of the files.
pub async fn answer(
    asked: &Simulation,
    manifests: Vec<Manifest>,
    cluster: Option<&Cluster>,
    namespace: &str,
) -> Result<Answer, Failure> {
    let mut world = match cluster {
        Some(cluster) => World::of_cluster(cluster).await?,
        None => World::default(),
    };
    world.add(manifests, namespace);
    for change in &asked.set {
        world.set(change)?;
    }
    for nodes in &asked.add_nodes {
        world.add_nodes(nodes)?;
    }
    let report = simulate(world, Timestamp::now()).await?;
    let mut answer = Answer::new(&report).map_err(|error| Failure::unprintable(&error))?;
    show(&report, &mut answer);
    answer.code = code(&report);
    Ok(answer)
}

async fn simulate(mut world: World, now: Timestamp) -> Result<Report, Failure> {
    let (known, objects) = world.begin(now).await?;
    let door = Door::new(&known).map_err(|error| Failure::Unprintable(error.to_string()))?;
    let configuration = known.knowledge.configured().configuration.clone();
    let mut run = Run::new(configuration, objects, now);
    world.notes.extend(run.without_nodes(&world.given));
    loop {
        let resumed = run.go_on();
        if resumed.is_empty() {
            break;
        }
        for job in resumed {
            let pods = world.pods_of(&job, &door, now).await;
            run.come(pods);
        }
    }
    let waiting = run.waiting();
    let mut notes = world.notes;
    notes.extend(run.unread);
    Ok(Report {
        there: world.named,
        admitted: run.admitted,
        evicted: run.evicted,
        waiting,
        refused: world.refused,
        notes,
    })
}

/// The exit code, which tells scripts what became of the files' objects.
fn code(report: &Report) -> u8 {
    let is_there = |row: &Waiting| {
        let name = [&row.kind, &row.namespace, &row.name].map(String::clone);
        report.there.contains(&name)
    };
    let of_files = report.waiting.iter().filter(|row| row.is_new || is_there(row));
    let mut of_files = of_files.peekable();
    match (report.refused.is_empty(), of_files.peek().is_some()) {
        (false, _) => REFUSED,
        (true, true) if of_files.any(|waiting| waiting.never) => NEVER,
        (true, true) => WAITS,
        (true, false) => 0,
    }
}

fn show(report: &Report, answer: &mut Answer) {
    let end = |rows: usize| if rows == 0 { '.' } else { ':' };
    let admitted = report.admitted.len();
    answer.line(&format!("{admitted} would be let in{}", end(admitted)));
    show_admitted(&report.admitted, answer);
    for evicted in &report.evicted {
        answer.line(&format!(
            "evicted: {}/{} ({}): {}",
            evicted.namespace, evicted.pod, evicted.reason, evicted.message
        ));
    }
    let waiting = report.waiting.len();
    answer.line(&format!("\n{waiting} would wait{}", end(waiting)));
    let waiting = report.waiting.iter().map(|row| {
        [
            row.kind.clone(),
            format!("{}/{}", row.namespace, row.name),
            row.queue.clone(),
            row.reason.clone(),
            if row.never { "never" } else { "not yet" }.to_owned(),
            row.message.clone(),
        ]
    });
    let waiting: Vec<_> = waiting.collect();
    if !waiting.is_empty() {
        answer.table(["KIND", "NAME", "QUEUE", "REASON", "OUTLOOK", "MESSAGE"], 1, &waiting);
    }
    for refused in &report.refused {
        let of_namespace = (!refused.namespace.is_empty()).then(|| format!("{}/", refused.namespace));
        answer.line(&format!(
            "\nrefused: {} {}{}: {}",
            refused.kind,
            of_namespace.unwrap_or_default(),
            refused.name,
            refused.message
        ));
    }
    answer.notes.extend(report.notes.iter().cloned());
    if !report.evicted.is_empty() {
        answer
            .notes
            .push("what controllers make in place of evicted pods is not simulated".to_owned());
    }
}

/// Shows admitted pods. Most of them have no choice of cards, and no scores that are worth a column.
fn show_admitted(admitted: &[Admitted], answer: &mut Answer) {
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| DASH.to_owned());
    let row = |row: &Admitted| {
        let pod = format!("{}/{}", row.namespace, row.pod);
        let card = or_dash(row.card.clone());
        (
            [row.order.to_string(), pod, row.queue.clone(), card],
            or_dash(row.node.clone()),
        )
    };
    if admitted.iter().any(|row| row.score.is_some()) {
        let rows = admitted.iter().map(|admitted| {
            let ([order, pod, queue, card], node) = row(admitted);
            let score = or_dash(admitted.score.map(|score| score.to_string()));
            [order, pod, queue, card, score, node]
        });
        let rows: Vec<_> = rows.collect();
        answer.table(["ORDER", "POD", "QUEUE", "CARD", "SCORE", "NODE"], 0, &rows);
    } else if !admitted.is_empty() {
        let rows = admitted.iter().map(|admitted| {
            let ([order, pod, queue, card], node) = row(admitted);
            [order, pod, queue, card, node]
        });
        let rows: Vec<_> = rows.collect();
        answer.table(["ORDER", "POD", "QUEUE", "CARD", "NODE"], 0, &rows);
    }
}
