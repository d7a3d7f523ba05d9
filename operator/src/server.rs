//! What the operator reports about itself: whether it is alive, whether it is ready, and its metrics.

use std::fmt;
use std::sync::Arc;

use programs::diagnostics::Diagnostics;
use programs::readiness::Readiness;

use crate::metrics::Metrics;
use crate::pulse::Liveness;

/// What the operator reports about itself.
#[derive(Debug)]
pub struct Diagnosed {
    /// Its measurements.
    pub metrics: Arc<Metrics>,
    /// What it has seen.
    pub readiness: Arc<Readiness>,
    /// Whether its mind is alive.
    pub liveness: Arc<Liveness>,
}

impl Diagnostics for Diagnosed {
    fn trouble(&self) -> Option<String> {
        self.liveness.trouble()
    }

    fn readiness(&self) -> (bool, String) {
        let (ready, text) = self.readiness.report();
        match self.trouble() {
            None => (ready, text),
            Some(trouble) => (false, format!("not ready: {trouble}\n{text}")),
        }
    }

    fn metrics(&self) -> Result<String, fmt::Error> {
        self.metrics.ready().show(self.readiness().0);
        self.metrics.encode()
    }
}

#[cfg(test)]
mod tests {
    use actix_web::http::StatusCode;
    use actix_web::{App, test};
    use programs::diagnostics;

    use super::*;
    use crate::pulse::{Pulse, SILENCE};

    async fn answer(readiness: Readiness, path: &str) -> (StatusCode, String) {
        answer_of(readiness, Liveness::default(), path).await
    }

    async fn answer_of(readiness: Readiness, liveness: Liveness, path: &str) -> (StatusCode, String) {
        let diagnosed = Diagnosed {
            metrics: Arc::default(),
            readiness: Arc::new(readiness),
            liveness: Arc::new(liveness),
        };
        let app = test::init_service(App::new().configure(diagnostics::routes(Arc::new(diagnosed)))).await;
        let response = test::call_service(&app, test::TestRequest::get().uri(path).to_request()).await;
        let status = response.status();
        let body = test::read_body(response).await;
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    #[actix_web::test]
    async fn readiness_lists_what_is_missing() {
        let readiness = Readiness::waiting_for(["pods", "nodes", "queues"]);
        readiness.arrived("nodes");
        assert_eq!(
            answer(readiness, "/readyz").await,
            (
                StatusCode::SERVICE_UNAVAILABLE,
                "not ready, waiting for: pods, queues\n".to_owned()
            )
        );
        let readiness = Readiness::waiting_for(["pods"]);
        readiness.arrived("pods");
        readiness.leads(false);
        assert_eq!(
            answer(readiness, "/readyz").await,
            (StatusCode::OK, "ok\nthis operator stands by\n".to_owned())
        );
    }

    #[actix_web::test]
    async fn an_invalid_configuration_is_said_and_does_not_make_the_operator_unready() {
        let readiness = Readiness::default();
        readiness.configuration(Some("cardgate.yaml: admitOn is 5: write fit or quota".to_owned()));
        let (status, text) = answer(readiness, "/readyz").await;
        assert_eq!(status, StatusCode::OK);
        assert!(text.contains("admitOn is 5"), "{text}");

        let readiness = Readiness::default();
        readiness.configuration(Some("broken".to_owned()));
        readiness.configuration(None);
        assert_eq!(answer(readiness, "/readyz").await, (StatusCode::OK, "ok\n".to_owned()));
    }

    #[actix_web::test]
    async fn who_shuts_down_is_not_ready_but_alive() {
        let readiness = Readiness::default();
        readiness.drain();
        let (status, text) = answer(readiness, "/readyz").await;
        assert_eq!(
            (status, text.as_str()),
            (StatusCode::SERVICE_UNAVAILABLE, "not ready: shutting down\n")
        );
        let readiness = Readiness::waiting_for(["pods"]);
        readiness.drain();
        assert_eq!(answer(readiness, "/healthz").await, (StatusCode::OK, "ok\n".to_owned()));
    }

    #[actix_web::test]
    async fn a_mind_that_is_silent_is_neither_healthy_nor_ready() {
        let silent = || {
            let liveness = Liveness::default();
            liveness.follow(Arc::new(Pulse::silent_for(SILENCE)));
            liveness
        };
        let trouble =
            "the deciding thread has not answered for 30 s: it is at no step: it has ended, or is not woken\n";
        assert_eq!(
            answer_of(Readiness::default(), silent(), "/healthz").await,
            (StatusCode::SERVICE_UNAVAILABLE, format!("not healthy: {trouble}"))
        );
        let readiness = Readiness::default();
        readiness.leads(true);
        assert_eq!(
            answer_of(readiness, silent(), "/readyz").await,
            (
                StatusCode::SERVICE_UNAVAILABLE,
                format!("not ready: {trouble}ok\nthis operator leads\n")
            )
        );
    }

    /// A leader that can't read all it needs lets nobody in, and nothing else about it is wrong.
    #[actix_web::test]
    async fn who_is_not_ready_is_seen_in_the_metrics() {
        let silent = Liveness::default();
        silent.follow(Arc::new(Pulse::silent_for(SILENCE)));
        for (readiness, liveness, ready) in [
            (Readiness::default(), Liveness::default(), true),
            (Readiness::waiting_for(["pods"]), Liveness::default(), false),
            (Readiness::default(), silent, false),
        ] {
            let (status, text) = answer_of(readiness, liveness, "/metrics").await;
            assert_eq!(status, StatusCode::OK);
            assert!(
                text.contains(&format!("cardgate_ready {}\n", u8::from(ready))),
                "{text}"
            );
        }
    }

    #[actix_web::test]
    async fn metrics_are_served() {
        let (status, text) = answer(Readiness::default(), "/metrics").await;
        assert_eq!(status, StatusCode::OK);
        assert!(
            text.contains("# TYPE cardgate_leader gauge") && text.ends_with("# EOF\n"),
            "{text}"
        );
    }
}
