//! Answers about pods that do not exist: whether they would be let in if they were created now. Of a workload that is taken as a whole or
//! not at all, whether all of it would be.

use std::cmp::Reverse;
use std::sync::Arc;

use crds::card_review::{Block, CardReviewStatus};
use crds::keys::GROUP_NAME;
use crds::made::Made;
use jiff::Timestamp;

use super::Explanation;
use super::before::{before, line_up};
use super::estimate::estimate;
use super::in_the_way::{blocks, of_shape, summed_up};
use super::joined::{block_aside, block_of_job, blocks_of_group};
use crate::cluster::place::LAST;
use crate::cluster::waiting::Shape;
use crate::cluster::{Allowance, Cluster};
use crate::decide::obstacles::refusal;
use crate::ids::WorkloadId;
use crate::reason::Reason;

pub(super) fn of_imagined(cluster: &mut Cluster, namespace: &str, made: Made, now: Timestamp) -> CardReviewStatus {
    let Made { pods, whole } = made;
    let names_group = pods
        .iter()
        .any(|(pod, _)| pod.metadata.annotations.contains_key(GROUP_NAME));
    let mut claims = pods.iter().flat_map(|(pod, _)| pod.spec.resource_claims.iter());
    let claims_by_template = claims.any(|claim| claim.resource_claim_template_name.is_some());
    let whole = whole
        .zip(pods.first())
        .map(|(whole, (first, _))| cluster.imagine_whole(namespace, &whole, &first.metadata));
    let mut allowance = Allowance::default();
    let shapes = pods.into_iter().filter_map(|(pod, count)| {
        let shape = cluster.imagine(pod, namespace, whole, &mut allowance)?;
        Some((Arc::new(shape), count))
    });
    let shapes: Vec<_> = shapes.collect();
    let status = match shapes.first() {
        Some((first, _)) => {
            // A group that does not exist, but that other pods name, is known by its name alone.
            let is_there = first.group.is_some_and(|id| cluster.workload(id).terms.is_some());
            let missing_group = names_group && !is_there;
            of_shapes(cluster, namespace, &shapes, whole, missing_group, now)
        }
        None => unheld(claims_by_template),
    };
    for (shape, _) in &shapes {
        cluster.forget_imagined(shape);
    }
    if let Some(whole) = whole {
        cluster.forget_imagined_whole(whole);
    }
    status
}

/// Answers for pods that Cardgate would not hold, or not yet.
fn unheld(claims_by_template: bool) -> CardReviewStatus {
    if claims_by_template {
        // The admission webhook holds the pod until it is known whether the claims are for cards.
        let said = "what its claims are for is known once Kubernetes has made them from their templates: kubectl card simulate does so";
        let mut status = CardReviewStatus {
            blocks: vec![Reason::ResourceClaimNotFound.block(said)],
            ..CardReviewStatus::default()
        };
        summed_up(&mut status, "it");
        return status;
    }
    CardReviewStatus {
        admitted: true,
        message: "it names neither queue nor card: Cardgate would not hold it".to_owned(),
        ..CardReviewStatus::default()
    }
}

fn of_shapes(
    cluster: &mut Cluster,
    namespace: &str,
    shapes: &[(Arc<Shape>, u64)],
    whole: Option<WorkloadId>,
    missing_group: bool,
    now: Timestamp,
) -> CardReviewStatus {
    let of_group = of_groups(cluster, namespace, shapes, whole);
    let Some((shape, _)) = shapes.first() else {
        return CardReviewStatus::default();
    };
    let mut found = of_shape(cluster, shape, None, None);
    if found.is_empty() {
        let refused = refusal(cluster, shape);
        found = of_shape(cluster, shape, None, refused);
    }
    let cluster = &*cluster;
    // What waits until its queue takes it as a whole has no pods yet, and so no priority: Jobs that are held, and groups of Volcano's Jobs.
    let enqueues = cluster.configuration().cardgate.enqueue && whole.is_some();
    let waits_as_a_whole = enqueues || held_job(cluster, shape.group, whole).is_some();
    let has_no_pods = cluster.keeps_for_workloads() && waits_as_a_whole;
    let priority = if has_no_pods { 0 } else { shape.priority };
    let place = (Reverse(priority), LAST);
    let is_alone = of_group.is_empty() && !missing_group;
    let when = is_alone.then(|| estimate(cluster, &found, &before(cluster, shape, place), now));
    // What is said of the whole group says more than the same reason of one pod.
    let is_said = |why: &Explanation<'_>| of_group.iter().any(|block| block.reason == why.reason.as_str());
    let found: Vec<_> = found.into_iter().filter(|why| !is_said(why)).collect();
    let mut status = CardReviewStatus {
        blocks: of_group.into_iter().chain(blocks(&found, namespace)).collect(),
        estimate: when.flatten(),
        ..CardReviewStatus::default()
    };
    let queue = cluster.queue(shape.queue).name.to_string();
    if missing_group {
        status
            .blocks
            .push(Reason::PodGroupNotFound.block("its PodGroup does not exist yet"));
    }
    if status.blocks.is_empty() {
        status.admitted = true;
        status.message = if queue.is_empty() {
            // Only CrossQuota holds the pod.
            "it would be let in now".to_owned()
        } else {
            format!("it would be let in now, in queue {queue}")
        };
    } else {
        summed_up(&mut status, "it");
        line_up(cluster, namespace, shape.queue, place, &mut status);
        status.waiting = status.waiting.map(|waiting| waiting + 1);
    }
    status.queue = Some(queue).filter(|name| !name.is_empty());
    status
}

/// Returns the Job that pods of this group are made by, where it is held until its queue takes it as a whole. The group that Volcano makes
/// for a Job of its own holds no pods for that.
fn held_job(cluster: &Cluster, group: Option<WorkloadId>, whole: Option<WorkloadId>) -> Option<WorkloadId> {
    whole.filter(|whole| Some(*whole) != group || cluster.workload(*whole).names_no_group())
}

/// Returns what keeps out the workloads that these pods are part of: the Job that is taken as a whole, and the group that they join.
fn of_groups(
    cluster: &mut Cluster,
    namespace: &str,
    shapes: &[(Arc<Shape>, u64)],
    whole: Option<WorkloadId>,
) -> Vec<Block> {
    let group = shapes.first().and_then(|(shape, _)| shape.group);
    let group = group.filter(|group| Some(*group) == whole || !cluster.groups_are_absent());
    // A Job in Job mode whose pods also belong to a group is asked by itself first.
    let job = whole.filter(|whole| Some(*whole) != group);
    let of_job = job.and_then(|job| block_of_job(cluster, namespace, job, shapes));
    let of_group = group.map(|group| blocks_of_group(cluster, namespace, group, shapes));
    let mut found: Vec<_> = of_job.into_iter().chain(of_group.into_iter().flatten()).collect();
    if let Some(id) = held_job(cluster, group, whole)
        && found.is_empty()
    {
        found.extend(block_aside(cluster, id));
    }
    found
}
