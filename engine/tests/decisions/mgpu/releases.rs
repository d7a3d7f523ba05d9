//! Cards come free once, and are counted the same after a restart (mGPU, **Release**; docs/rules.md, **mGPU**).

use engine::cluster::Changes;

use super::*;

pub const INDEX: &str = "vke.volcengine.com/gpu-index-container-main";

fn one_card() -> World {
    let mut world = world(&[]);
    world.node(&node("g1").mgpu(1, 10_000, FIXED));
    world
}

#[test]
fn a_release_is_credited_once_however_often_it_is_told() {
    let mut world = one_card();
    let (p, q) = (pod("p").share(60, 1000), pod("q").share(40, 1000));
    world.pods([p.clone(), q.clone()]);
    let admitted = world.admissions();
    for (pod, admission) in [p.clone(), q].iter().zip(&admitted) {
        world.confirm(&admission.pod.uid);
        world.pod(&after(pod, admission).on("g1"));
    }
    assert_eq!(cores(&world, "g1"), [100]);
    let over = after(&p, &admitted[0]).on("g1").phase("Succeeded");
    for _ in 0..3 {
        world.pod(&over);
        world.remove_pod("p");
        assert_eq!(cores(&world, "g1"), [40]);
    }
    world.pod(&pod("full").share(100, 0));
    assert_eq!(world.refusal_of("full"), "InsufficientMGPU");
}

#[test]
fn cards_are_free_when_the_pod_is_terminal_or_gone_and_not_before() {
    for end in ["Succeeded", "Failed", "deleted"] {
        let mut world = one_card();
        let running = pod("p").share(60, 1000).annotation(INDEX, "0").on("g1");
        world.pod(&running);
        assert_eq!(cores(&world, "g1"), [60]);
        // A pod that is being deleted holds its cards until it is gone, though its quota ends earlier.
        world.pod(&running.clone().deleted(20));
        world.wait(3600);
        assert_eq!(world.decide(), []);
        assert_eq!(cores(&world, "g1"), [60], "{end}");
        match end {
            "deleted" => world.remove_pod("p"),
            phase => world.pod(&running.phase(phase)),
        }
        assert_eq!(cores(&world, "g1"), [0], "{end}");
    }
}

/// No scheduler ever took it, and somebody's finalizer keeps it: API servers bind nobody who is being deleted.
#[test]
fn cards_are_free_at_once_where_the_pod_is_deleted_before_it_is_bound() {
    let mut world = one_card();
    let p = pod("p").share(60, 1000);
    world.pod(&p);
    let admitted = world.admissions();
    world.confirm("p");
    let let_in = after(&p, &admitted[0]);
    world.pod(&let_in);
    assert_eq!(cores(&world, "g1"), [60]);
    world.pod(&let_in.deleted(20));
    assert_eq!(cores(&world, "g1"), [0]);
    world.pod(&pod("q").share(60, 1000));
    assert_eq!(places(&mut world), ["q: g1 main=0"]);
}

#[test]
fn a_refused_write_gives_the_cards_back() {
    let mut world = one_card();
    world.pods([pod("p").share(60, 1000), pod("q").share(60, 1000)]);
    assert_eq!(places(&mut world), ["p: g1 main=0"]);
    let now = world.now;
    world.refuse("p", now);
    assert_eq!(cores(&world, "g1"), [0]);
    assert_eq!(places(&mut world), ["q: g1 main=0"]);
}

#[test]
fn node_loss_forgets_its_cards_and_finds_them_again_when_it_returns() {
    let mut world = one_card();
    world.pod(&pod("p").share(60, 1000).annotation(INDEX, "0").on("g1"));
    let now = world.now;
    world.remove_node("g1", now);
    assert!(world.cluster.mgpu_nodes().is_empty());
    world.pod(&pod("q").share(60, 1000));
    assert_eq!(world.refusal_of("q"), "NoMGPUNode");
    world.node(&node("g1").mgpu(2, 10_000, FIXED));
    assert_eq!(cores(&world, "g1"), [60, 0]);
    assert_eq!(places(&mut world), ["q: g1 main=1"]);
}

#[test]
fn results_with_fewer_entries_than_containers_or_cards_are_charged_first_fit() {
    // The second container has no result; the list of the others is too short, too long, or names no card of the node.
    for list in ["1", "1,0,2", "1,7", "1,1", "x", ""] {
        let mut world = world(&[]);
        world.node(&node("g1").mgpu(3, 10_000, NATIVE));
        let odd = pod("p")
            .annotation(CONTAINER_CARDS, "2,1")
            .share(40, 1000)
            .container("second", 30, 1000)
            .annotation(INDEX, list)
            .on("g1");
        world.pod(&odd);
        assert_eq!(cores(&world, "g1"), [50, 20, 0], "{list:?}");
        assert_eq!(world.cluster.take_changes().unplaced_gpu_pods.len(), 1, "{list:?}");
    }
}

/// mGPU, **Volcano Plugin Config**: nobody is placed on cards then, so nobody is told to be made anew for want of them.
#[test]
fn with_mgpu_off_no_pod_is_missing_its_cards() {
    for (enable, told) in [("true", 1), ("false", 0)] {
        let mut world = world(&[("Enable", enable)]);
        world.pod(&pod("p").share(40, 1000).on("g1"));
        world.node(&node("g1").mgpu(3, 10_000, FIXED));
        world.pod(&pod("q").share(40, 1000).on("g1"));
        let changes = world.cluster.take_changes();
        assert_eq!(changes.unplaced_gpu_pods.len(), 2 * told, "{enable}");
        // Once somebody is placed, they are told as by an operator that begins now, and once.
        let now = world.now;
        for _ in 0..2 {
            world.set_configuration(configuration(&[("Enable", "true")], ""), now);
        }
        let changes = world.cluster.take_changes();
        assert_eq!(changes.unplaced_gpu_pods.len(), 2 * (1 - told), "{enable}");
    }
}

#[test]
fn a_bound_pod_without_results_is_charged_first_fit_and_said_so_once() {
    let mut world = world(&[]);
    let foreign = pod("foreign").share(60, 1000).on("g1");
    // It is seen before its node.
    world.pod(&foreign);
    world.node(&node("g1").mgpu(2, 10_000, FIXED));
    assert_eq!(cores(&world, "g1"), [60, 0]);
    world.pod(&foreign.clone().label("seen", "again"));
    world.node(&node("g1").mgpu(2, 10_000, FIXED).label("heartbeat", "2"));
    let told = world.cluster.take_changes().unplaced_gpu_pods;
    assert_eq!(told.iter().map(|uid| &**uid).collect::<Vec<_>>(), ["foreign"]);
    let (pod_ref, message) = engine::overview::first_fit(&world.cluster, "foreign").unwrap();
    assert_eq!(&*pod_ref.name, "foreign");
    insta::assert_snapshot!(message, @"the pod runs on node g1 without the annotations vke.volcengine.com/gpu-index-container-<name> that say which cards its containers use: they are taken to use the first cards with room (main 0); delete the pod and create it anew to have it placed");
    world.pod(&pod("p").share(60, 1000));
    assert_eq!(places(&mut world), ["p: g1 main=1"]);
}

/// As when cards fail, or are cut into parts: an operator that begins then would say so, and the others had the cards that it uses.
#[test]
fn who_has_cards_that_its_node_has_no_longer_is_told_so_once() {
    let mut world = world(&[]);
    world.node(&node("g1").mgpu(2, 10_000, FIXED));
    world.pod(&pod("p").share(60, 1000).annotation(INDEX, "1").on("g1"));
    world.pod(&pod("q").share(30, 1000).annotation(INDEX, "0").on("g1"));
    assert_eq!(world.cluster.take_changes().unplaced_gpu_pods.len(), 0);
    for heartbeat in ["1", "2"] {
        world.node(&node("g1").mgpu(1, 10_000, FIXED).label("heartbeat", heartbeat));
    }
    let told = world.cluster.take_changes().unplaced_gpu_pods;
    assert_eq!(told.iter().map(|uid| &**uid).collect::<Vec<_>>(), ["p"]);
    let (_, message) = engine::overview::first_fit(&world.cluster, "p").unwrap();
    assert!(
        message.contains("that do not say for each container which of the node's cards it uses"),
        "{message}"
    );
}

#[test]
fn a_pinned_node_that_fails_leads_to_another_and_nothing_is_leaked() {
    let mut world = world(&[]);
    world.node(&node("g1").mgpu(1, 10_000, FIXED));
    world.node(&node("g2").mgpu(1, 10_000, FIXED));
    let first = pod("p").share(60, 1000).controlled_by("Job", "training");
    world.pod(&first);
    let admission = world.admissions().remove(0);
    assert_eq!(placed(&admission), "p: g1 main=0");
    world.confirm("p");
    world.pod(&after(&first, &admission));
    world.node(&node("g1").mgpu(1, 10_000, FIXED).cordoned());
    world.wait(299);
    assert_eq!(world.decide(), []);
    world.wait(1);
    let sent_back = world.decide();
    assert!(matches!(&sent_back[..], [Action::SendBack { .. }]), "{sent_back:?}");
    world.remove_pod("p");
    assert_eq!(cores(&world, "g1"), [0]);
    // Its successor waits its time, and goes elsewhere.
    world.pod(&pod("p2").share(60, 1000).controlled_by("Job", "training"));
    assert_eq!(world.decide(), []);
    world.wait(30);
    assert_eq!(places(&mut world), ["p2: g2 main=0"]);
}

#[test]
fn the_inventory_shows_every_card_with_what_is_used_and_by_whom() {
    let mut world = world(&[]);
    let ids = "vke.volcengine.com/gpu-ids";
    world.node(&node("g1").mgpu(2, 10_000, FIXED).annotation(ids, "GPU-a,GPU-b"));
    world.pods([
        pod("q").share(20, 2000).annotation(INDEX, "1").on("g1"),
        pod("p").share(30, 3000).annotation(INDEX, "1").on("g1"),
    ]);
    let changes = world.cluster.take_changes();
    let figures = engine::overview::gpu_figures(&world.cluster, &changes);
    assert_eq!(
        (&*figures[0].0, figures[0].1[1].core, figures[0].1[1].containers),
        ("g1", 50, 2)
    );
    let status = inventory(&world, changes);
    let cards: Vec<_> = status
        .gpus
        .iter()
        .map(|card| {
            (
                card.index,
                card.id.as_deref().unwrap(),
                (card.core_used, card.core_free),
                (card.memory, card.memory_used, card.memory_free),
                card.containers.join(" "),
            )
        })
        .collect();
    assert_eq!(
        cards,
        [
            (0, "GPU-a", (0, 100), (10_000, 0, 10_000), String::new()),
            (
                1,
                "GPU-b",
                (50, 50),
                (10_000, 5000, 5000),
                "team/p/main team/q/main".to_owned()
            ),
        ]
    );
    // Nothing is free of a node that takes no pods.
    world.node(
        &node("g1")
            .mgpu(2, 10_000, FIXED)
            .annotation(ids, "GPU-a,GPU-b")
            .cordoned(),
    );
    let changes = world.cluster.take_changes();
    let status = inventory(&world, changes);
    assert!(
        status
            .gpus
            .iter()
            .all(|card| (card.core_free, card.memory_free) == (0, 0))
    );
}

fn inventory(world: &World, changes: Changes) -> crds::card_inventory::CardInventoryStatus {
    let reports = engine::overview::changed(&world.cluster, changes);
    let status = reports.into_iter().find_map(|report| match report {
        engine::overview::Shown::Inventory { status, .. } => status,
        _ => None,
    });
    status.expect("an inventory")
}
