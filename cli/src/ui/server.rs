//! The server that answers browsers. It reads the cluster and writes nothing.

use std::io;
use std::net::{SocketAddr, TcpListener};

use actix_web::guard;
use actix_web::http::StatusCode;
use actix_web::http::header::{self, ContentType};
use actix_web::middleware::DefaultHeaders;
use actix_web::{App, HttpRequest, HttpResponse, HttpServer, web};
use maud::Markup;
use serde::Deserialize;

use super::access::{self, Key, PARAMETER};
use super::page::{self, View};
use super::views;
use crate::cluster::Cluster;
use crate::failure::{Failure, NOT_THERE};

/// What browsers may load: only what this server serves, and nothing from anywhere else.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; \
                      form-action 'self'; frame-ancestors 'none'";
/// Only one user's browser asks.
const WORKERS: usize = 1;
/// How long open connections may keep the program from ending, in seconds.
const GRACE: u64 = 1;

/// A bound port. It is bound early, so that a failure is known before anybody asks.
pub struct Bound {
    listener: TcpListener,
    /// The address of the port.
    pub address: SocketAddr,
}

impl Bound {
    /// Binds the port.
    pub fn to(address: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        let address = listener.local_addr()?;
        Ok(Self { listener, address })
    }

    /// Answers browsers that have the key, until a signal ends the program.
    pub async fn serve(self, cluster: Cluster, key: Key) -> io::Result<()> {
        let site = web::Data::new(Site {
            cluster,
            key,
            address: self.address,
        });
        let app = move || {
            let headers = DefaultHeaders::new()
                .add((header::CONTENT_SECURITY_POLICY, POLICY))
                .add((header::REFERRER_POLICY, "no-referrer"))
                .add((header::X_CONTENT_TYPE_OPTIONS, "nosniff"))
                .add((header::CACHE_CONTROL, "no-store"));
            let known = site.clone();
            let is_ours = move |asked: &guard::GuardContext<'_>| known.key.has(asked.head().uri.path());
            // All links are relative, so pages do not know their path.
            let pages = web::scope("/{place}")
                .guard(guard::fn_guard(is_ours))
                .route("/style.css", web::get().to(style))
                .route("/live.js", web::get().to(script))
                .route("/", web::get().to(cards))
                .route("/nodes", web::get().to(nodes))
                .route("/queues", web::get().to(queues))
                .route("/queue", web::get().to(queue))
                .route("/history", web::get().to(history))
                .route("/why", web::get().to(why))
                .default_service(web::to(nothing));
            App::new()
                .app_data(site.clone())
                .wrap(headers)
                .service(pages)
                .default_service(web::to(refused))
        };
        let server = HttpServer::new(app).workers(WORKERS).shutdown_timeout(GRACE);
        server.listen(self.listener)?.run().await
    }
}

/// What every answer needs.
struct Site {
    cluster: Cluster,
    key: Key,
    address: SocketAddr,
}

async fn style() -> HttpResponse {
    asset("text/css; charset=utf-8", include_str!("assets/style.css"))
}

async fn script() -> HttpResponse {
    asset("text/javascript; charset=utf-8", include_str!("assets/live.js"))
}

fn asset(kind: &'static str, text: &'static str) -> HttpResponse {
    HttpResponse::Ok().content_type(kind).body(text)
}

/// The key, if an address carries it.
#[derive(Debug, Deserialize)]
struct Entry {
    key: Option<String>,
}

async fn cards(request: HttpRequest, site: web::Data<Site>, entry: web::Query<Entry>) -> HttpResponse {
    let said = entry
        .key
        .as_deref()
        .filter(|_| access::is_named(&request, site.address));
    if said.is_some_and(|said| site.key.is(said)) {
        // The redirect removes the key from the address, so that no copied or stored address contains it.
        return HttpResponse::SeeOther()
            .cookie(site.key.cookie(site.address.port()))
            .insert_header((header::LOCATION, site.key.root()))
            .finish();
    }
    shown(&request, &site, View::Cards, views::cards(&site.cluster)).await
}

async fn nodes(request: HttpRequest, site: web::Data<Site>, asked: web::Query<views::AskedNodes>) -> HttpResponse {
    shown(&request, &site, View::Nodes, views::nodes(&site.cluster, &asked)).await
}

async fn queues(request: HttpRequest, site: web::Data<Site>) -> HttpResponse {
    shown(&request, &site, View::Queues, views::queues(&site.cluster)).await
}

/// The queue that the request names.
#[derive(Debug, Deserialize)]
struct Named {
    #[serde(default)]
    name: String,
}

async fn queue(request: HttpRequest, site: web::Data<Site>, asked: web::Query<Named>) -> HttpResponse {
    let content = views::queue(&site.cluster, &asked.name);
    shown(&request, &site, View::Queues, content).await
}

/// What the request asks about.
#[derive(Debug, Deserialize)]
struct Asked {
    #[serde(default)]
    what: String,
    #[serde(default)]
    namespace: String,
}

async fn history(request: HttpRequest, site: web::Data<Site>, asked: web::Query<Asked>) -> HttpResponse {
    let content = views::history(&site.cluster, &asked.namespace);
    shown(&request, &site, View::History, content).await
}

async fn why(request: HttpRequest, site: web::Data<Site>, asked: web::Query<Asked>) -> HttpResponse {
    let content = views::why(&site.cluster, &asked.what, &asked.namespace);
    shown(&request, &site, View::Why, content).await
}

/// The answer to a browser that is not let in, and to a request for another path.
async fn refused() -> HttpResponse {
    let text = format!(
        "These pages are of whoever started kubectl card ui. Open the address that it printed, with ?{PARAMETER}= in it.\n"
    );
    HttpResponse::Unauthorized()
        .content_type(ContentType::plaintext())
        .body(text)
}

/// Answers a request for a page that does not exist.
async fn nothing(request: HttpRequest, site: web::Data<Site>) -> HttpResponse {
    if site.key.lets_in(&request, site.address) {
        HttpResponse::NotFound().finish()
    } else {
        refused().await
    }
}

/// Answers with a page, if the browser is let in. For others nothing is asked of the cluster.
async fn shown(
    request: &HttpRequest,
    site: &Site,
    view: View,
    content: impl Future<Output = Result<Markup, Failure>>,
) -> HttpResponse {
    if !site.key.lets_in(request, site.address) {
        return refused().await;
    }
    let (status, content) = match content.await {
        Ok(content) => (StatusCode::OK, content),
        Err(failure) if failure.code() == NOT_THERE => (StatusCode::NOT_FOUND, page::failure(&failure)),
        Err(failure) if failure.is_forbidden() => (StatusCode::FORBIDDEN, page::failure(&failure)),
        Err(failure) => (StatusCode::BAD_GATEWAY, page::failure(&failure)),
    };
    HttpResponse::build(status)
        .content_type(ContentType::html())
        .body(page::page(view, &content).into_string())
}
