use std::convert::Infallible;
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use kube::core::Status;
use serde_json::json;
use tokio::sync::mpsc;

use super::super::*;
use super::*;

/// Returns a client of an API server that answers the watch of rules which taint devices with these codes, one request after the other, and
/// with the last code from then on. A watch that succeeds says nothing; a watch that is too old (410) says so.
fn answers(codes: Vec<u16>) -> Client {
    let asked = AtomicUsize::new(0);
    let server = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        let turn = asked.fetch_add(1, Ordering::Relaxed).min(codes.len() - 1);
        let code = codes[turn];
        let watches = request.uri().query().is_some_and(|query| query.contains("watch=true"));
        let answer = if code == 200 {
            let rule = json!({"metadata": {"name": "sick", "resourceVersion": "1"},
                "spec": {"deviceSelector": {"device": "gpu-0"}, "taint": {"key": "sick", "effect": "NoSchedule"}}});
            json!({"kind": "DeviceTaintRuleList", "apiVersion": "resource.k8s.io/v1", "metadata": {"resourceVersion": "1"}, "items": [rule]})
        } else {
            json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": "no", "code": code})
        };
        async move {
            let (code, answer) = match code {
                200 if watches => return pending().await,
                410 if watches => (200, json!({"type": "ERROR", "object": answer})),
                _ => (code, answer),
            };
            let body = kube::client::Body::from(format!("{answer}\n").into_bytes());
            Ok::<_, Infallible>(http::Response::builder().status(code).body(body).expect("an answer"))
        }
    });
    Client::new(server, "default")
}

/// What is heard about such rules.
struct Heard {
    events: mpsc::Receiver<Event>,
    metrics: Arc<Metrics>,
}

fn hear(codes: Vec<u16>) -> Heard {
    let (sender, events) = mpsc::channel(1);
    let metrics = Arc::<Metrics>::default();
    let sinks = Sinks {
        events: sender,
        metrics: Arc::clone(&metrics),
    };
    tokio::spawn(async move {
        let watches = Watches {
            client: &answers(codes),
            sinks: &sinks,
        };
        let (kind, listed) = (Kind::DeviceTaintRule, Listed::default());
        watches.watch(kind, in_pages(), &listed, taint_rule_event).await;
    });
    Heard { events, metrics }
}

impl Heard {
    async fn next(&mut self) -> &'static str {
        match self.events.recv().await {
            Some(Event::Observed(Observation::ListBegins(Kind::DeviceTaintRule))) => "begins",
            Some(Event::Observed(Observation::ListEnds(Kind::DeviceTaintRule))) => "ends",
            Some(Event::Observed(Observation::NotInstalled(Kind::DeviceTaintRule))) => "none",
            Some(Event::Observed(Observation::TaintRule(_))) => "rule",
            other => panic!("{other:?}"),
        }
    }

    async fn take(&mut self, count: usize) -> Vec<&'static str> {
        let mut all = Vec::new();
        for _ in 0..count {
            all.push(self.next().await);
        }
        all
    }
}

/// The role is older than the kind, or is the user's own. Without this, nothing was ever decided: an API server checks the right before it
/// looks for the kind.
#[tokio::test(start_paused = true)]
async fn rules_that_may_not_be_listed_are_none_until_they_may() {
    let mut rules = hear(vec![403, 403, 200]);
    let heard = rules.take(7).await;
    assert_eq!(heard, ["begins", "none", "begins", "none", "begins", "rule", "ends"]);
    let failed = r#"cardgate_api_errors_total{verb="list",code="403"} 2"#;
    let metrics = rules.metrics.encode().unwrap();
    assert!(metrics.contains(failed), "{metrics}");
}

/// A right that is taken away does not remove the rules.
#[tokio::test(start_paused = true)]
async fn rules_that_may_not_be_listed_any_more_are_those_that_were_known() {
    let mut rules = hear(vec![200, 403, 410, 403, 403, 200]);
    let heard = rules.take(8).await;
    assert_eq!(
        heard,
        ["begins", "rule", "ends", "begins", "begins", "begins", "rule", "ends"]
    );
}

/// While the control plane is upgraded, API servers of both versions answer.
#[tokio::test(start_paused = true)]
async fn an_older_api_server_makes_nobody_forget_what_a_newer_one_has_listed() {
    let mut rules = hear(vec![404, 200, 404, 404, 404, 200]);
    let heard = rules.take(10).await;
    let (first, then) = heard.split_at(5);
    assert_eq!(first, ["begins", "none", "begins", "rule", "ends"]);
    assert_eq!(then, ["begins", "begins", "begins", "rule", "ends"]);
}

/// The version that had the kind no longer runs.
#[tokio::test(start_paused = true)]
async fn what_no_api_server_knows_for_long_is_gone() {
    let mut rules = hear(vec![200, 404]);
    assert_eq!(rules.take(3).await, ["begins", "rule", "ends"]);
    let begin = Instant::now();
    while rules.next().await == "begins" {}
    let after = begin.elapsed();
    assert!((GONE_AFTER..GONE_AFTER * 2).contains(&after), "{after:?}");
    // It is then gone at each further try.
    assert_eq!(rules.take(2).await, ["begins", "none"]);
}

/// A successful list counts, however old the last refusal is.
#[tokio::test(start_paused = true)]
async fn how_long_a_kind_is_not_known_is_counted_from_its_last_list() {
    let mut absence = Absence::of(Kind::DeviceTaintRule);
    for _ in 0..3 {
        absence.note_listed();
        assert_eq!(absence.meaning_of(&refused(404)), Meaning::AsBefore);
        tokio::time::advance(GONE_AFTER / 2).await;
        assert_eq!(absence.meaning_of(&refused(404)), Meaning::AsBefore);
    }
    tokio::time::advance(GONE_AFTER).await;
    assert_eq!(absence.meaning_of(&refused(404)), Meaning::NotThere);
    // The definition of a kind that is not Kubernetes' own was deleted.
    let mut absence = Absence::of(Kind::PodGroup);
    absence.note_listed();
    assert_eq!(absence.meaning_of(&refused(404)), Meaning::NotThere);
}

/// An API server that does not or cannot answer has not said that the kind is unknown.
#[tokio::test(start_paused = true)]
async fn an_outage_is_no_time_in_which_a_kind_is_not_known() {
    let mut absence = Absence::of(Kind::DeviceTaintRule);
    absence.note_listed();
    for other in [500, 403] {
        assert_eq!(absence.meaning_of(&refused(404)), Meaning::AsBefore);
        absence.meaning_of(&refused(other));
        tokio::time::advance(GONE_AFTER).await;
    }
    assert_eq!(absence.meaning_of(&refused(404)), Meaning::AsBefore);
    tokio::time::advance(GONE_AFTER).await;
    assert_eq!(absence.meaning_of(&refused(404)), Meaning::NotThere);
}

/// Each warning says what to do, and they say different things.
#[test]
fn what_may_not_be_read_and_what_is_not_known_are_told_apart() {
    let mut absence = Absence::of(Kind::DeviceTaintRule);
    assert!(absence.take_warning().is_some() && absence.take_warning().is_none());
    assert!(absence.take_warning_of_unknown().is_some() && absence.take_warning_of_unknown().is_none());
    absence.note_listed();
    assert!(absence.take_warning().is_some() && absence.take_warning_of_unknown().is_some());
}

fn refused(code: u16) -> watcher::Error {
    let status = Status::failure("no", "no").with_code(code);
    watcher::Error::InitialListFailed(kube::Error::Api(status.boxed()))
}

#[test]
fn that_a_kind_may_not_be_listed_is_said_once_until_it_may_be() {
    let mut absence = Absence::of(Kind::DeviceTaintRule);
    assert_eq!(absence.meaning_of(&refused(403)), Meaning::Forbidden);
    let warning = absence.take_warning().unwrap();
    for said in [
        "devicetaintrules",
        "none of them counts",
        "ClusterRole cardgate-operator",
        "install.yaml",
    ] {
        assert!(warning.contains(said), "{warning}");
    }
    assert_eq!(absence.take_warning(), None);
    absence.note_listed();
    let warning = absence.take_warning().unwrap();
    assert!(warning.contains("those that are known stay"), "{warning}");
    assert_eq!(absence.take_warning(), None);
}

#[test]
fn that_an_api_server_does_not_know_a_kind_any_more_is_said_once_until_it_is_listed() {
    let mut absence = Absence::of(Kind::ResourceClaim);
    for _ in 0..2 {
        absence.note_listed();
        assert_eq!(absence.meaning_of(&refused(404)), Meaning::AsBefore);
        let warning = absence.take_warning_of_unknown().unwrap();
        for said in ["resourceclaims", "stays as it was", "60 minutes"] {
            assert!(warning.contains(said), "{warning}");
        }
        assert_eq!(absence.take_warning_of_unknown(), None);
    }
}

/// Without any of the other kinds, nothing may be decided.
#[test]
fn no_other_kind_is_done_without_that_may_not_be_listed() {
    for kind in Kind::ALL.into_iter().filter(|kind| *kind != Kind::DeviceTaintRule) {
        assert_eq!(
            Absence::of(kind).meaning_of(&refused(403)),
            Meaning::Interrupted,
            "{kind:?}"
        );
    }
}
