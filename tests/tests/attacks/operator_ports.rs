//! What somebody without any rights can do who reaches a port of the operator: nothing that kubelets, Prometheus and people notice.

use std::io::Write as _;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use cardgate_tests::cardgate::Instance;
use cardgate_tests::wait::{self, Seen};
use cardgate_tests::world::World;
use crds::card_review::{CardReview, CardReviewSpec};
use kube::api::PostParams;
use kube::{Api, Client};
use tokio::task::spawn_blocking;

use crate::ports::{CROWD_MEMORY, counted, idle_probes, peak_memory};
use crate::{Outcome, slow_clients};

/// The first bytes of a request over plain HTTP.
const PLAIN: &[u8] = b"GET /met";
/// How long an answer to a review may take. The API server gives the operator 5 s; the rest is for a machine that is busy.
const REVIEW: Duration = Duration::from_secs(15);

#[tokio::test]
async fn strangers_at_the_ports_of_the_operator() -> Outcome {
    programs::ports::server::allow_open_files();
    let world = World::start().await?;
    let operator = world.cardgate.operator();
    world.plane.create_namespace("asking", &[], &[]).await?;
    world.plane.grant("dora", "edit", "asking").await?;
    let dora = world.plane.client_of_user("dora").await?;
    wait::eventually("an answer", wait::PATIENCE, async || {
        ask(&dora).await?;
        Ok(Seen::Done(()))
    })
    .await?;

    let before = peak_memory(operator)?;
    idle_probes(operator).await?;
    unread_answers(operator).await?;
    let turn = slow_clients::Turn::wait().await;
    for address in [operator.metrics_address(), operator.health_address()] {
        slow_clients::crowd(&turn, &address, PLAIN, async || probe(operator).await).await?;
    }
    slow_clients::crowd(&turn, &operator.address(), slow_clients::HANDSHAKE, async || {
        ask(&dora).await
    })
    .await?;
    drop(turn);
    let grown = peak_memory(operator)?.saturating_sub(before);
    ensure!(
        grown < CROWD_MEMORY,
        "strangers took {} MiB of the operator",
        grown >> 20
    );
    println!("the operator grew by {} MiB at most", grown >> 20);
    ensure!(
        operator.metric("cardgate_leader").await? == Some(1.0),
        "the operator has lost its Lease"
    );
    Ok(())
}

/// What a kubelet asks, by a connection of its own each time, and how long the answer took.
async fn probe(operator: &Instance) -> Result<Duration> {
    let began = Instant::now();
    let (status, text) = operator.health().await?;
    ensure!(status == 200, "{status} {text}");
    Ok(began.elapsed())
}

/// A review, asked by a user of one namespace. Nothing of that name is there: that is an answer as good as any.
async fn ask(user: &Client) -> Result<Duration> {
    let reviews: Api<CardReview> = Api::namespaced(user.clone(), "asking");
    let pod = Some("nobody".to_owned());
    let mut review = CardReview::new(
        "why",
        CardReviewSpec {
            pod,
            ..CardReviewSpec::default()
        },
    );
    review.metadata.namespace = Some("asking".to_owned());
    let dry_run = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let began = Instant::now();
    let answered = reviews.create(&dry_run, &review).await;
    let words = answered
        .err()
        .context("a pod that is not there is explained")?
        .to_string();
    ensure!(words.contains("is not known in namespace asking"), "{words}");
    let took = began.elapsed();
    ensure!(took < REVIEW, "an answer took {took:?}");
    Ok(took)
}

/// 500 requests for metrics whose answers nobody reads: they keep no more than the connections that the port holds.
async fn unread_answers(operator: &Instance) -> Outcome {
    let address = operator.metrics_address();
    let held = spawn_blocking(move || {
        let open = |_| {
            let mut stream = TcpStream::connect(&address)?;
            stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: cardgate\r\n\r\n")?;
            anyhow::Ok(stream)
        };
        (0..500).map(open).collect::<Result<Vec<_>>>()
    });
    let held = held.await??;
    probe(operator).await?;
    drop(held);
    counted(
        operator,
        r#"cardgate_port_refusals_total{port="diagnostics",reason="idle"}"#,
        100.0,
    )
    .await
}
