//! Amounts as people write them.

use crate::resources::{CPU, EPHEMERAL_STORAGE, HUGE_PAGES_PREFIX, MEMORY};

/// Formats CPU in cores if they are whole, else in milli.
pub fn format_cpu(milli: i128) -> String {
    if milli % 1000 == 0 {
        (milli / 1000).to_string()
    } else {
        format!("{milli}m")
    }
}

/// Formats bytes in the largest binary unit that loses nothing.
pub fn format_bytes(bytes: i128) -> String {
    let units = [(40, "Ti"), (30, "Gi"), (20, "Mi"), (10, "Ki")];
    let fitting = units.iter().find(|(shift, _)| bytes != 0 && bytes % (1 << shift) == 0);
    fitting.map_or_else(
        || bytes.to_string(),
        |(shift, unit)| format!("{}{unit}", bytes >> shift),
    )
}

/// Formats an amount of a resource in the unit that it is counted in, as [`crate::resources::parse_amount`] reads it.
pub fn format_amount(resource: &str, amount: i128) -> String {
    match resource {
        CPU => format_cpu(amount),
        MEMORY | EPHEMERAL_STORAGE => format_bytes(amount),
        _ if resource.starts_with(HUGE_PAGES_PREFIX) => format_bytes(amount),
        _ => amount.to_string(),
    }
}

/// Returns as much of a list as fits into a column of this width, at least the first text, and how many more there are.
pub fn column(texts: &[String], most: usize) -> String {
    let whole = texts.join(", ");
    if whole.chars().count() <= most || texts.len() == 1 {
        return whole;
    }
    let cut = |shown: usize| format!("{}, +{} more", texts[..shown].join(", "), texts.len() - shown);
    let fitting = (2..texts.len())
        .rev()
        .map(cut)
        .find(|text| text.chars().count() <= most);
    fitting.unwrap_or_else(|| cut(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_read_as_people_write_them() {
        assert_eq!(format_cpu(12_000), "12");
        assert_eq!(format_cpu(12_500), "12500m");
        assert_eq!(format_bytes(0), "0");
        assert_eq!(format_bytes(500 << 30), "500Gi");
        assert_eq!(format_bytes((1 << 30) + (1 << 20)), "1025Mi");
        assert_eq!(format_bytes(1001), "1001");
        let amounts = [("cpu", 4000), ("memory", 1 << 30), ("nvidia.com/gpu", 8)];
        assert_eq!(
            amounts.map(|(name, amount)| format_amount(name, amount)),
            ["4", "1Gi", "8"]
        );
    }
}
