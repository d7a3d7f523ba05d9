//! What an eviction frees goes to whom others were evicted for, and to nobody else (docs/rules.md, **Queues**).

use std::sync::Arc;

use crds::configuration::Configuration;
use engine::cluster::reclaims::EvictionOutcome;
use engine::decide::Action;
use engine::reason::Reason;
use serde_json::json;

use super::reclaim::{RECLAIM, gone, victims};
use super::{plain, worker, workers};
use crate::world::{MGPU_CORE, MGPU_MEMORY, START, World, bare_pod, bare_queue, capacity, group, node, pod};

/// A node with 8 cards, of which two queues deserve 4 each, and the first has all; pods of a third one go first.
fn borrowed() -> World {
    let mut world = World::with(capacity(RECLAIM, "reclaimInterval: 1"));
    world.node(&node("n1").cards("A", 8));
    for name in ["a", "b"] {
        world.queue(&plain(name).deserved_cards(r#"{"A": 4}"#));
    }
    world.queue(&plain("c").set(["spec", "priority"], 9));
    world.pods((0..8).map(|index| worker("a", index).assigned("A").on("n1")));
    world
}

/// The pods that one round lets in, whoever else it evicts for others.
pub fn let_in(world: &mut World) -> Vec<String> {
    let actions = world.decide().into_iter();
    let names = actions.filter_map(|action| match action {
        Action::Admit(admission) => Some(admission.pod.name.to_string()),
        _ => None,
    });
    names.collect()
}

#[test]
fn a_queue_that_names_nothing_deserved_does_not_get_what_others_were_evicted_for() {
    let mut world = borrowed();
    world.pod(&worker("b", 0));
    let evicted = victims(&mut world);
    assert_eq!(evicted.len(), 1);
    workers(&mut world, "c", 2);
    gone(&mut world, &evicted);
    assert_eq!(let_in(&mut world), ["b-0"]);
    world.pod(&worker("b", 0).assigned("A").on("n1"));
}

#[test]
fn who_waits_for_what_is_set_aside_for_others_is_told_so() {
    let mut world = borrowed();
    world.pod(&pod("big").queue("b").asks("A", 2));
    let evicted = victims(&mut world);
    workers(&mut world, "c", 1);
    gone(&mut world, &evicted[..1]);
    assert_eq!(let_in(&mut world), [""; 0]);
    world.wait(2);
    let told = world.notices();
    let told = told.iter().find(|notice| &*notice.pod.name == "c-0").unwrap();
    assert_eq!(
        told.message,
        "queue c: A asked 1, used 0, and what comes free is set aside for pods that wait for it"
    );
    gone(&mut world, &evicted[1..]);
    assert_eq!(let_in(&mut world), ["big"]);
}

/// Two nodes with two cards, whole or shared. Of the first one, queue `a` has borrowed both, and gives them back to `b-0`: one is free already,
/// and the other pod takes its time.
fn one_of_two_is_free(are_shared: bool) -> World {
    let conf = format!(
        "actions: \"{RECLAIM}\"\ntiers: [{{plugins: [{{name: capacity, arguments: {{reclaimInterval: 1}}}}]}}]"
    );
    let cardgate = "{reservationTimeout: 1h, unnamedCards: free}";
    let mut world = World::with(Arc::new(
        Configuration::parse(Some(&conf), Some(cardgate)).unwrap().configuration,
    ));
    for name in ["n1", "n2"] {
        let cards = if are_shared {
            node(name).mgpu(2, 8000, "fixed-share")
        } else {
            node(name).cards("A", 2)
        };
        world.node(&cards);
    }
    for (name, cards) in [("a", 0), ("b", 2)] {
        let queue = plain(name).deserved_cards(&format!(r#"{{"A": {cards}}}"#));
        let queue = queue.deserved(MGPU_CORE, &(cards * 100).to_string());
        world.queue(&queue.deserved(MGPU_MEMORY, &(cards * 8000).to_string()));
    }
    world.queue(&plain("c").set(["spec", "priority"], 9));
    let index = "vke.volcengine.com/gpu-index-container-main";
    for card in 0..2 {
        let runs = pod(&format!("a-{card}")).queue("a").on("n1");
        world.pod(&if are_shared {
            runs.share(100, 8000).annotation(index, &card.to_string())
        } else {
            runs.asks("A", 1).assigned("A")
        });
    }
    let entitled = pod("b-0").queue("b").pinned_to("n1");
    world.pod(&if are_shared {
        entitled.share(100, 0).container("second", 100, 0)
    } else {
        entitled.asks("A", 2)
    });
    let evicted = victims(&mut world);
    assert_eq!(evicted.len(), 2);
    gone(&mut world, &evicted[..1]);
    let now = world.now;
    world.eviction_ended(&evicted[1], EvictionOutcome::Evicted, now);
    world
}

/// What is held while it is decided is not held while people are told.
#[test]
fn who_is_kept_out_by_room_that_is_set_aside_on_a_node_is_told_so() {
    const SET_ASIDE: &str = "1 whose room is set aside for pods that wait for others to end";
    for (are_shared, nodes) in [(false, "2 nodes with A"), (true, "2 mGPU nodes")] {
        let asking = |name: &str| {
            let pod = pod(name).queue("c").pinned_to("n1");
            if are_shared {
                pod.share(50, 4000)
            } else {
                pod.asks("A", 1)
            }
        };
        let mut world = one_of_two_is_free(are_shared);
        world.group(&group("g", 1));
        world.pods([asking("c-0"), asking("g-0").of("g")]);
        assert_eq!(let_in(&mut world), [""; 0], "shared: {are_shared}");
        world.wait(2);
        let told = world.notices();
        let message = |name: &str| {
            let notice = told.iter().find(|notice| &*notice.pod.name == name);
            &*notice
                .unwrap_or_else(|| panic!("{name} is told nothing: {told:?}"))
                .message
        };
        let counted = format!("{nodes}: {SET_ASIDE}, 1 excluded by the pod's node selector, affinity or tolerations");
        assert!(message("c-0").ends_with(&counted), "{}", message("c-0"));
        // It may be its own, or for want of room for the others of a group.
        for other in ["b-0", "g-0"] {
            assert!(!message(other).contains("set aside"), "{other}: {}", message(other));
        }
        world.remove_pod("g-0");
        world.remove_pod("b-0");
        assert_eq!(let_in(&mut world), ["c-0"], "shared: {are_shared}");
    }
}

#[test]
fn whoever_is_entitled_too_waits_for_evictions_of_its_own() {
    let mut world = World::with(capacity(RECLAIM, "reclaimInterval: 1"));
    world.node(&node("n1").offers("cpu", "4"));
    world.queue(&plain("a").deserved("cpu", "0"));
    for (name, priority) in [("b", 0), ("c", 9)] {
        world.queue(&plain(name).deserved("cpu", "2").set(["spec", "priority"], priority));
    }
    world.pods((0..4).map(|index| pod(&format!("a-{index}")).queue("a").on("n1")));
    world.pod(&pod("b-0").queue("b").requests("cpu", "2"));
    let for_b = victims(&mut world);
    assert_eq!(for_b.len(), 2);
    world.pod(&pod("c-0").queue("c").requests("cpu", "2"));
    let for_c = victims(&mut world);
    assert_eq!(for_c.len(), 2, "what is on its way out is not counted twice");
    gone(&mut world, &for_b);
    assert_eq!(let_in(&mut world), ["b-0"]);
    gone(&mut world, &for_c);
    assert_eq!(let_in(&mut world), ["c-0"]);
}

#[test]
fn room_on_the_node_is_set_aside_too() {
    // Memory is nobody's in the queues; on the node it is what the pod needs.
    let mut world = World::with(capacity(RECLAIM, "reclaimInterval: 1, checkQueueDimensionsOnly: true"));
    world.node(&node("n1").offers("cpu", "4").offers("memory", "4Gi"));
    world.queue(&plain("a").capability("cpu", "4").deserved("cpu", "1"));
    world.queue(&plain("b").capability("cpu", "4").deserved("cpu", "3"));
    world.queue(&plain("c").set(["spec", "priority"], 9));
    let running = pod("a-0").queue("a").requests("cpu", "3").requests("memory", "4Gi");
    world.pod(&running.on("n1"));
    world.pod(&pod("b-0").queue("b").requests("cpu", "3").requests("memory", "3Gi"));
    assert_eq!(victims(&mut world), [""; 0], "it would fall below what it deserves");
    world.queue(&plain("a").capability("cpu", "4").deserved("cpu", "0"));
    world.wait(2);
    let evicted = victims(&mut world);
    assert_eq!(evicted, ["a-0"]);
    world.pod(&pod("c-0").queue("c").requests("cpu", "1").requests("memory", "2Gi"));
    gone(&mut world, &evicted);
    assert_eq!(let_in(&mut world), ["b-0"]);
}

#[test]
fn it_ends_when_the_pod_no_longer_waits() {
    let mut world = borrowed();
    world.pod(&pod("big").queue("b").asks("A", 2));
    let evicted = victims(&mut world);
    workers(&mut world, "c", 3);
    gone(&mut world, &evicted[..1]);
    assert_eq!(let_in(&mut world), [""; 0]);
    world.remove_pod("big");
    assert_eq!(let_in(&mut world), ["c-0"]);
    // One of higher priority in the same queue takes over what is set aside for others there.
    let mut world = borrowed();
    world.pod(&worker("b", 0));
    let evicted = victims(&mut world);
    world.pod(&pod("urgent").queue("b").asks("A", 1).priority(7));
    gone(&mut world, &evicted);
    assert_eq!(let_in(&mut world), ["urgent"]);
}

#[test]
fn it_ends_when_the_queue_is_gone_or_cannot_be_read() {
    for is_gone in [true, false] {
        let mut world = borrowed();
        world.pod(&worker("b", 0));
        let evicted = victims(&mut world);
        workers(&mut world, "c", 1);
        gone(&mut world, &evicted);
        if is_gone {
            world.remove_queue("b");
        } else {
            world.queue(&plain("b").deserved_cards("{"));
        }
        // The round in which that is seen lets others in before.
        let_in(&mut world);
        assert_eq!(let_in(&mut world), ["c-0"], "gone: {is_gone}");
    }
}

#[test]
fn a_gang_that_others_are_evicted_for_is_not_refused_for_one_that_is_like_it() {
    let mut world = borrowed();
    for name in ["g", "h"] {
        world.group(&group(name, 2));
    }
    let member = |group: &str, index: usize| pod(&format!("{group}-{index}")).of(group).queue("b").asks("A", 1);
    world.pods((0..2).map(|index| member("h", index).created(50)));
    let evicted = victims(&mut world);
    assert_eq!(evicted.len(), 2);
    // An older one of the same shape comes, and is judged first.
    world.pods((0..2).map(|index| member("g", index).created(10)));
    gone(&mut world, &evicted);
    assert_eq!(let_in(&mut world), ["h-0", "h-1"]);
    assert_eq!(world.reason("g-0"), Some(Reason::InsufficientScalarQuota));
}

/// What the look at the one of its queues set aside for it stood in the way of the look at the other, and so in turns.
#[test]
fn a_gang_in_two_queues_is_not_in_its_own_way() {
    let mut world = World::with(capacity(RECLAIM, "reclaimInterval: 1"));
    world.node(&node("n1").cards("A", 8));
    for (name, deserved) in [("a", 4), ("b", 2), ("c", 2)] {
        world.queue(&plain(name).deserved_cards(&format!(r#"{{"A": {deserved}}}"#)));
    }
    world.pods((0..8).map(|index| worker("a", index).assigned("A").on("n1")));
    world.group(&group("g", 2));
    world.pods(["b", "c"].map(|queue| pod(&format!("g-{queue}")).of("g").queue(queue).asks("A", 1)));
    let evicted = victims(&mut world);
    assert_eq!(evicted.len(), 2);
    world.wait(2);
    let first = world.notices();
    assert_eq!(first.len(), 2, "{first:?}");
    for _ in 0..6 {
        world.wait(2);
        assert_eq!(world.decide(), []);
        assert_eq!(world.notices(), [], "nothing is new");
    }
    gone(&mut world, &evicted);
    assert_eq!(let_in(&mut world), ["g-b", "g-c"]);
}

/// What comes free suffices for both of its pods: who is entitled to what is free beside that need not wait for it.
#[test]
fn what_a_gang_in_two_queues_waits_for_is_held_once() {
    let mut world = World::with(capacity(RECLAIM, "reclaimInterval: 1"));
    world.node(&node("n1").cards("A", 9));
    for (name, deserved) in [("a", 4), ("b", 2), ("c", 2), ("d", 1)] {
        world.queue(&plain(name).deserved_cards(&format!(r#"{{"A": {deserved}}}"#)));
    }
    world.pods((0..4).map(|index| {
        pod(&format!("a-{index}"))
            .queue("a")
            .asks("A", 2)
            .assigned("A")
            .on("n1")
    }));
    world.group(&group("g", 2));
    world.pods(["b", "c"].map(|queue| pod(&format!("g-{queue}")).of("g").queue(queue).asks("A", 1)));
    let evicted = victims(&mut world);
    assert_eq!(evicted.len(), 1);
    world.wait(2);
    world.pod(&worker("d", 0));
    assert_eq!(let_in(&mut world), ["d-0"]);
    gone(&mut world, &evicted);
    assert_eq!(let_in(&mut world), ["g-b", "g-c"]);
}

/// What is set aside is counted anew for each turn of those that it is for.
#[test]
fn the_turns_of_those_for_whom_something_is_set_aside_cost_steps() {
    let mut world = World::with(capacity(RECLAIM, ""));
    world.node(&node("n1"));
    world.queue(&bare_queue("q").capability("cpu", "3500m"));
    world.group(&group("g", 1).queue("q"));
    let member = |name: &str| pod(name).queue("q").of("g");
    world.pod(&member("first").on("n1"));
    let small = pod("small").queue("q").requests("cpu", "1m").on("n1");
    world.pod(&small);
    let leaves = pod("leaves").queue("q").on("n1");
    world.pod(&leaves);
    world.pod(&leaves.deleted(30));
    for index in 0..100 {
        world.pod(&member(&format!("s-{index}")).requests("cpu", &format!("{}m", 2000 + index)));
    }
    assert_eq!(let_in(&mut world), [""; 0]);
    world.wait(2);
    world.remove_pod("small");
    let round = world.round();
    assert!(round.steps >= 100 * 256, "{} steps", round.steps);
}

/// All cards are borrowed by a gang that has one small pod in another queue, and without that is not whole.
fn borrowed_by_a_gang_in_two_queues() -> World {
    let mut world = World::with(capacity(RECLAIM, "reclaimInterval: 1"));
    world.node(&node("n1").cards("A", 8));
    for (name, deserved) in [("a", 0), ("b", 8)] {
        world.queue(&plain(name).deserved_cards(&format!(r#"{{"A": {deserved}}}"#)));
    }
    world.queue(&plain("c"));
    world.group(&group("g", 9));
    world.pods((0..8).map(|index| worker("a", index).of("g").assigned("A").on("n1")));
    world.pod(&pod("g-small").of("g").queue("c").on("n1"));
    world
}

#[test]
fn a_pod_in_another_queue_keeps_no_gang_from_giving_back_what_its_queue_borrows() {
    let mut world = borrowed_by_a_gang_in_two_queues();
    world.pod(&worker("b", 0));
    let evicted = victims(&mut world);
    assert_eq!(evicted.len(), 8, "{evicted:?}");
    assert!(evicted.iter().all(|name| name.starts_with("a-")), "{evicted:?}");
}

/// Of the gang one pod is beyond its minimum, whichever queue it is in.
#[test]
fn queues_do_not_each_take_what_a_gang_has_to_spare() {
    let mut world = World::with(capacity(RECLAIM, "reclaimInterval: 1"));
    world.node(&node("n1").cards("A", 5));
    for (name, deserved) in [("a", 0), ("b", 2), ("c", 0)] {
        world.queue(&plain(name).deserved_cards(&format!(r#"{{"A": {deserved}}}"#)));
    }
    world.group(&group("g", 3));
    for queue in ["a", "c"] {
        for (index, created) in [(0, 0), (1, 9)] {
            world.pod(&worker(queue, index).of("g").created(created).assigned("A").on("n1"));
        }
    }
    world.pod(&worker("a", 2).created(1).assigned("A").on("n1"));
    world.pod(&pod("b-0").queue("b").asks("A", 2));
    let evicted = victims(&mut world);
    let of_gang = evicted.iter().filter(|name| *name != "a-2").count();
    assert_eq!((evicted.len(), of_gang), (2, 1), "{evicted:?}");
}

#[test]
fn what_is_left_of_a_gang_takes_nothing_that_others_were_evicted_for() {
    let mut world = borrowed_by_a_gang_in_two_queues();
    world.pod(&worker("b", 0));
    let evicted = victims(&mut world);
    gone(&mut world, &evicted);
    world.pods((8..16).map(|index| worker("a", index).of("g")));
    assert_eq!(let_in(&mut world), ["b-0"]);
}

/// Each of them finds its node only behind all others, so that they take more steps than there are.
#[test]
fn nothing_is_set_aside_for_a_gang_that_is_given_up() {
    let mut world = World::with(capacity(RECLAIM, "reclaimInterval: 1"));
    for index in 0..1100 {
        let cpu = if index == 1099 { "12" } else { "500m" };
        world.node(&node(&format!("n{index:04}")).offers("cpu", cpu));
    }
    for name in ["b", "c"] {
        world.queue(&plain(name));
    }
    world.group(&group("g", 12).set(["spec", "queue"], "b"));
    let says = (0..1000).map(|number| json!({"key": format!("none-{number}"), "operator": "DoesNotExist"}));
    let terms = json!([{ "matchExpressions": says.collect::<Vec<_>>() }]);
    let affinity =
        json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}});
    world.pods((0..12).map(|index| {
        let lengthy = pod(&format!("p{index:02}")).of("g").queue("b").requests("cpu", "1");
        lengthy.with(&json!({"spec": {"affinity": affinity}}))
    }));
    let round = world.round();
    assert_eq!(round.actions, []);
    assert!(round.steps < 2 * 11_500_000 + 12_000_000, "{} steps", round.steps);
    world.pod(&pod("other").queue("c").requests("cpu", "1"));
    assert_eq!(let_in(&mut world), ["other"]);
}

/// What is guaranteed to a queue is used up by what is set aside for one of its pods, while another one of them is let in: of what the
/// levels above count on its account nothing stays when the first one has it.
#[test]
fn who_is_let_in_beside_what_is_set_aside_leaves_no_trace_above_its_queue() {
    for parent in [None, Some("dept")] {
        let mut world = World::with(capacity(RECLAIM, "reclaimInterval: 1, enableHierarchy: true"));
        world.node(&node("n1").cards("A", 2));
        for name in ["n2", "n3", "n4"] {
            world.node(&node(name).cards("A", 1));
        }
        world.queue(&plain("dept"));
        let guaranteed = plain("a").guaranteed_cards(r#"{"A": 2}"#).deserved_cards(r#"{"A": 3}"#);
        world.queue(&parent.into_iter().fold(guaranteed, crate::world::Object::parent));
        world.queue(&plain("b").deserved_cards(r#"{"A": 0}"#));
        world.pods((0..2).map(|index| worker("b", index).assigned("A").on("n1")));
        let pair = pod("pair").queue("a").asks("A", 2);
        world.pod(&pair);
        let evicted = victims(&mut world);
        assert_eq!(evicted.len(), 2);
        world.pod(&worker("a", 0));
        assert_eq!(let_in(&mut world), ["a-0"]);
        world.pod(&worker("a", 0).assigned("A").on("n2"));
        gone(&mut world, &evicted);
        assert_eq!(let_in(&mut world), ["pair"]);
        world.pod(&pair.assigned("A").on("n1"));
        workers(&mut world, "b", 3);
        assert_eq!(
            let_in(&mut world).len(),
            2,
            "the nodes have five, and three of them are in use: {parent:?}"
        );
    }
}

/// Its owner has deleted the pod that it waits for, with a year to end: what comes free is CPU of a node, and of cards there are plenty.
#[test]
fn who_waits_for_what_comes_free_anyway_keeps_what_is_lacking_alone() {
    let mut world = World::with(capacity(RECLAIM, "guaranteeThreshold: 100"));
    world.node(&node("n1").cards("A", 8).offers("cpu", "10"));
    world.node(&node("n2").cards("A", 8));
    for name in ["a", "b"] {
        world.queue(&bare_queue(name).deserved_cards(r#"{"A": 2}"#));
    }
    let year = 31_536_000;
    let leaves = bare_pod("leaves").queue("b").requests("cpu", "8").ungated().on("n1");
    let leaves = leaves.set(["spec", "terminationGracePeriodSeconds"], year);
    world.pod(&leaves);
    let waits = pod("waits").queue("b").asks("A", 1).requests("cpu", "8");
    world.pod(&waits.pinned_to("n1"));
    assert_eq!(world.admit_names(), [""; 0]);
    let end = world.now.as_second() - START + i64::from(year);
    world.pod(
        &leaves
            .deleted(end)
            .set(["metadata", "deletionGracePeriodSeconds"], year),
    );
    for _ in 0..2 {
        world.wait(60);
        assert_eq!(world.admit_names(), [""; 0]);
    }
    world.pods((0..7).map(|index| pod(&format!("a-{index}")).queue("a").asks("A", 1).created(index)));
    assert_eq!(let_in(&mut world).len(), 7);
}

/// The queue above both refused the pod, and nothing that it depends on was given back but what was set aside.
#[test]
fn who_was_refused_above_by_what_is_set_aside_gets_in_when_that_is_given_up() {
    let mut world = World::with(capacity(RECLAIM, "reclaimInterval: 1, enableHierarchy: true"));
    world.node(&node("n1").cards("A", 4).label("kubernetes.io/hostname", "n1"));
    world.node(&node("n2").cards("A", 8));
    world.queue(&plain("above").quota(r#"{"A": 8}"#));
    world.queue(&plain("one").parent("above"));
    world.queue(&plain("other").parent("above").deserved_cards(r#"{"A": 4}"#));
    world.queue(&plain("lender").deserved_cards(r#"{"A": 0}"#));
    let victim = pod("victim").queue("lender").asks("A", 4).assigned("A").on("n1");
    world.pod(&victim);
    world.pod(
        &pod("claimant")
            .queue("other")
            .asks("A", 4)
            .selects("kubernetes.io/hostname", "n1"),
    );
    world.wait(5);
    assert_eq!(victims(&mut world), ["victim"]);
    world.pod(&victim.deleted(100_000));
    world.pod(&pod("large").queue("one").asks("A", 6));
    assert_eq!(let_in(&mut world), [""; 0]);
    world.remove_pod("victim");
    world.remove_pod("claimant");
    world.wait(2);
    // The round that gives it up is over by then.
    let at_once = let_in(&mut world);
    let then = let_in(&mut world);
    assert_eq!([at_once, then].concat(), ["large"]);
}
