//! What containers ask for in total, and whether cards could ever have room for it.

use crds::mgpu::{ContainerRequest, Share};

/// What is free on a card.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Room {
    pub core: i64,
    /// Memory in MiB.
    pub memory: i64,
    /// How many more containers the card can take.
    pub containers: u32,
}

/// What containers with parts of cards ask for in total.
#[derive(Debug, Clone, Default)]
pub(super) struct Demand {
    /// The number of cards, summed over the containers.
    pub cards: usize,
    /// The most cards that one container asks for.
    pub widest: usize,
    /// Bounds that every set of cards has to meet.
    bounds: Vec<Bound>,
}

/// A bound: the cards together must offer at least this much of a measure.
#[derive(Debug, Clone, Copy)]
struct Bound {
    of: Measure,
    asked: i128,
}

/// What a card can give.
#[derive(Debug, Clone, Copy)]
enum Measure {
    Core,
    Memory,
    /// Places for containers that take at least this much compute: two containers that take more than half of a card need two cards.
    CoreAtLeast(i64),
    /// Places for containers that take at least this much memory.
    MemoryAtLeast(i64),
}

impl Measure {
    fn of(self, room: &Room) -> i128 {
        let places = |free: i64, least: i64| i128::from((free / least).min(room.containers.into()));
        match self {
            Self::Core => room.core.into(),
            Self::Memory => room.memory.into(),
            Self::CoreAtLeast(least) => places(room.core, least),
            Self::MemoryAtLeast(least) => places(room.memory, least),
        }
    }
}

impl Demand {
    pub fn of(containers: &[ContainerRequest]) -> Self {
        let parts = containers.iter().filter_map(|container| match container.share {
            Share::Full => None,
            Share::Part { core, memory } => Some((container.cards, core, memory)),
        });
        let parts: Vec<_> = parts.collect();
        let width = |cards: u32| usize::try_from(cards).unwrap_or(usize::MAX);
        let sum = |of: fn(&(u32, i64, i64)) -> i64| -> i128 {
            let amounts = parts.iter().map(|part| i128::from(part.0) * i128::from(of(part)));
            amounts.sum()
        };
        let mut bounds = vec![
            Bound {
                of: Measure::Core,
                asked: sum(|part| part.1),
            },
            Bound {
                of: Measure::Memory,
                asked: sum(|part| part.2),
            },
        ];
        bounds.extend(at_least(
            parts.iter().map(|part| (part.1, part.0)),
            Measure::CoreAtLeast,
        ));
        bounds.extend(at_least(
            parts.iter().map(|part| (part.2, part.0)),
            Measure::MemoryAtLeast,
        ));
        Self {
            cards: parts.iter().fold(0, |sum, part| sum.saturating_add(width(part.0))),
            widest: parts.iter().map(|part| width(part.0)).max().unwrap_or(0),
            bounds,
        }
    }

    /// Returns how many bounds there are to check.
    pub fn bounds(&self) -> usize {
        self.bounds.len()
    }

    /// Whether these cards together could have room; each is given with how many there are of it. False means that they can't.
    pub(crate) fn could_be_met(&self, cards: &(impl Iterator<Item = (Room, usize)> + Clone)) -> bool {
        self.bounds.iter().all(|bound| {
            let offered = cards.clone().map(|(room, count)| bound.of.of(&room) * count as i128);
            offered.sum::<i128>() >= bound.asked
        })
    }

    /// Returns the fewest cards that could have room, whichever they are; none where all together have too little.
    pub(crate) fn fewest(&self, cards: &(impl Iterator<Item = (Room, usize)> + Clone)) -> Option<usize> {
        let fewest_for = |bound: &Bound| {
            let mut offers: Vec<_> = cards.clone().map(|(room, count)| (bound.of.of(&room), count)).collect();
            offers.sort_unstable_by(|a, b| b.cmp(a));
            let (mut fewest, mut left) = (0, bound.asked);
            for (offer, count) in offers.into_iter().filter(|(offer, _)| *offer > 0) {
                let needed = usize::try_from((left + offer - 1) / offer).unwrap_or(usize::MAX);
                fewest += needed.min(count);
                left -= offer * needed.min(count) as i128;
                if left <= 0 {
                    break;
                }
            }
            (left <= 0).then_some(fewest)
        };
        let mut fewest = self.widest;
        for bound in &self.bounds {
            fewest = fewest.max(fewest_for(bound)?);
        }
        Some(fewest)
    }
}

/// Returns a bound for each amount that a container takes: this many cards must have a place for at least that much.
fn at_least(parts: impl Iterator<Item = (i64, u32)>, measure: fn(i64) -> Measure) -> Vec<Bound> {
    let mut parts: Vec<_> = parts.collect();
    parts.sort_unstable_by(|a, b| b.cmp(a));
    let mut bounds: Vec<(i64, i128)> = Vec::with_capacity(parts.len());
    let mut cards = 0_i128;
    for (least, count) in parts {
        cards += i128::from(count);
        match bounds.last_mut() {
            Some((known, asked)) if *known == least => *asked = cards,
            _ => bounds.push((least, cards)),
        }
    }
    let bound = |(least, asked)| Bound {
        of: measure(least),
        asked,
    };
    bounds.into_iter().map(bound).collect()
}
