//! Who is evicted is told truly what queues deserve: of what is named for them no less than what is guaranteed, and no more than they may have
//! beside what is guaranteed to others (capacity, **Dynamic resource calculation**).

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

/// What the queue that is evicted for has and deserves, and of what.
static TAKES: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"; of (\S+), queue (\S+) has \d\w* and deserves (\d\w*), and").ok());
/// The same of the queue that gives, or of one above it.
static GIVES: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r"(?:; of (\S+), queue .*|has less (\S+) than it deserves;|lacks room on a node; of (\S+),) this pod's queue (\S+?)(?:, or queue (\S+) that it is a part of,)? has \d\w* and deserves (\d\w*)$",
    )
    .ok()
});

/// Judges what somebody was told at this time: true is what was so at any time of late.
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
            // What is said of something that is not known proves nothing.
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

/// What a queue deserves of what is named for it; none where nothing is. What nodes have that take no pods counts as far as pods hold it.
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
