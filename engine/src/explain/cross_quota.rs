//! What GPU nodes have no quota for, for a pod without GPU.

use std::cmp::Reverse;

use super::short::{Kept, Place, Short, Used};
use crate::amounts::Dimension;
use crate::cluster::Cluster;
use crate::cluster::waiting::Shape;
use crate::decide::census::Looks;
use crate::decide::fit;
use crate::ids::NodeId;
use crate::policies::cross_quota::{Line, exceeded};

/// What the quotas of GPU nodes to a pod, resource by resource, with the numbers of the node that has most left.
pub(super) fn over_quota(cluster: &Cluster, shape: &Shape) -> Vec<Short> {
    let table = cluster.gpu_nodes();
    let request = table.request(&shape.task.request);
    let looks = Looks::of_message();
    let mut lacking = vec![(0_usize, None::<(Reverse<i128>, &str, Line, NodeId)>); request.len()];
    for (node, lines) in table.iter() {
        let Some(place) = exceeded(lines, &request) else {
            continue;
        };
        if !looks.may_look(shape) {
            return Vec::new();
        }
        if !fit::may_run_on(cluster, shape, None, node) {
            continue;
        }
        let line = lines[place];
        let left = i128::from(line.quota) - line.used - line.assumed;
        let found = (Reverse(left), &*cluster.node(node).name, line, node);
        let (count, most) = &mut lacking[place];
        *count += 1;
        if most.is_none_or(|most| (found.0, found.1) < (most.0, most.1)) {
            *most = Some(found);
        }
    }
    let short = lacking.into_iter().enumerate().filter_map(|(place, (count, most))| {
        let (_, _, line, node) = most?;
        let resource = table.resources()[place];
        let source = table.sources(node)?[place].describe(cluster.names().resource_name(resource));
        Some(Short {
            of: vec![Dimension::Resource(resource)],
            asked: request[place].into(),
            ways: 0,
            used: Used::ByPods {
                used: line.used,
                reserved: 0,
            },
            limit: Some(line.quota.into()),
            place: Place::GpuNodes {
                most_left: node,
                without: count,
                of: table.len(),
                source,
            },
            kept: Kept::ForNobody,
        })
    });
    short.collect()
}
