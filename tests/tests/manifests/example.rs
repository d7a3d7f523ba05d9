//! The example of the configuration has all that can be configured, as it is by default.

use std::collections::BTreeSet;

use anyhow::Context as _;
use cardgate_tests::workspace;
use crds::configuration::{CARDGATE_YAML, Configuration, SCHEDULER_CONF};
use serde_json::Value;

use super::Outcome;

/// The example says so of itself: every setting is in it, with its default.
#[test]
fn the_example_of_the_configuration_is_the_default() -> Outcome {
    let text = std::fs::read_to_string(workspace::root().join("examples/configuration.yaml"))?;
    let map: Value = serde_saphyr::from_str(&text)?;
    let read = |key: &str| map["data"][key].as_str().with_context(|| format!("no {key}"));
    let (scheduler, own) = (read(SCHEDULER_CONF)?, read(CARDGATE_YAML)?);
    let parsed = Configuration::parse(Some(scheduler), Some(own))?;
    assert_eq!(parsed.configuration, Configuration::default());
    assert_eq!(parsed.warnings, Vec::<String>::new());

    // A setting that the program knows and the example doesn't is one that nobody will find.
    let example: Value = serde_saphyr::from_str(own)?;
    let example: Vec<&str> = example
        .as_object()
        .context("no settings")?
        .keys()
        .map(String::as_str)
        .collect();
    let unknown = Configuration::parse(None, Some("noSuchSetting: true"))?
        .warnings
        .join("");
    for setting in &example {
        assert!(unknown.contains(setting), "{setting} is missing in: {unknown}");
    }
    let known = unknown.rsplit(": ").next().unwrap_or_default();
    assert_eq!(known.split(", ").count(), example.len(), "{unknown}");
    Ok(())
}

/// Each plugin's arguments, those that are off there as comments.
#[test]
fn the_example_of_the_configuration_has_every_argument() -> Outcome {
    let text = std::fs::read_to_string(workspace::root().join("examples/configuration.yaml"))?;
    let words: BTreeSet<&str> = text
        .split(|letter: char| !(letter.is_ascii_alphanumeric() || "._-".contains(letter)))
        .collect();
    for (plugin, argument) in [
        ("capacity-card", "noSuchArgument"),
        ("capacity", "noSuchArgument"),
        // Volcano's own arguments of this plugin are nobody's business here.
        ("predicates", "predicate.MGPUNoSuchArgument"),
        ("crossquota", "noSuchArgument"),
    ] {
        let scheduler = format!("tiers: [{{plugins: [{{name: {plugin}, arguments: {{{argument}: true}}}}]}}]");
        let warnings = Configuration::parse(Some(&scheduler), None)?.warnings;
        let unknown = warnings.iter().find(|warning| warning.contains(argument));
        let unknown = unknown.with_context(|| format!("{plugin}: {warnings:?}"))?;
        let known = unknown.rsplit(" are ").next().unwrap_or_default();
        for argument in known.split(", ") {
            let argument = argument.replace("<resource>", "cpu");
            assert!(
                words.contains(&*argument),
                "{plugin}: {argument} is missing, of: {unknown}"
            );
        }
    }
    Ok(())
}
