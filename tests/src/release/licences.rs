//! The texts of the licences of all that is compiled into a release, as most of them want it: each text once, with who it is of.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Deserialize;

use super::parts::{Origin, output};
use super::{Part, Platform};
use crate::workspace;

/// How files with licences begin, whatever their case.
const NAMES: [&str; 5] = ["license", "licence", "copying", "notice", "unlicense"];

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    version: String,
    manifest_path: PathBuf,
}

/// All texts. A part that comes without one is named with its licence and nothing else.
pub fn texts<'a>(parts: impl IntoIterator<Item = &'a Part>, platform: &Platform) -> Result<String> {
    let mut cargo = workspace::cargo();
    cargo.args([
        "metadata",
        "--locked",
        "--format-version=1",
        "--filter-platform",
        &platform.triple,
    ]);
    let metadata: Metadata =
        serde_json::from_str(&output(&mut cargo)?).context("`cargo metadata` printed something unexpected")?;
    let manifests: BTreeMap<_, _> = metadata
        .packages
        .iter()
        .map(|package| ((&*package.name, &*package.version), &package.manifest_path))
        .collect();
    let parts: BTreeSet<_> = parts.into_iter().filter(|part| part.origin != Origin::Ours).collect();
    let mut by_text: BTreeMap<String, BTreeSet<&Part>> = BTreeMap::new();
    let mut text = "What Cardgate's programs are made of, each with its licence; the texts follow.\n\n".to_owned();
    for part in parts {
        writeln!(text, "{} {}: {}", part.name, part.version, part.licence)?;
        let manifest = manifests.get(&(&*part.name, &*part.version));
        let Some(directory) = manifest.and_then(|path| path.parent()) else {
            continue;
        };
        for found in files(directory)? {
            by_text.entry(found).or_default().insert(part);
        }
    }
    for (licence, parts) in by_text {
        let names: Vec<_> = parts
            .iter()
            .map(|part| format!("{} {}", part.name, part.version))
            .collect();
        write!(text, "\n{}\n{}\n\n{licence}\n", "-".repeat(80), names.join(", "))?;
    }
    Ok(text)
}

/// The licences that lie in a crate's directory.
fn files(directory: &Path) -> Result<Vec<String>> {
    let mut texts = Vec::new();
    for found in fs::read_dir(directory).with_context(|| format!("can't read {}", directory.display()))? {
        let found = found?;
        let name = found.file_name().to_string_lossy().to_lowercase();
        if found.file_type()?.is_file() && NAMES.iter().any(|beginning| name.starts_with(beginning)) {
            let text = String::from_utf8_lossy(&fs::read(found.path())?).replace("\r\n", "\n");
            texts.push(text.trim().to_owned());
        }
    }
    Ok(texts)
}
