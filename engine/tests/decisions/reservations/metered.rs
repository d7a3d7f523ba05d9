//! What is kept where CPU and memory count for nothing beside cards, and the pods with the cards go.

use super::*;

/// It kept eighty of eight CPUs, and nobody else in the queue got any, until its time in the queue was over.
#[test]
fn what_more_is_kept_without_the_pods_of_cards_is_checked() {
    let mut world = World::with(configuration("cardUnlimitedCpuMemory: true", "inqueueTimeout: 10m"));
    world.node(&node("n1").cards("A100", 8));
    world.namespace("team", &[("team", "a")], None);
    world.queue(
        &bare_queue("team-a")
            .quota(r#"{"A100": 5}"#)
            .capability("cpu", "8")
            .capability("memory", "1Ti"),
    );
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
