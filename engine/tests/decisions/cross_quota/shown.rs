//! What users see of pods that wait for quota.

use crds::made::made_by;
use engine::explain::{Asked, let_in, review};
use engine::overview::{Shown, figures, outside_cross_quota};
use engine::reason::Reason;
use serde_json::{Value, json};

use super::*;

#[test]
fn pods_that_wait_in_no_queue_are_counted_by_their_reason() {
    let mut world = world("quota.cpu: 2");
    world.node(&gpu_node("gpu-1"));
    world.pods([cpu("p", "2"), cpu("q", "1"), cpu("r", "1")]);
    assert_eq!(world.admit_names(), ["p"]);
    let waiting = |world: &World| {
        let figures = figures(&world.cluster);
        let nameless = figures.into_iter().find(|queue| queue.queue.is_empty());
        nameless.map(|queue| (queue.waiting, queue.cards.len(), queue.standing.is_some()))
    };
    let two = vec![(Reason::CrossQuotaExceeded, 2)];
    assert_eq!(waiting(&world), Some((two, 0, false)), "and no figures of a queue");
    world.remove_pod("p");
    assert_eq!(world.admit_names(), ["q", "r"]);
    assert_eq!(waiting(&world), None);
}

/// Each was told that CrossQuota had let it in.
#[test]
fn who_is_let_in_since_crossquota_holds_it_no_longer_is_told_that() {
    const OF: [(&str, &str); 1] = [("card.volcano.sh/crossquota", "enabled")];
    let waiting = || {
        let mut world = world("quota.cpu: 2");
        world.node(&gpu_node("gpu-1"));
        world.namespace("team", &OF, None);
        world.pods([cpu("p", "2"), cpu("q", "1")]);
        assert_eq!(world.admit_names(), ["p"]);
        world
    };
    let said = |world: &World, uid: &str| let_in(&world.cluster, world.known(uid));
    assert_eq!(said(&waiting(), "p"), "let in by CrossQuota");
    let mut world = waiting();
    world.namespace("team", &[], None);
    assert_eq!(world.admit_names(), ["q"]);
    assert_eq!(
        said(&world, "q"),
        "let in: namespace team opts in to CrossQuota no longer, or never did (label card.volcano.sh/crossquota), so that nothing limits the pod"
    );
    let mut world = waiting();
    world.set_configuration(Arc::default(), world.now);
    assert_eq!(world.admit_names(), ["q"]);
    assert_eq!(
        said(&world, "q"),
        "let in: by its configuration, CrossQuota holds no pods any more"
    );
}

/// "Cardgate would not hold it": nothing but the door knew whom it marks.
#[test]
fn who_asks_before_creating_a_pod_is_told_what_the_pod_is_told_then() {
    let mut world = world("quota.cpu: 2");
    world.node(&gpu_node("gpu-1"));
    world.namespace("team", &[("card.volcano.sh/crossquota", "enabled")], None);
    let ask = |world: &mut World, namespace: &str, manifest: Value| {
        let made = made_by(manifest).unwrap();
        let now = world.now;
        review(&mut world.cluster, namespace, Asked::Imagined(Box::new(made)), now).unwrap()
    };
    let pod = |cores: &str| bare_pod("asked").requests("cpu", cores).read::<Value>();
    let fits = ask(&mut world, "team", pod("2"));
    assert_eq!((fits.admitted, &*fits.message), (true, "it would be let in now"));
    world.pod(&cpu("holder", "2"));
    assert_eq!(world.admit_names(), ["holder"]);
    let held = ask(&mut world, "team", pod("1"));
    world.pod(&cpu("asked", "1"));
    let told = world.refusal();
    let [block] = held.blocks.as_slice() else {
        panic!("{held:?}")
    };
    assert_eq!(format!("{}: {}", block.reason, block.message), told);
    // None of the quota's business: pods that run on every node, pods with GPU, and those of who has not opted in, whatever they say.
    let daemon = json!({ "kind": "DaemonSet", "metadata": { "name": "d" }, "spec": { "template": pod("1") } });
    let gpu = bare_pod("asked")
        .requests("cpu", "1")
        .requests(GPU, "1")
        .read::<Value>();
    let marked = bare_pod("asked")
        .requests("cpu", "1")
        .label("card.volcano.sh/crossquota", "enabled");
    for (namespace, manifest) in [("team", daemon), ("team", gpu), ("others", marked.read())] {
        let answer = ask(&mut world, namespace, manifest);
        assert!(
            answer.admitted && answer.message.contains("would not hold it"),
            "{answer:?}"
        );
    }
}

#[test]
fn nodes_with_cards_that_no_pattern_names_say_that_they_count_as_nodes_without_gpu() {
    let mut world = world("quota.cpu: 2");
    world.node(&gpu_node("nvidia"));
    world.node(
        &node("amd")
            .offers("amd.com/gpu", "8")
            .label("amd.com/gpu.product", "MI300X"),
    );
    world.node(
        &node("another")
            .offers("amd.com/gpu", "8")
            .label("amd.com/gpu.product", "MI300X"),
    );
    world.node(&node("shared").mgpu(2, 80_000, "fixed-share"));
    world.node(&node("joining").label("nvidia.com/gpu.product", "NVIDIA-L40S"));
    world.node(&node("plain"));
    let outside = |world: &World| {
        let found = outside_cross_quota(&world.cluster).into_iter();
        found
            .map(|(cards, (count, first))| (cards, count, first.to_string()))
            .collect::<Vec<_>>()
    };
    let found = |cards: &str, count, first: &str| (cards.to_owned(), count, first.to_owned());
    assert_eq!(
        outside(&world),
        [
            found("amd.com/gpu", 2, "amd"),
            found("no cards yet", 1, "joining"),
            found(
                "vke.volcengine.com/mgpu-core, vke.volcengine.com/mgpu-memory",
                1,
                "shared"
            ),
        ]
    );
    let problems = |world: &mut World| {
        let shown = world.shown().into_iter();
        let inventories = shown.filter_map(|shown| match shown {
            Shown::Inventory { node, status, .. } => {
                let conditions = status?.conditions.into_iter();
                let mut wrong = conditions.filter(|condition| condition.type_ == "CrossQuotaApplies");
                wrong.next().map(|condition| (node.to_string(), condition.message))
            }
            _ => None,
        });
        inventories.collect::<Vec<_>>()
    };
    let told = problems(&mut world);
    let names: Vec<_> = told.iter().map(|(node, _)| node.as_str()).collect();
    assert_eq!(names, ["amd", "another", "shared", "joining"]);
    assert!(
        told[0]
            .1
            .starts_with("the node has amd.com/gpu, and gpu-resource-names matches none"),
        "{told:?}"
    );
    // Labels are there before a device plugin is, and after it has gone: no pattern helps then.
    assert!(
        told.iter()
            .all(|(_, message)| message.contains("if its device plugin does not run, or not yet, see to that")),
        "{told:?}"
    );

    // A configuration that names them, or none of CrossQuota, has nothing to say.
    for conf in [
        "tiers: [{plugins: [{name: crossquota, arguments: {gpu-resource-names: \"gpu\"}}]}]",
        "",
    ] {
        let parsed = Configuration::parse(Some(conf), None).unwrap();
        world.set_configuration(Arc::new(parsed.configuration), world.now);
        let left: Vec<_> = outside(&world).into_iter().map(|(_, _, first)| first).collect();
        assert_eq!(
            left,
            if conf.is_empty() {
                vec![]
            } else {
                vec!["joining".to_owned()]
            },
            "{conf}"
        );
        assert_eq!(problems(&mut world).len(), left.len());
    }
}

/// It is let in for nodes that an autoscaler adds: that no node takes it now keeps it from nothing.
#[test]
fn for_an_autoscaler_nobody_is_told_to_wait_for_nodes_who_is_let_in_without_one() {
    let mut world = World::with(configuration("quota.cpu: 1", "admitOn: quota"));
    world.node(&gpu_node("gpu-1"));
    world.namespace("team", &[("card.volcano.sh/crossquota", "enabled")], None);
    for cores in ["2", "1000"] {
        let asked = bare_pod("asked").requests("cpu", cores).read::<Value>();
        let made = made_by(asked).unwrap();
        let now = world.now;
        let told = review(&mut world.cluster, "team", Asked::Imagined(Box::new(made)), now).unwrap();
        assert!(told.admitted, "{told:?}");
    }
}

/// It was told of a quota for ever, since an earlier search had found that one was lacking.
#[test]
fn who_lacked_quota_is_told_what_it_lacks_now() {
    let without_room = |name: &str| node(name).offers("cpu", "1");
    let used_up = |name: &str| gpu_node(name).annotation("volcano.sh/crossquota-cpu", "2");
    for (others, expected) in [
        (vec![], "NoNodeFits"),
        (vec![without_room("cpu-1"), without_room("cpu-2")], "NoNodeFits"),
        // This one is excluded by the pod, whatever its quota.
        (
            vec![
                used_up("gpu-2").taint("maintenance", "NoSchedule"),
                without_room("cpu-1"),
            ],
            "NoNodeFits",
        ),
        (vec![used_up("gpu-2"), without_room("cpu-1")], "CrossQuotaExceeded"),
    ] {
        let mut world = world("quota.cpu: 8");
        world.node(&gpu_node("gpu-1"));
        for other in &others {
            world.node(other);
        }
        let training = bare_pod("training").requests(GPU, "8").requests("cpu", "58");
        world.pods([training, bare_pod("held").requests("cpu", "6")].map(|pod| pod.on("gpu-1")));
        world.pod(&cpu("p", "4"));
        assert_eq!(world.refusal_of("p"), "CrossQuotaExceeded");
        world.node(&gpu_node("gpu-1").annotation("volcano.sh/crossquota-cpu", "16"));
        assert_eq!(world.refusal_of("p"), expected, "{others:?}");
    }
}
