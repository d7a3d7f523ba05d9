//! The policies: one module per document, each pure, each in the document's own terms.

pub mod capacity;
pub mod card_quota;
pub mod cross_quota;
pub mod job_mode;
pub mod mgpu;
pub mod reclaim;
