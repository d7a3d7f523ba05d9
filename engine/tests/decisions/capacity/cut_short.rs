//! Looks at a queue that are cut short by their steps (docs/rules.md, **Queues**).

use std::ops::Range;

use engine::decide::Action;

use super::reclaim::{RECLAIM, gone, victims};
use super::set_aside::let_in;
use crate::turns::lengthy_alone;
use crate::world::{Object, World, bare_queue, capacity, group, node, pod};

/// On 200 nodes `b` has borrowed what `a` deserves, and pods of `c` go first.
fn borrowed() -> World {
    let mut world = World::with(capacity(RECLAIM, ""));
    world.queue(&bare_queue("a").deserved_cards(r#"{"A": 100}"#));
    world.queue(&bare_queue("b").deserved_cards(r#"{"A": 0}"#));
    world.queue(&bare_queue("c").set(["spec", "priority"], 9));
    for number in 0..200 {
        let name = format!("n-{number}");
        world.node(&node(&name).cards("A", 1));
        let runs = pod(&format!("b-{number}")).queue("b").asks("A", 1);
        world.pod(&runs.assigned("A").on(&name));
    }
    world
}

/// Pods come that stand before others of `a`, and of which a look takes less than all: each says as much about nodes as it may, and nothing can be
/// taken back for it.
fn costly_come(world: &mut World) {
    world.pods((0..80).map(|number| lengthy_alone(&format!("p-{number}")).queue("a").asks("A", 1)));
}

/// Nobody is let in for some rounds, and nobody is evicted.
#[track_caller]
fn rest(world: &mut World) {
    for _ in 0..3 {
        world.wait(2);
        assert_eq!(world.decide(), []);
    }
}

/// Whoever is let in first of all that wait.
fn first_let_in(world: &mut World) -> Vec<String> {
    (0..4)
        .map(|_| {
            world.wait(2);
            let_in(world)
        })
        .find(|names| !names.is_empty())
        .unwrap_or_default()
}

#[test]
fn whom_no_steps_are_left_for_keeps_what_others_were_evicted_for() {
    for is_gang in [false, true] {
        let mut world = borrowed();
        world.group(&group("g", 2).queue("a"));
        let names: Vec<_> = (0..if is_gang { 2 } else { 1 })
            .map(|index| format!("a-{index}"))
            .collect();
        world.pods(names.iter().map(|name| {
            let waits = pod(name).queue("a").asks("A", 1).created(1);
            if is_gang { waits.of("g") } else { waits }
        }));
        let evicted = victims(&mut world);
        assert_eq!(evicted.len(), names.len());
        costly_come(&mut world);
        rest(&mut world);
        world.pods((0..2).map(|index| pod(&format!("c-{index}")).queue("c").asks("A", 1)));
        gone(&mut world, &evicted);
        assert_eq!(first_let_in(&mut world), names, "gang: {is_gang}");
    }
}

/// The next look begins behind those who stand before others.
#[test]
fn who_is_looked_at_first_gets_nothing_that_others_were_evicted_for_who_stand_before_him() {
    let mut world = borrowed();
    world.pod(&pod("first").queue("a").asks("A", 1));
    let evicted = victims(&mut world);
    assert_eq!(evicted.len(), 1);
    world.pods((0..80).map(|number| lengthy_alone(&format!("p-{number}")).queue("a").asks("A", 1).created(1)));
    let last = pod("last").queue("a").asks("A", 1).requests("cpu", "1m").created(2);
    world.pod(&last);
    for _ in 0..2 {
        world.wait(2);
        assert_eq!(world.decide(), []);
    }
    gone(&mut world, &evicted);
    assert_eq!(first_let_in(&mut world), ["first"]);
}

/// A pod for nodes of this product, which names so many others.
fn lengthy(name: &str, product: &str, others: usize) -> Object {
    let others = (0..others).map(|number| format!("other-{number}"));
    let values: Vec<_> = others.chain([product.to_owned()]).collect();
    pod(name).for_products(&values)
}

/// Whether others give anything back for a gang of so many pods, each of which names so many products, at which a look begins: where something is set
/// aside for pods that go before it, or not.
fn gives_back_to_gang(pods: usize, others: usize, is_kept: bool) -> bool {
    let mut world = borrowed();
    world.queue(&bare_queue("a").deserved_cards(r#"{"A": 100, "B": 31}"#));
    world.node(&node("m").cards("B", 31));
    let leaves = pod("leaves").queue("b").asks("B", 31).assigned("B").on("m");
    world.pod(&leaves);
    world.pod(&leaves.deleted(100_000));
    let kept = (0..if is_kept { 31 } else { 0 }).map(|index| lengthy(&format!("k-{index}"), "B", 1000).asks("B", 1));
    world.pods(kept.map(|kept| kept.queue("a")));
    world.pods((0..30).map(|number| lengthy_alone(&format!("p-{number}")).queue("a").asks("A", 1).created(1)));
    world.group(&group("g", i64::try_from(pods).unwrap()).queue("a"));
    world.pods((0..pods).map(|index| {
        let waits = lengthy(&format!("g-{index}"), "A", others).queue("a").asks("A", 1);
        waits.of("g").created(2)
    }));
    let mut rounds = (0..6).map(|_| {
        world.wait(5);
        world.decide()
    });
    rounds.any(|actions| actions.iter().any(|action| matches!(action, Action::Evict(_))))
}

/// The largest number in this range for which something holds that holds for each smaller one.
fn largest(range: Range<usize>, holds: impl Fn(usize) -> bool) -> usize {
    let numbers: Vec<_> = range.clone().collect();
    range.start + numbers.partition_point(|number| holds(*number)) - 1
}

/// The longest gang that a look has steps for, whatever each step of it costs, is looked for by halves: nothing that is kept may take any of those.
#[test]
fn what_is_kept_for_others_takes_no_steps_of_the_look_itself() {
    let pods = 1 + largest(2..100, |pods| gives_back_to_gang(pods, 1000, false));
    let others = largest(1..1001, |others| gives_back_to_gang(pods, others, false));
    assert!(
        !gives_back_to_gang(pods, others + 1, false),
        "{pods} pods that name {others} products"
    );
    assert!(gives_back_to_gang(pods, others, true));
}
