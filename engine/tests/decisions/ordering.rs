//! Who goes first: queues by priority, share and age; pods by priority and age.

use crate::world::{World, bare_queue, node, pod, queue};

/// One node with so many cards A.
fn world(cards: i64) -> World {
    let mut world = World::new();
    world.node(&node("n1").cards("A", cards));
    world
}

const TEN: &str = r#"{"A": 10}"#;

#[test]
fn queues_of_higher_priority_go_first() {
    let mut world = world(3);
    world.queue(&queue("low").quota(TEN).set(["spec", "priority"], 1));
    world.queue(&queue("high").quota(TEN).set(["spec", "priority"], 9));
    world.pods([
        pod("l").queue("low").asks("A", 1),
        pod("h0").queue("high").asks("A", 1).created(5),
        pod("h1").queue("high").asks("A", 1).created(6),
    ]);
    assert_eq!(world.admit_names(), ["h0", "h1", "l"]);
}

#[test]
fn queues_with_the_lower_share_go_first_and_take_turns() {
    let mut world = world(8);
    world.queue(&queue("big").quota(TEN));
    world.queue(&queue("small").quota(r#"{"A": 4}"#).created(1));
    for index in 0..6 {
        world.pod(&pod(&format!("big-{index}")).queue("big").asks("A", 1));
        world.pod(&pod(&format!("small-{index}")).queue("small").asks("A", 1));
    }
    // Shares after each admission: 1/10, 1/4, 2/10, 3/10, 2/4, 4/10, 5/10 (older at equal share), 6/10.
    assert_eq!(
        world.admit_names(),
        [
            "big-0", "small-0", "big-1", "big-2", "small-1", "big-3", "big-4", "big-5"
        ]
    );
}

#[test]
fn the_share_is_the_largest_of_cpu_memory_and_cards() {
    let mut world = world(3);
    world.queue(
        &bare_queue("a")
            .quota(TEN)
            .capability("cpu", "4")
            .capability("memory", "100Gi"),
    );
    world.queue(
        &bare_queue("b")
            .quota(TEN)
            .capability("cpu", "100")
            .capability("memory", "100Gi")
            .created(1),
    );
    world.pods([
        pod("a0").queue("a").asks("A", 1),
        pod("a1").queue("a").asks("A", 1),
        pod("b0").queue("b").asks("A", 1),
        pod("b1").queue("b").asks("A", 1),
    ]);
    // After a0, queue a has 1/4 of its CPU in use; queue b never has more than 2/10 of its cards.
    assert_eq!(world.admit_names(), ["a0", "b0", "b1"]);
}

#[test]
fn older_queues_go_first_at_equal_share_then_by_name() {
    let mut world = world(3);
    world.queue(&queue("young").quota(TEN).created(5));
    world.queue(&queue("old-b").quota(TEN).created(1));
    world.queue(&queue("old-a").quota(TEN).created(1));
    for name in ["young", "old-b", "old-a"] {
        world.pod(&pod(name).queue(name).asks("A", 1));
    }
    assert_eq!(world.admit_names(), ["old-a", "old-b", "young"]);
}

#[test]
fn pods_of_higher_priority_go_first_then_older_ones() {
    let mut world = world(4);
    world.queue(&queue("team-a").quota(TEN));
    world.pods([
        pod("old").asks("A", 1).created(1),
        pod("urgent-young").asks("A", 1).priority(100).created(4),
        pod("young").asks("A", 1).created(3),
        pod("urgent").asks("A", 1).priority(100).created(2),
        pod("later").asks("A", 1).priority(-5).created(0),
    ]);
    assert_eq!(world.admit_names(), ["urgent", "urgent-young", "old", "young"]);
}

#[test]
fn pods_of_one_second_go_in_the_order_of_their_arrival_across_shapes() {
    let mut world = world(4);
    world.queue(&queue("team-a").quota(TEN));
    world.pods([
        pod("d").asks("A", 1).requests("cpu", "2"),
        pod("c").asks("A", 1),
        pod("b").asks("A", 1).requests("cpu", "2"),
        pod("a").asks("A", 1),
    ]);
    assert_eq!(world.admit_names(), ["d", "c", "b", "a"]);
}

#[test]
fn a_pod_that_is_seen_again_keeps_its_place() {
    let mut world = world(1);
    world.queue(&queue("team-a").quota(TEN));
    world.pods([pod("first").asks("A", 1), pod("second").asks("A", 1)]);
    world.pod(&pod("first").asks("A", 1).annotation("note", "changed"));
    world.pod(&pod("first").asks("A", 1).told("NoNodeFits"));
    assert_eq!(world.admit_names(), ["first"]);
}

#[test]
fn a_refused_pod_does_not_block_others() {
    let mut world = world(4);
    world.queue(&queue("team-a").quota(TEN));
    world.pods([
        pod("too-big").asks("A", 5).priority(100),
        pod("excluded").asks("A", 1).priority(50).selects("zone", "z"),
        pod("small").asks("A", 1),
    ]);
    assert_eq!(world.admit_names(), ["small"]);
}

#[test]
fn a_limit_cuts_a_round_short_and_the_next_goes_on() {
    let mut world = world(8);
    world.queue(&queue("team-a").quota(TEN));
    world.pods((0..5).map(|index| pod(&format!("p{index}")).asks("A", 1)));
    let mut admitted = Vec::new();
    for expected in [2, 2, 1] {
        let now = world.now;
        let round = engine::decide::decide(&mut world.cluster, now, 2);
        assert_eq!(round.actions.len(), expected);
        admitted.extend(round.actions);
        assert_eq!(round.more, admitted.len() < 5);
    }
}

#[test]
fn equal_pods_spread_over_the_nodes_in_turn() {
    let mut world = World::new();
    for name in ["n1", "n2", "n3"] {
        world.node(&node(name).cards("A", 8));
    }
    world.queue(&queue("team-a").quota(TEN));
    world.pods((0..6).map(|index| pod(&format!("p{index}")).asks("A", 1)));
    assert_eq!(world.admit().len(), 6);
    for name in ["n1", "n2", "n3"] {
        let node = world.cluster.node_named(name).unwrap();
        assert_eq!(world.cluster.node(node).pods.len(), 2, "{name}");
    }
}
