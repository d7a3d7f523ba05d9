//! What queues keep for groups and Jobs: for whom, in which queue, and for how long.

mod first_look;
mod in_vain;
mod kin;
mod metered;
mod told;

use engine::cluster::waiting::Refused;
use engine::cluster::workload::{Phase, Step};
use engine::decide::Action;
use engine::explain::{Progress, Subject, explain, progress};
use engine::refs::{WorkloadKind, WorkloadRef};
use engine::{Answer, Outcome};
use serde_json::json;

use crate::world::{
    Object, World, bare_pod, bare_queue, configuration, group, held_job, node, pod, queue, queue_plugin,
};

const NAMESPACES: &str = "card.volcano.sh/namespaces";

fn world() -> World {
    let mut world = World::with(configuration("", "inqueueTimeout: 10m"));
    world.node(&node("n1").cards("A100", 8));
    world.namespace("team", &[("team", "a")], None);
    world.namespace("other", &[("team", "b")], None);
    world.queue(&queue("team-a").quota(r#"{"A100": 5}"#));
    world.queue(&queue("team-b").quota(r#"{"A100": 5}"#).annotation(NAMESPACES, "team=b"));
    world
}

fn asking(name: &str, cards: i64) -> Object {
    group(name, 1).card_request(&format!(r#"{{"A100": {cards}}}"#))
}

impl World {
    fn kept(&self, queue: &str) -> i128 {
        self.known_queue(queue).inqueue.cards().map(|(_, count)| count).sum()
    }

    fn is_kept(&self, namespace: &str, name: &str) -> bool {
        let id = self.cluster.workload_named(WorkloadKind::PodGroup, namespace, name);
        self.cluster.workload(id.unwrap()).reserved().is_some()
    }

    fn refused(&self, name: &str) -> (Step, Refused) {
        let id = self.cluster.workload_named(WorkloadKind::PodGroup, "team", name);
        self.cluster.workload(id.unwrap()).refused.unwrap()
    }

    fn is_aside(&self, name: &str) -> bool {
        let id = self.cluster.workload_named(WorkloadKind::PodGroup, "team", name);
        self.cluster.workload(id.unwrap()).aside_until().is_some()
    }

    fn said(&mut self, name: &str) -> Option<Progress> {
        let shown = progress(&mut self.cluster, self.now, usize::MAX);
        shown.into_iter().find(|shown| &*shown.workload.name == name)
    }
}

/// In namespaces whose pods are nobody's business nothing is kept: their pods could not take it.
#[test]
fn groups_and_jobs_of_exempt_namespaces_are_not_concerned() {
    for namespace in ["kube-system", "cardgate-system"] {
        let mut world = world();
        world.queue(&queue("default").quota(r#"{"A100": 5}"#));
        world.group(&asking("g", 5).namespace(namespace).set(["spec", "queue"], "default"));
        world.job(&held_job("j", r#"{"A100": 5}"#).namespace(namespace));
        assert_eq!(world.admit(), []);
        assert_eq!((world.kept("default"), world.kept("team-a")), (0, 0));
        for kind in [WorkloadKind::PodGroup, WorkloadKind::Job] {
            let there = ["g", "j"].map(|name| world.cluster.workload_named(kind, namespace, name));
            assert_eq!(there, [None; 2]);
        }
    }
}

/// Its finalizer, or that its pods go first, may keep its object there.
#[test]
fn a_group_that_is_being_deleted_is_kept_nothing() {
    let mut world = world();
    world.group(&asking("g", 5));
    world.admit();
    assert!(world.is_kept("team", "g"));
    world.group(&asking("g", 5).deleted(0));
    world.group(&asking("h", 5).created(1));
    world.admit();
    assert!(!world.is_kept("team", "g") && world.is_kept("team", "h"));
    assert_eq!(world.said("g"), None, "nobody writes what it is any more");
}

/// A group's phase may be written by whoever may write the group: who says that it runs has nothing kept for it, and waits anew after that.
#[test]
fn saying_that_it_runs_gives_up_what_is_kept() {
    let mut world = world();
    let running = |name: &str| asking(name, 5).set(["status", "phase"], "Running");
    let inqueue = |name: &str| asking(name, 5).set(["status", "phase"], "Inqueue");
    for name in ["g", "h"] {
        world.group(&asking(name, 5));
        world.admit();
        assert!(world.is_kept("team", name), "{name}");
        world.group(&running(name));
        world.admit();
        assert!(!world.is_kept("team", name), "{name}");
    }
    // Both at once would be more than the queue has.
    for name in ["g", "h"] {
        world.group(&inqueue(name));
    }
    world.admit();
    assert!(world.kept("team-a") <= 5, "{}", world.kept("team-a"));
}

#[test]
fn a_group_that_comes_to_name_another_queue_is_judged_there() {
    let mut world = world();
    world.group(&asking("a", 5));
    world.admit();
    assert_eq!((world.kept("team-a"), world.kept("team-b")), (5, 0));
    // What it showed stays on the object, and a thousand is more than anybody has.
    let moved = asking("a", 1000)
        .set(["spec", "queue"], "team-b")
        .set(["status", "phase"], "Inqueue");
    world.group(&moved);
    world.admit();
    assert_eq!((world.kept("team-a"), world.kept("team-b")), (0, 0));
    let said = world.said("a").unwrap();
    assert_eq!(said.phase, Some(Phase::Pending));
    let (reason, message) = said.refused.unwrap();
    assert_eq!(reason.as_str(), "NamespaceNotAllowed", "{message}");
    // And whose queue it is has it.
    world.group(&asking("b", 5).namespace("other").set(["spec", "queue"], "team-b"));
    world.group(&asking("c", 5));
    world.admit();
    assert!(world.is_kept("other", "b") && world.is_kept("team", "c"));
}

#[test]
fn another_request_is_judged_as_if_it_came_now() {
    let mut world = world();
    world.group(&asking("a", 2));
    world.wait(1);
    world.group(&asking("b", 5).created(1));
    world.admit();
    assert!(world.is_kept("team", "a") && !world.is_kept("team", "b"));
    world.wait(1);
    world.group(&asking("a", 3));
    world.admit();
    assert!(
        !world.is_kept("team", "a") && world.is_kept("team", "b"),
        "b has waited for longer"
    );
}

#[test]
fn what_an_object_says_of_itself_lets_nothing_in() {
    let mut world = world();
    world.admit();
    world.group(&asking("a", 1000).set(["status", "phase"], "Inqueue"));
    world.admit();
    assert_eq!(world.kept("team-a"), 0);
    world.wait(2);
    assert_eq!(world.said("a").unwrap().phase, Some(Phase::Pending));
    // A Job that runs before it asks for anything is kept nothing that there is no room for, and is not resumed.
    world.job(&held_job("job", r#"{"A100": 6}"#).set(["spec", "suspend"], false));
    assert_eq!(world.decide(), []);
    assert_eq!(world.kept("team-a"), 0);
    world.job(&held_job("job", r#"{"A100": 5}"#).set(["spec", "suspend"], false));
    assert_eq!(world.decide(), []);
    assert_eq!(world.kept("team-a"), 5);
}

/// They have nothing to do with the pods that it makes now.
#[test]
fn what_is_kept_for_a_job_outlasts_the_pods_that_ended_before_it_was_suspended() {
    let mut world = world();
    let job = || held_job("job", r#"{"A100": 5}"#).set(["status", "failed"], 1);
    let runs = || job().set(["spec", "suspend"], false);
    world.job(&job());
    assert_eq!(world.decide().len(), 1, "it is resumed");
    assert_eq!(world.kept("team-a"), 5);
    world.job(&runs());
    assert_eq!(world.decide(), []);
    assert_eq!(world.kept("team-a"), 5);
    // Who is seen to run for the first time may have made its pods long ago.
    let mut world = self::world();
    world.job(&runs());
    assert_eq!(world.decide(), []);
    assert_eq!(world.kept("team-a"), 0);
}

#[test]
fn after_a_restart_no_more_is_kept_than_there_is_room_for() {
    let mut world = world();
    let inqueue = |object: Object| object.set(["status", "phase"], "Inqueue");
    world.group(&asking("waiting", 2));
    world.group(&inqueue(asking("later", 4).created(2)));
    world.group(&inqueue(asking("earlier", 3).created(1)));
    world.group(&inqueue(
        asking("foreign", 1).created(1).set(["spec", "queue"], "team-b"),
    ));
    world.admit();
    assert!(
        world.is_kept("team", "earlier") && world.is_kept("team", "waiting"),
        "3 + 2 <= 5"
    );
    assert!(!world.is_kept("team", "later") && !world.is_kept("team", "foreign"));
}

#[test]
fn what_would_be_kept_again_when_pods_are_gone_is_not_where_the_queue_refuses_the_group_by_then() {
    let mut world = world();
    world.group(&asking("a", 1));
    world.pod(&pod("a-0").of("a").asks("A100", 1));
    assert_eq!(world.admit_names(), ["a-0"]);
    let quota = queue("team-a").quota(r#"{"A100": 5}"#);
    world.queue(&quota.clone().annotation(NAMESPACES, "team=b"));
    world.admit();
    world.remove_pod("a-0");
    world.admit();
    assert_eq!(world.kept("team-a"), 0);
    world.queue(&quota);
    world.admit();
    assert_eq!(world.kept("team-a"), 1);
}

#[test]
fn access_that_is_lost_ends_what_is_kept() {
    let mut world = world();
    world.group(&asking("a", 5));
    world.admit();
    assert_eq!(world.kept("team-a"), 5);
    let narrowed = queue("team-a").quota(r#"{"A100": 5}"#).annotation(NAMESPACES, "team=b");
    world.queue(&narrowed);
    world.admit();
    assert_eq!(world.kept("team-a"), 0);
    // The namespace's labels count as well as the queue's selector; and so does a queue's state.
    world.namespace("team", &[("team", "b")], None);
    world.admit();
    assert_eq!(world.kept("team-a"), 5);
    world.namespace("team", &[], None);
    world.admit();
    assert_eq!(world.kept("team-a"), 0);
    world.queue(&queue("team-a").quota(r#"{"A100": 5}"#));
    world.admit();
    assert_eq!(world.kept("team-a"), 5);
    world.queue(
        &queue("team-a")
            .quota(r#"{"A100": 5}"#)
            .set(["status", "state"], "Closed"),
    );
    world.admit();
    assert_eq!(world.kept("team-a"), 0);
    world.remove_queue("team-a");
    world.admit();
    assert_eq!(world.kept("team-a"), 0);
}

#[test]
fn a_workload_without_a_queue_of_its_own_moves_with_what_names_it() {
    let mut world = world();
    world.queue(&queue("team-b").quota(r#"{"A100": 5}"#));
    world.namespace("team", &[], Some("team-a"));
    world.group(&asking("a", 5).set(["spec", "queue"], ""));
    // Its queue is that of the group that its pods belong to.
    let of_group = held_job("job", r#"{"A100": 5}"#).set(
        ["spec", "template", "metadata", "annotations"],
        json!({"scheduling.k8s.io/group-name": "a"}),
    );
    world.job(&of_group);
    let is_resumed_in = |world: &mut World, queue: &str| {
        let resumed = world.decide();
        matches!(&resumed[..], [Action::Resume(resumed)] if &*resumed.queue == queue)
    };
    assert!(is_resumed_in(&mut world, "team-a"));
    assert_eq!((world.kept("team-a"), world.kept("team-b")), (5 + 5, 0));
    world.namespace("team", &[], Some("team-b"));
    assert!(is_resumed_in(&mut world, "team-b"));
    assert_eq!((world.kept("team-a"), world.kept("team-b")), (0, 5 + 5));
    world.group(&asking("c", 1));
    world.admit();
    assert!(world.is_kept("team", "c"), "nobody is left in the line of team-a");
    world.remove_group("team", "a");
    assert_eq!(world.decide(), []);
    assert_eq!((world.kept("team-a"), world.kept("team-b")), (1, 5), "for the Job");
}

#[test]
fn a_held_job_that_moves_is_resumed_once_and_leaves_no_place_behind() {
    let mut world = world();
    let job = held_job("job", r#"{"A100": 6}"#);
    world.job(&job);
    assert_eq!(world.decide(), []);
    world.queue(&queue("team-c").quota(r#"{"A100": 6}"#));
    let moved = job.set(
        [
            "spec",
            "template",
            "metadata",
            "annotations",
            "scheduling.volcano.sh/queue-name",
        ],
        "team-c",
    );
    world.job(&moved);
    assert!(world.known_queue("team-a").in_line().is_empty());
    assert_eq!(world.decide().len(), 1);
    for _ in 0..3 {
        world.wait(1);
        assert_eq!(world.decide(), []);
    }
}

#[test]
fn what_nobody_uses_is_given_back() {
    let mut world = world();
    world.group(&asking("empty", 5));
    world.admit();
    world.wait(60);
    world.group(&asking("b", 5).namespace("other").created(70));
    world.wait(539);
    world.admit();
    assert!(world.is_kept("team", "empty"));
    world.wait(1);
    world.admit();
    assert!(!world.is_kept("team", "empty") && world.is_kept("other", "b"));
    let said = world.said("empty").unwrap();
    let (reason, message) = said.refused.unwrap();
    assert_eq!(
        (said.phase, reason.as_str(), said.news),
        (Some(Phase::Pending), "InqueueTimeout", true)
    );
    assert!(message.contains("during 10m (inqueueTimeout)"), "{message}");
    // Who writes that on it says nothing new, and whoever comes now waits for the same.
    world.group(&asking("empty", 5));
    world.group(&asking("innocent", 1).created(500));
    world.admit();
    assert_eq!(world.refused("empty").1.reason.as_str(), "InqueueTimeout");
    let (reason, message) = world.said("innocent").unwrap().refused.unwrap();
    assert_eq!(reason.as_str(), "InqueueTimeout");
    assert!(
        message.contains("for any workload of namespace team until 2027")
            && message.contains("was not used during 10m"),
        "{message}"
    );
    world.remove_group("team", "innocent");
    // Its pods come all the same, and there is room.
    world.remove_group("other", "b");
    world.pod(&pod("late").of("empty").asks("A100", 1));
    assert_eq!(world.admit_names(), ["late"]);
}
