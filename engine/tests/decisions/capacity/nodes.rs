//! What queues share when nodes are lost, cordoned, or come to have less.

use engine::amounts::Dimension;
use engine::decide::Action;

use super::{admitted, cluster, plain, worker, workers};
use crate::world::{GPU, World, capacity, node, pod};

fn total(world: &World) -> i128 {
    let card = world.cluster.names().known_card("A").unwrap();
    world.cluster.top().total.get(Dimension::Card(card))
}

/// Two nodes with 4 cards each, of which queue `a` has those of `n1`.
fn half_used() -> World {
    let mut world = World::with(capacity("enqueue, allocate, backfill, reclaim", ""));
    for name in ["n1", "n2"] {
        world.node(&node(name).cards("A", 4));
    }
    for name in ["a", "b"] {
        world.queue(&plain(name));
    }
    world.pods((0..4).map(|index| worker("a", index).assigned("A").on("n1")));
    world
}

/// A way to lose `n1`.
type Loss = (&'static str, fn(&mut World));

const LOSSES: [Loss; 4] = [
    ("not ready", |world| world.node(&node("n1").cards("A", 4).not_ready())),
    ("cordoned", |world| world.node(&node("n1").cards("A", 4).cordoned())),
    ("gone", |world| {
        let now = world.now;
        world.remove_node("n1", now);
    }),
    ("without its cards", |world| world.node(&node("n1"))),
];

#[test]
fn one_lost_node_makes_nobody_wait_who_has_room_on_another() {
    for (how, lose) in LOSSES {
        let mut world = half_used();
        lose(&mut world);
        workers(&mut world, "b", 5);
        assert_eq!(admitted(&mut world), 4, "{how}");
        assert_eq!(
            world.allocated("a", "A"),
            4,
            "{how}: what runs there is charged until it is gone"
        );
        // What went with the node is nobody's.
        for index in 0..4 {
            world.remove_pod(&format!("a-{index}"));
        }
        assert_eq!((total(&world), admitted(&mut world)), (4, 0), "{how}");
        world.node(&node("n1").cards("A", 4));
        assert_eq!((total(&world), admitted(&mut world)), (8, 1), "{how}");
    }
}

#[test]
fn what_a_node_that_takes_no_pods_has_left_is_no_part_of_the_total() {
    for (how, lose) in LOSSES {
        let mut world = half_used();
        world.remove_pod("a-0");
        assert_eq!(total(&world), 8, "{how}");
        lose(&mut world);
        assert_eq!(total(&world), 4 + 3, "{how}");
        // Seen for the first time, as after a restart.
        world.pod(&worker("a", 9).assigned("A").on("n1"));
        assert_eq!(total(&world), 4 + 4, "{how}");
        world.pod(&worker("a", 9).assigned("A").on("n1").phase("Succeeded"));
        assert_eq!(total(&world), 4 + 3, "{how}");
    }
}

#[test]
fn a_guarantee_is_not_kept_free_on_a_node_that_nobody_gets() {
    let mut world = half_used();
    world.queue(&plain("owner").guaranteed_cards(r#"{"A": 2}"#));
    world.node(&node("n1").cards("A", 4).cordoned());
    workers(&mut world, "b", 4);
    assert_eq!(admitted(&mut world), 2, "2 of n2 are kept free");
    workers(&mut world, "owner", 2);
    assert_eq!(admitted(&mut world), 2);
}

#[test]
fn nothing_is_taken_back_on_a_lost_node_for_what_the_cluster_lacks() {
    let mut world = half_used();
    // On a node that is lost run the youngest, which would go first; n3 has room that is kept free for its owner.
    world.pods((4..8).map(|index| worker("a", index).assigned("A").on("n2").created(5)));
    world.node(&node("n2").cards("A", 4).not_ready());
    world.node(&node("n3").cards("A", 4));
    world.queue(&plain("owner").guaranteed_cards(r#"{"A": 4}"#));
    world.queue(&plain("a").deserved_cards(r#"{"A": 0}"#));
    world.queue(&plain("b").deserved_cards(r#"{"A": 1}"#));
    workers(&mut world, "b", 1);
    let actions = world.decide();
    let [Action::Evict(eviction)] = &actions[..] else {
        panic!("{actions:?}")
    };
    let uids: Vec<_> = eviction.victims.iter().map(|victim| &*victim.pod.uid).collect();
    assert_eq!(uids.len(), 1, "{uids:?}");
    assert!(("a-0"..="a-3").contains(&uids[0]), "{uids:?} runs on the lost node");
}

/// Found by the simulator (seed 25483): who began to decide then let it in, limited in the resource alone.
#[test]
fn who_says_no_card_waits_for_the_one_that_its_queue_names_and_no_node_has_whether_that_was_ever_seen_or_not() {
    for was_seen in [true, false] {
        let mut world = cluster(8, "");
        let other = node("n2").cards("B", 1);
        if was_seen {
            world.node(&other);
            world.remove_node("n2", world.now);
        }
        world.queue(&plain("vision").quota(r#"{"B": 1}"#));
        world.pod(&pod("p").queue("vision").requests(GPU, "1"));
        assert_eq!(world.admit_names(), [""; 0], "seen: {was_seen}");
        world.node(&other);
        assert_eq!(world.admit_names(), ["p"], "seen: {was_seen}");
    }
}
