//! What groups are told for which something is kept, or was, or is for others of their namespace.

use super::*;

/// What group `next` is told.
fn told(world: &World) -> String {
    let next = world.cluster.workload_named(WorkloadKind::PodGroup, "team", "next");
    explain(&world.cluster, Subject::Workload(next.unwrap()))
        .unwrap()
        .message()
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
    assert!(!told(&world).contains("has room"), "{}", told(&world));
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

/// Nobody waits who was resumed by somebody else, or has ended: while they stand aside nobody looks at them, and what they were told last said so.
#[test]
fn who_stands_aside_and_waits_no_longer_is_not_said_to_wait() {
    let job = |name: &str| held_job(name, r#"{"A100": 1}"#);
    let ends: [(&str, Object); 4] = [
        ("waits", job("waits").annotation("note", "seen")),
        ("resumed", job("resumed").set(["spec", "suspend"], false)),
        ("deleted", job("deleted").deleted(30)),
        (
            "complete",
            job("complete").set(
                ["status", "conditions"],
                json!([{"type": "Complete", "status": "True"}]),
            ),
        ),
    ];
    let mut world = world();
    world.group(&asking("empty", 5));
    world.admit();
    world.wait(600);
    world.admit();
    let is_refused = |world: &World, name: &str| {
        let id = world.cluster.workload_named(WorkloadKind::Job, "team", name);
        world.cluster.workload(id.unwrap()).refused.is_some()
    };
    for (name, ended) in &ends {
        world.job(&job(name));
        world.admit();
        assert!(is_refused(&world, name), "{name}");
        world.job(ended);
        assert_eq!(is_refused(&world, name), *name == "waits", "{name}");
    }
}

/// It stood aside for longer for what was kept for another one of its namespace in vain, and does so no longer.
#[test]
fn a_job_that_stands_aside_for_a_refused_write_is_told_that_also_when_nothing_is_kept_any_more() {
    let mut world = world();
    world.group(&asking("empty", 4));
    world.admit();
    world.wait(599);
    world.job(&held_job("job", r#"{"A100": 1}"#));
    assert_eq!(world.resume(), ["job"]);
    world.wait(1);
    world.admit();
    // Another Job had the name before.
    let earlier = WorkloadRef {
        kind: WorkloadKind::Job,
        namespace: "team".into(),
        name: "job".into(),
        uid: "earlier".into(),
    };
    world.hear(&Outcome::Resumption(earlier, Answer::NotWritten), world.now);
    let job = world.cluster.workload_named(WorkloadKind::Job, "team", "job").unwrap();
    assert_eq!(world.cluster.workload(job).aside_until(), None);
    let refused = Answer::Refused("denied by policy".into());
    world.resumption_ended("job", refused, world.now);
    let aside_for = |world: &World| {
        let until = world.cluster.workload(job).aside_until().unwrap();
        until.duration_since(world.now).as_secs()
    };
    assert_eq!(aside_for(&world), 30);
    world.set_configuration(queue_plugin("capacity-card", "allocate", ""), world.now);
    assert_eq!(aside_for(&world), 5);
    let told = explain(&world.cluster, Subject::Workload(job)).map(|why| why.message());
    assert!(
        told.as_ref()
            .is_some_and(|told| told.contains("the API server refuses to let Job job in: denied by policy")),
        "{told:?}"
    );
    world.wait(5);
    assert_eq!(world.resume(), ["job"]);
}
