//! The first look of a leader, at what groups say that an earlier leader let into their queues.

use super::*;

/// Anybody may write this into their groups, and comparing their sets of cards takes long.
#[test]
fn the_groups_of_a_namespace_take_no_more_than_its_share() {
    const GROUPS: usize = 600;
    let mut world = world();
    world.queue(&queue("team-a").quota(r#"{"A100": 1000}"#));
    let inqueue = |name: &str, cards: &str| {
        let asks = group(name, 1).card_request(&format!(r#"{{"{cards}": 1}}"#));
        asks.set(["status", "phase"], "Inqueue")
    };
    for index in 0..GROUPS {
        world.group(&inqueue(&format!("g{index}"), &format!("A100|x{index}")));
    }
    world.group(&inqueue("h", "A100").namespace("other").created(1));
    let round = world.round();
    assert!(round.steps < 40_000_000, "{} steps", round.steps);
    assert!(world.is_kept("other", "h"), "before whoever is new");
    // The others take their turns.
    let mut rounds = 1;
    while world.round().more {
        rounds += 1;
        assert!(rounds < 20);
    }
    assert_eq!(world.kept("team-a"), i128::try_from(GROUPS).unwrap() + 1);
}
