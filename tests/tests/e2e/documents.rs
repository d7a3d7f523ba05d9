//! What the five documents show is what Kubernetes takes: each Queue and Deployment, and a pod of each template, to the letter.

use std::fs;

use cardgate_tests::scenario::Scenario;
use cardgate_tests::workspace;
use cardgate_tests::world::World;
use serde_json::{Value, json};

use crate::Outcome;

/// The objects that a file stands for, as far as the API server knows their kinds: of a Job of Volcano's, the pods.
fn objects(shown: &Value) -> Vec<Value> {
    let is_whole = !shown["spec"].is_null() && !shown["metadata"]["name"].is_null();
    match shown["kind"].as_str() {
        Some("Queue" | "Deployment" | "Pod") if is_whole => vec![shown.clone()],
        Some("Job") => {
            let tasks = shown["spec"]["tasks"].as_array().into_iter().flatten();
            let pod = |task: &Value| {
                let annotations = &task["template"]["metadata"]["annotations"];
                json!({
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "metadata": { "name": shown["metadata"]["name"], "annotations": annotations },
                    "spec": task["template"]["spec"],
                })
            };
            tasks.map(pod).collect()
        }
        _ => Vec::new(),
    }
}

#[tokio::test]
async fn what_the_documents_show_is_taken_strictly_but_for_the_pods_that_they_have_refused() -> Outcome {
    let scenario = Scenario::begin(World::shared().await?, "documents").await?;
    let namespace = format!("--namespace={}", scenario.name());
    let mut taken = 0;
    let mut refused = 0;
    for directory in fs::read_dir(workspace::root().join("crds/documents"))? {
        for file in fs::read_dir(directory?.path())? {
            let file = file?.path();
            let shown: Value = serde_saphyr::from_str(&fs::read_to_string(&file)?)?;
            for object in objects(&shown) {
                let create = ["create", "--dry-run=server", "--validate=strict", &namespace, "-f", "-"];
                let kubectl = scenario.plane().kubectl();
                let answer = kubectl.output(create, Some(&object.to_string())).await?;
                let said = String::from_utf8_lossy(&answer.stderr);
                let of_mgpu = file.components().any(|part| part.as_os_str() == "mgpu");
                if of_mgpu {
                    anyhow::ensure!(
                        !answer.status.success() && said.contains("mGPU: "),
                        "{}: {said}",
                        file.display()
                    );
                    refused += 1;
                } else {
                    anyhow::ensure!(answer.status.success(), "{}: {said}", file.display());
                    taken += 1;
                }
            }
        }
    }
    assert_eq!((taken, refused), (16, 8));
    Ok(())
}
