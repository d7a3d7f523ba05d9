//! Reclaim where several dimensions are in question: what is given back is asked dimension by dimension, and only of what the
//! claimant lacks (docs/rules.md, **Queues**).

use std::sync::Arc;

use crds::configuration::Configuration;
use engine::cluster::reclaims::EvictionOutcome;

use super::plain;
use super::reclaim::{RECLAIM, evictions, gone, victims};
use crate::world::{MGPU_CORE, MGPU_MEMORY, Object, World, capacity, node, pod, queue, queue_plugin};

/// A queue that deserves so much CPU and memory.
fn deserves(name: &str, cpu: &str, memory: &str) -> Object {
    plain(name).deserved("cpu", cpu).deserved("memory", memory)
}

/// A pod of a queue with so much CPU and memory.
fn task(queue: &str, index: usize, cpu: &str, memory: &str) -> Object {
    pod(&format!("{queue}-{index}"))
        .queue(queue)
        .requests("cpu", cpu)
        .requests("memory", memory)
}

/// Four cores and 16 GiB, of which two queues deserve half each, and the first runs four pods.
fn two_halves(memory_of_each: &str) -> World {
    let mut world = World::with(capacity(RECLAIM, ""));
    world.node(&node("n1").offers("cpu", "4").offers("memory", "16Gi"));
    for name in ["a", "b"] {
        world.queue(&deserves(name, "2", "8Gi"));
    }
    world.pods((0..4).map(|index| {
        task("a", index, "1", memory_of_each)
            .on("n1")
            .created(i64::try_from(index).unwrap())
    }));
    world
}

#[test]
fn a_borrower_of_cpu_gives_it_back_though_it_is_within_its_memory() {
    let mut world = two_halves("1Gi");
    world.pod(&task("b", 0, "1", "1Gi"));
    let [eviction] = &evictions(&mut world)[..] else {
        panic!("one")
    };
    let [victim] = &eviction.victims[..] else { panic!("one") };
    assert_eq!(&*victim.pod.name, "a-3", "the youngest");
    assert!(
        victim
            .message
            .contains("; of CPU, queue b has 0 and deserves 2, and this pod's queue a has 4 and deserves 2"),
        "{}",
        victim.message
    );
    gone(&mut world, &["a-3".to_owned()]);
    // What was evicted comes back, and does not borrow what is on its way to others.
    world.pod(&task("a", 4, "1", "1Gi"));
    assert_eq!(world.admit_names(), ["b-0"]);
    world.pod(&task("b", 0, "1", "1Gi").on("n1"));
    // The second core is taken back too, and no third.
    world.pods([task("b", 1, "1", "1Gi"), task("b", 2, "1", "1Gi")]);
    world.wait(120);
    assert_eq!(victims(&mut world), ["a-2"]);
    gone(&mut world, &["a-2".to_owned()]);
    assert_eq!(world.admit_names(), ["b-1"]);
    world.pod(&task("b", 1, "1", "1Gi").on("n1"));
    for _ in 0..3 {
        world.wait(120);
        assert_eq!(world.decide(), [], "both have what they deserve");
    }
}

/// There are cards enough, but no two of them on one node: a node counts what its devices are requested as, and queues deserve cards.
#[test]
fn who_gives_cards_for_room_on_a_node_is_told_of_these_cards() {
    let mut world = World::with(capacity(RECLAIM, ""));
    for name in ["a", "b"] {
        world.queue(&plain(name).deserved("cpu", "1").deserved_cards(r#"{"A": 2}"#));
    }
    for index in 0..3_i64 {
        let node_name = format!("n{index}");
        world.node(&node(&node_name).cards("A", 2));
        world.pod(
            &task("a", usize::try_from(index).unwrap(), "1", "1Gi")
                .asks("A", 1)
                .on(&node_name)
                .created(index),
        );
    }
    world.pod(&task("b", 0, "1", "1Gi").asks("A", 2));
    let message = &evictions(&mut world)[0].victims[0].message;
    assert!(
        message.ends_with("; of A, queue b has 0 and deserves 2, and this pod's queue a has 3 and deserves 2"),
        "{message}"
    );
}

#[test]
fn a_dimension_that_is_lacked_too_is_not_taken_below_what_is_deserved_of_it() {
    // Memory is full as well, and other queues have it: a is within its own of it.
    let mut world = two_halves("1Gi");
    world.queue(&deserves("c", "0", "0"));
    world.pod(
        &pod("other")
            .queue("c")
            .requests("cpu", "0")
            .requests("memory", "12Gi")
            .on("n1"),
    );
    world.pod(&task("b", 0, "1", "1Gi"));
    let mut names = victims(&mut world);
    names.sort();
    assert_eq!(
        names, [""; 0],
        "memory is missing, and a is within what it deserves of it"
    );
    // With memory of its own to give besides, both are asked, each for what it borrows.
    world.queue(&deserves("a", "2", "3Gi"));
    world.wait(120);
    assert_eq!(victims(&mut world), ["a-3"]);
}

#[test]
fn a_guarantee_protects_also_what_is_only_taken_along() {
    let mut world = two_halves("1Gi");
    world.queue(&deserves("a", "2", "8Gi").guarantee("memory", "4Gi"));
    world.pod(&task("b", 0, "1", "1Gi"));
    assert_eq!(victims(&mut world), [""; 0]);
    world.queue(&deserves("a", "2", "8Gi").guarantee("memory", "3Gi"));
    world.wait(120);
    assert_eq!(victims(&mut world), ["a-3"]);
}

#[test]
fn the_claimant_stays_within_its_own_in_every_dimension() {
    let mut world = two_halves("1Gi");
    world.pod(&task("b", 0, "1", "9Gi"));
    assert_eq!(victims(&mut world), [""; 0], "it would borrow memory itself");
}

#[test]
fn cards_and_cpu_are_given_back_each_by_itself() {
    let mut world = World::with(capacity(RECLAIM, ""));
    world.node(&node("n1").cards("A", 8).offers("cpu", "16"));
    for name in ["a", "b"] {
        world.queue(&plain(name).deserved_cards(r#"{"A": 4}"#).deserved("cpu", "8"));
    }
    let worker = |queue: &str, index: usize, cards: i64, cpu: &str| {
        let pod = pod(&format!("{queue}-{index}")).queue(queue).requests("cpu", cpu);
        if cards > 0 { pod.asks("A", cards) } else { pod }
    };
    // a has all cards and half of the CPU.
    world.pods((0..8).map(|index| worker("a", index, 1, "1").assigned("A").on("n1")));
    world.pod(&worker("b", 0, 1, "1"));
    assert_eq!(victims(&mut world).len(), 1, "cards are borrowed, and CPU is not");
    // a has half of the cards and nearly all CPU.
    let mut world = World::with(capacity(RECLAIM, ""));
    world.node(&node("n1").cards("A", 8).offers("cpu", "16"));
    for name in ["a", "b"] {
        world.queue(&plain(name).deserved_cards(r#"{"A": 4}"#).deserved("cpu", "8"));
    }
    world.pods((0..4).map(|index| worker("a", index, 1, "4").assigned("A").on("n1")));
    world.pod(&worker("b", 0, 1, "4"));
    assert_eq!(victims(&mut world), ["a-0"], "CPU is borrowed, and cards are not");
}

#[test]
fn a_department_gives_back_though_its_leaves_do_not_say_what_they_deserve() {
    let mut world = World::with(capacity(RECLAIM, "enableHierarchy: true"));
    world.node(&node("n1").cards("A", 8));
    for name in ["research", "sales"] {
        world.queue(&plain(name).deserved_cards(r#"{"A": 4}"#));
    }
    world.queue(&plain("vision").parent("research"));
    world.queue(&plain("east").parent("sales"));
    world.queue(&plain("west").parent("sales").deserved_cards(r#"{"A": 3}"#));
    let worker = |queue: &str, index: usize| pod(&format!("{queue}-{index}")).queue(queue).asks("A", 1);
    world.pods((0..5).map(|index| worker("east", index).assigned("A").on("n1")));
    world.pods((0..3).map(|index| worker("west", index).assigned("A").on("n1").created(9)));
    world.pod(&worker("vision", 0));
    let [eviction] = &evictions(&mut world)[..] else {
        panic!("one")
    };
    let [victim] = &eviction.victims[..] else { panic!("one") };
    assert!(
        victim
            .message
            .contains("this pod's queue east, or queue sales that it is a part of, has 8 and deserves 4"),
        "{}",
        victim.message
    );
    assert!(
        victim.pod.name.starts_with("east"),
        "west is within what it says: {victim:?}"
    );
    gone(&mut world, &[victim.pod.name.to_string()]);
    world.pod(&worker("east", 9));
    assert_eq!(
        world.admit_names(),
        ["vision-0"],
        "and what is given back is not borrowed again"
    );
    // A department that says nothing of what it deserves deserves what it asks for: it is not asked.
    world.pod(&worker("vision", 0).assigned("A").on("n1"));
    world.queue(&plain("sales"));
    world.pod(&worker("vision", 1));
    world.wait(120);
    assert_eq!(victims(&mut world), [""; 0]);
}

#[test]
fn a_department_keeps_what_it_deserves_whichever_of_its_queues_it_is_taken_from() {
    let mut world = World::with(capacity(RECLAIM, "enableHierarchy: true"));
    world.node(&node("n1").cards("A", 8));
    world.queue(&plain("research").deserved_cards(r#"{"A": 4}"#));
    world.queue(&plain("sales").deserved_cards(r#"{"A": 5}"#));
    for name in ["east", "west"] {
        world.queue(&plain(name).parent("sales"));
    }
    let worker = |queue: &str, index: usize| pod(&format!("{queue}-{index}")).queue(queue).asks("A", 1);
    for queue in ["east", "west"] {
        world.pods((0..4).map(|index| worker(queue, index).assigned("A").on("n1")));
    }
    world.queue(&plain("vision").parent("research"));
    world.pod(&pod("large").queue("vision").asks("A", 4));
    assert_eq!(victims(&mut world), [""; 0], "sales would have 4 of its 5");
    world.pod(&pod("large").queue("vision").asks("A", 4).uid("other"));
    world.remove_pod("large");
    world.queue(&plain("sales").deserved_cards(r#"{"A": 4}"#));
    world.wait(120);
    assert_eq!(victims(&mut world).len(), 4);
}

/// Shares of two cards with 8000 MiB each, which two queues deserve a card of each.
fn shared(plugin: &str) -> World {
    let conf = format!("actions: \"{RECLAIM}\"\ntiers: [{{plugins: [{{name: {plugin}}}]}}]");
    // These pods name no card, and are not about card quotas.
    let cardgate = "{reservationTimeout: 1h, unnamedCards: free}";
    let parsed = Configuration::parse(Some(&conf), Some(cardgate)).unwrap();
    let mut world = World::with(Arc::new(parsed.configuration));
    world.node(&node("n1").mgpu(2, 8000, "fixed-share"));
    for name in ["a", "b"] {
        let queue = plain(name).capability("cpu", "64").capability("memory", "512Gi");
        world.queue(&queue.deserved(MGPU_CORE, "95").deserved(MGPU_MEMORY, "8000"));
    }
    world
}

/// A pod that has shares of a card.
fn on_card(world: &mut World, name: &str, card: u16, share: (i64, i64), created: i64) {
    let pod = pod(name).queue("a").share(share.0, share.1).on("n1").created(created);
    let index = "vke.volcengine.com/gpu-index-container-main";
    world.pod(&pod.annotation(index, &card.to_string()));
}

#[test]
fn a_pod_that_waits_for_shares_of_a_card_takes_them_back() {
    let mut world = shared("capacity");
    for (index, card) in [0, 0, 1, 1].into_iter().enumerate() {
        on_card(
            &mut world,
            &format!("a-{index}"),
            card,
            (40, 3000),
            i64::try_from(index).unwrap(),
        );
    }
    // 40 of 200 are free, 20 on each card: to free one share is enough, whichever card it is of.
    world.pod(&pod("b-0").queue("b").share(50, 4000));
    let names = victims(&mut world);
    assert_eq!(names, ["a-3"], "the youngest");
    gone(&mut world, &names);
    world.pod(&pod("a-4").queue("a").share(40, 3000));
    assert_eq!(world.admit_names(), ["b-0"], "and the evicted one's successor waits");
}

#[test]
fn a_card_is_freed_where_that_takes_fewest_and_not_where_others_are_within_their_own() {
    let mut world = shared("capacity");
    world.queue(&plain("c").deserved(MGPU_CORE, "50").deserved(MGPU_MEMORY, "4000"));
    on_card(&mut world, "a-0", 0, (50, 4000), 1);
    on_card(&mut world, "a-1", 0, (50, 4000), 2);
    on_card(&mut world, "a-2", 1, (30, 2000), 9);
    let index = "vke.volcengine.com/gpu-index-container-main";
    world.pod(
        &pod("c-0")
            .queue("c")
            .share(50, 4000)
            .on("n1")
            .annotation(index, "1")
            .created(8),
    );
    // 20 are free on the second card, where the youngest pods are; c is within what it deserves.
    world.queue(&plain("a").deserved(MGPU_CORE, "20").deserved(MGPU_MEMORY, "0"));
    world.pod(&pod("b-0").queue("b").share(95, 8000));
    let mut names = victims(&mut world);
    names.sort();
    assert_eq!(names, ["a-0", "a-1"]);
}

#[test]
fn shares_are_given_back_under_capacity_card_too_where_a_queue_says_what_it_deserves_of_them() {
    let mut world = shared("capacity-card");
    // The queue that borrows is first by its priority.
    let a = plain("a").capability("cpu", "64").capability("memory", "512Gi");
    let a = a.deserved(MGPU_CORE, "90").deserved(MGPU_MEMORY, "8000");
    world.queue(&a.set(["spec", "priority"], 9));
    on_card(&mut world, "a-0", 0, (90, 8000), 1);
    on_card(&mut world, "a-1", 1, (90, 8000), 2);
    let unnamed = |name: &str, queue: &str| pod(name).queue(queue).share(60, 4000);
    world.pod(&unnamed("b-0", "b"));
    let names = victims(&mut world);
    assert_eq!(names, ["a-1"]);
    // While the evicted pod ends, its successor comes.
    let now = world.now;
    world.eviction_ended("a-1", EvictionOutcome::Evicted, now);
    world.pod(&pod("a-2").queue("a").share(5, 500));
    assert_eq!(world.admit_names(), [""; 0]);
    let told: Vec<_> = world.notices().into_iter().map(|notice| notice.message).collect();
    assert!(
        told.iter()
            .any(|told| told.contains("deserved 90, and it may not borrow more at the moment")),
        "{told:?}"
    );
    gone(&mut world, &names);
    assert_eq!(world.admit_names(), ["b-0"]);
}

/// Under `cardUnlimitedCpuMemory` its CPU is charged to nobody: that its queue has more CPU than it deserves is not by this pod.
#[test]
fn a_pod_with_cards_is_not_evicted_for_cpu_that_it_is_not_charged() {
    let arguments = "cardUnlimitedCpuMemory: true, guaranteeThreshold: 100";
    let mut world = World::with(queue_plugin("capacity-card", RECLAIM, arguments));
    world.node(&node("n1").cards("A", 4).offers("cpu", "4"));
    world.node(&node("n2").offers("cpu", "4"));
    let deserved = |name: &str, cpu: &str| queue(name).deserved("cpu", cpu);
    world.queue(&deserved("a", "1").quota(r#"{"A": 4}"#).deserved_cards(r#"{"A": 4}"#));
    world.queue(&deserved("b", "8"));
    let cpu = |name: &str, queue: &str, cpu: &str| pod(name).queue(queue).requests("cpu", cpu);
    world.pod(&cpu("cards", "a", "3").asks("A", 1).assigned("A").on("n1"));
    world.pod(&cpu("stays", "a", "1").ungated().on("n2"));
    world.pod(&cpu("borrows", "a", "2").ungated().on("n2").created(1));
    // It lacks CPU on each of the nodes, and gets it from whom it was lent to.
    world.pod(&cpu("b-0", "b", "3"));
    assert_eq!(victims(&mut world), ["borrows"]);
    gone(&mut world, &["borrows".to_owned()]);
    assert_eq!(world.admit_names(), ["b-0"]);
    world.pod(&cpu("b-0", "b", "3").ungated().on("n2"));
    world.node(&node("n3").offers("cpu", "2"));
    world.pod(&cpu("more", "a", "2").ungated().on("n3"));
    world.pod(&cpu("b-1", "b", "3"));
    world.wait(60);
    assert_eq!(victims(&mut world), [""; 0]);
}
