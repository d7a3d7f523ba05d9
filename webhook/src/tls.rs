//! The serving certificate: taken from the files of the Secret that the operator (or cert-manager) writes, and replaced while
//! serving.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use k8s_openapi::ByteString;
use rustls::ServerConfig;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use thiserror::Error;

/// The file with the certificate and those that vouch for it, as PEM; a key of the Secret.
pub const CERTIFICATE: &str = "tls.crt";
/// The file with the private key, as PEM; a key of the Secret.
pub const PRIVATE_KEY: &str = "tls.key";

/// Files that can't be served with.
#[derive(Debug, Error)]
pub enum CertificateError {
    /// A file is not there.
    #[error("it has no {0}")]
    Missing(&'static str),
    /// A value is no PEM.
    #[error("its {key} is no PEM: {source}")]
    Pem {
        /// The file.
        key: &'static str,
        /// What is wrong.
        source: pem::Error,
    },
    /// Not a certificate and the key that belongs to it.
    #[error("its {CERTIFICATE} and {PRIVATE_KEY} can't be used together: {0}")]
    Unusable(#[from] rustls::Error),
}

/// The certificate in use. Connections that are open stay as they are when it is replaced.
#[derive(Default)]
pub struct ServingCertificate {
    current: ArcSwapOption<CertifiedKey>,
}

impl fmt::Debug for ServingCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServingCertificate")
            .field("present", &self.is_present())
            .finish()
    }
}

impl ServingCertificate {
    /// Takes a certificate into use. One that can't be used changes nothing.
    pub fn replace(&self, files: Option<&BTreeMap<String, ByteString>>) -> Result<(), CertificateError> {
        let pem = |key: &'static str| {
            let value = files.and_then(|files| files.get(key));
            value
                .map(|value| value.0.as_slice())
                .ok_or(CertificateError::Missing(key))
        };
        let unreadable = |key| move |source| CertificateError::Pem { key, source };
        let chain: Vec<_> = CertificateDer::pem_slice_iter(pem(CERTIFICATE)?)
            .collect::<Result<_, _>>()
            .map_err(unreadable(CERTIFICATE))?;
        let key = PrivateKeyDer::from_pem_slice(pem(PRIVATE_KEY)?).map_err(unreadable(PRIVATE_KEY))?;
        let certified = CertifiedKey::from_der(chain, key, &provider())?;
        self.current.store(Some(Arc::new(certified)));
        Ok(())
    }

    /// Whether there is one.
    pub fn is_present(&self) -> bool {
        self.current.load().is_some()
    }
}

impl ResolvesServerCert for ServingCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.current.load_full()
    }
}

/// The only crypto provider in use.
pub fn provider() -> CryptoProvider {
    ring::default_provider()
}

/// TLS for a server that shows whatever certificate is in use when a connection begins.
pub fn server_config(certificate: Arc<ServingCertificate>) -> Result<ServerConfig, rustls::Error> {
    Ok(ServerConfig::builder_with_provider(Arc::new(provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_cert_resolver(certificate))
}
