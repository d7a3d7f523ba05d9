//! What pods cost that can't get in: counted in judgements, not in time.

use std::cell::RefCell;
use std::collections::BTreeSet;

use engine::decide::decide_watched;
use engine::explain::{notices, progress};
use engine::trail::{Trail, Work};
use serde_json::json;

use super::world::{PRODUCT, World, group, node, pod, queue, queue_plugin};

/// Pods of which nothing is alike, and for which there is no quota.
const HOPELESS: usize = 10_000;

/// The names of what is judged, in this order.
#[derive(Default)]
struct Judged(RefCell<Vec<String>>);

impl Trail for Judged {
    fn at(&self, work: Work) {
        self.0.borrow_mut().push(work.object.name.to_string());
    }

    fn over(&self) {}
}

/// What one round judges, and how many it lets in.
fn round(world: &mut World) -> (Vec<String>, usize) {
    let judged = Judged::default();
    let round = decide_watched(&mut world.cluster, world.now, usize::MAX, &judged);
    assert!(!round.more);
    (judged.0.into_inner(), round.actions.len())
}

#[test]
fn hopeless_pods_of_one_queue_are_judged_once_and_never_again_for_what_others_do() {
    let mut world = World::new();
    world.node(&node("n-1").cards("A100", 8));
    world.queue(&queue("attacker").quota(r#"{"A100": 0}"#));
    world.queue(&queue("victim").quota(r#"{"A100": 8}"#));
    for number in 0..HOPELESS {
        let name = format!("hopeless-{number:05}");
        let hopeless = pod(&name).queue("attacker").asks("A100", 1);
        world.pod(&hopeless.requests("cpu", &format!("{}m", 100 + number)));
    }
    let (judged, admitted) = round(&mut world);
    assert_eq!((judged.len(), admitted), (HOPELESS, 0));

    for number in 0..3 {
        let name = format!("fine-{number}");
        world.pod(&pod(&name).queue("victim").asks("A100", 1));
        let (judged, admitted) = round(&mut world);
        assert_eq!((judged, admitted), (vec![name.clone()], 1));
        world.confirm(&name);
        assert_eq!(round(&mut world), (vec![], 0));
        // What is told to them costs no judgement either.
        world.wait(10);
        assert!(!world.notices().is_empty() || number > 0);
        assert_eq!(round(&mut world), (vec![], 0));
    }
    // One more of them is judged, and the others are not.
    world.pod(&pod("hopeless-more").queue("attacker").asks("A100", 2));
    assert_eq!(round(&mut world), (vec!["hopeless-more".to_owned()], 0));
}

/// Whoever names a queue that nobody has makes nobody else be looked at again, however often.
#[test]
fn a_queue_that_is_not_there_is_nobodys_business() {
    let mut world = World::with(queue_plugin(
        "capacity-card",
        "enqueue, allocate",
        "enableHierarchy: true",
    ));
    world.node(&node("n-1").cards("A100", 8));
    world.queue(&queue("root"));
    world.queue(&queue("attacker").quota(r#"{"A100": 0}"#));
    for number in 0..100 {
        let hopeless = pod(&format!("hopeless-{number}")).queue("attacker").asks("A100", 1);
        world.pod(&hopeless.requests("cpu", &format!("{}m", 100 + number)));
    }
    assert_eq!(round(&mut world).0.len(), 100);
    for number in 0..3 {
        let stranger = pod("stranger").queue(&format!("nowhere-{number}"));
        world.pod(&stranger);
        assert_eq!(round(&mut world), (vec!["stranger".to_owned()], 0));
        world.remove_pod("stranger");
        assert_eq!(round(&mut world), (vec![], 0));
        world.group(&group("g", 1).set(["spec", "queue"], format!("nowhere-{number}")));
        assert_eq!(round(&mut world), (vec![], 0));
    }
    // What it comes to say holds for who waits in it.
    world.pod(&pod("early").queue("later").asks("A100", 1));
    assert_eq!(round(&mut world).1, 0);
    world.queue(&queue("root").quota(r#"{"A100": 0}"#));
    world.queue(&queue("later").quota(r#"{"A100": 1}"#));
    assert_eq!(round(&mut world).1, 0, "it stands below the root");
    world.queue(&queue("root").quota(r#"{"A100": 1}"#));
    assert_eq!(round(&mut world).1, 1);
}

/// Namespaces come and go in clusters all day, and are listed again where a watch ends.
#[test]
fn a_namespace_with_nothing_in_it_is_nobodys_business() {
    let mut world = World::new();
    world.node(&node("n-1").cards("A100", 8));
    world.queue(&queue("attacker").quota(r#"{"A100": 0}"#));
    world.namespace("team", &[("tier", "gold")], None);
    for number in 0..100 {
        let hopeless = pod(&format!("hopeless-{number}")).queue("attacker").asks("A100", 1);
        world.pod(&hopeless.requests("cpu", &format!("{}m", 100 + number)));
    }
    assert_eq!(round(&mut world).0.len(), 100);
    for labels in [&[][..], &[("preview", "yes")]] {
        world.namespace("preview", labels, None);
        assert_eq!(round(&mut world), (vec![], 0));
        let now = world.now;
        world.remove_namespace("preview", now);
        assert_eq!(round(&mut world), (vec![], 0));
    }
    world.namespace("team", &[("tier", "gold")], None);
    assert_eq!(round(&mut world), (vec![], 0));
    // What queues may select by is judged anew.
    world.namespace("team", &[("tier", "silver")], None);
    assert_eq!(round(&mut world).0.len(), 100);
}

#[test]
fn what_pods_say_about_nodes_counts_toward_their_queues_turn() {
    // Each has the most that a pod may say, and is compared with all nodes.
    const PODS: usize = 100;
    let mut world = World::new();
    for number in 0..200 {
        world.node(&node(&format!("n-{number}")).cards("A100", 8));
    }
    world.queue(&queue("attacker").quota(r#"{"A100": 8}"#));
    world.queue(&queue("victim").quota(r#"{"A100": 8}"#));
    for number in 0..PODS {
        let values: Vec<_> = (0..1000).map(|value| format!("nowhere-{number}-{value}")).collect();
        let terms = json!([{"matchExpressions": [{"key": PRODUCT, "operator": "In", "values": values}]}]);
        let lengthy = pod(&format!("lengthy-{number:03}")).queue("attacker").asks("A100", 1);
        world.pod(&lengthy.set(
            [
                "spec",
                "affinity",
                "nodeAffinity",
                "requiredDuringSchedulingIgnoredDuringExecution",
            ],
            json!({ "nodeSelectorTerms": terms }),
        ));
    }
    world.pod(&pod("theirs").queue("victim").created(1).asks("A100", 1));
    let judged = Judged::default();
    let round = decide_watched(&mut world.cluster, world.now, usize::MAX, &judged);
    let judged = judged.0.into_inner();
    assert_eq!(round.actions.len(), 1, "{judged:?}");
    assert!(
        round.more && judged.len() < PODS,
        "{} are judged in one round",
        judged.len()
    );
    let mut rounds = 1;
    while decide_watched(&mut world.cluster, world.now, usize::MAX, &Judged::default()).more {
        rounds += 1;
        assert!(rounds < PODS, "every round ends with some that are judged");
    }
}

/// How many are told something at a time, as the operator does it.
const AT_A_TIME: usize = 10;

/// Two tenants share a queue, and a third has one of its own. The first has very many pods that wait, of one shape and of many, and makes
/// more all the time: it keeps nobody else from hearing why they wait.
#[test]
fn a_crowd_keeps_nobody_from_hearing_why_they_wait() {
    let mut world = World::new();
    world.node(&node("n-1").cards("A100", 8));
    for name in ["shared", "own"] {
        world.queue(&queue(name).quota(r#"{"A100": 0}"#));
    }
    let waits = |world: &mut World, namespace: &str, queue: &str, name: String, count| {
        world.pod(&pod(&name).namespace(namespace).queue(queue).asks("A100", count));
    };
    for number in 0..600 {
        waits(&mut world, "crowd", "shared", format!("same-{number}"), 1);
        waits(&mut world, "crowd", "shared", format!("kind-{number}"), 2 + number);
    }
    world.pod(
        &pod("gated")
            .namespace("gated")
            .gates(&["card.volcano.sh/quota", "example.com/other"]),
    );
    round(&mut world);
    world.wait(2);
    let mut told = BTreeSet::new();
    for tick in 0..50 {
        for number in 0..AT_A_TIME {
            waits(&mut world, "crowd", "shared", format!("more-{tick}-{number}"), 1);
        }
        if tick == 5 {
            waits(&mut world, "zoe", "shared", "z".to_owned(), 1);
            waits(&mut world, "yan", "own", "y".to_owned(), 1);
        }
        round(&mut world);
        world.wait(1);
        let notices = notices(&mut world.cluster, world.now, AT_A_TIME);
        assert_eq!(
            notices.len(),
            AT_A_TIME,
            "nobody is idle while there is something to say"
        );
        for notice in notices {
            assert!(
                told.insert(notice.pod.name.to_string()),
                "{} is told twice",
                notice.pod.name
            );
        }
        let has_heard = |names: &[&str]| names.iter().all(|name| told.contains(*name));
        assert!(has_heard(&["gated"]), "after {tick}");
        assert!(tick < 6 || has_heard(&["y", "z"]), "after {tick}");
    }
}

/// Groups of one tenant that are made, or changed, all the time keep no other from being shown how far it is.
#[test]
fn a_crowd_that_others_hold_keeps_nobody_else_that_others_hold_from_hearing_it() {
    let mut world = World::new();
    world.queue(&queue("team-a").quota(r#"{"A100": 0}"#));
    let gated = |namespace: &str, name: &str| {
        let gates = ["card.volcano.sh/quota", "example.com/other"];
        pod(name).namespace(namespace).gates(&gates)
    };
    for number in 0..300 {
        world.pod(&gated("crowd", &format!("c-{number}")));
    }
    world.wait(1);
    for namespace in ["ann", "zoe"] {
        world.pod(&gated(namespace, namespace));
    }
    world.wait(2);
    let told = notices(&mut world.cluster, world.now, AT_A_TIME);
    let has_heard = |name: &str| told.iter().any(|notice| &*notice.pod.name == name);
    assert!(
        has_heard("ann") && has_heard("zoe") && told.len() == AT_A_TIME,
        "{told:?}"
    );
    let mut all = told.len();
    while all < 302 {
        let told = notices(&mut world.cluster, world.now, AT_A_TIME);
        assert!(!told.is_empty(), "{all} have heard it");
        all += told.len();
    }
    assert_eq!(notices(&mut world.cluster, world.now, AT_A_TIME), []);
}

#[test]
fn a_crowd_of_groups_keeps_nobody_from_being_shown() {
    let mut world = World::new();
    world.queue(&queue("team-a").quota(r#"{"A100": 0}"#));
    let waits = |world: &mut World, namespace: &str, name: &str, members: i64| {
        let asks = format!(r#"{{"A100": {members}}}"#);
        world.group(&group(name, members).namespace(namespace).card_request(&asks));
    };
    for number in 0..300 {
        waits(&mut world, "crowd", &format!("g-{number}"), 1);
    }
    waits(&mut world, "zoe", "z", 1);
    round(&mut world);
    world.wait(2);
    let told = progress(&mut world.cluster, world.now, AT_A_TIME);
    assert_eq!(told.len(), AT_A_TIME);
    assert!(told.iter().any(|progress| &*progress.workload.name == "z"), "{told:?}");
    let mut all: BTreeSet<_> = told
        .into_iter()
        .map(|progress| progress.workload.name.to_string())
        .collect();
    for _ in 0..30 {
        let told = progress(&mut world.cluster, world.now, AT_A_TIME);
        all.extend(told.into_iter().map(|progress| progress.workload.name.to_string()));
    }
    assert_eq!(all.len(), 301);
}
