//! Everything that stands in the way of pods of a shape, and an answer's sentence about it.

use crds::card_review::{Block, CardReviewStatus};

use super::{Case, Explanation, explanation};
use crate::cluster::Cluster;
use crate::cluster::waiting::Shape;
use crate::decide::obstacles::obstacles;
use crate::ids::PodId;
use crate::reason::{Outlook, Reason};

/// Returns what stands in the way of pods of this shape; what was found first comes first.
pub(super) fn of_shape<'c>(
    cluster: &'c Cluster,
    shape: &'c Shape,
    pod: Option<PodId>,
    first: Option<Reason>,
) -> Vec<Explanation<'c>> {
    let first_found = first.map(|reason| explanation::find(cluster, Case::Pod(shape), pod, reason));
    let besides = of_shape_besides(cluster, shape, pod, first);
    let found: Vec<_> = first_found.into_iter().chain(besides).collect();
    // Where each obstacle may pass, but never all of them together, the first one says so, as on the pod itself. Of nodes, the explanation
    // says whether they exclude the pod.
    let may_pass = found.iter().all(|why| why.outlook == Outlook::NotYet);
    let all_told = found.into_iter().enumerate().map(|(place, why)| {
        if place == 0 && may_pass || why.reason == Reason::NoNodeFits {
            why.with_what_is_beyond(Case::Pod(shape))
        } else {
            why
        }
    });
    all_told.collect()
}

/// Returns the same without what was found first.
pub(super) fn of_shape_besides<'c>(
    cluster: &'c Cluster,
    shape: &'c Shape,
    pod: Option<PodId>,
    first: Option<Reason>,
) -> impl Iterator<Item = Explanation<'c>> {
    let others = obstacles(cluster, shape).into_iter();
    let others = others.filter(move |reason| Some(*reason) != first);
    others.map(move |reason| explanation::find(cluster, Case::Pod(shape), pod, reason))
}

pub(super) fn blocks(found: &[Explanation<'_>], namespace: &str) -> Vec<Block> {
    found.iter().map(|why| why.block(namespace)).collect()
}

/// Sets the answer's sentence and what would help. An obstacle that never passes is told before one that time may remove.
pub(super) fn summed_up(status: &mut CardReviewStatus, who: &str) {
    let never = |block: &&Block| block.outlook == crds::card_review::Outlook::Never;
    let Some(first) = status.blocks.iter().find(never).or(status.blocks.first()) else {
        status.message = format!("{who} waits, and nothing is in its way: it is looked at within moments");
        return;
    };
    let lead = if never(&first) {
        "can't be let in as things are"
    } else {
        "waits"
    };
    status.message = format!("{who} {lead}: {}", first.message);
    status.lets_in.clone_from(&first.remedy);
}
