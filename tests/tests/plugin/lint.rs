//! `kubectl card lint` beside what the API server says of the same objects.

use std::path::PathBuf;

use serde::Serialize;

use super::*;

/// Manifests in a file that is gone with this.
pub struct File(PathBuf);

impl File {
    pub fn new(name: &str, objects: &[Value]) -> Result<Self> {
        let path = std::env::temp_dir().join(format!("{name}-{}.yaml", std::process::id()));
        let documents: Vec<_> = objects.iter().map(Value::to_string).collect();
        std::fs::write(&path, documents.join("\n---\n"))?;
        Ok(Self(path))
    }

    pub fn path(&self) -> Result<&str> {
        self.0.to_str().context("a path that is not UTF-8")
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn value(object: &impl Serialize) -> Result<Value> {
    Ok(serde_json::to_value(object)?)
}

/// Of each object that lint has judged, what it is refused for.
fn refusals(data: &Value) -> Vec<Option<String>> {
    let objects = data["objects"].as_array().into_iter().flatten();
    let refused = objects.map(|object| object["refused"]["message"].as_str().map(str::to_owned));
    refused.collect()
}

#[tokio::test]
async fn a_pipeline_is_told_what_the_api_server_would_say() -> Outcome {
    let scenario = Scenario::begin(World::shared().await?, "plugin-lint").await?;
    let user = editor(&scenario).await?;
    let name = two_run_and_one_waits(&scenario).await?;
    scenario.door_knows(&[&name]).await?;
    let annotated = |pod: &str, card: &str| -> Result<Value> {
        let mut pod = value(&scenario.gpu_pod(pod, &name, 1).build())?;
        pod["metadata"]["annotations"]["volcano.sh/card.name"] = card.into();
        pod["metadata"]["namespace"] = scenario.name().into();
        Ok(pod)
    };
    let mut pinned = annotated("pinned", &name)?;
    pinned["spec"]["nodeName"] = "some-node".into();
    let queue = json!({
        "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue",
        "metadata": { "name": "plugin-lint-bad", "annotations": { "volcano.sh/card.quota": format!("{{\"{name}\": 2.5}}") } },
        "spec": {},
    });
    let job = json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {
            "name": "bad", "namespace": scenario.name(), "annotations": { "volcano.sh/card.request": "{\"A100\": 0.5}" },
        },
        "spec": { "template": { "spec": { "restartPolicy": "Never", "containers": [{ "name": "main", "image": "i" }] } } },
    });
    let mut forged = annotated("forged", &name)?;
    forged["metadata"]["annotations"]["volcano.sh/card.assigned"] = name.as_str().into();
    let mut labelled = annotated("labelled", &name)?;
    labelled["metadata"]["labels"] = json!({ "card.volcano.sh/queue": "another" });
    let long = json!({
        "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue",
        "metadata": { "name": "plugin-lint-long", "annotations": { "card.volcano.sh/namespaces": "a".repeat(5_000) } },
        "spec": {},
    });
    let (good, bad) = (annotated("good", &name)?, annotated("bad", "A|")?);
    let objects = [good, bad, pinned, queue, job, forged, labelled, long];

    let file = File::new("plugin-lint", &objects)?;
    let answer = card(
        &scenario,
        &user,
        &["lint", "-f", file.path()?, "--cluster", "-o", "json"],
    )
    .await?;
    assert_eq!(answer.code, Some(7), "{answer:?}");
    let refused = refusals(&answer.data()?);
    assert_eq!(refused.len(), objects.len(), "{answer:?}");
    for (object, linted) in objects.iter().zip(refused) {
        let alone = File::new("plugin-lint-alone", std::slice::from_ref(object))?;
        let args = ["create", "--dry-run=server", "-f", alone.path()?];
        let applied = scenario.plane().kubectl().run(args).await;
        match (applied, linted) {
            (Ok(_), None) => {}
            (Err(error), Some(message)) => {
                let said = format!("{error:#}");
                assert!(
                    said.contains(&message),
                    "lint says {message:?}, the API server {said:?}"
                );
            }
            (applied, linted) => panic!("{object}: the API server says {applied:?}, lint {linted:?}"),
        }
    }

    // Without a cluster the same is refused, and a kubeconfig is not even looked for.
    let output = Command::new(plugin().await?)
        .args(["lint", "-f", file.path()?, "-o", "json"])
        .env("KUBECONFIG", "/nowhere")
        .output()
        .await?;
    assert_eq!(output.status.code(), Some(7), "{output:?}");
    let offline: Value = serde_json::from_slice(&output.stdout)?;
    assert_eq!(refusals(&offline), refusals(&answer.data()?));

    // A slip in a card's name is warned of, by the cluster's own cards.
    let misspelt = name.replace("A100", "A10O");
    let file = File::new("plugin-lint-slip", &[annotated("slip", &misspelt)?])?;
    let answer = card(&scenario, &user, &["lint", "-f", file.path()?, "--cluster"]).await?;
    assert_eq!(answer.code, Some(0), "{answer:?}");
    assert!(answer.out.contains(&format!("did you mean {name:?}?")), "{answer:?}");
    let strict = card(&scenario, &user, &["lint", "-f", file.path()?, "--cluster", "--strict"]).await?;
    assert_eq!(strict.code, Some(7), "{strict:?}");
    Ok(())
}
