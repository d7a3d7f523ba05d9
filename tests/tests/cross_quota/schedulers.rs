//! kube-scheduler and another scheduler at once, both of which ask the operator, while that is killed.

use std::collections::BTreeMap;

use anyhow::Context as _;
use cardgate_tests::cardgate::NAMESPACE;
use cardgate_tests::http;
use cardgate_tests::nodes::NodeSpec;
use cardgate_tests::scenario::Scenario;
use cardgate_tests::tally::{NO_CARD, Tally, is_gated};
use cardgate_tests::wait::{self, Seen};
use cardgate_tests::workloads::PodBuilder;
use cardgate_tests::world::World;
use crds::keys::{MGPU_ASSUMED, MGPU_CORE, MGPU_INDEX_PREFIX, MGPU_MEMORY, MGPU_POLICY, MGPU_SCHEDULE};
use k8s_openapi::api::core::v1::{Binding, ObjectReference, Pod};
use kube::api::{ListParams, ObjectMeta, PostParams};
use kube::core::Status;
use kube::{Api, ResourceExt};
use operator::extender::{BIND_PATH, FILTER_PATH, LEADER_LABEL};
use serde_json::{Value, json};

use crate::extender::{Extender, batch};
use crate::{Outcome, SCENARIO, by_node, expect_by_node, gpu_node};

/// The other scheduler's name.
const OTHER: &str = "other-scheduler";

/// A scheduler that looks at one pod after the other and takes whatever node it is left, the last one first.
struct OtherScheduler<'a> {
    scenario: &'a Scenario<'a>,
    extender: &'a Extender,
    nodes: Vec<String>,
}

impl OtherScheduler<'_> {
    /// Tries to place every pod that waits for it.
    async fn round(&self) -> Outcome {
        let pods = self.scenario.api::<Pod>();
        let own = ListParams::default().fields(&format!("spec.schedulerName={OTHER},spec.nodeName="));
        for pod in pods.list(&own).await?.items.iter().filter(|pod| !is_gated(pod)) {
            let args = json!({"Pod": pod, "NodeNames": self.nodes});
            // While nobody leads there is no answer, or none that helps.
            let Ok((200, answer)) = self.ask(FILTER_PATH, &args).await else {
                return Ok(());
            };
            let answer: Value = serde_json::from_str(&answer)?;
            let left = answer["NodeNames"].as_array().and_then(|names| names.last()?.as_str());
            if let Some(node) = left {
                self.bind(pod, node).await?;
            }
        }
        Ok(())
    }

    async fn ask(&self, path: &str, args: &Value) -> anyhow::Result<(u16, String)> {
        http::post_tls(&self.extender.tls, &self.extender.address(), path, args).await
    }

    async fn bind(&self, pod: &Pod, node: &str) -> Outcome {
        let requests = pod
            .spec
            .as_ref()
            .and_then(|spec| spec.containers[0].resources.as_ref()?.requests.as_ref());
        if requests.is_some_and(|requests| requests.contains_key(MGPU_CORE)) {
            let args = json!({
                "PodName": pod.name_any(), "PodNamespace": pod.namespace(), "PodUID": pod.uid(), "Node": node,
            });
            // Refused, or not answered: the next round tries again.
            let _ = self.ask(BIND_PATH, &args).await;
            return Ok(());
        }
        let binding = Binding {
            metadata: ObjectMeta {
                name: Some(pod.name_any()),
                uid: pod.uid(),
                ..ObjectMeta::default()
            },
            target: ObjectReference {
                kind: Some("Node".to_owned()),
                name: Some(node.to_owned()),
                ..ObjectReference::default()
            },
        };
        let pods = self.scenario.api::<Pod>();
        let (name, params) = (pod.name_any(), PostParams::default());
        let bound = pods.create_subresource::<_, Status>("binding", &name, &params, &binding);
        bound.await.map(|_| ()).context("a pod of this scheduler alone")
    }
}

/// 3 x 8 cores, and more pods of one core, half of them with either scheduler: too few of either to take all, however fast it is.
pub async fn two_at_once_while_the_operator_is_killed(world: &World, extender: &Extender) -> Outcome {
    let scenario = Scenario::begin(world, "race").await?;
    scenario
        .nodes(&[1, 2, 3].map(|number| gpu_node("race", number)))
        .await?;
    let other = OtherScheduler {
        scenario: &scenario,
        extender,
        nodes: (1..=3).map(|number| format!("race-gpu-{number}")).collect(),
    };
    let stock = batch(&scenario, "stock", "1");
    scenario.create(&stock.deployment(20)).await?;
    scenario
        .create(&batch(&scenario, "other", "1").scheduler(OTHER).deployment(20))
        .await?;
    let placed = async || {
        other.round().await?;
        let mut placed = by_node(&scenario, "stock").await?;
        for (node, count) in by_node(&scenario, "other").await? {
            *placed.entry(node).or_default() += count;
        }
        anyhow::Ok(placed)
    };
    let all_placed = async |least: usize| {
        wait::eventually(format!("{least} pods to be placed"), wait::PATIENCE * 3, async || {
            let placed = placed().await?;
            assert!(placed.values().all(|count| *count <= 8), "above quota: {placed:?}");
            Ok(Seen::when(
                placed.values().sum::<usize>() >= least,
                format!("{placed:?}"),
            ))
        })
        .await
    };
    all_placed(6).await?;
    world.cardgate.operator().restart().await?;
    all_placed(24).await?;
    // Nobody goes on from here: what is placed stays so.
    assert!(placed().await?.values().all(|count| *count == 8));
    for scheduler in ["stock", "other"] {
        assert!(!by_node(&scenario, scheduler).await?.is_empty(), "none of {scheduler}");
    }
    Ok(())
}

/// The extender's Service finds the operator that leads by the label that this keeps on its own pod.
pub async fn a_new_leader_has_the_label_and_answers(world: &World) -> Outcome {
    let plane = &world.plane;
    let pods: Api<Pod> = Api::namespaced(plane.client().await?, NAMESPACE);
    let leads = async |name: &str| {
        wait::object(&pods, name, format!("{name} to have the label"), |pod| {
            let label = pod.and_then(|pod| pod.labels().get(LEADER_LABEL).cloned());
            Seen::when(label.as_deref() == Some("true"), format!("{label:?}"))
        })
        .await
    };
    world.cardgate.operator().restart().await?;
    leads("operator-1").await?;
    world.cardgate.operator().terminate().await?;
    let _second = world.cardgate.another_operator(plane, 2).await?;
    leads("operator-2").await?;
    let scenario = Scenario::begin(world, "handover").await?;
    scenario.nodes(&[gpu_node("handover", 1)]).await?;
    scenario.create(&batch(&scenario, "late", "3").deployment(3)).await?;
    expect_by_node(&scenario, "late", &[("gpu-1", 2)]).await
}

fn shared_node(name: &str, cards: i64) -> NodeSpec {
    NodeSpec::new(name)
        .label(SCENARIO, "shared")
        .label(MGPU_SCHEDULE.0, MGPU_SCHEDULE.1)
        .label(MGPU_POLICY, "fixed-share")
        .allocatable(MGPU_CORE, &(cards * 100).to_string())
        .allocatable(MGPU_MEMORY, &(cards * 10_000).to_string())
}

fn share(scenario: &Scenario<'_>, name: &str) -> PodBuilder {
    let pod = scenario.pod(name).node_selector(SCENARIO, scenario.name());
    pod.request(MGPU_CORE, 45).request(MGPU_MEMORY, 1000)
}

/// Four cards for two pods each: each pod has its cards from the moment it is bound, and is pinned nowhere.
pub async fn shared_cards(world: &World, extender: &Extender) -> Outcome {
    let scenario = Scenario::begin(world, "shared").await?;
    scenario
        .nodes(&[shared_node("shared-1", 2), shared_node("shared-2", 2)])
        .await?;
    let queue = scenario.queue().capability("cpu", "1000").capability("memory", "1Ti");
    scenario.apply_queue(queue).await?;
    let other = OtherScheduler {
        scenario: &scenario,
        extender,
        nodes: vec!["shared-1".to_owned(), "shared-2".to_owned()],
    };
    // Binpack: the second goes where the first is, onto the same card.
    scenario.create(&share(&scenario, "first").build()).await?;
    let first = wait::eventually("first to be placed", wait::PATIENCE, async || {
        let nodes = by_node(&scenario, "first").await?;
        Ok(nodes
            .into_keys()
            .next()
            .map_or(Seen::NotYet("nowhere".to_owned()), Seen::Done))
    })
    .await?;
    scenario.create(&share(&scenario, "second").build()).await?;
    let suffix = first.trim_start_matches("shared-");
    expect_by_node(&scenario, "second", &[(suffix, 1)]).await?;
    scenario.create(&share(&scenario, "stock").deployment(5)).await?;
    scenario
        .create(&share(&scenario, "other").scheduler(OTHER).deployment(5))
        .await?;
    let expected = Tally::none().running(NO_CARD, 8).waiting("InsufficientMGPU", 4);
    let pods = async || anyhow::Ok(scenario.api::<Pod>().list(&ListParams::default()).await?.items);
    wait::eventually(expected.to_string(), wait::PATIENCE * 2, async || {
        other.round().await?;
        let tally = Tally::of(&pods().await?);
        Ok(Seen::when(tally == expected, tally.to_string()))
    })
    .await?;
    let mut cards: BTreeMap<(String, String), usize> = BTreeMap::new();
    for pod in pods().await?.iter().filter(|pod| !is_gated(pod)) {
        let spec = pod.spec.as_ref().context("no spec")?;
        assert_eq!(spec.affinity, None, "not pinned");
        assert_eq!(pod.annotations()[MGPU_ASSUMED], "true");
        let node = spec.node_name.clone().unwrap_or_default();
        let card = pod.annotations()[&format!("{MGPU_INDEX_PREFIX}main")].clone();
        *cards.entry((node, card)).or_default() += 1;
    }
    assert!(cards.len() == 4 && cards.values().all(|pods| *pods == 2), "{cards:?}");
    Ok(())
}
