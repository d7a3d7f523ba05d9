//! Certificates in files: in the directory where a Secret is mounted and kept up to date. The files are read again and again while serving.
//!
//! Kubernetes shows a volume's files as links into `..data`, which is itself a link to the directory of one version and is exchanged as a
//! whole. All files are read from the directory that `..data` leads to, so a certificate never meets the key of another one.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use thiserror::Error;
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer as _;

/// The file with the certificate and its chain, as PEM; a key of the Secret.
pub const CERTIFICATE: &str = "tls.crt";
/// The file with the private key, as PEM; a key of the Secret.
pub const PRIVATE_KEY: &str = "tls.key";

/// The link to the current version of a volume.
const CURRENT: &str = "..data";
/// How often the files are read. The kubelet itself brings changes within a minute or two.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// The files of one version of a directory, by name.
pub type Files = BTreeMap<&'static str, Vec<u8>>;

/// Files that cannot be used to serve.
#[derive(Debug, Error)]
#[expect(missing_docs, reason = "each message says what its fields are")]
pub enum CertificateError {
    /// A file is missing.
    #[error("it has no {0}")]
    Missing(&'static str),
    /// A file is not PEM.
    #[error("its {file} is no PEM: {source}")]
    Pem { file: &'static str, source: pem::Error },
    /// The files are not a certificate and the key that belongs to it.
    #[error("its {CERTIFICATE} and {PRIVATE_KEY} can't be used together: {0}")]
    Unusable(#[from] rustls::Error),
}

/// The only crypto provider in use.
pub fn provider() -> CryptoProvider {
    ring::default_provider()
}

/// Returns the certificate and key to serve with.
pub fn certified_key(files: &Files) -> Result<CertifiedKey, CertificateError> {
    let chain = certificates(files, CERTIFICATE)?;
    let key = PrivateKeyDer::from_pem_slice(content(files, PRIVATE_KEY)?).map_err(|source| CertificateError::Pem {
        file: PRIVATE_KEY,
        source,
    })?;
    Ok(CertifiedKey::from_der(chain, key, &provider())?)
}

/// Returns when the certificate expires, in seconds since 1970; none where the files have no certificate that can be read.
pub fn expiry(files: &Files) -> Option<i64> {
    let chain = certificates(files, CERTIFICATE).ok()?;
    let (_, own) = X509Certificate::from_der(chain.first()?).ok()?;
    Some(own.validity().not_after.timestamp())
}

/// Returns all certificates in one of the files.
pub fn certificates(files: &Files, file: &'static str) -> Result<Vec<CertificateDer<'static>>, CertificateError> {
    let certificates = CertificateDer::pem_slice_iter(content(files, file)?);
    certificates
        .collect::<Result<_, _>>()
        .map_err(|source| CertificateError::Pem { file, source })
}

fn content<'f>(files: &'f Files, file: &'static str) -> Result<&'f [u8], CertificateError> {
    files
        .get(file)
        .map(Vec::as_slice)
        .ok_or(CertificateError::Missing(file))
}

/// Calls `read` again and again, for ever, and `tell` each time that the result differs from the one before.
pub async fn follow<T: PartialEq>(read: impl Fn() -> T, mut tell: impl FnMut(&T)) {
    let mut seen = None;
    loop {
        // This reads a few small files in memory.
        let now = read();
        if seen.as_ref() != Some(&now) {
            tell(&now);
            seen = Some(now);
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

/// Reads those of the named files that the current version has; none of them if the directory does not exist yet.
pub fn read(directory: &Path, names: &[&'static str]) -> io::Result<Files> {
    loop {
        let current = directory.join(CURRENT).canonicalize();
        let files = read_version(current.as_deref().unwrap_or(directory), names)?;
        // If the version was exchanged meanwhile, some of its files may be gone already.
        let is_still = |found: &PathBuf| directory.join(CURRENT).canonicalize().is_ok_and(|now| now == *found);
        if current.as_ref().map_or(true, is_still) {
            return Ok(files);
        }
    }
}

fn read_version(directory: &Path, names: &[&'static str]) -> io::Result<Files> {
    let mut files = Files::new();
    for name in names {
        match std::fs::read(directory.join(name)) {
            Ok(content) => {
                files.insert(*name, content);
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    const NAMES: [&str; 2] = [CERTIFICATE, PRIVATE_KEY];

    fn read(directory: &Path) -> io::Result<Files> {
        super::read(directory, &NAMES)
    }

    /// Writes a version as the kubelet does: first a new directory, then the exchange of the link.
    fn publish(volume: &Path, version: &str, files: &[(&str, &str)]) {
        let directory = volume.join(version);
        std::fs::create_dir(&directory).unwrap();
        for (name, content) in files {
            std::fs::write(directory.join(name), content).unwrap();
            let link = volume.join(name);
            if !link.is_symlink() {
                symlink(Path::new(CURRENT).join(name), link).unwrap();
            }
        }
        symlink(version, volume.join("..data_tmp")).unwrap();
        std::fs::rename(volume.join("..data_tmp"), volume.join(CURRENT)).unwrap();
    }

    fn names(files: &Files) -> Vec<(&str, &[u8])> {
        let pairs = files.iter().map(|(name, content)| (*name, content.as_slice()));
        pairs.collect()
    }

    #[test]
    fn a_directory_that_is_not_there_or_empty_has_no_files() {
        let volume = tempfile::tempdir().unwrap();
        assert_eq!(read(volume.path()).unwrap(), Files::new());
        assert_eq!(read(&volume.path().join("absent")).unwrap(), Files::new());
    }

    #[test]
    fn both_files_are_of_the_current_version() {
        let volume = tempfile::tempdir().unwrap();
        publish(
            volume.path(),
            "..1",
            &[(CERTIFICATE, "first"), (PRIVATE_KEY, "its key")],
        );
        let first = read(volume.path()).unwrap();
        assert_eq!(names(&first), [(CERTIFICATE, &b"first"[..]), (PRIVATE_KEY, b"its key")]);
        publish(
            volume.path(),
            "..2",
            &[(CERTIFICATE, "second"), (PRIVATE_KEY, "another")],
        );
        std::fs::remove_dir_all(volume.path().join("..1")).unwrap();
        let second = read(volume.path()).unwrap();
        assert_eq!(
            names(&second),
            [(CERTIFICATE, &b"second"[..]), (PRIVATE_KEY, b"another")]
        );
        publish(volume.path(), "..3", &[(CERTIFICATE, "alone")]);
        assert_eq!(names(&read(volume.path()).unwrap()), [(CERTIFICATE, &b"alone"[..])]);
    }

    #[test]
    fn a_plain_directory_will_do() {
        let volume = tempfile::tempdir().unwrap();
        std::fs::write(volume.path().join(CERTIFICATE), "plain").unwrap();
        assert_eq!(names(&read(volume.path()).unwrap()), [(CERTIFICATE, &b"plain"[..])]);
    }

    #[test]
    fn what_can_not_be_read_is_an_error() {
        let volume = tempfile::tempdir().unwrap();
        std::fs::create_dir(volume.path().join(CERTIFICATE)).unwrap();
        assert!(read(volume.path()).is_err());
    }
}
