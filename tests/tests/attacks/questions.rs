//! Questions without end: a tenant who asks why something waits, again and again, keeps nobody from being let in, and nobody else from
//! an answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use cardgate_tests::nodes;
use cardgate_tests::scenario::Scenario;
use cardgate_tests::tally::Tally;
use cardgate_tests::wait::{self, Seen};
use cardgate_tests::workloads::queue;
use cardgate_tests::world::World;
use crds::card_review::{CardReview, CardReviewSpec};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, PostParams};
use kube::{Api, Client};

use crate::Outcome;

/// Pods of the one who asks: each answer looks at all of them.
const PODS: i32 = 1_500;
/// The queue of others, which has room.
const OTHERS: &str = "endless-others";
/// Questions on their way at once.
const AT_ONCE: usize = 32;
/// How long they come.
const LASTS: Duration = Duration::from_secs(15);
/// The share of the mind's time that questions may take, with what a machine that is busy adds to it.
const SHARE: f64 = 0.25;

async fn ask(user: &Client, namespace: &str) -> Result<(), String> {
    let reviews: Api<CardReview> = Api::namespaced(user.clone(), namespace);
    let pod = Some("asked".to_owned());
    let mut review = CardReview::new(
        "why",
        CardReviewSpec {
            pod,
            ..CardReviewSpec::default()
        },
    );
    review.metadata.namespace = Some(namespace.to_owned());
    let dry_run = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    reviews
        .create(&dry_run, &review)
        .await
        .map(drop)
        .map_err(|error| error.to_string())
}

#[tokio::test]
async fn questions_without_end_delay_nobody_and_keep_nobody_else_from_an_answer() -> Outcome {
    let world = World::start().await?;
    let scenario = Scenario::begin(&world, "endless").await?;
    let card = scenario.card("NVIDIA-A100");
    scenario.nodes(&[nodes::nvidia("endless", &card, 8, 81_920)]).await?;
    scenario.apply_queue(scenario.queue().quota(&card, 4)).await?;
    world.plane.apply(&queue(OTHERS).quota(&card, 4).build()).await?;
    // One holds what the others wait for.
    scenario.create(&scenario.gpu_pod("holder", &card, 4).build()).await?;
    scenario.expect("holder", &Tally::none().running(&card, 1)).await?;
    scenario.create(&scenario.gpu_pod("asked", &card, 1).build()).await?;
    scenario
        .create(&scenario.gpu_pod("many", &card, 1).deployment(PODS))
        .await?;
    let pods = scenario.api::<Pod>();
    wait::eventually("the pods to be there", Duration::from_mins(2), async || {
        let there = pods.list_metadata(&kube::api::ListParams::default()).await?.items.len();
        Ok(Seen::when(there >= PODS as usize, there.to_string()))
    })
    .await?;
    world.plane.grant("dora", "edit", "endless").await?;
    world.plane.create_namespace("patient", &[], &[]).await?;
    world.plane.grant("paul", "edit", "patient").await?;
    let (dora, paul) = (
        world.plane.client_of_user("dora").await?,
        world.plane.client_of_user("paul").await?,
    );
    wait::eventually("an answer", wait::PATIENCE, async || {
        Ok(match ask(&dora, "endless").await {
            Ok(()) => Seen::Done(()),
            Err(error) => Seen::NotYet(error),
        })
    })
    .await?;

    let (ends, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let refused = Arc::new(AtomicUsize::new(0));
    let spent = async || {
        let spent = world
            .cardgate
            .operator()
            .metric(r#"cardgate_round_duration_seconds_sum{step="review"}"#)
            .await?;
        anyhow::Ok(spent.unwrap_or_default())
    };
    let (began, before) = (Instant::now(), spent().await?);
    let askers: Vec<_> = (0..AT_ONCE)
        .map(|_| {
            let (dora, ends, answered, refused) = (
                dora.clone(),
                Arc::clone(&ends),
                Arc::clone(&answered),
                Arc::clone(&refused),
            );
            tokio::spawn(async move {
                while !ends.load(Ordering::Relaxed) {
                    let counted = match ask(&dora, "endless").await {
                        Ok(()) => &answered,
                        Err(_) => &refused,
                    };
                    counted.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    // Others go on: pods come in, and questions of others are answered.
    let mut slowest = Duration::ZERO;
    let mut others = 0;
    while began.elapsed() < LASTS {
        let name = format!("other-{others}");
        scenario
            .create(&scenario.gpu_pod(&name, &card, 1).queue(OTHERS).build())
            .await?;
        let came = Instant::now();
        scenario.expect(&name, &Tally::none().running(&card, 1)).await?;
        slowest = slowest.max(came.elapsed());
        pods.delete(&name, &DeleteParams::default()).await?;
        let words = ask(&paul, "patient").await.err().unwrap_or_default();
        ensure!(words.contains("is not known in namespace patient"), "{words}");
        others += 1;
    }
    let share = (spent().await? - before) / began.elapsed().as_secs_f64();
    ends.store(true, Ordering::Relaxed);
    for asker in askers {
        asker.await?;
    }
    let (answered, refused) = (answered.load(Ordering::Relaxed), refused.load(Ordering::Relaxed));
    println!(
        "{answered} answers and {refused} refusals took {:.0} % of the mind's time; {others} others came in within {slowest:?}",
        share * 100.0
    );
    ensure!(share < SHARE, "answers take {share} of the mind's time");
    ensure!(
        answered > 0 && refused > 0,
        "{answered} answers, {refused} refusals: nobody asks too often"
    );
    Ok(())
}
