//! Asking why something waits, with the rights of who may edit one namespace and nothing else: every command that Cardgate's
//! messages name works for them, and nothing shows them what others call their pods.

use cardgate_tests::controlplane::Kubectl;
use cardgate_tests::nodes;
use cardgate_tests::scenario::Scenario;
use cardgate_tests::wait::{self, Seen};
use cardgate_tests::workloads::{pod, queue};
use cardgate_tests::world::World;
use crds::card_review::{CardReviewStatus, Outlook};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};

use crate::{NO_QUOTA, Outcome, pods};

/// What `kubectl create --dry-run=server` prints of a review: its status, or what it says where it fails.
pub(crate) async fn ask(
    kubectl: &Kubectl,
    namespace: &str,
    spec: Value,
) -> anyhow::Result<Result<CardReviewStatus, String>> {
    let review = json!({
        "apiVersion": "card.volcano.sh/v1alpha1", "kind": "CardReview", "metadata": { "generateName": "why-" }, "spec": spec,
    });
    let args = ["-n", namespace, "create", "--dry-run=server", "-o", "json", "-f", "-"];
    let output = kubectl.output(args, Some(&review.to_string())).await?;
    if !output.status.success() {
        return Ok(Err(String::from_utf8_lossy(&output.stderr).into_owned()));
    }
    let mut answered: Value = serde_json::from_slice(&output.stdout)?;
    Ok(Ok(serde_json::from_value(answered["status"].take())?))
}

async fn answer(kubectl: &Kubectl, namespace: &str, spec: Value) -> anyhow::Result<CardReviewStatus> {
    ask(kubectl, namespace, spec).await?.map_err(anyhow::Error::msg)
}

/// A queue of 4 cards with pods of two namespaces: one of each runs, another team's waits before two of the scenario's, of which one asks
/// for more than the quota.
async fn fill_queue(scenario: &Scenario<'_>, card: &str) -> Outcome {
    let plane = scenario.plane();
    scenario.nodes(&[nodes::nvidia("reviews", card, 8, 81_920)]).await?;
    scenario.apply_queue(scenario.queue().quota(card, 4)).await?;
    // Another team in the same queue.
    plane.create_namespace("reviews-others", &[], &[]).await?;
    let others: Api<Pod> = Api::namespaced(plane.client().await?, "reviews-others");
    let theirs = |name: &str, count: u32| {
        let theirs = pod(name).namespace("reviews-others").queue("reviews");
        theirs.card(card).request("nvidia.com/gpu", count).build()
    };
    others
        .create(&PostParams::default(), &theirs("secret-holder", 2))
        .await?;
    plane
        .await_pods("reviews-others", "secret-holder", &pods().running(card, 1))
        .await?;
    scenario.create(&scenario.gpu_pod("mine", card, 1).build()).await?;
    scenario.expect("mine", &pods().running(card, 1)).await?;
    others
        .create(&PostParams::default(), &theirs("secret-waiter", 2))
        .await?;
    plane
        .await_pods("reviews-others", "secret-waiter", &pods().waiting(NO_QUOTA, 1))
        .await?;
    scenario.create(&scenario.gpu_pod("next", card, 2).build()).await?;
    scenario.create(&scenario.gpu_pod("huge", card, 5).build()).await?;
    scenario.waits("next", NO_QUOTA).await?;
    scenario.waits("huge", NO_QUOTA).await?;
    Ok(())
}

#[tokio::test]
async fn an_editor_of_one_namespace_learns_why_a_pod_waits_and_nobody_elses_names() -> Outcome {
    let world = World::shared().await?;
    let scenario = Scenario::begin(world, "reviews").await?;
    let plane = scenario.plane();
    let card = scenario.card("NVIDIA-A100");
    fill_queue(&scenario, &card).await?;

    let namespace = scenario.name();
    plane.grant("dora", "edit", namespace).await?;
    let dora = plane.kubectl_of_user("dora");
    let next = wait::eventually("an answer", wait::PATIENCE, async || {
        Ok(match ask(&dora, namespace, json!({ "pod": "next" })).await? {
            Ok(status) => Seen::Done(status),
            Err(error) => Seen::NotYet(error),
        })
    })
    .await?;
    assert!(!next.admitted);
    assert_eq!(
        (next.queue.as_deref(), next.position, next.waiting),
        (Some("reviews"), Some(2), Some(3))
    );
    let before = next.before.clone().unwrap_or_default();
    assert_eq!((before.own_count, before.others), (0, 1));
    let [first] = next.blocks.as_slice() else {
        anyhow::bail!("{:?}", next.blocks)
    };
    assert_eq!((first.reason.as_str(), first.outlook), (NO_QUOTA, Outlook::NotYet));
    let [short] = first.shortages.as_slice() else {
        anyhow::bail!("{first:?}")
    };
    assert_eq!(
        (short.asked.as_str(), short.used.as_str(), short.limit.as_deref()),
        ("2", "3", Some("4"))
    );
    assert_eq!(
        (short.place.kind.as_str(), short.place.name.as_str()),
        ("Queue", "reviews")
    );
    let [holder] = short.holders.as_slice() else {
        anyhow::bail!("{short:?}")
    };
    assert_eq!(
        (holder.pods.own.as_slice(), holder.pods.others),
        (["mine".to_owned()].as_slice(), 1)
    );

    let huge = answer(&dora, namespace, json!({ "pod": "huge" })).await?;
    assert_eq!(huge.blocks[0].outlook, Outlook::Never, "{huge:?}");
    assert!(
        huge.message.contains("can't be let in as things are"),
        "{}",
        huge.message
    );
    let of_queue = answer(&dora, namespace, json!({ "queue": "reviews" })).await?;
    assert_eq!(
        of_queue.before.as_ref().map(|before| (before.own_count, before.others)),
        Some((2, 1))
    );
    for said in [&next, &huge, &of_queue] {
        let text = serde_json::to_string(said)?;
        assert!(!text.contains("secret-"), "{text}");
    }

    // What is not there yet.
    let manifest = |count: u32| {
        let asked = scenario.gpu_pod("idea", &card, count).build();
        let template = json!({ "metadata": asked.metadata, "spec": asked.spec });
        json!({ "manifest": { "kind": "Job", "spec": { "template": template } } })
    };
    let small = answer(&dora, namespace, manifest(1)).await?;
    assert!(small.admitted, "{small:?}");
    let large = answer(&dora, namespace, manifest(9)).await?;
    let reasons: Vec<_> = large
        .blocks
        .iter()
        .map(|block| (block.reason.as_str(), block.outlook))
        .collect();
    assert_eq!(
        reasons,
        [(NO_QUOTA, Outlook::Never), ("NoNodeFits", Outlook::Never)],
        "{large:?}"
    );

    refusals(&scenario, &dora).await
}

/// What is refused, and every command that messages name.
async fn refusals(scenario: &Scenario<'_>, dora: &Kubectl) -> Outcome {
    let namespace = scenario.name();
    let refused = async |namespace: &str, spec: Value| -> anyhow::Result<String> {
        let answer = ask(dora, namespace, spec).await?;
        answer.map_or_else(Ok, |status| anyhow::bail!("answered: {status:?}"))
    };
    let nothing = refused(namespace, json!({ "pod": "nobody" })).await?;
    assert!(
        nothing.contains("\"nobody\" is not known in namespace reviews"),
        "{nothing}"
    );
    let both = refused(namespace, json!({ "pod": "next", "queue": "reviews" })).await?;
    assert!(both.contains("name exactly one"), "{both}");
    let elsewhere = refused("reviews-others", json!({ "pod": "secret-waiter" })).await?;
    assert!(elsewhere.contains("forbidden"), "{elsewhere}");
    let review = json!({
        "apiVersion": "card.volcano.sh/v1alpha1", "kind": "CardReview", "metadata": { "name": "why" }, "spec": { "pod": "next" },
    });
    let stored = dora
        .output(["-n", namespace, "create", "-f", "-"], Some(&review.to_string()))
        .await?;
    let stored = String::from_utf8_lossy(&stored.stderr);
    assert!(stored.contains("--dry-run=server"), "{stored}");

    for command in [
        "get cardtypes",
        "get queues",
        "get podgroups",
        "explain cardreview.spec.manifest",
        "explain pod",
        "get pod next -o yaml",
        "describe pod next",
    ] {
        let args = ["-n", namespace].into_iter().chain(command.split(' '));
        let said = dora.run(args).await?;
        assert!(!said.contains("secret-"), "{command}: {said}");
    }
    // These name everybody's pods.
    for command in ["get cardusages", "get cardinventories"] {
        assert!(dora.run(command.split(' ')).await.is_err(), "{command}");
    }
    Ok(())
}

#[tokio::test]
async fn a_rolling_update_that_waits_for_its_own_old_pod_is_told_so() -> Outcome {
    use k8s_openapi::api::apps::v1::Deployment;
    let scenario = Scenario::begin(World::shared().await?, "rolling").await?;
    let card = scenario.card("NVIDIA-A100");
    scenario.nodes(&[nodes::nvidia("rolling", &card, 8, 81_920)]).await?;
    scenario
        .plane()
        .apply(&queue("rolling").quota(&card, 1).build())
        .await?;
    let template = scenario.gpu_pod("web", &card, 1).build();
    let labels = json!({ "app": "web" });
    let mut metadata = serde_json::to_value(&template.metadata)?;
    metadata["labels"] = labels.clone();
    let deployment: Deployment = serde_json::from_value(json!({
        "metadata": { "name": "web" },
        "spec": { "replicas": 1, "selector": { "matchLabels": labels }, "template": { "metadata": metadata, "spec": template.spec } },
    }))?;
    scenario.create(&deployment).await?;
    scenario.expect("web", &pods().running(&card, 1)).await?;
    let anew = json!({ "spec": { "template": { "metadata": { "annotations": { "version": "2" } } } } });
    scenario.change::<Deployment>("web", anew).await?;
    let kubectl = scenario.plane().kubectl();
    let spec = json!({ "workload": { "name": "web" } });
    let said = wait::eventually("the new pod to wait", wait::PATIENCE, async || {
        let said = ask(kubectl, "rolling", spec.clone()).await?;
        Ok(match said {
            Ok(status) if !status.blocks.is_empty() => Seen::Done(status),
            other => Seen::NotYet(format!("{other:?}")),
        })
    })
    .await?;
    assert!(said.message.contains("your own pod web-"), "{}", said.message);
    assert!(said.lets_in.contains("maxSurge"), "{}", said.lets_in);
    Ok(())
}
