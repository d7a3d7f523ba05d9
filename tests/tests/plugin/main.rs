//! `kubectl card` on a real control plane, each time with the rights of somebody who would ask.

mod claims;
mod completion;
mod history;
mod lint;
mod list;
mod simulate;
mod top;
mod types;
mod ui;
mod uninstall;
mod why;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use cardgate_tests::scenario::Scenario;
use cardgate_tests::tally::Tally;
use cardgate_tests::wait::{self, Seen};
use cardgate_tests::world::World;
use cardgate_tests::{cardgate, nodes};
use serde_json::{Value, json};
use tokio::process::Command;
use tokio::sync::OnceCell;

type Outcome = Result<()>;

/// The reason of pods that wait for quota.
const NO_QUOTA: &str = "InsufficientScalarQuota";

/// What the plugin said.
#[derive(Debug)]
struct Answer {
    code: Option<i32>,
    out: String,
    err: String,
}

impl Answer {
    fn data(&self) -> Result<Value> {
        serde_json::from_str(&self.out).with_context(|| format!("{self:?}"))
    }
}

async fn plugin() -> Result<&'static Path> {
    static PLUGIN: OnceCell<PathBuf> = OnceCell::const_new();
    let built = async || Ok::<_, anyhow::Error>(tokio::task::spawn_blocking(cardgate::build).await??.plugin);
    Ok(PLUGIN.get_or_try_init(built).await?)
}

/// `kubectl card` by the real kubectl, on behalf of the user.
async fn command(scenario: &Scenario<'_>, user: &str, args: &[&str]) -> Result<Command> {
    let kubectl = scenario.plane().kubectl();
    let directory = plugin().await?.parent().context("the plugin is in no directory")?;
    let mut command = Command::new(kubectl.program());
    command
        .arg("card")
        .args(args)
        .args(["--as", user, "--namespace", scenario.name()])
        .env("KUBECONFIG", kubectl.kubeconfig())
        .env("PATH", directory);
    Ok(command)
}

/// What it says once it has ended.
async fn card(scenario: &Scenario<'_>, user: &str, args: &[&str]) -> Result<Answer> {
    let output = command(scenario, user, args).await?.output().await?;
    Ok(Answer {
        code: output.status.code(),
        out: String::from_utf8(output.stdout)?,
        err: String::from_utf8(output.stderr)?,
    })
}

/// Awaits what the plugin answers as JSON.
async fn answers(scenario: &Scenario<'_>, user: &str, args: &[&str], wanted: impl Fn(&Value) -> bool) -> Result<Value> {
    let args = [args, &["--output", "json"]].concat();
    wait::eventually(format!("{args:?}"), wait::PATIENCE, async || {
        let answer = card(scenario, user, &args).await?;
        Ok(match answer.data() {
            Ok(data) if wanted(&data) => Seen::Done(data),
            _ => Seen::NotYet(format!("{answer:?}")),
        })
    })
    .await
}

/// A user who may edit the scenario's namespace and nothing else.
async fn editor(scenario: &Scenario<'_>) -> Result<String> {
    let user = format!("{}-editor", scenario.name());
    scenario.plane().grant(&user, "edit", scenario.name()).await?;
    Ok(user)
}

/// A user who may view the whole cluster and change nothing.
async fn viewer(scenario: &Scenario<'_>) -> Result<String> {
    let user = format!("{}-viewer", scenario.name());
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": { "name": user },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view" },
        "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user }],
    });
    scenario.plane().apply(&binding).await?;
    scenario.plane().await_rights(&user, "view", None).await?;
    Ok(user)
}

/// A card of which there are four, a queue that may have two, and three pods that want one each.
async fn two_run_and_one_waits(scenario: &Scenario<'_>) -> Result<String> {
    let name = scenario.name();
    let card = scenario.card("NVIDIA-A100");
    scenario.nodes(&[nodes::nvidia(name, &card, 4, 81_920)]).await?;
    scenario.apply_queue(scenario.queue().quota(&card, 2)).await?;
    for pod in ["one", "two"] {
        scenario.create(&scenario.gpu_pod(pod, &card, 1).build()).await?;
        scenario.expect(pod, &Tally::none().running(&card, 1)).await?;
    }
    scenario.create(&scenario.gpu_pod("three", &card, 1).build()).await?;
    scenario.waits("three", NO_QUOTA).await?;
    Ok(card)
}

fn of_card<'v>(data: &'v Value, card: &str) -> Option<&'v Value> {
    data["cards"].as_array()?.iter().find(|row| row["card"] == card)
}

#[tokio::test]
async fn quotas_are_everybodys_to_see_and_what_waits_is_for_who_may_view_the_cluster() -> Outcome {
    let scenario = Scenario::begin(World::shared().await?, "plugin-queue").await?;
    let (edits, views) = (editor(&scenario).await?, viewer(&scenario).await?);
    let name = two_run_and_one_waits(&scenario).await?;

    let answer = card(&scenario, &edits, &["queue", scenario.name()]).await?;
    assert_eq!(answer.code, Some(0), "{answer:?}");
    assert!(answer.err.contains("ClusterRole cardgate-view"), "{answer:?}");
    let cells: Vec<_> = answer.out.split_whitespace().collect();
    assert_eq!(cells, ["CARD", "QUOTA", &name, "2"], "{answer:?}");

    let waits = |data: &Value| data["usage"]["firstWaiting"][0]["reason"] == NO_QUOTA;
    answers(&scenario, &views, &["queue", scenario.name()], waits).await?;
    let answer = card(&scenario, &views, &["queue", scenario.name()]).await?;
    assert_eq!(answer.err, "", "{answer:?}");
    let line = |start: &str| {
        let line = answer.out.lines().find(|line| line.starts_with(start));
        line.unwrap_or_default().split_whitespace().collect::<Vec<_>>()
    };
    assert_eq!(line(&name), [name.as_str(), "2", "2", "1"], "{answer:?}");
    let missing = format!("queue plugin-queue: {name} asked 1, used 2, quota 2");
    let row = answer.out.lines().find(|line| line.starts_with("1  "));
    let cells: Vec<_> = row
        .unwrap_or_default()
        .split("  ")
        .map(str::trim)
        .filter(|cell| !cell.is_empty())
        .collect();
    let cards = format!("{name} x1");
    assert_eq!(
        cells,
        ["1", "Pod", "plugin-queue/three", "1", &cards, &missing],
        "{answer:?}"
    );

    let quota = format!("{name} x2");
    let all = card(&scenario, &views, &["queue"]).await?;
    let row = all.out.lines().find(|line| line.starts_with("plugin-queue "));
    assert!(row.is_some_and(|row| row.matches(&quota).count() == 2), "{all:?}");
    Ok(())
}

#[tokio::test]
async fn who_holds_a_card_is_told_by_queue() -> Outcome {
    let scenario = Scenario::begin(World::shared().await?, "plugin-who").await?;
    let (edits, views) = (editor(&scenario).await?, viewer(&scenario).await?);
    let name = two_run_and_one_waits(&scenario).await?;
    let holds = |data: &Value| {
        let holders = &data["queues"];
        let expected = json!({
            "queue": "plugin-who", "allocated": 2, "quota": 2, "waiting": 1, "requested": 3, "share": holders[0]["share"],
        });
        *holders == json!([expected]) && data["free"] == 2
    };
    let data = answers(&scenario, &views, &["who", &name], holds).await?;
    assert_eq!((&data["total"], &data["unaccounted"]), (&json!(4), &json!(0)), "{data}");

    let answer = card(&scenario, &edits, &["who", &name]).await?;
    let expected = format!("{name}: 2 of 4 free, 0 charged to no queue\n");
    assert_eq!((answer.code, &*answer.out), (Some(0), &*expected), "{answer:?}");
    assert!(
        answer.err.contains(
            "without the queues: you may not list cardusages: ask your administrator for the ClusterRole cardgate-view"
        ),
        "{answer:?}"
    );
    let misspelt = name.replace("A100", "A10O");
    let answer = card(&scenario, &edits, &["who", &misspelt]).await?;
    assert_eq!((answer.code, &*answer.out), (Some(1), ""), "{answer:?}");
    assert!(answer.err.contains(&format!("did you mean {name:?}?")), "{answer:?}");
    Ok(())
}

#[tokio::test]
async fn an_editor_of_one_namespace_asks_why_a_pod_waits_and_what_would_let_it_in() -> Outcome {
    let scenario = Scenario::begin(World::shared().await?, "plugin-why").await?;
    let user = editor(&scenario).await?;
    let name = two_run_and_one_waits(&scenario).await?;
    let waits = |data: &Value| data["blocks"][0]["reason"] == NO_QUOTA;
    let data = answers(&scenario, &user, &["why", "three"], waits).await?;
    assert_eq!((&data["position"], &data["waiting"]), (&json!(1), &json!(1)), "{data}");

    let answer = card(&scenario, &user, &["why", "three"]).await?;
    assert_eq!((answer.code, &*answer.err), (Some(4), ""), "{answer:?}");
    for said in [
        &*format!("pod three waits: queue plugin-why: {name} asked 1, used 2, quota 2\n"),
        "1. InsufficientScalarQuota (not yet)\n",
        &*format!("{name} is held: 2 by queue plugin-why (one, two)\n"),
        "to do: wait until the pods that hold it end",
        "queue:  plugin-why, number 1 of 1 that wait\nbefore: nobody\nwhen:   nothing says when\n",
    ] {
        assert!(answer.out.contains(said), "{said:?} is missing: {}", answer.out);
    }
    let answer = card(&scenario, &user, &["why", "pod/one"]).await?;
    assert_eq!(answer.code, Some(0), "{answer:?}");
    assert!(
        answer.out.starts_with("pod one is let in and has its node"),
        "{answer:?}"
    );
    let answer = card(&scenario, &user, &["why", "queue/plugin-why"]).await?;
    assert_eq!(answer.code, Some(0), "{answer:?}");

    // What is not created yet, and is too much for ever.
    let file = std::env::temp_dir().join(format!("plugin-why-{}.yaml", std::process::id()));
    let idea = |count: u32| serde_json::to_string(&scenario.gpu_pod("idea", &name, count).build());
    std::fs::write(&file, format!("{}\n---\n{}\n", idea(1)?, idea(3)?))?;
    let path = file.to_str().context("a path that is not UTF-8")?;
    let answer = card(&scenario, &user, &["why", "-f", path]).await;
    std::fs::remove_file(&file)?;
    let answer = answer?;
    assert_eq!(answer.code, Some(5), "{answer:?}");
    assert!(
        answer.out.contains("(not yet)") && answer.out.contains("(never)"),
        "{answer:?}"
    );

    // What makes no pods is passed over, and one that can't be answered keeps nobody else from an answer.
    let service = json!({ "apiVersion": "v1", "kind": "Service", "metadata": { "name": "front" } });
    std::fs::write(&file, format!("{service}\n---\n{}\n", idea(3)?))?;
    let answer = card(&scenario, &user, &["why", "-f", path]).await;
    std::fs::remove_file(&file)?;
    let answer = answer?;
    assert_eq!(answer.code, Some(5), "{answer:?}");
    assert_eq!(
        answer.err,
        "note: not asked about: Service front, which makes no pods\n"
    );
    let strange = json!({ "apiVersion": "v1", "kind": "Pod", "spec": { "containers": [{ "name": 5 }] } });
    std::fs::write(&file, format!("{strange}\n---\n{}\n", idea(3)?))?;
    let answer = card(&scenario, &user, &["why", "-f", path]).await;
    std::fs::remove_file(&file)?;
    let answer = answer?;
    assert_eq!(answer.code, Some(2), "{answer:?}");
    assert!(
        answer.out.starts_with("error: ") && answer.out.contains("(never)"),
        "{answer:?}"
    );

    // What is not there, whose it is not to ask about, and what can't be read.
    let nobody = card(&scenario, &user, &["why", "nobody"]).await?;
    assert_eq!(nobody.code, Some(1), "{nobody:?}");
    assert!(
        nobody
            .err
            .contains("Pod \"nobody\" is not known in namespace plugin-why"),
        "{nobody:?}"
    );
    let nowhere = card(&scenario, &user, &["why", "queue/nowhere"]).await?;
    assert_eq!(nowhere.code, Some(1), "{nowhere:?}");
    assert!(
        nowhere
            .err
            .contains("queue \"nowhere\" is not known: kubectl get queues"),
        "{nowhere:?}"
    );
    let stranger = card(&scenario, "plugin-stranger", &["why", "three"]).await?;
    assert_eq!(stranger.code, Some(3), "{stranger:?}");
    assert!(
        stranger.err.contains("ClusterRole view, edit or cardgate-ask"),
        "{stranger:?}"
    );
    for args in [
        &["why", "a/b/c"][..],
        &["why", "-f", "/nowhere.yaml"],
        &["why", "a", "-A"],
        &["why", "a", "-f", "b"],
    ] {
        let answer = card(&scenario, &user, args).await?;
        assert_eq!((answer.code, &*answer.out), (Some(2), ""), "{answer:?}");
    }
    Ok(())
}

#[tokio::test]
async fn the_installation_is_checked_as_far_as_whoever_asks_may_see_it() -> Outcome {
    let scenario = Scenario::begin(World::shared().await?, "plugin-check").await?;
    let admin = format!("{}-admin", scenario.name());
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": { "name": admin },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin" },
        "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": admin }],
    });
    scenario.plane().apply(&binding).await?;
    let result = |data: &Value, what: &str| {
        let rows = data.as_array().into_iter().flatten();
        let mut rows = rows.filter(|row| row["what"] == what);
        rows.next().map(|row| row["result"].clone())
    };
    let well = [
        "customresourcedefinitions",
        "mutatingwebhookconfigurations",
        "validatingwebhookconfigurations",
        "validatingadmissionpolicies",
        "validatingadmissionpolicybindings",
        "certificates of mutating webhooks",
        "certificates of validating webhooks",
        "certificate cardgate-webhook-tls",
        "certificate cardgate-review-tls",
        "configmaps",
        "leader",
        "answers to kubectl card why",
        "your right to create cardreviews",
    ];
    let is_well = |data: &Value| well.iter().all(|what| result(data, what) == Some(json!("Ok")));
    let data = answers(&scenario, &admin, &["check"], is_well).await?;
    // Here the programs run beside the cluster, and not in it.
    assert_eq!(result(&data, "deployment webhook"), Some(json!("Problem")), "{data}");
    let answer = card(&scenario, &admin, &["check"]).await?;
    assert_eq!(answer.code, Some(6), "{answer:?}");
    assert!(answer.out.contains("so pods with cards can't be created"), "{answer:?}");

    // What somebody has loosened is named, with the place.
    let binding = "cardgate-node-label";
    let audit =
        |actions: Value| json!([{ "op": "replace", "path": "/spec/validationActions", "value": actions }]).to_string();
    let patch = async |actions: Value| {
        let kind = "validatingadmissionpolicybinding";
        let patch = audit(actions);
        let args = ["patch", kind, binding, "--type=json", "-p", &patch];
        scenario.plane().kubectl().run(args).await
    };
    patch(json!(["Audit"])).await?;
    let found = card(&scenario, &admin, &["check"]).await;
    patch(json!(["Deny"])).await?;
    let answer = found?;
    let line = answer
        .out
        .lines()
        .find(|line| line.contains("validatingadmissionpolicybindings"));
    let line = line.unwrap_or_default();
    assert!(
        line.starts_with("PROBLEM") && line.contains("cardgate-node-label (spec.validationActions[0])"),
        "{answer:?}"
    );
    answers(&scenario, &admin, &["check"], is_well).await?;

    // Where there is no such namespace, nobody has answered anything.
    let lost = Command::new(plugin().await?)
        .args(["check", "--namespace", "plugin-lost", "--as", &admin])
        .env("KUBECONFIG", scenario.plane().kubectl().kubeconfig())
        .output()
        .await?;
    let lost = String::from_utf8(lost.stdout)?;
    let line = lost.lines().find(|line| line.contains("answers to kubectl card why"));
    let line = line.unwrap_or_default();
    assert!(
        line.starts_with("unseen") && line.contains("there is no namespace plugin-lost"),
        "{lost}"
    );

    // Who edits one namespace sees less, and is told what; that is no problem of the installation.
    let editor = editor(&scenario).await?;
    let answer = card(&scenario, &editor, &["check"]).await?;
    assert_eq!((answer.code, &*answer.err), (Some(0), ""), "{answer:?}");
    let line = |what: &str| answer.out.lines().find(|line| line.contains(what)).unwrap_or_default();
    assert!(line("answers to kubectl card why").starts_with("ok"), "{answer:?}");
    assert!(
        line("leader").contains("you may not get leases in cardgate-system"),
        "{answer:?}"
    );
    assert!(line("validatingadmissionpolicies").starts_with("unseen"), "{answer:?}");
    Ok(())
}

#[tokio::test]
async fn scripts_tell_by_the_exit_code_why_there_is_no_answer() -> Outcome {
    let plugin = plugin().await?;
    for (args, code, says) in [
        (
            &["types", "--kubeconfig", "/nowhere/config"][..],
            3,
            "name a kubeconfig file",
        ),
        (&["typos"], 2, "types"),
        (&["completion", "bash"], 0, ""),
    ] {
        let output = Command::new(plugin).args(args).output().await?;
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
        assert!(said.contains(says), "{args:?}: {said}");
    }
    Ok(())
}
