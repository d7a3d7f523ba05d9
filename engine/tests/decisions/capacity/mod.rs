//! The capacity documents, decided on whole clusters.

mod alternatives;
mod arguments;
mod autoscaled;
mod cut_short;
mod dimensions;
mod forgone;
mod guarantees;
mod hierarchy;
mod job_mode;
mod nodes;
mod order;
mod preempt;
mod properties;
mod reclaim;
mod reclaim_dimensions;
mod reclaim_many;
mod reclaim_reference;
mod reclaim_turns;
mod reference;
mod resting;
mod set_aside;
mod shown;
mod sums;

use crate::world::{Object, World, bare_queue, capacity, node, pod};

const ACTIONS: &str = "enqueue, allocate, backfill";

/// A cluster of one node with so many cards, under the capacity plugin with these arguments.
fn cluster(cards: i64, arguments: &str) -> World {
    let mut world = World::with(capacity(ACTIONS, arguments));
    world.node(&node("n1").cards("A", cards));
    world
}

/// So many pods with one card each, in this queue; younger than those before.
fn workers(world: &mut World, queue: &str, count: usize) {
    world.pods((0..count).map(|index| worker(queue, index)));
}

fn worker(queue: &str, index: usize) -> Object {
    pod(&format!("{queue}-{index}")).queue(queue).asks("A", 1)
}

/// How many pods one round lets in.
fn admitted(world: &mut World) -> usize {
    world.admit().len()
}

fn plain(name: &str) -> Object {
    bare_queue(name)
}
