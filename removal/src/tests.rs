use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::*;

/// Returns a client of an API server, and the number of requests it has got. The server answers every request by `answer`, which gets the
/// time that has passed and the path.
fn api_server(answer: impl Fn(Duration, &str) -> (u16, Value) + Send + 'static) -> (Client, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    let begin = Instant::now();
    let answer = Mutex::new(answer);
    let server = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        counted.fetch_add(1, Ordering::Relaxed);
        let (code, answer) = answer.lock().unwrap()(begin.elapsed(), request.uri().path());
        let body = kube::client::Body::from(answer.to_string().into_bytes());
        let answer = http::Response::builder().status(code).body(body).unwrap();
        async { Ok::<_, Infallible>(answer) }
    });
    (Client::new(server, "default"), asked)
}

fn status(code: u16) -> (u16, Value) {
    let status = if code < 400 { "Success" } else { "Failure" };
    let status =
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": status, "message": "no", "code": code});
    (code, status)
}

/// The answer for an object that exists.
fn found() -> (u16, Value) {
    (
        200,
        json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": {"name": "it"}}),
    )
}

/// The answer for an object that is being deleted.
fn going() -> (u16, Value) {
    let metadata = json!({"name": "it", "deletionTimestamp": "2026-01-01T00:00:00Z"});
    (
        200,
        json!({"kind": "CustomResourceDefinition", "apiVersion": "apiextensions.k8s.io/v1", "metadata": metadata}),
    )
}

async fn delete(client: &Client, dry_run: bool) -> Result<(), UninstallError> {
    let objects = Objects::new(client, dry_run);
    let removing = Removing {
        client,
        objects,
        dry_run,
    };
    removing.delete("it is gone", &objects::definitions()).await
}

#[tokio::test(start_paused = true)]
async fn a_trial_that_can_not_read_says_so() {
    let (client, asked) = api_server(|_, _| status(500));
    let ended = delete(&client, true).await;
    assert!(
        matches!(&ended, Err(UninstallError::Stuck { reason, .. }) if reason.contains("no")),
        "{ended:?}"
    );
    assert!(asked.load(Ordering::Relaxed) > 8, "it asks again");

    let (client, _) = api_server(|passed, _| {
        if passed < Duration::from_mins(1) {
            status(503)
        } else {
            found()
        }
    });
    delete(&client, true).await.unwrap();
    let (client, asked) = api_server(|_, _| found());
    delete(&client, true).await.unwrap();
    assert_eq!(asked.load(Ordering::Relaxed), objects::definitions().len());
}

#[tokio::test(start_paused = true)]
async fn a_definition_that_empties_for_minutes_is_waited_for() {
    let minutes = |minutes| {
        move |passed: Duration, _: &str| {
            if passed < Duration::from_mins(minutes) {
                going()
            } else {
                status(404)
            }
        }
    };
    let (client, _) = api_server(minutes(20));
    delete(&client, false).await.unwrap();
    let (client, _) = api_server(minutes(60));
    let ended = delete(&client, false).await;
    assert!(
        matches!(&ended, Err(UninstallError::Stuck { reason, .. }) if reason.contains("not gone yet")),
        "{ended:?}"
    );
    // The wait goes on as long as one object after the other goes, however long each takes.
    let (client, _) = api_server(|passed, path| {
        let order = ["inventories", "reviews", "types", "usages"];
        let place = order.iter().position(|kind| path.contains(kind)).unwrap_or(0);
        let gone = u32::try_from(place + 1).unwrap() * Duration::from_mins(25);
        if passed < gone { going() } else { status(404) }
    });
    delete(&client, false).await.unwrap();
}

/// Whoever may write groups in one namespace can put a finalizer on one, which keeps the definition.
#[tokio::test(start_paused = true)]
async fn a_group_that_somebody_keeps_does_not_keep_cardgate() {
    let (client, _) = api_server(|_, path| {
        let mut answer = going();
        let ours = json!({"app.kubernetes.io/part-of": "cardgate"});
        answer.1["metadata"]["labels"] = ours;
        let mut gone = status(404);
        gone.1["reason"] = "NotFound".into();
        if path.contains("podgroups") { answer } else { gone }
    });
    let removing = Removing {
        client: &client,
        objects: Objects::new(&client, false),
        dry_run: false,
    };
    let begin = Instant::now();
    removing.queues(true).await.unwrap();
    assert!(
        (GOING..GOING + 2 * LONGEST_PAUSE).contains(&begin.elapsed()),
        "{:?}",
        begin.elapsed()
    );
}

/// Without an API server the removal still ends, but not because of an earlier failure that was followed by progress.
#[tokio::test(start_paused = true)]
async fn what_fails_for_minutes_ends_and_what_gets_on_does_not() {
    let (client, _) = api_server(|_, _| status(500));
    let begin = Instant::now();
    let ended = delete(&client, false).await;
    assert!(matches!(ended, Err(UninstallError::Stuck { .. })), "{ended:?}");
    assert!(begin.elapsed() < PATIENCE + 2 * LONGEST_PAUSE, "{:?}", begin.elapsed());
}

/// Users who make an object so large that nothing more can be written on it, or create new ones without end, do not keep Cardgate from
/// being removed for longer than other objects take.
#[tokio::test(start_paused = true)]
async fn what_can_not_be_written_keeps_nothing_from_going_on() {
    for (code, is_passed_over) in [(409, true), (413, true), (422, true), (500, false), (403, false)] {
        let (client, asked) = api_server(move |_, path| {
            let pod = |name: &str| {
                json!({"metadata": {"namespace": "team", "name": name, "uid": "u"},
                    "spec": {"schedulingGates": [{"name": crds::keys::GATE}]}})
            };
            match path {
                "/api/v1/pods" => (200, json!({"metadata": {}, "items": [pod("large"), pod("new")]})),
                path if path.contains("large") => status(code),
                _ => (200, json!({"metadata": {}})),
            }
        });
        let removing = Removing {
            client: &client,
            objects: Objects::new(&client, false),
            dry_run: false,
        };
        let over = async |pass: &mut Pass<'_>| pass.over(Writes::<Pod>::new("pod", release::without_gate)).await;
        let ended = removing.until_done("pods are let go", FORGOTTEN, Instant::now(), over);
        let ended = tokio::time::timeout(2 * PATIENCE, ended).await;
        assert_eq!(ended.is_ok_and(|ended| ended.is_ok()), is_passed_over, "{code}");
        assert!(asked.load(Ordering::Relaxed) > 15, "{code}: it is tried again");
    }
}

/// What waits must not wait on because something else about it can't be written.
#[tokio::test(start_paused = true)]
async fn gates_go_although_jobs_can_not_be_read_and_conditions_not_be_written() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&seen);
    let (client, _) = api_server(move |_, path| {
        kept.lock().unwrap().push(path.to_owned());
        let pod = json!({"metadata": {"namespace": "team", "name": "held", "uid": "u"},
            "spec": {"schedulingGates": [{"name": crds::keys::GATE}]},
            "status": {"conditions": [{"type": crds::keys::ADMITTED_CONDITION, "status": "False"}]}});
        match path {
            "/api/v1/pods" => (200, json!({"metadata": {}, "items": [pod]})),
            "/api/v1/namespaces/team/pods/held" => (200, json!({"metadata": {}})),
            _ => status(500),
        }
    });
    let removing = Removing {
        client: &client,
        objects: Objects::new(&client, false),
        dry_run: false,
    };
    let ended = tokio::time::timeout(PATIENCE, removing.let_go(Instant::now())).await;
    assert!(ended.is_err(), "it tries again: {ended:?}");
    let seen = seen.lock().unwrap();
    let first = |end: &str| seen.iter().position(|path| path.ends_with(end));
    assert!(first("/held").is_some(), "{seen:?}");
    assert!(first("/held") < first("/held/status"), "the gate first: {seen:?}");
}
