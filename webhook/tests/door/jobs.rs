//! The door for Jobs that ask for their cards in advance (docs/rules.md, **Enqueue**).

use crds::keys::{CARD_REQUEST, JOB_HELD};
use serde_json::{Value, json};
use webhook::endpoint::Endpoint;

use crate::common::{Verdict, World, review};

const JOB: (&str, &str, &str) = ("batch", "v1", "Job");

fn job(suspend: Option<bool>) -> Value {
    let mut job = json!({
        "metadata": {"name": "x", "annotations": {CARD_REQUEST: "{\"NVIDIA-A100\": 4}"}},
        "spec": {"template": {"spec": {"containers": []}}},
    });
    if let Some(suspend) = suspend {
        job["spec"]["suspend"] = suspend.into();
    }
    job
}

/// With the mark of those that Cardgate suspended.
fn marked(mut job: Value) -> Value {
    job["metadata"]["annotations"][JOB_HELD] = "true".into();
    job
}

fn mutate(operation: &str, object: &Value, old: &Value) -> Verdict {
    World::new().verdict(Endpoint::Mutate, &review(JOB, operation, object, old))
}

fn finished(mut job: Value) -> Value {
    job["status"]["conditions"] = json!([{"type": "Complete", "status": "True"}]);
    job
}

#[test]
fn a_job_that_asks_for_cards_in_advance_is_created_suspended() {
    for suspend in [None, Some(false)] {
        let held = mutate("CREATE", &job(suspend), &Value::Null);
        assert_eq!(held.object()["spec"]["suspend"], true);
        assert_eq!(held.object()["metadata"]["annotations"][JOB_HELD], "true");
        assert_eq!(held.allowed(), [""; 0]);
        // Looked at again after another webhook, it stays as it is.
        let again = mutate("CREATE", held.object(), &Value::Null);
        assert_eq!(again.object(), held.object());
    }
}

#[test]
fn what_is_none_of_cardgates_business_stays_as_it_is() {
    let suspended = job(Some(true));
    let mut plain = job(None);
    plain["metadata"]["annotations"] = json!({"team": "a"});
    for (operation, object, old) in [
        ("CREATE", &suspended, &Value::Null),
        ("CREATE", &plain, &Value::Null),
        ("CREATE", &json!({"metadata": {"name": "x"}, "spec": {}}), &Value::Null),
        ("UPDATE", &plain, &suspended),
        ("UPDATE", &suspended, &job(None)),
        // It runs already.
        ("UPDATE", &job(None), &job(None)),
        ("UPDATE", &job(None), &plain),
        ("UPDATE", &finished(job(None)), &finished(suspended.clone())),
        ("DELETE", &Value::Null, &suspended),
    ] {
        let verdict = mutate(operation, object, old);
        assert_eq!(verdict.allowed(), [""; 0]);
        assert_eq!(verdict.object(), object, "{operation}");
    }
}

/// As when a Job is made again from what the API server shows of it, by `kubectl replace --force`; or resumed by who forges that it is over.
#[test]
fn what_a_request_says_of_its_own_status_counts_for_nothing() {
    for (operation, old) in [("CREATE", Value::Null), ("UPDATE", job(Some(true)))] {
        let verdict = mutate(operation, &finished(job(Some(false))), &old);
        assert_eq!(verdict.object()["spec"]["suspend"], true, "{operation}");
        assert_eq!(verdict.object()["metadata"]["annotations"][JOB_HELD], "true");
    }
}

#[test]
fn a_job_that_its_user_resumes_is_held_again_and_the_user_told() {
    let resumed = mutate("UPDATE", &job(Some(false)), &job(Some(true)));
    assert_eq!(resumed.object()["spec"]["suspend"], true);
    assert_eq!(resumed.object()["metadata"]["annotations"][JOB_HELD], "true");
    let [warning] = resumed.allowed() else {
        panic!("{:?}", resumed.allowed())
    };
    assert!(
        warning.contains("stays suspended until its queue has room"),
        "{warning}"
    );
}

/// It stayed suspended for ever: who no longer asks is not looked at, and the mark had those that their users suspended resumed.
#[test]
fn a_job_that_asks_no_more_is_let_go_and_loses_the_mark() {
    let held = marked(job(Some(true)));
    let no_more = |mut job: Value| {
        job["metadata"]["annotations"]
            .as_object_mut()
            .unwrap()
            .remove(CARD_REQUEST);
        job
    };
    let let_go = mutate("UPDATE", &no_more(held.clone()), &held);
    assert_eq!(let_go.object()["spec"]["suspend"], false);
    assert!(let_go.object()["metadata"]["annotations"].get(JOB_HELD).is_none());
    let [warning] = let_go.allowed() else {
        panic!("{:?}", let_go.allowed())
    };
    assert!(warning.contains("it is resumed"), "{warning}");
    // Whoever resumes it himself keeps it resumed; and who suspends it, or creates it so, keeps it suspended.
    let runs = no_more(marked(job(Some(false))));
    for (operation, object, old) in [
        ("UPDATE", &runs, &no_more(held.clone())),
        ("UPDATE", &no_more(held.clone()), &runs),
        ("CREATE", &no_more(held.clone()), &Value::Null),
    ] {
        let verdict = mutate(operation, object, old);
        assert_eq!(verdict.allowed(), [""; 0]);
        assert_eq!(
            verdict.object()["spec"]["suspend"],
            object["spec"]["suspend"],
            "{operation}"
        );
        assert!(verdict.object()["metadata"]["annotations"].get(JOB_HELD).is_none());
    }
}

/// It was resumed: for as long as its finalizers kept it, and for nobody.
#[test]
fn a_job_that_is_being_deleted_stays_as_it_is() {
    let deleted = |mut job: Value| {
        job["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        job
    };
    let mut no_more = marked(job(Some(true)));
    no_more["metadata"]["annotations"]
        .as_object_mut()
        .unwrap()
        .remove(CARD_REQUEST);
    let mut freed = no_more.clone();
    freed["metadata"]["finalizers"] = json!([]);
    for (object, old) in [
        (freed, no_more.clone()),
        (no_more, marked(job(Some(true)))),
        (job(Some(false)), job(Some(true))),
    ] {
        let (object, old) = (deleted(object), deleted(old));
        let verdict = mutate("UPDATE", &object, &old);
        assert_eq!(verdict.allowed(), [""; 0]);
        assert_eq!(verdict.object(), &object);
    }
}

#[test]
fn a_job_that_cannot_be_read_is_refused() {
    let refused = mutate(
        "CREATE",
        &json!({"metadata": {"annotations": {CARD_REQUEST: "{}"}}, "spec": "x"}),
        &Value::Null,
    );
    assert!(refused.refused().contains("Job"), "{}", refused.refused());
}
