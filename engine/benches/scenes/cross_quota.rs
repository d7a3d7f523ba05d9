//! Clusters whose GPU nodes have quotas for pods without GPU, for the benchmarks of both crates.

use crds::configuration::Configuration;

use crate::world::{GPU, World, bare_pod, node};

/// Pods without GPU on each GPU node.
const PODS_OF_A_NODE: usize = 20;

/// So many GPU nodes, each with 20 pods of one core, and quotas for CPU and memory.
pub fn gpu_nodes(nodes: usize) -> World {
    let conf = "tiers: [{plugins: [{name: capacity-card}, {name: crossquota, arguments: {gpu-resource-names: nvidia.com/gpu, \
                quota-resources: \"cpu,memory\", quota.cpu: 32, quota-percentage.memory: 50}}]}]";
    let parsed = Configuration::parse(Some(conf), Some("enforceCrossQuota: extender")).unwrap();
    let mut world = World::with(parsed.configuration.into());
    for number in 0..nodes {
        let name = format!("gpu-{number:05}");
        world.node(&node(&name).offers(GPU, "8"));
        // A different number on each, so that scores differ.
        for pod in 0..PODS_OF_A_NODE - number % 3 {
            world.pod(&bare_pod(&format!("{name}-{pod}")).on(&name));
        }
    }
    world
}
