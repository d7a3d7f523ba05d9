use std::convert::Infallible;
use std::future::pending;
use std::sync::{Arc, Mutex};

use crds::keys::GATE;
use serde_json::{Value, json};

use super::*;
use crate::marked::Pod;
use crate::release::without_gate;

/// The requests to an API server with some pods, which answers no list of more than `most` of them: how many pods each list asked for, and
/// what was written.
#[derive(Default)]
struct Sent {
    limits: Vec<usize>,
    written: Vec<(String, String)>,
}

fn api_server(pods: usize, most: usize) -> (Client, Arc<Mutex<Sent>>) {
    let sent = Arc::new(Mutex::new(Sent::default()));
    let kept = Arc::clone(&sent);
    let server = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        let mut sent = kept.lock().unwrap();
        let answer = if request.method() == http::Method::GET {
            let query = request.uri().query().unwrap_or_default();
            let number = |key: &str| {
                let part = query.split('&').find_map(|part| part.strip_prefix(key));
                part.and_then(|text| text.parse::<usize>().ok())
            };
            let (limit, begin) = (number("limit=").unwrap_or(usize::MAX), number("continue=").unwrap_or(0));
            sent.limits.push(limit);
            (limit <= most).then(|| page(pods, begin, limit))
        } else {
            let accepted = request.headers()["accept"].to_str().unwrap().to_owned();
            sent.written.push((request.uri().path().to_owned(), accepted));
            Some(json!({"metadata": {}}))
        };
        async move {
            let Some(answer) = answer else { return pending().await };
            Ok::<_, Infallible>(http::Response::new(kube::client::Body::from(
                answer.to_string().into_bytes(),
            )))
        }
    });
    (Client::new(server, "default"), sent)
}

fn page(pods: usize, begin: usize, limit: usize) -> Value {
    let end = begin.saturating_add(limit).min(pods);
    let pod = |number: usize| {
        json!({"metadata": {"namespace": "team", "name": format!("p-{number}"), "uid": "u"},
            "spec": {"schedulingGates": [{"name": GATE}]}})
    };
    let pods_of_page: Vec<_> = (begin..end).map(pod).collect();
    let next = if end < pods { end.to_string() } else { String::new() };
    json!({"metadata": {"continue": next}, "items": pods_of_page})
}

/// If the removal ran out of memory, it would end, and again at each start: half of Cardgate would be gone, and its gates would stay.
#[tokio::test(start_paused = true)]
async fn pages_are_small_and_smaller_where_they_take_too_long() {
    let (client, sent) = api_server(25, 4);
    let mut pass = Pass::new(&client, false);
    pass.over(Writes::<Pod>::new("pod", without_gate)).await.unwrap();
    assert_eq!((pass.done, pass.failed.is_none()), (25, true));
    let sent = sent.lock().unwrap();
    assert_eq!(
        sent.limits[..3],
        [10, 5, 2],
        "half as many after each that took too long"
    );
    assert!(sent.limits[3..].iter().all(|limit| *limit == 2), "{:?}", sent.limits);
    assert_eq!(sent.written.len(), 25, "each pod once");
    let (path, accepted) = &sent.written[0];
    assert!(path.starts_with("/api/v1/namespaces/team/pods/p-"), "{path}");
    assert!(
        accepted.contains("PartialObjectMetadata"),
        "no more than needed: {accepted}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_single_object_that_takes_too_long_is_left_to_the_next_pass() {
    let (client, sent) = api_server(25, 0);
    let mut pass = Pass::new(&client, false);
    let ended = pass.over(Writes::<Pod>::new("pod", without_gate)).await;
    assert!(matches!(ended, Err(RequestError::TimedOut)), "{ended:?}");
    assert_eq!(sent.lock().unwrap().limits, [10, 5, 2, 1]);
}

#[tokio::test(start_paused = true)]
async fn the_status_is_written_by_its_own_path() {
    let (client, sent) = api_server(1, 10);
    let mut pass = Pass::new(&client, false);
    pass.over(Writes::<Pod>::of_status("pod", without_gate)).await.unwrap();
    assert_eq!(
        sent.lock().unwrap().written[0].0,
        "/api/v1/namespaces/team/pods/p-0/status"
    );
}

/// A server that answers one list of pods after the other with these: its code, its content, and what was asked for.
fn lists(answers: Vec<(u16, Value)>) -> (Client, Arc<Mutex<Vec<String>>>) {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&asked);
    let server = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        let is_list = request.method() == http::Method::GET;
        let (code, answer) = if is_list {
            let mut asked = kept.lock().unwrap();
            let mut query = request.uri().query().unwrap_or_default().split('&');
            let token = query.find_map(|part| part.strip_prefix("continue="));
            asked.push(token.unwrap_or("first").to_owned());
            answers[asked.len().min(answers.len()) - 1].clone()
        } else {
            (200, json!({"metadata": {}}))
        };
        let body = kube::client::Body::from(answer.to_string().into_bytes());
        let answer = http::Response::builder().status(code).body(body).unwrap();
        async { Ok::<_, Infallible>(answer) }
    });
    (Client::new(server, "default"), asked)
}

/// Goes over all pods once; returns how many were written.
async fn over_pods(client: &Client) -> Result<usize, RequestError> {
    let mut pass = Pass::new(client, false);
    pass.over(Writes::<Pod>::new("pod", without_gate)).await?;
    Ok(pass.done)
}

fn refusal(code: u16, metadata: &Value) -> (u16, Value) {
    let refusal = json!({"kind": "Status", "apiVersion": "v1", "metadata": metadata, "status": "Failure", "message": "no", "code": code});
    (code, refusal)
}

/// With thousands of pages one of them always fails, and a pass that began anew each time would never end.
#[tokio::test(start_paused = true)]
async fn a_page_that_fails_for_the_moment_is_asked_for_again() {
    for code in [429, 500, 503] {
        let fails = refusal(code, &json!({}));
        let (client, asked) = lists(vec![
            (200, page(25, 0, 10)),
            fails.clone(),
            fails.clone(),
            (200, page(25, 10, 10)),
            fails,
            (200, page(25, 20, 10)),
        ]);
        assert_eq!(over_pods(&client).await.unwrap(), 25, "{code}");
        assert_eq!(*asked.lock().unwrap(), ["first", "10", "10", "10", "20", "20"]);
    }
    for (code, times) in [(503, 5), (403, 1)] {
        let (client, asked) = lists(vec![refusal(code, &json!({}))]);
        assert_eq!(over_pods(&client).await.unwrap_err().code(), Some(code));
        assert_eq!(asked.lock().unwrap().len(), times, "{code}");
    }
}

/// The API server forgets a list after some minutes. It then says how to go on with the objects as they are now.
#[tokio::test(start_paused = true)]
async fn a_list_that_has_expired_goes_on_where_it_was() {
    let (client, asked) = lists(vec![
        (200, page(20, 0, 10)),
        refusal(410, &json!({"continue": "now"})),
        (200, page(20, 10, 10)),
    ]);
    assert_eq!(over_pods(&client).await.unwrap(), 20);
    assert_eq!(*asked.lock().unwrap(), ["first", "10", "now"]);

    let (client, asked) = lists(vec![(200, page(20, 0, 10)), refusal(410, &json!({}))]);
    assert_eq!(
        over_pods(&client).await.unwrap_err().code(),
        Some(410),
        "the next pass begins anew"
    );
    assert_eq!(asked.lock().unwrap().len(), 2);

    let (client, asked) = lists(vec![refusal(410, &json!({"continue": "now"}))]);
    assert_eq!(over_pods(&client).await.unwrap_err().code(), Some(410));
    assert_eq!(asked.lock().unwrap().len(), 5, "not without end");
}
