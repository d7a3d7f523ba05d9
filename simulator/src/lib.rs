//! Random worlds around the real operator. Users, controllers, a scheduler and nodes act on the objects of an API server
//! inside this process, faults strike between any two steps, and a judge looks at the objects alone.

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

/// The source of everything that is drawn. One seed gives one history, on every machine.
pub type Dice = rand::rngs::StdRng;
