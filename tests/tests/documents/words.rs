//! The reference has every condition that objects show, and every reason of one, by its word.

use std::collections::BTreeSet;
use std::fs;

use anyhow::Context as _;
use cardgate_tests::workspace;

use crate::Outcome;

/// The words that a source names in quotes.
fn words(source: &str) -> impl Iterator<Item = &str> {
    let quoted = source.split('"').skip(1).step_by(2);
    quoted.filter(|text| {
        let is_word = text.len() > 1 && text.chars().all(|letter| letter.is_ascii_alphanumeric());
        is_word && text.starts_with(|first: char| first.is_ascii_uppercase())
    })
}

#[test]
fn every_condition_and_every_reason_of_one_stands_in_the_reference() -> Outcome {
    let read = |path: &str| fs::read_to_string(workspace::root().join(path)).with_context(|| path.to_owned());
    let reference = read("docs/reference.md")?;
    let objects = read("engine/src/overview/status.rs")?;
    let reports = read("operator/src/report/message.rs")?;
    let groups = reports
        .split("fn group_patch")
        .nth(1)
        .and_then(|rest| rest.split("#[cfg(test)]").next());
    let shown: BTreeSet<_> = words(&objects)
        .chain(words(groups.context("no conditions of groups")?))
        .collect();
    assert!(
        shown.contains("SeveralNodesReach") && shown.contains("Unschedulable"),
        "{shown:?}"
    );
    let missing: Vec<_> = shown
        .into_iter()
        .filter(|word| !matches!(*word, "True" | "False") && !reference.contains(&format!("`{word}`")))
        .collect();
    assert!(
        missing.is_empty(),
        "say in tests/src/manifests/reference.md what these mean: {missing:?}"
    );
    Ok(())
}
