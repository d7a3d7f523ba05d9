//! Which node, and which cards of it.

use engine::explain::{Subject, explain};
use engine::reason::Outlook;
use engine::refs::WorkloadKind;
use serde_json::json;

use super::*;
use crate::world::{assert_says_never, bare_queue};

#[test]
fn binpack_puts_two_pods_on_one_card_and_spread_on_two() {
    for (policy, expected) in [
        ("binpack", ["p: g1 main=0", "q: g1 main=0"]),
        ("Spread", ["p: g1 main=0", "q: g1 main=1"]),
    ] {
        let mut world = world(&[("Policy", policy)]);
        world.node(&node("g1").mgpu(2, 10_000, FIXED));
        world.pods([pod("p").share(30, 1000), pod("q").share(30, 1000)]);
        assert_eq!(places(&mut world), expected);
    }
}

#[test]
fn nodes_are_chosen_by_the_score_of_their_best_cards() {
    for (policy, expected) in [("binpack", "p: g2 main=0"), ("spread", "p: g3 main=0")] {
        let mut world = world(&[("Policy", policy)]);
        for name in ["g1", "g2", "g3"] {
            world.node(&node(name).mgpu(1, 10_000, FIXED));
        }
        let index = "vke.volcengine.com/gpu-index-container-main";
        let running = |name: &str, core| pod(name).share(core, 1000).annotation(index, "0");
        world.pods([running("a", 20).on("g1"), running("b", 60).on("g2")]);
        world.pod(&pod("p").share(30, 1000));
        assert_eq!(places(&mut world), [expected], "{policy}");
    }
}

/// An idle node of another card was told as one whose cards are in use.
#[test]
fn who_waits_is_told_of_the_nodes_with_the_cards_that_it_may_have() {
    let mut world = world(&[]);
    let asks = |name: &str, card: &str| pod(name).share(60, 1000).annotation("volcano.sh/card.name", card);
    for (name, card) in [("g1", "A"), ("g2", "L")] {
        let shared = node(name).cards(card, 1).offers("nvidia.com/gpu", "0");
        world.node(&shared.mgpu(1, 10_000, FIXED));
    }
    world.queue(&queue("team-a").quota(r#"{"A/mgpu": 200}"#));
    world.pods([asks("p", "A/mgpu"), asks("q", "A/mgpu")]);
    assert_eq!(world.admit_names(), ["p"]);
    let told = world.refusal();
    assert!(
        told.contains("2 mGPU nodes: 1 without enough room, 1 with other cards than it may have"),
        "{told}"
    );
    // Nor does it wait for room where it lacks quota.
    world.remove_pod("q");
    world.pod(&asks("r", "A/mgpu|L/mgpu"));
    assert_eq!(world.admit_names(), [""; 0]);
    let told = world.refusal();
    assert!(
        told.contains("1 whose card the queue has too little quota left for"),
        "{told}"
    );
}

/// What a pod is told now of why it waits.
fn told_of(world: &World, uid: &str) -> String {
    let id = world.cluster.pod_with_uid(uid).unwrap();
    explain(&world.cluster, Subject::Pod(id)).unwrap().message()
}

/// Two mGPU nodes of one card each, and a queue that may have more of them than there is.
fn two_cards() -> World {
    let mut world = world(&[]);
    for (name, card) in [("g1", "A"), ("g2", "L")] {
        let shared = node(name).cards(card, 1).offers("nvidia.com/gpu", "0");
        world.node(&shared.mgpu(1, 10_000, FIXED));
    }
    world.queue(&queue("team-a").quota(r#"{"A/mgpu": 200, "L/mgpu": 200}"#));
    world
}

fn either(name: &str) -> Object {
    pod(name)
        .share(60, 1000)
        .annotation("volcano.sh/card.name", "A/mgpu|L/mgpu")
}

#[test]
fn of_nodes_that_have_room_again_nobody_is_told_that_quota_lacks() {
    let mut world = two_cards();
    world.pods(["p", "q", "late"].map(either));
    assert_eq!(places(&mut world), ["p: g1 main=0", "q: g2 main=0"]);
    world.remove_pod("p");
    let told = told_of(&world, "late");
    assert!(
        told.contains("2 mGPU nodes: 1 that could take the pod by itself, 1 without enough room"),
        "{told}"
    );
    // Of another card than it has quota for, it is.
    world.queue(&queue("team-a").quota(r#"{"A/mgpu": 0, "L/mgpu": 60}"#));
    let told = told_of(&world, "late");
    assert!(
        told.contains("2 mGPU nodes: 1 whose card the queue has too little quota left for, 1 without enough room"),
        "{told}"
    );
}

/// Nodes take each pod of the gang, and not all of them.
#[test]
fn a_gang_that_its_nodes_have_no_room_for_is_told_neither_of_quota_nor_of_full_cards() {
    let mut world = two_cards();
    world.group(&group("gang", 3));
    world.pods(["a", "b", "c"].map(|name| either(name).of("gang")));
    assert_eq!(places(&mut world), Vec::<String>::new());
    let told = told_of(&world, "a");
    assert!(
        told.contains("2 mGPU nodes: 2 that could take the pod by itself"),
        "{told}"
    );
}

#[test]
fn equal_nodes_go_by_name() {
    let mut world = world(&[]);
    for name in ["g3", "g1", "g2"] {
        world.node(&node(name).mgpu(1, 10_000, FIXED));
    }
    world.pods([pod("p").share(60, 1000), pod("q").share(60, 1000)]);
    assert_eq!(places(&mut world), ["p: g1 main=0", "q: g2 main=0"]);
}

#[test]
fn the_pods_other_needs_come_before_the_score() {
    let mut world = world(&[]);
    let mgpu = |name: &str| node(name).mgpu(1, 10_000, FIXED);
    world.node(&mgpu("a-cordoned").cordoned());
    world.node(&mgpu("b-not-ready").not_ready());
    world.node(&mgpu("c-tainted").taint("gpu", "NoSchedule"));
    world.node(&mgpu("d-elsewhere").label("zone", "b"));
    world.node(&mgpu("e-full").label("zone", "a").offers("cpu", "0"));
    world.node(&mgpu("f-good").label("zone", "a"));
    world.pod(&pod("p").share(30, 1000).selects("zone", "a"));
    assert_eq!(places(&mut world), ["p: f-good main=0"]);
}

#[test]
fn a_container_shares_multiple_gpu_cards_and_the_result_is_written_in_the_documents_form() {
    let mut world = world(&[]);
    world.node(&node("g1").mgpu(4, 10_000, NATIVE));
    let pod = pod("p")
        .annotation(CONTAINER_CARDS, "2,1,3")
        .annotation(POLICY, NATIVE)
        .share(100, 6000)
        .container("c2", 100, 0)
        .container("c3", 99, 6000);
    world.pod(&pod);
    let admissions = world.admissions();
    let prefix = "vke.volcengine.com/gpu-index-container";
    assert_eq!(
        admissions[0].mgpu_results,
        [
            ("vke.volcengine.com/assumed".to_owned(), "true".to_owned()),
            (format!("{prefix}-main"), "0,1".to_owned()),
            (format!("{prefix}-c2"), "2".to_owned()),
            (format!("{prefix}-c3"), "0,1,3".to_owned()),
        ]
    );
    assert_eq!(cores(&world, "g1"), [83, 83, 100, 33]);
    // As another restart would read it.
    world.confirm("p");
    world.pod(&after(&pod, &admissions[0]));
    assert_eq!(cores(&world, "g1"), [83, 83, 100, 33]);
}

#[test]
fn a_full_card_waits_for_an_idle_one_and_gets_it_after_a_release() {
    let mut world = world(&[]);
    world.node(&node("g1").mgpu(2, 10_000, FIXED));
    world.pods([pod("p").share(30, 1000), pod("q").share(90, 1000)]);
    assert_eq!(places(&mut world), ["p: g1 main=0", "q: g1 main=1"]);
    world.pod(&pod("full").share(100, 0));
    insta::assert_snapshot!(world.refusal(), @"InsufficientMGPU: no mGPU node can take the pod now: 1 mGPU node: 1 without enough room");
    world.remove_pod("q");
    assert_eq!(places(&mut world), ["full: g1 main=1"]);
}

#[test]
fn room_on_the_node_is_not_room_on_its_cards() {
    let mut world = world(&[]);
    world.node(&node("g1").mgpu(2, 10_000, FIXED));
    world.pods([
        pod("p").share(60, 1000),
        pod("q").share(60, 1000),
        pod("r").share(60, 1000),
    ]);
    assert_eq!(places(&mut world), ["p: g1 main=0", "q: g1 main=1"]);
    // 80 of 200 are free, and no card has 60 of them.
    insta::assert_snapshot!(world.refusal(), @"InsufficientMGPU: no mGPU node can take the pod now: 1 mGPU node: 1 whose cards have no room for its containers");
}

/// They were told to wait for what no card ever has.
#[test]
fn who_asks_for_more_than_any_card_has_waits_in_vain_and_is_told_so() {
    let mut world = world(&[]);
    world.node(&node("g1").mgpu(2, 10_000, FIXED));
    world.pods([pod("one").share(30, 1000), pod("two").share(80, 1000)]);
    assert_eq!(places(&mut world), ["one: g1 main=0", "two: g1 main=1"]);
    world.pod(&pod("p").share(10, 12_000));
    insta::assert_snapshot!(world.refusal(), @"InsufficientMGPU: no mGPU node can take the pod now: 1 mGPU node: 1 whose cards are too small or too few for its containers, whatever is free of them; waiting can't help: ask for less in one pod, or have a larger node added");
    world.remove_pod("p");
    let two_of = |first: i64, second: i64| pod("p").share(first, 0).container("b", second, 0);
    for (never, waits) in [
        (pod("p").share(10, 10_001), pod("p").share(10, 10_000)),
        (two_of(100, 200), two_of(100, 100)),
        (
            pod("p").share(20, 256).requests("cpu", "65"),
            pod("p").share(80, 9_500).container("b", 80, 9_500),
        ),
    ] {
        for (asked, outlook) in [(never, Outlook::Never), (waits, Outlook::NotYet)] {
            world.pod(&asked);
            assert_eq!(places(&mut world), Vec::<String>::new());
            let id = world.cluster.pod_with_uid("p").unwrap();
            let why = explain(&world.cluster, Subject::Pod(id)).unwrap();
            let told = why.message();
            assert_eq!(
                (why.reason.as_str(), why.outlook),
                ("InsufficientMGPU", outlook),
                "{told}"
            );
            assert_says_never(&told, &why.remedy(), outlook == Outlook::Never);
            world.remove_pod("p");
        }
    }
}

/// Whose queue has no quota left at the moment is told so too.
#[test]
fn who_waits_for_quota_and_asks_for_more_than_any_card_has_is_told_so() {
    let mut world = World::with(capacity("enqueue, allocate, backfill", ""));
    world.node(&node("g1").mgpu(2, 10_000, FIXED));
    world.queue(&queue("team-a").capability("vke.volcengine.com/mgpu-core", "50"));
    world.pod(&pod("holder").share(30, 1000));
    assert_eq!(places(&mut world), ["holder: g1 main=0"]);
    world.pod(&pod("p").share(30, 12_000));
    insta::assert_snapshot!(world.refusal(), @"InsufficientScalarQuota: queue team-a: vke.volcengine.com/mgpu-core asked 30, used 30, quota 50; waiting can't help: no mGPU node could take the pod even if nothing ran on it: ask for less in one pod, or have a larger node added");
}

#[test]
fn a_queues_capability_limits_mgpu_like_any_other_resource() {
    let mut world = World::with(capacity("enqueue, allocate, backfill", ""));
    world.node(&node("g1").mgpu(2, 10_000, FIXED));
    world.queue(&queue("team-a").capability("vke.volcengine.com/mgpu-core", "50"));
    world.pods([pod("p").share(30, 1000), pod("q").share(30, 1000)]);
    assert_eq!(places(&mut world), ["p: g1 main=0"]);
    assert_eq!(world.refusal_of("q"), "InsufficientScalarQuota");
    world.remove_pod("p");
    assert_eq!(places(&mut world), ["q: g1 main=0"]);
}

#[test]
fn filter_1_the_policy_must_match() {
    let mut world = world(&[]);
    world.node(&node("g1").mgpu(2, 10_000, NATIVE));
    world.pod(&pod("p").share(30, 1000));
    insta::assert_snapshot!(world.refusal(), @"NoMGPUNode: no mGPU node would take the pod, whatever is free on it: 1 mGPU node: 1 with another compute policy than fixed-share, which is that of pods without annotation vke.volcengine.com/mgpu-compute-policy; waiting can't help: create the pod anew with a compute policy, a number of cards and a node selector that some mGPU node meets, or have such a node added");
    world.node(&node("g2").mgpu(2, 10_000, FIXED));
    assert_eq!(places(&mut world), ["p: g2 main=0"]);
    // Full cards, and no policy: any will do.
    world.pod(&pod("full").share(100, 0));
    assert_eq!(places(&mut world), ["full: g1 main=0"]);
    world.pod(&pod("named").share(30, 1000).annotation(POLICY, NATIVE));
    assert_eq!(places(&mut world), ["named: g1 main=1"]);
}

#[test]
fn filter_2_several_cards_only_under_native_burst_share_on_both() {
    let mut world = world(&[]);
    let shares = |name: &str| pod(name).annotation(CONTAINER_CARDS, "2").share(60, 1000);
    world.node(&node("g1").mgpu(2, 10_000, FIXED));
    world.pod(&shares("fixed").annotation(POLICY, FIXED));
    world.pod(&shares("native").annotation(POLICY, NATIVE));
    assert_eq!(places(&mut world), Vec::<String>::new());
    world.node(&node("g2").mgpu(2, 10_000, NATIVE));
    assert_eq!(places(&mut world), ["native: g2 main=0,1"]);
}

#[test]
fn filter_3_no_container_asks_for_more_cards_than_the_node_has() {
    let mut world = world(&[]);
    world.node(&node("g1").mgpu(2, 10_000, FIXED));
    world.pod(&pod("p").share(300, 0));
    insta::assert_snapshot!(world.refusal(), @"NoMGPUNode: no mGPU node would take the pod, whatever is free on it: 1 mGPU node: 1 with fewer cards than a container asks for; waiting can't help: create the pod anew with a compute policy, a number of cards and a node selector that some mGPU node meets, or have such a node added");
    world.node(&node("g2").mgpu(3, 10_000, FIXED));
    assert_eq!(places(&mut world), ["p: g2 main=0,1,2"]);
}

#[test]
fn mgpu_max_containers_per_card() {
    let mut world = world(&[("MaxContainersPerCard", "2")]);
    world.node(&node("g1").mgpu(1, 10_000, FIXED));
    world.pods(["p", "q", "r"].map(|name| pod(name).share(10, 256)));
    assert_eq!(places(&mut world), ["p: g1 main=0", "q: g1 main=0"]);
    assert_eq!(world.refusal_of("r"), "InsufficientMGPU");
    world.remove_pod("p");
    assert_eq!(places(&mut world), ["r: g1 main=0"]);
}

#[test]
fn schedule_mode_id_names_cards_by_their_device_ids() {
    let mut world = world(&[("ScheduleMode", "id")]);
    let ids = "vke.volcengine.com/gpu-ids";
    world.node(&node("g1").mgpu(2, 10_000, NATIVE));
    let pod = pod("p")
        .annotation(POLICY, NATIVE)
        .annotation(CONTAINER_CARDS, "2")
        .share(60, 1000);
    world.pod(&pod);
    // Which of three cards the two are is not known.
    world.node(&node("g2").mgpu(2, 10_000, NATIVE).annotation(ids, "GPU-a,GPU-b,GPU-c"));
    insta::assert_snapshot!(world.refusal(), @"NoMGPUNode: no mGPU node would take the pod, whatever is free on it: 2 mGPU nodes: 2 without a device id for each card; waiting can't help: create the pod anew with a compute policy, a number of cards and a node selector that some mGPU node meets, or have such a node added");
    world.node(&node("g1").mgpu(2, 10_000, NATIVE).annotation(ids, "GPU-aa,GPU-bb"));
    let admissions = world.admissions();
    assert_eq!(placed(&admissions[0]), "p: g1 main=GPU-aa,GPU-bb");
    world.confirm("p");
    world.pod(&after(&pod, &admissions[0]).on("g1"));
    assert_eq!(cores(&world, "g1"), [30, 30]);
}

#[test]
fn looking_at_nodes_reserves_nothing() {
    let mut world = world(&[]);
    for name in ["g1", "g2", "g3"] {
        world.node(&node(name).mgpu(2, 10_000, FIXED));
    }
    world.pods([
        pod("p").share(30, 1000),
        pod("too-large").share(100, 0).container("b", 200, 0),
    ]);
    assert_eq!(places(&mut world), ["p: g1 main=0"]);
    assert_eq!(world.reason("too-large").unwrap().as_str(), "InsufficientMGPU");
    assert_eq!(cores(&world, "g1"), [30, 0]);
    for other in ["g2", "g3"] {
        assert_eq!(cores(&world, other), [0, 0]);
    }
}

#[test]
fn a_gang_gets_its_cards_together_or_not_at_all() {
    let mut world = world(&[]);
    world.node(&node("g1").mgpu(2, 10_000, FIXED));
    world.node(&node("g2").mgpu(1, 10_000, FIXED));
    let member = |name: &str| pod(name).of("gang").share(60, 1000);
    world.group(&group("gang", 4));
    world.pods(["a", "b", "c", "d"].map(member));
    assert_eq!(places(&mut world), Vec::<String>::new());
    assert_eq!(world.reason("a").unwrap().as_str(), "InsufficientMGPU");
    assert_eq!((cores(&world, "g1"), cores(&world, "g2")), (vec![0, 0], vec![0]));
    world.node(&node("g3").mgpu(1, 10_000, FIXED));
    assert_eq!(
        places(&mut world),
        ["a: g1 main=0", "b: g1 main=1", "c: g2 main=0", "d: g3 main=0"]
    );
}

#[test]
fn a_gang_of_different_pods_is_placed_another_way_where_the_best_cards_for_each_do_not_suffice() {
    let mut world = world(&[]);
    // Binpack would put the small pod on the larger node's card first, where the large one has to go.
    world.node(&node("g1").mgpu(1, 10_000, FIXED).label("zone", "a"));
    world.node(&node("g2").mgpu(1, 10_000, FIXED).label("zone", "b"));
    world.group(&group("gang", 2));
    world.pods([
        pod("small").of("gang").share(60, 1000),
        pod("zoned").of("gang").share(60, 1000).selects("zone", "a"),
    ]);
    assert_eq!(places(&mut world), ["small: g2 main=0", "zoned: g1 main=0"]);
}

#[test]
fn a_pod_gets_its_cards_also_where_admit_on_is_quota() {
    let mut world = World::with(configuration(&[], "admitOn: quota"));
    world.queue(&queue("team-a"));
    world.pod(&pod("p").share(30, 1000));
    assert_eq!(world.refusal_of("p"), "NoMGPUNode");
    world.node(&node("g1").mgpu(1, 10_000, FIXED));
    assert_eq!(places(&mut world), ["p: g1 main=0"]);
}

/// As with a node that is too small, also where other pods wait for no node.
#[test]
fn a_group_whose_pod_is_more_than_any_card_has_keeps_room_from_nobody() {
    for admit_on in ["fit", "quota"] {
        let mut world = World::with(configuration(&[], &format!("admitOn: {admit_on}")));
        world.node(&node("g1").mgpu(2, 10_000, FIXED));
        world.queue(&bare_queue("team-a").capability("cpu", "4").capability("memory", "1Ti"));
        let asking = |name: &str| group(name, 1).set(["spec", "minResources"], json!({"cpu": "3"}));
        let is_enqueued = |world: &World, name: &str| world.is_enqueued(WorkloadKind::PodGroup, name);
        world.group(&asking("never"));
        world.pod(&pod("p").of("never").share(10, 12_000));
        assert_eq!(places(&mut world), Vec::<String>::new());
        assert!(!is_enqueued(&world, "never"), "{admit_on}");
        world.group(&asking("other").created(1));
        world.pod(&pod("q").of("other").share(10, 10_000).created(1));
        assert_eq!(places(&mut world), ["q: g1 main=0"], "{admit_on}");
    }
}

#[test]
fn mgpu_enable_false_lets_pods_in_without_cards() {
    let mut world = world(&[("Enable", "false")]);
    world.node(&node("g1").mgpu(1, 10_000, FIXED));
    world.pod(&pod("p").share(30, 1000));
    assert_eq!(places(&mut world), ["p: nowhere"]);
}

#[test]
fn a_pod_that_got_past_the_door_with_a_wrong_request_waits_and_says_so() {
    let mut world = world(&[]);
    world.node(&node("g1").mgpu(2, 10_000, FIXED));
    world.pod(&pod("p").share(120, 0));
    insta::assert_snapshot!(world.refusal(), @r#"GetTaskRequestResourceFailed: mGPU: container "main" requests 120 of vke.volcengine.com/mgpu-core: more than 100 must be full cards, a multiple of 100; for parts of several cards add the annotation vke.volcengine.com/container-multiple-gpu; waiting can't help: create the pod anew with a request that can be read, of a card that the cluster has: kubectl get cardtypes lists them"#);
}

/// A node may number its cards otherwise than by their places: what is written is read back in the way in which it is written.
#[test]
fn numbers_that_are_device_ids_are_read_as_what_is_written() {
    for (mode, written) in [("index", "0"), ("id", "1")] {
        let mut world = world(&[("ScheduleMode", mode)]);
        world.node(
            &node("g1")
                .mgpu(2, 10_000, FIXED)
                .annotation("vke.volcengine.com/gpu-ids", "1,0"),
        );
        let first = pod("p").share(60, 1000);
        world.pod(&first);
        let admitted = world.admissions().remove(0);
        assert_eq!(placed(&admitted), format!("p: g1 main={written}"), "{mode}");
        assert_eq!(cores(&world, "g1"), [60, 0], "{mode}");
        world.confirm("p");
        world.pod(&after(&first, &admitted));
        assert_eq!(cores(&world, "g1"), [60, 0], "{mode}");
        // Who changes the mode is shown at once what is read then, as whoever begins to decide then.
        let (other, now) = (if mode == "id" { "index" } else { "id" }, world.now);
        world.set_configuration(configuration(&[("ScheduleMode", other)], ""), now);
        assert_eq!(cores(&world, "g1"), [0, 60], "{mode}");
    }
}
