//! Answers about groups and Jobs.

use super::*;

/// As a whole before there are pods, and together when there are.
#[test]
fn groups_are_told_who_has_what_they_lack() {
    let mut world = world();
    // People read names in their order; the youngest would be taken back first.
    world.pod(&pod("mine-a").asks("A100", 1));
    world.pod(&pod("mine-b").asks("A100", 1).created(1));
    world.pod(&pod("secret").namespace("other").asks("A100", 1));
    assert_eq!(world.admit().len(), 3);
    let about = |world: &mut World, name: &str| {
        let asked = Asked::Existing(Reviewed::PodGroup(name.to_owned()));
        let status = ask(world, "team", asked).unwrap();
        assert_eq!(reasons(&status)[0], (QUOTA, Outlook::NotYet));
        let short = status.blocks[0].shortages[0].clone();
        let holders: Vec<_> = short
            .holders
            .iter()
            .map(|holder| (holder.amount.clone(), holder.pods.own.clone(), holder.pods.others))
            .collect();
        let own = vec!["mine-a".to_owned(), "mine-b".to_owned()];
        assert_eq!(holders, [("3".to_owned(), own, 1)]);
        (short.place.name, short.asked, short.used, short.limit.unwrap())
    };
    let numbers = |asked: &str| ("team-a".to_owned(), asked.to_owned(), "3".to_owned(), "5".to_owned());
    world.group(&group("whole", 1).card_request(r#"{"A100": 4}"#));
    assert_eq!(world.admit(), []);
    assert_eq!(about(&mut world, "whole"), numbers("4"));

    world.group(&group("gang", 2));
    for name in ["g1", "g2"] {
        world.pod(&pod(name).asks("A100", 2).of("gang"));
    }
    assert_eq!(world.admit(), []);
    assert_eq!(about(&mut world, "gang"), numbers("4"));
}

/// Of groups and Jobs too: not only what is asked first, and who is before them.
#[test]
fn groups_and_jobs_are_told_everything_that_is_in_the_way_and_who_is_before_them() {
    let mut world = world();
    world.pod(&pod("holder").asks("A100", 4));
    assert_eq!(world.admit_names(), ["holder"]);
    world.pod(&pod("mine").asks("A100", 2).created(1));
    world.pod(&pod("secret").namespace("other").asks("A100", 2).created(2));
    world.job(&held_job("whole", r#"{"A100": 2}"#).created(3));
    world.group(&group("gang", 2));
    for name in ["g1", "g2"] {
        world.pod(&pod(name).asks("A100", 2).of("gang").created(4));
    }
    assert_eq!(world.admit(), []);
    let gang = Asked::Existing(Reviewed::PodGroup("gang".to_owned()));
    let job = Asked::Existing(Reviewed::Job("whole".to_owned()));
    let job = ask(&mut world, "team", job).unwrap();
    assert_eq!(reasons(&job), [(QUOTA, Outlook::NotYet)]);
    let gang = ask(&mut world, "team", gang).unwrap();
    assert_eq!(
        reasons(&gang),
        [(QUOTA, Outlook::NotYet), ("NoNodeFits", Outlook::NotYet)]
    );
    let before = |status: &CardReviewStatus| {
        let before = status.before.clone().unwrap();
        (status.position, status.waiting, before.own, before.others)
    };
    let mine = || "mine".to_owned();
    assert_eq!(before(&job), (Some(3), Some(5), vec![mine()], 1));
    let both = vec![mine(), "Job whole".to_owned()];
    assert_eq!(before(&gang), (Some(4), Some(5), both, 1));
    assert_eq!(before(&about(&mut world, "g1")), before(&gang));
}

/// Each pod by itself would have room, so the sum is what they have to be told.
#[test]
fn a_gang_that_is_larger_than_its_queues_quota_is_told_the_sum_and_never() {
    let resources = |cards: i64| json!({ "spec": { "minResources": { "cpu": cards, "nvidia.com/gpu": cards } } });
    let sum = |asked: i64, held: i64| {
        format!(
            "queue team-a can't take PodGroup gang as a whole: A100 asked {asked}, allocated {held}, in queue 0, elastic 0, quota 5"
        )
    };
    let never = "; waiting can't help: ask for less, or have the quota raised";
    for is_written in [true, false] {
        for (members, held, expected) in [(6, 0, Outlook::Never), (5, 1, Outlook::NotYet)] {
            let mut world = World::new();
            world.node(&node("n1").cards("A100", 8));
            world.queue(&queue("team-a").quota(r#"{"A100": 5}"#));
            if held > 0 {
                world.pod(&pod("holder").asks("A100", held));
                assert_eq!(world.admit_names(), ["holder"]);
            }
            let gang = group("gang", members);
            world.group(&if is_written {
                gang.with(&resources(members))
            } else {
                gang
            });
            world.pods((0..members).map(|index| pod(&format!("g{index}")).of("gang").asks("A100", 1)));
            assert_eq!(world.admit(), []);
            let of_pod = about(&mut world, "g1");
            let of_group = Asked::Existing(Reviewed::PodGroup("gang".to_owned()));
            let of_group = ask(&mut world, "team", of_group).unwrap();
            for status in [of_pod, of_group] {
                assert_eq!(reasons(&status)[0], (QUOTA, expected), "{status:?}");
                let block = &status.blocks[0];
                let end = if expected == Outlook::Never { never } else { "" };
                assert_eq!(block.message, sum(members, held) + end);
                let short = &block.shortages[0];
                assert_eq!(
                    (short.asked.as_str(), short.used.as_str()),
                    (&*members.to_string(), &*held.to_string())
                );
                assert_eq!(short.limit.as_deref(), Some("5"));
                assert_eq!(short.holders.len(), usize::from(held > 0));
            }
            // As it then is.
            world.remove_pod("holder");
            let let_in = world.admit().len();
            assert_eq!(let_in > 0, expected == Outlook::NotYet, "{members}");
        }
    }
}

/// The queue that has too little is named, whichever of the pods' queues it is.
#[test]
fn a_gang_in_two_queues_is_told_of_the_one_that_has_too_little() {
    let mut world = World::new();
    world.node(&node("n1").cards("A100", 8));
    world.queue(&queue("team-a").quota(r#"{"A100": 5}"#));
    world.queue(&queue("team-b").quota(r#"{"A100": 1}"#));
    world.group(&group("gang", 4));
    for (name, queue) in [("a1", "team-a"), ("a2", "team-a"), ("b1", "team-b"), ("b2", "team-b")] {
        world.pod(&pod(name).of("gang").queue(queue).asks("A100", 1));
    }
    assert_eq!(world.admit(), []);
    for name in ["a1", "b2"] {
        let block = about(&mut world, name).blocks.remove(0);
        assert_eq!((block.reason.as_str(), block.outlook), (QUOTA, Outlook::Never));
        assert!(
            block
                .message
                .starts_with("queue team-b can't take PodGroup gang as a whole: A100 asked 2, allocated 0,"),
            "{}",
            block.message
        );
    }
}

/// Its user may ask before the Job may have pods, and when it has none any more.
#[test]
fn jobs_that_have_no_pods_are_told_where_they_are() {
    let mut world = world();
    let about = |world: &mut World| {
        let asked = Asked::Existing(Reviewed::Job("whole".to_owned()));
        let status = ask(world, "team", asked).unwrap();
        assert!(status.admitted, "{status:?}");
        status.message
    };
    let request = json!({"volcano.sh/card.request": r#"{"A100": 2}"#});
    let suspended = held_job("whole", "{}").set(["metadata", "annotations"], request);
    world.job(&suspended);
    assert_eq!(
        about(&mut world),
        "Job whole has ended, is being deleted, or was suspended by somebody else than Cardgate: Cardgate does not hold it"
    );
    world.job(&suspended.set(["spec", "suspend"], false));
    assert_eq!(about(&mut world), "Job whole has no pods yet, and waits for nothing");
}

/// What is kept for the Job whose pods are a group's is not kept from it.
#[test]
fn a_group_is_not_told_what_is_kept_for_its_own_jobs() {
    let mut world = world();
    let of_group =
        json!({"annotations": {"scheduling.volcano.sh/queue-name": "team-a", "scheduling.k8s.io/group-name": "g"}});
    world.job(&held_job("j", r#"{"A100": 3}"#).set(["spec", "template", "metadata"], of_group));
    world.group(&group("mine", 1).card_request(r#"{"A100": 2}"#));
    assert_eq!(world.resume(), ["j"]);
    world.group(&group("g", 1).created(2).card_request(r#"{"A100": 4}"#));
    assert_eq!(world.admit(), []);
    let status = ask(&mut world, "team", Asked::Existing(Reviewed::PodGroup("g".to_owned()))).unwrap();
    let kept = status.blocks[0].shortages[0].kept.clone().unwrap();
    assert_eq!(
        (&*kept.amount, &*kept.workloads.own),
        ("2", &["PodGroup mine".to_owned()][..]),
        "{kept:?}"
    );
}

/// Nobody's pods hold it, and nothing said who has it, and until when.
#[test]
fn groups_and_jobs_are_told_for_whom_what_they_lack_is_kept() {
    let mut world = world();
    world.group(&group("mine", 1).card_request(r#"{"A100": 3}"#));
    world.group(
        &group("theirs", 1)
            .namespace("other")
            .created(1)
            .card_request(r#"{"A100|H100": 1}"#),
    );
    world.admit();
    world.wait(60);
    world.group(&group("next", 1).created(2).card_request(r#"{"A100": 3}"#));
    assert_eq!(world.admit(), []);
    let asked = Asked::Existing(Reviewed::PodGroup("next".to_owned()));
    let status = ask(&mut world, "team", asked).unwrap();
    let short = &status.blocks[0].shortages[0];
    let kept = short.kept.clone().unwrap();
    assert_eq!((&*kept.amount, kept.seconds), ("4", 540), "{kept:?}");
    assert_eq!(kept.workloads.own, ["PodGroup mine"]);
    assert_eq!((kept.workloads.own_count, kept.workloads.others), (1, 1));
    // Whoever's pods it is that hold it, nothing of it is kept.
    world.pod(&pod("takes").of("mine").asks("A100", 3));
    world.pod(&pod("others").namespace("other").of("theirs").asks("A100", 1));
    assert_eq!(world.admit().len(), 2);
    let asked = Asked::Existing(Reviewed::PodGroup("next".to_owned()));
    let status = ask(&mut world, "team", asked).unwrap();
    assert_eq!(status.blocks[0].shortages[0].kept, None);
}
