//! What pods are told that are let in together: whose lack it is.

use std::sync::Arc;

use crds::configuration::Configuration;

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
