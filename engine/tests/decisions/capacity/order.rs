//! Whose turn it is where queues are parts of others.

use super::{ACTIONS, plain, workers};
use crate::world::{Object, World, capacity, node};

/// Departments `x` and `y` with 8 cards in all, where nothing is scarce.
fn departments(x: impl Fn(Object) -> Object, y: impl Fn(Object) -> Object) -> World {
    let mut world = World::with(capacity(ACTIONS, "enableHierarchy: true, guaranteeThreshold: 100"));
    world.node(&node("n1").cards("A", 8));
    world.queue(&plain("root"));
    world.queue(&x(plain("x")));
    world.queue(&y(plain("y")));
    world
}

fn deserves(queue: Object, cards: i64) -> Object {
    queue.deserved_cards(&format!("{{\"A\": {cards}}}"))
}

fn part(name: &str, parent: &str, cards: i64) -> Object {
    deserves(plain(name).parent(parent), cards)
}

#[test]
fn queues_are_compared_by_the_shares_of_their_ancestors_side_by_side() {
    let mut world = departments(|x| deserves(x, 6), |y| deserves(y, 2));
    // By themselves, the parts of y would have the smaller share for the same cards.
    world.queue(&part("x1", "x", 2));
    world.queue(&part("y1", "y", 8));
    world.queue(&part("y2", "y", 8));
    for name in ["x1", "y1", "y2"] {
        workers(&mut world, name, 8);
    }
    assert_eq!(world.admit().len(), 8);
    let of = |name| world.allocated(name, "A");
    assert_eq!((of("x1"), of("y1") + of("y2")), (6, 2));
    assert_eq!((of("y1"), of("y2")), (1, 1), "within a department its parts take turns");
}

#[test]
fn a_part_of_high_priority_does_not_get_its_department_ahead() {
    let mut world = departments(|x| deserves(x, 4), |y| deserves(y, 4).set(["spec", "priority"], 1));
    world.queue(&part("x1", "x", 4).set(["spec", "priority"], 9));
    world.queue(&part("x2", "x", 4));
    world.queue(&part("y1", "y", 4));
    for name in ["x1", "x2", "y1"] {
        workers(&mut world, name, 3);
    }
    let names = world.admit_names();
    let departments: Vec<_> = names.iter().map(|name| &name[..2]).collect();
    assert_eq!(departments, ["y1", "y1", "y1", "x1", "x1", "x1", "x2", "x2"]);
}

#[test]
fn a_part_below_a_scarce_guarantee_gets_its_department_ahead() {
    let conf = "enableHierarchy: true, guaranteeThreshold: 10";
    let mut world = World::with(capacity(ACTIONS, conf));
    world.node(&node("n1").cards("A", 8));
    world.queue(&plain("x").set(["spec", "priority"], 9));
    world.queue(&plain("y").guaranteed_cards(r#"{"A": 3}"#));
    world.queue(&plain("x1").parent("x"));
    world.queue(&plain("y1").parent("y"));
    world.queue(&plain("y2").parent("y").guaranteed_cards(r#"{"A": 2}"#));
    workers(&mut world, "x1", 2);
    assert_eq!(world.admit().len(), 2, "more than 10 percent are in use");
    world.pods((2..6).map(|index| super::worker("x1", index)));
    workers(&mut world, "y1", 1);
    workers(&mut world, "y2", 3);
    let names = world.admit_names();
    assert_eq!(names, ["y2-0", "y2-1", "y1-0", "x1-2", "x1-3", "x1-4"]);
}
