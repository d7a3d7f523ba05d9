//! The document's webhook section at the door of a real API server.

use crds::keys::{MGPU_CONTAINER_CARDS, MGPU_CORE, MGPU_MEMORY};
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use crate::{FIXED, Outcome, configured, scene};

/// One of the document's manifests, with requests and limits as it has them.
fn pod(list: Option<&str>, core: &str, memory: Option<&str>) -> anyhow::Result<Pod> {
    let mut resources = json!({MGPU_CORE: core});
    if let Some(memory) = memory {
        resources[MGPU_MEMORY] = json!(memory);
    }
    let annotations: Value = list.map_or(json!({}), |list| json!({MGPU_CONTAINER_CARDS: list}));
    Ok(serde_json::from_value(json!({
        "metadata": {"generateName": "mgpu-pod-", "annotations": annotations},
        "spec": {"containers": [{
            "name": "main", "image": "registry.k8s.io/pause:3.10",
            "resources": {"requests": resources, "limits": resources},
        }]},
    }))?)
}

#[tokio::test]
async fn webhook_admission_refuses_the_documents_cases_and_takes_their_neighbours() -> Outcome {
    let (world, _turn) = configured(&[], None).await?;
    let scenario = scene(world, "door", 0, 0, FIXED).await?;
    for (case, list, core, memory, rule) in [
        (
            "normal 1",
            None,
            "-20",
            Some("6k"),
            "-20 of vke.volcengine.com/mgpu-core: it must be more than 0",
        ),
        ("normal 2", None, "99", Some("128"), "at least 256 MiB"),
        ("normal 3", None, "120", None, "a multiple of 100"),
        (
            "normal 4",
            None,
            "200",
            Some("6k"),
            "2 full cards come with all of their memory",
        ),
        (
            "multiple 1",
            Some("3,2"),
            "200",
            Some("6k"),
            "\"3,2\" has 2 entries, and the pod has 1 container",
        ),
        (
            "multiple 2",
            Some("-1,2"),
            "200",
            Some("6k"),
            "\"-1\" in \"-1,2\" is no number of cards",
        ),
        (
            "multiple 3",
            Some("2"),
            "200",
            Some("6k"),
            "2 full cards come with all of their memory",
        ),
        (
            "multiple 4.1",
            Some("3"),
            "99",
            Some("765"),
            "at least 256 MiB on every card",
        ),
        ("multiple 4.2", Some("3"), "130", Some("6k"), "can't be divided by 3"),
        (
            "multiple 4.3",
            Some("2"),
            "202",
            Some("6k"),
            "101 a card: a card has 100",
        ),
    ] {
        let refused = scenario.refused(&pod(list, core, memory)?).await?;
        assert!(refused.contains(rule), "{case}: {refused}");
    }
    for (list, core, memory) in [
        (None, "20", Some("6k")),
        (None, "99", Some("256")),
        (None, "100", None),
        (None, "200", None),
        (Some("2"), "200", None),
        (Some("3"), "99", Some("768")),
        (Some("3"), "132", Some("6k")),
        // No mGPU: whatever the annotation says has no effect.
        (Some("-1,2"), "0", None),
    ] {
        let mut neighbour = pod(list, core, memory)?;
        if core == "0" {
            let spec = neighbour.spec.get_or_insert_default();
            spec.containers[0].resources = None;
        }
        scenario.create(&neighbour).await?;
    }
    Ok(())
}
