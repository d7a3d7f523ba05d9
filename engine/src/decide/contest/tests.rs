#![allow(clippy::unwrap_used, reason = "part of tests")]

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::json;

use crate::Observation;
use crate::cluster::Cluster;
use crate::decide::decide;

fn queue(name: &str) -> Observation {
    let queue = json!({
        "metadata": {"name": name, "uid": name},
        "spec": {"capability": {"cpu": "10", "memory": "1Ti"}},
        "status": {"state": "Open"},
    });
    Observation::Queue(serde_json::from_value(queue).unwrap())
}

fn pod(name: &str, queue: &str, cpu: &str) -> Observation {
    let pod = json!({
        "metadata": {
            "namespace": "team", "name": name, "uid": name,
            "annotations": {"scheduling.volcano.sh/queue-name": queue},
        },
        "spec": {
            "schedulingGates": [{"name": "card.volcano.sh/quota"}],
            "containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}],
        },
    });
    Observation::Pod(serde_json::from_value(pod).unwrap())
}

/// Returns the queues that would be looked at now.
fn looked_at(cluster: &mut Cluster) -> Vec<String> {
    cluster.begin_look();
    let ids: Vec<_> = std::iter::from_fn(|| cluster.next_to_look_at()).collect();
    for id in &ids {
        cluster.stir_queue(*id);
    }
    ids.iter().map(|id| cluster.queue(*id).name.to_string()).collect()
}

/// What wakes queues is tested together with what is decided then (`decisions resting::`).
#[test]
fn of_queues_that_refuse_all_that_waits_those_are_looked_at_to_which_something_happens() {
    let now = Timestamp::UNIX_EPOCH;
    let mut cluster = Cluster::new(Arc::default());
    for name in ["a", "b", "c"] {
        cluster.apply(queue(name), now);
        cluster.apply(pod(&format!("{name}-waits"), name, "11"), now);
    }
    assert_eq!(looked_at(&mut cluster).len(), 3);
    for _ in 0..2 {
        assert_eq!(decide(&mut cluster, now, usize::MAX).actions, []);
    }
    assert_eq!(looked_at(&mut cluster), [""; 0]);
    cluster.apply(pod("another", "b", "12"), now);
    assert_eq!(looked_at(&mut cluster), ["b"]);
    for _ in 0..2 {
        assert_eq!(decide(&mut cluster, now, usize::MAX).actions, []);
    }
    assert_eq!(looked_at(&mut cluster), [""; 0]);
}
