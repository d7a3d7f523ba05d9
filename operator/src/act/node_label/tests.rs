use std::sync::atomic::{AtomicUsize, Ordering};

use kube::Client;
use kube::client::Body;
use tokio::sync::mpsc;

use super::*;
use crate::herald::Herald;
use crate::lease::Leadership;

/// Labels a node on an API server that answers with `code`. Returns the receiver of events, how often the API server was asked, and the
/// task that asks it.
fn label(code: u16) -> (mpsc::Receiver<Event>, Arc<AtomicUsize>, task::Id) {
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    let server = tower::service_fn(move |_: http::Request<Body>| {
        counted.fetch_add(1, Ordering::Relaxed);
        let status = json!({ "kind": "Status", "status": "Failure", "code": code, "message": "guarded" });
        let response = http::Response::builder()
            .status(code)
            .body(Body::from(status.to_string().into_bytes()));
        async { response.map_err(std::io::Error::other) }
    });
    let (events, heard) = mpsc::channel(1);
    let leadership = Leadership::told(Arc::new(Herald::new(true)));
    let actor = Actor::new(Client::new(server, "default"), events, leadership, Arc::default());
    let writing = actor.label_node("n".into(), "u".into(), vec![("l".to_owned(), true)]);
    (heard, asked, writing.id())
}

/// Other clients write on the node, too.
#[tokio::test(start_paused = true)]
async fn a_label_that_collides_with_other_writes_is_tried_again() {
    let (mut heard, asked, writes) = label(409);
    assert!(matches!(heard.recv().await, Some(Event::NodeLabelled { writer, .. }) if writer == writes));
    assert_eq!(asked.load(Ordering::Relaxed), 4);
}

/// A write that fails for the moment on every try is left to the mind, which tries again a minute later.
#[tokio::test(start_paused = true)]
async fn a_label_that_fails_again_and_again_is_tried_some_times_a_minute() {
    let begin = tokio::time::Instant::now();
    let (mut heard, asked, _) = label(500);
    assert!(matches!(heard.recv().await, Some(Event::NodeLabelled { .. })));
    assert!(begin.elapsed() >= PAUSE);
    assert_eq!(asked.load(Ordering::Relaxed), 4);
}

/// Found by the simulator (seed 94023): while the watch of nodes was silent, a label was written again as soon as it was written.
#[tokio::test(start_paused = true)]
async fn a_label_that_is_written_or_whose_node_is_gone_is_left_to_the_watch() {
    for code in [200, 404] {
        let begin = tokio::time::Instant::now();
        let (mut heard, asked, _) = label(code);
        assert!(matches!(heard.recv().await, Some(Event::NodeLabelled { .. })));
        assert!(begin.elapsed() >= REST);
        assert_eq!(asked.load(Ordering::Relaxed), 1, "{code}");
    }
}

/// It was written again at once, for ever: 22 times a second for 40 nodes.
#[tokio::test(start_paused = true)]
async fn a_label_that_is_refused_is_told_and_left_alone_for_a_while() {
    let (mut heard, asked, _) = label(403);
    let Some(Event::NodeNotLabelled { node, uid, why }) = heard.recv().await else {
        panic!("nobody is told");
    };
    assert_eq!((&*node, &*uid, &*why), ("n", "u", "guarded"));
    let told = tokio::time::Instant::now();
    assert!(matches!(heard.recv().await, Some(Event::NodeLabelled { .. })));
    assert!(told.elapsed() >= REST);
    assert_eq!(asked.load(Ordering::Relaxed), 1);
}
