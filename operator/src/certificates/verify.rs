//! Checks whether API servers would accept a certificate.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier as _;
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;

use super::names::Name;

/// Whether a client can trust the certificate as an authority.
pub(super) fn is_sound(authority: &CertificateDer<'static>) -> bool {
    RootCertStore::empty().add(authority.clone()).is_ok()
}

/// Whether a server that trusts the authorities accepts, at that time, the chain as a client's own.
pub(super) fn verifies_client<'c>(
    authorities: impl Iterator<Item = &'c CertificateDer<'static>>,
    chain: &[CertificateDer<'static>],
    at: Timestamp,
) -> bool {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(authorities.cloned());
    let provider = Arc::new(ring::default_provider());
    let (Ok(verifier), Some((leaf, more)), Ok(seconds)) = (
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build(),
        chain.split_first(),
        u64::try_from(at.as_second()),
    ) else {
        return false;
    };
    let at = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
    verifier.verify_client_cert(leaf, more, at).is_ok()
}

/// Whether a client that trusts the authorities accepts, at that time, the chain as that of `name`.
pub(super) fn verifies<'c>(
    authorities: impl Iterator<Item = &'c CertificateDer<'static>>,
    chain: &[CertificateDer<'static>],
    name: &Name,
    at: Timestamp,
) -> bool {
    let mut roots = RootCertStore::empty();
    // Certificates that cannot be an authority are left out.
    roots.add_parsable_certificates(authorities.cloned());
    let provider = Arc::new(ring::default_provider());
    let (Ok(verifier), Some((leaf, more)), Some(name), Ok(seconds)) = (
        WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build(),
        chain.split_first(),
        name.to_server_name(),
        u64::try_from(at.as_second()),
    ) else {
        return false;
    };
    let at = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
    verifier.verify_server_cert(leaf, more, &name, &[], at).is_ok()
}
