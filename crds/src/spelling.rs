//! Guesses what a user may have meant by an unknown word: the most similar known word.

use std::collections::BTreeSet;

use crate::bounds::ANNOTATIONS;

/// Longer words are no typing mistakes, and are not compared.
const LONGEST: usize = 200;
/// The lengths from which words may differ in one letter, and in two.
const IN_ONE: usize = 4;
const IN_TWO: usize = 12;
/// How unlike a word is that has all parts of the written word: less like it than the same letters, more than with letters
/// changed.
const IN_PARTS: usize = 1;

/// Whether a key may be a misspelt key of Cardgate's. Most keys belong to others, and are recognised as theirs.
pub fn may_be_misspelt(written: &str) -> bool {
    let written_low = written.to_ascii_lowercase();
    written.len() <= LONGEST && ["volc", "card", "queue"].iter().any(|part| written_low.contains(part))
}

/// Returns the annotation that a user may have meant by this key. `None` for a key that Cardgate reads, and for a key that
/// resembles none of them.
pub fn meant_key(written: &str) -> Option<&'static str> {
    if !may_be_misspelt(written) {
        return None;
    }
    let known = ANNOTATIONS.iter().map(|(key, _)| *key);
    nearest(written, known, likeness)
}

/// Returns the card that a user may have meant by this name. This may also be the first by name that has all parts of it, as
/// `NVIDIA-A100-SXM4-80GB` has those of `A100`.
pub fn meant_card<'k>(written: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    nearest(written, known, |written, known| {
        let (in_letters, of_written) = (likeness(written, known), parts(written));
        let has_all = !of_written.is_empty() && of_written.is_subset(&parts(known));
        let in_parts = has_all.then_some(IN_PARTS);
        [in_letters, in_parts].into_iter().flatten().min()
    })
}

fn nearest<'k>(
    written: &str,
    known: impl IntoIterator<Item = &'k str>,
    likeness: impl Fn(&str, &str) -> Option<usize>,
) -> Option<&'k str> {
    if written.len() > LONGEST {
        return None;
    }
    let written_low = written.to_ascii_lowercase();
    let mut nearest = None;
    for word in known {
        if word == written {
            return None;
        }
        let found = likeness(&written_low, &word.to_ascii_lowercase()).map(|likeness| (likeness, word));
        nearest = [nearest, found].into_iter().flatten().min();
    }
    nearest.map(|(_, word)| word)
}

/// Returns how far apart two words in lower case are; `None` where nobody would take one for the other.
fn likeness(written: &str, known: &str) -> Option<usize> {
    // O and 0, and l and 1, look alike.
    let alike = |letter: u8| match letter {
        b'o' => b'0',
        b'i' | b'l' => b'1',
        other => other,
    };
    let letters = |word: &str| -> Vec<u8> {
        let letters = word.bytes().filter(u8::is_ascii_alphanumeric);
        letters.map(alike).collect()
    };
    let (written_letters, known_letters) = (letters(written), letters(known));
    if written_letters == known_letters {
        return Some(0);
    }
    if parts(written) == parts(known) {
        return Some(IN_PARTS);
    }
    let most = [IN_ONE, IN_TWO]
        .iter()
        .filter(|least| written_letters.len() >= **least)
        .count();
    distance(&written_letters, &known_letters, most).map(|distance| distance + 1)
}

/// Returns the parts of a word between signs, in no order.
fn parts(word: &str) -> BTreeSet<&str> {
    let parts = word.split(|sign: char| !sign.is_ascii_alphanumeric());
    parts.filter(|part| !part.is_empty()).collect()
}

/// Returns how many letters have to be changed, removed or inserted (Levenshtein), if that is no more than `most`.
fn distance(one: &[u8], other: &[u8], most: usize) -> Option<usize> {
    if one.len().abs_diff(other.len()) > most {
        return None;
    }
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (index, letter) in one.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = index + 1;
        let mut least = row[0];
        for (place, theirs) in other.iter().enumerate() {
            let changed = diagonal + usize::from(letter != theirs);
            diagonal = row[place + 1];
            row[place + 1] = changed.min(diagonal + 1).min(row[place] + 1);
            least = least.min(row[place + 1]);
        }
        if least > most {
            return None;
        }
    }
    row.last().copied().filter(|distance| *distance <= most)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::keys::{CARD_NAME, CARD_QUOTA, MGPU_CONTAINER_CARDS, QUEUE_NAME};

    #[test]
    fn keys_that_are_slips_of_the_pen() {
        for (written, meant) in [
            ("volcano.sh/cardname", CARD_NAME),
            ("card.volcano.sh/name", CARD_NAME),
            ("volcano.sh/card-name", CARD_NAME),
            ("volcano.sh/cardName", CARD_NAME),
            ("volcano.sh/card.nane", CARD_NAME),
            ("vulcano.sh/card.name", CARD_NAME),
            ("volcano.sh/cards.name", CARD_NAME),
            ("volcano.sh/card.quotas", CARD_QUOTA),
            ("scheduling.volcano.sh/queuename", QUEUE_NAME),
            ("scheduling.volcano.sh/queue_name", QUEUE_NAME),
            ("vke.volcengine.com/container-multi-gpu", ""),
            ("vke.volcengine.com/containers-multiple-gpu", MGPU_CONTAINER_CARDS),
        ] {
            assert_eq!(
                meant_key(written),
                Some(meant).filter(|meant| !meant.is_empty()),
                "{written}"
            );
        }
    }

    #[test]
    fn keys_of_cardgate_volcano_and_others_are_none() {
        let own = ANNOTATIONS.iter().map(|(key, _)| *key);
        for key in own.chain([
            "volcano.sh/task-spec",
            "volcano.sh/job-name",
            "volcano.sh/queue-name",
            "volcano.sh/preemptable",
            "volcano.sh/card.assigned",
            "volcano.sh/crossquota-cpu",
            "card.volcano.sh/held",
            "card.volcano.sh/queue",
            "scheduling.volcano.sh/group-min-member",
            "kueue.x-k8s.io/queue-name",
            "vke.volcengine.com/assumed",
            "vke.volcengine.com/gpu-index-container-main",
            "kubectl.kubernetes.io/last-applied-configuration",
            "card",
        ]) {
            assert_eq!(meant_key(key), None, "{key}");
        }
    }

    #[test]
    fn cards_by_letters_and_by_parts() {
        let known = [
            "NVIDIA-A100-SXM4-80GB",
            "NVIDIA-L40S",
            "Tesla-T4",
            "Tesla-T4/mps-15g*1/8",
        ];
        for (written, meant) in [
            ("A100", Some("NVIDIA-A100-SXM4-80GB")),
            ("nvidia-l40s", Some("NVIDIA-L40S")),
            ("NVIDIA-L40", Some("NVIDIA-L40S")),
            ("NVIDIA L40S", Some("NVIDIA-L40S")),
            ("T4", Some("Tesla-T4")),
            ("NVIDIA-A100-SXM4-8OGB", Some("NVIDIA-A100-SXM4-80GB")),
            ("NVIDIA-L4OS", Some("NVIDIA-L40S")),
            ("NVIDIA-L40S", None),
            ("NVIDIA-H200", None),
            ("nvidia-a100", Some("NVIDIA-A100-SXM4-80GB")),
            ("T5", None),
            ("", None),
        ] {
            assert_eq!(meant_card(written, known), meant, "{written}");
        }
        assert_eq!(meant_card(&"A".repeat(100_000), known), None);
    }

    /// The same distance, straight from its definition.
    fn plain_distance(one: &[u8], other: &[u8]) -> usize {
        match (one, other) {
            ([], rest) | (rest, []) => rest.len(),
            ([a, one_rest @ ..], [b, other_rest @ ..]) => {
                let changed = plain_distance(one_rest, other_rest) + usize::from(a != b);
                let shorter = plain_distance(one_rest, other).min(plain_distance(one, other_rest)) + 1;
                changed.min(shorter)
            }
        }
    }

    proptest! {
        #[test]
        fn the_distance_is_what_its_definition_says(one in "[ab]{0,6}", other in "[abc]{0,6}", most in 0_usize..4) {
            let plain = plain_distance(one.as_bytes(), other.as_bytes());
            prop_assert_eq!(distance(one.as_bytes(), other.as_bytes(), most), Some(plain).filter(|plain| *plain <= most));
        }
    }
}
