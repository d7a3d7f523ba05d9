//! Links between the pages lead somewhere.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use cardgate_tests::workspace;

fn pages() -> Result<Vec<PathBuf>> {
    let root = workspace::root();
    let mut pages = vec![root.join("README.md"), root.join("CONTRIBUTING.md")];
    for entry in std::fs::read_dir(root.join("docs"))? {
        pages.push(entry?.path());
    }
    pages.retain(|page| page.extension().is_some_and(|extension| extension == "md"));
    Ok(pages)
}

/// The targets of a page's links.
fn targets(text: &str) -> impl Iterator<Item = &str> {
    let rests = text.split("](").skip(1);
    rests.filter_map(|rest| rest.split_once(')').map(|(target, _)| target))
}

/// What a heading is called in a link.
fn anchor(heading: &str) -> String {
    let kept = heading
        .chars()
        .filter(|char| char.is_alphanumeric() || " -_".contains(*char));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

fn has_heading(page: &Path, wanted: &str) -> Result<bool> {
    let text = std::fs::read_to_string(page)?;
    let mut headings = text.lines().filter_map(|line| line.strip_prefix('#'));
    Ok(headings.any(|heading| anchor(heading.trim_start_matches('#').trim()) == wanted))
}

#[test]
fn links_lead_somewhere() -> Result<()> {
    let mut followed = 0;
    for page in pages()? {
        let text = std::fs::read_to_string(&page)?;
        for target in targets(&text).filter(|target| !target.contains("://")) {
            let (file, heading) = target.split_once('#').unwrap_or((target, ""));
            let there = if file.is_empty() {
                page.clone()
            } else {
                page.parent().context("a page is in a directory")?.join(file)
            };
            let said = format!("{} links to {target}", page.display());
            ensure!(there.exists(), "{said}: there is no such file");
            ensure!(
                heading.is_empty() || has_heading(&there, heading)?,
                "{said}: there is no such heading"
            );
            followed += 1;
        }
    }
    ensure!(followed > 20, "only {followed} links");
    Ok(())
}
