//! The mind of Cardgate: observes the cluster, decides what may run, and acts.

pub mod cluster;
pub mod decide;
pub mod discovery;
pub mod policies;
