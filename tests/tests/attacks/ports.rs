//! What somebody without any rights can do who reaches a port: nothing that others notice.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use cardgate_tests::cardgate::Instance;
use cardgate_tests::tls::{self, Identity};
use cardgate_tests::wait::{self, Seen};
use cardgate_tests::workloads;
use cardgate_tests::world::World;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::PostParams;
use operator::certificates::SERVING_SECRET;
use rustls::ClientConfig;
use tokio::task::spawn_blocking;

use crate::Outcome;

/// What the webhook's Deployment allows.
const WEBHOOK_MEMORY: u64 = 256 << 20;
/// Bodies of this length are just short enough for the webhook.
const BODY: usize = 8 << 20;
/// How long an admission may take while a port is attacked: the API server gives up after 5 s.
const ADMISSION: Duration = Duration::from_secs(4);

#[tokio::test]
async fn strangers_at_the_ports_of_the_webhook() -> Outcome {
    ::ports::server::allow_open_files();
    let world = World::start().await?;
    let webhook = world.cardgate.webhook();
    let stranger = Identity::of_secret(&world.plane, SERVING_SECRET, false).await?;
    let config = Arc::new(stranger.config()?);
    unfinished_bodies(&world, webhook, &config).await?;
    idle_connections(&world, webhook, &config).await?;
    idle_probes(webhook).await?;
    let most = peak_memory(webhook)?;
    ensure!(most < WEBHOOK_MEMORY, "the webhook took {} MiB", most >> 20);
    println!("the webhook took {} MiB at most", most >> 20);
    Ok(())
}

/// 60 bodies of 8 MB that never end, from four clients at once: what they hold goes to whoever comes later, and is given back
/// within seconds.
async fn unfinished_bodies(world: &World, webhook: &Instance, config: &Arc<ClientConfig>) -> Outcome {
    let address = webhook.address();
    let senders: Vec<_> = (0..4)
        .map(|_| {
            let (address, config) = (address.clone(), Arc::clone(config));
            spawn_blocking(move || {
                let streams = (0..15).map(|_| {
                    let mut stream = tls::connect(&address, &config)?;
                    stream.write_all(head("/mutate", BODY).as_bytes())?;
                    // Ended meanwhile, it was made way for.
                    let _ = stream.write_all(&vec![b' '; BODY - 1]);
                    Ok(stream)
                });
                streams.collect::<Result<Vec<_>>>()
            })
        })
        .collect();
    let mut slowest = Duration::ZERO;
    while !senders.iter().all(tokio::task::JoinHandle::is_finished) {
        slowest = slowest.max(admission(world).await?);
    }
    let mut streams = Vec::new();
    for sender in senders {
        streams.extend(sender.await??);
    }
    ensure!(streams.len() == 60);
    println!("slowest admission beside unfinished bodies: {slowest:?}");
    counted(
        webhook,
        r#"cardgate_port_refusals_total{port="https",reason="crowded"}"#,
        1.0,
    )
    .await?;
    // The last ones fit, and get no longer than four seconds.
    counted(
        webhook,
        r#"cardgate_port_refusals_total{port="https",reason="slow"}"#,
        1.0,
    )
    .await?;
    let mut last = streams.pop().context("no stream")?;
    let mut answer = String::new();
    // Without the end of TLS, since the server does not wait for it.
    let _ = last.read_to_string(&mut answer);
    ensure!(
        answer.starts_with("HTTP/1.1 408 ") && answer.contains("send it at once"),
        "{answer}"
    );
    Ok(())
}

/// 1,500 connections without a handshake and 700 with half of the headers: the ones that came first make way.
async fn idle_connections(world: &World, webhook: &Instance, config: &Arc<ClientConfig>) -> Outcome {
    const SILENT: usize = 1500;
    const HALF: usize = 700;
    let (address, config) = (webhook.address(), Arc::clone(config));
    let began = Instant::now();
    let opened = spawn_blocking(move || {
        let silent = (0..SILENT)
            .map(|_| TcpStream::connect(&address))
            .collect::<Result<Vec<_>, _>>()?;
        let half = (0..HALF).map(|_| {
            let mut stream = tls::connect(&address, &config)?;
            stream.write_all(b"POST /mutate HTTP/1.1\r\nHost: webhook\r\nX-Slow: ")?;
            Ok(stream)
        });
        let half = half.collect::<Result<Vec<_>>>()?;
        Ok::<_, anyhow::Error>((silent, half))
    });
    let mut slowest = Duration::ZERO;
    while !opened.is_finished() {
        slowest = slowest.max(admission(world).await?);
    }
    let (silent, half) = opened.await??;
    println!(
        "slowest admission beside {} idle connections: {slowest:?}, opened in {:?}",
        SILENT + HALF,
        began.elapsed()
    );
    admission(world).await?;
    drop(silent);
    // Headers have three seconds; so all of them end, whether they were made way for or not.
    spawn_blocking(move || {
        for mut stream in half {
            let mut answer = String::new();
            let _ = stream.read_to_string(&mut answer);
            ensure!(answer.is_empty() || answer.starts_with("HTTP/1.1 408 "), "{answer}");
        }
        Ok(())
    })
    .await??;
    admission(world).await.map(|_| ())
}

/// 200 connections to the port of the probes, three times as many as it holds: the kubelet gets its answer.
async fn idle_probes(webhook: &Instance) -> Outcome {
    let address = webhook.metrics_address();
    let held = spawn_blocking(move || {
        (0..200)
            .map(|_| TcpStream::connect(&address))
            .collect::<Result<Vec<_>, _>>()
    });
    let held = held.await??;
    counted(
        webhook,
        r#"cardgate_port_refusals_total{port="diagnostics",reason="idle"}"#,
        100.0,
    )
    .await?;
    drop(held);
    Ok(())
}

/// The headers of a review of this length.
fn head(path: &str, length: usize) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nHost: webhook\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
    )
}

/// A managed pod is judged; how long that took.
async fn admission(world: &World) -> Result<Duration> {
    let pods: Api<Pod> = Api::default_namespaced(world.plane.client().await?);
    let managed = workloads::pod("honest").queue("default").build();
    let dry_run = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let began = Instant::now();
    pods.create(&dry_run, &managed)
        .await
        .context("while a port is attacked")?;
    let took = began.elapsed();
    ensure!(took < ADMISSION, "an admission took {took:?}");
    Ok(took)
}

async fn counted(program: &Instance, metric: &str, least: f64) -> Outcome {
    wait::eventually(format!("{metric} of {least}"), wait::PATIENCE, async || {
        let found = program.metric(metric).await?;
        Ok(Seen::when(
            found.is_some_and(|found| found >= least),
            format!("{found:?}"),
        ))
    })
    .await
}

/// The most memory that a program has had.
fn peak_memory(program: &Instance) -> Result<u64> {
    let pid = program.pid().context("it does not run")?;
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .context("no VmHWM")?;
    let kib: u64 = line.trim().trim_end_matches(" kB").trim().parse()?;
    Ok(kib << 10)
}
