//! Texts near those of a corpus.

use bolero::{Driver, ValueGenerator};

use crate::draw::{below, once_in, one_of};
use crate::words::PIECES;

/// A text is repeated up to this length, beyond all bounds of what users write.
const LONGEST: usize = 40_000;

/// Texts of a corpus with some changes, and texts made of known words.
#[derive(Debug, Clone)]
pub struct Texts {
    seeds: Vec<String>,
}

impl Texts {
    /// Texts near these.
    pub fn near(seeds: impl IntoIterator<Item = String>) -> Self {
        Self {
            seeds: seeds.into_iter().collect(),
        }
    }
}

impl ValueGenerator for Texts {
    type Output = String;

    fn generate<D: Driver>(&self, driver: &mut D) -> Option<String> {
        let mut text = if self.seeds.is_empty() || once_in(driver, 6)? {
            String::new()
        } else {
            one_of(driver, &self.seeds)?.clone()
        };
        for _ in 0..=below(driver, 6)? {
            change(driver, &mut text, &self.seeds)?;
        }
        Some(text)
    }
}

/// One change of a text.
pub(crate) fn change<D: Driver>(driver: &mut D, text: &mut String, others: &[String]) -> Option<()> {
    let (from, to) = range(driver, text)?;
    match below(driver, 9)? {
        0 | 1 => text.insert_str(from, one_of(driver, PIECES)?),
        2 => text.replace_range(from..to, one_of(driver, PIECES)?),
        3 => text.replace_range(from..to, ""),
        4 => {
            let again = text[from..to].repeat(1 + below(driver, 4)?);
            text.insert_str(from, &again);
        }
        5 => {
            let any: char = driver.produce()?;
            text.insert(from, any);
        }
        6 => {
            if let Some(other) = one_of(driver, others) {
                let (begin, end) = range(driver, other)?;
                text.insert_str(from, &other[begin..end]);
            }
        }
        7 => text.truncate(from),
        _ if once_in(driver, 12)? && to > from => {
            let most = LONGEST / (to - from);
            let again = text[from..to].repeat(1 + below(driver, most)?);
            text.insert_str(from, &again);
        }
        _ => {
            let digits = text[from..].bytes().take_while(u8::is_ascii_digit).count();
            text.replace_range(from..from + digits, one_of(driver, PIECES)?);
        }
    }
    if text.len() > 2 * LONGEST {
        text.truncate(text.floor_char_boundary(2 * LONGEST));
    }
    Some(())
}

/// A range of whole characters, mostly a short one.
fn range<D: Driver>(driver: &mut D, text: &str) -> Option<(usize, usize)> {
    let from = text.floor_char_boundary(below(driver, text.len() + 1)?);
    let most = if once_in(driver, 3)? {
        text.len() - from
    } else {
        8.min(text.len() - from)
    };
    let to = text.ceil_char_boundary(from + below(driver, most + 1)?);
    Some((from, to))
}
