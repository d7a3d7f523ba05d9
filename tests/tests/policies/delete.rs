//! `cardgate-pod-delete`: a pod that holds quota is not taken out of the API while its containers run on.

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use cardgate_tests::controlplane::Account;
use cardgate_tests::wait::{self, Seen};
use cardgate_tests::workloads::{PodBuilder, pod};

use crate::Outcome;
use crate::cluster::{Cluster, assert_denied, binding, held, refusal};

const POLICY: &str = "cardgate-pod-delete";
const SAYS: [&str; 2] = ["since its containers would run on", "--now"];

/// A pod by its name, and what it says that keeps a kubelet from ending it.
type Kept = (&'static str, fn(PodBuilder) -> PodBuilder);

/// Creates a pod and has it let in and bound.
async fn runs(cluster: &Cluster, pod: PodBuilder, name: &str, gated: bool) -> Outcome {
    cluster.create(pod).await?;
    if gated {
        let lets_in = json!([{ "op": "remove", "path": "/spec/schedulingGates" }]);
        let lets_in = Patch::Json::<()>(serde_json::from_value(lets_in)?);
        let pods = cluster.pods(&cluster.operator);
        pods.patch(name, &PatchParams::default(), &lets_in).await?;
    }
    let pods = cluster.pods(&cluster.administrator);
    let to_node = binding(name, &json!({}), &json!({}));
    let bind: kube::Result<Value> = pods
        .create_subresource("binding", name, &PostParams::default(), &to_node)
        .await;
    bind?;
    Ok(())
}

fn takes_long_to_end(pod: PodBuilder) -> PodBuilder {
    pod.spec(|spec| spec.termination_grace_period_seconds = Some(1_000_000))
}

/// Adds an ephemeral container, as `kubectl debug` does.
async fn debug(pods: &Api<Pod>, name: &str) -> kube::Result<Pod> {
    let debug = json!({ "spec": { "ephemeralContainers": [{ "name": "debug", "image": "image" }] } });
    pods.patch_ephemeral_containers(name, &PatchParams::default(), &Patch::Strategic(debug))
        .await
}

async fn evict(pods: &Api<Pod>, name: &str, grace: Option<i64>) -> kube::Result<Value> {
    let eviction = json!({
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": { "name": name },
        "deleteOptions": { "gracePeriodSeconds": grace },
    });
    pods.create_subresource("eviction", name, &PostParams::default(), &eviction)
        .await
}

#[tokio::test]
async fn a_pod_that_holds_quota_is_not_forgotten_while_it_runs() -> Outcome {
    let cluster = &Cluster::with_policies_only("delete").await?;
    runs(cluster, takes_long_to_end(held("stays")), "stays", true).await?;
    // As long as most pods have.
    runs(cluster, held("half-a-minute"), "half-a-minute", true).await?;
    let (tenant, administrator) = (cluster.pods(&cluster.editor), cluster.pods(&cluster.administrator));
    let at_once = DeleteParams::default().grace_period(0);
    wait::eventually("the policy to be in force", wait::PATIENCE, async || {
        let refused = refusal(tenant.delete("stays", &at_once.clone().dry_run()).await).unwrap_or_default();
        Ok(Seen::when(refused.contains(POLICY), refused))
    })
    .await?;
    for name in ["stays", "half-a-minute"] {
        assert_denied("by its name", POLICY, tenant.delete(name, &at_once).await, &SAYS);
    }
    assert_denied(
        "with others",
        POLICY,
        tenant
            .delete_collection(&at_once, &kube::api::ListParams::default())
            .await,
        &SAYS,
    );
    assert_denied("by an eviction", POLICY, evict(&tenant, "stays", Some(0)).await, &SAYS);
    // Once it ends, its grace period can't be cut off either, but made short.
    tenant.delete("stays", &DeleteParams::default()).await?;
    assert_denied("while it ends", POLICY, tenant.delete("stays", &at_once).await, &SAYS);
    tenant.delete("stays", &DeleteParams::default().grace_period(1)).await?;
    assert_eq!(
        tenant.get("stays").await?.metadata.deletion_grace_period_seconds,
        Some(1)
    );
    administrator.delete("stays", &at_once).await?;
    assert!(administrator.get_opt("stays").await?.is_none());
    Ok(())
}

/// A kubelet looks at the end of a pod when it has done what it is at: what keeps it at that keeps the containers running.
#[tokio::test]
async fn what_a_kubelet_may_be_kept_from_ending_is_not_forgotten() -> Outcome {
    let cluster = &Cluster::with_policies_only("delete-kept").await?;
    let tenant = cluster.pods(&cluster.editor);
    let at_once = DeleteParams::default().grace_period(0);
    let kept: [Kept; 5] = [
        ("hook", |pod| {
            let hook = json!({ "postStart": { "exec": { "command": ["sleep", "infinity"] } } });
            pod.container(|main| main.lifecycle = serde_json::from_value(hook).ok())
        }),
        ("probe", |pod| {
            let probe = json!({ "exec": { "command": ["false"] }, "terminationGracePeriodSeconds": 31_536_000 });
            pod.container(|main| main.liveness_probe = serde_json::from_value(probe).ok())
        }),
        ("second", |pod| {
            pod.spec(|spec| {
                spec.containers.push(Container {
                    name: "second".to_owned(),
                    image: Some("image".to_owned()),
                    ..Container::default()
                });
            })
        }),
        ("shortened", |pod| pod),
        ("debugged", |pod| pod),
    ];
    for (name, change) in kept {
        let made = held(name).spec(|spec| spec.termination_grace_period_seconds = Some(5));
        runs(cluster, change(made), name, true).await?;
    }
    cluster.let_editor_debug().await?;
    wait::eventually("the right to debug pods", wait::PATIENCE, async || {
        let added = debug(&tenant, "debugged").await;
        Ok(Seen::when(added.is_ok(), format!("{added:?}")))
    })
    .await?;
    // Whoever ends it waits for as long as was said first.
    for (user, grace) in [(&cluster.pods(&cluster.administrator), 86_400), (&tenant, 1)] {
        user.delete("shortened", &DeleteParams::default().grace_period(grace))
            .await?;
    }
    wait::eventually("the policy to be in force", wait::PATIENCE, async || {
        let refused = refusal(tenant.delete("hook", &at_once.clone().dry_run()).await).unwrap_or_default();
        Ok(Seen::when(refused.contains(POLICY), refused))
    })
    .await?;
    for (name, _) in kept {
        assert_denied(name, POLICY, tenant.delete(name, &at_once).await, &SAYS);
    }
    Ok(())
}

/// What ends as soon as it is deleted runs on while its kubelet waits for an ephemeral container.
#[tokio::test]
async fn what_has_no_time_to_end_gets_no_ephemeral_container() -> Outcome {
    const DEBUG: &str = "cardgate-pod-debug";
    let cluster = &Cluster::with_policies_only("debug").await?;
    let (tenant, administrator) = (cluster.pods(&cluster.editor), cluster.pods(&cluster.administrator));
    let ends_after = |pod: PodBuilder, grace| pod.spec(|spec| spec.termination_grace_period_seconds = Some(grace));
    for (name, grace) in [("at-once", 0), ("by-administrator", 0), ("soon", 1)] {
        runs(cluster, ends_after(held(name), grace), name, true).await?;
    }
    runs(cluster, ends_after(pod("plain").request("cpu", 1), 0), "plain", false).await?;
    cluster.let_editor_debug().await?;
    for name in ["soon", "plain"] {
        wait::eventually("the right to debug pods", wait::PATIENCE, async || {
            let added = debug(&tenant, name).await;
            Ok(Seen::when(added.is_ok(), format!("{added:?}")))
        })
        .await?;
    }
    wait::eventually("the policy to be in force", wait::PATIENCE, async || {
        let refused = refusal(debug(&tenant, "at-once").await).unwrap_or_default();
        Ok(Seen::when(refused.contains(DEBUG), refused))
    })
    .await?;
    assert_denied(
        "at-once",
        DEBUG,
        debug(&tenant, "at-once").await,
        &["kubectl debug --copy-to"],
    );
    debug(&administrator, "by-administrator").await?;
    Ok(())
}

#[tokio::test]
async fn what_is_nobodys_loss_is_deleted_at_once() -> Outcome {
    let cluster = &Cluster::with_policies_only("delete-at-once").await?;
    let (tenant, administrator) = (cluster.pods(&cluster.editor), cluster.pods(&cluster.administrator));
    let at_once = DeleteParams::default().grace_period(0);
    // One that is no business of Cardgate's, one that ends soon, one that waits, and one that is over.
    runs(
        cluster,
        takes_long_to_end(pod("plain").request("cpu", 1)),
        "plain",
        false,
    )
    .await?;
    let ends_soon = |spec: &mut PodSpec| spec.termination_grace_period_seconds = Some(5);
    runs(cluster, held("short").spec(ends_soon), "short", true).await?;
    cluster.create(takes_long_to_end(held("waits"))).await?;
    runs(cluster, takes_long_to_end(held("over")), "over", true).await?;
    let over = Patch::Merge(json!({ "status": { "phase": "Failed" } }));
    administrator
        .patch_status("over", &PatchParams::default(), &over)
        .await?;
    for name in ["plain", "short", "waits", "over"] {
        tenant.delete(name, &at_once).await?;
        assert!(tenant.get_opt(name).await?.is_none(), "{name}");
    }
    // Kubernetes itself forgets pods whose node is gone.
    let collector = Account::new("kube-system", "pod-garbage-collector");
    let collector = cluster.pods(&cluster.plane.client_of_account(&collector).await?);
    runs(cluster, takes_long_to_end(held("lost")), "lost", true).await?;
    collector.delete("lost", &at_once).await?;
    // An eviction says no more than how long it gives.
    runs(cluster, takes_long_to_end(held("evicted")), "evicted", true).await?;
    evict(&tenant, "evicted", None).await?;
    Ok(())
}

/// What is on its way out is not evicted for others, who wait for its end: so nobody makes that end later than the pod itself says.
#[tokio::test]
async fn nobody_puts_off_the_end_of_a_pod_that_holds_quota() -> Outcome {
    const SAYS: [&str; 2] = [
        "a longer grace period (300000000 seconds) than its own",
        "leave --grace-period",
    ];
    let cluster = &Cluster::with_policies_only("delete-late").await?;
    let (tenant, administrator) = (cluster.pods(&cluster.editor), cluster.pods(&cluster.administrator));
    let with = |grace| DeleteParams::default().grace_period(grace);
    let ends_in = |name, seconds| held(name).spec(|spec| spec.termination_grace_period_seconds = seconds);
    for (name, seconds) in [
        ("default", None),
        ("minute", Some(60)),
        ("hour", Some(3600)),
        ("none", Some(0)),
    ] {
        runs(cluster, ends_in(name, seconds), name, true).await?;
    }
    wait::eventually("the policy to be in force", wait::PATIENCE, async || {
        let refused = refusal(tenant.delete("minute", &with(300_000_000).dry_run()).await).unwrap_or_default();
        Ok(Seen::when(refused.contains(POLICY), refused))
    })
    .await?;
    for (name, own) in [
        ("default", "at most 30,"),
        ("minute", "at most 60,"),
        ("none", "at most 1,"),
    ] {
        let says = [SAYS[0], SAYS[1], own];
        assert_denied(name, POLICY, tenant.delete(name, &with(300_000_000)).await, &says);
    }
    assert_denied(
        "by a second",
        POLICY,
        tenant.delete("minute", &with(61)).await,
        &["at most 60,"],
    );
    let all = kube::api::ListParams::default();
    let everything = tenant.delete_collection(&with(300_000_000), &all).await;
    assert_denied("with others", POLICY, everything, &SAYS);
    let says = [
        "no pod is evicted with more than 30 seconds of grace (31)",
        "leave gracePeriodSeconds out",
    ];
    assert_denied("by an eviction", POLICY, evict(&tenant, "hour", Some(31)).await, &says);
    for name in ["default", "minute", "hour", "none"] {
        assert!(tenant.get(name).await?.metadata.deletion_timestamp.is_none(), "{name}");
    }

    // As much as it has itself, or less, and what is nobody's loss.
    let granted = async |name: &str| -> anyhow::Result<Option<i64>> {
        let pod = administrator.get(name).await?;
        Ok(pod.metadata.deletion_grace_period_seconds)
    };
    tenant.delete("minute", &with(60)).await?;
    assert_eq!(granted("minute").await?, Some(60));
    tenant.delete("none", &with(1)).await?;
    assert_eq!(granted("none").await?, Some(1));
    evict(&tenant, "hour", Some(30)).await?;
    assert_eq!(granted("hour").await?, Some(30));
    runs(cluster, pod("plain").request("cpu", 1), "plain", false).await?;
    tenant.delete("plain", &with(300_000_000)).await?;
    cluster.create(held("waits")).await?;
    tenant.delete("waits", &with(300_000_000)).await?;
    assert!(tenant.get_opt("waits").await?.is_none());
    // Whoever may write a pod's status may keep it for as long as he likes.
    administrator.delete("default", &with(300_000_000)).await?;
    assert_eq!(granted("default").await?, Some(300_000_000));
    Ok(())
}

#[tokio::test]
async fn what_kubectl_deletes_without_force_ends_in_its_time() -> Outcome {
    let cluster = &Cluster::with_policies_only("delete-kubectl").await?;
    let administrator = cluster.pods(&cluster.administrator);
    let kubectl = cluster.kubectl();
    let ways: [(&str, &[&str], i64); 4] = [
        ("as-it-is", &[], 30),
        ("five", &["--grace-period=5"], 5),
        ("its-own", &["--grace-period=30"], 30),
        ("now", &["--now"], 1),
    ];
    for (name, how, seconds) in ways {
        runs(cluster, held(name), name, true).await?;
        let delete = ["delete", "pod", name, "--namespace", cluster.team, "--wait=false"];
        kubectl.run(&[&delete[..], how].concat()).await?;
        let granted = administrator.get(name).await?.metadata.deletion_grace_period_seconds;
        assert_eq!(granted, Some(seconds), "{name}");
    }
    Ok(())
}
