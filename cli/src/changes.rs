//! What a simulation changes: other quotas, and more nodes.

use std::collections::BTreeMap;

use crds::keys::CARD_QUOTA;
use serde_json::{Value, json};
use thiserror::Error;

use crate::manifests::Manifest;

/// The most copies of a node.
const MOST: u64 = 10_000;

/// Why a change can't be made.
#[derive(Debug, Error)]
pub enum ChangeError {
    #[error("{0:?}: write --set QUEUE.CARD=N, such as team-a.NVIDIA-A100=4; cpu and memory are cards, too")]
    Set(String),
    #[error(
        "{0:?} begins with the name of no queue that there is: write --set QUEUE.CARD=N; kubectl card queue shows the queues"
    )]
    NoQueue(String),
    #[error("{0:?}: write --add-nodes NAME=N, the name of a node and how many more of it, at most {MOST}")]
    Nodes(String),
    #[error("there is no node {0:?} to add more of")]
    NoNode(String),
}

/// Gives a queue another quota, `QUEUE.CARD=N`. Returns the place of the queue's object, the object as it was before, and
/// the card; `None` for CPU or memory.
pub fn set<'t>(objects: &mut [Manifest], text: &'t str) -> Result<(usize, Value, Option<&'t str>), ChangeError> {
    let wrong = || ChangeError::Set(text.to_owned());
    let (what, amount) = text.rsplit_once('=').ok_or_else(wrong)?;
    // Names of queues and of cards contain dots.
    let splits = what.match_indices('.').map(|(at, _)| (&what[..at], &what[at + 1..]));
    let mut found = None;
    for (queue, card) in splits {
        let is_it =
            |object: &Manifest| object.group_and_kind() == ("scheduling.volcano.sh", "Queue") && object.name() == queue;
        found = objects.iter().position(is_it).map(|place| (place, card)).or(found);
    }
    let (place, card) = found.ok_or_else(|| ChangeError::NoQueue(text.to_owned()))?;
    let queue = &mut objects[place].object;
    let before = queue.clone();
    if card == "cpu" || card == "memory" {
        queue["spec"]["capability"][card] = amount.into();
        return Ok((place, before, None));
    }
    let amount: u64 = amount.parse().map_err(|_| wrong())?;
    let quota = queue["metadata"]["annotations"][CARD_QUOTA].as_str().unwrap_or("{}");
    let mut quota: BTreeMap<String, Value> = serde_json::from_str(quota).map_err(|_| wrong())?;
    quota.insert(card.to_owned(), amount.into());
    queue["metadata"]["annotations"][CARD_QUOTA] = json!(quota).to_string().into();
    Ok((place, before, Some(card)))
}

/// Returns more nodes like an existing one: `NAME=N`.
pub fn more_nodes(objects: &[Manifest], text: &str) -> Result<Vec<Manifest>, ChangeError> {
    let wrong = || ChangeError::Nodes(text.to_owned());
    let (name, count) = text.rsplit_once('=').ok_or_else(wrong)?;
    let count: u64 = count.parse().ok().filter(|count| *count <= MOST).ok_or_else(wrong)?;
    let is_it = |object: &&Manifest| object.group_and_kind() == ("", "Node") && object.name() == name;
    let node = objects.iter().find(is_it).cloned();
    let node = node.ok_or_else(|| ChangeError::NoNode(name.to_owned()))?;
    let of_node = |object: &&Manifest| {
        object.group_and_kind() == ("resource.k8s.io", "ResourceSlice")
            && object.object["spec"]["nodeName"] == json!(name)
    };
    let slices: Vec<_> = objects.iter().filter(of_node).collect();
    let more = (1..=count).flat_map(|index| {
        let mut node = node.clone();
        let name = format!("{name}-more-{index}");
        let slices: Vec<_> = slices.iter().map(|slice| slice_of(slice, &name)).collect();
        let metadata = &mut node.object["metadata"];
        if metadata["labels"]["kubernetes.io/hostname"].is_string() {
            metadata["labels"]["kubernetes.io/hostname"] = name.clone().into();
        }
        metadata["name"] = name.into();
        metadata["uid"] = Value::Null;
        std::iter::once(node).chain(slices)
    });
    Ok(more.collect())
}

/// Returns the devices of a node, as another node like it has them.
fn slice_of(slice: &Manifest, node: &str) -> Manifest {
    let mut slice = slice.clone();
    let name = format!("{}-{node}", slice.name());
    let object = &mut slice.object;
    (object["metadata"]["name"], object["metadata"]["uid"]) = (name.into(), Value::Null);
    object["spec"]["nodeName"] = node.into();
    let pool = &mut object["spec"]["pool"]["name"];
    *pool = format!("{}-{node}", pool.as_str().unwrap_or_default()).into();
    slice
}
