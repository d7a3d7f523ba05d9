//! Reviews over HTTPS with keep-alive, as API servers send them: CPU time of the server for each request, with 1, 8 and 64
//! connections to one worker.
//!
//! Server and clients share the process, so the server's threads are told apart by when they started, and their CPU time is
//! read from Linux' `/proc`.

#[path = "../tests/door/common/mod.rs"]
mod common;
mod fixture;

use std::collections::BTreeSet;
use std::error::Error;
use std::fs;
use std::io::{Read, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use actix_web::{App, HttpServer, rt};
use common::World;
use crds::keys::{CARD_NAME, QUEUE_NAME};
use programs::certificates::provider;
use programs::ports::body::Room;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use webhook::server::{BODIES, routes};
use webhook::tls::{ServingCertificate, server_config};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// How long each number of connections is measured.
const TIME: Duration = Duration::from_secs(4);
/// Requests of each connection before the measurement.
const WARM_UP: usize = 200;
/// How often each connection is counted.
const BATCH: u64 = 16;
const NAME: &str = "webhook.cardgate-system.svc";

fn main() -> Result<()> {
    // `cargo test --benches` asks for a quick look only.
    let time = if std::env::args().any(|argument| argument == "--bench") {
        TIME
    } else {
        Duration::from_millis(50)
    };
    let before = threads()?;
    let (address, root) = serve()?;
    let body = fixture::review_of_4_kb(&[(CARD_NAME, "NVIDIA-A100"), (QUEUE_NAME, "team-a")]);
    let head = format!(
        "POST /mutate?timeout=5s HTTP/1.1\r\nHost: {NAME}:443\r\nUser-Agent: kube-apiserver-admission\r\nContent-Length: {}\r\n\
         Accept: application/json, */*\r\nContent-Type: application/json\r\nAccept-Encoding: gzip\r\n\r\n",
        body.len()
    );
    let request: Arc<[u8]> = [head.as_bytes(), &body].concat().into();
    // Once it answers, all of its threads are there.
    let config = client_config(root)?;
    Client::connect(address, config.clone())?.ask(&request)?;
    let server: BTreeSet<_> = threads()?.difference(&before).cloned().collect();
    println!("POST /mutate, one worker, a review of {} bytes each", body.len());
    println!("connections  requests/s  server CPU/request  latency p50  latency p99");
    for connections in [1, 8, 64] {
        let measured = measure(address, &config, &request, connections, time, &server)?;
        println!(
            "{connections:>11}  {:>10.0}  {:>15.1} us  {:>8.0} us  {:>8.0} us",
            measured.rate, measured.cpu_micros, measured.median, measured.slow
        );
    }
    Ok(())
}

/// Serves a door on a thread of its own.
fn serve() -> Result<(SocketAddr, CertificateDer<'static>)> {
    let world = World::new();
    let (secret, root) = common::certificate(NAME);
    let certificate = Arc::new(ServingCertificate::default());
    certificate.replace(&secret)?;
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        rt::System::new().block_on(async move {
            let (door, diagnosed, bodies) = (world.door.clone(), world.diagnosed(), Room::new(BODIES));
            let server =
                HttpServer::new(move || App::new().configure(routes(door.clone(), diagnosed.clone(), bodies.clone())))
                    .workers(1)
                    .disable_signals()
                    .bind_rustls_0_23("127.0.0.1:0", server_config(certificate)?)?;
            tell.send(server.addrs()[0])?;
            server.run().await?;
            Result::Ok(())
        })
    });
    Ok((told.recv()?, root.der().clone()))
}

/// TLS for clients that trust `root` alone.
fn client_config(root: CertificateDer<'static>) -> Result<Arc<ClientConfig>> {
    let mut roots = RootCertStore::empty();
    roots.add(root)?;
    let config = ClientConfig::builder_with_provider(Arc::new(provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config))
}

struct Measured {
    rate: f64,
    cpu_micros: f64,
    median: f64,
    slow: f64,
}

fn measure(
    address: SocketAddr,
    config: &Arc<ClientConfig>,
    request: &Arc<[u8]>,
    connections: usize,
    time: Duration,
    server: &BTreeSet<String>,
) -> Result<Measured> {
    let (warm, stop) = (Arc::new(Barrier::new(connections + 1)), Arc::new(AtomicU64::new(0)));
    let answered = Arc::new(AtomicU64::new(0));
    let clients: Vec<_> = (0..connections)
        .map(|_| {
            let (config, request) = (config.clone(), request.clone());
            let (warm, stop, answered) = (warm.clone(), stop.clone(), answered.clone());
            thread::spawn(move || -> Result<Vec<Duration>> {
                let mut client = Client::connect(address, config)?;
                for _ in 0..WARM_UP {
                    client.ask(&request)?;
                }
                warm.wait();
                let mut latencies = Vec::with_capacity(1 << 16);
                while stop.load(Ordering::Relaxed) == 0 {
                    for _ in 0..BATCH {
                        let start = Instant::now();
                        client.ask(&request)?;
                        latencies.push(start.elapsed());
                    }
                    answered.fetch_add(BATCH, Ordering::Relaxed);
                }
                Ok(latencies)
            })
        })
        .collect();
    warm.wait();
    let (start, cpu, count) = (Instant::now(), cpu_nanos(server)?, answered.load(Ordering::Relaxed));
    thread::sleep(time);
    let (elapsed, cpu, count) = (
        start.elapsed(),
        cpu_nanos(server)? - cpu,
        answered.load(Ordering::Relaxed) - count,
    );
    stop.store(1, Ordering::Relaxed);
    let mut latencies = Vec::new();
    for client in clients {
        latencies.extend(client.join().map_err(|_| "a client panicked")??);
    }
    latencies.sort_unstable();
    let percentile = |percent: usize| latencies[latencies.len() * percent / 100].as_secs_f64() * 1e6;
    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    let (cpu, count) = (cpu as f64, count as f64);
    Ok(Measured {
        rate: count / elapsed.as_secs_f64(),
        cpu_micros: cpu / count / 1000.0,
        median: percentile(50),
        slow: percentile(99),
    })
}

/// One connection that is kept alive.
struct Client {
    stream: StreamOwned<ClientConnection, TcpStream>,
    buffer: Vec<u8>,
}

impl Client {
    fn connect(address: SocketAddr, config: Arc<ClientConfig>) -> Result<Self> {
        let socket = TcpStream::connect(address)?;
        socket.set_nodelay(true)?;
        let connection = ClientConnection::new(config, ServerName::try_from(NAME)?)?;
        Ok(Self {
            stream: StreamOwned::new(connection, socket),
            buffer: vec![0; 16 * 1024],
        })
    }

    /// Sends a request and reads its whole answer.
    fn ask(&mut self, request: &[u8]) -> Result<()> {
        self.stream.write_all(request)?;
        let mut filled = 0;
        loop {
            let read = self.stream.read(&mut self.buffer[filled..])?;
            if read == 0 {
                return Err("the server hung up".into());
            }
            filled += read;
            let text = String::from_utf8_lossy(&self.buffer[..filled]);
            if let Some(end) = text.find("\r\n\r\n") {
                let length = text
                    .split("content-length: ")
                    .nth(1)
                    .and_then(|rest| rest.split("\r\n").next());
                if filled >= end + 4 + length.ok_or("an answer without a length")?.parse::<usize>()? {
                    assert!(
                        text.starts_with("HTTP/1.1 200 OK") && text.contains("\"patch\""),
                        "{text}"
                    );
                    return Ok(());
                }
            }
        }
    }
}

/// Ids of this process' threads.
fn threads() -> Result<BTreeSet<String>> {
    let entries = fs::read_dir("/proc/self/task").map_err(|error| format!("Linux only: {error}"))?;
    entries
        .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
        .collect()
}

/// CPU time of these threads.
fn cpu_nanos(threads: &BTreeSet<String>) -> Result<u64> {
    let mut sum = 0;
    for thread in threads {
        let text = fs::read_to_string(format!("/proc/self/task/{thread}/schedstat"))?;
        sum += text.split(' ').next().unwrap_or_default().parse::<u64>()?;
    }
    Ok(sum)
}
