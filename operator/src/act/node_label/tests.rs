use std::sync::atomic::{AtomicUsize, Ordering};

use kube::Client;
use kube::client::Body;
use tokio::sync::mpsc;

use super::*;
use crate::herald::Herald;
use crate::lease::Leadership;

/// It was written again at once, for ever: 22 times a second for 40 nodes.
#[tokio::test(start_paused = true)]
async fn a_label_that_is_refused_is_told_and_left_alone_for_a_while() {
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    let server = tower::service_fn(move |_: http::Request<Body>| {
        counted.fetch_add(1, Ordering::Relaxed);
        let status = json!({ "kind": "Status", "status": "Failure", "code": 403, "message": "guarded" });
        let response = http::Response::builder()
            .status(403)
            .body(Body::from(status.to_string().into_bytes()));
        async { response.map_err(std::io::Error::other) }
    });
    let (events, mut heard) = mpsc::channel(1);
    let leadership = Leadership::told(Arc::new(Herald::new(true)));
    let actor = Actor::new(Client::new(server, "default"), events, leadership, Arc::default());
    actor.label_node("n".into(), "u".into(), vec![("l".to_owned(), true)]);
    let Some(Event::NodeNotLabelled { node, uid, why }) = heard.recv().await else {
        panic!("nobody is told");
    };
    assert_eq!((&*node, &*uid, &*why), ("n", "u", "guarded"));
    let told = tokio::time::Instant::now();
    assert!(matches!(heard.recv().await, Some(Event::NodeLabelled(..))));
    assert!(told.elapsed() >= REST);
    assert_eq!(asked.load(Ordering::Relaxed), 1);
}
