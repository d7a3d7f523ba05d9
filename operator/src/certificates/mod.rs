//! Cardgate's own certificate authority: who signs what the webhook serves with, and who API servers trust for it; and the same
//! for the scheduler extender and those who ask it, and for the port where reviews are answered.
//!
//! Only the leader keeps it. The order of writes is what makes every rotation safe, also one that is interrupted: first the
//! authorities' Secret, then the webhook configurations that API servers trust, and only then what the webhook serves with.

mod held;
mod inject;
mod keeper;
mod leaf;
mod names;
mod plan;
mod secrets;
#[cfg(test)]
mod tests;
mod verify;

pub use held::CertificateError;
pub use inject::CONFIGURATION;
pub use keeper::{CertificateKeeper, KeeperError};
pub use leaf::{EXTENDER_CLIENT_SECRET, EXTENDER_SECRET, Leaf, REVIEW_SECRET, SERVING_SECRET};
pub use names::{Name, NameError};
pub use plan::{AUTHORITY_LIFETIME, BACKDATE, OVERLAP, SERVING_LIFETIME};
pub use secrets::AUTHORITY_SECRET;
