//! `docs/reference.md`: what is written by hand, and what the code says: keys, conditions, events, the configuration,
//! flags, metrics.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::{Command, CommandFactory as _};
use crds::card_type::CardTypeStatus;
use engine::discovery::{Problem, Severity};
use engine::happening::Happening;
use engine::overview::{CardFigures, QueueFigures, StandingFigures, Unsatisfiable};
use engine::reason::Reason;
use k8s_openapi::jiff::Timestamp;
use operator::metrics::{Certificate, Verb, Write};
use programs::ports::refusals::Reason as Refused;

use super::Generated;
use crate::workspace;

/// What is written by hand, with places for the rest.
const TEXT: &str = include_str!("reference.md");

/// `docs/reference.md`.
///
/// # Errors
/// The sources can't be read.
pub fn document() -> Result<Generated> {
    let read = |path: &str| fs::read_to_string(workspace::root().join(path)).with_context(|| path.to_owned());
    let configuration = read("examples/configuration.yaml")?;
    let content = TEXT
        .replace("@KEYS@", keys(&read("crds/src/keys.rs")?).trim_end())
        .replace("@EVENTS@", events().trim_end())
        .replace("@UNPUBLISHED@", &problems(Severity::Unpublished))
        .replace("@NOTES@", &problems(Severity::Note))
        .replace(
            "@UNSATISFIABLE@",
            &listed(Unsatisfiable::ALL.map(Unsatisfiable::as_str)),
        )
        .replace("@CONFIGURATION@", configuration.trim_end())
        .replace("@FLAGS@", flags().trim_end())
        .replace("@METRICS@", metrics(&shown_metrics()?)?.trim_end());
    Ok(Generated {
        path: "../docs/reference.md".into(),
        content,
    })
}

/// The constants that are keys of Kubernetes' objects (they have a domain), with what is written above them.
fn keys(source: &str) -> String {
    let mut rows = String::new();
    let mut comment = String::new();
    for line in source.lines() {
        if let Some(more) = line.strip_prefix("/// ") {
            comment.extend([more, " "]);
            continue;
        }
        let value = line.strip_prefix("pub const ").and_then(|line| line.split('"').nth(1));
        if let Some(key) = value.filter(|key| key.contains('/')) {
            let comment = comment.trim_end().trim_end_matches('.').replace('|', "\\|");
            let _ = writeln!(rows, "| `{key}` | {} |", plain(&comment));
        }
        comment.clear();
    }
    rows
}

/// What events say that happened.
fn events() -> String {
    let mut rows = String::new();
    for happening in Happening::ALL {
        let (on, word) = (happening.on(), happening.as_str());
        let meaning = happening.meaning().trim_end_matches('.');
        let _ = writeln!(rows, "| {on} | `{word}` | {meaning} |");
    }
    rows
}

/// What may be wrong with the cards of a node.
fn problems(severity: Severity) -> String {
    let of_severity = Problem::REASONS.into_iter().filter(|(_, its)| *its == severity);
    listed(of_severity.map(|(reason, _)| reason))
}

fn listed(words: impl IntoIterator<Item = &'static str>) -> String {
    let words: Vec<_> = words.into_iter().map(|word| format!("`{word}`")).collect();
    words.join(", ")
}

/// A comment without the links of rustdoc.
fn plain(comment: &str) -> String {
    comment.replace("[`", "`").replace("`]", "`")
}

/// The flags of both programs, those that both have once.
fn flags() -> String {
    let (operator, webhook) = (operator::cli::Cli::command(), webhook::flags::Flags::command());
    let (of_operator, of_webhook) = (rows_of(&operator), rows_of(&webhook));
    let (both, of_operator): (Vec<_>, Vec<_>) = of_operator.into_iter().partition(|row| of_webhook.contains(row));
    let of_webhook = of_webhook.into_iter().filter(|row| !both.contains(row)).collect();
    let tasks = operator.get_subcommands();
    let tasks = tasks.map(|task| (format!("`operator {}`", task.get_name()), rows_of(task)));
    let programs = [
        ("both", both.clone()),
        ("operator", of_operator),
        ("webhook", of_webhook),
    ];
    let programs = programs.map(|(of, rows)| (of.to_owned(), rows));
    let mut text = String::new();
    for (of, rows) in programs.into_iter().chain(tasks) {
        for row in rows {
            let _ = writeln!(text, "| {of} | {row} |");
        }
    }
    text
}

/// Each flag of a command, with its variable, its default and what `--help` says of it.
fn rows_of(command: &Command) -> Vec<String> {
    let flags = command
        .get_arguments()
        .filter_map(|flag| Some((flag, flag.get_long()?)));
    let rows = flags.map(|(flag, name)| {
        let variable = flag.get_env().map(|name| format!("`{}`", name.to_string_lossy()));
        let defaults = flag.get_default_values().iter();
        let default: Vec<_> = defaults.map(|value| format!("`{}`", value.to_string_lossy())).collect();
        let help = flag.get_help().map(ToString::to_string).unwrap_or_default();
        let help = help.trim_end_matches('.').replace('|', "\\|");
        let values = flag.get_possible_values();
        let is_choice = values.len() > 1 && !values.iter().any(|value| value.get_name() == "true");
        let values = values
            .iter()
            .filter(|_| is_choice)
            .map(|value| format!("`{}`", value.get_name()));
        let values: Vec<_> = values.collect();
        let choice = if is_choice {
            format!(": {}", values.join(" or "))
        } else {
            String::new()
        };
        let (variable, default) = (variable.unwrap_or_default(), default.join(", "));
        format!("`--{name}` | {variable} | {default} | {help}{choice}")
    });
    rows.collect()
}

/// Each metric's name, type and help.
fn metrics(shown: &str) -> Result<String> {
    let mut found: BTreeMap<&str, (&str, &str)> = BTreeMap::new();
    for line in shown.lines() {
        let words = line.strip_prefix("# ").and_then(|line| line.split_once(' '));
        let Some((what, (name, text))) = words.and_then(|(what, rest)| Some((what, rest.split_once(' ')?))) else {
            continue;
        };
        let row = found.entry(name).or_default();
        match what {
            "HELP" => row.1 = text,
            "TYPE" => row.0 = text,
            _ => {}
        }
    }
    let mut rows = String::new();
    for (name, (kind, help)) in found {
        // By OpenMetrics, samples of counters and infos have an ending that their family has not.
        let ending = match kind {
            "counter" => "_total",
            "info" => "_info",
            _ => "",
        };
        let help = help.trim_end_matches('.').replace('|', "\\|");
        writeln!(rows, "| `{name}{ending}` | {kind} | {help} |")?;
    }
    Ok(rows)
}

/// What both programs show for Prometheus, with something of everything.
///
/// # Errors
/// None that is known: writing to a string.
pub fn shown_metrics() -> Result<String> {
    let operator = operator::metrics::Metrics::default();
    let card = CardFigures {
        card: "A100".into(),
        deserved: 1,
        allocated: 1,
        request: 1,
        capacity: Some(1),
    };
    operator.show_queues(vec![QueueFigures {
        queue: "team-a".into(),
        cards: vec![card],
        waiting: vec![(Reason::NoNodeFits, 1)],
        oldest: Some(Timestamp::UNIX_EPOCH),
        standing: Some(StandingFigures {
            resources: Vec::new(),
            share: 0.0,
            overused: false,
        }),
        unsatisfiable: Some(Unsatisfiable::DeservedAboveCluster),
    }]);
    operator.show_card("A100", Some(&CardTypeStatus::default()));
    operator.api_write(Write::Admission);
    operator.api_timeout(Verb::Patch);
    operator.set_aside("Pod", 1);
    operator.refusals().count("probes", Refused::Crowded);
    operator.installation("Kind", "name", true, true);
    operator.certificate_expires(Certificate::Webhook, 0);
    operator.admitted("team-a", Duration::ZERO);
    let webhook = webhook::metrics::Metrics::default();
    webhook.answered(
        webhook::endpoint::Endpoint::Mutate,
        webhook::door::Outcome::Error,
        Duration::ZERO,
    );
    Ok(operator.encode()? + &webhook.encode()?)
}
