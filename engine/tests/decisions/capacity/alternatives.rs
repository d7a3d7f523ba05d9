//! What is taken back for who takes one card or another: one that it deserves, beside what is idle (docs/rules.md, **Queues**).

use super::plain;
use super::reclaim::{RECLAIM, gone, victims};
use super::set_aside::let_in;
use crate::world::{Object, World, capacity, group, node, pod};

/// In seconds: longer than a test goes on.
const LONG: i64 = 100_000;

/// Queue `b` has the one A that it deserves, and none of the two H; queue `a` has borrowed those. One further A is idle.
fn borrowed() -> World {
    let mut world = World::with(capacity(RECLAIM, "reclaimInterval: 1"));
    world.node(&node("n1").cards("A", 2));
    world.node(&node("n2").cards("H", 2));
    world.queue(&plain("a").deserved_cards(r#"{"A": 1, "H": 0}"#));
    world.queue(&plain("b").deserved_cards(r#"{"A": 1, "H": 2}"#));
    world.pod(&pod("b-0").queue("b").asks("A", 1).assigned("A").on("n1"));
    world.pods((0..2).map(|index| of_a(index, "H", "n2")));
    world
}

fn of_a(index: usize, card: &str, node: &str) -> Object {
    let pod = pod(&format!("a-{index}")).queue("a").asks(card, 1);
    pod.assigned(card).on(node)
}

fn gang(world: &mut World, pods: i64) {
    world.group(&group("g", pods).queue("b"));
    world.pods((0..pods).map(|index| pod(&format!("g-{index}")).of("g").queue("b").asks("A|H", 1)));
}

#[test]
fn a_gang_takes_back_what_it_deserves_beside_what_is_idle() {
    let mut world = borrowed();
    gang(&mut world, 2);
    world.wait(5);
    let evicted = victims(&mut world);
    assert_eq!(evicted.len(), 1, "the other gets the idle one");
    // On its way out, the victim doesn't end that.
    world.pod(&of_a(usize::from(evicted[0] != "a-0"), "H", "n2").deleted(LONG));
    for _ in 0..3 {
        world.wait(2);
        assert_eq!(victims(&mut world), [""; 0]);
    }
    gone(&mut world, &evicted);
    assert_eq!(let_in(&mut world), ["g-0", "g-1"]);
}

#[test]
fn nothing_is_taken_back_beyond_what_is_deserved() {
    let mut world = borrowed();
    gang(&mut world, 4);
    world.wait(5);
    assert_eq!(victims(&mut world), [""; 0], "there would be three");
}

#[test]
fn a_gang_takes_back_what_it_deserves_beside_what_others_leave() {
    let mut world = borrowed();
    world.pod(&of_a(2, "A", "n1").deleted(LONG));
    gang(&mut world, 2);
    world.wait(5);
    let evicted = victims(&mut world);
    assert_eq!(evicted.len(), 1, "the other gets the one that is left");
    gone(&mut world, &evicted);
    gone(&mut world, &["a-2".to_owned()]);
    assert_eq!(let_in(&mut world), ["g-0", "g-1"]);
}

/// The gang that has them both goes as a whole: what is free by that beyond what is deserved is taken as well.
#[test]
fn a_gang_takes_all_that_another_gives_back_as_a_whole() {
    let mut world = borrowed();
    world.remove_pod("b-0");
    world.queue(&plain("a").deserved_cards(r#"{"A": 0, "H": 0}"#));
    world.group(&group("theirs", 2).queue("a"));
    world.pods((2..4).map(|index| of_a(index, "A", "n1").of("theirs")));
    gang(&mut world, 2);
    world.wait(5);
    let evicted = victims(&mut world);
    assert_eq!(evicted, ["a-2", "a-3"]);
    gone(&mut world, &evicted);
    assert_eq!(let_in(&mut world), ["g-0", "g-1"]);
}

/// The first card that somebody could give is one that the queue has all of.
#[test]
fn who_has_all_that_it_deserves_of_one_card_gets_the_other() {
    let mut world = borrowed();
    world.node(&node("n3").cards("A", 1));
    world.pod(&of_a(2, "A", "n1"));
    world.pod(&of_a(3, "A", "n3"));
    world.pod(&pod("single").queue("b").asks("A|H", 1));
    world.wait(5);
    let evicted = victims(&mut world);
    assert!(
        matches!(&*evicted, [victim] if victim == "a-0" || victim == "a-1"),
        "{evicted:?}"
    );
    gone(&mut world, &evicted);
    assert_eq!(let_in(&mut world), ["single"]);
}

/// Queue `c` deserves the idle A that the gang borrows while its victim goes; `d` deserves none.
fn borrowing() -> World {
    borrowing_idle(1)
}

/// The same with so many idle A.
fn borrowing_idle(idle: i64) -> World {
    let mut world = borrowed();
    world.node(&node("n1").cards("A", 2 + idle));
    world.queue(&plain("c").deserved_cards(r#"{"A": 1}"#));
    world.queue(&plain("d").deserved_cards(r#"{"A": 0}"#));
    world.pod(&of_a(2, "A", "n1"));
    gang(&mut world, 1 + idle);
    world.wait(5);
    let evicted = victims(&mut world);
    assert_eq!(evicted.len(), 1, "the others get the idle ones");
    world.pod(&of_a(usize::from(evicted[0] != "a-0"), "H", "n2").deleted(LONG));
    world.wait(2);
    assert_eq!(victims(&mut world), [""; 0]);
    world
}

/// The node of the idle A, with CPU for one more pod.
fn full_but_for_one() -> Object {
    let node = node("n1").cards("A", 3).offers("cpu", "3");
    node.label("kubernetes.io/hostname", "n1")
}

/// A pod without cards that can go there alone.
fn beside(name: &str) -> Object {
    let pod = pod(name).requests("cpu", "1");
    pod.selects("kubernetes.io/hostname", "n1")
}

#[test]
fn what_a_gang_borrows_meanwhile_is_kept_from_who_would_borrow_it() {
    let mut world = borrowing();
    world.pod(&pod("d-0").queue("d").asks("A", 1));
    assert_eq!(let_in(&mut world), [""; 0]);
}

/// Else its place would be gone, for a pod that deserves nothing of what it borrows.
#[test]
fn the_room_of_what_a_gang_borrows_meanwhile_is_kept_from_who_asks_for_something_else() {
    let mut world = borrowing();
    world.node(&full_but_for_one());
    world.queue(&plain("e"));
    world.pod(&beside("e-0").queue("e"));
    world.pod(&pod("e-1").queue("e").asks("A", 1));
    assert_eq!(let_in(&mut world), [""; 0]);
    world.remove_pod("g-0");
    world.wait(2);
    assert_eq!(let_in(&mut world), ["e-0"]);
}

#[test]
fn what_a_gang_borrows_meanwhile_goes_to_who_deserves_it() {
    let mut world = borrowing();
    world.pod(&pod("c-0").queue("c").asks("A", 1));
    assert_eq!(let_in(&mut world), ["c-0"]);
    world.wait(2);
    assert_eq!(
        victims(&mut world).len(),
        1,
        "in its place the gang gets the other that it deserves"
    );
}

#[test]
fn a_gang_that_deserves_what_another_borrows_meanwhile_gets_in() {
    let mut world = borrowing();
    world.node(&node("n1").cards("A", 4));
    world.queue(&plain("c").deserved_cards(r#"{"A": 2}"#));
    world.group(&group("theirs", 2).queue("c"));
    world.pods((0..2).map(|index| pod(&format!("c-{index}")).of("theirs").queue("c").asks("A", 1)));
    assert_eq!(let_in(&mut world), ["c-0", "c-1"]);
}

/// A gang is lent nothing of which a part would go to a pod that asks for something else.
#[test]
fn a_gang_is_lent_nothing_where_others_of_it_may_get_in() {
    let mut world = borrowing();
    world.node(&full_but_for_one());
    world.group(&group("one", 1).queue("c"));
    world.pod(&pod("one-0").of("one").queue("c").asks("A", 1).selects("no", "node"));
    world.pod(&beside("one-1").of("one").queue("c"));
    assert_eq!(let_in(&mut world), [""; 0]);
}

/// Nor to a queue that deserves nothing, which could not be made to give it back.
#[test]
fn a_gang_is_lent_nothing_for_a_queue_that_deserves_none_of_it() {
    let mut world = borrowing_idle(2);
    world.queue(&plain("e"));
    world.group(&group("theirs", 2).queue("c"));
    world.pod(&pod("c-0").of("theirs").queue("c").asks("A", 1));
    world.pod(&pod("e-0").of("theirs").queue("e").asks("A", 1));
    assert_eq!(let_in(&mut world), [""; 0]);
    world.queue(&plain("e").deserved_cards(r#"{"A": 1}"#));
    assert_eq!(let_in(&mut world), ["c-0", "e-0"]);
}

/// Nor does who deserves only its CPU get the card that goes with it.
#[test]
fn what_is_borrowed_of_cpu_alone_brings_nobody_a_card_that_it_deserves_none_of() {
    let mut world = borrowing();
    world.queue(&plain("b").deserved_cards(r#"{"A": 1, "H": 2}"#).deserved("cpu", "1"));
    world.queue(&plain("e").deserved("cpu", "100"));
    world.wait(2);
    victims(&mut world);
    world.pod(&pod("e-0").queue("e").asks("A", 1));
    assert_eq!(let_in(&mut world), [""; 0]);
}

/// Who comes to deserve it later is looked at then, though his queue had nothing to judge.
#[test]
fn who_comes_to_deserve_what_a_gang_borrows_meanwhile_gets_it() {
    let mut world = borrowing();
    world.node(&node("n4").cards("A", 1));
    world.pod(&pod("c-0").queue("c").asks("A", 1).assigned("A").on("n4"));
    world.pod(&pod("c-1").queue("c").asks("A", 1));
    assert_eq!(let_in(&mut world), [""; 0]);
    world.queue(&plain("c").deserved_cards(r#"{"A": 2}"#));
    assert_eq!(let_in(&mut world), ["c-1"]);
}
