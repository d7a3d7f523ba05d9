//! The Helm chart has the objects of the kustomizations, as Helm itself renders it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use anyhow::{Context, Result, ensure};
use cardgate_tests::assets::{Assets, Program};
use cardgate_tests::go_tool;
use cardgate_tests::manifests::chart::{NAMESPACE, documents};
use cardgate_tests::manifests::{directory, render};
use serde_json::{Value, json};

type Outcome = Result<()>;
type Objects = BTreeMap<String, Value>;

/// What keeps definitions when a release goes; the kustomizations have no such thing.
const KEEP: &str = "helm.sh/resource-policy";

/// Helm, built once from the Go module `tests/helm`.
fn helm() -> Result<&'static Path> {
    static HELM: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let build = || go_tool::build("helm", "helm.sh/helm/v4/cmd/helm", &[]).map_err(|error| format!("{error:#}"));
    HELM.get_or_init(build).as_deref().map_err(anyhow::Error::msg)
}

fn run(namespace: &str, args: &[&str]) -> Result<Output> {
    let mut command = Command::new(helm()?);
    command.args(["template", "cardgate"]).arg(directory().join("chart"));
    Ok(command.args(["--namespace", namespace]).args(args).output()?)
}

fn rendered(args: &[&str]) -> Result<Objects> {
    let output = run(NAMESPACE, args)?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout)?;
    objects(text.strip_prefix("---\n").unwrap_or(&text))
}

fn kustomized(path: &str) -> Result<Objects> {
    let kubectl = Assets::locate()?.path(Program::Kubectl);
    let mut objects = objects(&render(&kubectl, &directory().join(path))?)?;
    // Helm makes it.
    objects.remove(&format!("Namespace {NAMESPACE}"));
    Ok(objects)
}

fn objects(text: &str) -> Result<Objects> {
    let mut objects = Objects::new();
    for document in documents(text) {
        let mut object: Value = serde_saphyr::from_str(&document).with_context(|| document.clone())?;
        if object.is_null() {
            continue;
        }
        let kind = object["kind"].as_str().context("no kind")?.to_owned();
        let name = object["metadata"]["name"].as_str().context("no name")?.to_owned();
        if kind == "CustomResourceDefinition" && object["metadata"]["annotations"][KEEP] == "keep" {
            object["metadata"]["annotations"]
                .as_object_mut()
                .context("no object")?
                .remove(KEEP);
        }
        if object["metadata"]["annotations"] == json!({}) {
            object["metadata"]
                .as_object_mut()
                .context("no object")?
                .remove("annotations");
        }
        ensure!(
            objects.insert(format!("{kind} {name}"), object).is_none(),
            "{kind} {name} comes twice"
        );
    }
    Ok(objects)
}

#[test]
fn its_objects_are_those_of_the_kustomizations() -> Outcome {
    let values: [(&[&str], &str); 3] = [
        (&[], "base"),
        (&["--set", "volcano=false"], "overlays/without-volcano"),
        (&["--set", "prometheus=true"], "overlays/prometheus"),
    ];
    for (values, kustomization) in values {
        let (mut of_chart, expected) = (rendered(values)?, kustomized(kustomization)?);
        for (name, expected) in expected {
            let object = of_chart
                .remove(&name)
                .with_context(|| format!("{values:?} lacks {name}"))?;
            assert_eq!(object, expected, "{values:?}: {name}");
        }
        assert_eq!(of_chart.keys().collect::<Vec<_>>(), Vec::<&String>::new(), "{values:?}");
    }
    Ok(())
}

#[test]
fn values_say_where_images_are_how_many_there_are_what_they_use_and_what_is_configured() -> Outcome {
    let objects = rendered(&[
        "--set",
        "image.operator=registry.example.com/o:1,image.webhook=registry.example.com/w:2,replicas.webhook=5,resources.operator.limits.memory=8Gi",
        "--set-string",
        r"configuration.cardgate\.yaml=admitOn: quota",
    ])?;
    let of = |program: &str| &objects[&format!("Deployment {program}")]["spec"];
    let image = |program: &str| of(program)["template"]["spec"]["containers"][0]["image"].clone();
    assert_eq!(
        (image("operator"), image("webhook")),
        (json!("registry.example.com/o:1"), json!("registry.example.com/w:2"))
    );
    assert_eq!(
        (&of("operator")["replicas"], &of("webhook")["replicas"]),
        (&json!(2), &json!(5))
    );
    let limit = |program: &str| of(program)["template"]["spec"]["containers"][0]["resources"]["limits"].clone();
    assert_eq!(
        (limit("operator"), limit("webhook")),
        (json!({ "memory": "8Gi" }), json!({ "memory": "512Mi" }))
    );
    let data = &objects["ConfigMap cardgate-config"]["data"];
    assert_eq!(data, &json!({ "cardgate.yaml": "admitOn: quota" }));
    Ok(())
}

#[test]
fn another_namespace_is_refused_with_what_to_do() -> Outcome {
    let output = run("elsewhere", &[])?;
    let said = String::from_utf8(output.stderr)?;
    assert!(
        !output.status.success() && said.contains("--namespace cardgate-system"),
        "{said}"
    );
    Ok(())
}
