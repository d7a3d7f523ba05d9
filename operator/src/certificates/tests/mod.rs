//! Certificates over years and through accidents. webpki judges whether they are trusted, not the code that plans them.

mod accidents;
mod rotation;

use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use webpki::{ALL_VERIFICATION_ALGS, EndEntityCert, KeyUsage, anchor_from_trusted_cert};

use super::leaf::Leaf;
use super::names::Name;
use super::secrets::{self, Data};

const BEGIN: i64 = 1_767_225_600;
const HOUR: SignedDuration = SignedDuration::from_hours(1);
const DAY: SignedDuration = SignedDuration::from_hours(24);

fn begin() -> Timestamp {
    Timestamp::from_second(BEGIN).unwrap()
}

fn names(extra: &[&str]) -> Vec<Name> {
    let extra: Vec<_> = extra.iter().map(|text| text.parse().unwrap()).collect();
    Name::of_service("webhook", "cardgate-system", &extra)
}

/// Returns the webhook's certificate with these names.
fn leaf(names: &[Name]) -> Leaf {
    Leaf {
        names: names.to_vec(),
        ..Leaf::webhook("cardgate-system", &[])
    }
}

fn secret(data: Data) -> Secret {
    Secret {
        data: Some(data),
        ..Secret::default()
    }
}

fn text<'s>(secret: Option<&'s Secret>, key: &str) -> &'s str {
    let bytes = secret.and_then(|secret| secret.data.as_ref()?.get(key));
    bytes
        .and_then(|bytes| std::str::from_utf8(&bytes.0).ok())
        .unwrap_or_default()
}

/// What API servers trust and what the webhook serves.
#[derive(Debug, Clone, Default, PartialEq)]
struct Public {
    bundle: String,
    chain: String,
}

/// The objects in the cluster.
#[derive(Debug, Clone, Default)]
struct World {
    authority: Option<Secret>,
    serving: Option<Secret>,
    bundle: String,
}

impl World {
    /// Does what the keeper does, in the same order. Returns the public state after every write, and when to do it again.
    fn reconcile(&mut self, names: &[Name], now: Timestamp) -> (Vec<Public>, Timestamp) {
        let found = secrets::read(self.authority.as_ref(), self.serving.as_ref(), now);
        let mut held = found.held;
        let plan = held.plan(&leaf(names), now);
        held.apply(&plan.steps, &leaf(names), now).unwrap();
        let mut states = Vec::new();
        self.authority = Some(secret(secrets::authority_data(&held)));
        states.extend(self.public());
        self.bundle = secrets::bundle(&held);
        states.extend(self.public());
        self.serving = Some(secret(secrets::serving_data(&held).unwrap()));
        states.extend(self.public());
        (states, plan.next)
    }

    /// Returns the public state; none before the webhook serves.
    fn public(&self) -> Option<Public> {
        self.serving.as_ref()?;
        Some(Public {
            bundle: self.bundle.clone(),
            chain: text(self.serving.as_ref(), "tls.crt").to_owned(),
        })
    }

    fn authorities(&self) -> usize {
        self.bundle.matches("BEGIN CERTIFICATE").count()
    }
}

/// Whether a client that trusts the bundle accepts the chain for every name in `names`.
fn believes(state: &Public, names: &[Name], at: Timestamp) -> bool {
    let read = |pem: &str| -> Vec<CertificateDer<'static>> {
        CertificateDer::pem_slice_iter(pem.as_bytes())
            .map(Result::unwrap)
            .collect()
    };
    let (bundle, chain) = (read(&state.bundle), read(&state.chain));
    let anchors: Vec<_> = bundle
        .iter()
        .map(|one| anchor_from_trusted_cert(one).unwrap())
        .collect();
    let Some(leaf) = chain.first().and_then(|leaf| EndEntityCert::try_from(leaf).ok()) else {
        return false;
    };
    let time = UnixTime::since_unix_epoch(std::time::Duration::from_secs(at.as_second().try_into().unwrap()));
    let usage = KeyUsage::server_auth();
    leaf.verify_for_usage(ALL_VERIFICATION_ALGS, &anchors, &chain[1..], time, usage, None, None)
        .is_ok()
        && names.iter().all(|name| {
            let name = match name {
                Name::Dns(name) => ServerName::try_from(name.as_str()).unwrap(),
                Name::Ip(address) => ServerName::from(*address),
            };
            leaf.verify_is_valid_for_subject_name(&name).is_ok()
        })
}
