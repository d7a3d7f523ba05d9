//! The Capacity Card document's section "Example Scenarios", and two refusals, from the files in `examples/`.

use anyhow::Result;

use super::stage::Stage;
use super::terminal;
use crate::tally::Tally;

/// The columns that say where a pod runs, and on what it is charged.
const COLUMNS: &str = "custom-columns=POD:.metadata.name,STATUS:.status.phase,NODE:.spec.nodeName,\
    CARD:.metadata.annotations.volcano\\.sh/card\\.assigned";
/// The columns that say why a pod waits.
const REASONS: &str = "custom-columns=POD:.metadata.name,STATUS:.status.phase,\
    WHY:.status.conditions[?(@.type==\"card.volcano.sh/Admitted\")].message";

/// Shows all of them, one after the other.
pub(super) async fn show(stage: &mut Stage<'_>) -> Result<()> {
    discovery(stage).await?;
    basic_card_quota(stage).await?;
    multi_card_selection(stage).await?;
    mps_shared_gpu(stage).await?;
    node_ordering(stage).await?;
    refusals(stage).await?;
    terminal::heading("Who has what");
    stage
        .expect_table(
            "every queue shows its usage",
            &["get", "cardusages"],
            &["team-a", "inference", "research"],
        )
        .await
}

async fn discovery(stage: &mut Stage<'_>) -> Result<()> {
    terminal::heading("Discovery: the cards that labels and resources yield");
    stage
        .expect_table(
            "every node with cards has an inventory",
            &["get", "cardinventories"],
            &[
                "NVIDIA-A100 x4",
                "NVIDIA-A100/mps-80g*1/8 x32",
                "Tesla-T4/mps-15g*1/8 x32",
                "Ascend-910B x8",
                "l40s-joining",
            ],
        )
        .await?;
    stage
        .expect_table(
            "every card has a type, with the Kubernetes resource behind it",
            &["get", "cardtypes", "-o", "wide"],
            &[
                "NVIDIA-A100-PCIE-40GB/mig-1g.5gb-mixed",
                "huawei.com/ascend-910",
                "nvidia.com/gpu.shared",
            ],
        )
        .await
}

async fn basic_card_quota(stage: &mut Stage<'_>) -> Result<()> {
    terminal::heading("Example 1: basic card quota");
    stage
        .kubectl(&["apply", "-f", "examples/1-basic-card-quota.yaml"])
        .await?;
    stage
        .expect_pods(
            "4 <= 5: all four pods run",
            "training",
            &Tally::none().running("NVIDIA-A100", 4),
        )
        .await;
    stage
        .kubectl(&["get", "pods", "-l", "app=training", "-o", COLUMNS])
        .await?;

    terminal::say("\nTwo more, of which the quota has room for one:");
    stage.kubectl(&["apply", "-f", "examples/1-over-quota.yaml"]).await?;
    stage
        .expect_pods(
            "one runs, one waits and says why",
            "notebook",
            &Tally::none()
                .running("NVIDIA-A100", 1)
                .waiting("InsufficientScalarQuota", 1),
        )
        .await;
    stage
        .kubectl(&["get", "pods", "-l", "app=notebook", "-o", REASONS])
        .await?;
    stage
        .expect_table(
            "an event has the document's reason",
            &["get", "events", "--field-selector", "reason=InsufficientScalarQuota"],
            &["notebook"],
        )
        .await?;

    terminal::say("\nA card that is given back is used again at once:");
    stage.kubectl(&["delete", "job", "training"]).await?;
    stage
        .expect_pods("both run", "notebook", &Tally::none().running("NVIDIA-A100", 2))
        .await;
    stage.kubectl(&["delete", "deployment", "notebook"]).await?;
    stage
        .kubectl(&["apply", "-f", "examples/1-basic-card-quota.yaml"])
        .await?;
    stage
        .expect_pods(
            "the Job is back for the next example",
            "training",
            &Tally::none().running("NVIDIA-A100", 4),
        )
        .await;
    Ok(())
}

async fn multi_card_selection(stage: &mut Stage<'_>) -> Result<()> {
    terminal::heading("Example 2: multi-card selection");
    terminal::say("Four pods that take NVIDIA-A100|NVIDIA-H100; the queue has one A100 left, and four H100.");
    stage
        .kubectl(&["apply", "-f", "examples/2-multi-card-selection.yaml"])
        .await?;
    stage
        .expect_pods(
            "A100 first; with its quota exhausted, H100",
            "flexible-training",
            &Tally::none().running("NVIDIA-A100", 1).running("NVIDIA-H100", 3),
        )
        .await;
    stage
        .kubectl(&["get", "pods", "-l", "app=flexible-training", "-o", COLUMNS])
        .await
}

async fn mps_shared_gpu(stage: &mut Stage<'_>) -> Result<()> {
    terminal::heading("Example 3: MPS shared GPU");
    stage
        .kubectl(&["apply", "-f", "examples/3-mps-shared-gpu.yaml"])
        .await?;
    stage
        .expect_pods(
            "16 pods share 4 A100 by MPS",
            "inference",
            &Tally::none().running("NVIDIA-A100/mps-80g*1/8", 16),
        )
        .await;
    stage
        .expect_table(
            "the node's inventory counts them",
            &["get", "cardinventory", "a100-mps", "-o", "wide"],
            &["  16  "],
        )
        .await
}

async fn node_ordering(stage: &mut Stage<'_>) -> Result<()> {
    terminal::heading("Example 4: node ordering, and the plugin's configuration");
    stage
        .expect_configuration(
            "the new configuration is in force, without a restart",
            &["apply", "--server-side", "-f", "examples/4-node-ordering.yaml"],
        )
        .await?;
    stage
        .expect_pods(
            "A100 first, then H100, then T4",
            "multi-card-training",
            &Tally::none()
                .running("NVIDIA-A100", 1)
                .running("NVIDIA-H100", 1)
                .running("NVIDIA-T4", 2),
        )
        .await;
    stage
        .kubectl(&["get", "pods", "-l", "app=multi-card-training", "-o", COLUMNS])
        .await
}

async fn refusals(stage: &mut Stage<'_>) -> Result<()> {
    terminal::heading("Refused at the door");
    stage
        .refused(
            "cards of different Kubernetes resources are refused, with what is wrong",
            &["apply", "-f", "examples/rejected.yaml"],
            &["volcano.sh/card.name", "nvidia.com/gpu.shared"],
        )
        .await?;
    stage
        .refused(
            "a quota of half a card is refused, with the key and the value",
            &["apply", "-f", "examples/rejected-quota.yaml"],
            &["volcano.sh/card.quota", "NVIDIA-A100", "2.5"],
        )
        .await
}
