//! The life of a pod: gates, admissions under way, binding, deletion, reservations, lists, restarts.

mod admissions;
mod deletion;
mod foreign;
mod gates;
mod lists;
mod notices;
mod refused;
mod reservations;
mod restarts;
mod unheld;

use engine::cluster::Kind;
use engine::cluster::pod::Stage;
use engine::decide::Action;

use crate::world::{Object, World, at, bare_pod, configuration, node, pod, queue};

/// One node with eight cards A, and a queue that may have two of them.
fn world() -> World {
    let mut world = World::new();
    world.node(&node("n1").cards("A", 8));
    world.queue(&queue("team-a").quota(r#"{"A": 2}"#));
    world
}

fn gpu(name: &str) -> Object {
    pod(name).asks("A", 1)
}
