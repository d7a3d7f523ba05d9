//! Why something waits: the answer of `kubectl card why`.

use maud::{Markup, html};

use crate::failure::Failure;

/// Returns the question, and the answer if there is one. With `options`, a command asks the same cluster as the same user.
pub fn show(what: &str, namespace: &str, options: &[String], answered: Option<Result<Vec<String>, Failure>>) -> Markup {
    html! {
        form action="why" method="get" {
            label for="what" { "Pod, or KIND/NAME such as job/train or queue/team-a" }
            input #what name="what" value=(what) required autocomplete="off" spellcheck="false" autofocus[answered.is_none()];
            label for="namespace" { "Namespace" }
            input #namespace name="namespace" value=(namespace) autocomplete="off" spellcheck="false";
            button { "Ask" }
        }
        @if let Some(answered) = answered {
            @let command = {
                let words = ["kubectl", "card", "why", what, "-n", namespace].into_iter();
                let words = words.chain(options.iter().map(String::as_str));
                words.map(quoted).collect::<Vec<_>>().join(" ")
            };
            section aria-live="polite" aria-label="Answer" {
                @match answered {
                    Ok(lines) => pre.answer { (lines.join("\n")) },
                    Err(failure) => p.failure role="alert" { (failure) },
                }
                p { "The same in a terminal: " code { (command) } " " button type="button" data-copy=(command) { "Copy" } }
            }
        }
    }
}

/// Quotes a word for shells, so that a copied command does nothing else.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}
