//! What the removal of Cardgate leaves behind: every pod, no gate, and nothing of Cardgate. Each test has a control plane of its own.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::future::pending;
use std::time::Duration;

use cardgate_tests::cardgate::{NAMESPACE, uninstall};
use cardgate_tests::controlplane::{Account, ControlPlane, Options};
use cardgate_tests::mixture::{self, Mixture};
use cardgate_tests::process::Process;
use cardgate_tests::wait::{self, Seen};
use cardgate_tests::workloads::{pod, queue};
use cardgate_tests::world::World;
use crds::keys::{ADMITTED_CONDITION, CARD_REQUEST, GATE, GPU_NODE_LABEL, JOB_HELD};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use kube::api::{ListParams, PostParams};
use kube::{Api, Client};
use serde_json::json;

type Outcome = anyhow::Result<()>;

/// Somebody else's gate.
const FOREIGN: &str = "example.com/hold";
/// The removal waits until API servers have forgotten what was deleted.
const LIMIT: Duration = Duration::from_mins(2);
/// Cluster-scoped kinds of which Cardgate has objects.
const KINDS: &str = "mutatingwebhookconfiguration,validatingwebhookconfiguration,validatingadmissionpolicy,\
                     validatingadmissionpolicybinding,clusterrole,clusterrolebinding,customresourcedefinition";

/// A job that asks for its cards in advance, of a queue that has none.
fn job(name: &str) -> Job {
    let mut job = pod(name)
        .namespace(mixture::NAMESPACE)
        .queue("none")
        .card("NVIDIA-A100")
        .request("nvidia.com/gpu", 1)
        .job(1);
    let annotations = job.metadata.annotations.get_or_insert_default();
    annotations.insert(CARD_REQUEST.to_owned(), r#"{"NVIDIA-A100": 1}"#.to_owned());
    job
}

/// Waits until the program has ended well.
async fn ends(process: &Process) -> Outcome {
    let ended = wait::eventually("the removal to end", LIMIT, async || {
        Ok(process
            .exit_status()?
            .map_or_else(|| Seen::NotYet(process.log_tail()), Seen::Done))
    })
    .await?;
    anyhow::ensure!(ended.success(), "{ended}\n{}", process.log_tail());
    Ok(())
}

fn gates(pod: &Pod) -> Vec<&str> {
    let gates = pod.spec.as_ref().and_then(|spec| spec.scheduling_gates.as_ref());
    gates.into_iter().flatten().map(|gate| gate.name.as_str()).collect()
}

/// What there is of Cardgate, by its label.
async fn left(plane: &ControlPlane) -> anyhow::Result<Vec<String>> {
    let selector = "app.kubernetes.io/part-of=cardgate";
    let kubectl = plane.kubectl();
    let cluster = kubectl.run(["get", KINDS, "-l", selector, "-o", "name"]).await?;
    let kinds = "rolebinding,role,deployment,service,configmap,networkpolicy";
    let namespaced = kubectl.run(["get", kinds, "-A", "-l", selector, "-o", "name"]).await?;
    Ok(cluster.lines().chain(namespaced.lines()).map(str::to_owned).collect())
}

async fn await_left(plane: &ControlPlane, expected: &[&str]) -> Outcome {
    wait::eventually("the rest to be gone", LIMIT, async || {
        let namespaces: Api<Namespace> = Api::all(plane.client().await?);
        let namespace = namespaces.get_opt(NAMESPACE).await?.is_some();
        let left = left(plane).await?;
        Ok(Seen::when(
            left == expected && !namespace,
            format!("{left:?}, and the namespace: {namespace}"),
        ))
    })
    .await
}

/// With `--dry-run` all is said, and nothing done.
async fn a_trial_changes_nothing(plane: &ControlPlane) -> Outcome {
    let installed = left(plane).await?;
    let trial = uninstall::start(plane, &["--dry-run"]).await?;
    ends(&trial).await?;
    let account = Account::new(NAMESPACE, "uninstall").user();
    let written: Vec<_> = plane
        .audit_log()?
        .into_iter()
        .filter(|write| write.user() == account)
        .collect();
    assert!(written.is_empty(), "{written:?}");
    let after_trial = left(plane).await?;
    assert!(installed.iter().all(|object| after_trial.contains(object)));
    let said = trial.log()?;
    for line in [
        "would be written, so that Jobs and pods are let go",
        "would be deleted, so that nothing new is held",
        "would be deleted, with the configuration in it",
    ] {
        assert!(said.contains(line), "{line:?} is missing: {said}");
    }
    Ok(())
}

#[tokio::test]
async fn every_pod_is_let_go_every_held_job_resumed_and_nothing_is_left() -> Outcome {
    let world = World::start_with(Options::default().audit()).await?;
    let (plane, client) = (&world.plane, world.plane.client().await?);
    let mixture = Mixture::with_claims(88);
    mixture.prepare(plane, &world.cardgate).await?;
    mixture.create(&client, Duration::ZERO).await?;
    mixture.expect(&client, LIMIT).await?;

    // Two that somebody else holds, a Job that Cardgate holds, and one that its user has suspended.
    let pods: Api<Pod> = Api::namespaced(client.clone(), mixture::NAMESPACE);
    let jobs: Api<Job> = Api::namespaced(client.clone(), mixture::NAMESPACE);
    plane.apply(&queue("none").build()).await?;
    let foreign = pod("foreign").namespace(mixture::NAMESPACE).queue("none").gate(FOREIGN);
    let foreign = foreign.card("NVIDIA-A100").request("nvidia.com/gpu", 1);
    pods.create(&PostParams::default(), &foreign.build()).await?;
    jobs.create(&PostParams::default(), &job("held")).await?;
    let mut suspended = job("suspended");
    suspended.spec.get_or_insert_default().suspend = Some(true);
    jobs.create(&PostParams::default(), &suspended).await?;
    let held = jobs.get("held").await?;
    assert!(held.metadata.annotations.unwrap_or_default().contains_key(JOB_HELD));
    assert_eq!(held.spec.and_then(|spec| spec.suspend), Some(true));

    let before = mixture::pods(&client).await?;
    let waiting = before.iter().filter(|pod| gates(pod).contains(&GATE)).count();
    assert!(waiting > 30, "{waiting} of {}", before.len());
    a_trial_changes_nothing(plane).await?;

    // Killed as soon as pods go, and started again.
    let first = uninstall::start(plane, &[]).await?;
    wait::eventually("the first pod to be let go", LIMIT, async || {
        let left = mixture::pods(&client).await?;
        let left = left.iter().filter(|pod| gates(pod).contains(&GATE)).count();
        Ok(Seen::when(
            left < waiting,
            format!("{left} gates\n{}", first.log_tail()),
        ))
    })
    .await?;
    first.kill()?;
    let second = uninstall::start(plane, &[]).await?;
    ends(&second).await?;
    assert!(second.log()?.contains("Cardgate is removed"), "{}", second.log_tail());

    let after = mixture::pods(&client).await?;
    let uids: BTreeSet<_> = after.iter().map(|pod| pod.metadata.uid.as_deref()).collect();
    for pod in &before {
        assert!(
            uids.contains(&pod.metadata.uid.as_deref()),
            "{:?} is lost",
            pod.metadata.name
        );
    }
    for pod in &after {
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        let expected: &[&str] = if name == "foreign" { &[FOREIGN] } else { &[] };
        assert_eq!(gates(pod), expected, "{name}");
        let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
        let waits = conditions
            .into_iter()
            .flatten()
            .find(|condition| condition.type_ == ADMITTED_CONDITION && condition.status == "False");
        assert_eq!(waits, None, "{name}");
    }
    let held = jobs.get("held").await?;
    assert!(!held.metadata.annotations.unwrap_or_default().contains_key(JOB_HELD));
    assert_eq!(held.spec.and_then(|spec| spec.suspend), Some(false));
    assert_eq!(
        jobs.get("suspended").await?.spec.and_then(|spec| spec.suspend),
        Some(true)
    );
    let nodes: Api<Node> = Api::all(client.clone());
    let labelled = nodes.list(&ListParams::default().labels(GPU_NODE_LABEL)).await?.items;
    assert!(labelled.is_empty(), "{labelled:?}");

    // Queues are people's own.
    let kept = [
        "clusterrole.rbac.authorization.k8s.io/cardgate-podgroups-edit",
        "clusterrole.rbac.authorization.k8s.io/cardgate-queues-view",
        "customresourcedefinition.apiextensions.k8s.io/podgroups.scheduling.volcano.sh",
        "customresourcedefinition.apiextensions.k8s.io/queues.scheduling.volcano.sh",
    ];
    await_left(plane, &kept).await?;

    // Nobody is asked any more.
    world.cardgate.webhook().kill()?;
    let new = pod("new")
        .namespace(mixture::NAMESPACE)
        .queue("plain")
        .card("NVIDIA-A100");
    let created = pods.create(&PostParams::default(), &new.build()).await?;
    assert!(gates(&created).is_empty(), "{created:?}");
    Ok(())
}

/// A tenant who creates pods with Cardgate's gate and Jobs with its mark for as long as this is awaited: as soon as no policy keeps
/// them from it, nobody does.
async fn marks_without_end(client: &Client) -> Infallible {
    let pods: Api<Pod> = Api::namespaced(client.clone(), mixture::NAMESPACE);
    let jobs: Api<Job> = Api::namespaced(client.clone(), mixture::NAMESPACE);
    for number in 0_u64.. {
        let own = pod(&format!("own-{number}"))
            .namespace(mixture::NAMESPACE)
            .scheduler("nobody");
        let mut marked = own.clone().job(1);
        marked.spec.get_or_insert_default().suspend = Some(true);
        let annotations = marked.metadata.annotations.get_or_insert_default();
        annotations.insert(JOB_HELD.to_owned(), "true".to_owned());
        let parameters = PostParams::default();
        let created = (
            pods.create(&parameters, &own.gate(GATE).build()).await,
            jobs.create(&parameters, &marked).await,
        );
        // Refused while the policies are there.
        drop(created);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    pending().await
}

#[tokio::test]
async fn who_deletes_the_definitions_and_the_namespace_first_loses_no_pod() -> Outcome {
    let world = World::start().await?;
    let (plane, client) = (&world.plane, world.plane.client().await?);
    plane.create_namespace(mixture::NAMESPACE, &[], &[]).await?;
    plane.apply(&queue("none").build()).await?;
    let pods: Api<Pod> = Api::namespaced(client.clone(), mixture::NAMESPACE);
    let waiting = pod("waiting")
        .namespace(mixture::NAMESPACE)
        .queue("none")
        .card("NVIDIA-A100")
        .request("nvidia.com/gpu", 1);
    let created = pods.create(&PostParams::default(), &waiting.build()).await?;
    let jobs: Api<Job> = Api::namespaced(client.clone(), mixture::NAMESPACE);
    jobs.create(&PostParams::default(), &job("held")).await?;

    let kubectl = plane.kubectl();
    let definitions = [
        "cardinventories.card.volcano.sh",
        "cardreviews.card.volcano.sh",
        "cardtypes.card.volcano.sh",
        "cardusages.card.volcano.sh",
        "podgroups.scheduling.volcano.sh",
    ];
    for definition in definitions {
        kubectl.run(["delete", "crd", definition]).await?;
    }
    kubectl.run(["delete", "namespace", NAMESPACE]).await?;
    let seen = pods.get("waiting").await?;
    assert_eq!(seen.metadata.uid, created.metadata.uid);
    assert_eq!(gates(&seen), [GATE], "who holds it may come back");

    let removal = uninstall::start(plane, &["--queues"]).await?;
    tokio::select! {
        never = marks_without_end(&client) => match never {},
        ended = ends(&removal) => ended?,
    }
    let seen = pods.get("waiting").await?;
    assert_eq!(seen.metadata.uid, created.metadata.uid);
    assert!(gates(&seen).is_empty());
    let suspended = jobs.get("held").await?.spec.and_then(|spec| spec.suspend);
    assert_eq!(json!(suspended), json!(false));
    await_left(plane, &[]).await
}
