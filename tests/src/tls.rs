//! TLS to the ports of Cardgate, as a client that trusts its authority and may show a certificate.

use std::collections::BTreeMap;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::cardgate::NAMESPACE;
use crate::controlplane::ControlPlane;
use crate::wait::{self, Seen};

/// Nothing on the loopback interface that is alive takes longer.
const LIMIT: Duration = Duration::from_secs(10);

/// A connection that blocks.
pub type Stream = StreamOwned<ClientConnection, TcpStream>;

/// Who a client is, and whom it trusts: PEM.
#[derive(Debug, Clone, Default)]
pub struct Identity {
    /// Certificates of authorities.
    pub authorities: Vec<u8>,
    /// The client's own certificate and key.
    pub own: Option<(Vec<u8>, Vec<u8>)>,
}

impl Identity {
    /// What a Secret of Cardgate's namespace holds, as soon as it is there. Its own certificate is left out where it is not
    /// to be shown.
    pub async fn of_secret(plane: &ControlPlane, name: &str, shows_itself: bool) -> Result<Self> {
        let secrets: Api<Secret> = Api::namespaced(plane.client().await?, NAMESPACE);
        wait::object(&secrets, name, format!("Secret {name}"), |secret| {
            let data = secret.and_then(|secret| secret.data.as_ref());
            let key = |key: &str| data.and_then(|data| data.get(key)).map(|value| value.0.clone());
            let (Some(authorities), certificate, own_key) = (key("ca.crt"), key("tls.crt"), key("tls.key")) else {
                return Seen::NotYet("no ca.crt".to_owned());
            };
            Seen::Done(Self {
                authorities,
                own: certificate.zip(own_key).filter(|_| shows_itself),
            })
        })
        .await
    }

    /// Writes it into files, and says where they are as the `tlsConfig` of a `KubeSchedulerConfiguration` does.
    pub fn write_files(&self, dir: &Path) -> Result<BTreeMap<&'static str, PathBuf>> {
        let (certificate, key) = self.own.as_ref().context("no certificate of its own")?;
        let files = [
            ("caFile", &self.authorities),
            ("certFile", certificate),
            ("keyFile", key),
        ];
        let write = |(name, content): (&'static str, &Vec<u8>)| {
            let path = dir.join(format!("extender-{name}"));
            std::fs::write(&path, content).with_context(|| format!("cannot write {}", path.display()))?;
            Ok((name, path))
        };
        files.into_iter().map(write).collect()
    }

    /// For rustls.
    pub fn config(&self) -> Result<ClientConfig> {
        let certificates = |pem: &[u8]| CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>();
        let mut roots = RootCertStore::empty();
        for authority in certificates(&self.authorities)? {
            roots.add(authority)?;
        }
        let config = ClientConfig::builder().with_root_certificates(roots);
        Ok(match &self.own {
            Some((chain, key)) => {
                config.with_client_auth_cert(certificates(chain)?, PrivateKeyDer::from_pem_slice(key)?)?
            }
            None => config.with_no_client_auth(),
        })
    }
}

/// Connects, without a handshake: that happens with the first bytes.
pub fn connect(address: &str, config: &Arc<ClientConfig>) -> Result<Stream> {
    let socket = TcpStream::connect(address).with_context(|| format!("cannot reach {address}"))?;
    socket.set_read_timeout(Some(LIMIT))?;
    socket.set_write_timeout(Some(LIMIT))?;
    let name = ServerName::try_from("127.0.0.1")?;
    Ok(StreamOwned::new(
        ClientConnection::new(Arc::clone(config), name)?,
        socket,
    ))
}
