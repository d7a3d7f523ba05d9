//! Certificates, keys and tokens of one control plane, made anew for each.

use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, KeyUsagePurpose};

/// The files that the components are pointed at.
#[derive(Debug)]
pub(super) struct Pki {
    /// The certificate authority that signed [`Pki::certificate`].
    pub ca: PathBuf,
    /// The serving certificate of every component, for the loopback interface.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
    /// Signs service account tokens.
    pub signing_key: PathBuf,
    /// Verifies service account tokens.
    pub verifying_key: PathBuf,
    /// The API server's static tokens.
    pub tokens: PathBuf,
}

/// Those who authenticate with a static token.
#[derive(Debug, Clone)]
pub(super) struct Identity {
    pub user: &'static str,
    pub groups: &'static str,
    pub token: String,
}

impl Identity {
    pub fn new(user: &'static str, groups: &'static str) -> Self {
        // Other users of the machine can reach the API server. Two hashers' keys are 256 bits of the system's randomness.
        let random = || RandomState::new().hash_one(user);
        Self {
            user,
            groups,
            token: format!("{:016x}{:016x}", random(), random()),
        }
    }
}

impl Pki {
    pub fn create(dir: &Path, identities: &[&Identity]) -> Result<Self> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let ca = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
        let names = ["127.0.0.1", "localhost", "kubernetes.default.svc"].map(String::from);
        let key = KeyPair::generate()?;
        let certificate = CertificateParams::new(names)?.signed_by(&key, &ca)?;
        let service_accounts = KeyPair::generate()?;

        let write = |name: &str, text: &str| {
            let path = dir.join(name);
            std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
            Ok::<_, anyhow::Error>(path)
        };
        let tokens = identities
            .iter()
            .fold(String::new(), |all, Identity { user, groups, token }| {
                all + &format!("{token},{user},{user},\"{groups}\"\n")
            });
        Ok(Self {
            ca: write("ca.crt", &ca.pem())?,
            certificate: write("server.crt", &certificate.pem())?,
            key: write("server.key", &key.serialize_pem())?,
            signing_key: write("service-accounts.key", &service_accounts.serialize_pem())?,
            // The API server reads a private key here only in the older, algorithm-specific encodings.
            verifying_key: write("service-accounts.pub", &service_accounts.public_key_pem())?,
            tokens: write("tokens.csv", &tokens)?,
        })
    }
}
