//! Follows the directory of the serving certificate, in which the kubelet keeps a Secret up to date.
//!
//! Kubernetes shows a volume's files as links into `..data`, itself a link to the directory of one version, which is exchanged as a
//! whole. Both files are read from what that leads to, so a certificate never meets the key of another.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::ByteString;
use tracing::{error, info, warn};

use crate::metrics::Metrics;
use crate::tls::{CERTIFICATE, PRIVATE_KEY, ServingCertificate};

/// The link to the current version of a volume.
const CURRENT: &str = "..data";
/// How often the directory is looked at. The kubelet itself brings changes within a minute or two.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// The files of one version.
type Files = BTreeMap<String, ByteString>;

/// Serves with what the directory holds, for ever. Whatever is wrong with it, the certificate in use stays.
pub async fn follow(directory: PathBuf, certificate: Arc<ServingCertificate>, metrics: Arc<Metrics>) {
    let mut seen: Option<Result<Files, String>> = None;
    loop {
        // Two small files in memory.
        let now = read(&directory).map_err(|error| error.to_string());
        if seen.as_ref() != Some(&now) {
            tell(&directory, &now, &certificate, &metrics);
            seen = Some(now);
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

fn tell(directory: &Path, files: &Result<Files, String>, certificate: &ServingCertificate, metrics: &Metrics) {
    let directory = directory.display();
    match files {
        Ok(files) if files.is_empty() && !certificate.is_present() => {
            info!(%directory, "waiting for the serving certificate: {CERTIFICATE} and {PRIVATE_KEY} in this directory");
        }
        Ok(files) if files.is_empty() => {
            warn!(%directory, "the serving certificate is gone, the one in use stays");
        }
        Ok(files) => match certificate.replace(Some(files)) {
            Ok(()) => {
                info!(%directory, "serving certificate in use");
                metrics.certificate(true);
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

/// The files of the version that is current; none where there is no such directory or file yet.
fn read(directory: &Path) -> io::Result<Files> {
    loop {
        let current = directory.join(CURRENT).canonicalize();
        let files = read_version(current.as_deref().unwrap_or(directory))?;
        // Of a version that was exchanged meanwhile, something may be gone already.
        let is_still = |found: &PathBuf| directory.join(CURRENT).canonicalize().is_ok_and(|now| now == *found);
        if current.as_ref().map_or(true, is_still) {
            return Ok(files);
        }
    }
}

fn read_version(directory: &Path) -> io::Result<Files> {
    let mut files = Files::new();
    for name in [CERTIFICATE, PRIVATE_KEY] {
        match std::fs::read(directory.join(name)) {
            Ok(content) => {
                files.insert(name.to_owned(), ByteString(content));
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

    /// Writes a version as the kubelet does: a directory of its own, then the exchange of the link.
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
        let pairs = files
            .iter()
            .map(|(name, content)| (name.as_str(), content.0.as_slice()));
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

    #[tokio::test]
    async fn versions_come_into_use_and_bad_ones_do_not() {
        let volume = tempfile::tempdir().unwrap();
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
        publish(volume.path(), "..1", &[(CERTIFICATE, &chain), (PRIVATE_KEY, &key)]);
        let patience = Duration::from_secs(20);
        tokio::time::timeout(patience, awaited(1)).await.unwrap();
        assert!(certificate.is_present());
        publish(volume.path(), "..2", &[(CERTIFICATE, "garbage"), (PRIVATE_KEY, &key)]);
        tokio::time::timeout(patience, awaited(0)).await.unwrap();
        assert!(certificate.is_present(), "the one in use stays");
        publish(volume.path(), "..3", &[(CERTIFICATE, &chain), (PRIVATE_KEY, &key)]);
        tokio::time::timeout(patience, awaited(1)).await.unwrap();
        following.abort();
    }
}
