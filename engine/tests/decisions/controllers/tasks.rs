//! `minTaskMember`: the minimum of a group is met task by task.

use serde_json::json;

use crate::world::{Object, World, capacity, group, node, pod, queue};

fn of_task(task: &str, index: usize) -> Object {
    pod(&format!("{task}-{index}"))
        .of("g")
        .label("volcano.sh/task-spec", task)
}

fn workers(count: usize) -> impl Iterator<Item = Object> {
    (0..count).map(|index| of_task("worker", index).asks("A100", 1))
}

fn with_tasks(min_member: i64, tasks: &serde_json::Value) -> Object {
    group("g", min_member).set(["spec", "minTaskMember"], tasks.clone())
}

/// A queue with plenty of cards, and CPU for so many pods.
fn world(cpu: &str) -> World {
    let mut world = World::new();
    world.node(&node("n1").cards("A100", 8));
    world.queue(&queue("team-a").quota(r#"{"A100": 8}"#).capability("cpu", cpu));
    world
}

#[test]
fn workers_hold_no_cards_while_their_parameter_server_has_no_quota() {
    // Seen: four workers for a minimum of three, and the parameter server, which is none of the first three, has no quota.
    let tasks = json!({"worker": 2, "ps": 1});
    let mut world = world("6");
    world.group(&with_tasks(3, &tasks));
    world.pods(workers(4));
    assert_eq!(world.refusal_of("worker-0"), "PodGroupIncomplete");
    world.wait(2);
    let message = world.notices().remove(0).message;
    assert_eq!(
        message,
        "PodGroup g lets 3 pods in together, of each task as many as it needs (spec.minTaskMember), and 4 are there: 1 of task ps is \
         to be created"
    );
    world.pod(&of_task("ps", 0).requests("cpu", "7"));
    assert_eq!(world.admit(), []);
    assert_eq!(world.allocated("team-a", "A100"), 0);
    world.queue(&queue("team-a").quota(r#"{"A100": 8}"#).capability("cpu", "10"));
    let admitted = world.admit_names();
    assert_eq!(
        admitted,
        ["worker-0", "worker-1", "ps-0", "worker-2"],
        "the first three together, and who has room"
    );
}

/// Which task lacks pods is said as long as one does, and so is how many of any are to come besides.
#[test]
fn a_group_says_which_of_its_tasks_lack_pods_and_how_many() {
    let tasks = json!({"worker": 2, "ps": 1});
    for (workers_there, expected) in [
        (
            1,
            "and 1 is there: 1 of task ps, 1 of task worker, 2 of any are to be created",
        ),
        (4, "and 4 are there: 1 of task ps is to be created"),
    ] {
        let mut world = world("100");
        world.group(&with_tasks(5, &tasks));
        world.pods(workers(workers_there));
        assert_eq!(world.refusal_of("worker-0"), "PodGroupIncomplete");
        world.wait(2);
        let message = world.notices().remove(0).message;
        assert!(message.ends_with(&expected), "{message}");
    }
    let mut world = world("100");
    world.group(&with_tasks(5, &tasks));
    world.pods((0..4).map(|index| of_task(if index == 0 { "ps" } else { "worker" }, index).asks("A100", 1)));
    assert_eq!(world.refusal_of("worker-1"), "PodGroupIncomplete");
    world.wait(2);
    let message = world.notices().remove(0).message;
    let expected = "lets 5 pods in together (spec.minMember), and 4 are there: the others are to be created";
    assert!(message.ends_with(expected), "{message}");
}

#[test]
fn a_minimum_below_the_sum_of_its_tasks_counts_alone() {
    // As Volcano's gang plugin has it.
    let mut world = world("100");
    world.group(&with_tasks(2, &json!({"worker": 2, "ps": 1})));
    world.pods(workers(2));
    assert_eq!(world.admit_names(), ["worker-0", "worker-1"]);
}

#[test]
fn the_task_may_be_an_annotation() {
    let mut world = world("100");
    world.group(&with_tasks(2, &json!({"worker": 1, "ps": 1})));
    world.pods(workers(3));
    world.pod(&pod("server").of("g").annotation("volcano.sh/task-spec", "ps"));
    assert_eq!(world.admit_names().len(), 4);
}

#[test]
fn a_member_that_was_lost_is_replaced_by_one_of_its_task() {
    let mut world = world("100");
    world.group(&with_tasks(3, &json!({"worker": 2, "ps": 1})));
    world.pods(workers(2));
    world.pod(&of_task("ps", 0));
    assert_eq!(world.admit_names().len(), 3);
    world.remove_pod("ps-0");
    world.queue(&queue("team-a").quota(r#"{"A100": 8}"#).capability("cpu", "2"));
    // A further worker is one beyond the minimum of its task, and waits for the parameter server as all do.
    world.pods(workers(3).skip(2));
    assert_eq!(world.refusal_of("worker-2"), "PodGroupIncomplete");
    world.queue(&queue("team-a").quota(r#"{"A100": 8}"#).capability("cpu", "3"));
    world.pod(&of_task("ps", 1));
    assert_eq!(world.admit_names(), ["ps-1"]);
    // One that has succeeded counts as if it were there.
    let done = of_task("ps", 1).on("n1").phase("Succeeded");
    world.pod(&done);
    assert_eq!(world.admit_names(), ["worker-2"]);
}

#[test]
fn more_tasks_than_there_may_be_are_a_problem_of_the_group() {
    let tasks: serde_json::Map<_, _> = (0..257).map(|task| (format!("t{task}"), json!(1))).collect();
    let mut world = world("100");
    world.group(&with_tasks(300, &tasks.into()));
    world.pod(&of_task("t1", 0));
    world.wait(2);
    let refusal = world.refusal();
    assert!(
        refusal.contains("PodGroupInvalid: PodGroup g can't be used as it is: spec.minTaskMember: it has 257 tasks"),
        "{refusal}"
    );
}

/// Of three or four pods, the parameter server is the youngest: it is not the one beyond the minimum, also where that is one pod.
#[test]
fn reclaim_leaves_a_gang_its_tasks_or_takes_it_whole() {
    reclaim_takes_a_worker(3, 3, &json!({"worker": 2, "ps": 1}), "worker-2");
    reclaim_takes_a_worker(2, 1, &json!({"ps": 1}), "worker-1");
}

#[track_caller]
fn reclaim_takes_a_worker(count: usize, least: i64, tasks: &serde_json::Value, victim: &str) {
    let mut world = World::with(capacity("enqueue, allocate, reclaim", ""));
    let cores = |cores: usize| cores.to_string();
    world.node(&node("n1").cards("A100", 8).offers("cpu", &cores(count + 1)));
    world.queue(&queue("team-a").deserved("cpu", &cores(count)));
    world.queue(&queue("team-b").deserved("cpu", "1"));
    world.group(&with_tasks(least, tasks));
    for (age, pod) in workers(count).chain([of_task("ps", 0)]).enumerate() {
        world.pod(&pod.created(i64::try_from(age).unwrap()).on("n1"));
    }
    world.pod(&pod("claimant").queue("team-b"));
    world.wait(600);
    let actions = world.decide();
    let [engine::decide::Action::Evict(eviction)] = &*actions else {
        panic!("{actions:?}");
    };
    let victims: Vec<_> = eviction.victims.iter().map(|victim| &*victim.pod.name).collect();
    assert_eq!(victims, [victim]);
}
