//! What somebody without any rights can do who reaches a port: nothing that others notice.

use std::io::Write as _;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use cardgate_tests::cardgate::{Cardgate, Instance, Settings};
use cardgate_tests::controlplane::{ControlPlane, Options};
use cardgate_tests::http;
use cardgate_tests::ports::Port;
use cardgate_tests::tls::{self, Identity};
use cardgate_tests::wait::{self, Seen};
use cardgate_tests::workloads;
use cardgate_tests::world::World;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::PostParams;
use operator::certificates::{EXTENDER_CLIENT_SECRET, SERVING_SECRET};
use operator::extender::{BIND_PATH, FILTER_PATH, PRIORITIZE_PATH};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair};
use rustls::ClientConfig;
use serde_json::json;
use tokio::task::spawn_blocking;

use crate::{Outcome, slow_clients};

/// What the webhook's Deployment allows.
const WEBHOOK_MEMORY: u64 = 512 << 20;
/// Bodies of this length are just short enough for the webhook.
const BODY: usize = 8 << 20;
/// What a crowd may take of the operator's gigabyte.
pub(super) const CROWD_MEMORY: u64 = 64 << 20;
/// How long an admission may take while a port is attacked. The API server gives the webhook 5 s and refuses the pod then; the rest
/// is for a machine that is busy.
const ADMISSION: Duration = Duration::from_secs(12);

#[tokio::test]
async fn strangers_at_the_ports_of_the_webhook() -> Outcome {
    programs::ports::server::allow_open_files();
    let world = World::start().await?;
    let webhook = world.cardgate.webhook();
    let stranger = Identity::of_secret(&world.plane, SERVING_SECRET, false).await?;
    let config = Arc::new(stranger.config()?);
    unfinished_bodies(&world, webhook, &config).await?;
    idle_connections(&world, webhook, &config).await?;
    idle_probes(webhook).await?;
    let address = webhook.address();
    slow_clients::no_http2(&address, &config).await?;
    slow_clients::longest_body(&address, &config).await?;
    slow_clients::byte_by_byte(&address, &config, "/mutate", "HTTP/1.1 408 ").await?;
    let turn = slow_clients::Turn::wait().await;
    slow_clients::crowd(&turn, &address, slow_clients::HANDSHAKE, async || {
        admission(&world).await
    })
    .await?;
    drop(turn);
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
                    stream.write_all(slow_clients::head("/mutate", BODY).as_bytes())?;
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
    // Which ones they are depends on the four; all are told, but where the answer was lost beside what they still sent.
    let answers = spawn_blocking(move || {
        let answers = streams.iter_mut().map(slow_clients::last_words);
        answers.collect::<Result<Vec<_>>>()
    });
    let answers = answers.await??;
    let count = |status: &str, words: &str| {
        let told = |answer: &&String| answer.starts_with(status) && answer.contains(words);
        answers.iter().filter(told).count()
    };
    let slow = count("HTTP/1.1 408 ", "send it at once");
    let crowded = count("HTTP/1.1 503 ", "try again");
    let silent = answers.iter().filter(|answer| answer.is_empty()).count();
    ensure!(slow > 0 && slow + crowded + silent == answers.len(), "{answers:?}");
    Ok(())
}

/// The longest beginning of a handshake that is kept while more is to come: a `ClientHello` of 65,500 bytes without the last ones.
fn unfinished_hello() -> Vec<u8> {
    const RECORD: usize = 16_000;
    let message = [1, 0x00, 0xff, 0xdc]
        .into_iter()
        .chain(std::iter::repeat_n(0, 4 * RECORD - 4));
    let message: Vec<u8> = message.collect();
    let record = |part: &[u8]| [&[22, 3, 1, 0x3e, 0x80], part].concat();
    message.chunks(RECORD).flat_map(record).collect()
}

/// Opens a connection that says as much of a handshake as fits on the way.
fn silent(address: &str, hello: &[u8]) -> Result<TcpStream> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_nonblocking(true)?;
    // What does not fit is not sent.
    let _ = stream.write_all(hello);
    stream.set_nonblocking(false)?;
    Ok(stream)
}

/// 1,500 connections without a handshake and 700 with half of the headers: the ones that came first make way. Each says as much as
/// it may before it is known.
async fn idle_connections(world: &World, webhook: &Instance, config: &Arc<ClientConfig>) -> Outcome {
    const SILENT: usize = 1500;
    const HALF: usize = 700;
    const HEADERS: usize = 120_000;
    let (address, config) = (webhook.address(), Arc::clone(config));
    let began = Instant::now();
    let opened = spawn_blocking(move || {
        let hello = unfinished_hello();
        let silent = (0..SILENT)
            .map(|_| silent(&address, &hello))
            .collect::<Result<Vec<_>>>()?;
        let headers = format!(
            "POST /mutate HTTP/1.1\r\nHost: webhook\r\nX-Slow: {}",
            "x".repeat(HEADERS)
        );
        let half = (0..HALF).map(|_| {
            let mut stream = tls::connect(&address, &config)?;
            // Ended meanwhile, it was made way for.
            let _ = stream.write_all(headers.as_bytes());
            Ok(stream)
        });
        let half = half.collect::<Result<Vec<_>>>()?;
        Ok::<_, anyhow::Error>((silent, half))
    });
    let mut slowest = Duration::ZERO;
    while !opened.is_finished() {
        slowest = slowest.max(admission(world).await?);
    }
    let (mut silent, half) = opened.await??;
    println!(
        "slowest admission beside {} idle connections: {slowest:?}, opened in {:?}",
        SILENT + HALF,
        began.elapsed()
    );
    admission(world).await?;
    // The last one has kept nobody from a place: its time is over all the same.
    let last = silent.pop().context("nobody is silent")?;
    spawn_blocking(move || slow_clients::hangs_up(last)).await??;
    drop(silent);
    // Headers have three seconds; so all of them end, whether they were made way for or not.
    spawn_blocking(move || {
        for mut stream in half {
            let answer = slow_clients::last_words(&mut stream)?;
            ensure!(answer.is_empty() || answer.starts_with("HTTP/1.1 408 "), "{answer}");
        }
        Ok(())
    })
    .await??;
    admission(world).await.map(|_| ())
}

/// 200 connections to the port of the probes, three times as many as it holds: the kubelet gets its answer.
pub(super) async fn idle_probes(program: &Instance) -> Outcome {
    let address = program.metrics_address();
    let held = spawn_blocking(move || {
        (0..200)
            .map(|_| TcpStream::connect(&address))
            .collect::<Result<Vec<_>, _>>()
    });
    let held = held.await??;
    counted(
        program,
        r#"cardgate_port_refusals_total{port="diagnostics",reason="idle"}"#,
        100.0,
    )
    .await?;
    drop(held);
    Ok(())
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

pub(super) async fn counted(program: &Instance, metric: &str, least: f64) -> Outcome {
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
pub(super) fn peak_memory(program: &Instance) -> Result<u64> {
    let pid = program.pid().context("it does not run")?;
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .context("no VmHWM")?;
    let kib: u64 = line.trim().trim_end_matches(" kB").trim().parse()?;
    Ok(kib << 10)
}

/// The extender, asked by a stranger, by somebody with a certificate of another authority, and by who has the token of Volcano.
#[tokio::test]
async fn strangers_at_the_extender() -> Outcome {
    let port = Port::take()?;
    let plane = ControlPlane::start(Options::default().without_scheduler()).await?;
    let token = "token-of-volcano-0123456789";
    let token_file = plane.dir().join("token");
    std::fs::write(&token_file, token)?;
    let settings = Settings {
        operator_env: vec![
            ("EXTENDER_ADDR".to_owned(), port.address()),
            ("EXTENDER_TOKEN_FILE".to_owned(), token_file.display().to_string()),
        ],
        ..Settings::default()
    };
    Cardgate::install(&plane, &settings).await?;
    let rights = "manifests/components/scheduler-extender/operator-rbac.yaml";
    plane.kubectl().run(["apply", "-f", rights]).await?;
    let cardgate = Cardgate::run(&plane, &settings).await?;
    let operator = cardgate.operator();

    let scheduler = Identity::of_secret(&plane, EXTENDER_CLIENT_SECRET, true).await?;
    let stranger = Identity {
        own: None,
        ..scheduler.clone()
    };
    let known = scheduler.config()?;
    let filter = json!({"Pod": {"metadata": {"name": "p", "namespace": "default"}}, "NodeNames": []});
    wait::eventually("the extender to answer a scheduler", wait::PATIENCE, async || {
        let (status, text) = http::post_tls(&known, &port.address(), FILTER_PATH, &filter).await?;
        Ok(Seen::when(status == 200, text))
    })
    .await?;

    // Plain HTTP is none of its languages, and a certificate of nobody's makes no friend.
    let plain = http::post(&port.address(), BIND_PATH, &filter).await;
    ensure!(plain.is_err(), "{plain:?}");
    let forged = forged_client(&scheduler)?.config()?;
    let refused = http::post_tls(&forged, &port.address(), FILTER_PATH, &filter).await;
    let words = format!("{:?}", refused.err().context("a forged certificate is believed")?);
    ensure!(words.contains("UnknownCA") || words.contains("DecryptError"), "{words}");
    // A certificate of the right authority for servers is none for clients.
    let serving = Identity::of_secret(&plane, SERVING_SECRET, true).await?;
    let refused = http::post_tls(&serving.config()?, &port.address(), FILTER_PATH, &filter).await;
    ensure!(refused.is_err(), "{refused:?}");

    // Without one: in words, whatever is asked, and before a body is read.
    let unknown = stranger.config()?;
    for path in [
        FILTER_PATH,
        PRIORITIZE_PATH,
        BIND_PATH,
        "/volcano/predicate",
        "/volcano/allocate",
        "/",
        "/x",
    ] {
        let (status, text) = http::post_tls(&unknown, &port.address(), path, &filter).await?;
        ensure!(
            status == 401 && text.contains("Secret cardgate-extender-client"),
            "{path}: {status} {text}"
        );
    }
    for (path, authorization, expected) in [
        ("/volcano/deallocate", format!("Bearer {token}"), 200),
        ("/volcano/deallocate", format!("Bearer {token}x"), 401),
        ("/volcano/deallocate", "Bearer ".to_owned(), 401),
        // The token is Volcano's, who binds by itself.
        (BIND_PATH, format!("Bearer {token}"), 401),
        (FILTER_PATH, format!("Bearer {token}"), 401),
        ("/volcano/../scheduler/bind", format!("Bearer {token}"), 404),
    ] {
        let request = ::http::Request::post(format!("https://{}{path}", port.address()));
        let request = request
            .header("Authorization", authorization)
            .header("Content-Type", "application/json");
        let task = json!({"task": {"Pod": {"metadata": {"name": "p", "namespace": "default"}}}});
        let (status, text) = http::send(&unknown, request, serde_json::to_vec(&task)?).await?;
        ensure!(status == expected, "{path}: {status} {text}");
    }
    counted(
        operator,
        r#"cardgate_port_refusals_total{port="extender",reason="unknown"}"#,
        11.0,
    )
    .await?;
    let (address, unknown, known) = (port.address(), Arc::new(unknown), Arc::new(known));
    slow_clients::no_http2(&address, &unknown).await?;
    // Of strangers no body is read.
    slow_clients::byte_by_byte(&address, &unknown, FILTER_PATH, "HTTP/1.1 401 ").await?;
    slow_clients::byte_by_byte(&address, &known, FILTER_PATH, "HTTP/1.1 408 ").await?;
    let before = peak_memory(operator)?;
    let turn = slow_clients::Turn::wait().await;
    let asked = slow_clients::Kept::open(&address, &known)?;
    slow_clients::crowd(&turn, &address, slow_clients::HANDSHAKE, async || {
        asked.post(FILTER_PATH, &filter)
    })
    .await?;
    slow_clients::inside(&turn, &address, &unknown, async || asked.post(FILTER_PATH, &filter)).await?;
    drop(turn);
    counted(
        operator,
        r#"cardgate_port_refusals_total{port="extender",reason="idle"}"#,
        10.0,
    )
    .await?;
    let grown = peak_memory(operator)?.saturating_sub(before);
    ensure!(grown < CROWD_MEMORY, "a crowd took {} MiB of the operator", grown >> 20);
    long_bodies(operator, &address, unknown, known).await
}

/// How many requests of the extender's port were refused for this reason.
async fn refused_bodies(operator: &Instance, reason: &str) -> Result<f64> {
    let series = format!(r#"cardgate_port_refusals_total{{port="extender",reason="{reason}"}}"#);
    Ok(operator.metric(&series).await?.unwrap_or_default())
}

/// Bodies of 110 MB: of strangers nothing is read, and those of who is known share a room.
async fn long_bodies(
    operator: &Instance,
    address: &str,
    unknown: Arc<ClientConfig>,
    known: Arc<ClientConfig>,
) -> Outcome {
    const LENGTH: usize = 110 << 20;
    let before = peak_memory(operator)?;
    let slow_before = refused_bodies(operator, "slow").await?;
    // Where the machine is slow, the time is over first.
    let refusals = [
        (unknown, ["HTTP/1.1 401 "; 2]),
        (known, ["HTTP/1.1 413 ", "HTTP/1.1 408 "]),
    ];
    for (config, expected) in refusals {
        let address = address.to_owned();
        let answers = spawn_blocking(move || {
            let piece = vec![b' '; 1 << 20];
            let answers = (0..3).map(|_| {
                let mut stream = tls::connect(&address, &config)?;
                stream.write_all(slow_clients::head(FILTER_PATH, LENGTH).as_bytes())?;
                // Whoever is refused is hung up on.
                let _ = (0..LENGTH / piece.len()).try_for_each(|_| stream.write_all(&piece));
                slow_clients::last_words(&mut stream)
            });
            answers.collect::<Result<Vec<_>>>()
        });
        for answer in answers.await?? {
            // The answer may be lost where the client still writes into a connection that has ended.
            ensure!(
                answer.is_empty() || expected.iter().any(|status| answer.starts_with(status)),
                "{answer}"
            );
        }
    }
    wait::eventually("three bodies to be too large or too slow", wait::PATIENCE, async || {
        let too_large = refused_bodies(operator, "too-large").await?;
        let slow = refused_bodies(operator, "slow").await? - slow_before;
        Ok(Seen::when(
            too_large + slow >= 3.0,
            format!("{too_large} too large, {slow} too slow"),
        ))
    })
    .await?;
    let grown = peak_memory(operator)?.saturating_sub(before);
    println!(
        "the operator grew by {} MiB at most, from {} MiB",
        grown >> 20,
        before >> 20
    );
    ensure!(grown < 300 << 20, "the operator grew by {} MiB", grown >> 20);
    Ok(())
}

/// A client with a certificate like the scheduler's, of an authority of its own.
fn forged_client(like: &Identity) -> Result<Identity> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::new(vec!["scheduler.cardgate-system.svc".to_owned()])?;
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let certificate = params.signed_by(&key, &authority)?;
    Ok(Identity {
        own: Some((certificate.pem().into_bytes(), key.serialize_pem().into_bytes())),
        ..like.clone()
    })
}
