//! The document's Allocate section, against exhaustive search.

use std::time::{Duration, Instant};

use crds::configuration::{CardStrategy, Mgpu};
use crds::mgpu::ContainerRequest as Request;
use proptest::prelude::*;

use super::*;
use crate::discovery::MAX_CARD_MEMORY;
use crate::steps::Steps;

/// A card that one container uses this much of.
fn used(core: i64, memory: i64) -> CardUse {
    CardUse {
        core,
        memory,
        containers: 1,
    }
}

fn idle(count: usize) -> Vec<CardUse> {
    vec![CardUse::default(); count]
}

fn arguments(policy: CardStrategy) -> Mgpu {
    Mgpu {
        policy,
        ..Mgpu::default()
    }
}

const BINPACK: CardStrategy = CardStrategy::Binpack;
const SPREAD: CardStrategy = CardStrategy::Spread;
/// Memory of the cards in these tests, in MiB.
const MEMORY: i64 = 10_000;

fn lists(containers: &[Request], cards: &[CardUse], policy: CardStrategy) -> Option<Vec<Vec<u16>>> {
    let cards = Cards {
        used: cards,
        memory: MEMORY,
    };
    let allocation = allocate(containers, cards, arguments(policy))?;
    Some(allocation.cards.iter().map(|list| list.to_vec()).collect())
}

/// Tries all combinations, in lexicographic order of their card lists; returns the first of the best ones.
fn exhaustive(containers: &[Request], cards: Cards<'_>, arguments: Mgpu) -> Option<(Vec<Vec<u16>>, Score)> {
    fn combinations(count: usize, cards: usize, from: usize) -> Vec<Vec<usize>> {
        if count == 0 {
            return vec![Vec::new()];
        }
        let mut all = Vec::new();
        for first in from..cards {
            for rest in combinations(count - 1, cards, first + 1) {
                all.push([vec![first], rest].concat());
            }
        }
        all
    }
    /// The score as in **Volcano Plugin Config**: `weightOfCore * core + (1 - weightOfCore) * memory`, over the cards in use.
    fn score(chosen: &[Vec<u16>], after: &[CardUse], memory: i64, weight_of_core: i64) -> Score {
        let mut cards: Vec<u16> = chosen.iter().flatten().copied().collect();
        cards.sort_unstable();
        cards.dedup();
        let of_card = |card: &u16| {
            let used = after[usize::from(*card)];
            weight_of_core * used.core * memory + (100 - weight_of_core) * used.memory * 100
        };
        let sum: i64 = cards.iter().map(of_card).sum();
        Score {
            sum: sum.unsigned_abs().into(),
            of: (cards.len() as u128) * 10_000 * u128::from(memory.unsigned_abs()),
        }
    }
    fn search(
        left: &[Request],
        used: &[CardUse],
        chosen: &mut Vec<Vec<u16>>,
        (memory, arguments): (i64, Mgpu),
        best: &mut Option<(Vec<Vec<u16>>, Score)>,
    ) {
        let Some((first, rest)) = left.split_first() else {
            let score = score(chosen, used, memory, arguments.weight_of_core.into());
            let better = best.as_ref().is_none_or(|(_, best)| match arguments.policy {
                CardStrategy::Binpack => score > *best,
                CardStrategy::Spread => score < *best,
            });
            if better {
                *best = Some((chosen.clone(), score));
            }
            return;
        };
        for list in combinations(first.cards as usize, used.len(), 0) {
            let max = arguments.max_containers_per_card;
            if list.iter().all(|card| used[*card].takes(first.share, memory, max)) {
                let mut after = used.to_vec();
                for card in &list {
                    after[*card].add(first.share, memory);
                }
                chosen.push(list.iter().map(|card| u16::try_from(*card).unwrap()).collect());
                search(rest, &after, chosen, (memory, arguments), best);
                chosen.pop();
            }
        }
    }
    let mut best = None;
    search(
        containers,
        cards.used,
        &mut Vec::new(),
        (cards.memory, arguments),
        &mut best,
    );
    best
}

fn any_card() -> impl Strategy<Value = CardUse> {
    // Only few different cards, so that some are equal, and some differ in one respect only.
    let partly = (1u32..3, 1i64..4, 1i64..4).prop_map(|(containers, core, memory)| CardUse {
        core: core * 25,
        memory: memory * 600,
        containers,
    });
    prop_oneof![2 => Just(CardUse::default()), 3 => partly, 1 => Just(used(100, 4000))]
}

fn any_container() -> impl Strategy<Value = Request> {
    let part =
        (1u32..4, 1i64..7, 1i64..6).prop_map(|(cards, core, memory)| Request::part(cards, core * 15 - 5, memory * 300));
    prop_oneof![4 => part, 1 => (1u32..3).prop_map(Request::full)]
}

fn any_arguments() -> impl Strategy<Value = Mgpu> {
    let policy = prop_oneof![Just(BINPACK), Just(SPREAD)];
    let weight = prop_oneof![2 => Just(0u8), 1 => Just(20), 1 => Just(50), 1 => Just(77), 2 => Just(100)];
    (policy, weight, 1u32..5).prop_map(|(policy, weight_of_core, max_containers_per_card)| Mgpu {
        policy,
        weight_of_core,
        max_containers_per_card,
        ..Mgpu::default()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    /// Feasibility, best score and card lists are those of the exhaustive search, whatever is in use.
    #[test]
    fn the_allocation_is_that_of_the_exhaustive_search(
        used in prop::collection::vec(any_card(), 1..5),
        containers in prop::collection::vec(any_container(), 1..5),
        memory in 2000i64..4000,
        arguments in any_arguments(),
    ) {
        let cards = Cards { used: &used, memory };
        let found = allocate(&containers, cards, arguments);
        let expected = exhaustive(&containers, cards, arguments);
        let lists = |allocation: Allocation| allocation.cards.iter().map(|list| list.to_vec()).collect::<Vec<_>>();
        prop_assert_eq!(found.clone().map(|found| found.score), expected.clone().map(|(_, score)| score));
        prop_assert_eq!(found.map(lists), expected.map(|(lists, _)| lists));
    }

    /// For every pod, the allocated cards exist: enough cards, all different, within every limit of every card.
    #[test]
    fn an_allocation_keeps_every_limit(
        used in prop::collection::vec(any_card(), 1..17),
        containers in prop::collection::vec(any_container(), 1..9),
        arguments in any_arguments(),
    ) {
        let cards = Cards { used: &used, memory: 3000 };
        let Some(allocation) = allocate(&containers, cards, arguments) else { return Ok(()) };
        let mut after = used.clone();
        for (container, list) in containers.iter().zip(&allocation.cards) {
            prop_assert_eq!(list.len(), container.cards as usize);
            prop_assert!(list.is_sorted_by(|a, b| a < b), "different cards, ascending: {:?}", list);
            for card in list {
                let card = &mut after[usize::from(*card)];
                prop_assert!(card.takes(container.share, 3000, arguments.max_containers_per_card));
                card.add(container.share, 3000);
            }
        }
    }

    /// With any number of steps the answer is true: cards that have room, or that there is no room, or that it was not found out. With
    /// enough steps it is the best combination.
    #[test]
    fn a_search_that_ends_early_says_nothing_wrong(
        used in prop::collection::vec(any_card(), 1..5),
        containers in prop::collection::vec(any_container(), 1..5),
        memory in 2000i64..4000,
        arguments in any_arguments(),
        few in 0u64..3000,
    ) {
        let cards = Cards { used: &used, memory };
        let steps = Steps::new(few);
        let expected = allocate(&containers, cards, arguments);
        match best(&containers, cards, arguments, &steps) {
            Answer::Cards(found) => {
                if !steps.are_spent() {
                    prop_assert_eq!(Some(&found), expected.as_ref());
                }
                let mut after = used.clone();
                for (container, list) in containers.iter().zip(&found.cards) {
                    prop_assert_eq!(list.len(), container.cards as usize);
                    prop_assert!(list.is_sorted_by(|a, b| a < b), "different cards, ascending: {:?}", list);
                    for card in list {
                        let card = &mut after[usize::from(*card)];
                        prop_assert!(card.takes(container.share, memory, arguments.max_containers_per_card));
                        card.add(container.share, memory);
                    }
                }
                let better = expected.is_some_and(|best| match arguments.policy {
                    CardStrategy::Binpack => found.score > best.score,
                    CardStrategy::Spread => found.score < best.score,
                });
                prop_assert!(!better, "nothing is better than the best");
            }
            Answer::NoRoom => prop_assert_eq!(expected, None),
            Answer::TooComplex => prop_assert!(steps.are_spent()),
        }
    }

    /// First fit returns as many different cards as there are, cards that take the container first.
    #[test]
    fn first_fit_takes_the_first_cards_that_do(used in prop::collection::vec(any_card(), 1..6), container in any_container()) {
        let cards = Cards { used: &used, memory: 3000 };
        let chosen = first_fit(container, cards, 16);
        prop_assert_eq!(chosen.len(), (container.cards as usize).min(used.len()));
        let takes = |index: usize| used[index].takes(container.share, 3000, 16);
        let fitting: Vec<_> = (0..used.len()).filter(|index| takes(*index)).take(chosen.len()).map(card_index).collect();
        prop_assert!(fitting.iter().all(|card| chosen.contains(card)), "{:?} of {:?}", chosen, fitting);
    }
}

#[test]
fn a_container_shares_multiple_gpu_cards_three_containers_of_the_document() {
    let containers = [Request::part(2, 50, 3000), Request::full(1), Request::part(3, 33, 2000)];
    // Packed: the first two share cards 0 and 1, and the full card is alone.
    let packed = lists(&containers, &idle(4), BINPACK).unwrap();
    assert_eq!(packed, [vec![0, 1], vec![2], vec![0, 1, 3]]);
    // On three cards there is no room beside the full one.
    assert_eq!(lists(&containers, &idle(3), BINPACK), None);
}

#[test]
fn binpack_fills_a_card_before_the_next_and_spread_takes_the_emptiest() {
    let container = Request::part(1, 30, 3000);
    let cards = [used(20, 2000), used(60, 6000), CardUse::default()];
    assert_eq!(lists(&[container], &cards, BINPACK), Some(vec![vec![1]]));
    assert_eq!(lists(&[container], &cards, SPREAD), Some(vec![vec![2]]));
    assert_eq!(
        lists(&[container, container], &cards, SPREAD),
        Some(vec![vec![0], vec![2]])
    );
    // What no longer fits on the best card goes to the next best.
    assert_eq!(
        lists(&[Request::part(1, 50, 3000)], &cards, BINPACK),
        Some(vec![vec![0]])
    );
}

#[test]
fn weight_of_core_weighs_compute_against_memory() {
    // The first card has more compute in use, the second more memory.
    let cards = [used(60, 1000), used(10, 6000)];
    let chosen = |weight_of_core| {
        let arguments = Mgpu {
            weight_of_core,
            ..Mgpu::default()
        };
        let cards = Cards {
            used: &cards,
            memory: MEMORY,
        };
        allocate(&[Request::part(1, 10, 1000)], cards, arguments).unwrap()
    };
    assert_eq!(*chosen(100).cards[0], [0]);
    assert_eq!(*chosen(0).cards[0], [1]);
    // The document's 20: 0.2 * 70 + 0.8 * 20 = 30 against 0.2 * 20 + 0.8 * 70 = 60.
    assert_eq!(*chosen(20).cards[0], [1]);
    assert_eq!(chosen(20).score.percent(), 60);
}

#[test]
fn ties_break_to_the_lexicographically_smallest_card_lists() {
    // Only compute counts, so all of them are equally good, whatever memory is in use.
    let arguments = Mgpu {
        weight_of_core: 100,
        ..Mgpu::default()
    };
    let used = [used(40, 1000), used(40, 3000), used(40, 2000)];
    for policy in [BINPACK, SPREAD] {
        let arguments = Mgpu { policy, ..arguments };
        let chosen = |containers: &[Request]| {
            let cards = Cards {
                used: &used,
                memory: MEMORY,
            };
            allocate(containers, cards, arguments).unwrap().cards.concat()
        };
        assert_eq!(chosen(&[Request::part(1, 30, 1000)]), [0]);
        // The second card has not enough memory for the second container.
        assert_eq!(
            chosen(&[Request::part(1, 30, 1000), Request::part(1, 50, 8000)]),
            [0, 2]
        );
        assert_eq!(
            chosen(&[Request::part(1, 40, 1000), Request::part(2, 40, 1000)]),
            [0, 1, 2]
        );
    }
}

#[test]
fn full_cards_need_idle_ones() {
    let cards = [used(1, 256), CardUse::default(), used(99, 256), CardUse::default()];
    assert_eq!(lists(&[Request::full(2)], &cards, BINPACK), Some(vec![vec![1, 3]]));
    assert_eq!(lists(&[Request::full(3)], &cards, BINPACK), None);
    assert_eq!(
        lists(&[Request::full(1), Request::full(1)], &cards, BINPACK),
        Some(vec![vec![1], vec![3]])
    );
    // A part goes where the full card does not need to be.
    assert_eq!(
        lists(&[Request::part(1, 99, 256), Request::full(2)], &cards, BINPACK),
        Some(vec![vec![0], vec![1, 3]])
    );
    assert_eq!(lists(&[Request::full(u32::MAX)], &cards, BINPACK), None);
    assert_eq!(lists(&[Request::part(u32::MAX, 1, 256)], &cards, BINPACK), None);
}

#[test]
fn max_containers_per_card_is_kept() {
    let arguments = Mgpu {
        max_containers_per_card: 2,
        ..Mgpu::default()
    };
    let used = idle(2);
    let cards = Cards {
        used: &used,
        memory: MEMORY,
    };
    let containers = [Request::part(1, 10, 256); 5];
    assert_eq!(allocate(&containers, cards, arguments), None);
    let four = allocate(&containers[..4], cards, arguments).unwrap();
    assert_eq!(four.cards.concat(), [0, 0, 1, 1]);
}

#[test]
fn scores_of_nodes_with_cards_of_different_sizes_compare_exactly() {
    // 1/3 of the memory of one, and a hair more of the other.
    let score = |memory: i64, asked: i64| {
        let used = idle(1);
        let cards = Cards { used: &used, memory };
        let arguments = Mgpu {
            weight_of_core: 0,
            ..Mgpu::default()
        };
        allocate(&[Request::part(1, 1, asked)], cards, arguments).unwrap().score
    };
    assert_eq!(score(3000, 1000), score(81_558, 27_186));
    assert!(score(MAX_CARD_MEMORY, (MAX_CARD_MEMORY - 1) / 3) < score(3000, 1000));
    assert!(score(MAX_CARD_MEMORY, MAX_CARD_MEMORY / 3 + 1) > score(3000, 1000));
}

/// Returns an allocation, after checking that it takes no longer than any decision may.
fn in_time(containers: &[Request], cards: &[CardUse], policy: CardStrategy) -> Option<Vec<Vec<u16>>> {
    let start = Instant::now();
    let found = lists(containers, cards, policy);
    // A hundred times what a release build needs; exhaustive search would take years.
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    found
}

#[test]
fn many_containers_on_many_cards_never_blow_up() {
    for policy in [BINPACK, SPREAD] {
        for count in [6_u16, 8, 16] {
            let cards: Vec<_> = (0..i64::from(count))
                .map(|card| used(5 + 2 * card, 300 + 100 * card))
                .collect();
            // All different, and each needs a card of its own.
            let containers: Vec<_> = (0..i64::from(count))
                .map(|container| Request::part(1, 51 + container, 1000 + container))
                .collect();
            let found = in_time(&containers, &cards, policy).expect("there is room");
            let mut taken = found.concat();
            taken.sort_unstable();
            assert_eq!(taken, (0..count).collect::<Vec<_>>(), "each card once");
            // One more fits nowhere, though it would fit on any of the cards alone.
            let last = [containers, vec![Request::part(1, 52, 1000)]].concat();
            assert_eq!(in_time(&last, &cards, policy), None);
            // Equal containers on equal cards, one too many.
            let equal = vec![Request::part(1, 60, 256); usize::from(count) + 1];
            assert_eq!(in_time(&equal, &idle(count.into()), policy), None);
            let fitting = in_time(&equal[1..], &idle(count.into()), policy).unwrap();
            assert_eq!(fitting.concat(), (0..count).collect::<Vec<_>>());
        }
    }
}

#[test]
fn large_containers_among_small_ones_never_blow_up() {
    // Nine containers need one of eight cards each. That can't work, whichever container is placed first.
    let cards: Vec<_> = (0..16)
        .map(|card| used(if card < 8 { 10 + card } else { 38 + card % 8 }, 300 + card))
        .collect();
    let small: Vec<_> = (0..7).map(|container| Request::part(1, 51 + container, 1000)).collect();
    let large: Vec<_> = (0..9).map(|container| Request::part(1, 63 + container, 1000)).collect();
    for policy in [BINPACK, SPREAD] {
        assert_eq!(in_time(&[small.clone(), large.clone()].concat(), &cards, policy), None);
        assert!(in_time(&[small.clone(), large[1..].to_vec()].concat(), &cards, policy).is_some());
    }
}

/// The steps suffice many times over for realistic pods, and for pods far beyond these.
#[test]
fn what_people_write_takes_a_small_part_of_the_steps() {
    let cards: Vec<_> = (0..16).map(|card| used(5 + 2 * card, 300 + 100 * card)).collect();
    let document = vec![
        Request::part(2, 50, 3000),
        Request::part(3, 33, 2000),
        Request::part(1, 40, 2500),
    ];
    let four: Vec<_> = (0..4).map(|container| Request::part(1, 20 + container, 1000)).collect();
    let each_alone: Vec<_> = (0..16)
        .map(|container| Request::part(1, 51 + container, 1000 + container))
        .collect();
    for (containers, used, part) in [
        (&document, &cards[..8], 100),
        (&four, &cards[..8], 100),
        (&each_alone, &cards[..], 50),
        (&document, &cards[..], 2),
    ] {
        for policy in [BINPACK, SPREAD] {
            let steps = Steps::new(STEPS);
            let memory = MEMORY;
            let found = best(containers, Cards { used, memory }, arguments(policy), &steps);
            assert!(matches!(found, Answer::Cards(_)), "{found:?}");
            let spent = STEPS - steps.left();
            assert!(spent <= STEPS / part, "{spent} steps for {containers:?}");
        }
    }
}

#[test]
fn containers_that_share_all_cards_are_placed() {
    let containers: Vec<_> = (0..16).map(|container| Request::part(16, 6, 400 + container)).collect();
    for policy in [BINPACK, SPREAD] {
        let found = in_time(&containers, &idle(16), policy).unwrap();
        assert!(found.iter().all(|list| list.len() == 16));
        assert_eq!(
            in_time(
                &[containers.clone(), vec![Request::part(16, 5, 256)]].concat(),
                &idle(16),
                policy
            ),
            None
        );
    }
}
