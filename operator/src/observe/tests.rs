use std::convert::Infallible;
use std::future::pending;

use serde_json::json;

use super::*;

/// Returns a client of an API server that has no objects, and takes a second for each of the two pages of pods.
fn slow_with_pods() -> Client {
    let server = tower::service_fn(|request: http::Request<kube::client::Body>| async move {
        let (path, query) = (request.uri().path(), request.uri().query().unwrap_or_default());
        if query.contains("watch=true") {
            return pending().await;
        }
        let mut metadata = json!({"resourceVersion": "1"});
        if path == "/api/v1/pods" {
            sleep(Duration::from_secs(1)).await;
            if !query.contains("continue=") {
                metadata["continue"] = "more".into();
            }
        }
        let list = json!({"kind": "List", "apiVersion": "v1", "metadata": metadata, "items": []});
        let body = kube::client::Body::from(list.to_string().into_bytes());
        Ok::<_, Infallible>(http::Response::new(body))
    });
    Client::new(server, "default")
}

/// Who changes what pods are read by, again and again, would otherwise keep the operator from ever seeing all pods.
#[tokio::test(start_paused = true)]
async fn a_list_of_pods_is_finished_before_the_next_one_that_is_asked_for() {
    let (events, mut heard) = mpsc::channel(100);
    let sinks = Sinks {
        events,
        metrics: Arc::default(),
    };
    let asked = Notify::new();
    let asks = async {
        for _ in 0..10 {
            sleep(Duration::from_millis(1500)).await;
            asked.notify_one();
        }
        sleep(Duration::from_secs(10)).await;
    };
    tokio::select! {
        () = observe(slow_with_pods(), sinks, &asked) => {}
        () = asks => {}
    }
    let mut lists = Vec::new();
    while let Some(event) = heard.recv().await {
        match event {
            Event::Observed(Observation::ListBegins(Kind::Pod)) => lists.push("begins"),
            Event::Observed(Observation::ListEnds(Kind::Pod)) => lists.push("ends"),
            _ => {}
        }
    }
    // The last one has seen everything that was to be seen anew.
    assert!(lists.len() >= 6 && lists.len() <= 22, "{lists:?}");
    assert!(lists.chunks(2).all(|list| list == ["begins", "ends"]), "{lists:?}");
}
