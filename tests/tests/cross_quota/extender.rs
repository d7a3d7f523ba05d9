//! By the scheduler extender: kube-scheduler asks the operator, and nothing is gated or pinned.

use anyhow::Context as _;
use cardgate_tests::assets::{Assets, Program};
use cardgate_tests::cardgate::{Cardgate, Settings};
use cardgate_tests::controlplane::{ControlPlane, Options};
use cardgate_tests::ports::Port;
use cardgate_tests::scenario::Scenario;
use cardgate_tests::tls::Identity;
use cardgate_tests::wait::{self, Seen};
use cardgate_tests::workloads::{PodBuilder, pod};
use cardgate_tests::world::World;
use cardgate_tests::{http, manifests, nodes};
use crds::keys::{MGPU_CORE, MGPU_MEMORY, SCORING_STRATEGY};
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams};
use operator::certificates::{EXTENDER_CLIENT_SECRET, EXTENDER_SECRET};
use operator::extender::{BIND_PATH, FILTER_PATH, LEADER_LABEL, PRIORITIZE_PATH};
use rustls::ClientConfig;
use serde_json::{Value, json};

use crate::{Outcome, SCENARIO, by_node, cpu_node, crossquota, expect_by_node, gpu_node, schedulers};

/// How much the extender's opinion counts beside the scheduler's own.
const ARGUMENTS: &str = "quota.cpu: 8, crossQuotaWeight: 1000";

pub fn batch(scenario: &Scenario<'_>, name: &str, cores: &str) -> PodBuilder {
    pod(name)
        .namespace(scenario.name())
        .request("cpu", cores)
        .node_selector(SCENARIO, scenario.name())
}

/// Where the operator answers schedulers, and what it believes them by.
pub struct Extender {
    port: Port,
    pub tls: ClientConfig,
}

impl Extender {
    pub fn address(&self) -> String {
        self.port.address()
    }
}

/// A world whose kube-scheduler asks the operator, by the certificate that the operator issues for it.
async fn start() -> anyhow::Result<(World, Extender)> {
    let port = Port::take()?;
    let mut plane = ControlPlane::start(Options::default().without_scheduler()).await?;
    let settings = Settings {
        operator_env: vec![("EXTENDER_ADDR".to_owned(), port.address())],
        ..Settings::default()
    };
    Cardgate::install(&plane, &settings).await?;
    let rights = "manifests/components/scheduler-extender/operator-rbac.yaml";
    plane.kubectl().run(["apply", "-f", rights]).await?;
    let cardgate = Cardgate::run(&plane, &settings).await?;
    let own = "enforceCrossQuota: extender\nenforceMGPU: extender\nunnamedCards: free";
    cardgate
        .configure(&plane, Some(&crossquota(ARGUMENTS)), Some(own))
        .await?;
    let identity = Identity::of_secret(&plane, EXTENDER_CLIENT_SECRET, true).await?;
    let tls = format!(
        "urlPrefix: https://{}/scheduler\n  \
           enableHTTPS: true\n  \
           tlsConfig: {}\n  \
           nodeCacheCapable: true\n",
        port.address(),
        json!(identity.write_files(plane.dir())?),
    );
    let extenders = format!(
        "extenders:\n\
         - {tls}  \
           filterVerb: filter\n  \
           prioritizeVerb: prioritize\n  \
           weight: 1\n\
         - {tls}  \
           bindVerb: bind\n  \
           managedResources: [{{name: {MGPU_CORE}}}, {{name: {MGPU_MEMORY}}}]\n"
    );
    plane.start_scheduler(&extenders).await?;
    let tls = identity.config()?;
    Ok((World { cardgate, plane }, Extender { port, tls }))
}

#[tokio::test]
async fn kube_scheduler_with_the_extender() -> Outcome {
    let (world, extender) = start().await?;
    strategies(&world).await?;
    unaffected(&world).await?;
    unknown_strategy(&world).await?;
    recordings(&world, &extender).await?;
    let_in_and_not_placed_yet(&world).await?;
    schedulers::two_at_once_while_the_operator_is_killed(&world, &extender).await?;
    schedulers::shared_cards(&world, &extender).await?;
    two_hundred_pods(&world).await?;
    schedulers::a_new_leader_has_the_label_and_answers(&world).await
}

async fn strategies(world: &World) -> Outcome {
    let scenario = Scenario::begin(world, "strategies").await?;
    scenario
        .nodes(&[1, 2, 3].map(|number| gpu_node("strategies", number)))
        .await?;
    let first = batch(&scenario, "first", "1").node_selector("kubernetes.io/hostname", "strategies-gpu-2");
    scenario.create(&first.build()).await?;
    expect_by_node(&scenario, "first", &[("gpu-2", 1)]).await?;
    scenario.create(&batch(&scenario, "jobs", "1").deployment(6)).await?;
    expect_by_node(&scenario, "jobs", &[("gpu-2", 6)]).await?;
    let services = batch(&scenario, "services", "1").annotation(SCORING_STRATEGY, "least-allocated");
    scenario.create(&services.deployment(8)).await?;
    expect_by_node(&scenario, "services", &[("gpu-1", 4), ("gpu-3", 4)]).await?;
    // Neither gated nor pinned.
    let pods = scenario.api::<Pod>().list(&ListParams::default()).await?.items;
    for spec in pods.into_iter().filter_map(|pod| pod.spec) {
        assert_eq!((spec.scheduling_gates, spec.affinity), (None, None));
    }
    Ok(())
}

/// Nothing else of such a pod concerns the door, nor does its namespace.
async fn unknown_strategy(world: &World) -> Outcome {
    let scenario = Scenario::begin(world, "unknown-strategy").await?;
    let plain = |strategy: &str| {
        batch(&scenario, "plain", "1")
            .annotation(SCORING_STRATEGY, strategy)
            .build()
    };
    let refused = scenario.kubectl_create(&plain("least-alocated")).await?;
    let message = refused.err().context("a misspelt strategy was taken")?;
    for text in [
        "\"least-alocated\" is no scoring strategy",
        "most-allocated or least-allocated",
    ] {
        anyhow::ensure!(message.contains(text), "{text:?} is missing in: {message}");
    }
    let taken = scenario.kubectl_create(&plain("least-allocated")).await?;
    anyhow::ensure!(taken.is_ok(), "{taken:?}");
    Ok(())
}

/// What Volcano's scheduler sent of a pod of 3 CPUs where a node gives pods without GPU 4, while another such pod is allocated to
/// one of two nodes.
async fn recordings(world: &World, extender: &Extender) -> Outcome {
    let scenario = Scenario::begin(world, "recordings").await?;
    let node = |name: &str| {
        nodes::nvidia(name, "NVIDIA-A100.recordings", 4, 81_920).annotation("volcano.sh/crossquota-cpu", "4")
    };
    scenario.nodes(&[node("a100-1"), node("a100-2")]).await?;
    let ask = async |verb: &str, recording: &str| {
        let body = serde_json::from_str(recording)?;
        let path = format!("/volcano/{verb}");
        let (status, answer) = http::post_tls(&extender.tls, &extender.address(), &path, &body).await?;
        anyhow::ensure!(status == 200, "{path}: {status} {answer}");
        anyhow::Ok(serde_json::from_str::<Value>(&answer)?)
    };
    let predicate = include_str!("../../../operator/src/extender/recordings/predicate.json");
    let on_the_other = include_str!("../../../operator/src/extender/recordings/predicate-refused.json");
    // The operator knows the nodes a moment after they are there.
    wait::eventually("a place on the other node", wait::PATIENCE, async || {
        let answer = ask("predicate", on_the_other).await?;
        Ok(Seen::when(answer["status"] == "", answer.to_string()))
    })
    .await?;
    let allocated = ask(
        "allocate",
        include_str!("../../../operator/src/extender/recordings/allocate.json"),
    )
    .await?;
    assert_eq!(allocated["errorMessage"], "", "{allocated}");
    let refused = ask("predicate", on_the_other).await?;
    let status = refused["status"].as_str().context("no status")?;
    assert!(status.contains("cpu") && refused["code"] == 2, "{refused}");
    assert_eq!(
        ask("predicate", predicate).await?["status"],
        "",
        "the first node is free"
    );
    let again = ask(
        "allocate",
        include_str!("../../../operator/src/extender/recordings/allocate-refused.json"),
    )
    .await?;
    assert_eq!(again["errorMessage"], refused["status"]);
    let scores = ask(
        "prioritize",
        include_str!("../../../operator/src/extender/recordings/prioritize.json"),
    )
    .await?;
    assert!(
        scores["nodeScore"]["a100-1"].is_i64() && scores["nodeScore"]["a100-2"].is_i64(),
        "{scores}"
    );
    let given_up = ask(
        "deallocate",
        include_str!("../../../operator/src/extender/recordings/deallocate.json"),
    )
    .await?;
    assert_eq!(given_up["errorMessage"], "");
    Ok(())
}

async fn unaffected(world: &World) -> Outcome {
    let scenario = Scenario::begin(world, "unaffected").await?;
    scenario
        .nodes(&[gpu_node("unaffected", 1), cpu_node("unaffected", "16")])
        .await?;
    scenario
        .create(&batch(&scenario, "training", "32").request("nvidia.com/gpu", 8).build())
        .await?;
    expect_by_node(&scenario, "training", &[("gpu-1", 1)]).await?;
    let agent = batch(&scenario, "agent", "9").deployment(1).spec.unwrap_or_default();
    let daemon_set: DaemonSet = serde_json::from_value(json!({
        "metadata": {"name": "agent"},
        "spec": {"selector": agent.selector, "template": agent.template},
    }))?;
    scenario.create(&daemon_set).await?;
    expect_by_node(&scenario, "agent", &[("gpu-1", 1), ("cpu", 1)]).await?;
    scenario.create(&batch(&scenario, "batch", "1").deployment(3)).await?;
    expect_by_node(&scenario, "batch", &[("cpu", 3)]).await
}

/// What a queue has let in stands in nobody's way on a node before the scheduler has placed it there.
async fn let_in_and_not_placed_yet(world: &World) -> Outcome {
    let scenario = Scenario::begin(world, "let-in").await?;
    let nodes = [1, 2].map(|number| gpu_node("let-in", number).annotation("volcano.sh/crossquota-cpu", "4"));
    scenario.nodes(&nodes).await?;
    scenario
        .apply_queue(scenario.queue().capability("cpu", "64").capability("memory", "64Gi"))
        .await?;
    scenario
        .create(&batch(&scenario, "queued", "3").queue("let-in").deployment(4))
        .await?;
    expect_by_node(&scenario, "queued", &[("gpu-1", 1), ("gpu-2", 1)]).await
}

async fn two_hundred_pods(world: &World) -> Outcome {
    const NODES: usize = 5;
    // 200 x 250m are 50 cores; 5 x 8 cores are there: 160 pods.
    const FIT: usize = 160;
    let scenario = Scenario::begin(world, "burst").await?;
    let nodes: Vec<_> = (0..NODES)
        .map(|number| gpu_node("burst", number).allocatable("pods", "250"))
        .collect();
    scenario.nodes(&nodes).await?;
    // Half of them through a queue, which lets all of them in.
    scenario
        .apply_queue(scenario.queue().capability("cpu", "64").capability("memory", "64Gi"))
        .await?;
    let pods = batch(&scenario, "burst", "250m");
    scenario.create(&pods.deployment(100)).await?;
    let queued = batch(&scenario, "queued", "250m").queue(scenario.name());
    scenario.create(&queued.deployment(100)).await?;
    let placed = async || {
        let mut counts = by_node(&scenario, "burst").await?;
        for (node, count) in by_node(&scenario, "queued").await? {
            *counts.entry(node).or_default() += count;
        }
        anyhow::Ok(counts)
    };
    let all_placed = async |total: usize| {
        wait::eventually(format!("{total} pods to be placed"), wait::PATIENCE * 2, async || {
            let found = placed().await?;
            assert!(
                found.values().all(|count| *count <= FIT / NODES),
                "above quota: {found:?}"
            );
            Ok(Seen::when(found.values().sum::<usize>() == total, format!("{found:?}")))
        })
        .await
    };
    all_placed(FIT).await?;
    let refused = wait::eventually("a refusal with the document's reason", wait::PATIENCE, async || {
        let pods = scenario.api::<Pod>().list(&ListParams::default()).await?.items;
        let conditions = pods
            .iter()
            .filter_map(|pod| pod.status.as_ref()?.conditions.as_ref())
            .flatten();
        let told: Vec<_> = conditions
            .filter(|condition| condition.type_ == "PodScheduled" && condition.status == "False")
            .filter_map(|condition| condition.message.clone())
            .collect();
        Ok(
            match told
                .iter()
                .find(|text| text.contains("cpu quota exceeded: asked 250m, used 8, quota 8"))
            {
                Some(_) if told.len() == 200 - FIT => Seen::Done(told.len()),
                _ => Seen::NotYet(format!("{told:?}")),
            },
        )
    });
    assert_eq!(refused.await?, 200 - FIT);
    // What is freed is used again.
    let found = placed().await?;
    let on_one = format!("spec.nodeName={}", found.keys().next().cloned().unwrap_or_default());
    let there = ListParams::default().fields(&on_one);
    scenario
        .api::<Pod>()
        .delete_collection(&DeleteParams::default(), &there)
        .await?;
    wait::eventually("the freed quota to be used again", wait::PATIENCE * 2, async || {
        let found = placed().await?;
        Ok(Seen::when(
            found.values().all(|count| *count == FIT / NODES) && found.len() == NODES,
            format!("{found:?}"),
        ))
    })
    .await
}

/// `manifests/overlays/scheduler-extender`: what the scheduler asks is what the operator serves.
#[test]
fn the_overlay_fits_together() -> Outcome {
    let kubectl = Assets::locate()?.path(Program::Kubectl);
    let overlay = manifests::directory().join("overlays/scheduler-extender");
    let objects: Vec<Value> = serde_saphyr::from_multiple(&manifests::render(&kubectl, &overlay)?)?;
    let object = |kind: &str, name: &str| {
        let mut found = objects.iter();
        let found = found.find(|object| object["kind"] == kind && object["metadata"]["name"] == name);
        found.with_context(|| format!("no {kind} {name}"))
    };
    let template = &object("Deployment", "operator")?["spec"]["template"];
    let container = &template["spec"]["containers"][0];
    let listed = |list: &Value, entry: Value| list.as_array().is_some_and(|list| list.contains(&entry));
    assert!(listed(
        &container["env"],
        json!({"name": "EXTENDER_ADDR", "value": "0.0.0.0:8888"})
    ));
    assert!(listed(
        &container["ports"],
        json!({"name": "extender", "containerPort": 8888})
    ));

    let service = &object("Service", "scheduler-extender")?["spec"];
    assert_eq!(service["ports"][0]["targetPort"], "extender");
    let mut selector = service["selector"].as_object().context("no selector")?.clone();
    assert_eq!(selector.remove(LEADER_LABEL), Some(json!("true")));
    let labels = template["metadata"]["labels"].as_object().context("no labels")?;
    assert!(
        selector.iter().all(|(key, value)| labels.get(key) == Some(value)),
        "{selector:?} {labels:?}"
    );

    let config = object("ConfigMap", "scheduler")?["data"]["scheduler.yaml"]
        .as_str()
        .context("no configuration")?;
    let config: Value = serde_saphyr::from_str(config)?;
    let extenders = config["extenders"].as_array().context("no extenders")?;
    for (extender, verb, path) in [
        (&extenders[0], "filterVerb", FILTER_PATH),
        (&extenders[0], "prioritizeVerb", PRIORITIZE_PATH),
        (&extenders[1], "bindVerb", BIND_PATH),
    ] {
        let prefix = extender["urlPrefix"].as_str();
        let prefix = prefix.and_then(|url| url.strip_prefix("https://scheduler-extender.cardgate-system.svc"));
        let prefix = prefix.context("another Service")?;
        assert_eq!(
            format!("{prefix}/{}", extender[verb].as_str().unwrap_or_default()),
            path
        );
    }
    // By TLS, with the certificate that is mounted there; the operator mounts its own.
    for extender in extenders {
        assert_eq!(extender["enableHTTPS"], true);
        let file = |key: &str| {
            extender["tlsConfig"][key]
                .as_str()
                .and_then(|path| path.strip_prefix("/etc/scheduler-extender/"))
        };
        assert_eq!(
            [file("caFile"), file("certFile"), file("keyFile")],
            [Some("ca.crt"), Some("tls.crt"), Some("tls.key")]
        );
    }
    let mounts = |name: &str, path: &str, secret: &str| -> anyhow::Result<bool> {
        let pod = &object("Deployment", name)?["spec"]["template"]["spec"];
        let mounts = pod["containers"][0]["volumeMounts"].as_array().context("no mounts")?;
        let mount = mounts
            .iter()
            .find(|mount| mount["mountPath"] == path)
            .context("not mounted")?;
        let volumes = pod["volumes"].as_array().context("no volumes")?;
        let volume = volumes.iter().find(|volume| volume["name"] == mount["name"]);
        Ok(volume.is_some_and(|volume| volume["secret"]["secretName"] == secret))
    };
    assert!(mounts("scheduler", "/etc/scheduler-extender", EXTENDER_CLIENT_SECRET)?);
    assert!(mounts("operator", "/etc/cardgate/extender-tls", EXTENDER_SECRET)?);
    assert!(listed(
        &container["env"],
        json!({"name": "EXTENDER_TLS_DIR", "value": "/etc/cardgate/extender-tls"})
    ));
    assert_eq!(service["ports"][0]["port"], 443);
    // All other pods are the scheduler's own to bind.
    assert_eq!(extenders[0]["bindVerb"], Value::Null);
    assert_eq!(
        extenders[1]["managedResources"],
        json!([{"name": MGPU_CORE}, {"name": MGPU_MEMORY}])
    );
    Ok(())
}

/// `manifests/overlays/scheduler-extender-cert-manager`: all certificates are cert-manager's, and no Secret is the operator's.
#[test]
fn with_cert_manager_the_extender_has_its_certificates_too() -> Outcome {
    let kubectl = Assets::locate()?.path(Program::Kubectl);
    let overlay = manifests::directory().join("overlays/scheduler-extender-cert-manager");
    let objects: Vec<Value> = serde_saphyr::from_multiple(&manifests::render(&kubectl, &overlay)?)?;
    let of_kind = |kind: &'static str| objects.iter().filter(move |object| object["kind"] == kind);
    for (secret, usage) in [
        (EXTENDER_SECRET, "server auth"),
        (EXTENDER_CLIENT_SECRET, "client auth"),
    ] {
        let mut found = of_kind("Certificate").filter(|object| object["spec"]["secretName"] == secret);
        let found = found.next().with_context(|| format!("no Certificate for {secret}"))?;
        assert_eq!(found["spec"]["usages"], json!(["digital signature", usage]));
    }
    let rules = of_kind("Role")
        .chain(of_kind("ClusterRole"))
        .filter(|role| {
            role["metadata"]["name"]
                .as_str()
                .is_some_and(|name| name.contains("operator"))
        })
        .filter_map(|role| role["rules"].as_array())
        .flatten();
    for rule in rules {
        let resources = rule["resources"].as_array().context("no resources")?;
        assert!(!resources.contains(&json!("secrets")), "{rule}");
    }
    Ok(())
}
