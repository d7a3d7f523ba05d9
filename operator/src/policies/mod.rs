//! The policies: one module per document, each pure, each in the document's own terms.

pub mod capacity;
pub mod card_quota;
pub mod cross_quota;
pub mod job_mode;
pub mod mgpu;
mod reason;
pub mod reclaim;

pub use reason::Reason;
