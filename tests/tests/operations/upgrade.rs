//! What an upgrade costs: nothing. Each test has a control plane of its own.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::ensure;
use cardgate_tests::cardgate::{Cardgate, Instance, NAMESPACE, Settings};
use cardgate_tests::controlplane::ControlPlane;
use cardgate_tests::fixture::{self, Fixture};
use cardgate_tests::mixture::{self, Mixture};
use cardgate_tests::service::Service;
use cardgate_tests::tally::is_gated;
use cardgate_tests::wait::{self, Seen};
use cardgate_tests::workloads::APP;
use cardgate_tests::world::World;
use crds::keys::{ADMITTED_CONDITION, JOB_HELD};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams};
use kube::{Api, Client, ResourceExt as _};

type Outcome = anyhow::Result<()>;

/// The arguments of kubectl that install this version, as the README says them.
const INSTALL: [&str; 5] = [
    "apply",
    "--server-side",
    "--field-manager=cardgate",
    "-k",
    "manifests/overlays/without-volcano",
];
/// For all pods to run that can.
const LIMIT: Duration = Duration::from_mins(3);
/// How long pods of all kinds go on to arrive: as a rule longer than it takes to replace four processes.
const ARRIVAL: Duration = Duration::from_secs(40);
/// How long pods go on to arrive where that takes longer.
const ARRIVAL_AT_MOST: Duration = Duration::from_mins(4);

/// Ends a webhook as Kubernetes does: SIGTERM, and no new connections once it says that it is not ready.
async fn replace(service: &Service, old: &Instance, rest: [&Instance; 2]) -> Outcome {
    let addresses = || rest.map(Instance::address);
    service.send_to(addresses().into_iter().chain([old.address()]));
    let unready = async {
        wait::eventually("the old webhook to say that it goes", wait::PATIENCE, async || {
            let (status, text) = old.readiness().await?;
            Ok(Seen::when(status != 200, text))
        })
        .await?;
        service.send_to(addresses());
        anyhow::Ok(())
    };
    tokio::try_join!(old.terminate(), unready).map(drop)
}

async fn await_leader(operators: [&Instance; 2]) -> Outcome {
    wait::eventually("one of two operators to lead", wait::PATIENCE, async || {
        let mut leaders = 0;
        for operator in operators {
            leaders += usize::from(operator.metric("cardgate_leader").await? == Some(1.0));
        }
        Ok(Seen::when(leaders == 1, format!("{leaders} lead")))
    })
    .await
}

/// Whether a pod is a Job's: those come and go.
fn of_job(pod: &Pod) -> bool {
    pod.metadata.labels.as_ref().is_some_and(|labels| labels[APP] == "job")
}

/// Whether a pod that waits says why.
fn is_told(pod: &Pod) -> bool {
    let conditions = pod.status.iter().filter_map(|status| status.conditions.as_ref());
    conditions.flatten().any(|condition| {
        condition.type_ == ADMITTED_CONDITION && condition.reason.as_deref().is_some_and(|reason| !reason.is_empty())
    })
}

#[tokio::test]
async fn a_rolling_upgrade_refuses_no_pod_loses_none_and_admits_on() -> Outcome {
    let world = World::start().await?;
    let (plane, cardgate, client) = (&world.plane, &world.cardgate, world.plane.client().await?);
    let service = Service::start().await?;
    let webhooks = [cardgate.webhook(), &cardgate.another_webhook(plane, 2).await?];
    service.send_to(webhooks.map(Instance::address));
    Cardgate::point_door_at(plane, service.address()).await?;
    let operators = [cardgate.operator(), &cardgate.another_operator(plane, 2).await?];
    await_leader(operators).await?;
    let mixture = Mixture::of(128);
    mixture.prepare(plane, cardgate).await?;

    // Pods of all kinds arrive all the while.
    let is_over = AtomicBool::new(false);
    let arrival = async {
        let begin = Instant::now();
        let refused = mixture.create(&client, ARRIVAL).await?;
        let goes_on = || !is_over.load(Ordering::Relaxed) && begin.elapsed() < ARRIVAL_AT_MOST;
        let refused = refused + mixture.create_jobs_while(&client, goes_on).await?;
        ensure!(
            is_over.load(Ordering::Relaxed),
            "the upgrade takes longer than {ARRIVAL_AT_MOST:?}"
        );
        anyhow::Ok(refused)
    };
    let upgrade = async {
        let third = cardgate.another_webhook(plane, 3).await?;
        replace(&service, webhooks[0], [webhooks[1], &third]).await?;
        let fourth = cardgate.another_webhook(plane, 4).await?;
        replace(&service, webhooks[1], [&third, &fourth]).await?;
        let next = cardgate.another_operator(plane, 3).await?;
        operators[0].terminate().await?;
        await_leader([operators[1], &next]).await?;
        let last = cardgate.another_operator(plane, 4).await?;
        operators[1].terminate().await?;
        await_leader([&next, &last]).await?;
        is_over.store(true, Ordering::Relaxed);
        anyhow::Ok([third, fourth, next, last])
    };
    let (refused, _upgraded) = tokio::try_join!(arrival, upgrade)?;
    assert_eq!(refused, 0, "objects were refused");
    mixture.expect(&client, LIMIT).await?;
    wait::eventually(
        "all pods to be there, and whoever waits to be told why",
        wait::PATIENCE,
        async || {
            let pods = mixture::pods(&client).await?;
            let lasting = pods.iter().filter(|pod| !of_job(pod)).count();
            let untold: Vec<_> = pods
                .iter()
                .filter(|pod| is_gated(pod) && !is_told(pod))
                .map(|pod| &pod.metadata.name)
                .collect();
            let expected = mixture.pods();
            Ok(Seen::when(
                lasting == expected && untold.is_empty(),
                format!("{lasting} of {expected} pods, and not told: {untold:?}"),
            ))
        },
    )
    .await
}

/// Pods that were let in, by uid, with what an operator could change of them.
async fn let_in(client: &Client) -> anyhow::Result<BTreeMap<String, String>> {
    let pods = mixture::pods(client).await?;
    let pods = pods.iter().filter(|pod| !is_gated(pod) && !of_job(pod));
    Ok(pods
        .map(|pod| {
            let meta = &pod.metadata;
            let said = (&meta.labels, &meta.annotations, &meta.deletion_timestamp, &pod.spec);
            (pod.uid().unwrap_or_default(), format!("{}: {said:?}", pod.name_any()))
        })
        .collect())
}

/// Whoever is there may be changed still, by anybody: no webhook and no policy refuses what the old version let stand.
async fn every_object_may_be_changed(plane: &ControlPlane) -> Outcome {
    let kinds = "namespaces,nodes,queues,cardinventories,cardtypes,cardusages";
    let mut places = vec![(kinds, "default"), ("secrets,configmaps,leases", NAMESPACE)];
    for namespace in [mixture::NAMESPACE, mixture::CROSS] {
        places.push(("podgroups,pods,replicasets,deployments,jobs", namespace));
    }
    for (kinds, namespace) in places {
        let change = ["example.com/upgraded=yes", "--all", "--dry-run=server"];
        let words = [&["-n", namespace, "annotate", kinds], &change[..]].concat();
        plane.kubectl().run(words).await?;
    }
    Ok(())
}

#[tokio::test]
async fn what_earlier_versions_left_is_taken_over_and_nobody_who_was_let_in_is_touched() -> Outcome {
    let fixtures = Fixture::all()?;
    assert!(!fixtures.is_empty(), "no version was recorded: run `cargo record`");
    for fixture in fixtures {
        eprintln!("version {}", fixture.version);
        let plane = ControlPlane::start(fixture::options()).await?;
        fixture.restore(&plane).await?;
        let client = plane.client().await?;
        let mixture = fixture::mixture();
        mixture.expect(&client, LIMIT).await?;
        let before = let_in(&client).await?;
        let waiting = mixture.pods() - before.len();
        let jobs: Api<Job> = Api::namespaced(client.clone(), mixture::NAMESPACE);
        let is_held = |job: &Job| job.annotations().contains_key(JOB_HELD);
        let held = jobs.list(&ListParams::default()).await?.items;
        assert!(
            held.iter().any(is_held) && waiting > 0,
            "{waiting} wait, and {} Jobs",
            held.len()
        );

        plane.kubectl().run(INSTALL).await?;
        // Nodes only pretend to run pods here.
        let scale = ["-n", NAMESPACE, "scale", "deployment", "--all", "--replicas=0"];
        plane.kubectl().run(scale).await?;
        Cardgate::await_policies(&plane).await?;
        let cardgate = Cardgate::run(&plane, &Settings::default()).await?;
        assert_eq!(cardgate.operator().metric("cardgate_config_valid").await?, Some(1.0));
        wait::eventually(
            "held Jobs to be resumed, and whoever waits to be told why",
            LIMIT,
            async || {
                let held = jobs.list(&ListParams::default()).await?.items;
                let held = held.iter().filter(|job| is_held(job)).count();
                let pods = mixture::pods(&client).await?;
                let untold = pods.iter().filter(|pod| is_gated(pod) && !is_told(pod)).count();
                Ok(Seen::when(
                    held + untold == 0,
                    format!("{held} Jobs held, {untold} pods not told"),
                ))
            },
        )
        .await?;
        every_object_may_be_changed(&plane).await?;
        assert_eq!(let_in(&client).await?, before, "a pod that was let in");

        // Who waited comes where others go.
        let pods = mixture::pods(&client).await?;
        for pod in pods.iter().filter(|pod| !is_gated(pod) && !of_job(pod)) {
            let api: Api<Pod> = Api::namespaced(client.clone(), &pod.namespace().unwrap_or_default());
            api.delete(&pod.name_any(), &DeleteParams::default()).await?;
        }
        mixture.expect(&client, LIMIT).await?;
        let now = let_in(&client).await?;
        assert!(
            now.keys().all(|uid| !before.contains_key(uid)),
            "a pod that was deleted is there"
        );
    }
    Ok(())
}
