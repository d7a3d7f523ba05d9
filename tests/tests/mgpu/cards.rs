//! Which cards pods get, and when they get none.

use cardgate_tests::nodes;
use cardgate_tests::scenario::Scenario;
use cardgate_tests::tally::{NO_CARD, Tally};
use cardgate_tests::wait::{self, Seen};
use cardgate_tests::workspace;
use crds::keys::{MGPU_ASSUMED, MGPU_CONTAINER_CARDS, MGPU_DEVICE_IDS, MGPU_INDEX_PREFIX, MGPU_POLICY};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::json;

use crate::{FIXED, NATIVE, Outcome, configured, container, cores_in_use, mgpu_node, placement, running, scene, share};

#[tokio::test]
async fn a_container_shares_multiple_gpu_cards_as_the_document_has_it() -> Outcome {
    let (world, _turn) = configured(&[], None).await?;
    let scenario = scene(world, "three-containers", 1, 4, NATIVE).await?;
    let pod = share(&scenario, "c", 100, 6000)
        .annotation(MGPU_CONTAINER_CARDS, "2,1,3")
        .annotation(MGPU_POLICY, NATIVE)
        .spec(|spec| spec.containers = vec![container("c2", 100, 0), container("c3", 99, 6000)]);
    scenario.create(&pod.build()).await?;
    let pod = running(&scenario, "c").await?;
    let lists = [("c2", "2"), ("c3", "0,1,3"), ("main", "0,1")].map(|(name, list)| (name.to_owned(), list.to_owned()));
    assert_eq!(placement(&pod), ("three-containers-0".to_owned(), lists.to_vec()));
    cores_in_use(&scenario, "three-containers-0", &[83, 83, 100, 33]).await?;

    // Updates change none of it, whoever makes them.
    for (key, value) in [
        (MGPU_ASSUMED, json!("false")),
        (&format!("{MGPU_INDEX_PREFIX}main"), json!("2,3")),
        (&format!("{MGPU_INDEX_PREFIX}c2"), json!(null)),
        (&format!("{MGPU_INDEX_PREFIX}c4"), json!("0")),
        (MGPU_CONTAINER_CARDS, json!("1,1,1")),
        (MGPU_POLICY, json!(null)),
    ] {
        let patch = Patch::Merge(json!({"metadata": {"annotations": {key: value}}}));
        let changed = scenario.api::<Pod>().patch("c", &PatchParams::default(), &patch).await;
        let refused = changed.map(|_| ()).unwrap_err().to_string();
        assert!(refused.contains(key), "{key}: {refused}");
    }

    // Released once, with the pod.
    scenario.delete::<Pod>("c").await?;
    cores_in_use(&scenario, "three-containers-0", &[0, 0, 0, 0]).await?;
    Ok(())
}

#[tokio::test]
async fn the_example_is_placed_on_a_node_of_volcano_engine() -> Outcome {
    let (world, _turn) = configured(&[], None).await?;
    let scenario = Scenario::begin(world, "example").await?;
    scenario.nodes(&[nodes::vke_mgpu("example-vke")]).await?;
    let example = workspace::root().join("examples/5-mgpu.yaml");
    let arguments = ["-n", scenario.name(), "apply", "-f", &example.to_string_lossy()].map(str::to_owned);
    world.plane.kubectl().run(arguments).await?;
    let expected = Tally::none().running(NO_CARD, 2);
    scenario.expect("shared-notebook", &expected).await?;
    let (node, lists) = placement(&running(&scenario, "three-containers").await?);
    assert_eq!((node.as_str(), lists.len()), ("example-vke", 3));
    let types = world
        .plane
        .kubectl()
        .run(["get", "cardtypes", "--no-headers", "-o", "wide"])
        .await?;
    let shared = types.lines().find(|line| line.contains("NVIDIA-H100-80GB-HBM3/mgpu"));
    assert!(
        shared.is_some_and(|line| line.contains("MGPU") && line.contains("800")),
        "{types}"
    );
    world
        .plane
        .kubectl()
        .run(["-n", scenario.name(), "delete", "--all", "deployments,pods"])
        .await?;
    world.plane.kubectl().run(["delete", "node", "example-vke"]).await?;
    Ok(())
}

#[tokio::test]
async fn two_pods_share_a_card_under_binpack_and_take_two_under_spread() -> Outcome {
    for (policy, expected) in [("binpack", [60, 0]), ("Spread", [30, 30])] {
        let (world, _turn) = configured(&[("Policy", policy)], None).await?;
        let name = policy.to_lowercase();
        let scenario = scene(world, &name, 1, 2, FIXED).await?;
        for pod in ["p", "q"] {
            scenario.create(&share(&scenario, pod, 30, 2000).build()).await?;
            running(&scenario, pod).await?;
        }
        cores_in_use(&scenario, &format!("{name}-0"), &expected).await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_full_card_waits_for_an_idle_one_and_gets_it_after_a_release() -> Outcome {
    let (world, _turn) = configured(&[], None).await?;
    let scenario = scene(world, "full-card", 1, 2, FIXED).await?;
    for (pod, core) in [("small", 30), ("large", 90)] {
        scenario.create(&share(&scenario, pod, core, 2000).build()).await?;
        running(&scenario, pod).await?;
    }
    scenario.create(&share(&scenario, "full", 100, 0).build()).await?;
    let condition = scenario.waits("full", "InsufficientMGPU").await?;
    let message = condition.message.unwrap_or_default();
    assert!(message.contains("no mGPU node can take the pod now"), "{message}");
    scenario.delete::<Pod>("large").await?;
    let (_, lists) = placement(&running(&scenario, "full").await?);
    assert_eq!(lists, [("main".to_owned(), "1".to_owned())]);
    Ok(())
}

#[tokio::test]
async fn policies_of_pod_and_node_must_match() -> Outcome {
    let (world, _turn) = configured(&[], None).await?;
    let scenario = scene(world, "policies", 1, 2, FIXED).await?;
    let native = share(&scenario, "native", 30, 2000).annotation(MGPU_POLICY, NATIVE);
    scenario.create(&native.build()).await?;
    let message = scenario
        .waits("native", "NoMGPUNode")
        .await?
        .message
        .unwrap_or_default();
    assert!(
        message.contains("with another compute policy than native-burst-share"),
        "{message}"
    );
    scenario
        .nodes(&[mgpu_node("policies", "policies-native", 2, NATIVE)])
        .await?;
    let (node, _) = placement(&running(&scenario, "native").await?);
    assert_eq!(node, "policies-native");
    // A full card without a policy goes anywhere.
    scenario.create(&share(&scenario, "full", 400, 0).build()).await?;
    scenario.waits("full", "NoMGPUNode").await?;
    for pod in ["full-1", "full-2"] {
        scenario.create(&share(&scenario, pod, 100, 0).build()).await?;
        running(&scenario, pod).await?;
    }
    Ok(())
}

#[tokio::test]
async fn schedule_mode_id_writes_device_ids() -> Outcome {
    let (world, _turn) = configured(&[("ScheduleMode", "id")], None).await?;
    let scenario = scene(world, "device-ids", 1, 2, NATIVE).await?;
    let pod = share(&scenario, "p", 60, 2000)
        .annotation(MGPU_CONTAINER_CARDS, "2")
        .annotation(MGPU_POLICY, NATIVE);
    scenario.create(&pod.build()).await?;
    let message = scenario.waits("p", "NoMGPUNode").await?.message.unwrap_or_default();
    assert!(message.contains("1 without a device id for each card"), "{message}");
    let node = mgpu_node("device-ids", "device-ids-1", 2, NATIVE).annotation(MGPU_DEVICE_IDS, "GPU-aa,GPU-bb");
    scenario.nodes(&[node]).await?;
    let (node, lists) = placement(&running(&scenario, "p").await?);
    assert_eq!(node, "device-ids-1");
    assert_eq!(lists, [("main".to_owned(), "GPU-aa,GPU-bb".to_owned())]);
    cores_in_use(&scenario, "device-ids-1", &[30, 30]).await?;
    Ok(())
}

#[tokio::test]
async fn a_pinned_node_that_does_not_take_its_pod_gets_its_cards_back() -> Outcome {
    let (world, _turn) = configured(&[], Some("reservationTimeout: 10s\n")).await?;
    let scenario = scene(world, "no-scheduler", 1, 1, FIXED).await?;
    // Nobody binds it, as when its node is cordoned between decision and binding.
    let job = share(&scenario, "stranded", 60, 2000).scheduler("nobody").job(1);
    scenario.create::<Job>(&job).await?;
    cores_in_use(&scenario, "no-scheduler-0", &[60]).await?;
    world.plane.kubectl().run(["cordon", "no-scheduler-0"]).await?;
    cores_in_use(&scenario, "no-scheduler-0", &[0]).await?;
    // Its successor is gated again, and gets no cards of a node that takes no pods.
    wait::eventually("a successor behind the gate", wait::PATIENCE, async || {
        let pods = scenario.api::<Pod>().list(&ListParams::default()).await?.items;
        let gated = pods.iter().filter(|pod| cardgate_tests::tally::is_gated(pod));
        let names: Vec<_> = gated.map(ResourceExt::name_any).collect();
        Ok(Seen::when(
            names.len() == 1 && pods.len() == 1,
            format!("{names:?} of {}", pods.len()),
        ))
    })
    .await
}
