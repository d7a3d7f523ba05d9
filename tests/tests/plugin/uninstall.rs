//! `kubectl card uninstall`, in a world of its own.

use cardgate_tests::nodes;
use cardgate_tests::tally::is_gated;
use cardgate_tests::workloads::{pod, queue};
use crds::keys::NVIDIA_GPU;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::Api;

use super::*;

const TEAM: &str = "leaving";

async fn run(world: &World, args: &[&str]) -> Result<Answer> {
    let kubectl = world.plane.kubectl();
    let output = Command::new(kubectl.program())
        .args(["card", "uninstall"])
        .args(args)
        .env("KUBECONFIG", kubectl.kubeconfig())
        .env("PATH", plugin().await?.parent().context("no directory")?)
        .stdin(std::process::Stdio::null())
        .output()
        .await?;
    Ok(Answer {
        code: output.status.code(),
        out: String::from_utf8(output.stdout)?,
        err: String::from_utf8(output.stderr)?,
    })
}

#[tokio::test]
async fn whoever_is_sure_removes_cardgate_and_what_waited_goes_on() -> Outcome {
    let world = World::start().await?;
    let plane = &world.plane;
    plane.create_namespace(TEAM, &[], &[]).await?;
    plane
        .create_nodes(&[nodes::nvidia("leaving", "NVIDIA-A100", 4, 81_920)])
        .await?;
    plane.apply(&queue(TEAM).build()).await?;
    let pods: Api<Pod> = Api::namespaced(plane.client().await?, TEAM);
    let waits = pod("waits")
        .namespace(TEAM)
        .queue(TEAM)
        .card("NVIDIA-A100")
        .request(NVIDIA_GPU, 1);
    pods.create(&kube::api::PostParams::default(), &waits.build()).await?;
    let is_held = async || anyhow::Ok(is_gated(&pods.get("waits").await?));
    assert!(is_held().await?);

    let tried = run(&world, &["--dry-run"]).await?;
    assert_eq!(
        (tried.code, &*tried.out),
        (Some(0), "Nothing was changed.\n"),
        "{tried:?}"
    );
    assert!(tried.err.contains("would be written"), "{tried:?}");
    let unsure = run(&world, &[]).await?;
    assert_eq!(unsure.code, Some(2), "{unsure:?}");
    assert!(unsure.err.contains("--yes"), "{unsure:?}");
    assert!(is_held().await?);

    // In a cluster the operator ends with its Deployment; here it runs beside it.
    world.cardgate.operator().terminate().await?;
    let done = run(&world, &["--yes"]).await?;
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(done.out.starts_with("Cardgate is removed."), "{done:?}");
    assert!(done.err.contains("nothing new is held"), "{done:?}");
    assert!(!is_held().await?);
    let namespaces: Api<Namespace> = Api::all(plane.client().await?);
    let own = namespaces.get_opt(crds::keys::NAMESPACE).await?;
    assert!(own.is_none_or(|own| own.metadata.deletion_timestamp.is_some()));
    Ok(())
}

#[tokio::test]
async fn whoever_may_not_is_told_so_soon_and_changes_nothing() -> Outcome {
    let world = World::shared().await?;
    let begin = std::time::Instant::now();
    for args in [&["--as", "somebody", "--dry-run"][..], &["--as", "somebody", "--yes"]] {
        let refused = run(world, args).await?;
        assert_eq!(refused.code, Some(3), "{refused:?}");
        let last = refused.err.lines().last().unwrap_or_default();
        assert!(
            last.contains("User \"somebody\" cannot") && last.ends_with("to remove Cardgate"),
            "{refused:?}"
        );
    }
    let took = begin.elapsed();
    assert!(took < std::time::Duration::from_mins(1), "{took:?}");
    Ok(())
}
