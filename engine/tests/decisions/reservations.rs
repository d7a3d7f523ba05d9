//! What queues keep for groups and Jobs: for whom, in which queue, and for how long.

use engine::cluster::waiting::Refused;
use engine::cluster::workload::{Phase, Step};
use engine::decide::Action;
use engine::explain::{Progress, Subject, explain, progress};
use engine::refs::WorkloadKind;
use serde_json::json;

use crate::world::{Object, World, bare_pod, bare_queue, configuration, group, held_job, node, pod, queue};

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
    world.admit();
    assert_eq!((world.kept("team-a"), world.kept("team-b")), (5, 0));
    world.namespace("team", &[], Some("team-b"));
    world.admit();
    assert_eq!((world.kept("team-a"), world.kept("team-b")), (0, 5));
    world.group(&asking("c", 1));
    world.admit();
    assert!(world.is_kept("team", "c"), "nobody is left in the line of team-a");
    world.remove_group("team", "a");
    let resumed = world.decide();
    assert!(
        matches!(&resumed[..], [Action::Resume(resumed)] if &*resumed.queue == "team-b"),
        "{resumed:?}"
    );
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
    // Its pods come all the same, and there is room.
    world.remove_group("other", "b");
    world.pod(&pod("late").of("empty").asks("A100", 1));
    assert_eq!(world.admit_names(), ["late"]);
}

/// Found by the simulator (seed 21091): it was told one reason in line and another aside, in turns, at ever longer intervals.
#[test]
fn a_group_is_told_the_same_in_line_and_aside() {
    let mut world = world();
    // More than any node has; and more than the quota, for whoever asks that first.
    world.group(&asking("big", 2));
    world.pod(&pod("big-0").of("big").asks("A100", 9));
    world.group(&asking("empty", 1).created(1));
    let told = |world: &mut World, seconds| {
        world.wait(seconds);
        world.admit();
        let (step, refused) = world.refused("big");
        (step, refused.reason.as_str(), world.is_aside("big"))
    };
    let in_line = (Step::Enqueue, "NoNodeFits", false);
    assert_eq!(told(&mut world, 0), in_line);
    // Nobody has used what was kept for the other one of its namespace.
    assert_eq!(told(&mut world, 600), (Step::Enqueue, "NoNodeFits", true));
    assert_eq!(told(&mut world, 30), in_line);
}

/// Found by the simulator (seed 25034): it was told how much the pods ask for that it has, for which there was room, and that waiting can't
/// help.
#[test]
fn a_group_that_stands_aside_is_told_what_it_asks_for_itself() {
    let mut world = world();
    world.queue(&bare_queue("team-a").capability("cpu", "8").capability("memory", "4Ti"));
    let asking = |name: &str, pods: i64| group(name, pods).set(["spec", "minResources"], json!({"cpu": "5"}));
    world.group(&asking("few", 2));
    world.pod(&pod("few-0").of("few"));
    world.group(&asking("next", 1).namespace("other").created(1));
    assert_eq!(world.refusal_of("few-0"), "PodGroupIncomplete");
    assert!(world.is_kept("team", "few"));
    world.wait(600);
    world.admit();
    assert!(world.is_aside("few") && world.is_kept("other", "next"));
    world.remove_pod("few-0");
    world.pod(&pod("few-1").of("few"));
    let refused = "InsufficientCPUQuota: queue team-a can't take PodGroup few as a whole: CPU asked 5, allocated 0, in queue 5, \
                   elastic 0, quota 8";
    assert_eq!(world.refusal(), refused);
}

/// Found by the simulator (seed 28033): it was told that its queue can't take what there was room for.
#[test]
fn a_group_that_stands_aside_for_another_of_its_namespace_is_told_that_once_there_is_room() {
    let mut world = world();
    world.group(&asking("empty", 4));
    world.group(&asking("next", 3).created(1));
    world.admit();
    assert!(world.is_kept("team", "empty") && !world.is_kept("team", "next"));
    let told = |world: &World| {
        let next = world
            .cluster
            .workload_named(WorkloadKind::PodGroup, "team", "next")
            .unwrap();
        explain(&world.cluster, Subject::Workload(next)).unwrap().message()
    };
    assert!(
        told(&world).contains("A100 asked 3, allocated 0, in queue 4"),
        "{}",
        told(&world)
    );
    world.wait(600);
    world.admit();
    assert!(world.is_aside("next"));
    let room =
        "queue team-a has room for PodGroup next now, and keeps nothing for any workload of namespace team until ";
    assert!(told(&world).starts_with(room), "{}", told(&world));
}

/// Found by the simulator (seeds 40033 and 40034): nobody looks at it before its time comes, and what it was refused for was there.
#[test]
fn a_group_that_stands_aside_is_not_told_that_it_lacks_what_there_is() {
    let mut world = world();
    world.queue(&queue("team-a").capability("cpu", "8").quota(r#"{"A100": 5}"#));
    let of_cpu = |group: Object| group.set(["spec", "minResources"], json!({"cpu": "5"}));
    world.group(&of_cpu(asking("empty", 1)));
    world.group(&of_cpu(asking("next", 50).created(1)));
    world.admit();
    let told = |world: &World| {
        let next = world.cluster.workload_named(WorkloadKind::PodGroup, "team", "next");
        explain(&world.cluster, Subject::Workload(next.unwrap()))
            .unwrap()
            .message()
    };
    assert!(
        told(&world).contains("CPU asked 5, allocated 0, in queue 5"),
        "{}",
        told(&world)
    );
    world.wait(600);
    world.admit();
    assert!(world.is_aside("next"));
    let room = "queue team-a has room of what it lacked before for PodGroup next now, and keeps nothing for any workload of namespace \
                team until ";
    assert!(told(&world).starts_with(room), "{}", told(&world));
    world.remove_group("team", "empty");
    world.wait(60);
    world.admit();
    assert!(
        told(&world).contains("A100 asked 50, allocated 0, in queue 0"),
        "{}",
        told(&world)
    );
}

#[test]
fn a_group_that_stands_aside_is_told_what_it_lacks_still_though_it_lacks_something_else_before_that() {
    let mut world = world();
    world.queue(&queue("team-a").capability("cpu", "8").quota(r#"{"A100": 5}"#));
    world.group(&asking("empty", 1));
    let of_cpu = asking("next", 50).set(["spec", "minResources"], json!({"cpu": "1"}));
    world.group(&of_cpu.created(1));
    world.admit();
    world.wait(600);
    world.admit();
    assert!(world.is_aside("next"));
    world.pod(&bare_pod("runs").queue("team-a").requests("cpu", "8").on("n1"));
    let next = world.cluster.workload_named(WorkloadKind::PodGroup, "team", "next");
    let told = explain(&world.cluster, Subject::Workload(next.unwrap()))
        .unwrap()
        .message();
    assert!(!told.contains("has room"), "{told}");
}

#[test]
fn a_group_that_shows_already_why_it_waits_is_not_told_again_by_whoever_decides_next() {
    let tell = |group: &Object| {
        let mut world = world();
        world.group(group);
        world.admit();
        world.wait(1);
        world.said("big")
    };
    let big = asking("big", 50);
    let told = tell(&big).unwrap();
    let (reason, _) = told.refused.unwrap();
    assert!(told.news);
    let condition = |reason: &str| {
        let conditions = json!([{"type": "Unschedulable", "status": "True", "reason": reason}]);
        big.clone().phase("Pending").set(["status", "conditions"], conditions)
    };
    assert_eq!(tell(&condition(reason.as_str())), None);
    // Of anything else it is.
    assert!(tell(&condition("QueueNotOpen")).unwrap().news);
    assert!(tell(&condition("Pending")).unwrap().news);
}

#[test]
fn a_group_whose_pods_are_all_there_does_not_say_any_more_that_they_are_not() {
    let mut world = world();
    world.group(&group("pair", 2).set(["spec", "queue"], "team-a"));
    let member = |name: &str| pod(name).queue("team-a").of("pair").asks("A100", 3);
    world.pod(&member("p"));
    world.admit();
    world.wait(1);
    let (reason, _) = world.said("pair").unwrap().refused.unwrap();
    assert_eq!(reason.as_str(), "PodGroupIncomplete");
    // There is quota for one of them.
    world.pod(&member("q"));
    assert_eq!(world.admit(), []);
    world.wait(1);
    let said = world.said("pair").unwrap();
    let (reason, message) = said.refused.unwrap();
    assert_eq!(
        (said.phase, reason.as_str()),
        (Some(Phase::Pending), "InsufficientScalarQuota")
    );
    assert!(message.contains("as a whole: A100 asked 6, allocated 0"), "{message}");
}

#[test]
fn many_empty_groups_hold_a_quota_no_longer_than_one() {
    let mut world = world();
    // Twenty groups of one tenant, all before the other's.
    for index in 0..20 {
        world.group(&asking(&format!("empty-{index}"), 5));
    }
    world.group(&asking("b", 5).namespace("other").created(1));
    world.admit();
    assert!(!world.is_kept("other", "b"));
    world.wait(600);
    world.admit();
    assert!(world.is_kept("other", "b"), "the others step back with the first");
    // Again and again: at most ten minutes in a row, and then longer and longer nothing.
    world.remove_group("other", "b");
    for round in 1..=8_u32 {
        world.wait(30 * 2_i64.pow(round - 1).min(120));
        world.group(&asking("b", 5).namespace("other").created(1));
        world.admit();
        assert!(
            world.is_kept("other", "b"),
            "behind the others of its priority, also when its time has come"
        );
        world.remove_group("other", "b");
        world.wait(3600);
        world.admit();
        assert_eq!(world.kept("team-a"), 5, "nobody else wants it");
        world.wait(600);
        world.admit();
    }
}

/// One namespace makes groups in turn, each of which is given up in this way just before its time is over: another one has its turn soon.
#[track_caller]
fn another_has_its_turn_where_groups_are_given_up(give_up: impl Fn(&mut World, &str)) {
    let mut world = world();
    world.group(&asking("b", 5).namespace("other").created(1));
    let mut held = 0;
    for index in 0..40 {
        let name = format!("g-{index}");
        // As old as any: it would always go before the other.
        world.group(&asking(&name, 5));
        world.admit();
        if !world.is_kept("team", &name) {
            break;
        }
        world.wait(590);
        held += 590;
        give_up(&mut world, &name);
    }
    assert!(world.is_kept("other", "b"));
    assert!(held <= 1200, "held for {held} s");
}

#[test]
fn groups_that_are_made_and_deleted_in_turn_hold_no_more_than_ones_that_stay() {
    another_has_its_turn_where_groups_are_given_up(|world, name| {
        // Time passes in rounds, also those in which nothing is decided.
        world.admit();
        world.remove_group("team", name);
    });
}

#[test]
fn groups_that_cannot_be_used_for_a_while_hold_no_more_than_ones_that_stay() {
    let unusable = |name: &str| asking(name, 5).set(["spec", "minTaskMember"], json!({ "w".repeat(300): 1 }));
    let completed = |name: &str| asking(name, 5).set(["status", "phase"], "Completed");
    let running = |name: &str| asking(name, 5).set(["status", "phase"], "Running");
    for edited in [&unusable as &dyn Fn(&str) -> Object, &completed, &running] {
        another_has_its_turn_where_groups_are_given_up(|world, name| {
            world.group(&edited(name));
            assert!(!world.is_kept("team", name));
            // Its time in the queue passes meanwhile, or it goes.
            if name.ends_with(['1', '3', '5', '7', '9']) {
                world.remove_group("team", name);
            }
            world.wait(10);
            world.cluster.advance(world.now);
            world.remove_group("team", name);
        });
    }
}

#[test]
fn what_is_kept_until_pods_come_that_no_node_could_take_counts_as_kept_in_vain() {
    another_has_its_turn_where_groups_are_given_up(|world, name| {
        let late = format!("{name}-0");
        world.pod(&pod(&late).of(name).asks("A100", 9));
        world.admit();
        assert!(!world.is_kept("team", name), "no node has nine cards");
        world.remove_pod(&late);
        world.remove_group("team", name);
    });
}

#[test]
fn pods_that_are_too_few_or_that_no_node_takes_together_do_not_keep_it() {
    let mut world = world();
    world.group(&group("few", 2).card_request(r#"{"A100": 5}"#));
    world.pod(&pod("few-0").of("few").asks("A100", 1));
    world.admit();
    assert!(world.is_kept("team", "few"));
    world.wait(600);
    world.admit();
    assert!(!world.is_kept("team", "few"));
    // Each of these fits, and both together never will.
    let mut world = self::world();
    world.group(&group("wide", 2).card_request(r#"{"A100": 2}"#));
    world.pods((0..2).map(|index| {
        pod(&format!("wide-{index}"))
            .of("wide")
            .asks("A100", 1)
            .requests("cpu", "60")
    }));
    world.admit();
    assert!(world.is_kept("team", "wide"));
    world.group(&asking("b", 5).namespace("other").created(1));
    world.wait(600);
    world.admit();
    assert!(!world.is_kept("team", "wide") && world.is_kept("other", "b"));
}

#[test]
fn a_job_whose_pods_never_come_is_kept_nothing_and_not_resumed_again() {
    let mut world = world();
    let job = held_job("job", r#"{"A100": 5}"#);
    world.job(&job);
    assert_eq!(world.decide().len(), 1);
    world.job(&job.set(["spec", "suspend"], false));
    world.wait(600);
    assert_eq!(world.decide(), []);
    assert_eq!(world.kept("team-a"), 0);
    world.wait(30);
    assert_eq!(world.decide(), []);
    assert_eq!(world.kept("team-a"), 5);
}
