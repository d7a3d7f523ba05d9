//! What pods are told that are let in together: whose lack it is.

use std::sync::Arc;

use crds::configuration::Configuration;
use serde_json::json;

use super::*;

#[test]
fn a_group_of_one_is_told_what_its_pod_lacks_and_a_larger_one_how_many_go_in_together() {
    let (nodes, quota) = (("NoNodeFits", 40), ("InsufficientScalarQuota", 4));
    for ((reason, limit), asked, expected) in [
        (nodes, [1].as_slice(), "no node can take"),
        (
            nodes,
            &[1, 1],
            "the 2 pods of PodGroup g are let in together; of each, no node",
        ),
        // What one of them lacks the other does not.
        (
            nodes,
            &[1, 2],
            "the 2 pods of PodGroup g are let in together; of this one, no node",
        ),
        (
            nodes,
            &[0, 1],
            "the 2 pods of PodGroup g are let in together; of one of them, no node",
        ),
        (
            quota,
            &[1, 2],
            "the 2 pods of PodGroup g are let in together; of this one, queue team-a: A100 asked 1",
        ),
        (
            quota,
            &[0, 1],
            "the 2 pods of PodGroup g are let in together; of one of them, queue team-a: A100 asked 1",
        ),
    ] {
        let mut world = busy(4);
        world.queue(&queue("team-a").quota(&format!(r#"{{"A100": {limit}}}"#)));
        // Nobody is asked for the group as a whole.
        let scheduler = "actions: allocate\ntiers: [{plugins: [{name: capacity-card}]}]";
        let parsed = Configuration::parse(Some(scheduler), None).unwrap();
        let now = world.now;
        world.cluster.set_configuration(Arc::new(parsed.configuration), now);
        world.group(&group("g", asked.len().try_into().unwrap()));
        let pods = ["p", "q"].into_iter().zip(asked);
        let member = |name| pod(name).of("g").pinned_to("n1");
        world.pods(pods.map(|(name, asked)| match asked {
            0 => member(name),
            asked => member(name).asks("A100", *asked),
        }));
        assert_eq!(world.refusal_of("p"), reason);
        let id = world.cluster.pod_with_uid("p").unwrap();
        let told = explain(&world.cluster, Subject::Pod(id)).unwrap().message();
        assert!(told.starts_with(expected), "{told}");
    }
}

/// A pod that says a thousand things about nodes, each of which is looked up on every node.
fn wordy(index: i64, cpu: &str) -> Object {
    let says = (0..1000).map(|number| json!({"key": format!("none-{number}"), "operator": "DoesNotExist"}));
    let terms = json!([{ "matchExpressions": says.collect::<Vec<_>>() }]);
    let affinity =
        json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}});
    let pod = pod(&format!("p{index:02}")).requests("cpu", cpu);
    pod.with(&json!({"spec": {"affinity": affinity}}))
}

#[test]
fn whose_lack_it_is_is_looked_for_no_longer_than_a_message_may_take() {
    let told = |pods: i64| {
        let mut world = World::new();
        world.queue(&queue("team-a").capability("cpu", "1000"));
        // All but the last are too small for any of them, and the last for all of them.
        for index in 0..=99 {
            world.node(&node(&format!("n{index:02}")).offers("cpu", if index == 99 { "10" } else { "1" }));
        }
        world.group(&group("g", pods));
        world.pods((0..pods - 1).map(|index| wordy(index, &format!("{}m", 5100 + index)).of("g")));
        // This one alone lacks something by itself.
        world.pod(&wordy(pods - 1, "11").of("g"));
        assert_eq!(world.admit(), []);
        world.wait(1);
        loop {
            let notices = world.notices();
            assert!(!notices.is_empty());
            if let Some(of_first) = notices.into_iter().find(|notice| &*notice.pod.name == "p00") {
                return of_first.message;
            }
        }
    };
    assert!(told(4).contains("; of one of them, no node can take"), "{}", told(4));
    assert!(told(30).contains("; of this one, no node can take"), "{}", told(30));
}

/// Of a thousand terms on a thousand nodes, each message would take seconds on more of both.
#[test]
fn who_says_more_about_nodes_than_a_message_may_cost_is_told_how_many_were_not_asked() {
    let mut world = World::new();
    world.queue(&queue("team-a").capability("cpu", "1000"));
    for index in 0..1100 {
        world.node(&node(&format!("n{index:04}")).offers("cpu", "1"));
    }
    world.pod(&wordy(1, "2"));
    world.pod(&pod("brief").requests("cpu", "2"));
    assert_eq!(world.admit(), []);
    world.wait(1);
    let told = |name: &str| {
        let id = world.cluster.pod_with_uid(name).unwrap();
        explain(&world.cluster, Subject::Pod(id)).unwrap()
    };
    let brief = told("brief").message();
    assert!(brief.contains("1100 nodes: 1100 without enough room;"), "{brief}");
    assert_eq!(told("brief").outlook, Outlook::Never);
    let long = told("p01").message();
    let asked = 1_000_000_usize.div_ceil(16 + 1001);
    let counts = format!("1100 nodes: {asked} without enough room, {} not asked", 1100 - asked);
    assert!(long.contains(&counts), "{long}");
    assert_eq!(
        told("p01").outlook,
        Outlook::NotYet,
        "nobody knows that it is never let in"
    );
}

#[test]
fn groups_that_say_much_about_many_nodes_are_told_a_few_at_a_time() {
    let mut world = World::new();
    world.queue(&queue("team-a").capability("cpu", "1000"));
    for index in 0..500 {
        world.node(&node(&format!("n{index:03}")).offers("cpu", "1"));
    }
    for index in 0..30 {
        let name = format!("g{index:02}");
        world.group(&group(&name, 1));
        world.pod(&wordy(index, &format!("{}m", 2000 + index)).of(&name));
    }
    assert_eq!(world.admit(), []);
    world.wait(1);
    let told = progress(&mut world.cluster, world.now, 100);
    assert!((1..12).contains(&told.len()), "{} at once", told.len());
}

#[test]
fn who_says_much_about_many_nodes_is_told_a_few_at_a_time_and_others_between_them() {
    let mut world = World::new();
    world.queue(&queue("team-a").capability("cpu", "1000"));
    for index in 0..100 {
        world.node(&node(&format!("n{index:02}")).offers("cpu", "1"));
    }
    world.pods((0..100).map(|index| wordy(index, &format!("{}m", 2000 + index))));
    world.pod(&pod("other").namespace("others").requests("cpu", "3").created(1));
    assert_eq!(world.admit(), []);
    world.wait(1);
    let told = world.notices();
    assert!((10..50).contains(&told.len()), "{} at once", told.len());
    assert!(told.iter().any(|notice| &*notice.pod.name == "other"));
    let mut all = told.len();
    while let told = world.notices().len()
        && told > 0
    {
        all += told;
    }
    assert_eq!(all, 101);
}

#[test]
fn who_belongs_to_a_group_of_thousands_is_told_a_few_at_a_time() {
    let mut world = World::new();
    world.queue(&queue("team-a").capability("cpu", "10"));
    world.node(&node("n1").offers("cpu", "10"));
    world.group(&group("g", 2000));
    world.pods((0..2000).map(|index| pod(&format!("p{index}")).of("g").requests("cpu", "1")));
    assert_eq!(world.admit(), []);
    world.wait(1);
    let told = world.notices().len();
    assert!((1..20).contains(&told), "{told} at once");
    assert_eq!(progress(&mut world.cluster, world.now, 10).len(), 1);
}
