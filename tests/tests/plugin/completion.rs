//! Words of `kubectl card` are completed by the real kubectl.

use std::os::unix::fs::symlink;

use anyhow::Result;
use cardgate_tests::nodes;
use cardgate_tests::scenario::Scenario;
use cardgate_tests::wait::{self, Seen};
use cardgate_tests::world::World;
use tokio::process::Command;

use super::{Outcome, plugin};

#[tokio::test]
async fn kubectl_completes_verbs_options_and_names_of_cards_and_queues() -> Outcome {
    let scenario = Scenario::begin(World::shared().await?, "plugin-complete").await?;
    let name = scenario.card("NVIDIA-A100");
    scenario
        .nodes(&[nodes::nvidia(scenario.name(), &name, 4, 81_920)])
        .await?;
    scenario.apply_queue(scenario.queue().quota(&name, 2)).await?;
    // As the guide says: another name of the plugin, beside it.
    let directory = tempfile::tempdir()?;
    for called in ["kubectl-card", "kubectl_complete-card"] {
        symlink(plugin().await?, directory.path().join(called))?;
    }
    let kubectl = scenario.plane().kubectl();
    let completed = async |words: &[&str]| -> Result<String> {
        let mut command = Command::new(kubectl.program());
        command
            .args(["__complete", "card"])
            .args(words)
            .env("KUBECONFIG", kubectl.kubeconfig())
            .env("PATH", directory.path());
        Ok(String::from_utf8(command.output().await?.stdout)?)
    };
    let verbs = completed(&["wh"]).await?;
    assert!(verbs.starts_with("who\t") || verbs.starts_with("why\t"), "{verbs}");
    assert!(verbs.ends_with(":4\n") && !verbs.contains("types"), "{verbs}");
    let options = completed(&["why", "--all"]).await?;
    assert!(options.starts_with("--all-namespaces\t"), "{options}");
    assert_eq!(completed(&["why", "-f", ""]).await?, ":0\n");
    for (words, expected) in [
        (["who", &name[..name.len() - 1]], &*name),
        (["queue", "plugin-comp"], scenario.name()),
    ] {
        wait::eventually(format!("{words:?}"), wait::PATIENCE, async || {
            let said = completed(&words).await?;
            Ok(Seen::when(said == format!("{expected}\n:4\n"), said))
        })
        .await?;
    }
    Ok(())
}
