//! Bars: a whole, and which parts of it are taken.

use super::state::{CardRow, NodeRow, QueueRow};

/// A part of a bar, by its meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// In use, and charged to the queue it belongs to.
    Used,
    /// In use beyond what is deserved.
    Borrowed,
    /// In use, and charged to no queue.
    Unaccounted,
    /// Kept free for the queue alone.
    Guaranteed,
    /// Free, within what the queue deserves.
    Deserved,
    /// Free.
    Free,
    /// On a node that takes no pods.
    Unusable,
}

impl Part {
    /// The character that draws the part.
    pub fn character(self) -> char {
        match self {
            Self::Used => '#',
            Self::Borrowed => '+',
            Self::Unaccounted => '?',
            Self::Guaranteed => '=',
            Self::Deserved => '-',
            Self::Free => '.',
            Self::Unusable => 'x',
        }
    }
}

/// What the characters mean in bars of cards and nodes.
pub const OF_CARDS: &str = "# used, ? used and charged to no queue, . free, x on a node that takes no pods";
/// What the characters mean in bars of queues.
pub const OF_QUEUES: &str = "# used, + borrowed, = free and guaranteed, - free and deserved, . free up to the quota";

/// The bar of a card.
pub fn of_card(card: &CardRow, width: usize) -> Vec<Part> {
    let parts = [
        (Part::Used, card.charged),
        (Part::Unaccounted, card.unaccounted),
        (Part::Free, card.free),
        (Part::Unusable, card.unusable),
    ];
    bar(&parts, width)
}

/// The bar of a node's card.
pub fn of_node(node: &NodeRow, width: usize) -> Vec<Part> {
    let rest = (node.total - node.used).max(0);
    let part = if node.usable { Part::Free } else { Part::Unusable };
    bar(&[(Part::Used, node.used), (part, rest)], width)
}

/// The bar of a queue's card. It is as long as the quota, or as what the queue has if that is more or there is no quota.
pub fn of_queue(queue: &QueueRow, width: usize) -> Vec<Part> {
    let used = queue.used.unwrap_or(0);
    let borrowed = queue.borrowed.unwrap_or(0);
    let own = used - borrowed;
    let within_quota = |amount: i64| queue.quota.map_or(amount, |quota| amount.min(quota));
    let guaranteed = (within_quota(queue.guaranteed) - used).max(0);
    let deserved = (within_quota(queue.deserved.unwrap_or(0)) - used - guaranteed).max(0);
    let free = (queue.quota.unwrap_or(0) - used - guaranteed - deserved).max(0);
    let parts = [
        (Part::Used, own),
        (Part::Borrowed, borrowed),
        (Part::Guaranteed, guaranteed),
        (Part::Deserved, deserved),
        (Part::Free, free),
    ];
    bar(&parts, width)
}

/// Shares so many characters out by largest remainders. Every part that is not zero gets a character, while there is room.
fn bar(parts: &[(Part, i64)], width: usize) -> Vec<Part> {
    let amount = |amount: i64| u128::try_from(amount).unwrap_or(0);
    let total: u128 = parts.iter().map(|(_, part)| amount(*part)).sum();
    if total == 0 {
        return Vec::new();
    }
    let wide = width as u128;
    let mut shares: Vec<(usize, u128, Part)> = parts
        .iter()
        .map(|(part, of)| {
            let exact = amount(*of) * wide;
            let least = usize::from(*of > 0);
            (
                usize::try_from(exact / total).unwrap_or(width).max(least),
                exact % total,
                *part,
            )
        })
        .collect();
    let drawn = |shares: &[(usize, u128, Part)]| shares.iter().map(|(share, ..)| share).sum::<usize>();
    // What rounding left over goes to the largest remainders. What small parts got too much is taken from the largest part.
    while drawn(&shares) < width {
        let Some(share) = shares.iter_mut().max_by_key(|(_, remainder, _)| *remainder) else {
            break;
        };
        (share.0, share.1) = (share.0 + 1, 0);
    }
    while drawn(&shares) > width {
        let Some(share) = shares.iter_mut().max_by_key(|(share, ..)| *share) else {
            break;
        };
        share.0 -= 1;
    }
    shares
        .iter()
        .flat_map(|(share, _, part)| std::iter::repeat_n(*part, *share))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(parts: &[(Part, i64)], width: usize) -> String {
        bar(parts, width).into_iter().map(Part::character).collect()
    }

    #[test]
    fn a_bar_is_as_wide_as_it_is_to_be_and_shows_every_part() {
        assert_eq!(drawn(&[(Part::Used, 3), (Part::Free, 5)], 8), "###.....");
        assert_eq!(drawn(&[(Part::Used, 1), (Part::Free, 9_999)], 10), "#.........");
        assert_eq!(
            drawn(&[(Part::Used, 9_999), (Part::Unaccounted, 1), (Part::Free, 1)], 10),
            "########?."
        );
        assert_eq!(drawn(&[(Part::Used, 0), (Part::Free, 0)], 10), "");
        assert_eq!(drawn(&[(Part::Used, -5), (Part::Free, 1)], 3), "...");
        for used in 0..40 {
            for free in 1..40 {
                let text = drawn(&[(Part::Used, used), (Part::Free, free)], 20);
                assert_eq!(text.len(), 20);
                assert_eq!(
                    (used > 0, true),
                    (text.contains('#'), text.contains('.')),
                    "{used} {free} {text}"
                );
            }
        }
        assert_eq!(drawn(&[(Part::Used, i64::MAX), (Part::Free, i64::MAX)], 4), "##..");
    }

    #[test]
    fn a_queue_shows_what_it_borrows_and_what_is_left_of_each() {
        let of_limits = |limits: (Option<i64>, Option<i64>), used, borrowed| {
            let (deserved, quota) = limits;
            let queue = QueueRow {
                queue: "a".to_owned(),
                card: "A100".to_owned(),
                guaranteed: 2,
                deserved,
                quota,
                used: Some(used),
                borrowed: Some(borrowed),
                waiting: Some(0),
                own: None,
            };
            of_queue(&queue, 8).into_iter().map(Part::character).collect::<String>()
        };
        let of = |used, borrowed| of_limits((Some(4), Some(8)), used, borrowed);
        assert_eq!(of(0, 0), "==--....");
        assert_eq!(of(1, 0), "#=--....");
        assert_eq!(of(3, 0), "###-....");
        assert_eq!(of(7, 3), "####+++.");
        // The queue has more than its quota, since the quota was lowered.
        assert_eq!(of(16, 12), "##++++++");
        // Without a quota, the queue's bar can't say what is free.
        assert_eq!(of_limits((None, None), 1, 0), "####====");
        assert_eq!(of_limits((Some(4), None), 0, 0), "====----");
    }
}
