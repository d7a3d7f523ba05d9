//! Texts for users and the log, of bounded length: messages quote what users write, and anybody may send the webhook a review.

use std::collections::VecDeque;
use std::fmt::{self, Display, Write};

use crds::bounds::printable;

/// The longest text, in characters.
const MAX_TEXT: usize = 1000;
/// How many characters at the end of a text that is too long are kept; the remedy stands there.
const KEPT_END: usize = 300;
/// How many characters are kept at its beginning. One stands for what is left out.
const KEPT_START: usize = MAX_TEXT - KEPT_END - 1;

/// Returns something as one line, with the middle cut out of it where it is too long, and characters escaped that move a cursor. However
/// long it is, no more than that is kept in memory.
pub(crate) fn brief(text: impl Display) -> String {
    let mut brief = Brief::default();
    // Nothing refuses what is written here, so an error is of the text's own making: what it said until then is its text.
    let _ = write!(brief, "{text}");
    brief.finish()
}

/// The two ends of what was written.
#[derive(Default)]
struct Brief {
    start: String,
    /// How many characters `start` has.
    started: usize,
    /// What came after `start`, without what had to make room for the last of it.
    end: VecDeque<char>,
    is_cut: bool,
}

impl Brief {
    fn push(&mut self, char: char) {
        if self.started < KEPT_START {
            self.start.push(char);
            self.started += 1;
            return;
        }
        if self.end.len() > KEPT_END {
            self.end.pop_front();
            self.is_cut = true;
        }
        self.end.push_back(char);
    }

    fn finish(mut self) -> String {
        if self.is_cut {
            self.end[0] = '…';
        }
        self.start.extend(self.end);
        self.start
    }
}

impl Write for Brief {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for char in text.chars() {
            for char in printable(char.encode_utf8(&mut [0; 4])).chars() {
                self.push(char);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_middle_of_a_long_text_is_cut_out() {
        assert_eq!(brief("a\nb"), r"a\nb");
        let whole = "é".repeat(MAX_TEXT);
        assert_eq!(brief(&whole), whole);
        let text = brief(format!("key {}: write less", "x".repeat(MAX_TEXT)));
        assert_eq!(text.chars().count(), MAX_TEXT);
        assert!(
            text.starts_with("key xxx") && text.contains("x…x") && text.ends_with(": write less"),
            "{text}"
        );
    }

    proptest! {
        #[test]
        fn both_ends_are_kept(text in proptest::collection::vec(any::<char>(), 0..2 * MAX_TEXT)) {
            let text: String = text.into_iter().collect();
            let all: Vec<_> = printable(&text).chars().collect();
            let expected: String = if all.len() <= MAX_TEXT {
                all.iter().collect()
            } else {
                let ends = [&all[..KEPT_START], &['…'], &all[all.len() - KEPT_END..]];
                ends.concat().iter().collect()
            };
            prop_assert_eq!(brief(&text), expected);
        }
    }
}
