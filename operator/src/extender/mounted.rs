//! The files of a port that is served by TLS, such as the extender's. They are its certificate and the authorities of its callers, in the
//! directory where a Secret is mounted, and the token of another Secret. The files are read again and again while serving.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use programs::certificates::{self, CERTIFICATE, CertificateError, Files, PRIVATE_KEY, certified_key, provider};
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::{DigitallySignedStruct, DistinguishedName, Error, RootCertStore, ServerConfig, SignatureScheme};
use thiserror::Error as ThisError;
use tracing::{info, warn};

use crate::certificates::{EXTENDER_SECRET, REVIEW_SECRET};

/// The file with the authorities that vouch for callers, as PEM; a key of the Secret.
const AUTHORITIES: &str = "ca.crt";
/// The shortest token: 16 characters of base64 are 96 bits.
const SHORTEST_TOKEN: usize = 16;

/// Files that can't be used.
#[derive(Debug, ThisError)]
enum MountedError {
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    #[error("its {AUTHORITIES} can't be used: {0}")]
    Authorities(String),
}

/// A certificate with its key, and the verifier of callers' certificates.
struct Current {
    own: Arc<CertifiedKey>,
    callers: Arc<dyn ClientCertVerifier>,
}

/// What is in the files.
pub struct Mounted {
    /// Name of the port that the certificate is for, and name of the Secret that it comes from; for messages.
    owner: (&'static str, &'static str),
    directory: PathBuf,
    token_file: Option<PathBuf>,
    current: ArcSwapOption<Current>,
    token: ArcSwapOption<String>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl fmt::Debug for Mounted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mounted")
            .field("directory", &self.directory)
            .field("is_present", &self.current.load().is_some())
            .finish_non_exhaustive()
    }
}

impl Mounted {
    /// Returns the files of the extender, not read yet.
    pub fn new(directory: PathBuf, token_file: Option<PathBuf>) -> Arc<Self> {
        Self::of(("the extender", EXTENDER_SECRET), directory, token_file)
    }

    /// Returns the files of the port for reviews, not read yet.
    pub fn of_reviews(directory: PathBuf) -> Arc<Self> {
        Self::of(("the port for reviews", REVIEW_SECRET), directory, None)
    }

    fn of(owner: (&'static str, &'static str), directory: PathBuf, token_file: Option<PathBuf>) -> Arc<Self> {
        Arc::new(Self {
            owner,
            directory,
            token_file,
            current: ArcSwapOption::empty(),
            token: ArcSwapOption::empty(),
            algorithms: provider().signature_verification_algorithms,
        })
    }

    /// Returns the token for callers that cannot show a certificate.
    pub(super) fn token(&self) -> Option<Arc<String>> {
        self.token.load_full()
    }

    /// Reads the files for ever. If new files cannot be used, those in use stay.
    pub async fn follow(self: Arc<Self>) {
        let files = certificates::follow(
            || {
                certificates::read(&self.directory, &[CERTIFICATE, PRIVATE_KEY, AUTHORITIES])
                    .map_err(|error| error.to_string())
            },
            |files| self.take(files),
        );
        let token = certificates::follow(
            || self.token_file.as_deref().and_then(read_token),
            |token| self.take_token(token.clone()),
        );
        tokio::join!(files, token);
    }

    fn take(&self, files: &Result<Files, String>) {
        let directory = self.directory.display();
        let (owner, secret) = self.owner;
        let current = files.as_ref().map_err(Clone::clone);
        match current.and_then(|files| read(files).map_err(|error| error.to_string())) {
            Ok(current) => {
                info!(%directory, "{owner} has its certificate");
                self.current.store(Some(Arc::new(current)));
            }
            Err(error) if self.current.load().is_none() => {
                warn!(
                    %directory,
                    "{owner} waits for its certificate, Secret {secret}: {error}. Beside cert-manager it is made by the components of \
                     manifests/components that say so"
                );
            }
            Err(error) => {
                warn!(%directory, "the certificate of {owner} can't be replaced, the one in use stays: {error}");
            }
        }
    }

    fn take_token(&self, token: Option<String>) {
        if let Some(short) = token.as_ref().filter(|token| token.len() < SHORTEST_TOKEN) {
            warn!(
                "the extender's token has {} characters and is not used: make it {SHORTEST_TOKEN} or longer",
                short.len()
            );
        }
        let token = token.filter(|token| token.len() >= SHORTEST_TOKEN);
        self.token.store(token.map(Arc::new));
    }

    /// Returns a TLS configuration that shows the current certificate, to any caller.
    pub fn open_server_config(self: &Arc<Self>) -> Result<ServerConfig, Error> {
        Ok(ServerConfig::builder_with_provider(Arc::new(provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(Own(Arc::clone(self)))))
    }

    /// Returns a TLS configuration that shows the current certificate and asks callers for theirs. Each connection shows the caller's
    /// certificate anew, so that a caller whose authority has been removed is refused.
    pub fn server_config(self: &Arc<Self>) -> Result<ServerConfig, Error> {
        let mut config = ServerConfig::builder_with_provider(Arc::new(provider()))
            .with_safe_default_protocol_versions()?
            .with_client_cert_verifier(Arc::new(Callers(Arc::clone(self))))
            .with_cert_resolver(Arc::new(Own(Arc::clone(self))));
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(config)
    }
}

/// Returns the token in a file; none if there is no such file, or it is empty.
fn read_token(file: &Path) -> Option<String> {
    let text = std::fs::read_to_string(file).ok()?;
    let token = text.trim();
    (!token.is_empty()).then(|| token.to_owned())
}

fn read(files: &Files) -> Result<Current, MountedError> {
    let own = certified_key(files)?;
    let mut roots = RootCertStore::empty();
    for authority in certificates::certificates(files, AUTHORITIES)? {
        roots
            .add(authority)
            .map_err(|error| MountedError::Authorities(error.to_string()))?;
    }
    let callers = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::new(provider())).build();
    Ok(Current {
        own: Arc::new(own),
        callers: callers.map_err(|error| MountedError::Authorities(error.to_string()))?,
    })
}

/// The extender's own certificate.
#[derive(Debug)]
struct Own(Arc<Mounted>);

impl ResolvesServerCert for Own {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.0.current.load().as_ref().map(|current| Arc::clone(&current.own))
    }
}

/// Verifies callers' certificates.
#[derive(Debug)]
struct Callers(Arc<Mounted>);

impl ClientCertVerifier for Callers {
    fn client_auth_mandatory(&self) -> bool {
        // Callers without a certificate get an explanation over HTTP.
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        // Callers have only one certificate.
        &[]
    }

    fn verify_client_cert(
        &self,
        leaf: &CertificateDer<'_>,
        more: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let current = self.0.current.load();
        let current = current.as_ref().ok_or(rustls::CertificateError::UnknownIssuer)?;
        current.callers.verify_client_cert(leaf, more, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.0.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.algorithms.supported_schemes()
    }
}
