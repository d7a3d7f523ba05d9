//! What users see of pods that wait for quota.

use engine::overview::figures;
use engine::reason::Reason;

use super::*;

#[test]
fn pods_that_wait_in_no_queue_are_counted_by_their_reason() {
    let mut world = world("quota.cpu: 2");
    world.node(&gpu_node("gpu-1"));
    world.pods([cpu("p", "2"), cpu("q", "1"), cpu("r", "1")]);
    assert_eq!(world.admit_names(), ["p"]);
    let waiting = |world: &World| {
        let figures = figures(&world.cluster);
        let nameless = figures.into_iter().find(|queue| queue.queue.is_empty());
        nameless.map(|queue| (queue.waiting, queue.cards.len(), queue.standing.is_some()))
    };
    let two = vec![(Reason::CrossQuotaExceeded, 2)];
    assert_eq!(waiting(&world), Some((two, 0, false)), "and no figures of a queue");
    world.remove_pod("p");
    assert_eq!(world.admit_names(), ["q", "r"]);
    assert_eq!(waiting(&world), None);
}
