//! The rules of Cardgate: what is, what may be done, and why something waits.
//!
//! A [`cluster::Cluster`] takes in what is observed ([`Observation`]) and what became of what was done ([`Outcome`]).
//! [`decide`](decide::decide) says what may be done now, [`explain`](explain::explain) why something waits, and [`overview`] what
//! there is to see. Nothing in this crate does I/O, reads a clock or knows a Kubernetes client: time and configuration come as
//! arguments, so that the operator, the tests and every other program come to the same answers.

pub mod alternative;
pub mod amounts;
pub mod cluster;
pub mod decide;
pub mod devices;
pub mod discovery;
pub mod explain;
pub mod happening;
pub mod ids;
pub mod inqueue;
pub mod lacking;
mod metering;
pub mod names;
mod observation;
pub mod overview;
pub mod policies;
pub mod reason;
pub mod refs;
pub mod share;
pub mod steps;
mod table;
pub mod task;
pub mod texts;
pub mod trail;
mod worded;

pub use observation::{Answer, Observation, Outcome};
