//! What happens while parts of Cardgate are down, restarted, or there twice, or while the API server does not answer. Each test has a control
//! plane of its own.

mod unanswered_writes;

use std::time::Duration;

use cardgate_tests::cardgate::{Cardgate, Instance};
use cardgate_tests::controlplane::{ControlPlane, Options};
use cardgate_tests::nodes;
use cardgate_tests::scenario::Scenario;
use cardgate_tests::tally::{NO_CARD, Tally};
use cardgate_tests::wait::{self, Seen};
use cardgate_tests::workloads::{pod, queue};
use cardgate_tests::world::World;
use crds::keys;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, ListParams, PostParams};

type Outcome = anyhow::Result<()>;

/// The reason of pods that wait for quota.
const NO_QUOTA: &str = "InsufficientScalarQuota";
/// Longer than an operator that leads takes to let in who can be.
const A_WHILE: Duration = Duration::from_secs(3);
/// Cards of the cluster, all of one kind.
const CARDS: u64 = 32;
/// Cards of the queue.
const QUOTA: usize = 20;

/// A queue with 20 of 32 cards.
async fn burst(world: &World) -> anyhow::Result<(Scenario<'_>, String)> {
    let scenario = Scenario::begin(world, "burst").await?;
    let card = scenario.card("NVIDIA-A100");
    let specs: Vec<_> = (0..CARDS / 8)
        .map(|index| nodes::nvidia(&format!("burst-{index}"), &card, 8, 81_920))
        .collect();
    scenario.nodes(&specs).await?;
    scenario
        .apply_queue(scenario.queue().quota(&card, QUOTA as u64))
        .await?;
    Ok((scenario, card))
}

/// Waits until at least this many pods of the burst hold a card.
async fn await_admitted(scenario: &Scenario<'_>, count: usize) -> Outcome {
    let pods = scenario.api::<Pod>();
    wait::eventually(format!("{count} admitted pods"), wait::PATIENCE, async || {
        let list = pods.list(&ListParams::default()).await?.items;
        let admitted = list.iter().filter(|pod| !cardgate_tests::tally::is_gated(pod)).count();
        Ok(Seen::when(admitted >= count, format!("{admitted} of {}", list.len())))
    })
    .await
}

async fn leads(instance: &Instance) -> anyhow::Result<bool> {
    Ok(instance.metric("cardgate_leader").await? == Some(1.0))
}

#[tokio::test]
async fn an_operator_that_is_killed_between_decisions_goes_on_where_it_was() -> Outcome {
    const PODS: usize = 30;
    let world = World::start().await?;
    let (scenario, card) = burst(&world).await?;
    let operator = world.cardgate.operator();
    scenario
        .create(&scenario.gpu_pod("web", &card, 1).deployment(30))
        .await?;
    // Three times in the middle of it, without warning.
    for admitted in [1, 6, 12] {
        await_admitted(&scenario, admitted).await?;
        operator.restart().await?;
    }
    let expected = Tally::none().running(&card, QUOTA).waiting(NO_QUOTA, PODS - QUOTA);
    scenario.expect_for_good("web", &expected).await?;

    // What happens while there is no operator is seen when there is one again: a pod that came, and quota that was freed.
    operator.kill()?;
    scenario.create(&scenario.gpu_pod("late", &card, 1).build()).await?;
    operator.start()?;
    scenario.expect("late", &Tally::none().waiting(NO_QUOTA, 1)).await?;
    scenario.expect_for_good("web", &expected).await?;
    operator.kill()?;
    scenario.delete::<Deployment>("web").await?;
    scenario.expect("web", &Tally::none()).await?;
    operator.start()?;
    scenario.expect("late", &Tally::none().running(&card, 1)).await
}

#[tokio::test]
async fn what_ran_before_cardgate_came_is_charged_and_left_alone() -> Outcome {
    let plane = ControlPlane::start(Options::default()).await?;
    let card = "NVIDIA-A100";
    plane.create_nodes(&[nodes::nvidia("before", card, 8, 81_920)]).await?;
    let pods: Api<Pod> = Api::default_namespaced(plane.client().await?);
    let before = |name: &str| {
        pod(name)
            .queue("team-a")
            .card(card)
            .request("nvidia.com/gpu", 3)
            .build()
    };
    for name in ["before-1", "before-2"] {
        pods.create(&PostParams::default(), &before(name)).await?;
        plane
            .await_pods("default", name, &Tally::none().running(NO_CARD, 1))
            .await?;
    }
    let cardgate = Cardgate::start(&plane).await?;
    plane.apply(&queue("team-a").quota(card, 5).build()).await?;
    pods.create(
        &PostParams::default(),
        &pod("after")
            .queue("team-a")
            .card(card)
            .request("nvidia.com/gpu", 1)
            .build(),
    )
    .await?;

    // 6 of 5 are in use: nobody is evicted, and nobody let in until usage is below the quota again.
    plane
        .await_pods("default", "after", &Tally::none().waiting(NO_QUOTA, 1))
        .await?;
    let allocated = format!("volcano_queue_card_allocated{{queue_name=\"team-a\",card=\"{card}\"}}");
    wait::eventually("6 allocated cards", wait::PATIENCE, async || {
        let now = cardgate.operator().metric(&allocated).await?;
        Ok(Seen::when(now == Some(6.0), format!("{now:?}")))
    })
    .await?;
    for name in ["before-1", "before-2"] {
        plane
            .await_pods("default", name, &Tally::none().running(NO_CARD, 1))
            .await?;
    }
    pods.delete("before-1", &DeleteParams::default()).await?;
    plane
        .await_pods("default", "after", &Tally::none().running(card, 1))
        .await
}

#[tokio::test]
async fn a_queue_that_got_past_the_door_unreadable_is_reported_and_stops_no_other() -> Outcome {
    let world = World::start().await?;
    let (scenario, card) = burst(&world).await?;
    let kubectl = world.plane.kubectl();
    kubectl
        .run(["delete", "validatingwebhookconfiguration", "cardgate"])
        .await?;
    let bad = queue("bad")
        .annotation(keys::CARD_QUOTA, r#"{"A100": 1, "A100": 2}"#)
        .build();
    // The API server forgets the configuration some time after it is gone.
    wait::eventually("the queue to be taken", wait::PATIENCE, async || {
        world.plane.apply(&bad).await?;
        Ok(Seen::Done(()))
    })
    .await?;
    let in_bad = scenario.gpu_pod("in-bad", &card, 1).queue("bad").build();
    scenario.create(&in_bad).await?;
    let condition = scenario.waits("in-bad", "QueueInvalid").await?;
    let message = condition.message.unwrap_or_default();
    for part in ["queue bad can't be used as it is", "\"A100\" appears twice"] {
        assert!(message.contains(part), "{part:?} is missing: {message}");
    }
    scenario.create(&scenario.gpu_pod("in-good", &card, 1).build()).await?;
    scenario.expect("in-good", &Tally::none().running(&card, 1)).await?;
    wait::eventually("the usage to say so", wait::PATIENCE, async || {
        let shown = kubectl.run(["get", "cardusage", "bad", "--no-headers"]).await?;
        Ok(Seen::when(shown.contains("QueueInvalid"), shown))
    })
    .await?;
    world.plane.apply(&queue("bad").quota(&card, 1).build()).await?;
    scenario.expect("in-bad", &Tally::none().running(&card, 1)).await
}

#[tokio::test]
async fn while_the_webhook_is_down_managed_pods_are_refused_and_nothing_else_is() -> Outcome {
    let world = World::start().await?;
    let (scenario, card) = burst(&world).await?;
    world.cardgate.webhook().kill()?;

    let managed = scenario.gpu_pod("managed", &card, 1).build();
    let refused = format!("{:#}", scenario.create(&managed).await.unwrap_err());
    assert!(refused.contains("pods.card.volcano.sh"), "{refused}");
    scenario
        .create(&scenario.gpu_pod("web", &card, 1).deployment(2))
        .await?;

    // In namespaces old and new, Cardgate's own and Kubernetes' own: what has nothing to do with cards comes and runs.
    world.plane.create_namespace("bystander", &[], &[]).await?;
    for namespace in ["default", "bystander", "kube-system"] {
        let client = world.plane.client().await?;
        let parameters = PostParams::default();
        let plain = |name: &str| pod(name).namespace(namespace).request("cpu", "100m");
        Api::<Pod>::namespaced(client.clone(), namespace)
            .create(&parameters, &plain("bare").build())
            .await?;
        Api::<Deployment>::namespaced(client.clone(), namespace)
            .create(&parameters, &plain("many").deployment(3))
            .await?;
        let jobs: Api<Job> = Api::namespaced(client, namespace);
        jobs.create(&parameters, &plain("once").job(2)).await?;
        world
            .plane
            .await_pods(namespace, "bare", &Tally::none().running(NO_CARD, 1))
            .await?;
        world
            .plane
            .await_pods(namespace, "many", &Tally::none().running(NO_CARD, 3))
            .await?;
        wait::object(&jobs, "once", "two completions", |job| {
            let succeeded = job.and_then(|job| job.status.as_ref()?.succeeded).unwrap_or_default();
            Seen::when(succeeded == 2, format!("{succeeded} succeeded"))
        })
        .await?;
    }

    // Pods that are admitted already live on, and the refused Deployment recovers by itself.
    scenario.expect("web", &Tally::none()).await?;
    world.cardgate.webhook().start()?;
    scenario.expect("web", &Tally::none().running(&card, 2)).await
}

#[tokio::test]
async fn of_two_operators_one_leads_and_the_other_takes_over() -> Outcome {
    let world = World::start().await?;
    let first = world.cardgate.operator();
    let second = world.cardgate.another_operator(&world.plane, 2).await?;
    let (scenario, card) = burst(&world).await?;
    wait::eventually("the first to lead alone", wait::PATIENCE, async || {
        let both = (leads(first).await?, leads(&second).await?);
        Ok(Seen::when(both == (true, false), format!("{both:?}")))
    })
    .await?;
    scenario
        .create(&scenario.gpu_pod("web", &card, 1).deployment(12))
        .await?;
    await_admitted(&scenario, 1).await?;

    // On SIGTERM the Lease is given back, so that the other need not wait until it expires: 10 s at least after a renewal.
    first.terminate().await?;
    wait::eventually("the second to lead", Duration::from_secs(9), async || {
        Ok(Seen::when(leads(&second).await?, "it does not"))
    })
    .await?;
    scenario.expect("web", &Tally::none().running(&card, 12)).await?;
    scenario.scale("web", 25).await?;
    let expected = Tally::none().running(&card, QUOTA).waiting(NO_QUOTA, 25 - QUOTA);
    scenario.expect_for_good("web", &expected).await?;

    // The first is back and follows; when the second crashes, its Lease expires and the first leads again.
    first.start()?;
    first.await_ready().await?;
    assert!(!leads(first).await?);
    second.kill()?;
    wait::eventually("the first to lead again", wait::PATIENCE, async || {
        Ok(Seen::when(leads(first).await?, "it does not"))
    })
    .await?;
    scenario.scale("web", 5).await?;
    scenario.expect("web", &Tally::none().running(&card, 5)).await
}

/// Whoever starts with a configuration that can't be read does not know whom the last good one would hold.
#[tokio::test]
async fn programs_that_start_with_a_configuration_that_cant_be_read_let_nobody_in_until_it_is_mended() -> Outcome {
    const CROSS: &str = "cross";
    // By the defaults nodes have no quotas.
    let conf = |cores: u32| {
        let arguments = format!("{{gpu-resource-names: 'nvidia.com/.*', quota.cpu: {cores}}}");
        format!("tiers: [{{plugins: [{{name: capacity-card}}, {{name: crossquota, arguments: {arguments}}}]}}]")
    };
    let world = World::start().await?;
    let (plane, cardgate) = (&world.plane, &world.cardgate);
    cardgate.configure(plane, Some(&conf(1)), None).await?;
    let (scenario, card) = burst(&world).await?;
    plane
        .create_namespace(CROSS, &[(keys::CROSS_QUOTA_LABEL, keys::CROSS_QUOTA_ENABLED)], &[])
        .await?;
    let web = pod("web").namespace(CROSS).request("cpu", 1).deployment(5);
    let deployments: Api<Deployment> = Api::namespaced(plane.client().await?, CROSS);
    deployments.create(&PostParams::default(), &web).await?;
    let one_waits = Tally::none().running(NO_CARD, 4).waiting("CrossQuotaExceeded", 1);
    plane.await_pods(CROSS, "web", &one_waits).await?;

    let programs = [cardgate.operator(), cardgate.webhook()];
    for program in programs {
        program.kill()?;
    }
    Cardgate::write_configuration(plane, Some("tiers: ["), None).await?;
    for program in programs {
        program.start()?;
        wait::eventually("it to say what is wrong", wait::PATIENCE, async || {
            let (_, text) = program.readiness().await?;
            let is_said = text.contains("volcano-scheduler.conf") && text.contains("nothing is decided");
            Ok(Seen::when(is_said, text))
        })
        .await?;
    }
    wait::eventually("the operator to lead", wait::PATIENCE, async || {
        Ok(Seen::when(leads(cardgate.operator()).await?, "it does not"))
    })
    .await?;
    plane.pods_stay(CROSS, "web", &one_waits, A_WHILE).await?;
    let refusal = scenario.refused(&scenario.gpu_pod("late", &card, 1).build()).await?;
    assert!(refusal.contains("webhook"), "{refusal}");

    Cardgate::write_configuration(plane, Some(&conf(2)), None).await?;
    cardgate.await_door(plane).await?;
    plane.await_pods(CROSS, "web", &Tally::none().running(NO_CARD, 5)).await
}
