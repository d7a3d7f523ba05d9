//! What is seen of a mind at work, and of a silent mind.

use engine::trail::{Object, ObjectKind};

use super::*;

fn work(name: &str) -> Work {
    Work {
        doing: "judging",
        object: Object {
            kind: ObjectKind::Pod,
            namespace: "ns".into(),
            name: name.into(),
            uid: "u-1".into(),
        },
        queue: Some("team-a".into()),
    }
}

fn earlier(time: Instant, by: Duration) -> Instant {
    time.checked_sub(by).unwrap()
}

/// Makes a pulse older, as if that much time had passed.
fn age(pulse: &Pulse, by: Duration) {
    let mut state = pulse.state();
    state.beat = earlier(state.beat, by);
    if let Some((_, since)) = &mut state.step {
        *since = earlier(*since, by);
    }
    if let Some((_, since)) = &mut state.work {
        *since = earlier(*since, by);
    }
}

#[test]
fn the_longest_piece_of_a_step_is_named() {
    let pulse = Pulse::default();
    pulse.begin(Step::Decide);
    pulse.at(work("short"));
    pulse.at(work("long"));
    age(&pulse, Duration::from_secs(2));
    pulse.at(work("last"));
    let ended = pulse.end();
    assert!(ended.took >= Duration::from_secs(2));
    let (longest, took) = ended.longest.unwrap();
    assert_eq!(longest.to_string(), "judging Pod ns/long of queue team-a");
    assert!(took >= Duration::from_secs(2) && took <= ended.took, "{took:?}");
    // A finding does not appear again in the next step.
    pulse.begin(Step::Show);
    assert_eq!(pulse.end().longest, None);
}

#[test]
fn a_mind_that_went_around_lately_is_alive_whatever_it_is_at() {
    let pulse = Pulse::default();
    assert_eq!(pulse.trouble(), None);
    pulse.begin(Step::Decide);
    age(&pulse, SILENCE.saturating_sub(Duration::from_secs(1)));
    assert_eq!(pulse.trouble(), None);
    pulse.beat();
    age(&pulse, Duration::from_secs(2));
    assert_eq!(pulse.trouble(), None);
}

#[test]
fn a_silent_mind_is_in_trouble_and_nobody_reads_a_name() {
    let pulse = Pulse::default();
    age(&pulse, SILENCE);
    let idle = pulse.trouble().unwrap();
    assert!(
        idle.starts_with("the deciding thread has not answered for 30 s: it is at no step"),
        "{idle}"
    );

    let pulse = Pulse::default();
    pulse.begin(Step::Show);
    age(&pulse, Duration::from_secs(40));
    let step = pulse.trouble().unwrap();
    assert_eq!(
        step,
        "the deciding thread has not answered for 40 s: its step \"show\" has lasted 40 s"
    );

    let pulse = Pulse::default();
    pulse.begin(Step::Decide);
    pulse.at(work("secret"));
    age(&pulse, Duration::from_secs(31));
    let piece = pulse.trouble().unwrap();
    assert_eq!(
        piece,
        "the deciding thread has not answered for 31 s: it has been judging a Pod (uid u-1) for 31 s; its name is in the log"
    );
}

#[test]
fn of_two_minds_the_newer_one_is_asked() {
    let liveness = Liveness::default();
    let old = Arc::new(Pulse::default());
    liveness.follow(Arc::clone(&old));
    age(&old, SILENCE);
    assert!(liveness.trouble().is_some());
    liveness.follow(Arc::default());
    assert_eq!(liveness.trouble(), None);
}
