//! A page of `docs/` as its reader goes through it: files that are written down, and commands with what they print.
//!
//! A block `yaml` whose first line is a comment with a file's name (`# trainer.yaml`) is that file. A block `console` has commands
//! behind `$ `, each with its output: words are compared, not the space between them; an age (`12s`) stands for any age, a time
//! (`2026-01-02T03:04:05Z`) for any time, `...` at the end of a line for the rest of it, and a line of `...` for any lines.
//! `<!-- as jane -->` says who types what follows.

use std::path::Path;

use anyhow::{Context as _, Result, bail};

/// One thing that a reader does.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// Another person types from here on.
    As(String),
    /// Writes a file.
    Write { name: String, content: String },
    /// Types a command, and sees this.
    Run { command: String, expected: String },
}

/// The steps of a page, in their order.
pub fn steps(page: &str) -> Result<Vec<Step>> {
    let mut steps = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        if let Some(person) = line.strip_prefix("<!-- as ").and_then(|rest| rest.strip_suffix(" -->")) {
            steps.push(Step::As(person.to_owned()));
            continue;
        }
        let Some(language) = line.strip_prefix("```") else {
            continue;
        };
        let mut block = String::new();
        loop {
            match lines.next().context("a block has no end")? {
                "```" => break,
                line => block.extend([line, "\n"]),
            }
        }
        match language {
            "yaml" => steps.extend(file(block)),
            "console" => commands(&block, &mut steps)?,
            _ => {}
        }
    }
    Ok(steps)
}

fn file(content: String) -> Option<Step> {
    let name = content.lines().next()?.strip_prefix("# ")?.to_owned();
    let is_name = !name.contains(' ') && Path::new(&name).extension().is_some();
    is_name.then_some(Step::Write { name, content })
}

fn commands(block: &str, steps: &mut Vec<Step>) -> Result<()> {
    for line in block.lines() {
        if let Some(command) = line.strip_prefix("$ ") {
            let (command, expected) = (command.to_owned(), String::new());
            steps.push(Step::Run { command, expected });
        } else if let Some(Step::Run { command, expected }) = steps.last_mut() {
            // As in a shell, a command goes on behind a backslash.
            if command.ends_with('\\') && expected.is_empty() {
                command.extend(["\n", line]);
            } else {
                expected.extend([line, "\n"]);
            }
        } else {
            bail!("a block of commands begins with {line:?}");
        }
    }
    Ok(())
}

/// Whether a command printed what the page says.
pub fn agrees(expected: &str, printed: &str) -> bool {
    let lines = |text: &'_ str| -> Vec<String> {
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        lines.map(str::to_owned).collect()
    };
    lines_agree(&lines(expected), &lines(printed))
}

fn lines_agree(expected: &[String], printed: &[String]) -> bool {
    match expected.split_first() {
        None => printed.is_empty(),
        Some((any, rest)) if any == "..." => (0..=printed.len()).any(|from| lines_agree(rest, &printed[from..])),
        Some((line, rest)) => printed
            .split_first()
            .is_some_and(|(first, others)| line_agrees(line, first) && lines_agree(rest, others)),
    }
}

fn line_agrees(expected: &str, printed: &str) -> bool {
    let mut printed = printed.split_whitespace();
    for word in expected.split_whitespace() {
        if word == "..." {
            return true;
        }
        let Some(other) = printed.next() else {
            return false;
        };
        if word != other && !(is_age(word) && is_age(other)) && !(is_time(word) && is_time(other)) {
            return false;
        }
    }
    printed.next().is_none()
}

/// `5s`, `2m10s`, `3h`; kubectl also knows `<unknown>` where an event has no time of its own.
fn is_age(word: &str) -> bool {
    let units = word.matches(|unit: char| "smhd".contains(unit)).count();
    let digits = word.chars().filter(char::is_ascii_digit).count();
    word == "<unknown>"
        || (units > 0 && digits > 0 && units + digits == word.len() && !word.starts_with(char::is_alphabetic))
}

fn is_time(word: &str) -> bool {
    let shape = |character: char| if character.is_ascii_digit() { '0' } else { character };
    word.chars().map(shape).eq("0000-00-00T00:00:00Z".chars())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_read_step_by_step() {
        let page = "Text.\n<!-- as jane -->\n```yaml\n# a.yaml\nkind: Pod\n```\n```yaml\nnot: a file\n```\n\
            ```console\n$ kubectl get \\\n    pods\nNAME\none\n$ true\n```\n";
        let run = |command: &str, expected: &str| Step::Run {
            command: command.to_owned(),
            expected: expected.to_owned(),
        };
        let expected = [
            Step::As("jane".to_owned()),
            Step::Write {
                name: "a.yaml".to_owned(),
                content: "# a.yaml\nkind: Pod\n".to_owned(),
            },
            run("kubectl get \\\n    pods", "NAME\none\n"),
            run("true", ""),
        ];
        assert_eq!(steps(page).unwrap(), expected);
        assert!(steps("```console\n$ a\n").is_err());
        assert!(steps("```console\na\n```\n").is_err());
    }

    #[test]
    fn outputs_are_compared_by_their_words() {
        for (expected, printed, agree) in [
            ("NAME   AGE\na  5s\n", "NAME AGE\na      2m10s", true),
            ("a 5s", "a <unknown>", true),
            ("a 5s", "a 5", false),
            ("2026-01-02T03:04:05Z a", "2027-12-31T23:59:59Z a", true),
            ("2026-01-02T03:04:05Z a", "2027-12-31 a", false),
            ("a 5", "a 6", false),
            ("a", "a b", false),
            ("a b", "a", false),
            ("a ...", "a b c", true),
            ("a\n...\nd", "a\nb\nc\nd", true),
            ("a\n...\nd", "a\nb\nc", false),
            ("a", "a\nb", false),
            ("", "\n", true),
            ("", "a", false),
        ] {
            assert_eq!(agrees(expected, printed), agree, "{expected:?} {printed:?}");
        }
    }
}
