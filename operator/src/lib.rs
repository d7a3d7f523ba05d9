//! The mind of Cardgate: observes the cluster, decides what may run, and acts.

pub mod discovery;
