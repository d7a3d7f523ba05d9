//! The eyes and hands of Cardgate: observes the cluster, asks the `engine` what may run, acts and reports.

pub mod act;
pub mod certificates;
pub mod cli;
pub mod configuration;
pub mod context;
pub mod event;
pub mod extender;
pub mod herald;
pub mod installation;
pub mod keep;
pub mod lease;
pub mod metrics;
pub mod mind;
pub mod observe;
pub mod operate;
pub mod policy_parameters;
pub mod program;
pub mod pulse;
pub mod recorder;
pub mod report;
pub mod request;
pub mod review;
pub mod secret;
pub mod server;
pub mod shutdown;
pub mod uninstall;
