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

pub mod binding;
mod cross_quota;
pub mod denial;
pub mod door;
pub mod health;
pub mod job;
pub mod knowledge;
pub mod lookup;
pub mod metrics;
pub mod patch;
pub mod pod;
pub mod queue_resolution;
pub mod queue_source;
pub mod review;
pub mod server;
pub mod tls;
pub mod validate;
pub mod view;
pub mod warning;
pub mod watch;
