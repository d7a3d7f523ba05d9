//! The content of each page: what is read, and how it is shown. Every number is written out beside its picture.

mod bars;
mod cards;
mod nodes;
mod past;
mod queues;
#[cfg(test)]
mod tests;
mod why;

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use maud::{Markup, html};

use crate::cluster::Cluster;
use crate::failure::Failure;
use crate::history::{self, History};
use crate::top::state::State;
pub use nodes::Asked as AskedNodes;

/// How far back the history goes.
const PAST: SignedDuration = SignedDuration::from_hours(24);

/// The longest name of a namespace, in bytes.
const LONGEST_NAMESPACE: usize = 63;

/// Returns a tile for each card: free and total, and which queues have it.
pub async fn cards(cluster: &Cluster) -> Result<Markup, Failure> {
    Ok(cards::show(&State::without_nodes(cluster).await?))
}

/// Returns each node that is asked for, down to the shares of its cards.
pub async fn nodes(cluster: &Cluster, asked: &AskedNodes) -> Result<Markup, Failure> {
    Ok(nodes::show(&cluster.inventories().await?, asked))
}

/// Returns each queue's cards, compared with its quota.
pub async fn queues(cluster: &Cluster) -> Result<Markup, Failure> {
    Ok(queues::show(&State::without_nodes(cluster).await?))
}

/// Returns one queue, and what waits in it.
pub async fn queue(cluster: &Cluster, name: &str) -> Result<Markup, Failure> {
    let state = State::without_nodes(cluster).await?;
    if !cluster
        .queues()
        .await?
        .iter()
        .any(|queue| queue.metadata.name.as_deref() == Some(name))
    {
        return Err(Failure::QueueUnknown(name.to_owned()));
    }
    let usage = match cluster.usages_of_queues().await {
        Ok(usages) => usages.into_iter().find(|usage| usage.spec.queue == name),
        Err(Failure::Forbidden { .. }) => None,
        Err(failure) => return Err(failure),
    };
    let status = usage.and_then(|usage| usage.status);
    Ok(queues::show_one(&state, name, status.as_ref()))
}

/// Returns what happened in a namespace lately.
pub async fn history(cluster: &Cluster, namespace: &str) -> Result<Markup, Failure> {
    let namespace = meant(cluster, namespace)?;
    let now = Timestamp::now();
    // A day before now can always be represented.
    let since = now.checked_sub(PAST).unwrap_or(Timestamp::UNIX_EPOCH);
    let history: History = history::read(cluster, Some(namespace), since).await?;
    Ok(past::show(&history, now, namespace))
}

/// Returns why something waits, if the user asked about anything.
pub async fn why(cluster: &Cluster, what: &str, namespace: &str) -> Result<Markup, Failure> {
    let namespace = meant(cluster, namespace)?;
    let what = what.trim();
    if what.is_empty() {
        return Ok(why::show(what, namespace, &cluster.options, None));
    }
    let lines = crate::why::lines(cluster, namespace, what).await;
    Ok(why::show(what, namespace, &cluster.options, Some(lines)))
}

/// Returns the namespace that is asked about, or the command's if none is named. The name becomes a part of addresses.
fn meant<'n>(cluster: &'n Cluster, named: &'n str) -> Result<&'n str, Failure> {
    let named = named.trim();
    if named.is_empty() {
        return Ok(&cluster.namespace);
    }
    let is_part = |character: char| character.is_ascii_lowercase() || character.is_ascii_digit() || character == '-';
    if named.len() > LONGEST_NAMESPACE || !named.chars().all(is_part) {
        return Err(Failure::NoNamespace(named.to_owned()));
    }
    Ok(named)
}

/// Returns what the user may not see, in words.
fn unseen(state: &State) -> Markup {
    html! {
        @for note in &state.unseen {
            p.note data-part={ "unseen " (note) } { "Not shown: " (note) }
        }
    }
}
