//! Writes that the API server refuses for good, and writes of which nobody knows whether they are carried out.

use engine::cluster::pod::Stage;
use engine::decide::Action;
use engine::explain::{progress, refused_write};
use engine::{Answer, Outcome};

use crate::world::{World, group, held_job, node, pod, queue};

const MESSAGE: &str = "denied by policy";

fn world() -> World {
    let mut world = World::new();
    world.node(&node("n1").cards("A100", 8));
    world.queue(&queue("team-a").quota(r#"{"A100": 1}"#));
    world
}

impl World {
    fn answer(&mut self, uid: &str, answer: Answer) {
        self.hear(&Outcome::Admission(uid.into(), answer), self.now);
    }

    /// The message that a refusal for good is told by.
    fn refused_for_good(&mut self, uid: &str) -> String {
        self.answer(uid, Answer::Refused(MESSAGE.into()));
        let notice = refused_write(&mut self.cluster, uid, MESSAGE).expect("a notice");
        assert_eq!(notice.reason.as_str(), "RefusedByAPIServer");
        notice.message
    }
}

#[test]
fn what_the_api_server_refuses_gives_everything_back_says_so_and_is_tried_later_each_time() {
    let mut world = world();
    world.pod(&pod("a").asks("A100", 1));
    world.pod(&pod("b").created(1).asks("A100", 1));
    assert_eq!(world.admit_names(), ["a"]);
    let message = world.refused_for_good("a");
    assert!(
        message.contains("the API server refuses to let the pod in: denied by policy; it holds nothing meanwhile")
            && message.contains("; waiting can't help: have whoever refuses the write"),
        "{message}"
    );
    assert_eq!(world.allocated("team-a", "A100"), 0);
    assert_eq!(world.admit_names(), ["b"], "others have what it gave back");
    world.remove_pod("b");
    for wait in [5, 10, 20, 40, 80, 160, 320, 640, 1280, 2560, 3600, 3600] {
        let tried = world.now;
        assert_eq!(world.admit(), [], "too soon");
        world.wait(wait - 1);
        assert_eq!(
            world.admit(),
            [],
            "{wait} s after the last time, and not a second sooner"
        );
        // What it shows of itself meanwhile changes nothing.
        world.pod(&pod("a").asks("A100", 1).told("RefusedByAPIServer"));
        world.wait(1);
        assert_eq!(world.admit_names(), ["a"], "{wait} s after {tried}");
        world.refused_for_good("a");
    }
    // Who is mended is tried at once.
    world.pod(&pod("a").asks("A100", 1).selects("zone", "a"));
    world.node(&node("n1").cards("A100", 8).label("zone", "a"));
    assert_eq!(world.admit_names(), ["a"]);
}

/// Somebody's webhook is down, or the API server has no time: what made the write fail may be over at any moment.
#[test]
fn what_fails_though_nobody_refuses_it_stays_away_for_little_more_than_a_minute_and_says_that_it_may_work() {
    let mut world = world();
    world.pod(&pod("a").asks("A100", 1));
    assert_eq!(world.admit_names(), ["a"]);
    for wait in [5, 10, 20, 40, 80, 80, 80] {
        world.answer("a", Answer::Failed(MESSAGE.into()));
        let notice = refused_write(&mut world.cluster, "a", MESSAGE).expect("a notice");
        let said = "the API server could not let the pod in, which may work later: denied by policy; it holds nothing meanwhile";
        assert!(
            notice.message.contains(said) && !notice.message.contains("waiting can't help"),
            "{}",
            notice.message
        );
        assert_eq!(world.allocated("team-a", "A100"), 0);
        world.wait(wait - 1);
        assert_eq!(world.admit(), [], "{wait}");
        world.wait(1);
        assert_eq!(world.admit_names(), ["a"], "{wait}");
    }
    // A refusal is one as before.
    let message = world.refused_for_good("a");
    assert!(message.contains("waiting can't help"), "{message}");
    world.wait(159);
    assert_eq!(world.admit(), []);
    world.wait(1);
    assert_eq!(world.admit_names(), ["a"]);
}

#[test]
fn a_job_whose_resumption_fails_stays_away_for_little_more_than_a_minute_and_says_that_it_may_work() {
    let mut world = world();
    world.job(&held_job("job", r#"{"A100": 1}"#));
    for wait in [5, 10, 20, 40, 80, 80] {
        let resumed = world.decide();
        assert!(matches!(&*resumed, [Action::Resume(_)]), "{resumed:?}");
        world.resumption_ended("job", Answer::Failed(MESSAGE.into()), world.now);
        let said = progress(&mut world.cluster, world.now, usize::MAX).remove(0);
        let (_, message) = said.refused.unwrap();
        assert!(
            message.contains("the API server could not let Job job in, which may work later: denied by policy")
                && !message.contains("waiting can't help"),
            "{message}"
        );
        world.wait(wait - 1);
        assert_eq!(world.decide(), []);
        world.wait(1);
    }
}

#[test]
fn one_of_a_gang_that_is_refused_holds_nothing() {
    let mut world = world();
    world.queue(&queue("team-a").quota(r#"{"A100": 2}"#));
    world.group(&group("g", 2));
    world.pods((0..2).map(|index| pod(&format!("g-{index}")).of("g").asks("A100", 1)));
    assert_eq!(world.admit().len(), 2);
    world.confirm("g-0");
    world.refused_for_good("g-1");
    assert_eq!(world.allocated("team-a", "A100"), 1);
    world.wait(4);
    assert_eq!(world.admit(), []);
    world.wait(1);
    assert_eq!(world.admit_names(), ["g-1"]);
}

#[test]
fn a_job_that_the_api_server_refuses_to_resume_says_so_each_time() {
    let mut world = world();
    world.job(&held_job("job", r#"{"A100": 1}"#));
    for wait in [5, 10, 20] {
        let resumed = world.decide();
        assert!(matches!(&*resumed, [Action::Resume(_)]), "{resumed:?}");
        world.resumption_ended("job", Answer::Refused(MESSAGE.into()), world.now);
        assert!(world.known_queue("team-a").inqueue.is_empty(), "nothing is kept for it");
        let said = progress(&mut world.cluster, world.now, usize::MAX).remove(0);
        assert!(said.news);
        let (reason, message) = said.refused.unwrap();
        assert_eq!(reason.as_str(), "RefusedByAPIServer");
        assert!(
            message.contains("the API server refuses to let Job job in: denied by policy"),
            "{message}"
        );
        world.wait(wait - 1);
        assert_eq!(world.decide(), []);
        world.wait(1);
    }
}

#[test]
fn what_was_not_answered_stays_taken_until_it_is_known() {
    let mut world = world();
    world.pod(&pod("a").asks("A100", 1));
    world.pod(&pod("b").created(1).asks("A100", 1));
    assert_eq!(world.admit_names(), ["a"]);
    world.answer("a", Answer::Unknown);
    for _ in 0..5 {
        world.wait(3600);
        // The watch shows what was there before the write, if it was made.
        world.pod(&pod("a").asks("A100", 1));
        assert_eq!(world.admit(), [], "the card may be in use");
        assert_eq!(world.allocated("team-a", "A100"), 1);
    }
    // It was written after all.
    world.answer("a", Answer::Accepted);
    world.pod(&pod("a").asks("A100", 1).ungated().assigned("A100"));
    assert!(matches!(world.stage("a"), Stage::Unbound { .. }));
    assert_eq!(world.admit(), []);
    // And one that was not gives it back.
    world.remove_pod("a");
    assert_eq!(world.admit_names(), ["b"]);
    world.answer("b", Answer::Unknown);
    world.wait(3600);
    world.refused_for_good("b");
    assert_eq!(world.allocated("team-a", "A100"), 0);
}

/// It was told that the other one is to be created, which is there.
#[test]
fn who_waits_for_one_of_his_gang_that_is_kept_out_is_told_that_it_is_there() {
    let mut world = world();
    world.queue(&queue("team-a").quota(r#"{"A100": 8}"#));
    world.group(&group("g", 2));
    let member = |name: &str| pod(name).of("g").asks("A100", 1);
    world.pods([member("a"), member("b")]);
    assert_eq!(world.admit_names(), ["a", "b"]);
    world.refused_for_good("b");
    world.remove_pod("a");
    world.pod(&member("c"));
    let refused = world.refusal();
    let there = "and 1 is there besides 1 that can't be let in at the moment";
    assert!(refused.contains(there), "{refused}");
}
