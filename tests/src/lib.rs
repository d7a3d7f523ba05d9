//! A real control plane, end-to-end scenarios and the demo, and what they share.

pub mod manifests;
