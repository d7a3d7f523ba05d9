//! The control plane itself: that it is real, and that the equipment says the truth about it.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use cardgate_tests::controlplane::{Account, ControlPlane, Options};
use cardgate_tests::nodes;
use cardgate_tests::process::{Process, Reaper};
use cardgate_tests::wait::{self, Seen};
use cardgate_tests::workloads::pod;
use crds::quantity::{QuantityError, parse_milli};
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::runtime::watcher;
use kube::{Api, ResourceExt};
use serde_json::json;

type Outcome = anyhow::Result<()>;

/// Quantities as numbers: the API server writes them with the largest unit that leaves an integer.
fn numbers(quantities: &BTreeMap<String, Quantity>) -> BTreeMap<&str, Result<i64, QuantityError>> {
    quantities
        .iter()
        .map(|(resource, text)| (resource.as_str(), parse_milli(&text.0)))
        .collect()
}

fn phase(pod: &Pod) -> &str {
    pod.status
        .as_ref()
        .and_then(|status| status.phase.as_deref())
        .unwrap_or("no phase")
}

#[tokio::test]
async fn a_gated_pod_waits_and_runs_after_its_gate_is_gone() -> Outcome {
    let plane = ControlPlane::start(Options::default()).await?;
    plane.create_nodes(&[nodes::h100_8("node-1")]).await?;
    let pods: Api<Pod> = Api::default_namespaced(plane.client().await?);
    pods.create(
        &PostParams::default(),
        &pod("gated")
            .gate("example.com/wait")
            .request("nvidia.com/gpu", 2)
            .build(),
    )
    .await?;
    wait::object(&pods, "gated", "the reason SchedulingGated", |pod| {
        let conditions = pod
            .and_then(|pod| pod.status.as_ref()?.conditions.clone())
            .unwrap_or_default();
        Seen::when(
            conditions
                .iter()
                .any(|one| one.reason.as_deref() == Some("SchedulingGated")),
            format!("{conditions:?}"),
        )
    })
    .await?;

    let ungate = json!({ "spec": { "schedulingGates": null } });
    pods.patch("gated", &PatchParams::default(), &Patch::Merge(ungate))
        .await?;
    let node = wait::object(&pods, "gated", "the phase Running", |pod| match pod {
        Some(pod) if phase(pod) == "Running" => Seen::Done(pod.spec.as_ref().and_then(|spec| spec.node_name.clone())),
        Some(pod) => Seen::NotYet(phase(pod).to_owned()),
        None => Seen::NotYet("no pod".to_owned()),
    })
    .await?;
    assert_eq!(node.as_deref(), Some("node-1"));
    Ok(())
}

#[tokio::test]
async fn nodes_of_every_shape_are_ready_with_their_allocatable_and_stay_so() -> Outcome {
    let plane = ControlPlane::start(Options::default()).await?;
    let specs = nodes::every_shape();
    let begin = Instant::now();
    plane.create_nodes(&specs).await?;
    let api: Api<Node> = Api::all(plane.client().await?);
    // Nodes without heartbeats are NotReady after 50 s; the lease is what a shorter time can show.
    let leases: Api<k8s_openapi::api::coordination::v1::Lease> =
        Api::namespaced(plane.client().await?, "kube-node-lease");
    wait::objects(&leases, watcher::Config::default(), "a lease of every node", |leases| {
        Seen::when(leases.len() == specs.len(), format!("{} leases", leases.len()))
    })
    .await?;
    wait::holds(
        "all nodes have what they were given",
        Duration::from_secs(2),
        async || {
            for spec in &specs {
                let node = api.get(spec.name()).await?;
                let allocatable = node
                    .status
                    .as_ref()
                    .and_then(|status| status.allocatable.clone())
                    .unwrap_or_default();
                if numbers(&allocatable) != numbers(&spec.quantities()) {
                    return Ok(Seen::NotYet(format!("{}: {allocatable:?}", spec.name())));
                }
                if !spec.is_ready(&node)
                    || !spec
                        .labels()
                        .iter()
                        .all(|(key, value)| node.labels().get(key) == Some(value))
                {
                    return Ok(Seen::NotYet(format!("{}: {node:?}", spec.name())));
                }
            }
            Ok(Seen::Done(()))
        },
    )
    .await?;
    assert!(begin.elapsed() < 3 * wait::PATIENCE, "slow: {:?}", begin.elapsed());

    // The device plugin of the joining node registers.
    plane
        .set_allocatable("l40s-joining", &[("nvidia.com/gpu", Some("8"))])
        .await?;
    let node = api.get("l40s-joining").await?;
    let allocatable = node.status.and_then(|status| status.allocatable).unwrap_or_default();
    assert_eq!(
        allocatable.get("nvidia.com/gpu").map(|quantity| quantity.0.as_str()),
        Some("8")
    );
    assert_eq!(allocatable.len(), specs[9].quantities().len() + 1);
    Ok(())
}

#[tokio::test]
async fn identities_have_their_own_rights_and_show_in_the_audit_log() -> Outcome {
    let plane = ControlPlane::start(Options::default().without_kwok().without_scheduler().audit()).await?;
    plane.create_namespace("team", &[("team", "a")], &[]).await?;
    plane.grant("alice", "edit", "team").await?;

    let alice = plane.kubectl_of_user("alice");
    alice.run(["-n", "team", "create", "configmap", "hers"]).await?;
    let refused = alice
        .run(["-n", "default", "create", "configmap", "not-hers"])
        .await
        .unwrap_err()
        .to_string();
    assert!(
        refused.contains("\"alice\" cannot create resource \"configmaps\""),
        "{refused}"
    );

    let account = Account::new("team", "default");
    let client = plane.client_of_account(&account).await?;
    let refused = Api::<Pod>::namespaced(client, "team")
        .list(&ListParams::default())
        .await
        .unwrap_err()
        .to_string();
    assert!(refused.contains(&account.user()), "{refused}");
    let kubeconfig = plane.kubeconfig_of_account(&account).await?;
    assert!(kubeconfig.starts_with(plane.dir()));

    let writes = plane.audit_log()?;
    let hers: Vec<_> = writes.iter().filter(|write| write.user() == "alice").collect();
    let codes: Vec<_> = hers
        .iter()
        .map(|write| (write.verb.as_str(), write.response_status.code))
        .collect();
    assert_eq!(codes, [("create", 201), ("create", 403)]);
    Ok(())
}

#[tokio::test]
async fn a_component_that_fails_to_start_shows_its_log() {
    let broken = Options::default().scheduler_config("profiles: 5");
    let error = format!("{:#}", ControlPlane::start(broken).await.unwrap_err());
    assert!(error.contains("kube-scheduler ended (exit status: 1)"), "{error}");
    assert!(error.contains("profiles"), "{error}");
}

#[test]
fn everything_ends_with_the_process_that_started_it_even_when_it_is_killed() -> Outcome {
    // This test runs itself as another process, which starts a child and is killed with SIGKILL.
    const ROLE: &str = "CARDGATE_TEST_VICTIM";
    if let Ok(dir) = std::env::var(ROLE) {
        let dir = Path::new(&dir);
        let reaper = Reaper::start(Some(dir))?;
        let child = Process::start("sleep", Command::new("sleep").arg("600"), &dir.join("log"), &reaper)?;
        std::fs::write(dir.join("pid.part"), child.pid().to_string())?;
        std::fs::rename(dir.join("pid.part"), dir.join("pid"))?;
        loop {
            std::thread::park();
        }
    }
    let dir = tempfile::tempdir()?.keep();
    let name = "control_plane::everything_ends_with_the_process_that_started_it_even_when_it_is_killed";
    let mut victim = Command::new(std::env::current_exe()?)
        .args(["--exact", name])
        .env(ROLE, &dir)
        .stdout(Stdio::null())
        .spawn()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let pid: u32 = runtime
        .block_on(wait::eventually("the child's pid", wait::PATIENCE, async || {
            Ok(std::fs::read_to_string(dir.join("pid")).map_or(Seen::NotYet("none".into()), Seen::Done))
        }))?
        .parse()?;
    victim.kill()?;
    victim.wait()?;
    runtime.block_on(wait::eventually(
        "the child and the directory to go",
        wait::PATIENCE,
        async || {
            // A zombie has ended; where nobody adopts orphans, it stays in the table.
            let state = Command::new("ps")
                .args(["-o", "stat=", "-p", &pid.to_string()])
                .output()?
                .stdout;
            let child = !state.trim_ascii().is_empty() && !state.starts_with(b"Z");
            Ok(Seen::when(
                !child && !dir.exists(),
                format!("child: {child}, directory: {}", dir.exists()),
            ))
        },
    ))
}
