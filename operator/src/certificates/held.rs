//! The existing certificates and keys, and the application of a plan to them.

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use pem::{EncodeConfig, LineEnding, Pem};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PublicKeyData as _,
};
use rustls::pki_types::CertificateDer;
use thiserror::Error;
use time::OffsetDateTime;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use super::leaf::{Leaf, Usage};
use super::names::Name;
use super::plan::{self, AUTHORITY_LIFETIME, SERVING_LIFETIME, Step, Validity};
use super::verify;

/// The tag of a certificate in PEM.
const PEM_TAG: &str = "CERTIFICATE";
/// The organisation in every certificate.
const ORGANIZATION: &str = "Cardgate";

/// A certificate could not be made.
#[derive(Debug, Error)]
pub enum CertificateError {
    /// The library refuses.
    #[error("can't make a certificate")]
    Make(#[from] rcgen::Error),
    /// Certificates cannot express the time.
    #[error("can't make a certificate for this time: is the clock right?")]
    Time(#[from] time::error::ComponentRange),
    /// An authority that is to sign has no key. A plan never asks for that.
    #[error("an authority has no key to sign with")]
    NoKey,
}

/// A certificate that was read.
#[derive(Debug, Clone)]
pub(super) struct Certificate {
    pub der: CertificateDer<'static>,
    pub validity: Validity,
    /// Whether API servers can be told to trust it: it must be a self-signed certificate of an authority. API servers refuse a bundle if a
    /// single certificate in it is unsound, so a change of even one bit has to be found here.
    pub is_authority: bool,
    /// The names that the certificate is for, sorted and without duplicates.
    pub names: Vec<Name>,
    public_key: Vec<u8>,
}

impl Certificate {
    /// Reads a certificate; none if the bytes are not a certificate.
    pub fn read(der: CertificateDer<'static>) -> Option<Self> {
        let (_, parsed) = X509Certificate::from_der(&der).ok()?;
        let time = |time: x509_parser::time::ASN1Time| Timestamp::from_second(time.timestamp()).ok();
        let sans = parsed.subject_alternative_name().ok()?;
        let sans = sans.map(|sans| sans.value.general_names.as_slice()).unwrap_or_default();
        let mut names: Vec<_> = sans.iter().filter_map(Name::from_san).collect();
        names.sort_unstable();
        names.dedup();
        Some(Self {
            validity: Validity {
                not_before: time(parsed.validity().not_before)?,
                not_after: time(parsed.validity().not_after)?,
            },
            is_authority: parsed.is_ca() && parsed.verify_signature(None).is_ok() && verify::is_sound(&der),
            names,
            public_key: parsed.public_key().raw.to_vec(),
            der,
        })
    }

    /// Whether the key belongs to this certificate.
    pub fn has_key(&self, key: &KeyPair) -> bool {
        key.subject_public_key_info() == self.public_key
    }
}

/// An authority, with its key if that is known.
#[derive(Debug)]
pub(super) struct Authority {
    pub certificate: Certificate,
    pub key: Option<KeyPair>,
}

/// A certificate with its key, which a port serves with or its callers show.
#[derive(Debug)]
pub(super) struct Serving {
    /// The certificate, followed by the chain to an authority.
    pub chain: Vec<Certificate>,
    /// The chain as PEM.
    pub chain_pem: Vec<u8>,
    /// The private key as PEM.
    pub key_pem: Vec<u8>,
    /// Whether the key belongs to the certificate.
    pub key_fits: bool,
}

impl Serving {
    pub fn leaf(&self) -> Option<&Certificate> {
        self.chain.first()
    }

    /// Returns the chain as it is sent over the network.
    pub fn chain_der(&self) -> Vec<CertificateDer<'static>> {
        self.chain.iter().map(|one| one.der.clone()).collect()
    }

    /// Whether the authorities verify the certificate now for its purpose and for exactly its names, and the key fits.
    pub fn is_good(&self, authorities: &[Authority], leaf: &Leaf, now: Timestamp) -> bool {
        let authorities = || authorities.iter().map(|one| &one.certificate.der);
        let chain = self.chain_der();
        self.key_fits
            && self.leaf().is_some_and(|own| own.names == leaf.names)
            && match leaf.usage {
                Usage::Server => leaf
                    .names
                    .iter()
                    .all(|name| verify::verifies(authorities(), &chain, name, now)),
                Usage::Client => verify::verifies_client(authorities(), &chain, now),
            }
    }
}

/// All authorities, and one certificate that they verify.
#[derive(Debug, Default)]
pub(super) struct Held {
    /// The bundle, in the order in which it is written.
    pub authorities: Vec<Authority>,
    pub serving: Option<Serving>,
}

impl Held {
    /// Returns the plan for these certificates.
    pub fn plan(&self, leaf: &Leaf, now: Timestamp) -> plan::Plan {
        let authorities: Vec<_> = self
            .authorities
            .iter()
            .map(|authority| plan::Authority {
                validity: authority.certificate.validity,
                has_key: authority.key.is_some(),
            })
            .collect();
        let serving = self.serving.as_ref().and_then(|serving| {
            Some(plan::Serving {
                validity: serving.leaf()?.validity,
                is_good: serving.is_good(&self.authorities, leaf, now),
            })
        });
        plan::plan(&authorities, serving, now)
    }

    /// Applies the steps of a plan.
    pub fn apply(&mut self, steps: &[Step], leaf: &Leaf, now: Timestamp) -> Result<(), CertificateError> {
        let mut expired = Vec::new();
        for step in steps {
            match *step {
                Step::Create => self.authorities.push(create_authority(now)?),
                Step::Issue { by } => self.serving = Some(issue(&self.authorities[by], leaf, now)?),
                Step::DropKey(place) => self.authorities[place].key = None,
                Step::Drop(place) => expired.push(place),
            }
        }
        let mut place = 0;
        self.authorities.retain(|_| {
            place += 1;
            !expired.contains(&(place - 1))
        });
        Ok(())
    }
}

fn create_authority(now: Timestamp) -> Result<Authority, CertificateError> {
    let key = KeyPair::generate()?;
    // Each authority has a different name, since some clients choose among authorities by name alone.
    let mut params = params(
        &format!("Cardgate CA {}", now.as_second()),
        now,
        AUTHORITY_LIFETIME,
        None,
    )?;
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let der = params.self_signed(&key)?.der().clone();
    let certificate = Certificate::read(der).ok_or(rcgen::Error::CouldNotParseCertificate)?;
    Ok(Authority {
        certificate,
        key: Some(key),
    })
}

fn issue(authority: &Authority, leaf: &Leaf, now: Timestamp) -> Result<Serving, CertificateError> {
    let signing_key = authority.key.as_ref().ok_or(CertificateError::NoKey)?;
    let issuer = Issuer::from_ca_cert_der(&authority.certificate.der, signing_key)?;
    let key = KeyPair::generate()?;
    let end = authority.certificate.validity.not_after;
    let mut params = params(leaf.common_name, now, SERVING_LIFETIME, Some(end))?;
    params.subject_alt_names = leaf.names.iter().filter_map(Name::to_san).collect();
    params.is_ca = IsCa::ExplicitNoCa;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![match leaf.usage {
        Usage::Server => ExtendedKeyUsagePurpose::ServerAuth,
        Usage::Client => ExtendedKeyUsagePurpose::ClientAuth,
    }];
    params.use_authority_key_identifier_extension = true;
    let der = params.signed_by(&key, &issuer)?.der().clone();
    let certificate = Certificate::read(der).ok_or(rcgen::Error::CouldNotParseCertificate)?;
    Ok(Serving {
        chain_pem: pem([&certificate]).into_bytes(),
        key_pem: key.serialize_pem().into_bytes(),
        key_fits: certificate.has_key(&key),
        chain: vec![certificate],
    })
}

fn params(
    common_name: &str,
    now: Timestamp,
    lifetime: SignedDuration,
    limit: Option<Timestamp>,
) -> Result<CertificateParams, CertificateError> {
    let validity = Validity::new(now, lifetime, limit);
    let mut params = CertificateParams::default();
    params.not_before = OffsetDateTime::from_unix_timestamp(validity.not_before.as_second())?;
    params.not_after = OffsetDateTime::from_unix_timestamp(validity.not_after.as_second())?;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::OrganizationName, ORGANIZATION);
    params.distinguished_name.push(DnType::CommonName, common_name);
    Ok(params)
}

/// Returns certificates as PEM.
pub(super) fn pem<'c>(certificates: impl IntoIterator<Item = &'c Certificate>) -> String {
    let config = EncodeConfig::new().set_line_ending(LineEnding::LF);
    let blocks: Vec<_> = certificates
        .into_iter()
        .map(|certificate| Pem::new(PEM_TAG, certificate.der.to_vec()))
        .collect();
    pem::encode_many_config(&blocks, config)
}
