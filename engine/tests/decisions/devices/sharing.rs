//! Claims that several pods name: who of them is charged, whatever becomes of the others.

use super::*;

fn let_in(name: &str) -> Object {
    let pod = bare_pod(name).queue("team-a");
    sharing(pod.annotation("volcano.sh/card.assigned", r#"{"A":2}"#), "shared")
}

fn waiting(name: &str) -> Object {
    sharing(pod(name), "shared")
}

/// A world with a claim for two `A`, which `allocated` says where they are.
fn with_claim(status: &Value) -> World {
    let mut world = world();
    world.claim("shared", &exactly(2, Some("A")), status);
    world
}

#[test]
fn who_is_deleted_and_never_goes_leaves_its_claim_to_be_paid_by_who_has_it() {
    let mut world = with_claim(&json!({}));
    world.pod(&waiting("p1"));
    world.pod(&waiting("p2"));
    assert_eq!(world.admit_names(), ["p1"]);
    world.pod(&let_in("p1"));
    assert_eq!(world.admit_names(), ["p2"]);
    world.pod(&sharing(bare_pod("p2").queue("team-a"), "shared").on("n1"));
    world.claim("shared", &exactly(2, Some("A")), &allocated("n1", &["gpu-0", "gpu-1"]));
    assert_eq!(world.allocated("team-a", "A"), 2);
    // Who paid is nowhere, and somebody's finalizer keeps it.
    world.pod(&let_in("p1").deleted(0));
    world.wait(3600);
    assert_eq!(world.admit_names(), [""; 0]);
    assert_eq!(world.allocated("team-a", "A"), 2);
    // Who comes later shares it with who pays now.
    world.pod(&waiting("p3"));
    assert_eq!(world.admit(), [("p3".to_owned(), None)]);
    assert_eq!(world.allocated("team-a", "A"), 2);
    // And pays, where nobody else is left who could.
    world.pod(&waiting("p3"));
    world.remove_pod("p2");
    world.remove_pod("p3");
    assert_eq!(world.allocated("team-a", "A"), 0);
    world.pod(&waiting("p4"));
    assert_eq!(world.admit(), [admitted("p4", r#"{"A":2}"#)]);
    assert_eq!(world.allocated("team-a", "A"), 2);
}

#[test]
fn whoever_begins_charges_who_was_let_in_and_not_who_waits() {
    let runs = let_in("p2").on("n1");
    for order in [[&waiting("p1"), &runs], [&runs, &waiting("p1")]] {
        let mut world = with_claim(&allocated("n1", &["gpu-0", "gpu-1"]));
        world.queue(&queue("team-a").quota(r#"{"A": 2}"#));
        world.claim("other", &exactly(2, Some("A")), &json!({}));
        world.pod(&claiming(pod("p0"), "other"));
        world.pods(order.map(Clone::clone));
        assert_eq!(world.admit(), [("p1".to_owned(), None)]);
        assert_eq!(world.allocated("team-a", "A"), 2);
        assert_eq!(world.refusal_of("p0"), "InsufficientScalarQuota");
    }
}
