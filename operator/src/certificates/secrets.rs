//! The contents of the Secrets, and reading them even after somebody has changed them.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::jiff::Timestamp;
use rcgen::KeyPair;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::held::{self, Authority, Certificate, Held, Serving};
use super::verify;

/// The Secret with the authorities: the bundle, and the keys of the authorities that sign.
pub const AUTHORITY_SECRET: &str = "cardgate-ca";
/// Key of all Secrets: the certificates of the authorities, PEM.
const BUNDLE: &str = "ca.crt";
/// Key of [`AUTHORITY_SECRET`]: the private keys of the authorities, PEM.
const AUTHORITY_KEYS: &str = "ca.key";
/// Key of a Secret with a certificate: the serving certificate, PEM.
const SERVING_CERTIFICATE: &str = "tls.crt";
/// Key of a Secret with a certificate: its private key, PEM.
const SERVING_KEY: &str = "tls.key";

/// More authorities than any rotation has. A longer bundle is not Cardgate's, and would not fit into webhook configurations.
const MAX_AUTHORITIES: usize = 8;

/// The data of a Secret.
pub(super) type Data = BTreeMap<String, ByteString>;

/// The contents of the Secrets, and which parts cannot be used.
#[derive(Debug)]
pub(super) struct Found {
    pub held: Held,
    /// Why the authorities differ from what the Secret says.
    pub bad_authority: Option<&'static str>,
    /// Why the serving certificate differs from what the Secret says.
    pub bad_serving: Option<&'static str>,
}

/// Reads both Secrets. No content makes this fail: what cannot be used is left out, and replaced later.
pub(super) fn read(authority: Option<&Secret>, serving: Option<&Secret>, now: Timestamp) -> Found {
    let (mut authorities, bad_authority) = read_authorities(authority);
    let (serving, bad_serving, bundle) = read_serving(serving);
    if authorities.is_empty()
        && let Some(issuer) = serving.as_ref().and_then(|serving| issuer(serving, bundle, now))
    {
        // The authority is lost, or is not Cardgate's. Until the webhook has a new certificate, API servers must go on trusting the
        // certificate that it serves.
        authorities.push(Authority {
            certificate: issuer,
            key: None,
        });
    }
    Found {
        held: Held { authorities, serving },
        bad_authority,
        bad_serving,
    }
}

fn read_authorities(secret: Option<&Secret>) -> (Vec<Authority>, Option<&'static str>) {
    let bundle = bytes(secret, BUNDLE);
    let keys = bytes(secret, AUTHORITY_KEYS);
    if bundle.is_empty() && keys.is_empty() {
        return (Vec::new(), None);
    }
    let Some(certificates) = certificates(bundle) else {
        return (Vec::new(), Some("ca.crt does not hold certificates as PEM"));
    };
    if certificates.is_empty() {
        return (Vec::new(), Some("ca.crt holds no certificate"));
    }
    if certificates.len() > MAX_AUTHORITIES {
        return (
            Vec::new(),
            Some("ca.crt holds more certificates than Cardgate ever writes"),
        );
    }
    if !certificates.iter().all(|certificate| certificate.is_authority) {
        return (
            Vec::new(),
            Some("ca.crt holds a certificate that is none of a sound authority"),
        );
    }
    let (mut keys, mut bad) = match private_keys(keys) {
        Some(keys) => (keys, None),
        None => (Vec::new(), Some("ca.key does not hold private keys as PEM")),
    };
    let authorities: Vec<_> = certificates
        .into_iter()
        .map(|certificate| {
            let key = keys.iter().position(|key| certificate.has_key(key));
            Authority {
                key: key.map(|place| keys.swap_remove(place)),
                certificate,
            }
        })
        .collect();
    if authorities.iter().all(|authority| authority.key.is_none()) {
        bad = bad.or(Some("ca.key holds no key of a certificate in ca.crt"));
    }
    (authorities, bad)
}

pub(super) fn read_serving(secret: Option<&Secret>) -> (Option<Serving>, Option<&'static str>, Vec<Certificate>) {
    let (certificate, key) = (bytes(secret, SERVING_CERTIFICATE), bytes(secret, SERVING_KEY));
    if certificate.is_empty() && key.is_empty() {
        return (None, None, Vec::new());
    }
    let Some(chain) = certificates(certificate).filter(|chain| !chain.is_empty()) else {
        return (None, Some("tls.crt does not hold a certificate as PEM"), Vec::new());
    };
    let own_key = private_keys(key).and_then(|keys| keys.into_iter().next());
    let serving = Serving {
        chain_pem: certificate.to_vec(),
        key_pem: key.to_vec(),
        key_fits: own_key.as_ref().is_some_and(|key| chain[0].has_key(key)),
        chain,
    };
    let bad = match own_key {
        None => Some("tls.key does not hold a private key as PEM"),
        Some(_) if !serving.key_fits => Some("tls.key is not the key of tls.crt"),
        Some(_) => None,
    };
    let bundle = certificates(bytes(secret, BUNDLE)).unwrap_or_default();
    (Some(serving), bad, bundle)
}

/// Returns the authority in the bundle that verifies the serving certificate.
fn issuer(serving: &Serving, bundle: Vec<Certificate>, now: Timestamp) -> Option<Certificate> {
    let (name, chain) = (serving.leaf()?.names.first()?, serving.chain_der());
    bundle
        .into_iter()
        .filter(|certificate| certificate.is_authority)
        .find(|certificate| verify::verifies(std::iter::once(&certificate.der), &chain, name, now))
}

/// Returns what [`AUTHORITY_SECRET`] should hold.
pub(super) fn authority_data(held: &Held) -> Data {
    let keys: String = held
        .authorities
        .iter()
        .filter_map(|authority| authority.key.as_ref())
        .map(KeyPair::serialize_pem)
        .collect();
    data([(BUNDLE, bundle(held).into_bytes()), (AUTHORITY_KEYS, keys.into_bytes())])
}

/// Returns what a Secret with a certificate should hold; none while there is no certificate.
pub(super) fn serving_data(held: &Held) -> Option<Data> {
    let serving = held.serving.as_ref()?;
    Some(data([
        (BUNDLE, bundle(held).into_bytes()),
        (SERVING_CERTIFICATE, serving.chain_pem.clone()),
        (SERVING_KEY, serving.key_pem.clone()),
    ]))
}

/// Returns the certificates of all authorities, in the form that API servers expect.
pub(super) fn bundle(held: &Held) -> String {
    held::pem(held.authorities.iter().map(|authority| &authority.certificate))
}

/// Whether the Secret holds all of this data. Other keys of the Secret are not Cardgate's.
pub(super) fn holds(secret: Option<&Secret>, data: &Data) -> bool {
    let held = secret.and_then(|secret| secret.data.as_ref());
    data.iter()
        .all(|(key, value)| held.and_then(|held| held.get(key)) == Some(value))
}

fn data<const N: usize>(entries: [(&str, Vec<u8>); N]) -> Data {
    let entries = entries.map(|(key, bytes)| (key.to_owned(), ByteString(bytes)));
    entries.into_iter().collect()
}

fn bytes<'s>(secret: Option<&'s Secret>, key: &str) -> &'s [u8] {
    let value = secret.and_then(|secret| secret.data.as_ref()?.get(key));
    value.map(|ByteString(bytes)| bytes.as_slice()).unwrap_or_default()
}

/// Returns all certificates of a PEM text; none if any part cannot be read.
fn certificates(text: &[u8]) -> Option<Vec<Certificate>> {
    CertificateDer::pem_slice_iter(text)
        .map(|der| Certificate::read(der.ok()?))
        .collect()
}

/// Returns all private keys of a PEM text; none if any part cannot be read.
fn private_keys(text: &[u8]) -> Option<Vec<KeyPair>> {
    PrivateKeyDer::pem_slice_iter(text)
        .map(|der| KeyPair::try_from(&der.ok()?).ok())
        .collect()
}
