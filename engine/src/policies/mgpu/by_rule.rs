//! A combination by a simple rule, for when there are no steps left to look for the best.

use std::cmp::Reverse;

use crds::configuration::{CardStrategy, Mgpu};
use crds::mgpu::ContainerRequest;

use super::score::{Score, weight};
use super::{Allocation, CardUse, Cards, amounts, card_index};

/// Puts the containers on cards one by one, each on the cards that suit the strategy best at that moment. Several orders are tried: the
/// largest containers first, by different measures, and then the pod's order. The first order that has room for all is taken.
pub(super) fn by_rule(containers: &[ContainerRequest], cards: Cards<'_>, arguments: Mgpu) -> Option<Allocation> {
    let in_order: Vec<usize> = (0..containers.len()).collect();
    let sorted = |key: &dyn Fn(&ContainerRequest) -> (i64, i64)| {
        let mut order = in_order.clone();
        order.sort_by_key(|place| Reverse(key(&containers[*place])));
        order
    };
    let of = |container: &ContainerRequest| amounts(container.share, cards.memory);
    let orders = [
        sorted(&|container| (of(container).1, container.cards.into())),
        sorted(&|container| (of(container).0, container.cards.into())),
        sorted(&|container| (container.cards.into(), of(container).1)),
    ];
    orders
        .iter()
        .chain([&in_order])
        .find_map(|order| in_turn(order, containers, cards, arguments))
}

fn in_turn(order: &[usize], containers: &[ContainerRequest], cards: Cards<'_>, arguments: Mgpu) -> Option<Allocation> {
    let mut after = cards.used.to_vec();
    let mut lists = vec![Box::default(); containers.len()];
    for place in order {
        let container = &containers[*place];
        let fullness = |used: &CardUse| weight(*used, cards.memory, arguments.weight_of_core);
        let takes = |used: &CardUse| used.takes(container.share, cards.memory, arguments.max_containers_per_card);
        let mut open: Vec<_> = (0..after.len()).filter(|card| takes(&after[*card])).collect();
        match arguments.policy {
            CardStrategy::Binpack => open.sort_by_key(|card| Reverse(fullness(&after[*card]))),
            CardStrategy::Spread => open.sort_by_key(|card| fullness(&after[*card])),
        }
        let wanted = usize::try_from(container.cards).ok()?;
        let mut chosen: Vec<usize> = open.get(..wanted)?.to_vec();
        chosen.sort_unstable();
        for card in &chosen {
            after[*card].add(container.share, cards.memory);
        }
        lists[*place] = chosen.into_iter().map(card_index).collect();
    }
    let touched = after.iter().zip(cards.used).filter(|(after, before)| after != before);
    let weights = touched.map(|(after, _)| weight(*after, cards.memory, arguments.weight_of_core));
    let (sum, count) = weights.fold((0, 0), |(sum, count), weight| (sum + weight, count + 1));
    Some(Allocation {
        cards: lists,
        score: Score::new(sum, count, cards.memory),
    })
}
