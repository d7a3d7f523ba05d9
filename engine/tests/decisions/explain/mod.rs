//! Whether waiting can help, checked against what happens: all others go, and whoever could be helped by that is let in.

mod at_once;
mod outlooks;
mod together;

use crds::card_review::Reviewed;
use engine::explain::{Asked, Fresh, Refresher, Subject, explain, progress, review};
use engine::reason::Outlook;
use engine::refs::WorkloadKind;

use crate::world::{Object, World, bare_queue, capacity, configuration, group, held_job, node, pod, queue};

/// What people read of each reason.
const REASONS: &str = include_str!("../../../../docs/reasons.md");

/// Two nodes of 4 cards, a queue that may have 5, and a pod that holds so many.
fn busy(held: i64) -> World {
    let mut world = World::new();
    world.node(&node("n1").cards("A100", 4));
    world.node(&node("n2").cards("A100", 4));
    world.queue(&queue("team-a").quota(r#"{"A100": 5}"#));
    world.queue(&queue("team-b").quota(r#"{"A100": 8}"#));
    world.pod(&pod("holder").asks("A100", held).pinned_to("n1"));
    assert_eq!(world.admit_names(), ["holder"]);
    world
}

/// What is said of waiting, which must be the reason and come true: once the holder is gone, `first` is let in or is not.
#[track_caller]
fn assert_outlook(world: &mut World, subject: Subject, first: &str, reason: &str, expected: Outlook) {
    assert_eq!(world.admit(), []);
    let why = explain(&world.cluster, subject).unwrap();
    assert_eq!(
        (why.reason.as_str(), why.outlook),
        (reason, expected),
        "{}",
        why.message()
    );
    world.remove_pod("holder");
    let let_in = world.admit_names().iter().any(|name| name == first);
    assert_eq!(let_in, expected == Outlook::NotYet, "{reason}");
}

#[track_caller]
fn assert_pod(mut world: World, waiting: &Object, reason: &str, expected: Outlook) {
    world.pod(waiting);
    let id = world.cluster.pod_with_uid("p").unwrap();
    assert_outlook(&mut world, Subject::Pod(id), "p", reason, expected);
}

#[test]
fn more_than_the_whole_quota_is_never_and_more_than_is_left_not_yet() {
    let quota = "InsufficientScalarQuota";
    assert_pod(busy(3), &pod("p").asks("A100", 4), quota, Outlook::NotYet);
    assert_pod(busy(3), &pod("p").asks("A100", 6), quota, Outlook::Never);
    let alternatives = pod("p").asks("H100|A100", 4);
    let mut world = busy(3);
    world.node(&node("n3").cards("H100", 4));
    assert_pod(world, &alternatives, quota, Outlook::NotYet);
    let cpu = pod("p").asks("A100", 1).requests("cpu", "1001");
    assert_pod(busy(3), &cpu, "InsufficientCPUQuota", Outlook::Never);
}

#[test]
fn what_is_guaranteed_to_others_or_limited_above_is_never_to_be_had() {
    for (asked, expected) in [(3, Outlook::NotYet), (4, Outlook::Never), (6, Outlook::Never)] {
        let mut world = World::with(capacity("enqueue, allocate", "enableHierarchy: true"));
        world.node(&node("n1").cards("A100", 8));
        world.queue(&queue("department").quota(r#"{"A100": 5}"#));
        world.queue(&bare_queue("team-a").parent("department"));
        world.queue(
            &bare_queue("team-b")
                .parent("department")
                .guaranteed_cards(r#"{"A100": 2}"#),
        );
        world.pod(&pod("holder").asks("A100", 2));
        assert_eq!(world.admit_names(), ["holder"]);
        assert_pod(
            world,
            &pod("p").asks("A100", asked),
            "InsufficientScalarQuota",
            expected,
        );
    }
}

#[test]
fn who_may_not_borrow_never_has_more_than_is_deserved() {
    for (asked, expected) in [(2, Outlook::NotYet), (3, Outlook::Never)] {
        let mut world = World::with(capacity("enqueue, allocate", "enableOveruse: false"));
        world.node(&node("n1").cards("A100", 8));
        let team = bare_queue("team-a").quota(r#"{"A100": 6}"#);
        world.queue(&team.deserved_cards(r#"{"A100": 2}"#));
        world.pod(&pod("holder").asks("A100", 1));
        assert_eq!(world.admit_names(), ["holder"]);
        let waiting = pod("p").asks("A100", asked);
        world.pod(&waiting);
        assert_eq!(world.admit(), []);
        let told = explain(&world.cluster, Subject::Pod(world.cluster.pod_with_uid("p").unwrap()));
        let told = told.unwrap().message();
        let numbers = format!("A100 asked {asked}, used 1, deserved 2, and it may not borrow more");
        assert!(told.contains(&numbers) && !told.contains("at the moment"), "{told}");
        let remedy = explain(&world.cluster, Subject::Pod(world.cluster.pod_with_uid("p").unwrap()));
        let remedy = remedy.unwrap().remedy();
        assert!(remedy.ends_with("or have what the queue deserves raised"), "{remedy}");
        assert_pod(world, &waiting, "InsufficientScalarQuota", expected);
    }
}

/// Who may not borrow was told of what the queue deserves wherever that is the number that limits it, and as a whole never.
#[test]
fn who_may_not_borrow_is_to_have_raised_what_limits_the_queue() {
    let plain = || bare_queue("team-a");
    let deserving = |queue: Object, cards: i64| queue.deserved_cards(&format!(r#"{{"A100": {cards}}}"#));
    let cases = [
        (
            deserving(plain().quota(r#"{"A100": 6}"#), 2),
            0,
            "what the queue deserves raised",
        ),
        (
            deserving(plain().quota(r#"{"A100": 2}"#), 6),
            0,
            "have the quota raised",
        ),
        (
            deserving(plain(), 6),
            6,
            "have nodes added or other queues' guarantees lowered",
        ),
    ];
    for (team, guaranteed, expected) in cases {
        let as_pods: fn(&mut World) -> Subject = |world| {
            world.pod(&pod("p").asks("A100", 3));
            assert_eq!(world.admit(), []);
            Subject::Pod(world.cluster.pod_with_uid("p").unwrap())
        };
        let as_a_whole: fn(&mut World) -> Subject = |world| {
            world.group(&group("g", 1).card_request(r#"{"A100": 3}"#));
            assert_eq!(world.admit(), []);
            let group = world.cluster.workload_named(WorkloadKind::PodGroup, "team", "g");
            Subject::Workload(group.unwrap())
        };
        for waits in [as_pods, as_a_whole] {
            let mut world = World::with(capacity("enqueue, allocate", "enableOveruse: false"));
            world.node(&node("n1").cards("A100", 8));
            world.queue(&bare_queue("team-b").guaranteed_cards(&format!(r#"{{"A100": {guaranteed}}}"#)));
            world.queue(&team);
            let subject = waits(&mut world);
            let why = explain(&world.cluster, subject).unwrap();
            assert!(why.remedy().ends_with(expected), "{}: {}", why.message(), why.remedy());
        }
    }
}

#[test]
fn a_queue_that_names_nothing_has_no_more_than_those_above_it() {
    for (asked, expected) in [(3, Outlook::NotYet), (5, Outlook::Never)] {
        let arguments = "enableHierarchy: true, checkQueueDimensionsOnly: true";
        let mut world = World::with(capacity("enqueue, allocate", arguments));
        world.node(&node("n1").cards("A100", 8));
        world.queue(&bare_queue("department").quota(r#"{"A100": 3}"#));
        world.queue(&bare_queue("team-a").parent("department"));
        world.pod(&pod("holder").asks("A100", 1));
        assert_eq!(world.admit_names(), ["holder"]);
        assert_pod(
            world,
            &pod("p").asks("A100", asked),
            "InsufficientScalarQuota",
            expected,
        );
    }
}

#[test]
fn more_than_a_whole_node_is_never_and_more_than_is_free_not_yet() {
    let of_b = |cards| pod("p").queue("team-b").asks("A100", cards);
    let mut world = busy(2);
    world.pod(&pod("beside").asks("A100", 2).pinned_to("n2"));
    world.admit();
    assert_pod(world, &of_b(4).pinned_to("n1"), "NoNodeFits", Outlook::NotYet);
    assert_pod(busy(2), &of_b(5), "NoNodeFits", Outlook::Never);
    let elsewhere = of_b(1).selects("zone", "nowhere");
    assert_pod(busy(2), &elsewhere, "NodesExcluded", Outlook::Never);
}

/// "Waiting can't help: have the quota raised", until the node was back a moment later.
#[test]
fn who_lacks_what_nodes_have_that_take_no_pods_now_may_wait_for_them() {
    for away in [Object::cordoned, Object::not_ready] {
        let mut world = World::new();
        world.node(&away(node("n1").cards("A100", 8)));
        world.queue(&queue("team-a").quota(r#"{"A100": 3}"#));
        let guaranteed = queue("team-b").quota(r#"{"A100": 2}"#);
        world.queue(&guaranteed.guaranteed_cards(r#"{"A100": 2}"#));
        world.pod(&pod("p").asks("A100", 1));
        assert_eq!(world.refusal_of("p"), "InsufficientScalarQuota");
        let id = world.cluster.pod_with_uid("p").unwrap();
        let outlook = explain(&world.cluster, Subject::Pod(id)).unwrap().outlook;
        assert_eq!(outlook, Outlook::NotYet);
    }
}

/// They were to end pods, which hold nothing of it.
#[test]
fn who_waits_for_nodes_that_take_no_pods_now_is_to_have_them_take_pods() {
    let remedy_of = |world: &World| {
        let id = world.cluster.pod_with_uid("p").unwrap();
        explain(&world.cluster, Subject::Pod(id)).unwrap().remedy()
    };
    let of_mgpu = |node: Object| node.mgpu(1, 10_000, "fixed-share");
    let of_cards = |node: Object| node.cards("A100", 8);
    let kinds: [(&dyn Fn(Object) -> Object, Object); 2] = [
        (&of_cards, pod("p").requests("cpu", "1").asks("A100", 1)),
        (&of_mgpu, pod("p").requests("cpu", "1").share(50, 1_000)),
    ];
    for (with_cards, waiting) in kinds {
        for away in [Object::cordoned, Object::not_ready] {
            let mut world = World::with(configuration("", "unnamedCards: free"));
            world.node(&away(with_cards(node("n1"))));
            world.queue(&queue("team-a").quota(r#"{"A100": 8}"#));
            world.pod(&waiting);
            assert_eq!(world.admit(), []);
            let remedy = remedy_of(&world);
            assert!(
                remedy.contains("uncordoned") && !remedy.contains("end some"),
                "{remedy}"
            );
            assert!(REASONS.contains(&*remedy), "docs/reasons.md says nothing of: {remedy}");
            // Where another node is full, room may come there too.
            world.node(&with_cards(node("n2")).offers("cpu", "0"));
            assert_eq!(world.admit(), []);
            let remedy = remedy_of(&world);
            assert!(remedy.contains("end some of them"), "{remedy}");
        }
    }
}

/// Groups and Jobs as a whole were told so still, and pods of a queue that may not have more than it deserves.
#[test]
fn whoever_lacks_what_nodes_have_that_take_no_pods_now_may_wait_for_them() {
    type Waits = fn(&mut World);
    let cases: [(&str, Waits); 3] = [
        ("", |world| world.group(&group("x", 1).card_request(r#"{"A100": 1}"#))),
        ("", |world| world.job(&held_job("x", r#"{"A100": 1}"#))),
        ("enableOveruse: false", |world| world.pod(&pod("x").asks("A100", 1))),
    ];
    for (arguments, waits) in cases {
        let mut world = World::with(capacity("enqueue, allocate", arguments));
        world.node(&node("n1").cards("A100", 8).cordoned());
        let team = bare_queue("team-a").quota(r#"{"A100": 3}"#);
        world.queue(&team.deserved_cards(r#"{"A100": 3}"#));
        world.queue(&bare_queue("team-b").guaranteed_cards(r#"{"A100": 2}"#));
        waits(&mut world);
        assert!(world.decide().is_empty());
        let workloads = [WorkloadKind::PodGroup, WorkloadKind::Job];
        let mut subjects = workloads
            .into_iter()
            .filter_map(|kind| world.cluster.workload_named(kind, "team", "x"))
            .map(Subject::Workload)
            .chain(world.cluster.pod_with_uid("x").map(Subject::Pod));
        let subject = subjects.next().unwrap();
        let why = explain(&world.cluster, subject).unwrap();
        assert_eq!(why.outlook, Outlook::NotYet, "{arguments} {}", why.message());
        world.node(&node("n1").cards("A100", 8));
        world.decide();
        assert!(explain(&world.cluster, subject).is_none());
    }
}

/// Of a node that was relabelled: it was to ask for less, or to have a larger node added, of what is there under another name.
#[test]
fn who_asks_for_a_card_that_no_node_has_any_more_is_told_which_cards_there_are() {
    let told = |waits: &dyn Fn(&mut World), held: i64| {
        let mut world = World::new();
        world.node(&node("n1").cards("A100", 4));
        world.queue(&queue("team-a").quota(r#"{"A100": 4, "NVIDIA-A100": 4}"#));
        world.pod(&pod("holder").asks("A100", held).assigned("A100").on("n1").ungated());
        world.node(&node("n1").cards("NVIDIA-A100", 4));
        waits(&mut world);
        assert_eq!(world.admit(), []);
        let id = world.cluster.pod_with_uid("p").unwrap();
        let why = explain(&world.cluster, Subject::Pod(id)).unwrap();
        assert_eq!(why.outlook, Outlook::Never);
        let told = (why.reason.as_str(), why.message());
        // Whoever asks is told the same.
        let (asked, now) = (Asked::Existing(Reviewed::Pod("p".to_owned())), world.now);
        let status = review(&mut world.cluster, "team", asked, now).unwrap();
        let (_, remedy) = told.1.split_once("; waiting can't help").unwrap();
        assert!(status.message.ends_with(remedy), "{status:?}");
        told
    };
    let gone = "waiting can't help: no node has A100 now; for what the pod requests the cluster has NVIDIA-A100: create the pod anew with a \
                card that the cluster has (kubectl get cardtypes lists them), or have a node added that has it";
    let alone = |world: &mut World| world.pod(&pod("p").asks("A100", 1));
    let (reason, message) = told(&alone, 1);
    assert_eq!(reason, "NoNodeFits");
    assert_eq!(
        message,
        format!("no node can take the pod now: 0 nodes with A100: none; {gone}")
    );
    let (reason, message) = told(&alone, 4);
    assert_eq!(reason, "InsufficientScalarQuota");
    assert_eq!(message, format!("queue team-a: A100 asked 1, used 4, quota 4; {gone}"));
    let of_group = |world: &mut World| {
        world.group(&group("g", 2).card_request(r#"{"A100": 2}"#));
        world.pods(["p", "q"].map(|name| pod(name).asks("A100", 1).of("g")));
    };
    let (reason, message) = told(&of_group, 1);
    assert_eq!(reason, "NoNodeFits");
    assert!(message.ends_with(gone), "{message}");
}

#[test]
fn who_lacks_quota_now_and_could_never_run_is_told_that_too() {
    let quota = "InsufficientScalarQuota";
    let with_more_quota = || {
        let mut world = busy(3);
        world.queue(&queue("team-a").quota(r#"{"A100": 8}"#));
        world
    };
    let told = |mut world: World, waiting: &Object| {
        world.pod(waiting);
        assert_eq!(world.admit(), []);
        let id = world.cluster.pod_with_uid("p").unwrap();
        explain(&world.cluster, Subject::Pod(id)).unwrap().message()
    };
    let too_large = pod("p").asks("A100", 6);
    assert_eq!(
        told(with_more_quota(), &too_large),
        "queue team-a: A100 asked 6, used 3, quota 8; waiting can't help: no node could take the pod even if nothing ran on it: \
         ask for less in one pod, or have a larger node added"
    );
    assert_pod(with_more_quota(), &too_large, quota, Outlook::Never);
    assert_pod(busy(3), &pod("p").asks("A100", 4), quota, Outlook::NotYet);
    let elsewhere = pod("p").asks("A100", 4).selects("zone", "nowhere");
    let said = told(busy(3), &elsewhere);
    assert!(
        said.contains("waiting can't help: the pod excludes every node"),
        "{said}"
    );
    assert_pod(busy(3), &elsewhere, quota, Outlook::Never);
    // One of the cards that it may have is on a node that is large enough.
    let mut world = with_more_quota();
    world.node(&node("n3").cards("H100", 8));
    world.queue(&queue("team-a").quota(r#"{"A100": 8, "H100": 8}"#));
    world.pod(&pod("beside").asks("H100", 3));
    assert_eq!(world.admit_names(), ["beside"]);
    let either = pod("p").asks("A100|H100", 6);
    world.pod(&either);
    world.admit();
    let id = world.cluster.pod_with_uid("p").unwrap();
    let outlook = explain(&world.cluster, Subject::Pod(id)).unwrap().outlook;
    assert_eq!(outlook, Outlook::NotYet);
}

#[test]
fn a_group_of_which_no_pod_could_ever_run_is_told_so_though_its_quota_is_asked_first() {
    for (each, expected) in [(4, Outlook::NotYet), (5, Outlook::Never)] {
        for group in [
            group("g", 2),
            group("g", 2).card_request(&format!(r#"{{"A100": {}}}"#, 2 * each)),
        ] {
            let mut world = busy(1);
            world.queue(&queue("team-a").quota(r#"{"A100": 10}"#));
            world.queue(&queue("team-b").quota(r#"{"A100": 8}"#));
            world.pod(&pod("beside").asks("A100", 3).pinned_to("n1"));
            assert_eq!(world.admit_names(), ["beside"]);
            world.group(&group);
            world.pods(["p", "q"].map(|name| pod(name).of("g").asks("A100", each)));
            assert_eq!(world.admit(), []);
            let group = world
                .cluster
                .workload_named(WorkloadKind::PodGroup, "team", "g")
                .unwrap();
            for subject in [
                Subject::Workload(group),
                Subject::Pod(world.cluster.pod_with_uid("p").unwrap()),
            ] {
                let why = explain(&world.cluster, subject).unwrap();
                assert_eq!(
                    (why.reason.as_str(), why.outlook),
                    ("InsufficientScalarQuota", expected),
                    "{}",
                    why.message()
                );
            }
        }
    }
}

#[test]
fn a_group_is_told_the_same_as_a_whole_and_pod_by_pod() {
    let whole = |cards: i64| group("g", 2).card_request(&format!(r#"{{"A100": {cards}}}"#));
    for (held, group, each, reason, expected) in [
        (3, whole(4), 2, "InsufficientScalarQuota", Outlook::NotYet),
        (3, whole(6), 3, "InsufficientScalarQuota", Outlook::Never),
        (1, group("g", 2), 2, "NoNodeFits", Outlook::NotYet),
    ] {
        let mut world = busy(held);
        world.group(&group);
        world.pods(["p", "q"].map(|name| pod(name).of("g").asks("A100", each).pinned_to("n1")));
        let id = world
            .cluster
            .workload_named(WorkloadKind::PodGroup, "team", "g")
            .unwrap();
        assert_outlook(&mut world, Subject::Workload(id), "p", reason, expected);
    }
}

#[test]
fn a_queue_that_must_be_mended_never_helps_who_waits() {
    let mut world = busy(1);
    assert_eq!(
        explain(
            &world.cluster,
            Subject::Queue(world.cluster.queue_named("team-b").unwrap())
        )
        .map(|why| why.reason),
        None
    );
    world.queue(&queue("team-a").quota("[]"));
    let id = world.cluster.queue_named("team-a").unwrap();
    assert_outlook(&mut world, Subject::Queue(id), "nobody", "QueueInvalid", Outlook::Never);
    assert_pod(world, &pod("p").asks("A100", 1), "QueueInvalid", Outlook::Never);
}

/// The message that each of the pods is told now, where its numbers are no longer those that it was told.
fn refreshed(refresher: &mut Refresher, world: &World) -> Vec<String> {
    let fresh = refresher.refresh(&world.cluster, world.now, 10).into_iter();
    fresh
        .map(|fresh| match fresh {
            Fresh::Pod(notice) => format!("{}: {}", notice.pod.name, notice.message),
            Fresh::Again(told) => format!("again {}: {}", told.regarding.name.unwrap(), told.message),
            Fresh::Workload(progress) => panic!("{progress:?}"),
        })
        .collect()
}

#[test]
fn a_pod_is_told_anew_within_minutes_when_the_numbers_of_its_reason_have_changed_and_not_before() {
    let mut world = World::new();
    world.node(&node("n1").cards("A", 64));
    let queue_of = |quota: i64| queue("team-a").quota(&format!("{{\"A\": {quota}}}"));
    world.queue(&queue_of(32));
    world.pod(&pod("asks").asks("A", 33));
    world.pod(&pod("unchanged").asks("B", 1));
    assert_eq!(world.admit(), []);
    world.wait(2);
    let (mut refresher, mut successor) = (Refresher::default(), Refresher::default());
    let notices = world.notices();
    assert_eq!(notices.len(), 2);
    for notice in &notices {
        refresher.note(notice, world.now);
        // However often it is told, it is looked at once.
        refresher.note(notice, world.now);
    }
    successor.take_over(&world.cluster, world.now);

    world.queue(&queue_of(28));
    assert_eq!(world.admit(), []);
    assert_eq!(world.notices(), [], "the reason is the same");
    assert_eq!(refreshed(&mut refresher, &world), [""; 0], "so soon");
    world.wait(120);
    let expected = [
        "asks: queue team-a: A asked 33, used 0, quota 28; waiting can't help: ask for less, or have the quota raised",
    ];
    assert_eq!(refreshed(&mut refresher, &world), expected);
    assert_eq!(refreshed(&mut refresher, &world), [""; 0]);
    assert_eq!(
        refreshed(&mut successor, &world).len(),
        2,
        "what others told is not known"
    );
    world.wait(120);
    assert_eq!(refreshed(&mut refresher, &world), [""; 0], "nothing has changed");
    // Before events are forgotten, they come again, once.
    let mut again = Vec::new();
    for _ in 0..24 {
        world.wait(120);
        again.extend(refreshed(&mut refresher, &world));
    }
    again.sort();
    let [asks, unchanged] = again.as_slice() else {
        panic!("{again:?}")
    };
    assert_eq!(*asks, format!("again {}", expected[0]));
    assert!(unchanged.starts_with("again unchanged: "), "{unchanged}");

    // Who is let in is told nothing, and forgotten.
    world.queue(&queue_of(64));
    assert_eq!(world.admit().len(), 1);
    world.wait(120);
    assert_eq!(refreshed(&mut refresher, &world), [""; 0]);
}

#[test]
fn a_pod_that_others_hold_is_told_so_once_and_then_why_it_waits_itself() {
    const OTHERS: [&str; 2] = ["card.volcano.sh/quota", "example.com/other"];
    let mut world = World::new();
    world.node(&node("n1").cards("A", 8));
    world.queue(&queue("team-a").quota(r#"{"A": 1}"#));
    let held = pod("held").asks("A", 2);
    world.pod(&held.clone().gates(&OTHERS));
    // Who is gone before anybody looks is told nothing.
    world.pod(&pod("gone").asks("A", 2).gates(&OTHERS));
    world.remove_pod("gone");
    assert_eq!(world.admit(), []);
    let told = |world: &mut World| {
        let notices = world.notices().into_iter();
        notices
            .map(|notice| (notice.pod.name.to_string(), notice.reason.as_str()))
            .collect::<Vec<_>>()
    };
    assert_eq!(told(&mut world), [("held".to_owned(), "HeldByAnotherGate")]);
    world.pod(&held.clone().gates(&OTHERS).label("a", "b"));
    world.wait(2);
    assert_eq!(told(&mut world), []);
    world.pod(&held);
    assert_eq!(world.admit(), []);
    assert_eq!(told(&mut world), [("held".to_owned(), "InsufficientScalarQuota")]);
}

#[test]
fn a_group_is_told_anew_too() {
    let mut world = World::new();
    world.node(&node("n1").cards("A", 64));
    let queue_of = |quota: i64| queue("team-a").quota(&format!("{{\"A\": {quota}}}"));
    world.queue(&queue_of(32));
    world.group(&group("g", 1).card_request(r#"{"A": 33}"#));
    assert_eq!(world.admit(), []);
    world.wait(2);
    let mut refresher = Refresher::default();
    for told in progress(&mut world.cluster, world.now, 10) {
        refresher.note_progress(&told, world.now);
    }
    world.queue(&queue_of(28));
    assert_eq!(world.admit(), []);
    let news = progress(&mut world.cluster, world.now, 10);
    assert!(news.iter().all(|told| !told.news), "the reason is the same: {news:?}");
    world.wait(120);
    let fresh = refresher.refresh(&world.cluster, world.now, 10);
    let [Fresh::Workload(told)] = fresh.as_slice() else {
        panic!("{fresh:?}");
    };
    let (_, message) = told.refused.as_ref().unwrap();
    assert!(told.news && message.contains("quota 28"), "{message}");
    world.wait(120);
    let unchanged = refresher.refresh(&world.cluster, world.now, 10);
    assert!(unchanged.is_empty(), "{unchanged:?}");
}

#[test]
fn no_more_is_remembered_of_what_was_told_than_a_bound() {
    let mut world = World::new();
    world.queue(&queue("team-a").quota(r#"{"A": 1}"#));
    world.pod(&pod("waits").asks("A", 2));
    assert_eq!(world.admit(), []);
    world.wait(2);
    let notices = world.notices();
    let mut refresher = Refresher::default();
    for _ in 0..60_000 {
        refresher.note(&notices[0], world.now);
    }
    assert_eq!(refresher.len(), 50_000);
}

/// docs/security.md: a crowd of pods that come and go in one namespace costs others neither their place nor their turn.
#[test]
fn a_crowd_in_one_namespace_keeps_no_others_numbers_from_being_refreshed() {
    let mut world = World::new();
    world.node(&node("n1").cards("A", 64));
    let queue_of = |quota: i64| queue("team-a").quota(&format!("{{\"A\": {quota}}}"));
    world.queue(&queue_of(32));
    world.pod(&pod("crowd").asks("A", 33));
    world.pod(&pod("other").namespace("other").asks("A", 33));
    assert_eq!(world.admit(), []);
    world.wait(2);
    let notices = world.notices();
    let notice_of = |name: &str| notices.iter().find(|notice| *notice.pod.name == *name).unwrap();
    let mut refresher = Refresher::default();
    for index in 0..60_000 {
        // They are gone again before anybody looks.
        let mut crowd = notice_of("crowd").clone();
        crowd.pod.uid = format!("crowd-{index}").into();
        refresher.note(&crowd, world.now);
    }
    refresher.note(notice_of("other"), world.now);
    assert_eq!(refresher.len(), 50_000);
    world.queue(&queue_of(28));
    assert_eq!(world.admit(), []);
    world.wait(121);
    let expected = [
        "other: queue team-a: A asked 33, used 0, quota 28; waiting can't help: ask for less, or have the quota raised",
    ];
    assert_eq!(refreshed(&mut refresher, &world), expected);
}
