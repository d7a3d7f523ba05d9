//! Pods without GPU that others are evicted for.

use engine::decide::Action;
use serde_json::json;

use super::*;
use crate::world::bare_queue;

/// The cheapest plan would have been one that the quota of the GPU node refuses: it was looked for again and again, and no other.
#[test]
fn nobody_is_taken_from_a_gpu_node_whose_quota_would_not_do_afterwards() {
    let conf = "actions: \"allocate, reclaim\"\ntiers: [{plugins: [{name: capacity}, {name: crossquota, arguments: {gpu-resource-names: \
                nvidia.com/gpu, quota.cpu: 2}}]}]";
    let parsed = Configuration::parse(Some(conf), None).unwrap();
    let mut world = World::with(Arc::new(parsed.configuration));
    world.node(&gpu_node("g1").offers("cpu", "8"));
    world.node(&node("c1").offers("cpu", "4"));
    for (name, deserved) in [("a", "4"), ("b", "0")] {
        world.queue(&bare_queue(name).set(["spec", "deserved"], json!({ "cpu": deserved })));
    }
    let of_b = |name: &str, cores: &str| bare_pod(name).queue("b").requests("cpu", cores);
    world.pod(&of_b("b-cpu", "4").on("c1").created(0));
    world.pod(&of_b("b-gpu", "8").requests(GPU, "1").on("g1").created(5));
    world.pod(&cpu("p", "4").queue("a"));
    let actions = world.decide();
    let [Action::Evict(eviction)] = &actions[..] else {
        panic!("nobody is evicted: {actions:?}");
    };
    let names: Vec<_> = eviction.victims.iter().map(|victim| &*victim.pod.name).collect();
    assert_eq!(names, ["b-cpu"]);
}
