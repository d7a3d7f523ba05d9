//! Turns an explanation into its part of an answer (`CardReview`).

use crds::card_review::{self, Block, Shortage};

use super::explanation::{Explanation, Extent};
use super::holders::{holders, holders_on, kept};
use super::short::{Place, Short, Used};
use crate::amounts::Dimension;
use crate::cluster::Cluster;
use crate::ids::WorkloadId;
use crate::reason::{Outlook, Reason};

impl Explanation<'_> {
    /// Returns the explanation as a user of this namespace gets it: in words and numbers, with the holders of what is short.
    pub(super) fn block(&self, namespace: &str) -> Block {
        let short = self.short().into_iter();
        let whole = match &self.extent {
            Extent::Whole(id, _) => Some(*id),
            Extent::Alone | Extent::Together(_) => None,
        };
        Block {
            reason: self.reason.as_str().to_owned(),
            message: self.message(),
            outlook: answered(self.outlook),
            remedy: self.remedy(),
            shortages: short
                .flat_map(|short| shortages(self.cluster, whole, &short, namespace))
                .collect(),
        }
    }
}

impl Reason {
    /// Returns a block for which nothing more is known than the reason and this text.
    pub(super) fn block(self, said: &str) -> Block {
        let outlook = self.outlook(|| true);
        Block {
            reason: self.as_str().to_owned(),
            message: self.message(said),
            outlook: answered(outlook),
            remedy: self.remedy(outlook, true).to_owned(),
            shortages: Vec::new(),
        }
    }
}

fn answered(outlook: Outlook) -> card_review::Outlook {
    match outlook {
        Outlook::NotYet => card_review::Outlook::NotYet,
        Outlook::Never => card_review::Outlook::Never,
    }
}

/// Returns the shortages. Alternatives count together, but holders are told for each.
fn shortages(cluster: &Cluster, whole: Option<WorkloadId>, short: &Short, namespace: &str) -> Vec<Shortage> {
    let each = short.of.iter().map(|dimension| Shortage {
        resource: dimension.name(cluster.names()).to_owned(),
        asked: dimension.format(short.asked),
        used: dimension.format(short.in_use()),
        limit: short.limit.map(|limit| dimension.format(limit)),
        place: place(cluster, &short.place),
        holders: of_place(cluster, &short.place, *dimension, namespace),
        kept: kept_of(cluster, whole, short, *dimension, namespace),
    });
    each.collect()
}

/// Returns what is kept for other workloads. It counts only where a workload has to be taken as a whole.
fn kept_of(
    cluster: &Cluster,
    whole: Option<WorkloadId>,
    short: &Short,
    dimension: Dimension,
    namespace: &str,
) -> Option<card_review::KeptFor> {
    match (&short.place, &short.used) {
        (Place::Level(at), Used::ByWorkloads { .. }) => kept(cluster, whole, at.level, dimension, namespace),
        _ => None,
    }
}

fn of_place(cluster: &Cluster, place: &Place, dimension: Dimension, namespace: &str) -> Vec<card_review::Holder> {
    match place {
        Place::Level(at) => holders(cluster, at.level, dimension, namespace),
        Place::Node(node) => holders_on(cluster, *node, dimension, namespace),
        // Only pods without GPU count here, and they need not be charged to any queue.
        Place::GpuNodes { .. } => Vec::new(),
    }
}

/// Returns the place where there is too little.
fn place(cluster: &Cluster, place: &Place) -> card_review::Place {
    let (kind, name) = match place {
        Place::Level(at) => match at.level {
            Some(id) if id == at.own => ("Queue", cluster.queue(id).name.to_string()),
            Some(id) => ("ParentQueue", cluster.queue(id).name.to_string()),
            None => ("Cluster", String::new()),
        },
        Place::Node(node) | Place::GpuNodes { most_left: node, .. } => ("Node", cluster.node(*node).name.to_string()),
    };
    card_review::Place {
        kind: kind.to_owned(),
        name,
    }
}
