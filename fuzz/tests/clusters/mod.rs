//! Clusters in which targets are asked something.

use std::sync::Arc;

use crds::configuration::Configuration;
use engine::Observation;
use engine::cluster::{Cluster, Kind};
use fuzz::corpus;
use k8s_openapi::jiff::Timestamp;

/// A cluster under these settings, with the nodes, queues and pods of the corpora.
pub fn of_corpora(settings: &str) -> Cluster {
    let conf = "tiers: [{plugins: [{name: capacity-card}, {name: predicates}, {name: crossquota, arguments: {gpu-resource-names: \
                nvidia.com/gpu, quota-resources: \"cpu,memory\", quota.cpu: 32}}]}]";
    let parsed = Configuration::parse(Some(conf), Some(settings)).unwrap();
    let mut cluster = Cluster::new(Arc::new(parsed.configuration));
    let now = Timestamp::UNIX_EPOCH;
    let valid = |target| {
        let entries = corpus::read(target).into_iter();
        entries
            .filter(|entry| entry.valid == Some(true))
            .map(|entry| entry.text)
    };
    for kind in [
        Kind::Node,
        Kind::Queue,
        Kind::Namespace,
        Kind::PodGroup,
        Kind::Job,
        Kind::Pod,
        Kind::SucceededPod,
    ] {
        cluster.apply(Observation::ListBegins(kind), now);
        match kind {
            Kind::Node => valid("nodes")
                .for_each(|text| cluster.apply(Observation::Node(serde_json::from_str(&text).unwrap()), now)),
            Kind::Queue => valid("queues")
                .for_each(|text| cluster.apply(Observation::Queue(serde_json::from_str(&text).unwrap()), now)),
            Kind::Pod => valid("pods")
                .for_each(|text| cluster.apply(Observation::Pod(serde_json::from_str(&text).unwrap()), now)),
            _ => {}
        }
        cluster.apply(Observation::ListEnds(kind), now);
    }
    cluster
}
