//! The mind of Cardgate: observes the cluster, decides what may run, and acts.

pub mod act;
pub mod certificates;
pub mod cli;
pub mod cluster;
pub mod configuration;
pub mod decide;
pub mod discovery;
pub mod event;
pub mod extender;
pub mod installation;
pub mod lease;
pub mod logging;
pub mod metrics;
pub mod mind;
pub mod observe;
pub mod overview;
pub mod pod_ref;
pub mod policies;
pub mod policy_parameters;
pub mod program;
pub mod pulse;
pub mod quantities;
pub mod recorder;
pub mod report;
pub mod server;
pub mod shutdown;
