//! Shares that are set aside for several pods of a queue, of a card that another pod leaves (docs/rules.md, **Queues**).

use engine::cluster::reclaims::EvictionOutcome;

use super::releases::INDEX;
use super::*;
use crate::world::{MGPU_CORE, MGPU_MEMORY, bare_queue};

/// A node with one card, which `a` has borrowed as a whole of `b`.
fn borrowed() -> World {
    let conf = "actions: \"allocate, reclaim\"\ntiers: [{plugins: [{name: capacity}]}]";
    let parsed = Configuration::parse(Some(conf), Some("unnamedCards: free")).unwrap();
    let mut world = World::with(Arc::new(parsed.configuration));
    world.node(&node("n1").mgpu(1, 8000, FIXED));
    for (name, core, memory) in [("a", "0", "0"), ("b", "100", "8000")] {
        let deserves = bare_queue(name).deserved(MGPU_CORE, core);
        world.queue(&deserves.deserved(MGPU_MEMORY, memory));
    }
    world.pod(&the_whole("a-0").queue("a"));
    world
}

fn the_whole(name: &str) -> Object {
    pod(name).share(100, 8000).on("n1").annotation(INDEX, "0")
}

/// Who is evicted in one round is gone.
#[track_caller]
fn evict(world: &mut World) {
    let actions = world.decide();
    let [Action::Evict(eviction)] = &actions[..] else {
        panic!("not one eviction: {actions:?}");
    };
    for victim in &eviction.victims {
        let now = world.now;
        world.eviction_ended(&victim.pod.name, EvictionOutcome::Evicted, now);
        world.remove_pod(&victim.pod.name);
    }
}

/// Of the node all shares were set aside for each of them, and so neither could have any, for ever.
#[test]
fn pods_of_one_queue_share_the_card_that_was_taken_back_for_them() {
    let mut world = borrowed();
    world.pod(&pod("b-0").queue("b").share(40, 3000));
    world.pod(&pod("b-1").queue("b").share(50, 4000));
    evict(&mut world);
    assert_eq!(world.admit_names(), ["b-0", "b-1"]);
}

#[test]
fn groups_of_one_queue_share_the_card_that_was_taken_back_for_them() {
    let mut world = borrowed();
    for name in ["g1", "g2"] {
        world.group(&group(name, 1).queue("b"));
        world.pod(&pod(name).queue("b").of(name).share(40, 3000));
    }
    evict(&mut world);
    assert_eq!(world.admit_names(), ["g1", "g2"]);
}

#[test]
fn pods_share_the_card_that_its_owner_gives_back() {
    let mut world = borrowed();
    world.remove_pod("a-0");
    let leaves = the_whole("old").queue("b");
    world.pod(&leaves);
    world.pod(&pod("b-0").queue("b").share(40, 3000));
    world.pod(&pod("b-1").queue("b").share(50, 4000));
    world.pod(&leaves.deleted(40));
    assert_eq!(world.admit_names(), [""; 0]);
    world.remove_pod("old");
    assert_eq!(world.admit_names(), ["b-0", "b-1"]);
}

/// Whoever else comes may have none of it meanwhile.
#[test]
fn pods_of_another_queue_have_nothing_of_it() {
    let mut world = borrowed();
    world.queue(&bare_queue("c").set(["spec", "priority"], 9));
    world.pod(&pod("b-0").queue("b").share(40, 3000));
    evict(&mut world);
    world.pod(&pod("c-0").queue("c").share(50, 4000));
    assert_eq!(world.admit_names(), ["b-0"]);
}

/// Of two cards each has a part borrowed, and the larger part comes free first: whoever asks for the smaller one would fit there, and then the
/// other one nowhere.
#[test]
fn nobody_takes_the_card_that_another_one_of_its_queue_needs() {
    let mut world = borrowed();
    world.remove_pod("a-0");
    world.node(&node("n1").mgpu(2, 8000, FIXED));
    world.queue(
        &bare_queue("keeps")
            .deserved(MGPU_CORE, "100")
            .deserved(MGPU_MEMORY, "8000"),
    );
    let on = |name: &str, queue: &str, core: i64, card: &str| {
        let pod = pod(name).queue(queue).share(core, core * 80);
        pod.on("n1").annotation(INDEX, card)
    };
    world.pod(&on("k-0", "keeps", 40, "0"));
    world.pod(&on("k-1", "keeps", 60, "1"));
    world.pod(&on("a-0", "a", 60, "0").created(0));
    world.pod(&on("a-1", "a", 40, "1").created(1));
    world.pod(&pod("b-0").queue("b").share(40, 3200).created(2));
    world.pod(&pod("b-1").queue("b").share(60, 4800).created(3));
    let mut evicted = Vec::new();
    for action in world.decide() {
        let Action::Evict(eviction) = action else {
            panic!("not an eviction: {action:?}");
        };
        evicted.extend(eviction.victims.iter().map(|victim| victim.pod.name.to_string()));
    }
    evicted.sort();
    assert_eq!(evicted, ["a-0", "a-1"]);
    for (gone, let_in) in [("a-0", &[][..]), ("a-1", &["b-0", "b-1"])] {
        let now = world.now;
        world.eviction_ended(gone, EvictionOutcome::Evicted, now);
        world.remove_pod(gone);
        assert_eq!(world.admit_names(), let_in);
    }
}

/// A share that comes free anyway takes no more of its node from others than it is: who deserves two of a hundred would keep them off all nodes.
#[test]
fn a_small_share_that_is_waited_for_keeps_no_node_from_others() {
    let conf = "actions: \"allocate, reclaim\"\ntiers: [{plugins: [{name: capacity}]}]";
    let parsed = Configuration::parse(Some(conf), Some("unnamedCards: free")).unwrap();
    let mut world = World::with(Arc::new(parsed.configuration));
    let deserves = |name: &str, core: &str, memory: &str| {
        let queue = bare_queue(name).deserved(MGPU_CORE, core).deserved(MGPU_MEMORY, memory);
        queue.capability(MGPU_CORE, core).capability(MGPU_MEMORY, memory)
    };
    world.queue(&deserves("evil", "2", "512"));
    world.queue(&deserves("good", "1598", "127488"));
    for (index, on) in ["n1", "n2"].into_iter().enumerate() {
        world.node(&node(on).mgpu(8, 8000, FIXED));
        let leaves = pod(&format!("l-{index}")).queue("evil").share(1, 256).on(on);
        let leaves = leaves.annotation(INDEX, "0");
        world.pod(&leaves);
        world.pod(&leaves.deleted(315_000_000));
        world.pod(&pod(&format!("e-{index}")).queue("evil").share(1, 256).pinned_to(on));
    }
    assert_eq!(world.admit_names(), [""; 0]);
    world.wait(2);
    world.pod(&pod("g-0").queue("good").share(10, 800));
    assert_eq!(world.admit_names(), ["g-0"]);
}

/// Part of what it needs of the one card is free, and as much of another one: others take the free part of the card that the leaving pod is on.
#[test]
fn the_free_part_of_the_card_that_somebody_leaves_is_kept() {
    let conf = "actions: \"allocate, reclaim\"\ntiers: [{plugins: [{name: capacity}]}]";
    let parsed = Configuration::parse(Some(conf), Some("unnamedCards: free")).unwrap();
    let mut world = World::with(Arc::new(parsed.configuration));
    world.node(&node("n1").mgpu(2, 8000, FIXED));
    for (name, core) in [("keeps", 60), ("b", 80), ("c", 50)] {
        let queue = bare_queue(name).deserved(MGPU_CORE, &core.to_string());
        world.queue(&queue.deserved(MGPU_MEMORY, &(core * 80).to_string()));
    }
    let on = |name: &str, queue: &str, core: i64, card: &str| {
        let pod = pod(name).queue(queue).share(core, core * 80);
        pod.on("n1").annotation(INDEX, card)
    };
    world.pod(&on("k-0", "keeps", 60, "0"));
    let mut leaves = on("old", "b", 50, "1");
    let mut name = "old".to_owned();
    world.pod(&leaves);
    world.pod(&pod("waits").queue("b").share(80, 6400));
    assert_eq!(world.admit_names(), [""; 0]);
    let mut taken = 0;
    for index in 0..5 {
        world.pod(&leaves.deleted(600));
        world.wait(2);
        assert_eq!(world.admit_names(), [""; 0]);
        world.wait(2);
        let next = format!("c-{index}");
        world.pod(&pod(&next).queue("c").share(50, 4000).created(index + 1));
        let let_in = world.admit_names();
        world.remove_pod(&name);
        if let_in.is_empty() {
            assert_eq!(world.admit_names(), ["waits"], "after {taken}");
            break;
        }
        taken += 1;
        leaves = on(&next, "c", 50, "1");
        name = next;
        world.pod(&leaves);
        world.wait(2);
        assert_eq!(world.admit_names(), [""; 0], "{index}");
    }
    assert_eq!(taken, 0, "that often others took what it waits for");
}
