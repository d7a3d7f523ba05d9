//! Names that tenants make up: they cost no more than the pods that carry them, and nothing when those are gone.

use engine::overview;

use crate::world::{Object, World, node, pod, queue};

const MADE_UP: usize = 15_000;

fn world() -> World {
    let mut world = World::new();
    world.queue(&queue("team-a").quota(r#"{"NVIDIA-A100": 8, "NVIDIA-H100": 8}"#));
    world.node(&node("n1").cards("NVIDIA-A100", 8));
    world
}

/// Decides, and reports what has changed, as the operator does all the time.
fn settle(world: &mut World) {
    world.decide();
    world.shown();
}

/// The table of names, and what is shown of cards, is as small as before when the pods are gone; and a real card, which some
/// pod holds all the while, is itself at every moment.
#[test]
fn made_up_card_names_come_and_go_and_nothing_is_left() {
    let mut world = world();
    world.pod(&pod("real").asks("NVIDIA-A100", 1));
    assert_eq!(world.admit(), [("real".to_owned(), Some("NVIDIA-A100".to_owned()))]);
    for wave in 0..3 {
        for index in 0..MADE_UP {
            world.pod(&pod(&format!("p{index}")).asks(&format!("MADE-UP-{wave}-{index}"), 1));
            if index % 1000 == 0 {
                settle(&mut world);
            }
        }
        settle(&mut world);
        let named = world.cluster.names().card_numbers();
        assert!(
            (MADE_UP..MADE_UP + 2048).contains(&named),
            "{named} numbers for {MADE_UP} names"
        );
        assert_eq!(
            world.reason("p0").map(engine::reason::Reason::as_str),
            Some("GetTaskRequestResourceFailed")
        );
        for index in 0..MADE_UP {
            world.remove_pod(&format!("p{index}"));
            if index % 1000 == 0 {
                settle(&mut world);
            }
        }
        settle(&mut world);
        let left = world.cluster.names().known_cards();
        assert!(left <= 2048, "{left} names are left");
        assert_eq!(world.allocated("team-a", "NVIDIA-A100"), 1);
    }
    // Numbers that others had before are nobody's but those of their new names.
    world.node(&node("n2").cards("NVIDIA-H100", 8));
    world.pods([
        pod("a").asks("NVIDIA-H100|NVIDIA-A100", 1),
        pod("b").asks("MADE-UP-2-7", 1),
        pod("c").asks("NVIDIA-A100", 1),
    ]);
    let card = |name: &str| Some(name.to_owned());
    assert_eq!(
        world.admit(),
        [
            ("a".to_owned(), card("NVIDIA-H100")),
            ("c".to_owned(), card("NVIDIA-A100"))
        ]
    );
    assert_eq!(
        (
            world.allocated("team-a", "NVIDIA-H100"),
            world.allocated("team-a", "NVIDIA-A100")
        ),
        (1, 2)
    );
}

/// The same of resources, of which one pod may request dozens.
#[test]
fn made_up_resources_come_and_go_and_nothing_is_left() {
    let mut world = world();
    world.pod(&pod("real").asks("NVIDIA-A100", 1));
    world.decide();
    let resources = |world: &World| world.cluster.names().resource_names().count();
    for wave in 0..3 {
        for index in 0..500 {
            let request = |pod: Object, number| pod.requests(&format!("example.com/r{wave}-{index}-{number}"), "1");
            world.pod(&(0..60).fold(pod(&format!("p{index}")), request));
        }
        world.decide();
        assert!(resources(&world) >= 500 * 60);
        for index in 0..500 {
            world.remove_pod(&format!("p{index}"));
        }
        world.decide();
        let left = resources(&world);
        assert!(left <= 2048, "{left} numbers are left");
        assert_eq!(world.allocated("team-a", "NVIDIA-A100"), 1);
    }
    world.pod(&pod("next").asks("NVIDIA-A100", 7));
    assert_eq!(world.admit(), [("next".to_owned(), Some("NVIDIA-A100".to_owned()))]);
}

/// Nobody's made-up names are shown as cards of a queue, in its metrics or among the cluster's cards.
#[test]
fn made_up_names_are_not_shown() {
    let mut world = world();
    for index in 0..100 {
        let resource = format!("example.com/made-up-{index}");
        world.pod(
            &pod(&format!("p{index}"))
                .asks(&format!("MADE-UP-{index}"), 1)
                .requests(&resource, "1"),
        );
    }
    world.decide();
    let reports = format!("{:?}", world.shown());
    let figures = format!("{:?}", overview::figures(&world.cluster));
    for shown in [&reports, &figures] {
        assert!(
            shown.contains("NVIDIA-H100"),
            "a card of the quota that no node has: {shown}"
        );
    }
    assert!(!figures.to_lowercase().contains("made-up"), "{figures}");
    // The pods that are next say which card they wait for, and those are few.
    let told = reports.to_lowercase().matches("made-up").count();
    assert!(told <= 30, "{told} times: {reports}");
}

/// What a name of another object says that can be none is as short as the longest name, and nothing in it moves a cursor.
#[test]
fn what_can_be_no_name_is_told_in_part() {
    let mut world = world();
    let made_up = format!("a\u{9b}{}", "m".repeat(30_000));
    world.pod(&pod("p").annotation("scheduling.volcano.sh/queue-name", &made_up));
    let told = world.refusal();
    assert!(
        told.starts_with(r"QueueNotFound: queue a\u{9b}mmm") && told.len() < 200,
        "{told}"
    );
    world.queue(&queue("closed").set(["status", "state"], format!("O\0pen{}", "n".repeat(30_000))));
    world.pod(&pod("q").annotation("scheduling.volcano.sh/queue-name", "closed"));
    let told = world.refusal();
    assert!(
        told.starts_with(r"QueueNotOpen: queue closed is O\0pen")
            && told.len() < 5000
            && told.ends_with("or name another one"),
        "{told}"
    );
}
