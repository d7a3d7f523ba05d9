//! `kubectl card lint` beside what the API server says of the same objects.

use std::path::PathBuf;

use cardgate_tests::devices::{self, NVIDIA, by_template, exactly};
use cardgate_tests::workloads;
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
    let unknown = "note: not checked: settings of the cluster (you may not get configmaps): its defaults are taken";
    assert!(answer.err.contains(unknown), "{answer:?}");
    assert_eq!(answer.err.matches("defaults are taken").count(), 1, "{answer:?}");
    let strict = card(&scenario, &user, &["lint", "-f", file.path()?, "--cluster", "--strict"]).await?;
    assert_eq!(strict.code, Some(7), "{strict:?}");
    Ok(())
}

/// As the door: pods that only wait keep no queue from getting queues below it.
#[tokio::test]
async fn a_queue_gets_queues_below_it_that_has_no_pods_but_waiting_ones() -> Outcome {
    let scenario = Scenario::begin(World::shared().await?, "plugin-lint-parent").await?;
    let user = viewer(&scenario).await?;
    let name = two_run_and_one_waits(&scenario).await?;
    let idle = format!("{}-idle", scenario.name());
    scenario.apply_queue(workloads::queue(&idle).quota(&name, 1)).await?;
    scenario
        .create(&scenario.gpu_pod("four", &name, 2).queue(&idle).build())
        .await?;
    scenario.waits("four", NO_QUOTA).await?;
    let waits = |data: &Value| {
        let mut rows = data["queues"].as_array().into_iter().flatten();
        rows.any(|row| row["queue"] == *idle && row["waiting"] == 2)
    };
    answers(&scenario, &user, &["top"], waits).await?;

    // The cluster's own configuration has no queues below others.
    let configuration = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "cardgate-config", "namespace": "cardgate-system" },
        "data": { "volcano-scheduler.conf": "tiers: [{plugins: [{name: capacity-card, arguments: {enableHierarchy: true}}]}]" },
    });
    let below = |parent: &str| {
        let child = workloads::queue(&format!("{parent}-child"));
        child.field("parent", json!(parent)).build()
    };
    let file = File::new(
        "plugin-lint-parent",
        &[configuration, below(scenario.name()), below(&idle)],
    )?;
    let refused = |data: &Value| refusals(data).into_iter().skip(1).collect::<Vec<_>>();
    let args = ["lint", "-f", file.path()?, "--cluster"];
    let is_known = |data: &Value| matches!(&*refused(data), [Some(message), None] if message.contains("has pods that were let in"));
    answers(&scenario, &user, &args, is_known).await?;
    Ok(())
}

/// What lint says of one object, and the API server if it were applied.
async fn change(scenario: &Scenario<'_>, user: &str, object: &Value) -> Result<(Value, Result<String>)> {
    let file = File::new("plugin-against", std::slice::from_ref(object))?;
    let args = [
        "lint",
        "-f",
        file.path()?,
        "--against",
        "cluster",
        "--cluster",
        "-o",
        "json",
    ];
    let answer = card(scenario, user, &args).await?;
    let data = answer.data()?;
    let linted = data["objects"][0].clone();
    let code = if linted["refused"].is_null() { 0 } else { 7 };
    assert_eq!(answer.code, Some(code), "{answer:?}");
    let apply = ["apply", "--dry-run=server", "-f", file.path()?];
    Ok((
        linted,
        scenario.plane().kubectl().run(apply).await.map(|_| String::new()),
    ))
}

#[tokio::test]
async fn changes_of_what_is_there_are_judged_as_the_api_server_judges_them() -> Outcome {
    let world = World::shared().await?;
    let scenario = Scenario::begin(world, "plugin-against").await?;
    let user = editor(&scenario).await?;
    let (a100, h100) = (scenario.card("NVIDIA-A100"), scenario.card("NVIDIA-H100"));
    devices::class(&world.plane, NVIDIA, &format!("device.driver == '{NVIDIA}'"), None).await?;
    devices::nodes(&scenario, world, &[(&a100, 4), (&h100, 4)]).await?;
    let queue = |quota: &str| {
        json!({
            "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue",
            "metadata": { "name": scenario.name(), "annotations": { "volcano.sh/card.quota": format!("{{\"{a100}\": {quota}}}") } },
            "spec": { "capability": { "cpu": "100", "memory": "100Gi" } },
        })
    };
    let of_claims = |kind: &str, name: &str, spec: Value| json!({ "apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": { "name": name, "namespace": scenario.name() }, "spec": spec });
    let asks = |count: usize| json!({ "devices": { "requests": exactly(NVIDIA, count, Some(&a100)) } });
    // Without what goes without saying, as people write it.
    let mut short = asks(1);
    let exactly = short["devices"]["requests"][0]["exactly"]
        .as_object_mut()
        .context("no form")?;
    exactly.retain(|key, _| key == "deviceClassName" || key == "selectors");
    let in_template = |spec: &Value| of_claims("ResourceClaimTemplate", "one", json!({ "spec": spec }));
    let web = |replicas: i32| -> Result<Value> {
        let mut deployment = value(&by_template(scenario.pod("web"), "one").deployment(replicas))?;
        deployment["metadata"]["namespace"] = scenario.name().into();
        Ok(deployment)
    };
    let naming = |card: &str| -> Result<Value> {
        let mut pod = value(&by_template(scenario.pod("train").card(card), "one").build())?;
        pod["metadata"]["namespace"] = scenario.name().into();
        Ok(pod)
    };
    let there = [
        queue("2"),
        in_template(&short),
        of_claims("ResourceClaim", "mine", short.clone()),
        web(1)?,
        naming(&a100)?,
    ];
    let file = File::new("plugin-against-there", &there)?;
    scenario.plane().kubectl().run(["apply", "-f", file.path()?]).await?;
    scenario.expect("train", &Tally::none().running(&a100, 1)).await?;

    // What is allowed, and what is not: both say so, of what webhooks and policies refuse in the same words.
    for object in there.iter().chain(&[queue("3"), web(2)?, in_template(&asks(1))]) {
        let (linted, applied) = change(&scenario, &user, object).await?;
        assert_eq!(
            (&linted["operation"], &linted["refused"]),
            (&json!("Update"), &Value::Null),
            "{linted:#}"
        );
        assert!(applied.is_ok(), "{applied:?}, of {object:#}");
    }
    let fixed = ["spec: what a claim asks for can't be changed"];
    for (object, words) in [
        (queue("2.5"), &[][..]),
        (naming(&h100)?, &[]),
        (in_template(&asks(2)), &fixed),
        (of_claims("ResourceClaim", "mine", asks(2)), &fixed),
    ] {
        let (linted, applied) = change(&scenario, &user, &object).await?;
        let message = linted["refused"]["message"].as_str().unwrap_or_default().to_owned();
        assert_eq!(linted["operation"], "Update", "{linted:#}");
        let error = applied
            .err()
            .with_context(|| format!("the API server takes {object:#}"))?;
        let said = format!("{error:#}");
        if words.is_empty() {
            assert!(
                !message.is_empty() && said.contains(&message),
                "{message:?} beside {said:?}"
            );
        }
        assert!(words.iter().all(|word| message.contains(word)), "{linted:#}");
    }
    // Whose pods claim another card than they name, by what the cluster's template says: the pods would be refused.
    let mut other = web(1)?;
    other["spec"]["template"]["metadata"]["annotations"]["volcano.sh/card.name"] = h100.as_str().into();
    let (linted, _) = change(&scenario, &user, &other).await?;
    let message = linted["refused"]["message"].as_str().unwrap_or_default();
    assert!(
        message.contains("ResourceClaimTemplate \"one\"") && message.contains(&a100),
        "{linted:#}"
    );
    // What is not there is new.
    let mut new = web(1)?;
    new["metadata"]["name"] = "new".into();
    let (linted, applied) = change(&scenario, &user, &new).await?;
    assert!(
        linted["operation"] == "Create" && applied.is_ok(),
        "{linted:#} {applied:?}"
    );

    let mine = of_claims("ResourceClaim", "mine", asks(2));
    judge_unseen(&scenario, [mine, other]).await
}

/// Who may not look is told what was not looked at, and nothing is taken for missing that was only not seen.
async fn judge_unseen(scenario: &Scenario<'_>, objects: [Value; 2]) -> Outcome {
    let file = File::new("plugin-against-stranger", &objects)?;
    let args = ["lint", "-f", file.path()?, "--against", "cluster", "--cluster"];
    let answer = card(scenario, "plugin-against-stranger", &args).await?;
    for said in [
        "whether ResourceClaim mine is there, and what it says, so it is judged as a new one: you may not get resourceclaims",
        "whether Deployment web is there, and what it says, so it is judged as a new one: you may not get deployments",
        "what every ResourceClaimTemplate of namespace plugin-against asks for: you may not list resourceclaimtemplates",
        "whether ResourceClaimTemplate \"one\" asks for the cards that its pods name: name it by -f, or ask by --cluster",
    ] {
        assert!(
            answer.code == Some(0) && answer.err.contains(&format!("not checked: {said}\n")),
            "{said:?} is missing: {answer:?}"
        );
    }
    Ok(())
}
