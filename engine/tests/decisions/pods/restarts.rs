//! A restart counts what is there.

use super::*;

#[test]
fn the_same_objects_yield_the_same_ledger() {
    let objects = [
        gpu("bound").on("n1").assigned("A"),
        pod("overflown").asks("A|B", 1).on("n2").assigned("B"),
        pod("foreign").asks("A|B", 1).on("n2"),
        pod("let-in").asks("A|B", 1).ungated().assigned("B"),
        gpu("waits"),
        gpu("held").gates(&["card.volcano.sh/quota", "example.com/later"]),
        bare_pod("plain").on("n1"),
    ];
    let with_nodes = || {
        let mut world = world();
        world.node(&node("n2").cards("B", 8));
        world.queue(&queue("team-a").quota(r#"{"A": 1, "B": 3}"#));
        world
    };
    let mut forwards = with_nodes();
    forwards.pods(objects.clone());
    let mut backwards = with_nodes();
    backwards.pods(objects.into_iter().rev());
    // This one lived through it instead.
    let mut lived = with_nodes();
    lived.pods([gpu("bound"), pod("foreign").asks("A|B", 1).on("n2")]);
    assert_eq!(lived.admit_names(), ["bound"]);
    lived.pods([pod("overflown").asks("A|B", 1), pod("let-in").asks("A|B", 1)]);
    assert_eq!(lived.admit().len(), 2);
    lived.pods([gpu("waits"), bare_pod("plain").on("n1")]);
    lived.pod(&gpu("held").gates(&["card.volcano.sh/quota", "example.com/later"]));
    lived.seen_admitted(&gpu("bound"), "bound", Some("A"));
    lived.pod(&gpu("bound").on("n1").assigned("A"));
    lived.pod(&pod("overflown").asks("A|B", 1).on("n2").assigned("B"));
    lived.seen_admitted(&pod("let-in").asks("A|B", 1), "let-in", Some("B"));

    for world in [&forwards, &backwards, &lived] {
        assert_eq!(world.allocated("team-a", "A"), 1);
        assert_eq!(world.allocated("team-a", "B"), 3);
        assert_eq!(world.allocated_cpu("team-a"), 4000);
        let queue = world.known_queue("team-a");
        assert_eq!((queue.holders.len(), queue.waiting.len()), (4, 1));
    }
    assert_eq!(forwards.refusal_of("waits"), "InsufficientScalarQuota");
}

/// What counts the card its node has said to whoever ran before, and the configuration says it to whoever begins now.
#[test]
fn a_pod_whose_node_is_away_has_as_many_cards_as_before_the_restart() {
    let runs = gpu("runs").requests("example.com/nic", "2").on("n9").assigned("Z");
    let objects = |world: &mut World| {
        world.queue(&queue("team-a").quota(r#"{"Z": 2, "A": 2}"#));
        world.pod(&runs);
    };
    let mut lived = world();
    lived.node(&node("n9").cards("Z", 8).offers("example.com/nic", "8"));
    objects(&mut lived);
    lived.remove_node("n9", lived.now);
    let mut anew = world();
    objects(&mut anew);
    for world in [&mut lived, &mut anew] {
        assert_eq!(world.allocated("team-a", "Z"), 1);
    }
}

#[test]
fn a_pod_pinned_to_its_node_holds_room_there_before_it_is_bound() {
    let pinned = |name: &str| gpu(name).ungated().assigned("A").pinned_to("n1");
    let room = |world: &World| {
        let node = world.cluster.node_named("n1").unwrap();
        world.cluster.node(node).pods.len()
    };
    let mut world = world();
    world.pods([pinned("p"), pinned("q")]);
    assert_eq!(room(&world), 2);
    world.pod(&pinned("p").on("n1"));
    assert_eq!(room(&world), 2);
    world.remove_pod("p");
    world.remove_pod("q");
    // Neither a pod that still waits, nor one that is none of Cardgate's business.
    world.pods([gpu("waits").pinned_to("n1"), bare_pod("daemon").pinned_to("n1")]);
    assert_eq!(room(&world), 0);
}
