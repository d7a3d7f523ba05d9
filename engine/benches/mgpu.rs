//! What placing an mGPU pod costs: the cards of one node, the best of many nodes. One core, without the API server.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a scene that can't be set is to end the benchmark"
)]

#[path = "../tests/decisions/world/mod.rs"]
#[expect(dead_code, reason = "the language of the tests, of which benchmarks need a part")]
mod world;

#[path = "scenes/mgpu.rs"]
mod scenes;

use std::hint::black_box;
use std::sync::Arc;

use crds::configuration::{CardStrategy, Configuration, Mgpu};
use crds::mgpu::ContainerRequest as Request;
use divan::Bencher;
use engine::decide::decide;
use engine::policies::mgpu::{CardUse, Cards, STEPS, allocate, best};
use engine::steps::Steps;

use scenes::{MEMORY, cluster, nodes_in_use};
use world::pod;

fn main() {
    divan::main();
}

/// Cards that are all in use differently, the last one idle.
fn partly_used(count: usize) -> Vec<CardUse> {
    let card = |index: i64| CardUse {
        core: 5 + 3 * index,
        memory: 1000 + 700 * index,
        containers: 1,
    };
    let mut cards: Vec<_> = (0..).map(card).take(count).collect();
    cards[count - 1] = CardUse::default();
    cards
}

fn measure(bencher: Bencher<'_, '_>, containers: &[Request], used: &[CardUse], fits: bool) {
    let cards = Cards { used, memory: MEMORY };
    assert_eq!(allocate(containers, cards, Mgpu::default()).is_some(), fits);
    bencher.bench_local(|| allocate(black_box(containers), black_box(cards), Mgpu::default()));
}

/// Eight partly used cards, and the document's containers: "2,1,3" with a full card among them, and "2,1,2".
#[divan::bench(args = ["2,1,3", "2,1,2"])]
fn one_node(bencher: Bencher<'_, '_>, list: &str) {
    let containers = match list {
        "2,1,3" => [Request::part(2, 50, 3000), Request::full(1), Request::part(3, 33, 2000)],
        _ => [
            Request::part(2, 30, 3000),
            Request::part(1, 40, 2500),
            Request::part(2, 20, 2000),
        ],
    };
    measure(bencher, &containers, &partly_used(8), true);
}

/// Eight containers of which each needs a card of its own.
fn eight() -> Vec<Request> {
    (0..8)
        .map(|index| Request::part(1, 55 + index, 9000 + 100 * index))
        .collect()
}

#[divan::bench]
fn eight_containers_on_eight_cards(bencher: Bencher<'_, '_>) {
    measure(bencher, &eight(), &partly_used(8), true);
}

/// One more, which would fit on any of the cards, were it alone.
#[divan::bench]
fn the_last_container_fits_nowhere(bencher: Bencher<'_, '_>) {
    let containers = [eight(), vec![Request::part(1, 55, 9000)]].concat();
    measure(bencher, &containers, &partly_used(8), false);
}

#[divan::bench]
fn sixteen_containers_on_sixteen_cards(bencher: Bencher<'_, '_>) {
    let cards: Vec<_> = (0..16)
        .map(|index| CardUse {
            core: 5 + 2 * index,
            memory: 1000 + 700 * index,
            containers: 1,
        })
        .collect();
    let containers: Vec<_> = (0..16)
        .map(|index| Request::part(1, 51 + index, 9000 + 100 * index))
        .collect();
    measure(bencher, &containers, &cards, true);
}

/// The worst that random search and hill climbing found: all of them spend the steps of a node, and end with what they have.
///
/// Each 3 to 8 core and about a third of a card, as the pod that once never ended; about half a card on cards that are all in
/// use differently; several cards for each container; and cards that only memory tells apart where only compute counts, so that
/// all sets of them are equally good.
#[divan::bench(args = ["thirds", "halves", "wide", "equal"])]
fn worst_on_one_node(bencher: Bencher<'_, '_>, instance: &str) {
    let arguments = |policy, weight_of_core| Mgpu {
        policy,
        weight_of_core,
        ..Mgpu::default()
    };
    let containers = |count: i64, wide: i64, part: i64| -> Vec<Request> {
        let container = |index: i64| {
            let cards = u32::try_from(1 + (index * 5) % wide).unwrap();
            Request::part(cards, 3 + index % 6, MEMORY / part - 900 + (index * 431) % 1800)
        };
        (0..count).map(container).collect()
    };
    let used = |count: i64, more: i64| -> Vec<CardUse> {
        let card = |index: i64| CardUse {
            core: 1 + index,
            memory: 256 + more * index,
            containers: 1,
        };
        (0..count).map(card).collect()
    };
    let equal = |count: i64| -> Vec<CardUse> {
        let card = |index: i64| CardUse {
            core: 10,
            memory: 100 + index,
            containers: 1,
        };
        (0..count).map(card).collect()
    };
    let (containers, used, arguments) = match instance {
        "thirds" => (containers(16, 1, 3), used(6, 100), arguments(CardStrategy::Spread, 20)),
        "halves" => (containers(14, 1, 2), used(8, 100), arguments(CardStrategy::Binpack, 20)),
        "wide" => (
            containers(16, 7, 4),
            vec![CardUse::default(); 16],
            arguments(CardStrategy::Spread, 20),
        ),
        _ => (containers(16, 1, 8), equal(68), arguments(CardStrategy::Binpack, 100)),
    };
    let cards = Cards {
        used: &used,
        memory: MEMORY,
    };
    let steps = Steps::new(STEPS);
    best(&containers, cards, arguments, &steps);
    assert!(steps.are_spent(), "{instance} leaves {} steps", steps.left());
    bencher.bench_local(|| best(black_box(&containers), cards, arguments, &Steps::new(STEPS)));
}

/// Cards count against no quota: what is measured is where pods go.
fn uncounted_cards() -> Arc<Configuration> {
    let parsed = Configuration::parse(None, Some("unnamedCards: free")).unwrap();
    Arc::new(parsed.configuration)
}

/// A whole decision about such a pod, on so many nodes whose cards are all in use differently; it is the first time each time.
#[divan::bench(args = [1, 100, 1000])]
fn worst_decision(bencher: Bencher<'_, '_>, nodes: usize) {
    let world = || {
        let held = |index, card| (1 + card, 256 + 100 * card + index);
        let mut world = nodes_in_use(uncounted_cards(), nodes, 8, held);
        let complex = (0..14).fold(pod("complex"), |pod, index| {
            let memory = MEMORY / 2 - 900 + (index * 431) % 1800;
            pod.container(&format!("c{index}"), 3 + index % 6, memory)
        });
        world.pod(&complex);
        world
    };
    bencher.with_inputs(world).bench_local_values(|mut world| {
        let round = decide(&mut world.cluster, world.now, 1);
        assert!(round.actions.is_empty() && round.steps > STEPS);
        world
    });
}

/// Filter, score and the decision, and the write that fails, so that the pod waits again.
#[divan::bench(args = [1000, 5000])]
fn one_decision(bencher: Bencher<'_, '_>, nodes: usize) {
    let mut world = cluster(uncounted_cards(), nodes);
    bencher.bench_local(|| {
        let actions = decide(&mut world.cluster, world.now, 1).actions;
        assert_eq!(actions.len(), 1);
        world.refuse("asks", world.now);
        world.wait(10);
    });
}
