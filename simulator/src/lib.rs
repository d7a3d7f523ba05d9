//! Worlds made at random around the real operator: users, controllers, a scheduler and nodes that act on the objects of an
//! API server inside this process, faults between any two steps, and a judge that looks at the objects alone.

pub mod api;
mod devices;
mod door;
pub mod fault;
pub mod judge;
pub mod objects;
pub mod run;
mod seat;
pub mod shorten;
pub mod tally;
pub mod world;
mod writes;

/// What is drawn is drawn from this: one seed, one history, whatever the machine.
pub type Dice = rand::rngs::StdRng;
