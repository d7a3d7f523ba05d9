//! An evicted pod is told truly what queues deserve: of an item that is named for them at least their guarantee, and at most
//! what they may have beside the guarantees of others (capacity, **Dynamic resource calculation**).

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::sync::LazyLock;

use k8s_openapi::jiff::Timestamp;
use regex_lite::Regex;

use super::amounts::What;
use super::configuration::Plugin;
use super::queues::named;
use super::stored::Stored;
use super::told::{amount, what};
use super::view::View;
use super::{Finding, broken, quota};

/// The rule.
pub const RULE: &str = "who is evicted is told what queues deserve";

/// What the queue that gets the card has and deserves, and of which item.
static TAKES: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"; of (\S+), queue (\S+) has \d\w* and deserves (\d\w*), and").ok());
/// The same for the queue that gives, or for one above it.
static GIVES: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r"(?:; of (\S+), queue .*|has less (\S+) than it deserves;|lacks room on a node; of (\S+),) this pod's queue (\S+?)(?:, or queue (\S+) that it is a part of,)? has \d\w* and deserves (\d\w*)$",
    )
    .ok()
});

/// Judges what a pod was told at this time. A number is true if it was true at any recent time.
pub fn judge(stored: &Stored, at: Timestamp, message: &str) -> Finding {
    let (Some(takes), Some(gives)) = (&*TAKES, &*GIVES) else {
        return Ok(());
    };
    let takes = takes
        .captures(message)
        .and_then(|said| Some((said.get(1)?, said.get(2)?, said.get(3)?)));
    let gives = gives.captures(message).and_then(|said| {
        let name = [1, 2, 3].into_iter().find_map(|place| said.get(place))?;
        Some((name, said.get(5).or_else(|| said.get(4))?, said.get(6)?))
    });
    for (name, queue, says) in takes.into_iter().chain(gives) {
        let [name, queue, says] = [name, queue, says].map(|part| part.as_str());
        let mut wrong = None;
        let mut views = stored
            .known()
            .filter_map(|known| View::read(&known, at, &BTreeSet::new()));
        let is_so = views.any(|view| {
            let deserves =
                what(&view, name).and_then(|what| Some((deserves(&view, queue, &what)?, amount(says, &what)?)));
            // A statement about an unknown item proves nothing.
            let other = deserves.filter(|(deserves, said)| !deserves.contains(said));
            let is_so = other.is_none();
            wrong = wrong.take().or(other.map(|(deserves, _)| deserves));
            is_so
        });
        if let Some(deserves) = wrong.filter(|_| !is_so) {
            return broken(
                RULE,
                format!("queue {queue} deserves {deserves:?} {name}, and is said: {message}"),
            );
        }
    }
    Ok(())
}

/// Returns what a queue deserves of an item that is named for it; `None` if the item is not named. What unusable nodes have
/// counts as far as pods hold it.
fn deserves(view: &View, queue: &str, what: &What) -> Option<RangeInclusive<i128>> {
    let says = view.tree.queues.get(queue)?;
    let spec = named(says.deserved.as_ref(), what)?;
    let configuration = &view.configuration;
    if configuration.plugin == Plugin::Off
        || configuration.named_only
        || view.tree.misplaced.iter().any(|name| name == queue)
    {
        return None;
    }
    let wanted = spec.max(quota::guaranteed(view, queue, what));
    let path = view.tree.path(queue);
    let is_leaf = !view.tree.is_inner(queue);
    let within = |total| {
        let most = quota::real_capability_within(view, &path, is_leaf, what, total);
        most.map_or(wanted, |most| wanted.min(most))
    };
    let totals = [quota::usable(view, what), quota::total(view, what)];
    let [least, most] = totals.map(within);
    Some(least.min(most)..=most)
}
