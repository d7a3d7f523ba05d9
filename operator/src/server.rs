//! `/healthz`, `/readyz` and `/metrics`, over plain HTTP.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use actix_web::HttpResponse;
use actix_web::http::StatusCode;
use actix_web::http::header::ContentType;
use actix_web::web::{Data, ServiceConfig, get};
use ports::server::{ListenError, Port};
use thiserror::Error;

use crate::metrics::Metrics;
use crate::pulse::Liveness;

/// What `prometheus-client` writes.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The server could not be started.
#[derive(Debug, Error)]
#[error("{0}: choose another with --health-addr or --metrics-addr")]
pub struct ServerError(#[from] ListenError);

/// Whether the operator has seen what it needs, and what else there is to know.
#[derive(Debug, Default)]
pub struct Readiness(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    missing: BTreeSet<&'static str>,
    leads: Option<bool>,
    configuration_problem: Option<String>,
    installation_problems: Vec<String>,
    draining: bool,
}

impl Readiness {
    /// Readiness that waits for each of these.
    pub fn waiting_for(parts: impl IntoIterator<Item = &'static str>) -> Self {
        Self(Mutex::new(State {
            missing: parts.into_iter().collect(),
            ..State::default()
        }))
    }

    /// One more is waited for, from now on.
    pub fn awaits(&self, part: &'static str) {
        self.state().missing.insert(part);
    }

    /// One of them is there.
    pub fn arrived(&self, part: &'static str) {
        self.state().missing.remove(part);
    }

    /// Whether this operator leads or stands by. Both are ready: who stands by can take over at any time.
    pub fn leads(&self, leads: bool) {
        self.state().leads = Some(leads);
    }

    /// Why the newest configuration is not in force; none when it is. The operator stays ready: the last good one rules.
    pub fn configuration(&self, problem: Option<String>) {
        self.state().configuration_problem = problem;
    }

    /// What of the installation is missing or changed, each with what to do. The operator stays ready: what it does still
    /// holds, and taking it out of service would put nothing back.
    pub fn installation(&self, problems: Vec<String>) {
        self.state().installation_problems = problems;
    }

    /// From now on nothing should be expected from this operator.
    pub fn drain(&self) {
        self.state().draining = true;
    }

    /// Whether the operator is ready, and a text for people.
    pub fn report(&self) -> (bool, String) {
        let state = self.state();
        let ready = state.missing.is_empty() && !state.draining;
        let mut text = match (state.draining, ready) {
            (true, _) => "not ready: shutting down\n".to_owned(),
            (false, true) => "ok\n".to_owned(),
            (false, false) => {
                let missing: Vec<_> = state.missing.iter().copied().collect();
                format!("not ready, waiting for: {}\n", missing.join(", "))
            }
        };
        match state.leads {
            Some(true) => text.push_str("this operator leads\n"),
            Some(false) => text.push_str("this operator stands by\n"),
            None => {}
        }
        if let Some(problem) = &state.configuration_problem {
            // Writing to a String can't fail.
            let _ = writeln!(text, "the configuration is invalid: {problem}");
        }
        for problem in &state.installation_problems {
            let _ = writeln!(text, "installation: {problem}");
        }
        (ready, text)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Each change is one assignment, so whoever panicked meanwhile left nothing half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Listens on both addresses, which may be one; both serve all three paths. Await the result to serve.
pub fn start(
    health: SocketAddr,
    metrics_address: SocketAddr,
    metrics: Arc<Metrics>,
    readiness: Arc<Readiness>,
    liveness: Arc<Liveness>,
) -> Result<actix_web::dev::Server, ServerError> {
    let addresses = BTreeSet::from([health, metrics_address]);
    let refusals = metrics.refusals().clone();
    let routes = move || routes(metrics.clone(), readiness.clone(), liveness.clone());
    Ok(Port::DIAGNOSTICS.plain(addresses, &refusals, routes)?)
}

/// The paths and what they answer.
pub fn routes(
    metrics: Arc<Metrics>,
    readiness: Arc<Readiness>,
    liveness: Arc<Liveness>,
) -> impl FnOnce(&mut ServiceConfig) {
    move |config| {
        config
            .app_data(Data::from(metrics))
            .app_data(Data::from(readiness))
            .app_data(Data::from(liveness))
            .route("/healthz", get().to(healthz))
            .route("/readyz", get().to(readyz))
            .route("/metrics", get().to(show_metrics));
    }
}

async fn healthz(liveness: Data<Liveness>) -> HttpResponse {
    match liveness.trouble() {
        None => text(true, "ok\n".to_owned()),
        Some(trouble) => text(false, format!("not healthy: {trouble}\n")),
    }
}

async fn readyz(readiness: Data<Readiness>, liveness: Data<Liveness>) -> HttpResponse {
    let (ready, said) = readiness.report();
    match liveness.trouble() {
        None => text(ready, said),
        Some(trouble) => text(false, format!("not ready: {trouble}\n{said}")),
    }
}

fn text(good: bool, text: String) -> HttpResponse {
    let status = if good {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    HttpResponse::build(status)
        .content_type(ContentType::plaintext())
        .body(text)
}

async fn show_metrics(metrics: Data<Metrics>) -> HttpResponse {
    match metrics.encode() {
        Ok(text) => HttpResponse::Ok().content_type(OPEN_METRICS).body(text),
        Err(error) => HttpResponse::InternalServerError().body(format!("can't encode the metrics: {error}\n")),
    }
}

#[cfg(test)]
mod tests {
    use actix_web::{App, test};

    use super::*;
    use crate::pulse::{Pulse, SILENCE};

    async fn answer(readiness: Readiness, path: &str) -> (StatusCode, String) {
        answer_of(readiness, Liveness::default(), path).await
    }

    async fn answer_of(readiness: Readiness, liveness: Liveness, path: &str) -> (StatusCode, String) {
        let routes = routes(Arc::default(), Arc::new(readiness), Arc::new(liveness));
        let app = test::init_service(App::new().configure(routes)).await;
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
            liveness.is_that_of(Arc::new(Pulse::silent_for(SILENCE)));
            liveness
        };
        let trouble = "the mind has not answered for 30 s: it is at no step: its thread has ended, or is not woken\n";
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

    #[actix_web::test]
    async fn metrics_are_served() {
        let (status, text) = answer(Readiness::default(), "/metrics").await;
        assert_eq!(status, StatusCode::OK);
        assert!(
            text.contains("# TYPE cardgate_leader gauge") && text.ends_with("# EOF\n"),
            "{text}"
        );
    }

    #[actix_web::test]
    async fn both_addresses_may_be_one_and_a_taken_one_is_named() {
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap();
        let start = |address| start(address, address, Arc::default(), Arc::default(), Arc::default());
        let error = start(address).err().unwrap().to_string();
        assert!(
            error.contains(&address.to_string()) && error.contains("--health-addr"),
            "{error}"
        );
        let any_free: SocketAddr = "127.0.0.1:0".parse().unwrap();
        assert!(start(any_free).is_ok());
    }
}
