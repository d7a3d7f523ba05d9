//! Queues that come late, change, close, or say who may use them; nodes that come late.

use engine::overview::Shown;
use serde_json::json;

use crate::world::{World, bare_pod, configuration, node, pod, queue};

fn world() -> World {
    let mut world = World::new();
    world.node(&node("n1").cards("A", 8));
    world.queue(&queue("team-a").quota(r#"{"A": 2}"#));
    world
}

#[test]
fn a_queue_that_is_created_late_lets_its_pods_in() {
    let mut world = world();
    world.pod(&pod("p").queue("late").asks("A", 1));
    assert_eq!(world.refusal_of("p"), "QueueNotFound");
    world.queue(&queue("late").quota(r#"{"A": 1}"#));
    assert_eq!(world.admit_names(), ["p"]);
}

#[test]
fn a_queue_that_is_removed_lets_nothing_in_and_its_pods_keep_what_they_hold() {
    let mut world = world();
    world.pods([pod("p").asks("A", 1), pod("q").asks("A", 2)]);
    assert_eq!(world.admit_names(), ["p"]);
    world.remove_queue("team-a");
    assert_eq!(world.refusal_of("q"), "QueueNotFound");
    assert_eq!(world.allocated("team-a", "A"), 1);
    world.queue(&queue("team-a").quota(r#"{"A": 3}"#));
    assert_eq!(world.admit_names(), ["q"]);
    assert_eq!(world.allocated("team-a", "A"), 3);
}

#[test]
fn a_queue_is_forgotten_when_it_is_gone_and_its_last_pod_too() {
    let mut world = world();
    world.pod(&pod("p"));
    world.remove_queue("team-a");
    assert_eq!(world.cluster.queues().count(), 1);
    world.remove_pod("p");
    assert_eq!(world.cluster.queues().count(), 0);
    assert_eq!(world.cluster.queue_named("team-a"), None);
}

#[test]
fn a_quota_that_is_raised_lets_waiting_pods_in() {
    let mut world = world();
    world.pods((0..4).map(|index| pod(&format!("p{index}")).asks("A", 1)));
    assert_eq!(world.admit_names(), ["p0", "p1"]);
    world.queue(&queue("team-a").quota(r#"{"A": 3}"#));
    assert_eq!(world.admit_names(), ["p2"]);
}

#[test]
fn a_quota_that_is_lowered_evicts_nobody_and_admits_nobody_until_usage_is_below() {
    let mut world = world();
    world.pods((0..4).map(|index| pod(&format!("p{index}")).asks("A", 1)));
    assert_eq!(world.admit_names(), ["p0", "p1"]);
    world.queue(&queue("team-a").quota(r#"{"A": 1}"#));
    assert_eq!(world.refusal_of("p2"), "InsufficientScalarQuota");
    assert_eq!(world.allocated("team-a", "A"), 2);
    world.remove_pod("p0");
    assert_eq!(world.refusal_of("p2"), "InsufficientScalarQuota");
    world.remove_pod("p1");
    assert_eq!(world.admit_names(), ["p2"]);
}

#[test]
fn a_closed_queue_lets_its_pods_in_once_it_is_open() {
    let mut world = world();
    world.pod(&pod("p").asks("A", 1));
    let closed = queue("team-a").quota(r#"{"A": 2}"#).set(["status", "state"], "Closed");
    world.queue(&closed);
    assert_eq!(world.refusal_of("p"), "QueueNotOpen");
    world.queue(&closed.set(["status"], json!({})));
    assert_eq!(world.admit_names(), ["p"]);
}

/// Nobody saw why they waited who looked at the queue.
#[test]
fn a_closed_queue_shows_a_problem_while_somebody_waits_there() {
    let mut world = world();
    let closed = queue("team-a").quota(r#"{"A": 2}"#).set(["status", "state"], "Closed");
    let problems = |world: &mut World| {
        let shown = world.shown().into_iter().rev();
        let mut usages = shown.filter_map(|shown| match shown {
            Shown::Usage { status, .. } => status,
            _ => None,
        });
        let usage = usages.next().unwrap();
        let of_state = usage.conditions.into_iter().find(|condition| condition.type_ == "Open");
        let is_problem = usage.problems.contains("QueueNotOpen");
        (is_problem, of_state.map(|condition| condition.message))
    };
    world.queue(&closed);
    assert_eq!(problems(&mut world), (false, None));
    world.pod(&pod("p").asks("A", 1));
    assert_eq!(world.refusal_of("p"), "QueueNotOpen");
    let (problem, message) = problems(&mut world);
    let message = message.unwrap();
    assert!(problem, "{message}");
    assert!(message.contains("is Closed, not Open"), "{message}");
    world.queue(&closed.clone().set(["status"], json!({})));
    assert_eq!(world.admit_names(), ["p"]);
    assert_eq!(problems(&mut world), (false, None));
    world.queue(&closed);
    assert_eq!(problems(&mut world), (false, None), "nobody waits");
}

#[test]
fn a_queue_that_can_not_be_read_lets_its_pods_in_once_it_is_mended() {
    let mut world = world();
    world.pod(&pod("p").asks("A", 1));
    world.queue(&queue("team-a").quota(r#"{"A": "2"}"#));
    assert_eq!(world.refusal_of("p"), "QueueInvalid");
    let unreadable = engine::Observation::QueueUnreadable {
        name: "team-a".into(),
        uid: "team-a".into(),
        reason: "spec.priority: invalid type".into(),
    };
    world.cluster.apply(unreadable, world.now);
    assert_eq!(world.refusal_of("p"), "QueueInvalid");
    world.queue(&queue("team-a").quota(r#"{"A": 2}"#));
    assert_eq!(world.admit_names(), ["p"]);
}

#[test]
fn a_queue_may_say_which_namespaces_use_it() {
    let mut world = world();
    world.queue(
        &queue("team-a")
            .quota(r#"{"A": 2}"#)
            .annotation("card.volcano.sh/namespaces", "team in (a, b)"),
    );
    world.namespace("team", &[("team", "c")], None);
    world.namespace("other", &[("team", "b")], None);
    world.pods([pod("p").asks("A", 1), pod("q").asks("A", 1).namespace("other")]);
    assert_eq!(world.admit_names(), ["q"]);
    assert_eq!(world.refusal_of("p"), "NamespaceNotAllowed");
    world.namespace("team", &[("team", "a")], None);
    assert_eq!(world.admit_names(), ["p"]);
}

#[test]
fn a_namespace_that_is_gone_has_no_labels_any_more() {
    let mut world = world();
    world.queue(
        &queue("team-a")
            .quota(r#"{"A": 2}"#)
            .annotation("card.volcano.sh/namespaces", "!private"),
    );
    world.namespace("team", &[("private", "")], None);
    world.pod(&pod("p").asks("A", 1));
    assert_eq!(world.refusal_of("p"), "NamespaceNotAllowed");
    world.remove_namespace("team", world.now);
    assert_eq!(world.admit_names(), ["p"]);
}

#[test]
fn a_pod_without_queue_belongs_to_its_namespaces_queue_or_the_default_and_stays_there() {
    let mut world = World::with(configuration("", "defaultQueue: fallback"));
    world.namespace("team", &[], Some("team-a"));
    let plain = |name: &str| {
        bare_pod(name)
            .annotation("volcano.sh/card.name", "A")
            .requests("nvidia.com/gpu", "1")
    };
    world.pods([plain("p").on("n1"), plain("q").namespace("elsewhere").on("n1")]);
    assert_eq!(world.allocated("team-a", "A"), 1);
    assert_eq!(world.allocated("fallback", "A"), 1);
    // A later change elsewhere does not move a charge.
    world.namespace("team", &[], Some("team-b"));
    world.pod(&plain("p").on("n1").annotation("note", "changed"));
    assert_eq!(world.allocated("team-a", "A"), 1);
}

/// Simulator's seed 90310: only an operator that was started anew let them into the queue that their namespace had come to name.
#[test]
fn who_waits_and_names_no_queue_waits_in_the_one_that_its_namespace_names_now() {
    let mut world = World::with(configuration("", "defaultQueue: full"));
    world.node(&node("n1").cards("A", 8));
    world.queue(&queue("full"));
    world.queue(&queue("roomy").quota(r#"{"A": 1}"#));
    let waiting = pod("p").queue("").asks("A", 1);
    world.pod(&waiting);
    assert_eq!(world.admit_names(), [""; 0]);
    world.namespace("team", &[], Some("roomy"));
    assert!(world.cluster.take_pods_wanted());
    world.pod(&waiting);
    assert_eq!(world.admit_names(), ["p"]);
    world.pod(&waiting.ungated().assigned("A"));
    // Once let in, it stays where it is.
    world.namespace("team", &[], Some("full"));
    assert!(!world.cluster.take_pods_wanted());
    assert_eq!((world.allocated("roomy", "A"), world.allocated("full", "A")), (1, 0));
}

#[test]
fn a_node_that_joins_late_lets_pods_in_whose_card_was_unknown() {
    let mut world = world();
    world.queue(&queue("team-a").quota(r#"{"A": 2, "B": 2}"#));
    world.pod(&pod("p").asks("B", 1));
    assert_eq!(world.refusal_of("p"), "GetTaskRequestResourceFailed");
    world.node(&node("n2").cards("B", 1));
    assert_eq!(world.admit(), [("p".to_owned(), Some("B".to_owned()))]);
}

#[test]
fn a_card_that_comes_to_mean_another_resource_is_searched_for_anew() {
    const OTHER: &str = "example.com/gpu";
    let mut world = world();
    // Of two card resources, one would be refused.
    world
        .cluster
        .set_configuration(configuration("", "unnamedCards: free"), world.now);
    let other = node("n2").label("example.com/gpu.product", "A").offers(OTHER, "8");
    let other = other
        .label("example.com/gpu.count", "8")
        .label("example.com/gpu.memory", "81920");
    world.node(&other.offers("nvidia.com/gpu", "8"));
    world.pod(&pod("p").asks("A", 1).requests(OTHER, "2"));
    // On the first node by name, A is nvidia.com/gpu; what the second means by it does not count.
    assert_eq!(world.refusal_of("p"), "NoNodeFits");
    let now = world.now;
    world.remove_node("n1", now);
    assert_eq!(world.admit_names(), ["p"]);
    assert_eq!(world.allocated("team-a", "A"), 2);
}

#[test]
fn room_that_comes_free_in_any_way_lets_pods_in() {
    let full = || {
        let mut world = world();
        world.queue(&queue("team-a").quota(r#"{"A": 20}"#));
        world.pods([pod("p").asks("A", 8), pod("q").asks("A", 8)]);
        assert_eq!(world.admit_names(), ["p"]);
        assert_eq!(world.refusal_of("q"), "NoNodeFits");
        world
    };
    let mut joined = full();
    joined.node(&node("n2").cards("A", 8));
    assert_eq!(joined.admit_names(), ["q"]);

    let mut gone = full();
    gone.remove_pod("p");
    assert_eq!(gone.admit_names(), ["q"]);

    let mut grown = full();
    grown.node(&node("n1").cards("A", 16));
    assert_eq!(grown.admit_names(), ["q"]);

    let mut finished = full();
    finished.pod(&pod("p").asks("A", 8).on("n1").assigned("A").phase("Succeeded"));
    assert_eq!(finished.admit_names(), ["q"]);

    let mut uncordoned = full();
    uncordoned.node(&node("n2").cards("A", 8).cordoned());
    assert_eq!(uncordoned.refusal_of("q"), "NoNodeFits");
    uncordoned.node(&node("n2").cards("A", 8));
    assert_eq!(uncordoned.admit_names(), ["q"]);

    // The pod landed elsewhere than it was expected.
    let mut moved = full();
    moved.node(&node("n2").cards("B", 8).label("nvidia.com/gpu.product", "B"));
    moved.seen_admitted(&pod("p").asks("A", 8), "p", Some("A"));
    assert_eq!(moved.refusal_of("q"), "NoNodeFits");
    moved.pod(&pod("p").asks("A", 8).assigned("A").on("n2"));
    assert_eq!(moved.admit_names(), ["q"]);
}

#[test]
fn everything_that_the_scheduler_counts_must_fit() {
    for (what, amount) in [
        ("cpu", "65"),
        ("memory", "513Gi"),
        ("nvidia.com/gpu", "9"),
        ("example.com/nic", "1"),
    ] {
        let mut world = world();
        world.queue(&queue("team-a").quota(r#"{"A": 20}"#));
        world.pod(&pod("p").asks("A", 1).requests(what, amount));
        assert_eq!(world.refusal_of("p"), "NoNodeFits", "{what}");
    }
    // Slots for pods, whoever's pods they are.
    let mut world = world();
    world.node(&node("n1").cards("A", 8).offers("pods", "3"));
    world.pods([bare_pod("x").on("n1"), bare_pod("y").on("n1").namespace("kube-system")]);
    world.pods([pod("p").asks("A", 1), pod("q").asks("A", 1)]);
    assert_eq!(world.admit_names(), ["p"]);
    assert_eq!(world.refusal_of("q"), "NoNodeFits");
}

mod admit_on_quota {
    use super::*;
    use engine::decide::Action;

    fn world() -> World {
        let mut world = World::with(configuration("", "admitOn: quota"));
        world.node(&node("n1").cards("A", 1));
        world.node(&node("n2").cards("B", 1));
        world.queue(&queue("team-a").quota(r#"{"A": 2, "B": 2}"#));
        world
    }

    #[test]
    fn pods_are_let_in_that_fit_nowhere_up_to_the_quota() {
        let mut world = world();
        world.pods((0..3).map(|index| pod(&format!("p{index}")).asks("A", 1)));
        assert_eq!(world.admit_names(), ["p0", "p1"]);
        assert_eq!(world.refusal_of("p2"), "InsufficientScalarQuota");
    }

    #[test]
    fn a_pod_whose_own_selectors_exclude_a_card_is_not_charged_for_it() {
        let mut world = world();
        let affine = |name: &str, cards: &str, product: &str| {
            let term = json!([{"matchExpressions": [
                {"key": "nvidia.com/gpu.product", "operator": "In", "values": [product]},
            ]}]);
            let path = [
                "spec",
                "affinity",
                "nodeAffinity",
                "requiredDuringSchedulingIgnoredDuringExecution",
                "nodeSelectorTerms",
            ];
            pod(name).asks(cards, 1).set(path, term)
        };
        let selecting = |name: &str, cards: &str, product: &str| {
            pod(name).asks(cards, 1).selects("nvidia.com/gpu.product", product)
        };
        world.pods([selecting("p", "A", "B"), affine("q", "A", "B")]);
        assert_eq!(world.admit(), []);
        assert_eq!(world.refusal_of("p"), "NodesExcluded");
        assert_eq!(world.refusal_of("q"), "NodesExcluded");
        world.pods([selecting("r", "A|B", "B"), affine("s", "A|B", "B")]);
        let b = Some("B".to_owned());
        assert_eq!(world.admit(), [("r".to_owned(), b.clone()), ("s".to_owned(), b)]);
    }

    #[test]
    fn pods_are_narrowed_to_their_card_also_while_the_autoscaler_has_removed_its_last_node() {
        let mut world = world();
        let now = world.now;
        world.remove_node("n1", now);
        world.pod(&pod("p").asks("A", 1));
        let [Action::Admit(admission)] = &world.decide()[..] else {
            panic!("one admission")
        };
        assert_eq!(
            admission.narrow,
            [("nvidia.com/gpu.product".to_owned(), "A".to_owned())]
        );
    }
}
