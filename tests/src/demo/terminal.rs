//! What the demo prints: headings, commands with their output, and whether what came was what should come.

use std::time::Instant;

use anstream::{eprintln, println};
use anstyle::{AnsiColor, Style};

const HEADING: Style = Style::new().bold();
const COMMAND: Style = AnsiColor::Cyan.on_default();
const GOOD: Style = AnsiColor::Green.on_default();
const BAD: Style = AnsiColor::Red.on_default().bold();
const FAINT: Style = Style::new().dimmed();

/// What was found wanting, and how long it took to find it.
#[derive(Debug)]
pub(super) struct Record {
    begin: Instant,
    failures: Vec<String>,
}

impl Record {
    pub fn new() -> Self {
        Self {
            begin: Instant::now(),
            failures: Vec::new(),
        }
    }

    /// Says how far the preparations are.
    pub fn note(&self, text: &str) {
        let elapsed = self.begin.elapsed().as_secs_f32();
        println!("{FAINT}[{elapsed:5.1} s]{FAINT:#} {text}");
    }

    /// Says whether the expectation was met.
    pub fn verdict(&mut self, expectation: &str, outcome: anyhow::Result<()>) {
        match outcome {
            Ok(()) => println!("{GOOD}✓{GOOD:#} {expectation}"),
            Err(error) => {
                println!("{BAD}✗ {expectation}{BAD:#}\n  {error:#}");
                self.failures.push(expectation.to_owned());
            }
        }
    }

    /// The expectations that were not met.
    pub fn failures(&self) -> &[String] {
        &self.failures
    }

    /// Ends the story: repeats on stderr what went wrong, if anything did.
    pub fn finish(&self) {
        for failure in &self.failures {
            eprintln!("{BAD}failed:{BAD:#} {failure}");
        }
    }
}

/// Begins a part of the story.
pub(super) fn heading(text: &str) {
    println!("\n{HEADING}{text}{HEADING:#}");
}

/// Says something in plain words.
pub(super) fn say(text: &str) {
    println!("{text}");
}

/// Shows a command as one would type it.
pub(super) fn command(words: &[&str]) {
    let line: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    println!("{COMMAND}$ {}{COMMAND:#}", line.join(" "));
}

/// Shows what a command printed.
pub(super) fn output(text: &str) {
    for line in text.trim_end().lines() {
        println!("  {}", line.trim_end());
    }
}

/// The word as a shell needs it.
fn quoted(word: &str) -> String {
    let plain = |character: char| character.is_ascii_alphanumeric() || "-_./:=,@%+".contains(character);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn words_are_quoted_where_a_shell_would_change_them() {
        assert_eq!(quoted("examples/1-basic.yaml"), "examples/1-basic.yaml");
        assert_eq!(quoted("jsonpath={.a}"), "'jsonpath={.a}'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }
}
