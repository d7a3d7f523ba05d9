//! Pods whose shares of cards can be combined in more ways than anybody can try: they wait with that reason, and cost others
//! nothing. Work is counted in steps, so that this holds on every machine.

use engine::decide::{Round, decide};
use engine::reason::Reason;

use super::*;

/// Memory of a card, in MiB.
const MEMORY: i64 = 81_559;
/// The most that one round may cost for one queue: what ends its turn, and the question that did.
const MOST_PER_ROUND: u64 = 18_000_000;

/// Fourteen containers that ask for about half a card each.
fn complex(name: &str) -> Object {
    (0..14).fold(pod(name), |pod, index| {
        let memory = MEMORY / 2 - 900 + (index * 431) % 1800;
        pod.container(&format!("c{index}"), 3 + index % 6, memory)
    })
}

/// A node with eight cards that are all in use differently: two such containers fit on none of them.
fn used_node(world: &mut World, name: &str, shift: i64) {
    world.node(&node(name).mgpu(8, MEMORY, FIXED));
    for card in 0..8 {
        let index = "vke.volcengine.com/gpu-index-container-main";
        let running = pod(&format!("{name}-{card}")).share(1 + card, 256 + 100 * card + shift);
        world.pod(&running.annotation(index, &card.to_string()).on(name));
    }
}

fn round(world: &mut World) -> Round {
    decide(&mut world.cluster, world.now, usize::MAX)
}

#[test]
fn a_pod_that_is_too_complex_says_so_and_is_not_tried_again_until_cards_change() {
    let mut world = world(&[]);
    used_node(&mut world, "g1", 0);
    world.pod(&complex("p"));
    insta::assert_snapshot!(world.refusal(), @"TooComplex: too complex: the shares of the pod's 14 containers can be combined in more ways than are tried, and none of those fits: split the pod, or wait for cards that are less in use: 1 mGPU node: 1 where no way was found");
    let again = round(&mut world);
    assert_eq!((again.steps, again.more), (0, false), "nothing has changed");
    // A node without room is asked alone, and shortly.
    used_node(&mut world, "g2", 0);
    let changed = round(&mut world);
    assert!(
        changed.actions.is_empty() && changed.steps < 30_000,
        "{} steps",
        changed.steps
    );
    assert_eq!(world.refusal_of("p"), "TooComplex");
    // On cards that nobody uses, room is found by a simple rule.
    world.node(&node("g3").mgpu(8, MEMORY, FIXED));
    assert_eq!(world.admit_names(), ["p"]);
}

#[test]
fn who_was_too_complex_for_cards_that_are_all_in_use_now_is_told_that() {
    let mut world = world(&[]);
    used_node(&mut world, "g1", 0);
    world.pod(&complex("p"));
    assert_eq!(world.refusal_of("p"), "TooComplex");
    let index = "vke.volcengine.com/gpu-index-container-main";
    world.pods((0..8).map(|card| {
        let full = pod(&format!("full-{card}")).share(10, MEMORY - 2000);
        full.annotation(index, &card.to_string()).on("g1")
    }));
    // What comes free makes the node be asked again.
    world.remove_pod("g1-0");
    assert_eq!(world.refusal_of("p"), "InsufficientMGPU");
}

#[test]
fn the_pods_of_one_tenant_that_are_too_complex_delay_nobody_else() {
    let mut world = world(&[]);
    world.queue(&queue("team-b"));
    used_node(&mut world, "g1", 0);
    world.pods((0..12).map(|index| complex(&format!("p{index:02}")).priority(index)));
    // Created last, and of a queue that goes last by name.
    world.pod(&pod("honest").queue("team-b").share(30, 1000).created(9));
    let (mut rounds, mut first) = (0, true);
    loop {
        let round = round(&mut world);
        rounds += 1;
        assert!(round.steps <= MOST_PER_ROUND, "{} steps in one round", round.steps);
        if std::mem::take(&mut first) {
            assert!(
                matches!(&round.actions[..], [Action::Admit(admission)] if &*admission.pod.name == "honest"),
                "{:?}",
                round.actions
            );
        } else {
            assert!(round.actions.is_empty());
        }
        if !round.more {
            break;
        }
    }
    assert!((2..=12).contains(&rounds), "{rounds} rounds");
    let complex = (0..12).filter(|index| world.reason(&format!("p{index:02}")) == Some(Reason::TooComplex));
    assert_eq!(complex.count(), 12);
    // What all of them cost from now on is what few looks at what has changed cost.
    used_node(&mut world, "g2", 0);
    let changed = round(&mut world);
    assert!(!changed.more && changed.steps < 12 * 30_000, "{} steps", changed.steps);
}

#[test]
fn a_question_about_many_nodes_costs_no_more_than_a_few_steps_for_each() {
    let mut steps = Vec::new();
    for nodes in [40, 80] {
        let mut world = world(&[]);
        for index in 0..nodes {
            used_node(&mut world, &format!("g{index:03}"), index);
        }
        world.pod(&complex("p"));
        let round = round(&mut world);
        assert!(round.actions.is_empty());
        assert_eq!(world.reason("p"), Some(Reason::TooComplex));
        steps.push(round.steps);
    }
    // Three million for all together, and twenty thousand for each.
    assert!(steps[1] - steps[0] <= 40 * 21_000, "{steps:?}");
    assert!(steps[0] <= 3_000_000 + 40 * 21_000, "{steps:?}");
}

/// A message about shares of cards searches them: that counts among what is spent on those that are told something at once.
#[test]
fn who_is_told_of_cards_leaves_time_for_others() {
    let mut world = world(&[]);
    for index in 0..50 {
        used_node(&mut world, &format!("g{index:02}"), index);
    }
    world.pods((0..12).map(|index| complex(&format!("p{index:02}"))));
    while round(&mut world).more {}
    let mut told = Vec::new();
    loop {
        let notices = world.notices();
        assert!(
            notices.iter().all(|notice| notice.reason == Reason::TooComplex),
            "{notices:?}"
        );
        if notices.is_empty() {
            break;
        }
        told.push(notices.len());
    }
    // A million steps each, of four million at once.
    assert_eq!(told, [4, 4, 4]);
}
