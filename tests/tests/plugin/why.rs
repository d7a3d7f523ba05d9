//! `kubectl card why -f`: what is not created yet, with the priorities of its classes and with its gang.

use anyhow::{Context as _, Result};
use cardgate_tests::scenario::Scenario;
use cardgate_tests::world::World;
use k8s_openapi::api::batch::v1::Job;
use serde_json::{Value, json};

use super::{Answer, NO_QUOTA, Outcome, answers, card, editor, two_run_and_one_waits};

/// A file that is gone in the end, and what `why` answers about it.
async fn why_of_file(scenario: &Scenario<'_>, user: &str, manifest: &Value) -> Result<Answer> {
    let file = std::env::temp_dir().join(format!("{}-{}.yaml", scenario.name(), std::process::id()));
    std::fs::write(&file, manifest.to_string())?;
    let path = file.to_str().context("a path that is not UTF-8")?;
    let answer = card(scenario, user, &["why", "-f", path, "-o", "json"]).await;
    std::fs::remove_file(&file)?;
    answer
}

#[tokio::test]
async fn what_is_not_created_yet_has_the_priority_of_its_class_and_comes_with_its_gang() -> Outcome {
    let scenario = Scenario::begin(World::shared().await?, "plugin-classes").await?;
    let (user, name) = (editor(&scenario).await?, two_run_and_one_waits(&scenario).await?);
    let class = json!({
        "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": { "name": "plugin-classes-high" }, "value": 1000,
    });
    scenario.plane().apply(&class).await?;
    let idea = |class: &str| -> Result<Value> {
        let mut pod = serde_json::to_value(scenario.gpu_pod("idea", &name, 1).build())?;
        pod["spec"]["priorityClassName"] = class.into();
        Ok(pod)
    };
    let waits = |data: &Value| data["blocks"][0]["reason"] == NO_QUOTA;
    answers(&scenario, &user, &["why", "three"], waits).await?;
    let answer = why_of_file(&scenario, &user, &idea("plugin-classes-high")?).await?;
    let note = "note: the priority that the class \"plugin-classes-high\" stands for is not known (you may not list priorityclasses): 0 is taken\n";
    assert_eq!((answer.code, &*answer.err), (Some(4), note), "{answer:?}");

    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": { "name": "plugin-classes" },
        "rules": [{ "apiGroups": ["scheduling.k8s.io"], "resources": ["priorityclasses"], "verbs": ["list"] }],
    });
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": { "name": "plugin-classes" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "plugin-classes" },
        "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user }],
    });
    scenario.plane().apply(&role).await?;
    scenario.plane().apply(&binding).await?;
    scenario.plane().await_rights(&user, "plugin-classes", None).await?;
    for (class, position) in [("plugin-classes-high", 1), ("", 2)] {
        let answer = why_of_file(&scenario, &user, &idea(class)?).await?;
        assert_eq!((answer.code, &*answer.err), (Some(4), ""), "{answer:?}");
        let data: Value = serde_json::from_str(&answer.out)?;
        assert_eq!(data["position"], position, "{data}");
    }
    let answer = why_of_file(&scenario, &user, &idea("plugin-classes-hihg")?).await?;
    assert_eq!(answer.code, Some(2), "{answer:?}");
    assert!(
        answer.err.contains("there is no PriorityClass of that name"),
        "{answer:?}"
    );

    // A gang of two of which one is asked about, and then both: never more than the quota.
    let group = json!({
        "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup",
        "metadata": { "name": "gang", "namespace": scenario.name() }, "spec": { "minMember": 3, "queue": scenario.name() },
    });
    scenario.plane().apply(&group).await?;
    let mut member = idea("")?;
    member["metadata"]["annotations"]["scheduling.k8s.io/group-name"] = "gang".into();
    let of_gang = |count: u32| json!({ "kind": "Deployment", "metadata": { "name": "gang" }, "spec": { "replicas": count, "template": member } });
    for (count, first) in [(1, "PodGroupIncomplete"), (3, NO_QUOTA)] {
        let is_seen = format!("{count} pods");
        let answer = why_of_file(&scenario, &user, &of_gang(count)).await?;
        let data: Value = serde_json::from_str(&answer.out)?;
        assert_eq!(
            (answer.code, &data["blocks"][0]["reason"]),
            (Some(5), &json!(first)),
            "{is_seen}: {data}"
        );
    }
    Ok(())
}

/// "Not known" was said of all of them.
#[tokio::test]
async fn what_is_there_and_has_no_pods_is_said_to_have_none_and_what_to_look_at() -> Outcome {
    let scenario = Scenario::begin(World::shared().await?, "plugin-podless").await?;
    let (user, name) = (editor(&scenario).await?, two_run_and_one_waits(&scenario).await?);
    scenario
        .create(&scenario.gpu_pod("none", &name, 1).deployment(0))
        .await?;
    let template =
        json!({ "spec": { "restartPolicy": "Never", "containers": [{ "name": "main", "image": "busybox" }] } });
    let nightly = json!({
        "apiVersion": "batch/v1", "kind": "CronJob", "metadata": { "name": "nightly", "namespace": scenario.name() },
        "spec": { "schedule": "0 0 1 1 *", "jobTemplate": { "spec": { "template": template } } },
    });
    let nightly = scenario.plane().apply(&nightly).await?;
    for (args, says) in [
        (
            &["why", "deployment/none"][..],
            "Deployment none is there and has no pods, so nothing of it waits: it is scaled to 0",
        ),
        (
            &["why", "cronjob", "nightly"],
            "CronJob nightly is there and makes no pods itself, but Jobs, and none of them is under way",
        ),
    ] {
        let answer = card(&scenario, &user, args).await?;
        assert_eq!((answer.code, &*answer.err), (Some(0), ""), "{answer:?}");
        assert!(answer.out.starts_with(says), "{answer:?}");
    }

    // Of one whose Job is under way, that is answered.
    let mut job = serde_json::to_value(scenario.gpu_pod("nightly-1", &name, 1).job(1))?;
    job["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "batch/v1", "kind": "CronJob", "name": "nightly", "uid": nightly.metadata.uid, "controller": true,
    }]);
    let job: Job = serde_json::from_value(job)?;
    scenario.create(&job).await?;
    let active = json!({ "status": { "active": [{
        "apiVersion": "batch/v1", "kind": "Job", "name": "nightly-1", "namespace": scenario.name(),
    }] } });
    let patch = active.to_string();
    let args = [
        "-n",
        scenario.name(),
        "patch",
        "cronjob",
        "nightly",
        "--subresource=status",
        "--type=merge",
        "-p",
        &patch,
    ];
    scenario.plane().kubectl().run(args).await?;
    let waits = |data: &Value| data["blocks"][0]["reason"] == NO_QUOTA;
    answers(&scenario, &user, &["why", "cj/nightly"], waits).await?;

    // Nothing is told to whom it is not for, and of what is not there it is said that no pods are known.
    let stranger = card(&scenario, "plugin-stranger", &["why", "deployment/none"]).await?;
    assert!(
        stranger.code == Some(3) && !stranger.err.contains("scaled to 0"),
        "{stranger:?}"
    );
    let gone = card(&scenario, &user, &["why", "deployment/gone"]).await?;
    assert_eq!(gone.code, Some(1), "{gone:?}");
    assert!(
        gone.err
            .contains("has no pods in namespace plugin-podless, as far as is known"),
        "{gone:?}"
    );
    Ok(())
}

/// It was said that nothing of the kind "one" has the name "two".
#[tokio::test]
async fn whoever_names_two_pods_is_told_that_the_first_is_no_kind() -> Outcome {
    let scenario = Scenario::begin(World::shared().await?, "plugin-two").await?;
    let answer = card(&scenario, "plugin-two", &["why", "one", "two"]).await?;
    assert_eq!(answer.code, Some(2), "{answer:?}");
    assert!(answer.err.contains("\"one\" is no kind that is known"), "{answer:?}");
    Ok(())
}
