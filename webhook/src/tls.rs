//! The serving certificate. It is read from the files of the Secret that the operator (or cert-manager) writes, and replaced
//! without a restart.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use programs::certificates::{self, CERTIFICATE, CertificateError, Files, PRIVATE_KEY, certified_key, provider};
use programs::clock;
use rustls::ServerConfig;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tracing::{error, info, warn};

use crate::metrics::Metrics;

/// The certificate in use. Open connections are unaffected when it is replaced.
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
    /// Takes a certificate into use. A certificate that can't be used changes nothing.
    pub fn replace(&self, files: &Files) -> Result<(), CertificateError> {
        self.current.store(Some(Arc::new(certified_key(files)?)));
        Ok(())
    }

    /// Whether there is a certificate.
    pub fn is_present(&self) -> bool {
        self.current.load().is_some()
    }
}

impl ResolvesServerCert for ServingCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.current.load_full()
    }
}

/// TLS for a server that uses whatever certificate is current when a connection begins.
pub fn server_config(certificate: Arc<ServingCertificate>) -> Result<ServerConfig, rustls::Error> {
    Ok(ServerConfig::builder_with_provider(Arc::new(provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_cert_resolver(certificate))
}

/// What is in the directory.
#[derive(PartialEq)]
struct Seen {
    files: Result<Files, String>,
    /// When the certificate expires, in seconds since 1970.
    expiry: Option<i64>,
    has_expired: bool,
}

/// Keeps serving with the certificate in the directory, for ever. If the directory's files are bad, or its certificate has
/// expired and no other comes, the certificate in use stays.
pub async fn follow(directory: PathBuf, certificate: Arc<ServingCertificate>, metrics: Arc<Metrics>) {
    let read = || {
        let files = certificates::read(&directory, &[CERTIFICATE, PRIVATE_KEY]).map_err(|error| error.to_string());
        let expiry = files.as_ref().ok().and_then(certificates::expiry);
        Seen {
            files,
            expiry,
            has_expired: expiry.is_some_and(|end| end <= clock::now().as_second()),
        }
    };
    certificates::follow(read, |seen| take(&directory, seen, &certificate, &metrics)).await;
}

fn take(directory: &Path, seen: &Seen, certificate: &ServingCertificate, metrics: &Metrics) {
    let directory = directory.display();
    match &seen.files {
        Ok(files) if files.is_empty() && !certificate.is_present() => {
            info!(%directory, "waiting for the serving certificate: {CERTIFICATE} and {PRIVATE_KEY} in this directory");
        }
        Ok(files) if files.is_empty() => {
            warn!(%directory, "the serving certificate is gone, the one in use stays");
        }
        Ok(files) => match certificate.replace(files) {
            Ok(()) => {
                if let Some(end) = seen.expiry {
                    metrics.certificate_expires(end);
                }
                if seen.has_expired {
                    error!(%directory, "the serving certificate has expired: API servers accept it no more");
                } else {
                    info!(%directory, "serving certificate in use");
                }
                metrics.certificate(!seen.has_expired);
            }
            Err(error) => {
                error!(%directory, "the directory can't be served with: {error}");
                metrics.certificate(false);
            }
        },
        Err(error) => {
            error!(%directory, "the directory can't be read: {error}");
            metrics.certificate(false);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime, UNIX_EPOCH};

    use super::*;

    #[tokio::test]
    async fn versions_come_into_use_and_bad_ones_do_not() {
        let volume = tempfile::tempdir().unwrap();
        let publish = |chain: &str, key: &str| {
            std::fs::write(volume.path().join(CERTIFICATE), chain).unwrap();
            std::fs::write(volume.path().join(PRIVATE_KEY), key).unwrap();
        };
        let (certificate, metrics) = (Arc::<ServingCertificate>::default(), Arc::<Metrics>::default());
        let following = tokio::spawn(follow(
            volume.path().to_owned(),
            Arc::clone(&certificate),
            Arc::clone(&metrics),
        ));
        let valid = |value: u8| format!("cardgate_webhook_certificate_valid {value}\n");
        let awaited = async |value: u8| {
            while !metrics.encode().unwrap().contains(&valid(value)) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let signed = rcgen::generate_simple_self_signed(["webhook".to_owned()]).unwrap();
        let (chain, key) = (signed.cert.pem(), signed.signing_key.serialize_pem());
        assert!(!certificate.is_present());
        publish(&chain, &key);
        let patience = Duration::from_secs(20);
        tokio::time::timeout(patience, awaited(1)).await.unwrap();
        assert!(certificate.is_present());
        publish("garbage", &key);
        tokio::time::timeout(patience, awaited(0)).await.unwrap();
        assert!(certificate.is_present(), "the one in use stays");
        publish(&chain, &key);
        tokio::time::timeout(patience, awaited(1)).await.unwrap();

        // Whoever makes the certificates has stopped to renew them, or the kubelet to bring them.
        let signed = ends(SystemTime::now() + Duration::from_secs(3));
        publish(&signed.0, &signed.1);
        let expiry = || {
            let shown = metrics.encode().unwrap();
            let line = shown.lines().find_map(|line| {
                line.strip_prefix(r#"cardgate_certificate_expiry_timestamp_seconds{certificate="webhook"} "#)
            });
            line.map(|line| line.parse::<u64>().unwrap())
        };
        let soon = || UNIX_EPOCH.elapsed().unwrap().as_secs() + 10;
        let ends_soon = async {
            while expiry().is_none_or(|end| end > soon()) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(patience, ends_soon).await.unwrap();
        tokio::time::timeout(patience, awaited(0)).await.unwrap();
        assert!(certificate.is_present(), "better than none");
        following.abort();
    }

    /// Returns a certificate that ends at this time, and its key.
    fn ends(at: SystemTime) -> (String, String) {
        let mut params = rcgen::CertificateParams::new(["webhook".to_owned()]).unwrap();
        params.not_after = at.into();
        let key = rcgen::KeyPair::generate().unwrap();
        (params.self_signed(&key).unwrap().pem(), key.serialize_pem())
    }
}
