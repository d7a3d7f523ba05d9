//! What causes nothing: objects that say what they said before.

use serde_json::json;

use super::world::{World, node, pod, queue};

const NODES: usize = 5_000;

#[test]
fn heartbeats_of_5_000_idle_nodes_leave_nothing_to_write() {
    let mut world = World::new();
    let nodes: Vec<_> = (0..NODES)
        .map(|index| node(&format!("node-{index:04}")).cards("A100", 8))
        .collect();
    for node in &nodes {
        world.node(node);
    }
    world.queue(&queue("team-a").quota(r#"{"A100": 1}"#));
    world.pods([
        pod("runs").asks("A100", 1).assigned("A100").on("node-0000"),
        pod("waits").asks("A100", 1),
    ]);
    assert_eq!(world.admit(), []);
    world.wait(10);
    assert_eq!(world.notices().len(), 1);
    let shown = world.shown();
    assert_eq!(shown.len(), NODES + 2, "every node, the card, and the queue");

    for heartbeat in 0..3 {
        world.wait(10);
        for node in &nodes {
            // What kubelets report that is none of Cardgate's business.
            let ready = json!([{"type": "Ready", "status": "True", "lastHeartbeatTime": world.now.to_string()}]);
            let images = json!([{"names": [format!("image:{heartbeat}")], "sizeBytes": heartbeat}]);
            world.node(
                &node
                    .clone()
                    .set(["status", "conditions"], ready)
                    .set(["status", "images"], images),
            );
        }
        world.pod(&pod("waits").asks("A100", 1).label("beat", &heartbeat.to_string()));
        assert_eq!(world.decide(), []);
        assert_eq!(world.notices(), []);
        assert_eq!(world.shown().len(), 0);
    }

    // A change that matters is seen, and nothing else.
    world.node(&node("node-4999").cards("A100", 7));
    assert_eq!(world.shown().len(), 2, "the node and the card");
}
