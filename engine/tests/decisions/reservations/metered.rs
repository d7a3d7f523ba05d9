//! What is kept where CPU and memory count for nothing beside cards, and the pods with the cards go.

use engine::{Answer, Outcome};

use super::*;

fn world_of_few_cpus() -> World {
    let mut world = World::with(configuration("cardUnlimitedCpuMemory: true", "inqueueTimeout: 10m"));
    world.node(&node("n1").cards("A100", 8));
    world.namespace("team", &[("team", "a")], None);
    world.queue(
        &bare_queue("team-a")
            .quota(r#"{"A100": 5}"#)
            .capability("cpu", "8")
            .capability("memory", "1Ti"),
    );
    world
}

/// It kept eighty of eight CPUs, and nobody else in the queue got any, until its time in the queue was over.
#[test]
fn what_more_is_kept_without_the_pods_of_cards_is_checked() {
    let mut world = world_of_few_cpus();
    for (cpu, is_kept) in [("8", true), ("80", false)] {
        let group = group("g", 2).set(["spec", "minResources"], json!({"cpu": cpu}));
        world.group(&group);
        world.pod(&pod("card").asks("A100", 1).of("g"));
        assert_eq!(world.admit(), []);
        assert!(
            world.is_kept("team", "g"),
            "beside the card, its CPU counts for nothing"
        );
        world.remove_pod("card");
        assert_eq!(world.admit(), []);
        assert_eq!(world.is_kept("team", "g"), is_kept, "{cpu}");
        if !is_kept {
            assert_eq!(world.refused("g").1.reason.as_str(), "InsufficientCPUQuota");
        }
        world.remove_group("team", "g");
        world.admit();
    }
}

/// In between nothing was kept, with which it could have been compared.
#[test]
fn what_more_is_kept_is_checked_where_the_pod_of_cards_was_let_in_and_never_ran() {
    for (cpu, is_kept) in [("8", true), ("80", false)] {
        let mut world = world_of_few_cpus();
        world.group(&group("g", 1).set(["spec", "minResources"], json!({"cpu": cpu})));
        world.pod(&pod("card").asks("A100", 1).of("g"));
        assert_eq!(world.admit_names(), ["card"]);
        world.confirm("card");
        assert_eq!(world.admit(), []);
        assert!(!world.is_kept("team", "g"), "its pod has taken over");
        world.remove_pod("card");
        assert_eq!(world.admit(), []);
        assert_eq!(world.is_kept("team", "g"), is_kept, "{cpu}");
        if !is_kept {
            assert_eq!(world.refused("g").1.reason.as_str(), "InsufficientCPUQuota");
        }
    }
}

/// What is not kept meanwhile others may take.
#[test]
fn what_was_checked_once_is_checked_again_after_less_was_kept() {
    let mut world = world_of_few_cpus();
    world.group(&group("g", 2).set(["spec", "minResources"], json!({"cpu": "8"})));
    world.admit();
    let kept = |world: &World| {
        world
            .is_kept("team", "g")
            .then(|| world.known_queue("team-a").inqueue.clone())
    };
    let whole = kept(&world);
    world.pod(&pod("card").asks("A100", 1).of("g"));
    world.admit();
    assert!(kept(&world).is_some() && kept(&world) != whole);
    world.group(&group("h", 2).set(["spec", "minResources"], json!({"cpu": "8"})));
    world.admit();
    assert!(world.is_kept("team", "h"));
    world.remove_pod("card");
    world.admit();
    assert!(world.is_kept("team", "h") && !world.is_kept("team", "g"));
}

/// What counts may have become more by the configuration.
#[test]
fn what_more_is_kept_by_another_configuration_is_checked() {
    for (cpu, is_kept) in [("8", true), ("80", false)] {
        let mut world = world_of_few_cpus();
        world.group(&asking("g", 2).set(["spec", "minResources"], json!({"cpu": cpu})));
        world.admit();
        assert!(world.is_kept("team", "g"));
        let now = world.now;
        world.set_configuration(configuration("", "inqueueTimeout: 10m"), now);
        world.admit();
        assert_eq!(world.is_kept("team", "g"), is_kept, "{cpu}");
    }
}

/// Fifteen of eight CPUs were kept: what was given up with the first pod, others had by the time that this was not let in, or gone.
#[test]
fn what_is_kept_again_is_checked_again() {
    type End = fn(&mut World);
    let ends: [(&str, End); 4] = [
        ("it is gone", |world| {
            world.confirm("first");
            world.remove_pod("first");
        }),
        ("it is gone before it is let in", |world| world.remove_pod("first")),
        ("it is not let in", |world| world.refuse("first", world.now)),
        ("it may not be let in", |world| {
            let refused = Answer::Refused("no".into());
            world.hear(&Outcome::Admission("first".into(), refused), world.now);
        }),
    ];
    for (end, ends, cpu, is_kept) in ends
        .into_iter()
        .flat_map(|(end, ends)| [(end, ends, "1", true), (end, ends, "7", false)])
    {
        let mut world = world_of_few_cpus();
        world.group(&group("g", 1).set(["spec", "minResources"], json!({"cpu": "7"})));
        world.pod(&pod("first").of("g"));
        assert_eq!(world.admit_names(), ["first"]);
        world.group(&group("h", 1).set(["spec", "minResources"], json!({"cpu": cpu})));
        world.admit();
        assert!(!world.is_kept("team", "g") && world.is_kept("team", "h"));
        ends(&mut world);
        world.admit();
        assert!(world.is_kept("team", "h"));
        assert_eq!(world.is_kept("team", "g"), is_kept, "{end}, {cpu}");
        if !is_kept {
            assert_eq!(world.refused("g").1.reason.as_str(), "InsufficientCPUQuota");
        }
    }
}

/// Of two the younger goes without, whichever was seen first; and has not lost its turn by what the configuration did.
#[test]
fn where_another_configuration_leaves_room_for_one_the_oldest_keeps_it() {
    let of_five = |name: &str, age: i64| {
        asking(name, 1)
            .created(age)
            .set(["spec", "minResources"], json!({"cpu": "5"}))
    };
    for young_is_first in [true, false] {
        let mut world = world_of_few_cpus();
        let mut groups = [of_five("young", 1), of_five("old", 0)];
        if !young_is_first {
            groups.reverse();
        }
        for group in &groups {
            world.group(group);
        }
        world.admit();
        assert!(world.is_kept("team", "young") && world.is_kept("team", "old"));
        let now = world.now;
        world.set_configuration(configuration("", "inqueueTimeout: 10m"), now);
        world.admit();
        assert!(!world.is_kept("team", "young") && world.is_kept("team", "old"));
        world.remove_group("team", "old");
        world.admit();
        assert!(world.is_kept("team", "young"));
    }
}

/// To try whether all pods of a group have places counts some as let in for a moment: nothing was taken over by that.
#[test]
fn what_is_only_tried_leaves_what_is_kept_as_it_was_checked() {
    let mut world = World::with(configuration("", "inqueueTimeout: 10m"));
    world.node(&node("n1").cards("A100", 4));
    world.node(&node("n2").cards("A100", 4));
    world.namespace("team", &[("team", "a")], None);
    world.queue(&queue("team-a").quota(r#"{"A100": 8}"#));
    world.queue(&queue("team-b").quota(r#"{"A100": 4}"#));
    world.pod(&pod("others").queue("team-b").asks("A100", 4).on("n2"));
    world.group(&group("g", 8).card_request(r#"{"A100": 8}"#));
    world.pods((0..8).map(|index| pod(&format!("g-{index}")).asks("A100", 1).of("g")));
    world.admit();
    assert!(world.is_kept("team", "g"), "four of its pods have no place");
    // What is kept for workloads keeps out other workloads, and no pods.
    world.pod(&pod("plain").asks("A100", 1));
    assert_eq!(world.admit_names(), ["plain"]);
    world.confirm("plain");
    for _ in 0..3 {
        world.node(&node("n1").cards("A100", 4).label("seen", &world.now.to_string()));
        world.wait(1);
        world.admit();
        assert!(world.is_kept("team", "g"));
    }
}
