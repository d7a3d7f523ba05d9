//! Test equipment of Cardgate: a real control plane without containers, Cardgate running against it as it would in a
//! cluster, and small builders for nodes and workloads.
//!
//! ```no_run
//! # async fn example() -> anyhow::Result<()> {
//! use cardgate_tests::{controlplane::{ControlPlane, Options}, nodes};
//!
//! let plane = ControlPlane::start(Options::default()).await?;
//! plane.create_nodes(&[nodes::h100_8("node-1")]).await?;
//! println!("{}", plane.kubectl().run(["get", "nodes"]).await?);
//! # Ok(())
//! # }
//! ```
//!
//! Everything that is started ends with the process that started it, however that ends.

pub mod api_proxy;
pub mod assets;
pub mod cardgate;
mod command;
pub mod controlplane;
pub mod demo;
pub mod devices;
pub mod faults;
pub mod fixture;
pub mod go_tool;
pub mod http;
pub mod load;
mod locks;
pub mod manifests;
pub mod mixture;
pub mod nodes;
pub mod ports;
pub mod process;
mod progress;
pub mod release;
pub mod scenario;
pub mod service;
pub mod tally;
pub mod tls;
pub mod wait;
pub mod workloads;
pub mod workspace;
pub mod world;
