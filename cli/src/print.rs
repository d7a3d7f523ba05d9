//! Prints an answer: as a table for people, as JSON or YAML for programs.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io;

use serde::Serialize;
use serde_json::{Value, json};

use crate::arguments::Output;
use crate::terminal::{safe, safe_json, safe_line};

/// How many characters of a text a table shows, and of an event's text `history` keeps, as JSON too. Rust's formatter panics for a column wider
/// than 65,535 characters, and any tenant can write a longer text. Besides, one long text makes every row of its column as wide.
const LONGEST_CELL: usize = 1024;

/// The gap between two columns.
const GAP: &str = "   ";
/// Stands in a table where there is nothing to show.
pub const DASH: &str = "-";

/// An answer: tables for people, and the same as data.
#[derive(Debug, Default)]
pub struct Answer {
    /// What the answer lacks, and why. Notes go to standard error, so that programs read the answer alone.
    pub notes: Vec<String>,
    /// The exit code of an answer, for scripts.
    pub code: u8,
    plain: String,
    wide: String,
    data: Value,
}

impl Answer {
    /// An answer that has only one form.
    pub fn text(text: String) -> Self {
        Self {
            wide: text.clone(),
            data: json!(text),
            plain: text,
            ..Self::default()
        }
    }

    /// An answer with this data.
    pub fn new(data: &impl Serialize) -> Result<Self, serde_json::Error> {
        Ok(Self {
            data: serde_json::to_value(data)?,
            ..Self::default()
        })
    }

    /// Adds a line, or several.
    pub fn line(&mut self, line: &str) {
        for text in [&mut self.plain, &mut self.wide] {
            text.push_str(&safe(line));
            text.push('\n');
        }
    }

    /// Adds a table. Its last `more` columns are shown only in the wide form. Long texts are cut; the data has them whole.
    pub fn table<const N: usize>(&mut self, head: [&str; N], more: usize, rows: &[[String; N]]) {
        let head = head.map(cell);
        let rows: Vec<_> = rows.iter().map(|row| row.each_ref().map(|text| cell(text))).collect();
        let lines: Vec<&[String]> = std::iter::once(&head)
            .chain(&rows)
            .map(<[String; N]>::as_slice)
            .collect();
        self.plain.push_str(&align(&lines, N - more));
        self.wide.push_str(&align(&lines, N));
    }

    /// Returns the answer in the requested form.
    pub fn write(&self, output: Option<Output>) -> io::Result<String> {
        Ok(match output {
            None => self.plain.clone(),
            Some(Output::Wide) => self.wide.clone(),
            Some(Output::Json) => safe_json(&format!("{:#}\n", self.data)).into_owned(),
            Some(Output::Yaml) => serde_saphyr::to_string(&harmless(&self.data)).map_err(io::Error::other)?,
        })
    }
}

/// Formats a number of which there may be none to show, as where something is unlimited or the user may not see it.
pub fn number_or_dash(number: Option<i64>) -> String {
    number.map_or_else(|| DASH.to_owned(), |number| number.to_string())
}

/// Returns data without characters that a terminal obeys, since YAML need not escape all of them.
fn harmless(data: &Value) -> Value {
    match data {
        Value::String(text) => json!(safe(text)),
        Value::Array(items) => items.iter().map(harmless).collect(),
        Value::Object(entries) => entries
            .iter()
            .map(|(key, value)| (safe_line(key).into_owned(), harmless(value)))
            .collect(),
        _ => data.clone(),
    }
}

/// Returns a text as a table shows it.
fn cell(text: &str) -> String {
    safe_line(&cut(text)).into_owned()
}

/// Returns a text, and of a long one no more than a table shows.
pub fn cut(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(LONGEST_CELL) {
        Some((end, _)) => format!("{}…", &text[..end]).into(),
        None => text.into(),
    }
}

/// Formats the first columns of the lines, each as wide as its widest text.
fn align(lines: &[&[String]], columns: usize) -> String {
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max();
    let widths: Vec<usize> = (0..columns).filter_map(width).collect();
    let mut text = String::new();
    for line in lines {
        let mut written = String::new();
        for (cell, width) in line.iter().zip(&widths) {
            // Writing to a string does not fail.
            let _ = write!(written, "{}{cell:width$}", if written.is_empty() { "" } else { GAP });
        }
        text.push_str(written.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer() -> Answer {
        let mut answer = Answer::new(&json!([{ "card": "A|ü" }])).unwrap();
        let row = |cells: [&str; 3]| cells.map(str::to_owned);
        answer.table(
            ["CARD", "FREE", "KIND"],
            1,
            &[row(["A|üüüü", "1", "MIG"]), row(["B", "200", ""])],
        );
        answer
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_text_and_some_are_for_those_who_want_more() {
        let plain = answer().write(None).unwrap();
        assert_eq!(plain, "CARD     FREE\nA|üüüü   1\nB        200\n");
        let wide = answer().write(Some(Output::Wide)).unwrap();
        assert_eq!(wide, "CARD     FREE   KIND\nA|üüüü   1      MIG\nB        200\n");
    }

    #[test]
    fn others_words_do_not_command_the_terminal() {
        let hostile = "a\u{1b}]0;owned\u{7}\u{9b}2J";
        let mut answer = Answer::new(&json!([{ hostile: hostile }])).unwrap();
        answer.line(hostile);
        answer.table([hostile], 0, &[[format!("{hostile}\nFORGED   ROW")]]);
        for output in [None, Some(Output::Wide), Some(Output::Json), Some(Output::Yaml)] {
            let written = answer.write(output).unwrap();
            let is_bad = |character: char| character.is_control() && character != '\n';
            assert!(!written.contains(is_bad), "{written:?}");
        }
        assert!(!answer.write(None).unwrap().contains("\nFORGED"));
    }

    #[test]
    fn a_long_text_takes_no_more_than_its_part_of_the_table() {
        let long = "ü".repeat(70_000);
        let mut answer = Answer::default();
        answer.table(
            ["REASON", "POD"],
            0,
            &[[long, "a".to_owned()], ["b".to_owned(), "c".to_owned()]],
        );
        let lines = answer.write(None).unwrap();
        let lengths: Vec<_> = lines.lines().map(|line| line.chars().count()).collect();
        let at_pod = LONGEST_CELL + 1 + GAP.len();
        assert_eq!(lengths, [at_pod + 3, at_pod + 1, at_pod + 1]);
    }

    #[test]
    fn programs_read_data() {
        let json: Value = serde_json::from_str(&answer().write(Some(Output::Json)).unwrap()).unwrap();
        let yaml: Value = serde_saphyr::from_str(&answer().write(Some(Output::Yaml)).unwrap()).unwrap();
        assert_eq!(json, json!([{ "card": "A|ü" }]));
        assert_eq!(yaml, json);
    }
}
