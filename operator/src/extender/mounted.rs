//! The files of the extender: its certificate and the authorities of its callers, in the directory where a Secret is mounted, and
//! the token of another Secret. They are read anew while serving.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{WebPkiSupportedAlgorithms, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, RootCertStore, ServerConfig, SignatureScheme,
};
use thiserror::Error as ThisError;
use tokio::time::sleep;
use tracing::{info, warn};

/// How often the files are looked at: a kubelet brings changes within a minute.
const LOOK_AGAIN: Duration = Duration::from_secs(2);
/// The shortest token: 16 characters of base64 are 96 bits.
const SHORTEST_TOKEN: usize = 16;
/// The link to the current version of a mounted Secret.
const CURRENT: &str = "..data";

/// Files that can't be used.
#[derive(Debug, ThisError)]
enum MountedError {
    #[error("can't read {0}: {1}")]
    Read(&'static str, io::Error),
    #[error("{0} is no PEM: {1}")]
    Pem(&'static str, pem::Error),
    #[error("tls.crt and tls.key can't be used together: {0}")]
    Unusable(Error),
    #[error("ca.crt can't be used: {0}")]
    Authorities(String),
}

/// A certificate with its key, and who vouches for callers.
struct Current {
    own: Arc<CertifiedKey>,
    callers: Arc<dyn ClientCertVerifier>,
}

/// What is in the files.
pub struct Mounted {
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
    /// Files that are not read yet.
    pub fn new(directory: PathBuf, token_file: Option<PathBuf>) -> Arc<Self> {
        Arc::new(Self {
            directory,
            token_file,
            current: ArcSwapOption::empty(),
            token: ArcSwapOption::empty(),
            algorithms: ring::default_provider().signature_verification_algorithms,
        })
    }

    /// The token of those who can't show a certificate.
    pub(super) fn token(&self) -> Option<Arc<String>> {
        self.token.load_full()
    }

    /// Reads the files for ever. Whatever is wrong with them, what is in use stays.
    pub async fn follow(self: Arc<Self>) {
        let mut seen = None;
        let mut token_seen = None;
        loop {
            let files = self.files().map_err(|error| error.to_string());
            if seen.as_ref() != Some(&files) {
                self.take(&files);
                seen = Some(files);
            }
            let token = self.token_file.as_deref().map(read_token);
            if token_seen != token {
                self.take_token(token.clone().flatten());
                token_seen = token;
            }
            sleep(LOOK_AGAIN).await;
        }
    }

    /// `tls.crt`, `tls.key` and `ca.crt` of one version.
    fn files(&self) -> Result<[Vec<u8>; 3], MountedError> {
        // What is read from one version is of one version: Kubernetes exchanges it as a whole.
        let version = self.directory.join(CURRENT).canonicalize();
        let directory = version.as_deref().unwrap_or(&self.directory);
        let read = |name| std::fs::read(directory.join(name)).map_err(|error| MountedError::Read(name, error));
        Ok([read("tls.crt")?, read("tls.key")?, read("ca.crt")?])
    }

    fn take(&self, files: &Result<[Vec<u8>; 3], String>) {
        let directory = self.directory.display();
        let current = files.as_ref().map_err(Clone::clone);
        match current.and_then(|files| read(files).map_err(|error| error.to_string())) {
            Ok(current) => {
                info!(%directory, "the extender's certificate is in use");
                self.current.store(Some(Arc::new(current)));
            }
            Err(error) if self.current.load().is_none() => {
                warn!(
                    %directory,
                    "the extender waits for its certificate, Secret cardgate-extender-tls: {error}. Beside cert-manager it is made by \
                     manifests/components/scheduler-extender-cert-manager"
                );
            }
            Err(error) => {
                warn!(%directory, "the extender's certificate can't be replaced, the one in use stays: {error}");
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

    /// TLS that shows whatever certificate is there, and asks callers for theirs. Each connection shows it anew, so that one
    /// whose authority is gone is refused.
    pub fn server_config(self: &Arc<Self>) -> Result<ServerConfig, Error> {
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_client_cert_verifier(Arc::new(Callers(Arc::clone(self))))
            .with_cert_resolver(Arc::new(Own(Arc::clone(self))));
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(config)
    }
}

/// The token in a file; none where there is no such file, or nothing in it.
fn read_token(file: &Path) -> Option<String> {
    let text = std::fs::read_to_string(file).ok()?;
    let token = text.trim();
    (!token.is_empty()).then(|| token.to_owned())
}

fn read([chain, key, authorities]: &[Vec<u8>; 3]) -> Result<Current, MountedError> {
    let certificates = |name: &'static str, text: &[u8]| -> Result<Vec<CertificateDer<'static>>, MountedError> {
        CertificateDer::pem_slice_iter(text)
            .collect::<Result<_, _>>()
            .map_err(|error| MountedError::Pem(name, error))
    };
    let chain = certificates("tls.crt", chain)?;
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| MountedError::Pem("tls.key", error))?;
    let provider = Arc::new(ring::default_provider());
    let own = CertifiedKey::from_der(chain, key, &provider).map_err(MountedError::Unusable)?;
    let mut roots = RootCertStore::empty();
    for authority in certificates("ca.crt", authorities)? {
        roots
            .add(authority)
            .map_err(|error| MountedError::Authorities(error.to_string()))?;
    }
    let callers = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
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

/// Who vouches for callers.
#[derive(Debug)]
struct Callers(Arc<Mounted>);

impl ClientCertVerifier for Callers {
    fn client_auth_mandatory(&self) -> bool {
        // They are told in words.
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        // They have only one.
        &[]
    }

    fn verify_client_cert(
        &self,
        leaf: &CertificateDer<'_>,
        more: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let current = self.0.current.load();
        let current = current.as_ref().ok_or(CertificateError::UnknownIssuer)?;
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
