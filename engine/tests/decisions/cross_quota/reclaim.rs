//! Pods without GPU that others are evicted for.

use engine::decide::Action;
use serde_json::json;

use super::*;
use crate::world::bare_queue;

/// `b` has borrowed all CPU of `c1`, of which `a` deserves some, and GPU node `g1` has a quota for pods without GPU.
fn borrowed(quota: u32) -> World {
    let conf = format!(
        "actions: \"allocate, reclaim\"\ntiers: [{{plugins: [{{name: capacity}}, {{name: crossquota, arguments: {{gpu-resource-names: \
         nvidia.com/gpu, quota.cpu: {quota}}}}}]}}]"
    );
    let parsed = Configuration::parse(Some(&conf), None).unwrap();
    let mut world = World::with(Arc::new(parsed.configuration));
    world.node(&gpu_node("g1").offers("cpu", "8"));
    world.node(&node("c1").offers("cpu", "4"));
    for (name, deserved) in [("a", "8"), ("b", "0")] {
        world.queue(&bare_queue(name).set(["spec", "deserved"], json!({ "cpu": deserved })));
    }
    world.pod(&of_b("b-cpu").requests("cpu", "4").on("c1").created(0));
    world
}

fn of_b(name: &str) -> Object {
    bare_pod(name).queue("b")
}

/// Who is evicted next.
fn evicted(world: &mut World) -> Vec<String> {
    let actions = world.decide();
    let [Action::Evict(eviction)] = &actions[..] else {
        panic!("nobody is evicted: {actions:?}");
    };
    let names = eviction.victims.iter().map(|victim| victim.pod.name.to_string());
    names.collect()
}

/// A GPU node with room, and too little quota, hid the pod from reclaim: its queue never got what it deserves.
#[test]
fn who_finds_too_little_quota_on_gpu_nodes_gets_back_what_others_have_elsewhere() {
    let mut world = borrowed(4);
    world.pod(&bare_pod("small").queue("a").requests("cpu", "2").on("g1"));
    world.pod(&cpu("p", "4").queue("a"));
    assert_eq!(evicted(&mut world), ["b-cpu"]);
    // Nobody else takes it meanwhile.
    world.pod(&cpu("late", "4").queue("b").created(0));
    world.remove_pod("b-cpu");
    assert_eq!(world.admit_names(), ["p"]);
}

/// What others have of the quota of the GPU node itself.
#[test]
fn what_others_have_of_the_quota_of_a_gpu_node_is_given_back_too() {
    let mut world = borrowed(4);
    world.remove_pod("b-cpu");
    world.pod(&bare_pod("keeps").queue("a").requests("cpu", "4").on("c1"));
    world.pod(&of_b("b-on-gpu-node").requests("cpu", "2").on("g1"));
    world.pod(&cpu("p", "4").queue("a"));
    assert_eq!(evicted(&mut world), ["b-on-gpu-node"]);
    world.pod(&cpu("late", "2").queue("b").created(0));
    world.remove_pod("b-on-gpu-node");
    assert_eq!(world.admit_names(), ["p"]);
}

/// A GPU node that shares its cards, and has too little quota, hid it again.
#[test]
fn what_others_have_of_the_quota_of_a_node_with_shared_cards_is_given_back_too() {
    let mut world = borrowed(4);
    world.node(&gpu_node("g1").mgpu(1, 8000, "fixed-share").offers("cpu", "8"));
    world.remove_pod("b-cpu");
    world.pod(&bare_pod("keeps").queue("a").requests("cpu", "4").on("c1"));
    world.pod(&of_b("b-on-gpu-node").requests("cpu", "2").on("g1"));
    world.pod(&cpu("p", "4").queue("a").share(40, 3000));
    assert_eq!(evicted(&mut world), ["b-on-gpu-node"]);
}

/// By a pod that asks for next to nothing, a tenant would have evicted for what his queue deserves nothing of.
#[test]
fn for_who_asks_for_none_of_it_nobody_gives_back_what_is_above_a_quota() {
    let conf = "actions: \"allocate, reclaim\"\ntiers: [{plugins: [{name: capacity}, {name: crossquota, arguments: {gpu-resource-names: \
                nvidia.com/gpu, quota-resources: \"cpu,memory\", quota.cpu: 8, quota.memory: 1Gi}}]}]";
    let parsed = Configuration::parse(Some(conf), None).unwrap();
    let mut world = World::with(Arc::new(parsed.configuration));
    world.node(&gpu_node("g1").offers("cpu", "8").offers("memory", "64Gi"));
    for (name, deserved) in [("a", "8"), ("b", "0")] {
        let deserved = json!({ "cpu": deserved, "memory": deserved });
        world.queue(&bare_queue(name).set(["spec", "deserved"], deserved));
    }
    let takes_much = of_b("takes-much").requests("cpu", "1").requests("memory", "2Gi");
    world.pod(&takes_much.on("g1"));
    world.pod(&cpu("p", "4").requests("memory", "0").queue("a"));
    assert_eq!(world.refusal_of("p"), "CrossQuotaExceeded");
    assert_eq!(world.decide(), []);
}

/// The cheapest plan would have been one that the quota of the GPU node refuses: it was looked for again and again, and no other.
#[test]
fn nobody_is_taken_from_a_gpu_node_whose_quota_would_not_do_afterwards() {
    let mut world = borrowed(2);
    let takes_all = of_b("b-gpu").requests("cpu", "8").requests(GPU, "1").on("g1");
    world.pod(&takes_all.created(5));
    world.pod(&cpu("p", "4").queue("a"));
    assert_eq!(evicted(&mut world), ["b-cpu"]);
}

/// It waits for room on GPU nodes, which alone have its card, though others are let in by quota alone.
#[test]
fn for_an_autoscaler_who_waits_for_gpu_nodes_gets_back_what_others_borrowed_there() {
    const SLICE: &str = "nvidia.com/mig-1g.5gb";
    const CARD: &str = "A/mig-1g.5gb-mixed";
    let conf = "actions: \"allocate, reclaim\"\ntiers: [{plugins: [{name: capacity}, {name: crossquota, arguments: {gpu-resource-names: \
                nvidia.com/gpu, quota.cpu: 8}}]}]";
    let parsed = Configuration::parse(Some(conf), Some("admitOn: quota")).unwrap();
    let mut world = World::with(Arc::new(parsed.configuration));
    world.node(&node("g1").cards("A", 1).offers(SLICE, "2").label(GPU_NODE, "true"));
    for name in ["a", "b"] {
        world.queue(&bare_queue(name).deserved_cards(&format!(r#"{{"{CARD}": 1}}"#)));
    }
    let asks = |pod: Object| pod.annotation("volcano.sh/card.name", CARD).requests(SLICE, "1");
    for name in ["b-0", "b-1"] {
        world.pod(&asks(of_b(name)).assigned(CARD).on("g1"));
    }
    world.pod(&asks(batch("p").queue("a")));
    assert_eq!(evicted(&mut world).len(), 1);
}
