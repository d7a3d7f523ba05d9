//! Amounts as people write them.

pub use crds::format::{format_amount, format_bytes, format_cpu};
