//! Preempt on whole clusters (docs/rules.md, **Queues**).

use engine::decide::Action;

use super::reclaim::{BORROW, evictions, gone, settle, victims, worker_a};
use super::{plain, worker, workers};
use crate::world::{Object, World, bare_pod, capacity, group, node, pod, queue_plugin};

const PREEMPT: &str = "enqueue, allocate, preempt";

#[test]
fn preempt_replaces_lower_priorities_within_one_queue_and_within_what_it_deserves() {
    let mut world = World::with(capacity(PREEMPT, BORROW));
    world.node(&node("n1").cards("A", 8));
    world.queue(&plain("a").quota(r#"{"A": 4}"#).deserved_cards(r#"{"A": 4}"#));
    workers(&mut world, "a", 4);
    assert_eq!(world.admit().len(), 4);
    settle(&mut world, 4, worker_a);
    world.pod(&pod("same").queue("a").asks("A", 1));
    assert_eq!(victims(&mut world), [""; 0], "not of the same priority");
    world.remove_pod("same");
    // A priority class that only puts its pods first says so.
    let never = pod("never").queue("a").asks("A", 1).priority(20);
    world.pod(&never.set(["spec", "preemptionPolicy"], "Never"));
    world.wait(5);
    assert_eq!(victims(&mut world), [""; 0], "not for who preempts nobody");
    world.remove_pod("never");
    world.pod(&pod("urgent").queue("a").asks("A", 2).priority(10));
    world.wait(5);
    let [eviction] = &evictions(&mut world)[..] else {
        panic!("one")
    };
    assert_eq!(eviction.victims.len(), 2);
    assert_eq!(eviction.victims[0].reason.as_str(), "Preempted");
    assert!(
        eviction.victims[0]
            .message
            .contains("pod team/urgent of the same queue a, which has priority 10, more than 0"),
        "{}",
        eviction.victims[0].message
    );
    // Of another queue nothing is preempted; and what the queue may not keep is not preempted for.
    let mut world = World::with(capacity(PREEMPT, BORROW));
    world.node(&node("n1").cards("A", 4));
    world.queue(&plain("a").deserved_cards(r#"{"A": 4}"#));
    world.queue(&plain("b").deserved_cards(r#"{"A": 0}"#));
    workers(&mut world, "a", 4);
    assert_eq!(world.admit().len(), 4);
    settle(&mut world, 4, worker_a);
    world.pod(&pod("urgent").queue("b").asks("A", 1).priority(10));
    assert_eq!(victims(&mut world), [""; 0]);
}

#[test]
fn who_comes_within_its_guarantee_by_what_it_preempts_takes_nothing_from_others() {
    let arguments = "guaranteeThreshold: 100";
    let mut world = World::with(capacity("enqueue, allocate, preempt, reclaim", arguments));
    world.node(&node("n1").cards("A", 3));
    world.queue(&plain("a").deserved_cards(r#"{"A": 0}"#));
    world.queue(&plain("b").guaranteed_cards(r#"{"A": 1}"#));
    world.queue(&plain("c").deserved_cards(r#"{"A": 2}"#).guaranteed_cards(r#"{"A": 2}"#));
    // Let in before the guarantees were given.
    world.pod(&worker("a", 0).assigned("A").on("n1"));
    world.pod(&worker("c", 0).assigned("A").on("n1"));
    world.pod(&pod("urgent").queue("c").asks("A", 2).priority(1));
    // With its own pod gone, the queue asks for no more than is kept for it: what the first queue borrows is not missing.
    assert_eq!(victims(&mut world), ["c-0"]);
}

#[test]
fn no_ping_pong_what_is_preempted_does_not_come_back_before_the_pod_that_it_made_room_for() {
    let arguments = "cardUnlimitedCpuMemory: true, enableHierarchy: true, guaranteeThreshold: 100, reclaimInterval: 1";
    let mut world = World::with(queue_plugin("capacity-card", "allocate, reclaim, preempt", arguments));
    world.node(&node("n1").cards("A", 8));
    world.queue(&plain("a").quota(r#"{"A": 4}"#).deserved_cards(r#"{"A": 4}"#));
    workers(&mut world, "a", 4);
    assert_eq!(world.admit().len(), 4);
    settle(&mut world, 4, worker_a);
    world.pod(&pod("urgent").queue("a").asks("A", 2).priority(1000));
    let names = victims(&mut world);
    assert_eq!(names.len(), 2);
    // The one is gone and its successor there, while the other is still on its way out.
    gone(&mut world, &names[..1]);
    world.pod(&worker("a", 4));
    assert_eq!(world.admit(), []);
    assert_eq!(
        world.notices().last().unwrap().message,
        "queue a: A asked 1, used 3, quota 4, and what comes free is for pods of higher priority, for which others were evicted"
    );
    world.wait(5);
    assert_eq!(world.admit(), []);
    gone(&mut world, &names[1..]);
    world.pod(&worker("a", 5));
    assert_eq!(world.admit_names(), ["urgent"]);
    // What is left then is anybody's again.
    world.queue(&plain("a").quota(r#"{"A": 6}"#).deserved_cards(r#"{"A": 4}"#));
    world.wait(5);
    assert_eq!(world.admit(), []);
    assert_eq!(world.admit_names(), ["a-4", "a-5"]);
}

#[test]
fn a_gang_of_several_priorities_does_not_stand_back_for_itself() {
    let arguments = "cardUnlimitedCpuMemory: true, guaranteeThreshold: 100, reclaimInterval: 1";
    let mut world = World::with(queue_plugin("capacity-card", "allocate, preempt", arguments));
    world.node(&node("n1").cards("A", 8));
    world.queue(&plain("a").quota(r#"{"A": 4}"#).deserved_cards(r#"{"A": 4}"#));
    workers(&mut world, "a", 4);
    assert_eq!(world.admit().len(), 4);
    settle(&mut world, 4, worker_a);
    world.group(&group("g", 2).queue("a"));
    world.pod(&pod("g-leader").of("g").queue("a").asks("A", 1).priority(100));
    world.pod(&pod("g-helper").of("g").queue("a").asks("A", 1).priority(10));
    world.pod(&pod("other").queue("a").asks("A", 1).priority(50));
    let names = victims(&mut world);
    assert_eq!(names.len(), 3);
    let _ = world.notices();
    // While they are on their way out, it stays the same who waits for what, however often that is looked at.
    for _ in 0..4 {
        world.wait(2);
        assert_eq!(world.admit(), []);
        assert_eq!(
            world.notices().iter().map(|notice| &notice.message).collect::<Vec<_>>(),
            Vec::<&String>::new()
        );
    }
    gone(&mut world, &names);
    assert_eq!(world.admit_names(), ["g-leader", "g-helper"]);
    world.wait(2);
    assert_eq!(world.admit(), []);
    assert_eq!(world.admit_names(), ["other"]);
}

/// Found by the simulator (seed 660356): the gang was looked at anew with each pod that can't be taken back of it, and who can was there twice.
#[test]
fn who_is_of_a_gang_beside_others_that_stay_gives_what_it_has_once() {
    let mut world = World::with(capacity(PREEMPT, BORROW));
    world.node(&node("n1").cards("A", 3));
    world.queue(&plain("a").quota(r#"{"A": 3}"#).deserved_cards(r#"{"A": 3}"#));
    world.group(&group("g", 2).queue("a"));
    let running = |name: &str| pod(name).of("g").queue("a").asks("A", 1).assigned("A").on("n1");
    world.pod(&running("g-stays").priority(100));
    world.pod(&running("g-goes").priority(0));
    world.pod(&running("g-stays-too").priority(100));
    world.pod(&pod("two").queue("a").asks("A", 2).priority(50));
    world.wait(5);
    assert_eq!(victims(&mut world), [""; 0]);
    world.remove_pod("two");
    world.pod(&pod("one").queue("a").asks("A", 1).priority(50));
    world.wait(5);
    assert_eq!(victims(&mut world), ["g-goes"]);
}

/// Nodes take turns, and one of them has room for it at once: it is expected on the same one however often it is looked for.
#[test]
fn who_waits_is_told_the_same_while_those_that_were_evicted_for_others_are_on_their_way_out() {
    let mut world = World::with(capacity(PREEMPT, BORROW));
    for (name, cpu) in [("n1", "1"), ("n2", "4")] {
        world.node(&node(name).offers("cpu", cpu));
    }
    world.queue(&plain("a").capability("pods", "2"));
    world.pod(&pod("low").queue("a").on("n1"));
    world.pod(&pod("high").queue("a").priority(10).on("n2"));
    world.pod(&pod("urgent").queue("a").priority(10));
    world.pod(&pod("other").queue("a"));
    assert_eq!(victims(&mut world), ["low"]);
    let mut told = Vec::new();
    for _ in 0..6 {
        world.wait(2);
        assert_eq!(world.admit(), []);
        let notices = world.notices();
        let to_other = notices.iter().filter(|notice| &*notice.pod.name == "other");
        told.extend(to_other.map(|notice| notice.reason));
    }
    assert_eq!(told.len(), 1, "{told:?}");
}

/// A queue of four cores, and a group of it of which so many are needed.
fn four_cores(group: &str, min_member: i64) -> World {
    let mut world = World::with(capacity(PREEMPT, BORROW));
    world.node(&node("n1"));
    let queue = plain("default").capability("cpu", "4");
    world.queue(&queue.deserved("cpu", "4"));
    world.group(&crate::world::group(group, min_member).set(["spec", "queue"], "default"));
    world
}

/// Whom somebody evicts that goes first, by name.
fn evicted_for_who_is_urgent(world: &mut World) -> Vec<String> {
    world.pod(&pod("urgent").queue("default").requests("cpu", "2").priority(10));
    world.wait(5);
    let mut evicted = victims(world);
    evicted.sort();
    evicted
}

/// Found by the simulator (seed 70040): Volcano's controllers make a group for a pod that is there, and nobody holds it, nor who comes in its
/// place: it would be evicted each minute, for ever.
#[test]
fn nobody_is_evicted_whose_controller_makes_another_at_once() {
    for (group, controlled, is_evicted) in [
        ("podgroup-web", true, false),
        ("podgroup-other", true, true),
        // Nobody makes another of this one.
        ("podgroup-web-1", false, true),
    ] {
        let mut world = four_cores(group, 1);
        let runs = bare_pod("web-1").requests("cpu", "4").of(group).on("n1");
        world.pod(&if controlled {
            runs.controlled_by("ReplicaSet", "web")
        } else {
            runs
        });
        assert_eq!(!evicted_for_who_is_urgent(&mut world).is_empty(), is_evicted, "{group}");
    }
}

/// A tenant makes one pod of a gang in such a way: by that, none of its members would ever give anything back.
#[test]
fn a_gang_is_evicted_though_nobody_holds_one_of_it() {
    let mut world = four_cores("podgroup-web", 2);
    let of_gang = |pod: Object, cores: &str| pod.of("podgroup-web").requests("cpu", cores).on("n1");
    world.pod(&of_gang(pod("held").queue("default").ungated(), "3"));
    world.pod(&of_gang(bare_pod("web-1").controlled_by("ReplicaSet", "web"), "1"));
    assert_eq!(evicted_for_who_is_urgent(&mut world), ["held", "web-1"]);
}

/// Found by the simulator (seed 120023): with the gang as a whole gone, who is left of it can't be let in before the others have come again,
/// and these are let in first: they would be taken back for ever.
#[test]
fn a_gang_is_taken_back_for_none_of_its_own() {
    for (least, cards, taken) in [(2, 2, &[][..]), (2, 1, &[]), (1, 1, &["g-1"]), (1, 2, &["g-0", "g-1"])] {
        let mut world = World::with(queue_plugin("capacity-card", PREEMPT, "cardUnlimitedCpuMemory: true"));
        world.node(&node("n1").cards("A", 2));
        world.queue(&plain("a").quota(r#"{"A": 2}"#));
        world.group(&group("g", least).queue("a"));
        world.pods((0..2).map(|index| {
            let member = pod(&format!("g-{index}")).of("g").queue("a").asks("A", 1);
            member.created(index).assigned("A").on("n1")
        }));
        world.pod(&pod("leader").of("g").queue("a").asks("A", cards).priority(10));
        let mut names = victims(&mut world);
        names.sort_unstable();
        assert_eq!(names, taken, "{cards} cards, of {least}");
    }
}

/// Nor by reclaim, where its pods are in several queues: there no priority is asked for.
#[test]
fn a_gang_in_several_queues_is_taken_back_for_none_of_its_own() {
    for (group_of_waiting, taken) in [("g", &[][..]), ("h", &["g-0"])] {
        let mut world = World::with(queue_plugin("capacity", "allocate, reclaim", ""));
        world.node(&node("n1").cards("A", 1));
        for (name, deserved) in [("a", r#"{"A": 1}"#), ("b", r#"{"A": 0}"#)] {
            world.queue(&plain(name).deserved_cards(deserved));
        }
        world.group(&group("g", 2).queue("b"));
        world.group(&group("h", 1).queue("a"));
        world.pod(&pod("g-0").of("g").queue("b").asks("A", 1).assigned("A").on("n1"));
        world.pod(&pod("waits").of(group_of_waiting).queue("a").asks("A", 1));
        assert_eq!(victims(&mut world), taken, "of {group_of_waiting}");
    }
}

#[test]
fn not_each_gang_costs_a_look_at_all_queues() {
    const QUEUES: u64 = 100;
    /// The least that it costs to look at one queue.
    const ONE: u64 = 2;
    /// What a gang of one waiting pod costs in its own turn, beside a look at the nodes.
    const TURN: u64 = 32 + 128;
    let steps = |gangs: u64| {
        let mut world = World::with(queue_plugin("capacity", "allocate, reclaim", ""));
        world.node(&node("n1").cards("A", 200));
        world.node(&node("n2").cards("A", 0));
        world.queue(&plain("a").deserved_cards(r#"{"A": 100}"#));
        for other in 0..QUEUES {
            let name = format!("b-{other}");
            world.queue(&plain(&name).deserved_cards(r#"{"A": 1}"#));
            world.pod(&pod(&name).queue(&name).asks("A", 1).assigned("A").on("n1"));
        }
        world.pod(&pod("most").queue("a").asks("A", 80).assigned("A").on("n1"));
        for gang in 0..20 {
            let name = format!("g-{gang}");
            world.group(&group(&name, 2).queue("a"));
            world.pod(&pod(&name).of(&name).queue("a").asks("A", 1).assigned("A").on("n1"));
        }
        for gang in 0..gangs {
            world.pod(
                &pod(&format!("w-{gang}"))
                    .of(&format!("g-{gang}"))
                    .queue("a")
                    .asks("A", 1),
            );
        }
        let round = world.round();
        assert_eq!(evictions(&mut world), [], "nobody has more than it deserves");
        round.steps - gangs * TURN
    };
    let (one, twenty) = (steps(1), steps(20));
    assert!(one >= QUEUES * ONE, "{one} steps");
    assert!(twenty < 2 * one, "{one} steps for one, {twenty} for twenty");
}

/// Who makes one kind of each of the pods with which he borrows would else keep what he has from gangs: none had steps enough. Where the pods of
/// the gang are of two kinds in turn, what each of those others would give is found out anew for each of them, and no more.
#[test]
fn not_each_pod_of_a_gang_costs_a_look_at_all_kinds_of_pods() {
    const KINDS: i64 = 200;
    const MEMBERS: i64 = 40;
    for alternating in [false, true] {
        let mut world = World::with(queue_plugin("capacity", "allocate, reclaim", ""));
        let node = node("n1").offers("cpu", "200").offers("example.com/nic", "100");
        world.node(&node.offers("pods", "1000"));
        world.queue(&plain("a").deserved("cpu", "100").deserved("example.com/nic", "100"));
        world.queue(&plain("b").deserved("cpu", "0"));
        for kind in 0..KINDS {
            let runs = pod(&format!("b-{kind}"))
                .queue("b")
                .requests("cpu", &format!("{}m", 900 + kind));
            world.pod(&runs.created(kind).on("n1"));
        }
        world.group(&group("g", MEMBERS).queue("a"));
        for member in 0..MEMBERS {
            let waits = pod(&format!("g-{member}")).of("g").queue("a").requests("cpu", "2");
            let asks_more = alternating && member % 2 == 1;
            world.pod(&if asks_more {
                waits.requests("example.com/nic", "1")
            } else {
                waits
            });
        }
        let round = world.round();
        let evictions = round.actions.iter().filter_map(|action| match action {
            Action::Evict(eviction) => Some(eviction.victims.len()),
            _ => None,
        });
        let evicted: usize = evictions.sum();
        assert!(evicted > 60, "{evicted}");
        let steps_of_each = if alternating { 16 } else { 2 };
        // Besides, the gang's own turn costs 32 steps for each pod and 128 for each of at most two shapes.
        let turn = 32 * MEMBERS + 2 * 128;
        let most = (steps_of_each * MEMBERS * KINDS + turn).unsigned_abs();
        assert!(round.steps < most, "{} steps", round.steps);
    }
}

/// What is found out for a gang that comes to nothing holds for nobody behind it where it rests on what the gang would have had.
#[test]
fn who_is_behind_a_gang_that_comes_to_nothing_is_looked_for_anew() {
    let mut world = World::with(queue_plugin("capacity", "allocate, reclaim", ""));
    world.node(&node("n1").cards("A", 1).offers("cpu", "4"));
    world.queue(&plain("a").deserved_cards(r#"{"A": 1}"#).deserved("cpu", "4"));
    world.queue(&plain("b").deserved_cards(r#"{"A": 0}"#).deserved("cpu", "0"));
    let runs = pod("runs").queue("b").asks("A", 1).requests("cpu", "4");
    world.pod(&runs.assigned("A").on("n1"));
    // The first of the gang would get in by what the other queue has, and the second by nobody's.
    world.group(&group("g", 2).queue("a"));
    let of_gang = |name: &str| pod(name).of("g").queue("a");
    world.pod(&of_gang("g-0").asks("A", 1).requests("cpu", "1").priority(1));
    world.pod(&of_gang("g-1").requests("cpu", "4").priority(1));
    world.pod(&pod("behind").queue("a").requests("cpu", "4"));
    assert_eq!(victims(&mut world), ["runs"]);
}

/// Nor do the kinds that are looked at in turn, as they were when one of the gang's victims counted as gone.
#[test]
fn who_is_behind_a_gang_that_comes_to_nothing_finds_those_that_it_would_have_taken() {
    let mut world = World::with(queue_plugin("capacity", "allocate, preempt", ""));
    world.node(&node("n1").cards("A", 4).offers("cpu", "20"));
    world.queue(&plain("a").quota(r#"{"A": 1}"#).capability("cpu", "4"));
    let low = pod("low").queue("a").asks("A", 1).requests("cpu", "3");
    world.pod(&low.assigned("A").on("n1"));
    world.pod(&pod("small").queue("a").requests("cpu", "1").on("n1"));
    world.group(&group("g", 2).queue("a"));
    let of_gang = |name: &str| pod(name).of("g").queue("a").priority(10);
    world.pod(&of_gang("g-0").asks("A", 1).requests("cpu", "1"));
    world.pod(&of_gang("g-1").requests("cpu", "4"));
    world.pod(&pod("behind").queue("a").requests("cpu", "4").priority(10).created(9));
    let mut taken = victims(&mut world);
    taken.sort();
    assert_eq!(taken, ["low", "small"]);
}

#[test]
fn nobody_is_taken_back_as_seen_from_another_queue() {
    // A gang in two queues, with a pod of the first behind it.
    let mut world = World::with(queue_plugin("capacity", "allocate, preempt, reclaim", ""));
    world.node(&node("n1").cards("A", 2));
    for name in ["q1", "q2"] {
        world.queue(&plain(name).deserved_cards(r#"{"A": 2}"#));
    }
    world.pod(&pod("runs").queue("q2").asks("A", 1).assigned("A").on("n1"));
    world.group(&group("g", 2).queue("q1"));
    world.pod(&pod("g-0").of("g").queue("q1").asks("A", 1).priority(10));
    world.pod(&pod("g-1").of("g").queue("q2").asks("A", 2).priority(10));
    world.pod(&pod("behind").queue("q1").asks("A", 2).priority(10));
    assert_eq!(victims(&mut world), [""; 0], "it has no more than it deserves");
}

#[test]
fn a_pod_takes_back_what_its_gang_has_beyond_the_minimum() {
    let mut world = World::with(queue_plugin("capacity-card", PREEMPT, "cardUnlimitedCpuMemory: true"));
    world.node(&node("n1").cards("A", 3));
    world.queue(&plain("a").quota(r#"{"A": 3}"#));
    world.group(&group("g", 2).queue("a"));
    world.pods((0..3).map(|index| {
        let member = pod(&format!("g-{index}")).of("g").queue("a").asks("A", 1);
        member.created(index).assigned("A").on("n1")
    }));
    world.pod(&pod("leader").of("g").queue("a").asks("A", 1).priority(10));
    assert_eq!(victims(&mut world), ["g-2"]);
}

/// Only what the pod lacks that others were evicted for is kept from who stands back: of the rest there is enough for both.
#[test]
fn who_asks_for_another_card_waits_for_nobody_who_is_evicted_meanwhile() {
    let mut world = World::with(queue_plugin(
        "capacity-card",
        "allocate, reclaim, preempt",
        "enableHierarchy: true, guaranteeThreshold: 100, reclaimInterval: 1",
    ));
    world.node(&node("n1").cards("A", 1).offers("cpu", "64"));
    world.node(&node("n2").cards("B", 1).offers("cpu", "64"));
    let quota = plain("a").capability("cpu", "100").capability("memory", "1Ti");
    let cards = r#"{"A": 1, "B": 1}"#;
    world.queue(&quota.quota(cards).deserved_cards(cards));
    world.pod(
        &pod("slow")
            .queue("a")
            .asks("A", 1)
            .requests("cpu", "1")
            .priority(-10)
            .assigned("A")
            .on("n1"),
    );
    world.pod(
        &pod("urgent")
            .queue("a")
            .asks("A", 1)
            .requests("cpu", "1")
            .priority(1000),
    );
    assert_eq!(victims(&mut world), ["slow"]);
    world.pod(&pod("other").queue("a").asks("B", 1).requests("cpu", "1"));
    world.pod(&pod("same").queue("a").asks("A", 1).requests("cpu", "1"));
    assert_eq!(world.admit_names(), ["other"]);
}

/// Two nodes, and a queue that deserves two cards of which another one has borrowed those of the first node, which has them all: one for each of
/// its pods.
fn lent_to_others(deserved_cpu: &str) -> World {
    let arguments = "enableHierarchy: true, guaranteeThreshold: 100, reclaimInterval: 1";
    let mut world = World::with(queue_plugin("capacity-card", "allocate, reclaim, preempt", arguments));
    world.node(&node("n1").cards("A", 2).offers("cpu", "64"));
    world.node(&node("n2").cards("A", 1).offers("cpu", "64"));
    let quota = |name: &str| {
        plain(name)
            .capability("cpu", "100")
            .capability("memory", "1Ti")
            .quota(r#"{"A": 4}"#)
    };
    let mut owner = quota("a").deserved_cards(r#"{"A": 2}"#);
    if !deserved_cpu.is_empty() {
        owner = owner.deserved("cpu", deserved_cpu);
    }
    world.queue(&owner);
    world.queue(&quota("b").deserved_cards(r#"{"A": 0}"#));
    let borrower = |name: &str| pod(name).queue("b").asks("A", 1).assigned("A").on("n1");
    world.pods([borrower("b-0"), borrower("b-1")]);
    let urgent = pod("urgent").queue("a").asks("A", 2).requests("cpu", "4");
    world.pod(&urgent.priority(1000));
    assert_eq!(victims(&mut world), ["b-1", "b-0"]);
    world
}

/// The second node has a card free: whoever took it would have used up what the queue deserves, and those would have gone in vain.
#[test]
fn a_card_that_is_free_elsewhere_is_kept_for_whom_others_were_evicted_for() {
    let mut world = lent_to_others("");
    world.pod(&pod("small").queue("a").asks("A", 1));
    assert_eq!(world.admit_names(), [""; 0]);
    gone(&mut world, &["b-0".to_owned(), "b-1".to_owned()]);
    assert_eq!(world.admit_names(), ["urgent"]);
}

#[test]
fn what_a_queue_deserves_of_cpu_is_kept_however_much_is_free() {
    let mut world = lent_to_others("4");
    world.pod(&pod("filler").queue("a").requests("cpu", "2"));
    assert_eq!(world.admit_names(), [""; 0]);
    gone(&mut world, &["b-0".to_owned(), "b-1".to_owned()]);
    assert_eq!(world.admit_names(), ["urgent"]);
    // Where nothing is deserved of it, there is enough for both.
    let mut world = lent_to_others("");
    world.pod(&pod("filler").queue("a").requests("cpu", "2"));
    assert_eq!(world.admit_names(), ["filler"]);
}
