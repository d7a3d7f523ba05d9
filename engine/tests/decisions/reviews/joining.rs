//! Pods that are asked about and join a group, and Jobs that are taken as a whole: what is answered is what then happens.

use super::*;

/// What makes so many of these pods.
fn of_template(kind: &str, count: i64, pod: &Object) -> Value {
    json!({ "kind": kind, "metadata": { "name": "train" }, "spec": { "replicas": count, "parallelism": count, "template": pod.read::<Value>() } })
}

fn imagined_as(world: &mut World, manifest: Value) -> CardReviewStatus {
    ask(world, "team", Asked::Imagined(Box::new(made_by(manifest).unwrap()))).unwrap()
}

fn member(name: &str, cards: i64) -> Object {
    pod(name).of("gang").asks("A100", cards)
}

#[test]
fn whoever_completes_a_gang_is_told_what_then_happens_to_all_of_it() {
    for quota in [2, 4, 5] {
        for (nodes, least, cards) in [
            (&[4][..], 2, 2),
            (&[3, 3], 2, 3),
            (&[4, 1], 3, 1),
            (&[3, 1], 2, 2),
            (&[2, 2], 4, 1),
        ] {
            for waiting in 0..least {
                let mut world = World::new();
                for (index, cards) in nodes.iter().enumerate() {
                    world.node(&node(&format!("n{index}")).cards("A100", *cards));
                }
                world.queue(&queue("team-a").quota(&json!({ "A100": quota }).to_string()));
                world.group(&group("gang", least));
                world.pods((0..waiting).map(|index| member(&format!("g{index}"), cards).created(index)));
                assert_eq!(world.admit(), []);
                let others = least - waiting;
                let told = imagined_as(&mut world, of_template("ReplicaSet", others, &member("p", cards)));
                world.pods((waiting..least).map(|index| member(&format!("g{index}"), cards).created(index)));
                let let_in = world.admit().len();
                let case = format!("{quota} {nodes:?} {least} {cards} {waiting}: {told:?}");
                assert_eq!(told.admitted, let_in > 0, "{case}");
                if !told.admitted {
                    let really = about(&mut world, "g0");
                    assert_eq!(reasons(&told)[0], reasons(&really)[0], "{case} {really:?}");
                }
            }
        }
    }
}

#[test]
fn whoever_does_not_complete_it_waits_for_the_others_and_is_told_where_all_would_be_too_many() {
    let mut world = world();
    world.group(&group("gang", 3));
    let told = imagined(&mut world, &member("p", 1));
    assert_eq!(reasons(&told), [("PodGroupIncomplete", Outlook::NotYet)]);
    let expected =
        "PodGroup gang lets 3 pods in together (spec.minMember), and it is the first: the others are to be created";
    assert_eq!(told.blocks[0].message, expected);
    world.pod(&member("g0", 1));
    let told = imagined(&mut world, &member("p", 3));
    assert_eq!(
        reasons(&told),
        [("PodGroupIncomplete", Outlook::NotYet), (QUOTA, Outlook::Never)]
    );
    assert!(told.blocks[0].message.contains("and with it 2 are there"), "{told:?}");
    let whole =
        "queue team-a can't take PodGroup gang as a whole: A100 asked 7, allocated 0, in queue 0, elastic 0, quota 5";
    assert!(told.blocks[1].message.starts_with(whole), "{told:?}");
}

/// That each pod may get in when others end says nothing of all of them.
#[test]
fn what_is_never_for_all_of_them_is_not_told_as_what_one_of_them_waits_for() {
    let mut world = world();
    world.pod(&pod("holder").asks("A100", 4));
    assert_eq!(world.admit_names(), ["holder"]);
    world.group(&group("gang", 3));
    let told = imagined_as(&mut world, of_template("ReplicaSet", 3, &member("p", 2)));
    assert_eq!(
        reasons(&told),
        [(QUOTA, Outlook::Never), ("NoNodeFits", Outlook::NotYet)],
        "{told:?}"
    );
    assert!(
        told.message.starts_with("it can't be let in as things are: "),
        "{told:?}"
    );
}

#[test]
fn once_a_gang_is_in_others_join_it_one_by_one() {
    let mut world = world();
    world.group(&group("gang", 2));
    world.pods(["g0", "g1"].map(|name| member(name, 1)));
    assert_eq!(world.admit().len(), 2);
    let told = imagined_as(&mut world, of_template("ReplicaSet", 100, &member("p", 1)));
    assert!(told.admitted, "{told:?}");
}

#[test]
fn a_group_that_asks_for_more_than_its_queue_has_or_can_not_be_read_is_told() {
    let mut world = world();
    world.group(&group("gang", 1).card_request(r#"{"A100": 6}"#));
    let told = imagined(&mut world, &member("p", 1));
    assert_eq!(reasons(&told), [(QUOTA, Outlook::Never)]);
    world.group(&group("gang", 1).card_request("nothing"));
    let told = imagined(&mut world, &member("p", 1));
    assert_eq!(reasons(&told)[0].0, "PodGroupInvalid", "{told:?}");
}

#[test]
fn more_pods_than_are_judged_for_an_answer_are_not_said_to_get_in() {
    let mut world = World::new();
    world.node(
        &node("n1")
            .cards("A100", 4000)
            .offers("cpu", "9000")
            .offers("memory", "90Ti")
            .offers("pods", "9000"),
    );
    world.queue(
        &bare_queue("team-a")
            .quota(r#"{"A100": 4000}"#)
            .capability("cpu", "9000")
            .capability("memory", "90Ti"),
    );
    for (least, count, expected) in [
        (900, 900, None),
        (2000, 2000, Some("TooComplex")),
        (2000, 1, Some("PodGroupIncomplete")),
    ] {
        world.group(&group("gang", least));
        let told = imagined_as(&mut world, of_template("ReplicaSet", count, &member("p", 1)));
        assert_eq!(reasons(&told).first().map(|(reason, _)| *reason), expected, "{told:?}");
    }
    world.group(&group("gang", i32::MAX.into()));
    let told = imagined_as(&mut world, of_template("ReplicaSet", i64::MAX, &member("p", 1)));
    assert_eq!(reasons(&told)[0].0, "TooComplex", "{told:?}");
}

/// However many templates a manifest has, no more pods are put in line for an answer than its group lacks.
#[test]
fn a_job_of_many_large_tasks_is_judged_by_no_more_pods_than_it_needs() {
    let mut world = world();
    let task = |index: usize| json!({ "name": format!("t{index:03}"), "replicas": 1000, "template": bare_pod("p").asks("A100", 0).read::<Value>() });
    let job = json!({
        "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": { "name": "train" },
        "spec": { "queue": "team-a", "minAvailable": 1000, "tasks": (0..256).map(task).collect::<Value>() },
    });
    imagined_as(&mut world, job);
    world.pod(&bare_pod("next"));
    let id = world.cluster.pod_with_uid("next").unwrap();
    let place: usize = format!("{id:?}")
        .trim_matches(|letter: char| !letter.is_ascii_digit())
        .parse()
        .unwrap();
    assert_eq!(
        place, 999,
        "of the places that were taken for the answer the last one is used again first"
    );
}

/// Tasks whose pods come first take no places from others'.
#[test]
fn every_task_of_a_job_has_its_places() {
    let task = |name: &str, replicas: i64, least: i64, cards: i64| {
        let template: Value = bare_pod("p").asks("A100", cards).read();
        json!({ "name": name, "replicas": replicas, "minAvailable": least, "template": template })
    };
    for (workers, expected) in [(1, vec![]), (2, vec![("NoNodeFits", Outlook::NotYet)])] {
        let job = json!({
            "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": { "name": "train" },
            "spec": { "queue": "team-a", "minAvailable": 3, "tasks": [task("a", 9, 2, 1), task("b", 2, 1, workers)] },
        });
        let mut world = World::new();
        world.node(&node("n1").cards("A100", 3));
        world.queue(&queue("team-a").quota(r#"{"A100": 9}"#));
        let told = imagined_as(&mut world, job);
        assert_eq!(reasons(&told), expected, "{workers}: {told:?}");
    }
}

#[test]
fn a_job_in_job_mode_is_judged_as_a_whole() {
    for (request, count, expected) in [
        (4, 4, vec![]),
        (6, 4, vec![(QUOTA, Outlook::Never)]),
        (4, 5, vec![("NoNodeFits", Outlook::NotYet)]),
    ] {
        let mut world = world();
        let mut job = of_template("Job", count, &pod("p").asks("A100", 1));
        job["metadata"]["annotations"]["volcano.sh/card.request"] = json!({ "A100": request }).to_string().into();
        let told = imagined_as(&mut world, job.clone());
        assert_eq!(reasons(&told), expected, "{request} {count}: {told:?}");
        let of_cron = json!({ "kind": "CronJob", "metadata": { "name": "train" }, "spec": { "jobTemplate": job } });
        assert_eq!(imagined_as(&mut world, of_cron), told);
        assert_eq!(world.cluster.workloads().count(), 0);
    }
    // Whose pods are more than it asks for in advance is let in, and its pods come one by one: no gang waits for the last.
    let mut job = of_template("Job", 5, &pod("p").asks("A100", 1));
    job["metadata"]["annotations"]["volcano.sh/card.request"] = json!({ "A100": 4 }).to_string().into();
    let told = imagined_as(&mut world(), job);
    assert_eq!(
        told.message,
        "it waits: the 5 pods of Job train are let in one by one, and not all of them now; of each, there is enough for it by itself, and \
         not for all of them"
    );
    // Without that its pods come one by one.
    let told = imagined_as(&mut world(), of_template("Job", 6, &pod("p").asks("A100", 1)));
    assert!(told.admitted, "{told:?}");
}

/// Found by fuzzing: no API server takes such a name, and nobody has asked one.
#[test]
fn of_long_names_of_resources_only_the_beginning_is_told() {
    let long = format!("nvidia.com/mig-{}1g.5gb", "1g-".repeat(2000));
    let asks = bare_pod("p").queue("team-a").requests("nvidia.com/mig-1g.5gb", "1");
    let told = imagined(&mut world(), &asks.requests(&long, "1"));
    let block = &told.blocks[0];
    assert_eq!(block.reason, "SecondCardResource");
    assert!(block.message.len() < 400, "{}", block.message);
}

/// Its queue has room, and keeps nothing for anybody of its namespace for a while.
#[test]
fn a_job_of_a_namespace_that_stands_aside_is_told_so() {
    let mut world = world();
    world.group(&group("empty", 1).card_request(r#"{"A100": 1}"#));
    world.admit();
    world.wait(600);
    world.admit();
    let mut job = of_template("Job", 1, &pod("p").asks("A100", 1));
    job["metadata"]["annotations"]["volcano.sh/card.request"] = r#"{"A100": 1}"#.into();
    let told = imagined_as(&mut world, job.clone());
    assert_eq!(reasons(&told), [("InqueueTimeout", Outlook::NotYet)], "{told:?}");
    assert!(
        told.message.contains("for any workload of namespace team until"),
        "{told:?}"
    );
    world.wait(60);
    world.admit();
    assert!(imagined_as(&mut world, job).admitted);
}

/// It was told of the minimum, which there were enough of.
#[test]
fn who_joins_a_group_is_told_which_of_its_tasks_lack_pods() {
    let mut world = world();
    let tasks = json!({ "ps": 1, "worker": 2 });
    world.group(&group("gang", 3).set(["spec", "minTaskMember"], tasks));
    let worker = |name: &str| member(name, 1).label("volcano.sh/task-spec", "worker");
    world.pods(["g0", "g1"].map(worker));
    let told = imagined(&mut world, &worker("p"));
    let expected = "PodGroup gang lets 3 pods in together, of each task as many as it needs (spec.minTaskMember), and with it 3 are \
                    there: 1 of task ps is to be created";
    assert_eq!(told.blocks[0].message, expected);
    assert!(told.blocks[0].remedy.contains("spec.minTaskMember"), "{told:?}");
}

#[test]
fn a_job_of_volcano_is_judged_as_the_group_that_is_made_for_it() {
    let task = |name: &str, replicas: i64| json!({ "name": name, "replicas": replicas, "template": bare_pod("p").asks("A100", 1).read::<Value>() });
    let job = |workers: i64| {
        json!({
            "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": { "name": "train" },
            "spec": { "queue": "team-a", "tasks": [task("master", 1), task("worker", workers)] },
        })
    };
    let mut world = world();
    let mut more = job(3);
    more["spec"]["minAvailable"] = 5.into();
    let told = imagined_as(&mut world, more);
    assert_eq!(reasons(&told)[0], ("PodGroupIncomplete", Outlook::NotYet));
    let expected =
        "Job train lets 5 pods in together (spec.minAvailable), and with it 4 are there: the others are to be created";
    assert_eq!(told.blocks[0].message, expected);
    assert!(told.blocks[0].remedy.contains("spec.minAvailable"), "{told:?}");
    let told = imagined_as(&mut world, job(3));
    assert!(told.admitted && told.queue.as_deref() == Some("team-a"), "{told:?}");
    // Each task by itself would have a place for all of its pods.
    let told = imagined_as(&mut world, job(4));
    assert_eq!(reasons(&told), [("NoNodeFits", Outlook::NotYet)]);
    let expected = "the 5 pods of Job train are let in together; of this one, there is enough for it by itself, and not for all of them";
    assert_eq!(told.blocks[0].message, expected);
    let told = imagined_as(&mut world, job(5));
    assert_eq!(reasons(&told), [(QUOTA, Outlook::Never)]);
    assert!(
        told.blocks[0]
            .message
            .starts_with("queue team-a can't take Job train as a whole"),
        "{told:?}"
    );
    assert_eq!(world.cluster.workloads().count(), 0);
    assert_eq!(world.admit(), []);
}

/// Those that wait are let in for a moment beside those that are not there: nobody is judged, told or counted anew for it.
#[test]
fn a_question_about_a_gang_leaves_nothing_behind() {
    let mut world = world();
    world.pod(&pod("holder").asks("A100", 3));
    world.group(&group("gang", 2));
    assert_eq!(world.admit_names(), ["holder"]);
    world.pods(["g0", "g1"].map(|name| member(name, 1)));
    assert_eq!(world.admit(), []);
    world.wait(2);
    assert_eq!(world.notices().len(), 2);
    world.cluster.take_changes();
    let state = |world: &mut World| (about(world, "g0"), about(world, "g1"), world.cluster.pods().count());
    let before = state(&mut world);
    for cards in [1, 2, 6] {
        for _ in 0..3 {
            imagined(&mut world, &member("p", cards));
            imagined_as(&mut world, of_template("ReplicaSet", 3, &member("p", cards)));
        }
    }
    assert_eq!(state(&mut world), before);
    assert_eq!(world.notices().len(), 0);
    assert_eq!(world.admit(), []);
    world.remove_pod("holder");
    assert_eq!(world.admit_names(), ["g0", "g1"]);
}

/// Nothing of a Job that is held says what priority its pods will have.
#[test]
fn a_job_that_is_held_is_told_the_place_that_it_then_has() {
    let mut world = World::new();
    world.node(&node("n1").cards("A100", 2));
    world.queue(&queue("team-a").quota(r#"{"A100": 2}"#));
    world.pod(&pod("holds").asks("A100", 1).assigned("A100").on("n1"));
    world.pod(&pod("before").asks("A100", 2).priority(10));
    assert_eq!(world.admit(), []);
    let template = pod("p").asks("A100", 1).priority(100);
    let mut job = of_template("Job", 2, &template);
    job["metadata"]["annotations"] = json!({"volcano.sh/card.request": r#"{"A100": 2}"#});
    let told = imagined_as(&mut world, job);
    let before = told.before.as_ref().map(|before| before.own.as_slice());
    assert_eq!(before, Some(&["before".to_owned()][..]), "{told:?}");
}
