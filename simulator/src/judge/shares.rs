//! No shared card gives more than it has to the pods that Cardgate placed on it (mGPU, **Allocate**): compute, memory,
//! containers.

use std::collections::BTreeMap;

use crds::keys::MGPU_INDEX_PREFIX;

use super::nodes::{Node, Shared};
use super::pods::Pod;
use super::view::View;
use super::{Finding, broken};
use crate::objects::Key;

/// The rule.
pub const RULE: &str = "a shared card gives no more than it has";

/// What is taken of a card.
#[derive(Debug, Clone, Copy, Default)]
pub struct Taken {
    pub core: i128,
    pub memory: i128,
    pub containers: usize,
}

/// Judges a pod that is let in; `view` is the state afterwards.
pub fn judge(view: &View, key: &Key) -> Finding {
    let pod = view.pods.iter().find(|pod| pod.key == *key && !pod.shares.is_empty());
    let Some(pod) = pod.filter(|_| view.configuration.mgpu) else {
        return Ok(());
    };
    let node = pod.place().and_then(|name| view.node(name));
    let Some((node, shared)) = node.and_then(|node| Some((node, node.shared.as_ref()?))) else {
        return broken(
            RULE,
            format!("{key} is placed on {:?}, which shares no cards", pod.place()),
        );
    };
    let Some(own) = cards(pod, shared) else {
        return broken(RULE, format!("{key} is given cards that {} does not have", node.name));
    };
    let all = taken(view, node, shared);
    for (card, _) in own {
        let taken = all.get(&card).copied().unwrap_or_default();
        let most = view.configuration.mgpu_containers;
        if taken.core > 100 || taken.memory > shared.memory || taken.containers > most {
            let memory = shared.memory;
            let what = format!(
                "{key} is let in, and card {card} of {} gives {taken:?}, of 100, {memory}, {most}",
                node.name
            );
            return broken(RULE, what);
        }
    }
    Ok(())
}

/// Returns what is taken of each card of a node, by pods that are neither gone nor ended. Pods that others bound without
/// saying which cards they have are left out.
pub fn taken(view: &View, node: &Node, shared: &Shared) -> BTreeMap<usize, Taken> {
    let there = view
        .pods
        .iter()
        .filter(|pod| pod.place() == Some(&node.name) && !pod.is_held && !pod.is_over);
    let mut all = BTreeMap::<usize, Taken>::new();
    for (card, taken) in there.filter_map(|pod| cards(pod, shared)).flatten() {
        let sum = all.entry(card).or_default();
        sum.core += taken.core;
        sum.memory += taken.memory;
        sum.containers += taken.containers;
    }
    all
}

/// Returns what a pod's containers take of which cards, as its annotations say. `None` if they name a card that the node
/// does not have, or one card twice.
pub fn cards(pod: &Pod, shared: &Shared) -> Option<Vec<(usize, Taken)>> {
    let mut all = Vec::new();
    for share in &pod.shares {
        let listed = pod.says(&format!("{MGPU_INDEX_PREFIX}{}", share.container))?;
        let mut cards = Vec::new();
        for name in listed.split(',').map(str::trim) {
            let by_id = shared.ids.iter().position(|id| id == name);
            let card = by_id
                .or_else(|| name.parse().ok())
                .filter(|card| *card < shared.count)?;
            if cards.contains(&card) {
                return None;
            }
            cards.push(card);
        }
        let memory = if share.core == 100 {
            shared.memory
        } else {
            share.memory.unwrap_or(0)
        };
        let taken = Taken {
            core: share.core,
            memory,
            containers: 1,
        };
        all.extend(cards.into_iter().map(|card| (card, taken)));
    }
    Some(all)
}
