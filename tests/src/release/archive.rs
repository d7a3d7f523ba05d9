//! Archives that are the same whenever and wherever they are packed: no times, no owners.

use std::io::Write;

use anyhow::Result;
use flate2::{Compression, GzBuilder};
use tar::{Builder, EntryType, Header};

/// What lies in an archive.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Where, without a leading slash.
    pub path: String,
    /// Nothing for a directory.
    pub content: Option<Vec<u8>>,
    /// Who may do what with it.
    pub mode: u32,
}

impl Entry {
    /// A file that everybody may read.
    pub fn file(path: impl Into<String>, content: impl Into<Vec<u8>>) -> Self {
        Self {
            path: path.into(),
            content: Some(content.into()),
            mode: 0o644,
        }
    }

    /// A file that everybody may run.
    pub fn program(path: impl Into<String>, content: impl Into<Vec<u8>>) -> Self {
        Self {
            mode: 0o755,
            ..Self::file(path, content)
        }
    }

    /// A directory that everybody may look into.
    pub fn directory(path: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            content: None,
            mode: 0o755,
        }
    }
}

/// A tar archive, in the order given.
pub fn pack(entries: &[Entry]) -> Result<Vec<u8>> {
    let mut archive = Builder::new(Vec::new());
    for entry in entries {
        let content = entry.content.as_deref();
        let mut header = Header::new_gnu();
        header.set_entry_type(if content.is_some() {
            EntryType::Regular
        } else {
            EntryType::Directory
        });
        header.set_size(content.unwrap_or_default().len().try_into()?);
        header.set_mode(entry.mode);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(0);
        archive.append_data(&mut header, &entry.path, content.unwrap_or_default())?;
    }
    Ok(archive.into_inner()?)
}

/// Bytes, compressed by gzip.
pub fn compress(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut gzip = GzBuilder::new().mtime(0).write(Vec::new(), Compression::best());
    gzip.write_all(bytes)?;
    Ok(gzip.finish()?)
}
