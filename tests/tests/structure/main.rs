//! How the crates are built: what the engine depends on, and that no modules depend on each other in a circle.

mod modules;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use cardgate_tests::workspace;

use modules::Crate;

/// What talks to somebody: the API server, a file, a clock of its own.
const TALKERS: [&str; 8] = [
    "actix-web",
    "hyper",
    "kube-client",
    "kube-runtime",
    "mio",
    "reqwest",
    "rustls",
    "tokio",
];

/// The engine decides for whoever asks, so it has neither a client nor a runtime, not even by way of another crate.
#[test]
fn the_engine_talks_to_nobody() -> Result<()> {
    let tree = workspace::cargo()
        .args([
            "tree",
            "--offline",
            "--package=cardgate-engine",
            "--edges=normal",
            "--prefix=none",
            "--format={p}",
        ])
        .output()?;
    ensure!(
        tree.status.success(),
        "cargo tree failed: {}",
        String::from_utf8_lossy(&tree.stderr)
    );
    let tree = String::from_utf8(tree.stdout)?;
    let crates: Vec<_> = tree.lines().filter_map(|line| line.split(' ').next()).collect();
    ensure!(crates.contains(&"cardgate-crds"), "what is this tree? {tree}");
    let talkers: Vec<_> = crates.iter().filter(|name| TALKERS.contains(name)).collect();
    ensure!(
        talkers.is_empty(),
        "the engine depends on {talkers:?}: cargo tree -p cardgate-engine -e normal -i NAME says why"
    );
    Ok(())
}

/// Cargo builds nothing where a member of the workspace is missing, also none of the members that it is to build.
#[test]
fn images_are_built_from_all_members() -> Result<()> {
    let read = |file: &str| fs::read_to_string(workspace::root().join(file));
    let (manifest, ignored) = (read("Cargo.toml")?, read(".dockerignore")?);
    let members = manifest.lines().find_map(|line| line.strip_prefix("members = "));
    let members: Vec<String> = serde_json::from_str(members.unwrap_or_default())?;
    ensure!(members.len() > 5, "what are these members? {members:?}");
    for member in members {
        let sent = format!("!{member}");
        ensure!(
            ignored.lines().any(|line| line == sent),
            ".dockerignore leaves out {member}: add {sent}"
        );
    }
    Ok(())
}

/// Of two modules beside each other one may know the other, directly or by way of others, and then not the other way round.
#[test]
fn no_module_depends_on_one_that_depends_on_it() -> Result<()> {
    let mut circles = Vec::new();
    for name in ["cli", "crds", "engine", "programs", "removal", "webhook", "operator"] {
        let found = Crate::read(&workspace::root().join(name).join("src"))?.circles();
        circles.extend(found.into_iter().map(|circle| format!("{name}: {circle}")));
    }
    ensure!(circles.is_empty(), "circles of modules:\n{}", circles.join("\n"));
    Ok(())
}

fn circles_of(files: &[(&str, &str)]) -> Result<Vec<String>> {
    let mut of_files = Crate::default();
    for (file, text) in files {
        of_files.add(Path::new(file), text)?;
    }
    Ok(of_files.circles())
}

#[test]
fn circles_are_found_in_every_way_of_naming_a_module() -> Result<()> {
    for (a, b) in [
        ("use crate::b::B;", "use crate::a::A;"),
        ("use super::b::{self, B};", "fn b() { crate::a::a() }"),
        ("use crate::{b::B, c::C};", "fn b(a: super::a::A) {}"),
        ("use crate::c::C;", "use crate::a::A;"),
    ] {
        let files = [
            ("lib.rs", "mod a; mod b; mod c;"),
            ("a.rs", a),
            ("b.rs", b),
            ("c/mod.rs", "mod d;"),
            ("c/d.rs", "use crate::b::B;"),
        ];
        let circles = circles_of(&files)?;
        ensure!(circles.len() == 1, "{a} {b}: {circles:?}");
    }
    Ok(())
}

#[test]
fn a_module_and_its_parts_are_one_and_tests_do_not_count() -> Result<()> {
    let circles = circles_of(&[
        ("lib.rs", "mod a; mod b; use a::A;"),
        (
            "a/mod.rs",
            "mod c; use c::C; #[cfg(test)] mod tests { use crate::b::B; }",
        ),
        ("a/c.rs", "use super::A; use crate::a::A2;"),
        ("a/tests.rs", "use crate::b::B;"),
        ("b.rs", "use crate::a::A;"),
    ])?;
    ensure!(circles.is_empty(), "{circles:?}");
    Ok(())
}

/// The files of a directory and of those in it, with this ending.
fn files(directory: &Path, ending: &str) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(files(&path, ending)?);
        } else if path.extension().is_some_and(|extension| extension == ending) {
            found.push(path);
        }
    }
    Ok(found)
}

/// What the five documents show is there once, and a test applies it.
#[test]
fn every_object_of_the_documents_is_in_a_test() -> Result<()> {
    let mut sources = String::new();
    for directory in ["crds/src", "engine/src", "engine/tests", "webhook/tests", "tests/tests"] {
        for source in files(&workspace::root().join(directory), "rs")? {
            sources.push_str(&fs::read_to_string(source)?);
        }
    }
    let documents = workspace::root().join("crds/documents");
    let shown = files(&documents, "yaml")?;
    ensure!(shown.len() > 50, "only {} files", shown.len());
    let mut orphans = Vec::new();
    for file in shown {
        let name = file.strip_prefix(&documents)?.display().to_string();
        if !sources.contains(&format!("\"{name}\"")) {
            orphans.push(name);
        }
    }
    ensure!(orphans.is_empty(), "no test applies {orphans:?}");
    Ok(())
}
