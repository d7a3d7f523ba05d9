//! What users see of queues: metrics, the first waiting pods, and what can't all be had.

use std::sync::Arc;

use crds::card_usage::CardUsageStatus;
use engine::overview::{self, Shown, Unsatisfiable};

use super::{admitted, cluster, plain, worker, workers};
use crate::world::{GPU, World, group, held_job, node, pod, queue_plugin};

/// What the usage of a queue shows now.
fn usage(world: &mut World, name: &str) -> CardUsageStatus {
    usage_in(&world.shown(), name)
}

fn usage_in(reports: &[Shown], name: &str) -> CardUsageStatus {
    let mut usages = reports.iter().filter_map(|report| match report {
        Shown::Usage { queue, status, .. } if **queue == *name => status.clone(),
        _ => None,
    });
    usages.next().unwrap_or_else(|| panic!("no report on {name}"))
}

#[test]
fn section_3_metrics_enabled_switches_the_gauges_of_queues() {
    for (arguments, expected) in [("", true), ("metricsEnabled: false", false)] {
        let mut world = cluster(8, arguments);
        world.queue(&plain("a").quota(r#"{"A": 4}"#).deserved_cards(r#"{"A": 1}"#));
        workers(&mut world, "a", 2);
        assert_eq!(admitted(&mut world), 2);
        let figures = overview::figures(&world.cluster);
        assert_eq!(figures[0].standing.is_some(), expected, "{arguments}");
        let held: Vec<_> = figures[0]
            .cards
            .iter()
            .map(|card| (&*card.card, card.allocated))
            .collect();
        assert_eq!(held, [("A", 2)], "card-seconds go on: {arguments}");
        if let Some(standing) = &figures[0].standing {
            assert!(standing.overused, "2 of 1 deserved");
            assert!((standing.share - 2.0).abs() < f64::EPSILON, "{}", standing.share);
            let cpu = standing.resources.iter().find(|one| &*one.resource == "cpu").unwrap();
            assert_eq!(
                (cpu.allocated, cpu.capacity, cpu.real_capacity),
                (2_000, None, Some(64_000))
            );
        }
    }
}

#[test]
fn a_usage_says_what_no_capability_limits() {
    let mut world = cluster(8, "");
    world.queue(&plain("a").capability("memory", "4Gi"));
    workers(&mut world, "a", 2);
    assert_eq!(admitted(&mut world), 2);
    let shown = usage(&mut world, "a");
    assert_eq!((&*shown.cpu, &*shown.memory), ("2 / unlimited", "2Gi / 4Gi"));
}

#[test]
fn a_usage_shows_the_next_waiting_pods_and_what_they_lack() {
    let mut world = cluster(8, "");
    world.queue(&plain("a").quota(r#"{"A": 2}"#));
    workers(&mut world, "a", 2);
    assert_eq!(admitted(&mut world), 2);
    world.pods((2..9).map(|index| worker("a", index)));
    world.pod(&worker("a", 9).priority(5));
    assert_eq!(admitted(&mut world), 0);
    let shown = usage(&mut world, "a").first_waiting;
    let names: Vec<_> = shown.iter().map(|one| (one.position, one.name.as_str())).collect();
    let expected = ["team/a-9", "team/a-2", "team/a-3", "team/a-4", "team/a-5"];
    assert_eq!(names, (1..).zip(expected).collect::<Vec<_>>());
    assert_eq!(shown[0].reason, "InsufficientScalarQuota");
    assert_eq!(shown[0].missing, "queue a: A asked 1, used 2, quota 2");
}

/// The workloads that a queue shows as the next, each with the number of its pods and the cards that they ask for.
fn workloads(usage: &CardUsageStatus) -> Vec<(String, i64, i64)> {
    let shown = usage.first_waiting.iter();
    shown
        .map(|one| {
            let cards = one.cards.get("A").copied().unwrap_or_default();
            (format!("{} {}", one.kind, one.name), one.pods, cards)
        })
        .collect()
}

#[test]
fn pods_of_one_workload_are_shown_as_one_in_the_order_of_the_first_of_them() {
    let mut world = cluster(8, "");
    world.queue(&plain("team-a").quota(r#"{"A": 1}"#));
    world.group(&group("gang", 3).queue("team-a"));
    let jobs = (0..20).map(|index| {
        pod(&format!("train-{index}"))
            .asks("A", 2)
            .controlled_by("Job", "train")
    });
    world.pods(jobs.map(|pod| pod.created(2)));
    world.pods((0..3).map(|index| pod(&format!("gang-{index}")).asks("A", 1).of("gang").created(1)));
    // Members of a gang are the gang's, whoever made them; and what nobody can be called is no object.
    world.pods([
        pod("gang-3")
            .asks("A", 1)
            .of("gang")
            .controlled_by("Job", "train")
            .created(3),
        pod("alone").asks("A", 2).created(4),
        pod("forged").asks("A", 2).controlled_by("Job", "a b\nc").created(5),
    ]);
    world.decide();
    let expected = |rows: &[(&str, i64, i64)]| -> Vec<_> {
        let rows = rows.iter();
        rows.map(|(name, pods, cards)| ((*name).to_owned(), *pods, *cards))
            .collect()
    };
    let shown = usage(&mut world, "team-a");
    assert_eq!(
        workloads(&shown),
        expected(&[
            ("PodGroup team/gang", 4, 4),
            ("Job team/train", 20, 40),
            ("Pod team/alone", 1, 2),
            ("Pod team/forged", 1, 2),
        ])
    );
    assert_eq!((shown.waiting_workloads, shown.waiting), (4, 26));
    // What the gang lacks is told of those that it needs together.
    let gang = &shown.first_waiting[0];
    assert_eq!(gang.reason, "InsufficientScalarQuota");
    assert!(gang.missing.contains("A asked 3"), "{}", gang.missing);
    // Whose first pod goes, waits where the next of its pods does.
    for index in 0..3 {
        world.remove_pod(&format!("gang-{index}"));
    }
    world.remove_pod("alone");
    world.decide();
    assert_eq!(
        workloads(&usage(&mut world, "team-a")),
        expected(&[
            ("Job team/train", 20, 40),
            ("PodGroup team/gang", 1, 1),
            ("Pod team/forged", 1, 2),
        ])
    );
}

#[test]
fn a_group_without_pods_is_among_what_waits_until_its_pods_are() {
    let mut world = cluster(2, "");
    world.queue(&plain("team-a").quota(r#"{"A": 2}"#));
    let whole = group("whole", 1).queue("team-a").card_request(r#"{"A": 5}"#);
    world.group(&whole);
    world.decide();
    let shown = usage(&mut world, "team-a");
    assert_eq!(workloads(&shown), [("PodGroup team/whole".to_owned(), 0, 5)]);
    assert_eq!((shown.waiting, shown.waiting_pods, shown.cards[0].waiting), (1, 0, 5));
    world.pod(&pod("whole-0").asks("A", 5).of("whole"));
    world.decide();
    let shown = usage(&mut world, "team-a");
    assert_eq!(workloads(&shown), [("PodGroup team/whole".to_owned(), 1, 5)]);
    assert_eq!((shown.waiting, shown.waiting_pods, shown.cards[0].waiting), (1, 1, 5));
}

/// Whether the cluster has what a queue says, by its usage: reason, message, and what the list of problems shows.
fn satisfiable(world: &mut World, queue: &str) -> (String, String, String) {
    let usage = usage(world, queue);
    let condition = usage
        .conditions
        .into_iter()
        .find(|condition| condition.type_ == "Satisfiable");
    condition
        .map(|condition| (condition.reason, condition.message, usage.problems))
        .unwrap()
}

#[test]
fn a_quota_above_what_the_cluster_has_is_not_satisfiable_under_either_plugin() {
    for plugin in ["capacity", "capacity-card"] {
        let mut world = World::with(queue_plugin(plugin, "allocate", ""));
        world.node(&node("n").cards("A", 8));
        let of_cpu = |cpu: &str, quota: &str| plain("a").capability("cpu", cpu).quota(quota);
        world.queue(&of_cpu("4", r#"{"A": 400}"#));
        assert_eq!(
            satisfiable(&mut world, "a"),
            (
                "CapabilityAboveCluster".to_owned(),
                "the queue may have 400 A, and the cluster has 8 at the moment".to_owned(),
                "CapabilityAboveCluster".to_owned(),
            ),
            "{plugin}"
        );
        world.queue(&of_cpu("4", r#"{"A": 8}"#));
        assert_eq!(satisfiable(&mut world, "a").0, "Possible", "{plugin}");
        // What the cluster loses is not there any more, also for a queue that nobody has touched.
        world.node(&node("n").cards("A", 4));
        assert_eq!(satisfiable(&mut world, "a").0, "CapabilityAboveCluster", "{plugin}");
        let figures = overview::figures(&world.cluster);
        assert_eq!(figures[0].unsatisfiable, Some(Unsatisfiable::CapabilityAboveCluster));
    }
}

/// What pods held of it was taken for what the cluster has, so that all of the quota seemed to be there.
#[test]
fn a_quota_of_a_card_that_no_node_has_any_more_is_not_satisfiable_while_pods_hold_it() {
    for plugin in ["capacity", "capacity-card"] {
        let mut world = World::with(queue_plugin(plugin, "allocate", ""));
        let of = |name: &str, quota: &str| {
            plain(name)
                .capability("cpu", "2")
                .capability("memory", "2Gi")
                .quota(quota)
        };
        world.node(&node("n").cards("A", 2));
        world.queue(&of("a", r#"{"A": 2}"#));
        world.queue(&of("b", r#"{"A": 1}"#));
        workers(&mut world, "a", 2);
        assert_eq!(admitted(&mut world), 2);
        for index in 0..2 {
            world.pod(&worker("a", index).ungated().assigned("A").on("n"));
        }
        assert_eq!(problems(&mut world), ["a: ", "b: "], "{plugin}");
        // It is said of those, too, in which nothing has happened.
        let none = ["a: CapabilityAboveCluster", "b: CapabilityAboveCluster"];
        world.node(&node("n"));
        assert_eq!(problems(&mut world), none, "{plugin}");
        let figures = overview::figures(&world.cluster);
        assert_eq!(figures[0].unsatisfiable, Some(Unsatisfiable::CapabilityAboveCluster));
        world.queue(&of("a", r#"{"A": 1}"#));
        assert_eq!(
            satisfiable(&mut world, "a").1,
            "the queue may have 1 A, and no node has that card at the moment; what pods still hold of it counts until they end, and nobody gets \
             it after them",
            "{plugin}"
        );
        world.queue(&of("a", r#"{"A": 2}"#));
        world.remove_node("n", world.now);
        assert_eq!(problems(&mut world), none[..1], "{plugin}");
        world.node(&node("n").cards("A", 2));
        assert_eq!(problems(&mut world), ["a: ", "b: "], "{plugin}");
        // Nor does anybody get it once the pods are gone.
        world.node(&node("n"));
        assert_eq!(problems(&mut world), none, "{plugin}");
        for index in 0..2 {
            world.remove_pod(&format!("a-{index}"));
        }
        assert_eq!(
            satisfiable(&mut world, "a").1,
            "the queue may have 2 A, and no node has that card at the moment",
            "{plugin}"
        );
    }
}

#[test]
fn what_is_kept_free_for_a_queue_that_may_not_have_it_is_shown() {
    let mut world = World::with(queue_plugin("capacity-card", "allocate", "enableHierarchy: true"));
    world.node(&node("n").cards("A", 8));
    world.queue(&plain("root"));
    world.queue(&plain("a").parent("root").guaranteed_cards(r#"{"A": 4}"#));
    world.decide();
    assert_eq!(
        satisfiable(&mut world, "a"),
        (
            "GuaranteeAboveCapability".to_owned(),
            "4 A are kept free for the queue, and it may have 0: nobody can use the others; let it have as many, or guarantee it \
             less"
                .to_owned(),
            "GuaranteeAboveCapability".to_owned(),
        )
    );
    // Its parts may have what it does not name.
    world.queue(&plain("part").parent("a").quota(r#"{"A": 4}"#));
    world.decide();
    assert_eq!(satisfiable(&mut world, "a").0, "Possible");
    world.queue(
        &plain("a")
            .parent("root")
            .quota(r#"{"A": 4}"#)
            .guaranteed_cards(r#"{"A": 4}"#),
    );
    assert_eq!(satisfiable(&mut world, "a").0, "Possible");
}

#[test]
fn a_quota_above_that_of_the_nearest_queue_above_that_names_it_is_shown_where_it_got_past_the_door() {
    let mut world = cluster(200, "enableHierarchy: true");
    world.queue(&plain("root").quota(r#"{"A": 8}"#));
    world.queue(&plain("research").parent("root"));
    world.queue(&plain("vision").parent("research").quota(r#"{"A": 100}"#));
    world.decide();
    assert_eq!(
        satisfiable(&mut world, "vision"),
        (
            "CapabilityAboveParent".to_owned(),
            "the queue may have 100 A, and queue root, which it is a part of, 8: lower it, or raise that".to_owned(),
            "CapabilityAboveParent".to_owned(),
        )
    );
    // And nothing is let in beyond that.
    workers(&mut world, "vision", 12);
    assert_eq!(admitted(&mut world), 8);
    world.queue(&plain("research").parent("root").quota(r#"{"A": 100}"#));
    world.decide();
    assert_eq!(satisfiable(&mut world, "research").0, "CapabilityAboveParent");
}

#[test]
fn jobs_that_are_suspended_count_among_what_waits() {
    let mut world = cluster(2, "");
    world.queue(&plain("team-a").quota(r#"{"A": 2}"#));
    let waiting = |world: &mut World| {
        let shown = usage(world, "team-a");
        (shown.waiting_pods, shown.waiting)
    };
    for (name, count) in [("first", 2), ("second", 2), ("third", 1)] {
        world.job(&held_job(name, &format!("{{\"A\": {count}}}")));
    }
    world.decide();
    assert_eq!(waiting(&mut world), (0, 2), "the first holds both");
    world.pod(&pod("large").asks("A", 3));
    world.decide();
    assert_eq!(waiting(&mut world), (1, 3));
}

/// What each of two queues shows of card A: requested, and waiting of it; and the next of what waits in the latter.
fn waiting_in(world: &mut World, above: &str, name: &str) -> ([(i64, i64); 2], Vec<String>) {
    let reports = world.shown();
    let asked = [above, name].map(|name| {
        let cards = usage_in(&reports, name).cards;
        let card = cards.iter().find(|card| card.name == "A");
        card.map_or((0, 0), |card| (card.requested, card.waiting))
    });
    let next = usage_in(&reports, name).first_waiting.into_iter();
    (asked, next.map(|one| format!("{} {}", one.kind, one.name)).collect())
}

#[test]
fn suspended_jobs_are_among_the_next_and_what_they_ask_for_waits_on_every_level() {
    let mut world = cluster(2, "enableHierarchy: true");
    world.queue(&plain("research").quota(r#"{"A": 2}"#));
    world.queue(&plain("team-a").parent("research"));
    world.job(&held_job("first", r#"{"A": 2}"#));
    world.job(&held_job("second", r#"{"A|B": 5}"#));
    world.decide();
    let job = || vec!["Job team/second".to_owned()];
    assert_eq!(waiting_in(&mut world, "research", "team-a"), ([(5, 5); 2], job()));
    // Pods and Jobs stand in one line.
    world.pods([
        pod("urgent").asks("A", 3).priority(5),
        pod("late").asks("A", 3).created(20),
    ]);
    world.decide();
    let next = ["Pod team/urgent", "Job team/second", "Pod team/late"].map(str::to_owned);
    assert_eq!(
        waiting_in(&mut world, "research", "team-a"),
        ([(11, 11); 2], next.to_vec())
    );
    world.remove_pod("urgent");
    world.remove_pod("late");
    world.shown();
    world.job(&held_job("second", r#"{"A": 4}"#));
    assert_eq!(waiting_in(&mut world, "research", "team-a"), ([(4, 4); 2], job()));
    world.remove_job("team", "second");
    assert_eq!(waiting_in(&mut world, "research", "team-a"), ([(0, 0); 2], Vec::new()));
}

#[test]
fn a_queue_shows_what_those_below_it_have_and_wait_for() {
    let mut world = cluster(8, "enableHierarchy: true");
    world.queue(&plain("research").quota(r#"{"A": 2}"#));
    world.queue(&plain("vision").parent("research"));
    let shown = |reports: &[Shown]| {
        let usage = usage_in(reports, "research");
        let card = &usage.cards[0];
        (card.quota, card.allocated, card.requested, card.waiting)
    };
    assert_eq!(admitted(&mut world), 0);
    assert_eq!(shown(&world.shown()), (Some(2), 0, 0, 0));
    workers(&mut world, "vision", 3);
    assert_eq!(admitted(&mut world), 2);
    let reports = world.shown();
    assert_eq!(shown(&reports), (Some(2), 2, 3, 1));
    // What of that is whose.
    let own = ["research", "vision"].map(|name| usage_in(&reports, name).cards[0].own());
    assert_eq!(own.map(|own| (own.allocated, own.waiting)), [(0, 0), (2, 1)]);
    let figures = overview::figures(&world.cluster);
    let research = figures.iter().find(|figures| &*figures.queue == "research").unwrap();
    assert_eq!((research.cards[0].allocated, research.cards[0].request), (2, 3));
    let standing = research.standing.as_ref().unwrap();
    let gpus = standing.resources.iter().find(|one| &*one.resource == GPU).unwrap();
    assert_eq!((gpus.allocated, gpus.request), (2, 3));
    // Another place changes what is shown of both.
    world.queue(&plain("sales"));
    world.queue(&plain("vision").parent("sales"));
    assert_eq!(admitted(&mut world), 1);
    assert_eq!(shown(&world.shown()), (Some(2), 0, 0, 0));
}

/// Kubernetes removes it with its queue: who still wanted it would write it again, and it would be removed again, for ever.
#[test]
fn of_a_queue_that_is_gone_no_usage_is_wanted() {
    let mut world = cluster(8, "");
    world.queue(&plain("sales"));
    world.shown();
    world.remove_queue("sales");
    let of_sales = |shown: Shown| match shown {
        Shown::Usage { queue, status, .. } if &*queue == "sales" => Some(status.is_some()),
        _ => None,
    };
    assert_eq!(
        world.shown().into_iter().filter_map(of_sales).collect::<Vec<_>>(),
        [false]
    );
    // One of that name that goes and comes again at once has one again.
    world.queue(&plain("sales"));
    world.shown();
    world.remove_queue("sales");
    world.queue(&plain("sales"));
    let last = world.shown().into_iter().filter_map(of_sales).last();
    assert_eq!(last, Some(true));
}

#[test]
fn what_is_in_queue_is_shown_by_resource() {
    let mut world = cluster(8, "");
    world.queue(&plain("team-a"));
    let asks = group("g", 2).card_request(r#"{"A": 3}"#);
    world.group(&asks.set(["spec", "minResources", "cpu"], "2"));
    assert_eq!(admitted(&mut world), 0);
    let figures = overview::figures(&world.cluster);
    let standing = figures[0].standing.as_ref().unwrap();
    let of = |name: &str| {
        let found = standing.resources.iter().find(|one| &*one.resource == name);
        found.map(|one| (one.inqueue, one.allocated))
    };
    assert_eq!((of("cpu"), of(GPU)), (Some((2_000, 0)), Some((3, 0))));
}

/// What queues are shown to ask for that can't be had, of those that are shown anew.
fn problems(world: &mut World) -> Vec<String> {
    let reports = world.shown().into_iter();
    let usages = reports.filter_map(|report| match report {
        Shown::Usage { queue, status, .. } => Some((Arc::clone(&queue), status?.problems)),
        _ => None,
    });
    let mut problems: Vec<_> = usages.map(|(queue, problem)| format!("{queue}: {problem}")).collect();
    problems.sort_unstable();
    problems
}

#[test]
fn what_can_not_all_be_had_is_reported_on_the_queue_that_says_so() {
    let mut world = cluster(8, "");
    world.queue(&plain("greedy").quota(r#"{"A": 9}"#));
    for name in ["a", "b"] {
        world.queue(&plain(name).deserved_cards(r#"{"A": 5}"#));
    }
    world.queue(&plain("fine").quota(r#"{"A": 8}"#));
    assert_eq!(admitted(&mut world), 0);
    assert_eq!(
        problems(&mut world),
        [
            "a: DeservedAboveCluster",
            "b: DeservedAboveCluster",
            "fine: ",
            "greedy: CapabilityAboveCluster"
        ]
    );
    // A node that comes mends it, and is nothing to those who had no problem.
    world.node(&node("n2").cards("A", 8));
    assert_eq!(problems(&mut world), ["a: ", "b: ", "greedy: "]);
    world.node(&node("n2").cards("A", 8).cordoned());
    assert_eq!(
        problems(&mut world),
        [
            "a: DeservedAboveCluster",
            "b: DeservedAboveCluster",
            "greedy: CapabilityAboveCluster"
        ]
    );
}

/// It was said of the others until something happened in them.
#[test]
fn what_another_queue_no_longer_says_is_reported_on_those_that_could_not_have_theirs_beside_it() {
    let mut world = cluster(8, "");
    for (name, deserved) in [("a", 5), ("b", 5), ("c", 0)] {
        world.queue(&plain(name).deserved_cards(&format!(r#"{{"A": {deserved}}}"#)));
    }
    let deserves = |name: &str, cards| plain(name).deserved_cards(&format!(r#"{{"A": {cards}}}"#));
    assert_eq!(admitted(&mut world), 0);
    let both = ["a: DeservedAboveCluster", "b: DeservedAboveCluster"];
    assert_eq!(problems(&mut world)[..2], both);
    world.queue(&deserves("b", 3));
    assert_eq!(admitted(&mut world), 0);
    assert_eq!(problems(&mut world)[..2], ["a: ", "b: "]);
    world.queue(&deserves("b", 4));
    assert_eq!(admitted(&mut world), 0);
    assert_eq!(problems(&mut world)[..2], both);
    world.remove_queue("b");
    assert_eq!(admitted(&mut world), 0);
    assert_eq!(problems(&mut world)[..1], ["a: "]);
    // Where it can all be had, before and after, nobody else is concerned.
    world.queue(&deserves("b", 1));
    assert_eq!(admitted(&mut world), 0);
    assert_eq!(problems(&mut world), ["b: "]);
}

/// It was said of the queue below until something happened in it.
#[test]
fn what_the_queue_above_may_have_is_reported_on_those_below() {
    let mut world = cluster(8, "enableHierarchy: true");
    let above = |cards| plain("dept").quota(&format!(r#"{{"A": {cards}}}"#));
    world.queue(&above(2));
    world.queue(&plain("team").quota(r#"{"A": 4}"#).parent("dept"));
    assert_eq!(admitted(&mut world), 0);
    assert_eq!(problems(&mut world), ["dept: ", "team: CapabilityAboveParent"]);
    world.queue(&above(4));
    assert_eq!(admitted(&mut world), 0);
    assert_eq!(problems(&mut world), ["dept: ", "team: "]);
}

#[test]
fn a_number_that_changes_with_every_node_is_shown_once_a_second_and_what_becomes_possible_at_once() {
    let mut world = cluster(8, "");
    world.queue(&plain("greedy").quota(r#"{"A": 20}"#));
    let message = |world: &mut World| {
        assert_eq!(admitted(world), 0);
        let reports = world.shown().into_iter();
        let mut usages = reports.filter_map(|report| match report {
            Shown::Usage { queue, status, .. } if *queue == *"greedy" => status,
            _ => None,
        });
        let condition = usages.next()?.conditions.pop()?;
        Some(condition.message)
    };
    let has = |cards: i64| format!("the queue may have 20 A, and the cluster has {cards} at the moment");
    assert_eq!(message(&mut world), Some(has(8)));
    world.node(&node("n2").cards("A", 4));
    assert_eq!(
        message(&mut world),
        None,
        "the number alone is no news within the second"
    );
    world.node(&node("n2").cards("A", 5));
    assert_eq!(message(&mut world), None);
    world.wait(1);
    assert_eq!(message(&mut world), Some(has(13)), "though nothing changes any more");
    world.wait(1);
    assert_eq!(message(&mut world), None);
    world.node(&node("n2").cards("A", 6));
    assert_eq!(message(&mut world), Some(has(14)), "the last is more than a second ago");
    world.node(&node("n2").cards("A", 12));
    assert_eq!(
        message(&mut world).as_deref(),
        Some("the cluster has what the queue says"),
        "at once"
    );
    world.node(&node("n2").cards("A", 6));
    assert_eq!(message(&mut world), Some(has(14)), "at once as well");
}

#[test]
fn what_a_queue_has_of_a_card_is_shown_though_no_node_has_had_it_since_the_start() {
    let mut world = cluster(8, "");
    world.queue(&plain("a").quota(r#"{"A": 4}"#));
    let runs = |name: &str| pod(name).queue("a").asks("B", 2);
    world.pod(&runs("p").ungated().assigned("B"));
    let cards = usage(&mut world, "a").cards;
    let shown: Vec<_> = cards
        .iter()
        .map(|card| (&*card.name, card.allocated, card.waiting))
        .collect();
    assert_eq!(shown, [("A", 0, 0), ("B", 2, 0)]);
    // What waits for one that nobody knows may be called anything.
    world.pod(&pod("q").queue("a").asks("C", 2));
    assert_eq!(usage(&mut world, "a").cards.len(), 2);
}
