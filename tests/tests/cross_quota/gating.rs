//! Under gating: pods wait for quota, and go where the operator says.

use cardgate_tests::scenario::Scenario;
use cardgate_tests::tally::{NO_CARD, Tally};
use cardgate_tests::wait::{self, Seen};
use cardgate_tests::workloads::{PodBuilder, pod};
use cardgate_tests::world::World;
use crds::card_inventory::CardInventory;
use crds::keys::{CROSS_QUOTA_LABEL, GPU_NODE_LABEL, SCORING_STRATEGY};
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Event, Namespace, Node, Pod};
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::json;
use tokio::sync::OnceCell;

use crate::{Outcome, SCENARIO, cpu_node, crossquota, expect_by_node, gpu_node};

/// The reason of pods that wait for quota.
const EXCEEDED: &str = "CrossQuotaExceeded";

/// A scenario in a namespace that opted in, with 8 cores and half of the memory of each GPU node for pods without GPU.
pub async fn begin(name: &str) -> anyhow::Result<Scenario<'static>> {
    static CONFIGURED: OnceCell<()> = OnceCell::const_new();
    let world = World::shared().await?;
    let configuration = crossquota("quota-resources: \"cpu,memory\", quota.cpu: 8, quota-percentage.memory: 50");
    let configured =
        CONFIGURED.get_or_try_init(async || world.cardgate.configure(&world.plane, Some(&configuration), None).await);
    configured.await?;
    let scenario = Scenario::begin(world, name).await?;
    let namespaces: Api<Namespace> = Api::all(world.plane.client().await?);
    let label = json!({"metadata": {"labels": {CROSS_QUOTA_LABEL: "enabled"}}});
    namespaces
        .patch(name, &PatchParams::default(), &Patch::Merge(label))
        .await?;
    Ok(scenario)
}

/// A pod without GPU and without queue that asks for so many cores.
pub fn batch(scenario: &Scenario<'_>, name: &str, cores: &str) -> PodBuilder {
    pod(name)
        .namespace(scenario.name())
        .request("cpu", cores)
        .node_selector(SCENARIO, scenario.name())
}

async fn node(scenario: &Scenario<'_>, name: &str) -> anyhow::Result<Node> {
    let nodes: Api<Node> = Api::all(scenario.plane().client().await?);
    Ok(nodes.get(&format!("{}-{name}", scenario.name())).await?)
}

#[tokio::test]
async fn batch_jobs_are_consolidated_and_services_distributed() -> Outcome {
    let scenario = begin("strategies").await?;
    scenario
        .nodes(&[1, 2, 3].map(|number| gpu_node("strategies", number)))
        .await?;
    scenario.create(&batch(&scenario, "jobs", "1").deployment(6)).await?;
    expect_by_node(&scenario, "jobs", &[("gpu-1", 6)]).await?;
    // One goes to each node that is empty, since those are used least; 6 + 2 cores fill the first.
    let services = batch(&scenario, "services", "1").annotation(SCORING_STRATEGY, "least-allocated");
    scenario.create(&services.deployment(12)).await?;
    expect_by_node(&scenario, "services", &[("gpu-2", 6), ("gpu-3", 6)]).await?;
    scenario.create(&batch(&scenario, "late", "2").deployment(4)).await?;
    scenario
        .expect_for_good("late", &Tally::none().running(NO_CARD, 3).waiting(EXCEEDED, 1))
        .await?;
    expect_by_node(&scenario, "late", &[("gpu-1", 1), ("gpu-2", 1), ("gpu-3", 1)]).await
}

#[tokio::test]
async fn a_pod_that_fits_nowhere_is_told_why_and_let_in_after_a_deletion() -> Outcome {
    let scenario = begin("nowhere").await?;
    scenario.nodes(&[gpu_node("nowhere", 1)]).await?;
    for name in ["first", "second"] {
        scenario.create(&batch(&scenario, name, "4").build()).await?;
        scenario.expect(name, &Tally::none().running(NO_CARD, 1)).await?;
    }
    scenario.create(&batch(&scenario, "third", "2").build()).await?;
    let condition = scenario.waits("third", EXCEEDED).await?;
    let message = condition.message.unwrap_or_default();
    for part in [
        "cpu quota exceeded on ",
        " GPU nodes: asked 2",
        "nowhere-gpu-1: used 8, quota 8 (argument quota.cpu)",
    ] {
        assert!(message.contains(part), "{message}");
    }
    let events = scenario.events("third", EXCEEDED).await?;
    assert!(
        events[0]
            .message
            .as_deref()
            .is_some_and(|text| text.contains("asked 2")),
        "{events:?}"
    );
    scenario.delete::<Pod>("first").await?;
    scenario.expect("third", &Tally::none().running(NO_CARD, 1)).await?;
    expect_by_node(&scenario, "third", &[("gpu-1", 1)]).await
}

#[tokio::test]
async fn who_is_let_in_since_its_namespace_opts_out_is_told_that() -> Outcome {
    let scenario = begin("opted-out").await?;
    scenario.nodes(&[gpu_node("opted-out", 1)]).await?;
    for (name, cores) in [("first", "8"), ("second", "2")] {
        scenario.create(&batch(&scenario, name, cores).build()).await?;
        if name == "first" {
            scenario.expect(name, &Tally::none().running(NO_CARD, 1)).await?;
        }
    }
    scenario.waits("second", EXCEEDED).await?;
    let namespaces: Api<Namespace> = Api::all(scenario.plane().client().await?);
    let label = json!({"metadata": {"labels": {CROSS_QUOTA_LABEL: null}}});
    namespaces
        .patch(scenario.name(), &PatchParams::default(), &Patch::Merge(label))
        .await?;
    scenario.expect("second", &Tally::none().running(NO_CARD, 1)).await?;
    let told = wait::eventually("the pod to be told why", wait::PATIENCE, async || {
        let pod = scenario.api::<Pod>().get("second").await?;
        let mut conditions = pod
            .status
            .and_then(|status| status.conditions)
            .unwrap_or_default()
            .into_iter();
        let condition = conditions.find(|condition| condition.type_ == "card.volcano.sh/Admitted");
        let condition = condition.filter(|condition| condition.status == "True");
        Ok(match condition.and_then(|condition| condition.message) {
            Some(message) => Seen::Done(message),
            None => Seen::NotYet("no condition".to_owned()),
        })
    })
    .await?;
    assert!(
        told.contains("namespace opted-out opts in to CrossQuota no longer"),
        "{told}"
    );
    Ok(())
}

#[tokio::test]
async fn pods_with_gpu_and_daemon_sets_are_not_affected() -> Outcome {
    let scenario = begin("unaffected").await?;
    scenario
        .nodes(&[1, 2].map(|number| gpu_node("unaffected", number)))
        .await?;
    scenario.nodes(&[cpu_node("unaffected", "16")]).await?;
    let training = batch(&scenario, "training", "32").request("nvidia.com/gpu", 8);
    scenario.create(&training.deployment(2)).await?;
    scenario.expect("training", &Tally::none().running(NO_CARD, 2)).await?;
    let agent = batch(&scenario, "agent", "1").deployment(1).spec.unwrap_or_default();
    let daemon_set: DaemonSet = serde_json::from_value(json!({
        "metadata": {"name": "agent"},
        "spec": {"selector": agent.selector, "template": agent.template},
    }))?;
    scenario.create(&daemon_set).await?;
    expect_by_node(&scenario, "agent", &[("gpu-1", 1), ("gpu-2", 1), ("cpu", 1)]).await?;
    // What they hold counts: 7 of 8 cores are left on each GPU node, and the node without GPU goes first.
    scenario.create(&batch(&scenario, "batch", "7").deployment(5)).await?;
    scenario
        .expect_for_good("batch", &Tally::none().running(NO_CARD, 4).waiting(EXCEEDED, 1))
        .await?;
    expect_by_node(&scenario, "batch", &[("gpu-1", 1), ("gpu-2", 1), ("cpu", 2)]).await
}

#[tokio::test]
async fn nodes_show_their_quotas_label_and_bad_annotations() -> Outcome {
    let scenario = begin("shown").await?;
    let bad = gpu_node("shown", 1).annotation("volcano.sh/crossquota-cpu", "many");
    let own = gpu_node("shown", 2).annotation("volcano.sh/crossquota-percentage-cpu", "25");
    scenario.nodes(&[bad, own, cpu_node("shown", "1")]).await?;
    scenario.create(&batch(&scenario, "batch", "5").build()).await?;
    expect_by_node(&scenario, "batch", &[("gpu-1", 1)]).await?;
    let client = scenario.plane().client().await?;
    let inventories: Api<CardInventory> = Api::all(client.clone());
    let shown = async |number: usize, expected: &str| {
        let name = format!("shown-gpu-{number}");
        wait::object(&inventories, &name, format!("{expected} of {name}"), |inventory| {
            let status = inventory.and_then(|inventory| inventory.status.as_ref());
            let Some(status) = status else {
                return Seen::NotYet("no status".to_owned());
            };
            let summary = format!("{} [{}]", status.cross_quota_summary, status.problems);
            let quota = status
                .cross_quota
                .first()
                .map(|quota| (quota.source.clone(), quota.free.clone()));
            if summary == expected {
                Seen::Done(quota)
            } else {
                Seen::NotYet(summary)
            }
        })
        .await
    };
    let of = |source: &str, free: &str| Some((source.to_owned(), free.to_owned()));
    let first = shown(1, "cpu 5/8, memory 0/128Gi [InvalidCrossQuota]").await?;
    assert_eq!(first, of("argument quota.cpu", "3"));
    let second = shown(2, "cpu 0/16, memory 0/128Gi []").await?;
    assert_eq!(second, of("annotation volcano.sh/crossquota-percentage-cpu", "16"));
    let label = |node: &Node| {
        node.metadata
            .labels
            .as_ref()
            .and_then(|labels| labels.get(GPU_NODE_LABEL).cloned())
    };
    assert_eq!(label(&node(&scenario, "gpu-1").await?).as_deref(), Some("true"));
    assert_eq!(label(&node(&scenario, "cpu").await?), None);
    let events: Api<Event> = Api::all(client);
    let about = ListParams::default().fields("involvedObject.name=shown-gpu-1,reason=InvalidCrossQuota");
    wait::eventually("an event on the node", wait::PATIENCE, async || {
        let found = events.list(&about).await?.items;
        let told = found
            .iter()
            .filter_map(|event| event.message.clone())
            .collect::<Vec<_>>();
        Ok(Seen::when(
            told.iter().any(|text| text.contains("\"many\"")),
            format!("{told:?}"),
        ))
    })
    .await
}

#[tokio::test]
async fn other_namespaces_are_left_alone() -> Outcome {
    begin("opted-in").await?;
    let scenario = Scenario::begin(World::shared().await?, "not-opted-in").await?;
    scenario.nodes(&[gpu_node("not-opted-in", 1)]).await?;
    scenario.create(&batch(&scenario, "free", "30").build()).await?;
    scenario.expect("free", &Tally::none().running(NO_CARD, 1)).await
}
