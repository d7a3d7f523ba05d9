//! The manifests on a real API server: everything applies in one go, and what needs no running Cardgate holds.

use cardgate_tests::cardgate::{Cardgate, NAMESPACE, Settings};
use cardgate_tests::controlplane::{ControlPlane, Options};
use cardgate_tests::wait::{self, Seen};
use cardgate_tests::workloads::{pod, queue};
use crds::keys::{self, CONFIG_MAP};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::Api;
use kube::api::PostParams;
use serde_json::json;

type Outcome = anyhow::Result<()>;

#[tokio::test]
async fn without_volcano_the_manifests_install_and_refuse_managed_pods_until_cardgate_runs() -> Outcome {
    let plane = ControlPlane::start(Options::default().without_kwok().without_scheduler()).await?;
    Cardgate::install(&plane, &Settings::default()).await?;

    // A second time changes nothing but the Deployments, which were scaled to zero for want of kubelets.
    let overlay = "manifests/overlays/without-volcano";
    let again = [
        "--server-side",
        "--field-manager=cardgate",
        "--force-conflicts",
        "-k",
        overlay,
    ];
    let again = plane.kubectl().output([&["diff"], &again[..]].concat(), None).await?;
    let differences = String::from_utf8_lossy(&again.stdout).into_owned();
    let differing = differences.lines().filter(|line| line.starts_with("diff "));
    let (deployments, others): (Vec<_>, Vec<_>) = differing.partition(|line| line.contains("/apps.v1.Deployment."));
    assert!(deployments.len() == 2 && others.is_empty(), "{again:?}");

    let pods: Api<Pod> = Api::default_namespaced(plane.client().await?);
    pods.create(&PostParams::default(), &pod("plain").build()).await?;
    let managed = pod("managed")
        .queue("team-a")
        .card("NVIDIA-A100")
        .request("nvidia.com/gpu", 1)
        .build();
    let refused = pods
        .create(&PostParams::default(), &managed)
        .await
        .unwrap_err()
        .to_string();
    assert!(refused.contains("pods.card.volcano.sh"), "{refused}");
    let kinds = plane
        .kubectl()
        .run(["api-resources", "--no-headers", "-o", "name"])
        .await?;
    for kind in [
        "cardinventories.card",
        "cardreviews.card",
        "cardtypes.card",
        "cardusages.card",
        "queues.scheduling",
        "podgroups.scheduling",
    ] {
        assert!(
            kinds.lines().any(|line| line == format!("{kind}.volcano.sh")),
            "{kind} is missing in {kinds}"
        );
    }

    // Only the operator may write the inventory; nobody's service account may remove a gate.
    let can = async |account: &str, verb: &str, what: &str| {
        let user = format!("system:serviceaccount:{NAMESPACE}:{account}");
        let args = ["auth", "can-i", verb, what, "--all-namespaces", "--as", &user];
        let output = plane.kubectl().output(args, None).await?;
        anyhow::Ok(output.stdout.starts_with(b"yes"))
    };
    assert!(can("operator", "patch", "pods").await?);
    assert!(can("operator", "create", "cardinventories.card.volcano.sh").await?);
    assert!(!can("operator", "delete", "nodes").await?);
    assert!(!can("webhook", "patch", "pods").await?);
    assert!(!can("webhook", "create", "cardinventories.card.volcano.sh").await?);

    // A queue that limits nothing is compared with no other, and meets no webhook.
    plane.apply(&queue("team-a").build()).await?;

    // Removed as the README says it stands in nobody's way, and what still waits can be let go.
    let kubectl = plane.kubectl();
    pods.create(&PostParams::default(), &pod("waits").gate(keys::GATE).build())
        .await?;
    let ungate = r#"[{"op": "remove", "path": "/spec/schedulingGates"}]"#;
    let let_go = ["patch", "pod", "waits", "--type=json", "-p", ungate];
    let refused = kubectl.run(let_go).await.unwrap_err().to_string();
    assert!(refused.contains("cardgate-pod-update"), "{refused}");
    // What is awaited comes below: API servers take minutes at times over a definition that is deleted soon after it was created.
    kubectl
        .run(["delete", "-k", "manifests/overlays/without-volcano", "--wait=false"])
        .await?;
    wait::eventually("the policies to be gone", wait::PATIENCE, async || {
        kubectl.run(let_go).await?;
        Ok(Seen::Done(()))
    })
    .await?;
    wait::eventually("the webhooks to be gone", wait::PATIENCE, async || {
        pods.create(&PostParams::default(), &managed).await?;
        Ok(Seen::Done(()))
    })
    .await
}

#[tokio::test]
async fn cardgates_definitions_are_not_put_over_volcanos_without_a_word() -> Outcome {
    let plane = ControlPlane::start(Options::default().without_kwok().without_scheduler()).await?;
    let file = "manifests/overlays/without-volcano/podgroups.yaml";
    let ours = std::fs::read_to_string(cardgate_tests::workspace::root().join(file))?;
    // Volcano's own says the same in other words, and more in a later version.
    let volcanos = ours.replace(
        "How far the group is.",
        "Status represents the current information about a pod group.",
    );
    assert_ne!(ours, volcanos);
    plane.kubectl().apply(&volcanos).await?;
    let install = ["apply", "--server-side", "--field-manager=cardgate", "-f", file];
    let over = plane.kubectl().output(install, None).await?;
    let said = String::from_utf8_lossy(&over.stderr).into_owned();
    assert!(!over.status.success() && said.contains("conflict"), "{said}");
    // Volcano's goes over ours, and ours over ours.
    plane.kubectl().run(["delete", "-f", file]).await?;
    for _ in 0..2 {
        plane.kubectl().run(install).await?;
    }
    plane.kubectl().apply(&volcanos).await?;
    Ok(())
}

/// What is installed brings the configuration without data, so that nothing of it is overwritten.
#[tokio::test]
async fn an_upgrade_keeps_the_configuration_as_the_documents_say() -> Outcome {
    const FILE: &str = "manifests/base/config.yaml";
    let plane = ControlPlane::start(Options::default().without_kwok().without_scheduler()).await?;
    let maps: Api<ConfigMap> = Api::namespaced(plane.client().await?, NAMESPACE);
    let kubectl = plane.kubectl();
    kubectl.run(["create", "namespace", NAMESPACE]).await?;
    let install = ["apply", "--server-side", "--field-manager=cardgate", "-f", FILE];
    let file = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": CONFIG_MAP, "namespace": NAMESPACE },
        "data": { "cardgate.yaml": "unqueuedCards: charge" } });
    let file = file.to_string();
    let patch = json!({ "data": { "cardgate.yaml": "unqueuedCards: charge" } }).to_string();
    let patched = [
        "patch",
        "configmap",
        CONFIG_MAP,
        "-n",
        NAMESPACE,
        "--type=merge",
        "-p",
        &patch,
    ];
    for (write, stays) in [
        (&patched[..], true),
        (&["apply", "--server-side", "-f", "-"], true),
        (&["apply", "-f", "-"], false),
    ] {
        kubectl.run(install).await?;
        let stdin = write.ends_with(&["-"]).then_some(&*file);
        let written = kubectl.output(write.iter().copied(), stdin).await?;
        assert!(written.status.success(), "{written:?}");
        assert!(maps.get(CONFIG_MAP).await?.data.is_some(), "{write:?}");
        kubectl.run(install).await?;
        let data = maps.get(CONFIG_MAP).await?.data;
        assert_eq!(data.is_some(), stays, "{write:?}: {data:?}");
        kubectl.run(["delete", "-f", FILE]).await?;
    }
    Ok(())
}
