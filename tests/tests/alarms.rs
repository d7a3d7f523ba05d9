//! Alarms and the dashboard ask for metrics that there are, and alarms are raised when they should be.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use cardgate_tests::manifests::{self, reference::shown_metrics};
use cardgate_tests::{go_tool, workspace};
use serde_json::{Value, json};

/// The names of Cardgate's metrics in an expression.
fn names(expression: &str) -> impl Iterator<Item = &str> {
    let words = expression.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    words.filter(|word| word.starts_with("cardgate_") || word.starts_with("volcano_"))
}

/// Names of samples, each with the names of its labels.
fn samples(shown: &str) -> BTreeMap<&str, BTreeSet<&str>> {
    let mut samples: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for line in shown.lines().filter(|line| !line.starts_with('#')) {
        let (name, rest) = line.split_once(['{', ' ']).unwrap_or((line, ""));
        let labels = rest.split_once('}').map_or("", |(labels, _)| labels);
        let labels = labels.split("\",").filter_map(|label| Some(label.split_once('=')?.0));
        samples.entry(name).or_default().extend(labels);
    }
    samples
}

fn ensure_shown(samples: &BTreeMap<&str, BTreeSet<&str>>, what: &str, expression: &str) -> Result<usize> {
    for name in names(expression) {
        ensure!(samples.contains_key(name), "{what}: nobody shows {name}");
    }
    Ok(names(expression).count())
}

/// What is in the `PrometheusRule`: `groups`, as Prometheus itself reads them.
fn groups() -> Result<Value> {
    let rules = std::fs::read_to_string(manifests::directory().join("components/prometheus/rules.yaml"))?;
    let rules: Value = serde_saphyr::from_str(&rules)?;
    ensure!(rules["spec"]["groups"].is_array(), "no groups");
    Ok(rules["spec"].clone())
}

fn alarms(groups: &Value) -> impl Iterator<Item = &Value> {
    let groups = groups["groups"].as_array().into_iter().flatten();
    groups.flat_map(|group| group["rules"].as_array().into_iter().flatten())
}

#[test]
#[ignore = "promtool takes some minutes to build"]
fn each_alarm_is_raised_when_it_should_be_and_only_then() -> Result<()> {
    let groups = groups()?;
    let cases = std::fs::read_to_string(workspace::root().join("tests/promtool/alarms.yaml"))?;
    let parsed: Value = serde_saphyr::from_str(&cases)?;
    let mut raised: BTreeMap<&str, BTreeSet<bool>> = BTreeMap::new();
    for case in parsed["tests"].as_array().context("no tests")? {
        for case in case["alert_rule_test"].as_array().context("no alarm")? {
            let name = case["alertname"].as_str().context("no name")?;
            raised.entry(name).or_default().insert(case["exp_alerts"] != json!([]));
        }
    }
    for alarm in alarms(&groups) {
        let name = alarm["alert"].as_str().context("no name")?;
        ensure!(
            raised.get(name).is_some_and(|cases| cases.len() == 2),
            "{name}: say in tests/promtool/alarms.yaml when it is raised, and when not"
        );
    }
    let directory = tempfile::tempdir()?;
    std::fs::write(directory.path().join("rules.yaml"), groups.to_string())?;
    std::fs::write(directory.path().join("alarms.yaml"), cases)?;
    let promtool = go_tool::build(
        "promtool",
        "github.com/prometheus/prometheus/cmd/promtool",
        &["-tags", "remove_all_sd"],
    )?;
    let tested = Command::new(promtool)
        .current_dir(directory.path())
        .args(["test", "rules", "alarms.yaml"])
        .output()?;
    ensure!(
        tested.status.success(),
        "{}{}",
        String::from_utf8_lossy(&tested.stdout),
        String::from_utf8_lossy(&tested.stderr)
    );
    Ok(())
}

#[test]
fn every_metric_of_an_alarm_is_shown_by_a_program() -> Result<()> {
    let groups = groups()?;
    let shown = shown_metrics()?;
    let there = samples(&shown);
    let mut asked = 0;
    for rule in alarms(&groups) {
        let expression = rule["expr"].as_str().context("an alarm without expression")?;
        asked += ensure_shown(&there, &rule["alert"].to_string(), expression)?;
        for text in ["summary", "description"] {
            ensure!(rule["annotations"][text].is_string(), "{} has no {text}", rule["alert"]);
        }
    }
    ensure!(asked > 10, "only {asked} metrics are asked for");
    Ok(())
}

/// The labels that an expression sums by or compares: each must be of every metric that it asks for.
fn labels(expression: &str) -> BTreeSet<&str> {
    let by = expression
        .split("by (")
        .skip(1)
        .filter_map(|rest| rest.split(')').next());
    let by = by.flat_map(|labels| labels.split(','));
    let compared = expression
        .split('{')
        .skip(1)
        .filter_map(|rest| rest.split(['=', '!']).next());
    by.chain(compared).map(str::trim).collect()
}

#[test]
fn every_metric_of_the_dashboard_is_shown_by_a_program_with_its_labels() -> Result<()> {
    let dashboard = std::fs::read_to_string(manifests::directory().join("components/prometheus/dashboard.json"))?;
    let dashboard: Value = serde_json::from_str(&dashboard)?;
    let shown = shown_metrics()?;
    let there = samples(&shown);
    let panels = dashboard["panels"].as_array().context("no panels")?;
    let mut asked = 0;
    for panel in panels {
        for target in panel["targets"].as_array().into_iter().flatten() {
            let expression = target["expr"].as_str().context("a panel without expression")?;
            asked += ensure_shown(&there, &panel["title"].to_string(), expression)?;
            for name in names(expression) {
                let missing: Vec<_> = labels(expression).difference(&there[name]).copied().collect();
                ensure!(missing.is_empty(), "{}: {name} has no {missing:?}", panel["title"]);
            }
        }
    }
    ensure!(asked > 15, "only {asked} metrics are asked for");
    Ok(())
}
