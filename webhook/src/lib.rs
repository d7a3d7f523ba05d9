//! The door of Cardgate: mutating and validating admission.
//!
//! It decides nothing about quota. It reads what users write, refuses what is malformed or not allowed, and marks the pods
//! that the operator must decide on. A request passes these modules:
//!
//! ```text
//! server ─ bytes ─▶ door ─ review ─▶ pod | validate ─▶ denial | patch + warnings ─▶ door ─▶ server
//!                     ▲                  │ view
//!                  lookup ◀─ missing ─ knowledge ◀─ watch ◀─ API server
//! ```
//!
//! Without the feature `server` the crate contains only the judgement, for callers that need no port, clock or cluster.

#[cfg(feature = "server")]
pub mod api_lookups;
mod binding;
mod brief;
mod cross_quota;
pub mod denial;
pub mod door;
pub mod endpoint;
#[cfg(feature = "server")]
pub mod flags;
#[cfg(feature = "server")]
pub mod health;
mod job;
pub mod knowledge;
pub mod lookup;
#[cfg(feature = "server")]
pub mod metrics;
mod patch;
mod pod;
mod queue_resolution;
pub mod queue_source;
pub mod review;
#[cfg(feature = "server")]
pub mod server;
mod stop;
#[cfg(feature = "server")]
pub mod tls;
mod validate;
pub mod view;
pub mod warning;
#[cfg(feature = "server")]
pub mod watch;

pub use patch::Options;
