//! That waiting can help by now, or can't any more, is told when it is so, though the reason is the same: numbers alone wait for minutes.

use engine::explain::{Fresh, Refresher, progress};
use engine::reason::Outlook;

use super::refreshed;
use crate::world::{World, group, node, pod, queue};

const NEVER: &str = "; waiting can't help: ";

/// A queue with so much of a quota, of which 20 are held and 33 asked for, and who was told that.
fn told(quota: i64) -> (World, Refresher) {
    let mut world = World::new();
    world.node(&node("n1").cards("A", 64));
    world.queue(&of(quota));
    world.pod(&pod("holds").asks("A", 20));
    assert_eq!(world.admit_names(), ["holds"]);
    world.pod(&pod("asks").asks("A", 33));
    world.pod(&pod("other").queue("elsewhere").asks("A", 1));
    assert_eq!(world.admit_names(), [""; 0]);
    world.wait(2);
    let mut refresher = Refresher::default();
    for notice in world.notices() {
        refresher.note(&notice, world.now);
    }
    assert_eq!(refreshed(&mut refresher, &world), [""; 0]);
    (world, refresher)
}

fn of(quota: i64) -> crate::world::Object {
    queue("team-a").quota(&format!("{{\"A\": {quota}}}"))
}

/// What is told now, once.
#[track_caller]
fn told_at_once(world: &mut World, refresher: &mut Refresher) -> String {
    assert_eq!(world.admit_names(), [""; 0]);
    assert_eq!(world.notices(), [], "the reason is the same");
    let told = refreshed(refresher, world);
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(refreshed(refresher, world), [""; 0]);
    told.concat()
}

#[test]
fn whom_a_quota_that_is_lowered_keeps_out_for_good_is_told_at_once_and_when_it_is_raised_again() {
    let (mut world, mut refresher) = told(40);
    for (quota, is_never) in [(32, true), (41, false), (30, true), (34, false)] {
        world.queue(&of(quota));
        let said = told_at_once(&mut world, &mut refresher);
        assert!(
            said.starts_with("asks: ") && said.contains(&format!("quota {quota}")),
            "{said}"
        );
        assert_eq!(said.contains(NEVER), is_never, "{said}");
    }
    // The number alone is no news.
    world.queue(&of(35));
    assert_eq!(world.admit_names(), [""; 0]);
    assert_eq!(refreshed(&mut refresher, &world), [""; 0]);
    world.wait(121);
    assert!(refreshed(&mut refresher, &world).concat().contains("quota 35"));
}

/// Nodes are no business of who lacks quota, so nobody looks at it again when they change.
#[test]
fn whom_no_node_could_take_any_more_is_told_at_once_and_when_one_comes() {
    let (mut world, mut refresher) = told(40);
    world.node(&node("n1").cards("A", 32));
    let said = told_at_once(&mut world, &mut refresher);
    assert!(said.contains(NEVER), "{said}");
    world.node(&node("n2").cards("A", 64));
    let said = told_at_once(&mut world, &mut refresher);
    assert!(!said.contains(NEVER), "{said}");
    world.remove_node("n2", world.now);
    let said = told_at_once(&mut world, &mut refresher);
    assert!(said.contains(NEVER), "{said}");
}

#[test]
fn a_group_is_told_at_once_too() {
    let mut world = World::new();
    world.node(&node("n1").cards("A", 64));
    world.queue(&of(40));
    world.pod(&pod("holds").asks("A", 20));
    assert_eq!(world.admit_names(), ["holds"]);
    world.group(&group("g", 1).card_request(r#"{"A": 33}"#));
    assert_eq!(world.admit_names(), [""; 0]);
    world.wait(2);
    let mut refresher = Refresher::default();
    for told in progress(&mut world.cluster, world.now, 10) {
        assert_eq!(told.outlook, Some(Outlook::NotYet), "{told:?}");
        refresher.note_progress(&told, world.now);
    }
    for (quota, is_never) in [(32, true), (41, false)] {
        world.queue(&of(quota));
        assert_eq!(world.admit_names(), [""; 0]);
        let fresh = refresher.refresh(&world.cluster, world.now, 10);
        let [Fresh::Workload(told)] = fresh.as_slice() else {
            panic!("{quota}: {fresh:?}");
        };
        let (_, message) = told.refused.as_ref().unwrap();
        assert_eq!(message.contains(NEVER), is_never, "{message}");
        assert!(refresher.refresh(&world.cluster, world.now, 10).is_empty());
    }
}
