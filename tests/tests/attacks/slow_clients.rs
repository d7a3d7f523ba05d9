//! Clients that cost a port more than they pay: a crowd that says nothing, requests that come byte by byte, bodies as long as
//! may be, and HTTP/2. Each is asked of a port that somebody honest uses meanwhile.

use std::io::{ErrorKind, Read, Write as _};
use std::net::TcpStream;
use std::sync::{Arc, Mutex as StdMutex, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use cardgate_tests::tls::{self, Stream};
use rustls::ClientConfig;
use serde_json::{Value, json};
use tokio::sync::{Mutex, MutexGuard};
use tokio::task::{JoinHandle, spawn_blocking};

use crate::Outcome;

/// Connections of a crowd. The port holds a part of them at a time; the others wait in the kernel or are ended.
const CROWD: usize = 10_000;
/// How many of them a program's port must take, whatever it does with them afterwards: fewer would be no attack.
const AT_LEAST: usize = CROWD / 2;
/// How long they may take to come in.
const COMES_WITHIN: Duration = Duration::from_secs(45);
/// How long the first of them may take, without whom it is no attack, where the machine is slow.
const COMES_AT_MOST: Duration = Duration::from_secs(135);
/// How long one of them tries to come in, where the kernel's own line is full.
const PATIENCE: Duration = Duration::from_millis(200);
/// Headers have three seconds and bodies four, however lively they come; the rest is for a machine that is busy.
const SLOWEST: Duration = Duration::from_secs(9);
/// Between two bytes: far less than any wait for the next one could notice.
const PAUSE: Duration = Duration::from_millis(20);

/// The first byte of a handshake of TLS.
pub(super) const HANDSHAKE: &[u8] = &[0x16];

/// Whose turn it is to send a crowd: it takes most of the files that this program may open, so there is one at a time.
pub(super) struct Turn(#[expect(dead_code, reason = "held, not looked at")] MutexGuard<'static, ()>);

impl Turn {
    /// Waits for it. What is kept open for a crowd is opened after that: ports end who is idle for long.
    pub(super) async fn wait() -> Self {
        static CROWDS: Mutex<()> = Mutex::const_new(());
        Self(CROWDS.lock().await)
    }
}

/// The headers of a request of this length.
pub(super) fn head(path: &str, length: usize) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nHost: webhook\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
    )
}

/// Ten thousand connections that stay open as long as the port lets them, each with the first bytes of what the port speaks.
/// `honest` does what the port is for, and says how long it took.
pub(super) async fn crowd(
    _turn: &Turn,
    address: &str,
    first: &'static [u8],
    honest: impl AsyncFn() -> Result<Duration>,
) -> Outcome {
    let socket = address.parse().context("no address")?;
    let began = Instant::now();
    let opened: JoinHandle<Vec<TcpStream>> = spawn_blocking(move || {
        let open = || {
            let mut stream = TcpStream::connect_timeout(&socket, PATIENCE).ok()?;
            // Ended meanwhile, it has cost what it could.
            let _ = stream.write_all(first);
            Some(stream)
        };
        let mut crowd = Vec::new();
        for _ in 0..CROWD {
            let is_attack = crowd.len() >= AT_LEAST;
            // Who waits for a port that takes nobody any more waits no longer than this.
            let limit = if is_attack { COMES_WITHIN } else { COMES_AT_MOST };
            if began.elapsed() >= limit {
                break;
            }
            crowd.extend(open());
        }
        crowd
    });
    let mut slowest = Duration::ZERO;
    while !opened.is_finished() {
        slowest = slowest.max(honest().await.context("while a crowd comes")?);
    }
    let crowd = opened.await?;
    slowest = slowest.max(honest().await.context("beside a crowd")?);
    println!(
        "beside {} idle connections, which came within {:?}: {slowest:?} at most",
        crowd.len(),
        began.elapsed()
    );
    ensure!(crowd.len() >= AT_LEAST, "{} of {CROWD} came in", crowd.len());
    drop(crowd);
    honest().await.context("after a crowd").map(|_| ())
}

/// Connections of strangers who end the handshake and ask nothing.
const INSIDE: usize = 600;
/// How many strangers there are, each of whom opens them one by one.
const STRANGERS: usize = 4;

/// A crowd that gets as far as TLS goes and says no more, while somebody honest asks all the time.
pub(super) async fn inside(
    _turn: &Turn,
    address: &str,
    config: &Arc<ClientConfig>,
    honest: impl AsyncFn() -> Result<Duration>,
) -> Outcome {
    let strangers: Vec<_> = (0..STRANGERS)
        .map(|_| {
            let (address, config) = (address.to_owned(), Arc::clone(config));
            spawn_blocking(move || {
                let streams = (0..INSIDE / STRANGERS).map(|_| {
                    let mut stream = tls::connect(&address, &config)?;
                    // Ended meanwhile, it was made way for.
                    let _ = stream.conn.complete_io(&mut stream.sock);
                    Ok(stream)
                });
                streams.collect::<Result<Vec<_>>>()
            })
        })
        .collect();
    let mut slowest = Duration::ZERO;
    while !strangers.iter().all(JoinHandle::is_finished) {
        slowest = slowest.max(honest().await.context("while strangers come in")?);
        // What is idle for a moment may be ended: it is asked again before as many strangers have come as the port holds.
        tokio::time::sleep(PAUSE).await;
    }
    println!("beside {INSIDE} strangers: {slowest:?} at most");
    for stranger in strangers {
        drop(stranger.await??);
    }
    Ok(())
}

/// A connection that is kept for one request after the other, as API servers and schedulers keep theirs: whoever comes anew while
/// the kernel's line is full waits with the crowd.
pub(super) struct Kept(StdMutex<Stream>);

impl Kept {
    pub(super) fn open(address: &str, config: &Arc<ClientConfig>) -> Result<Self> {
        Ok(Self(StdMutex::new(tls::connect(address, config)?)))
    }

    /// Asks, and says how long the answer took.
    pub(super) fn post(&self, path: &str, body: &Value) -> Result<Duration> {
        let mut stream = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let body = serde_json::to_vec(body)?;
        let began = Instant::now();
        stream.write_all(head(path, body.len()).as_bytes())?;
        stream.write_all(&body)?;
        let mut answer = [0; 8192];
        let length = stream.read(&mut answer)?;
        let answer = String::from_utf8_lossy(&answer[..length]);
        ensure!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        Ok(began.elapsed())
    }
}

/// Headers byte by byte, and (where `body` says what answers to it begin with) a body: a byte now and then buys no time.
pub(super) async fn byte_by_byte(
    address: &str,
    config: &Arc<ClientConfig>,
    path: &'static str,
    body: &'static str,
) -> Outcome {
    let (address, config) = (address.to_owned(), Arc::clone(config));
    spawn_blocking(move || {
        let endless = format!("POST {path} HTTP/1.1\r\nHost: cardgate\r\nX-Slow: {}", "x".repeat(4096));
        let (answer, took) = trickle(tls::connect(&address, &config)?, endless.as_bytes())?;
        ensure!(took < SLOWEST, "headers came for {took:?}");
        ensure!(answer.is_empty() || answer.starts_with("HTTP/1.1 408 "), "{answer}");
        let mut stream = tls::connect(&address, &config)?;
        stream.write_all(head(path, 4096).as_bytes())?;
        let (answer, took) = trickle(stream, &[b' '; 4095])?;
        ensure!(took < SLOWEST, "a body came for {took:?}");
        ensure!(answer.is_empty() || answer.starts_with(body), "{answer}");
        Ok(())
    })
    .await?
}

/// Writes a byte at a time until the other side has had enough; what it said, and how long that took.
fn trickle(mut stream: Stream, bytes: &[u8]) -> Result<(String, Duration)> {
    let began = Instant::now();
    stream.flush()?;
    stream.sock.set_read_timeout(Some(PAUSE))?;
    let mut answer = Vec::new();
    for byte in bytes {
        if stream.write_all(&[*byte]).and_then(|()| stream.flush()).is_err() {
            break;
        }
        let mut piece = [0; 1024];
        match stream.read(&mut piece) {
            Ok(0) => break,
            Ok(length) => answer.extend_from_slice(&piece[..length]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => sleep(PAUSE),
            Err(_) => break,
        }
    }
    Ok((String::from_utf8_lossy(&answer).into_owned(), began.elapsed()))
}

/// A review as long as may be is answered, and one byte more is refused.
pub(super) async fn longest_body(address: &str, config: &Arc<ClientConfig>) -> Outcome {
    let review = json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "1",
            "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "resource": {"group": "", "version": "v1", "resource": "pods"},
            "name": "long",
            "namespace": "default",
            "operation": "CREATE",
            "userInfo": {"username": "somebody"},
            "object": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "long"}, "spec": {"containers": []}},
        },
    });
    let longest = webhook::server::MAX_BODY;
    for (length, status) in [(longest, 200), (longest + 1, 413)] {
        let mut body = serde_json::to_vec(&review)?;
        body.resize(length, b' ');
        let request =
            http::Request::post(format!("https://{address}/mutate")).header("Content-Type", "application/json");
        let (found, text) = cardgate_tests::http::send(config, request, body).await?;
        ensure!(found == status, "{length} bytes: {found} {text}");
    }
    Ok(())
}

/// What a port says until it ends the connection, which it must within the time that it leaves anybody.
pub(super) fn last_words(stream: &mut Stream) -> Result<String> {
    stream.sock.set_read_timeout(Some(SLOWEST))?;
    until_the_end(stream)
}

/// Waits until the port hangs up on somebody who does not even begin a handshake, which it must within the same time.
pub(super) fn hangs_up(mut silent: TcpStream) -> Outcome {
    silent.set_read_timeout(Some(SLOWEST))?;
    until_the_end(&mut silent).map(drop)
}

fn until_the_end(stream: &mut impl Read) -> Result<String> {
    let mut answer = Vec::new();
    match stream.read_to_end(&mut answer) {
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
            bail!("the connection lasts longer than {SLOWEST:?}")
        }
        // Without the end of TLS, since the server does not wait for it.
        _ => Ok(String::from_utf8_lossy(&answer).into_owned()),
    }
}

/// HTTP/2 is not offered, so nobody can open streams without end or take them back: who speaks nothing else gets no handshake, and
/// who begins it without asking is hung up on.
pub(super) async fn no_http2(address: &str, config: &Arc<ClientConfig>) -> Outcome {
    let (address, config) = (address.to_owned(), Arc::clone(config));
    spawn_blocking(move || {
        let offering = |protocols: &[&[u8]]| {
            let mut config = ClientConfig::clone(&config);
            config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
            tls::connect(&address, &Arc::new(config))
        };
        let mut only = offering(&[b"h2"])?;
        let refused = only.write_all(b"PRI").and_then(|()| only.read(&mut [0; 64]));
        ensure!(refused.is_err(), "a client of HTTP/2 alone is let in");
        let words = format!("{:?}", refused.err());
        ensure!(words.contains("NoApplicationProtocol"), "{words}");

        let mut both = offering(&[b"h2", b"http/1.1"])?;
        both.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")?;
        let answer = last_words(&mut both)?;
        ensure!(
            both.conn.alpn_protocol() == Some(b"http/1.1"),
            "{:?}",
            both.conn.alpn_protocol()
        );
        ensure!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{answer}");
        Ok(())
    })
    .await?
}
