//! A release, as one directory: images, the chart, files for `kubectl apply -f`, the plugin, what all of it is made of, under which
//! licences, and checksums. It needs neither Docker nor the network, once Cargo has the crates; who builds the same sources with the
//! same compiler gets the same images.

mod archive;
mod image;
mod licences;
mod parts;
mod programs;
mod sbom;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use sha2::{Digest, Sha256};

use crate::manifests;
use crate::workspace;

pub use image::{Image, USER};
pub use licences::texts as licence_texts;
pub use parts::{Part, of as parts_of};
pub use programs::{PROGRAMS, Platform, Program};
pub use sbom::json as bill_of_materials;

use archive::{Entry, compress, pack};

/// The version of everything here.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The file that `sha256sum --check` reads.
const CHECKSUMS: &str = "SHA256SUMS";
/// The texts of all licences.
const LICENCES: &str = "THIRD-PARTY-LICENSES.txt";

/// Makes a release of what lies on disk in a directory, which must be empty or absent; says of each file that it is there. Blocks, for
/// minutes: it compiles all programs.
pub fn release(directory: &Path, kubectl: &Path, mut said: impl FnMut(&str)) -> Result<()> {
    if directory.exists() && fs::read_dir(directory)?.next().is_some() {
        bail!(
            "{} is not empty: remove it, or name another directory by --to",
            directory.display()
        );
    }
    ensure_current(kubectl)?;
    let platform = Platform::of_this_machine()?;
    said(&format!("compiling for {platform}, which takes some minutes"));
    let built = programs::build(&platform)?;
    fs::create_dir_all(directory).with_context(|| format!("can't make {}", directory.display()))?;
    let mut files = Files {
        directory,
        said,
        checksums: BTreeMap::new(),
    };
    let mut all_parts = BTreeSet::new();
    for program in &PROGRAMS {
        let parts = parts::of(program, &platform)?;
        files.keep(
            &format!("{}.cdx.json", program.released_as(&platform)),
            &sbom::json(program, &parts)?,
        )?;
        all_parts.extend(parts);
    }
    let licences = licences::texts(&all_parts, &platform)?.into_bytes();
    for (program, path) in PROGRAMS.iter().zip(built) {
        let binary = fs::read(&path).with_context(|| format!("can't read {}", path.display()))?;
        let name = program.released_as(&platform);
        if program.ports.is_empty() {
            let entries = [
                Entry::program(program.binary, binary),
                Entry::file("LICENSE", fs::read(workspace::root().join("LICENSE"))?),
                Entry::file(LICENCES, licences.clone()),
            ];
            files.keep(&format!("{name}.tar.gz"), &compress(&pack(&entries)?)?)?;
        } else {
            let image = Image {
                program,
                binary,
                licences: &licences,
                platform: &platform,
            };
            files.keep(&format!("{name}.tar"), &image.archive()?)?;
        }
    }
    files.keep(&format!("cardgate-{VERSION}.tgz"), &chart()?)?;
    for generated in manifests::install_files(kubectl)? {
        files.keep(&generated.path.display().to_string(), generated.content.as_bytes())?;
    }
    files.keep(LICENCES, &licences)?;
    let sums: Vec<_> = files
        .checksums
        .iter()
        .map(|(name, sum)| format!("{sum}  {name}\n"))
        .collect();
    files.keep(CHECKSUMS, sums.concat().as_bytes())
}

/// The files of a release.
struct Files<'a, Said> {
    directory: &'a Path,
    said: Said,
    /// By name.
    checksums: BTreeMap<String, String>,
}

impl<Said: FnMut(&str)> Files<'_, Said> {
    fn keep(&mut self, name: &str, content: &[u8]) -> Result<()> {
        let path = self.directory.join(name);
        fs::write(&path, content).with_context(|| format!("can't write {}", path.display()))?;
        (self.said)(&format!(
            "wrote {} ({} KiB)",
            path.display(),
            content.len().div_ceil(1024)
        ));
        self.checksums.insert(name.to_owned(), digest(content));
        Ok(())
    }
}

/// Fails where a generated file is not what it is generated from: people would install another thing than the release's sources say.
fn ensure_current(kubectl: &Path) -> Result<()> {
    for generated in manifests::install_files(kubectl)?
        .into_iter()
        .chain(manifests::chart::files(kubectl)?)
    {
        ensure!(
            generated.diff()?.is_none(),
            "manifests/{} is not current: run `cargo manifests`, and commit what it writes",
            generated.path.display()
        );
    }
    Ok(())
}

/// The chart as Helm packs it: everything below a directory of the chart's name.
pub fn chart() -> Result<Vec<u8>> {
    let root = manifests::directory().join("chart");
    let mut entries = Vec::new();
    let mut open = vec![PathBuf::new()];
    while let Some(below) = open.pop() {
        for found in fs::read_dir(root.join(&below))? {
            let found = found?;
            let path = below.join(found.file_name());
            if found.file_type()?.is_dir() {
                open.push(path);
            } else {
                let name = format!("cardgate/{}", path.display());
                entries.push(Entry::file(name, fs::read(root.join(&path))?));
            }
        }
    }
    // Whatever order the directory has them in.
    entries.sort_by(|one, other| one.path.cmp(&other.path));
    compress(&pack(&entries)?)
}

/// The SHA-256 of bytes, in hexadecimal digits.
fn digest(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}
