//! Why GPU nodes have no quota for a pod without GPU.

use std::cmp::Reverse;

use crds::format::format_amount;

use crate::cluster::Cluster;
use crate::cluster::waiting::Shape;
use crate::decide::fit;
use crate::ids::NodeId;
use crate::policies::cross_quota::{Line, exceeded};

/// What the quotas of GPU nodes say to a pod, resource by resource, with the numbers of the node that has most left.
pub(super) fn over_quota(cluster: &Cluster, shape: &Shape) -> String {
    let table = cluster.gpu_nodes();
    let request = table.request(&shape.task.request);
    let mut lacking = vec![(0_usize, None::<(Reverse<i128>, &str, Line, NodeId)>); request.len()];
    for (node, lines) in table.iter() {
        let Some(place) = exceeded(lines, &request) else {
            continue;
        };
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
    let parts = lacking.into_iter().enumerate().filter_map(|(place, (count, most))| {
        let (_, name, line, node) = most?;
        let resource = cluster.names().resource_name(table.resources()[place]);
        let amount = |amount| format_amount(resource, amount);
        let source = table.sources(node)?[place].describe(resource);
        Some(format!(
            "{resource} quota exceeded on {count} of {} GPU nodes: asked {}; most is left on {name}: used {}, quota {} \
             ({source})",
            table.len(),
            amount(i128::from(request[place])),
            amount(line.used),
            amount(i128::from(line.quota)),
        ))
    });
    parts.collect::<Vec<_>>().join("; ")
}
