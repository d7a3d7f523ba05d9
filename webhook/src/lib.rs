//! The door of Cardgate: mutating and validating admission.
//!
//! It decides nothing about quota. It reads what users write, refuses what is malformed or not allowed, and marks the pods
//! that the operator must decide on. A request takes this way:
//!
//! ```text
//! server ─ bytes ─▶ door ─ review ─▶ pod | validate ─▶ denial | patch + warnings ─▶ door ─▶ server
//!                     ▲                  │ view
//!                  lookup ◀─ missing ─ knowledge ◀─ watch ◀─ API server
//! ```

mod binding;
mod cross_quota;
mod denial;
pub mod door;
pub mod endpoint;
pub mod health;
mod job;
pub mod knowledge;
pub mod lookup;
pub mod metrics;
mod patch;
mod pod;
mod queue_resolution;
mod queue_source;
pub mod review;
pub mod server;
mod stop;
pub mod tls;
mod validate;
pub mod view;
mod warning;
pub mod watch;

pub use patch::Options;
