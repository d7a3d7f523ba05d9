//! DNS-safe object names for card names, which hold `/`, `*` and capitals.

use std::fmt::Write as _;

/// Object names are DNS subdomains: at most 253 characters. The hash and its dash need 9 of them.
const MAX_STEM: usize = 253 - 9;

/// Returns a name for the object that stands for `card`: readable, and different for different cards.
///
/// Lower case letters, digits and dots stay, everything else becomes a dash. Where that loses anything, eight hexadecimal
/// digits of a hash of the card name make the result unique (`nvidia-a100-mps-80g-1-8-1c9f0d3e`).
pub fn slug(card: &str) -> String {
    let mut stem = String::with_capacity(card.len());
    for c in card.chars() {
        let c = if c.is_ascii_alphanumeric() {
            c.to_ascii_lowercase()
        } else if c == '.' {
            '.'
        } else {
            '-'
        };
        // DNS labels neither start nor end with a dash: no dash beside a dot, none doubled.
        let touches_separator = matches!(stem.chars().last(), None | Some('-' | '.'));
        if c.is_ascii_alphanumeric() || !touches_separator {
            stem.push(c);
        }
    }
    stem.truncate(MAX_STEM);
    let mut stem = stem.trim_end_matches(['-', '.']).to_owned();
    if stem != card {
        let separator = if stem.is_empty() { "card-" } else { "-" };
        // Writing to a String can't fail.
        let _ = write!(stem, "{separator}{:08x}", fnv1a(card));
    }
    stem
}

/// Returns a label name that stands for `card`: the slug, cut to the length of a label name.
pub fn label_name(card: &str) -> String {
    const MAX_NAME: usize = 63;
    let slug = slug(card);
    if slug.len() <= MAX_NAME {
        return slug;
    }
    let stem = slug[..MAX_NAME - 9].trim_end_matches(['-', '.']);
    format!("{stem}-{:08x}", fnv1a(card))
}

/// FNV-1a, 32 bits: fixed for ever, unlike the standard library's hasher, since object names must not change.
fn fnv1a(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    })
}

#[cfg(test)]
mod tests {
    use super::slug;

    #[test]
    fn slugs_are_dns_names_and_differ_where_the_cards_do() {
        let cards = [
            "NVIDIA-A100",
            "nvidia-a100",
            "NVIDIA-A100/mps-80g*1/8",
            "NVIDIA-A100/mps-80g-1/8",
            "NVIDIA-A100/mig-1g.5gb-mixed",
            "*",
            "a./b",
            &"x".repeat(300),
        ];
        let slugs: std::collections::BTreeSet<_> = cards.iter().map(|card| slug(card)).collect();
        assert_eq!(slugs.len(), cards.len(), "{slugs:?}");
        for slug in &slugs {
            assert!(slug.len() <= 253, "{slug}");
            for label in slug.split('.') {
                assert!(
                    !label.is_empty() && !label.starts_with('-') && !label.ends_with('-'),
                    "{slug}"
                );
                assert!(
                    label
                        .bytes()
                        .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-'),
                    "{slug}"
                );
            }
        }
        assert_eq!(slug("nvidia-a100"), "nvidia-a100");
        assert!(slug("NVIDIA-A100").starts_with("nvidia-a100-"));
    }
}
