//! The serving certificate: taken from a Secret's files, and replaced while connections come in.

#![allow(clippy::unwrap_used, reason = "part of tests")]

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use crate::common::{UID, World, certificate, pod, pod_review};
use actix_web::dev::ServerHandle;
use actix_web::{App, HttpServer, rt};
use crds::keys::QUEUE_NAME;
use programs::certificates::{Files, provider};
use programs::ports::body::Room;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use webhook::health::Health;
use webhook::server::{BODIES, Diagnosed, routes};
use webhook::tls::{ServingCertificate, server_config};

/// Serves the door on a port of its own.
fn serve(world: &World, health: &Arc<Health>, certificate: Arc<ServingCertificate>) -> (SocketAddr, ServerHandle) {
    let (door, bodies) = (world.door.clone(), Room::new(BODIES));
    let diagnosed = Diagnosed {
        health: health.clone(),
        metrics: world.metrics.clone(),
    };
    let server = HttpServer::new(move || App::new().configure(routes(door.clone(), diagnosed.clone(), bodies.clone())))
        .workers(1)
        .shutdown_timeout(1)
        .disable_signals()
        .bind_rustls_0_23("127.0.0.1:0", server_config(certificate).unwrap())
        .unwrap();
    let address = server.addrs()[0];
    let server = server.run();
    let handle = server.handle();
    rt::spawn(server);
    (address, handle)
}

/// Asks for a review over a new connection that trusts `root` alone, and reads until it is closed; the answer, or why there
/// is none.
fn ask(address: SocketAddr, root: &rcgen::Certificate, connection: &str) -> Result<String, String> {
    let mut roots = RootCertStore::empty();
    roots.add(root.der().clone()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("webhook.cardgate-system.svc").unwrap();
    let client = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut stream = StreamOwned::new(client, TcpStream::connect(address).unwrap());
    let body = pod_review(&pod(&[(QUEUE_NAME, "team-a")], &[])).to_string();
    let request = format!(
        "POST /mutate HTTP/1.1\r\nhost: webhook\r\nconnection: {connection}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream
        .write_all(request.as_bytes())
        .map_err(|error| error.to_string())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).map_err(|error| error.to_string())?;
    Ok(answer)
}

async fn asked(address: SocketAddr, root: Arc<rcgen::Certificate>) -> Result<String, String> {
    rt::task::spawn_blocking(move || ask(address, &root, "close"))
        .await
        .unwrap()
}

#[actix_web::test]
async fn a_new_certificate_is_served_without_a_restart_and_a_bad_one_never() {
    let world = World::new();
    let serving = Arc::new(ServingCertificate::default());
    let (address, handle) = serve(&world, &world.health(), serving.clone());
    let (first, first_root) = certificate("webhook.cardgate-system.svc");
    let (second, second_root) = certificate("webhook.cardgate-system.svc");
    let (first_root, second_root) = (Arc::new(first_root), Arc::new(second_root));
    asked(address, first_root.clone())
        .await
        .expect_err("there is no certificate yet");

    serving.replace(&first).unwrap();
    let answer = asked(address, first_root.clone()).await.unwrap();
    assert!(
        answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.contains(UID),
        "{answer}"
    );
    asked(address, second_root.clone()).await.expect_err("not this one");

    for (bad, part) in [
        (Files::new(), "has no tls.crt"),
        (swapped(&first, "tls.key", &second), "can't be used together"),
        (
            swapped(&first, "tls.key", &Files::from([("tls.key", b"x".to_vec())])),
            "is no PEM",
        ),
        (
            swapped(&first, "tls.crt", &Files::from([("tls.crt", b"x".to_vec())])),
            "can't be used",
        ),
    ] {
        let error = serving.replace(&bad).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
        asked(address, first_root.clone()).await.expect("the one in use stays");
    }

    serving.replace(&second).unwrap();
    asked(address, second_root).await.expect("the new one");
    asked(address, first_root).await.expect_err("the old one is gone");
    handle.stop(false).await;
}

#[actix_web::test]
async fn a_webhook_that_goes_closes_connections_that_are_kept_alive() {
    let world = World::new();
    let health = world.health();
    let serving = Arc::new(ServingCertificate::default());
    let (address, handle) = serve(&world, &health, serving.clone());
    let (secret, root) = certificate("webhook.cardgate-system.svc");
    serving.replace(&secret).unwrap();
    health.drain();
    let asked = rt::task::spawn_blocking(move || ask(address, &root, "keep-alive"))
        .await
        .unwrap();
    let answer = asked.unwrap();
    assert!(
        answer.contains(UID) && answer.contains("connection: close\r\n"),
        "{answer}"
    );
    handle.stop(false).await;
}

/// `data` with one value of `other`.
fn swapped(data: &Files, key: &'static str, other: &Files) -> Files {
    let mut data = data.clone();
    data.insert(key, other[key].clone());
    data
}
