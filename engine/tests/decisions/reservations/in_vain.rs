//! What is kept and not used is not kept for ever, however it is given up.

use super::*;

#[test]
fn many_empty_groups_hold_a_quota_no_longer_than_one() {
    let mut world = world();
    // Twenty groups of one tenant, all before the other's.
    for index in 0..20 {
        world.group(&asking(&format!("empty-{index}"), 5));
    }
    world.group(&asking("b", 5).namespace("other").created(1));
    world.admit();
    assert!(!world.is_kept("other", "b"));
    world.wait(600);
    world.admit();
    assert!(world.is_kept("other", "b"), "the others step back with the first");
    // Again and again: at most ten minutes in a row, and then longer and longer nothing.
    world.remove_group("other", "b");
    for round in 1..=8_u32 {
        world.wait(30 * 2_i64.pow(round - 1).min(120));
        world.group(&asking("b", 5).namespace("other").created(1));
        world.admit();
        assert!(
            world.is_kept("other", "b"),
            "behind the others of its priority, also when its time has come"
        );
        world.remove_group("other", "b");
        world.wait(3600);
        world.admit();
        assert_eq!(world.kept("team-a"), 5, "nobody else wants it");
        world.wait(600);
        world.admit();
    }
}

/// One namespace makes groups in turn, each of which is given up in this way just before its time is over: another one has its turn soon.
#[track_caller]
fn another_has_its_turn_where_groups_are_given_up(give_up: impl Fn(&mut World, &str)) {
    let mut world = world();
    world.group(&asking("b", 5).namespace("other").created(1));
    let mut held = 0;
    for index in 0..40 {
        let name = format!("g-{index}");
        // As old as any: it would always go before the other.
        world.group(&asking(&name, 5));
        world.admit();
        if !world.is_kept("team", &name) {
            break;
        }
        world.wait(590);
        held += 590;
        give_up(&mut world, &name);
    }
    assert!(world.is_kept("other", "b"));
    assert!(held <= 1200, "held for {held} s");
}

#[test]
fn groups_that_are_made_and_deleted_in_turn_hold_no_more_than_ones_that_stay() {
    another_has_its_turn_where_groups_are_given_up(|world, name| {
        // Time passes in rounds, also those in which nothing is decided.
        world.admit();
        world.remove_group("team", name);
    });
}

#[test]
fn groups_that_cannot_be_used_for_a_while_hold_no_more_than_ones_that_stay() {
    let unusable = |name: &str| asking(name, 5).set(["spec", "minTaskMember"], json!({ "w".repeat(300): 1 }));
    let completed = |name: &str| asking(name, 5).set(["status", "phase"], "Completed");
    let running = |name: &str| asking(name, 5).set(["status", "phase"], "Running");
    for edited in [&unusable as &dyn Fn(&str) -> Object, &completed, &running] {
        another_has_its_turn_where_groups_are_given_up(|world, name| {
            world.group(&edited(name));
            assert!(!world.is_kept("team", name));
            // Its time in the queue passes meanwhile, or it goes.
            if name.ends_with(['1', '3', '5', '7', '9']) {
                world.remove_group("team", name);
            }
            world.wait(10);
            world.cluster.advance(world.now);
            world.remove_group("team", name);
        });
    }
}

#[test]
fn what_is_kept_until_pods_come_that_no_node_could_take_counts_as_kept_in_vain() {
    another_has_its_turn_where_groups_are_given_up(|world, name| {
        let late = format!("{name}-0");
        world.pod(&pod(&late).of(name).asks("A100", 9));
        world.admit();
        assert!(!world.is_kept("team", name), "no node has nine cards");
        world.remove_pod(&late);
        world.remove_group("team", name);
    });
}

#[test]
fn pods_that_are_too_few_or_that_no_node_takes_together_do_not_keep_it() {
    let mut world = world();
    world.group(&group("few", 2).card_request(r#"{"A100": 5}"#));
    world.pod(&pod("few-0").of("few").asks("A100", 1));
    world.admit();
    assert!(world.is_kept("team", "few"));
    world.wait(600);
    world.admit();
    assert!(!world.is_kept("team", "few"));
    // Each of these fits, and both together never will.
    let mut world = self::world();
    world.group(&group("wide", 2).card_request(r#"{"A100": 2}"#));
    world.pods((0..2).map(|index| {
        pod(&format!("wide-{index}"))
            .of("wide")
            .asks("A100", 1)
            .requests("cpu", "60")
    }));
    world.admit();
    assert!(world.is_kept("team", "wide"));
    world.group(&asking("b", 5).namespace("other").created(1));
    world.wait(600);
    world.admit();
    assert!(!world.is_kept("team", "wide") && world.is_kept("other", "b"));
}

#[test]
fn a_job_whose_pods_never_come_is_kept_nothing_and_not_resumed_again() {
    let mut world = world();
    let job = held_job("job", r#"{"A100": 5}"#);
    world.job(&job);
    assert_eq!(world.decide().len(), 1);
    world.job(&job.set(["spec", "suspend"], false));
    world.wait(600);
    assert_eq!(world.decide(), []);
    assert_eq!(world.kept("team-a"), 0);
    world.wait(30);
    assert_eq!(world.decide(), []);
    assert_eq!(world.kept("team-a"), 5);
}
