//! Cardgate's own certificate authority. It signs the certificate that the webhook serves with, and API servers trust it for that. The same
//! holds for the scheduler extender and its callers, and for the port where reviews are answered.
//!
//! Only the leader keeps the certificates. The order of writes makes every rotation safe, even if it is interrupted: first the authorities'
//! Secret, then the webhook configurations that API servers trust, and only then the certificate that the webhook serves.

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
