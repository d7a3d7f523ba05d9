//! What is said of when a pod may be let in, beside when it then is.

use std::time::{Duration, Instant};

use cardgate_tests::nodes;
use cardgate_tests::scenario::Scenario;
use cardgate_tests::wait::{self, Seen};
use cardgate_tests::world::World;
use crds::keys::CARD_REQUEST;
use futures::future::try_join_all;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

use crate::reviews::ask;
use crate::{NO_QUOTA, Outcome, pods};

/// After how many seconds the Jobs that have the cards are ended, by Kubernetes' own controller, once all of them run.
const DEADLINES: [u64; 3] = [30, 45, 60];
/// How much earlier than said a pod may be let in: seconds are rounded down at both ends.
const EARLY: Duration = Duration::from_secs(2);
/// How much later: Jobs' controller ends the pods after the deadline, and kubelets after that. Less than from the first deadline to the
/// last one.
const LATE: Duration = Duration::from_secs(20);

/// When a pod is seen without its gate.
async fn let_in(scenario: &Scenario<'_>, name: &str) -> anyhow::Result<Instant> {
    let pods = scenario.api::<Pod>();
    let limit = Duration::from_secs(DEADLINES.iter().sum()) + LATE;
    wait::eventually(format!("{name} to be let in"), limit, async || {
        let spec = pods.get(name).await?.spec;
        let gates = spec.and_then(|spec| spec.scheduling_gates).unwrap_or_default();
        Ok(Seen::when(gates.is_empty(), format!("{gates:?}")))
    })
    .await?;
    Ok(Instant::now())
}

#[tokio::test]
async fn a_pod_is_let_in_when_it_was_said() -> Outcome {
    let scenario = Scenario::begin(World::shared().await?, "estimates").await?;
    let card = scenario.card("NVIDIA-A100");
    scenario.nodes(&[nodes::nvidia("estimates", &card, 8, 81_920)]).await?;
    let quota = DEADLINES.len() as u64;
    scenario.apply_queue(scenario.queue().quota(&card, quota)).await?;
    let mut started = Vec::new();
    for deadline in DEADLINES {
        let name = format!("for-{deadline}");
        // The machine's kubelets end pods at once; a grace period is part of what is said.
        let pod = scenario.gpu_pod(&name, &card, 1);
        let pod = pod.spec(|spec| spec.termination_grace_period_seconds = Some(1));
        let mut job = pod.annotation("pod-complete.stage.kwok.x-k8s.io/delay", "1h").job(1);
        // Those that ask in advance are watched.
        let annotations = job.metadata.annotations.get_or_insert_default();
        annotations.insert(CARD_REQUEST.to_owned(), json!({ &card: 1 }).to_string());
        let begin = Instant::now();
        scenario.create(&job).await?;
        scenario.expect(&name, &pods().running(&card, 1)).await?;
        started.push((name, deadline, begin));
    }
    for (name, deadline, begin) in started {
        let deadline = begin.elapsed().as_secs() + deadline;
        let changed = json!({ "spec": { "activeDeadlineSeconds": deadline } });
        scenario.change::<Job>(&name, changed).await?;
    }

    let kubectl = scenario.plane().kubectl();
    let mut said = Vec::new();
    for waiting in 0..DEADLINES.len() {
        let name = format!("waits-{waiting}");
        scenario.create(&scenario.gpu_pod(&name, &card, 1).build()).await?;
        scenario.waits(&name, NO_QUOTA).await?;
        let estimate = wait::eventually("an estimate", wait::PATIENCE, async || {
            let asked = Instant::now();
            let said = ask(kubectl, scenario.name(), json!({ "pod": name })).await?;
            Ok(match said {
                Ok(status) if status.estimate.is_some() => Seen::Done((asked, status.estimate)),
                other => Seen::NotYet(format!("{other:?}")),
            })
        })
        .await?;
        let (asked, Some(estimate)) = estimate else {
            anyhow::bail!("{name}: no estimate")
        };
        anyhow::ensure!(estimate.basis.contains("activeDeadlineSeconds"), "{}", estimate.basis);
        said.push((name, asked + Duration::from_secs(estimate.seconds.try_into()?)));
    }

    let all = said.iter().map(async |(name, then)| {
        let seen = let_in(&scenario, name).await?;
        let (early, late) = (
            then.saturating_duration_since(seen),
            seen.saturating_duration_since(*then),
        );
        println!("{name}: {early:.1?} earlier, {late:.1?} later than was said");
        anyhow::ensure!(
            early <= EARLY && late <= LATE,
            "{name}: {early:?} earlier, {late:?} later"
        );
        Ok(())
    });
    try_join_all(all).await?;
    Ok(())
}
