//! The fault run on a small scale: each fault once or a few times, on a control plane of its own.

use cardgate_tests::faults::{self, Fault, Plan};

async fn holds(fault: Fault, strikes: usize) -> anyhow::Result<()> {
    let plan = Plan {
        pods: 200,
        strikes,
        seed: 1,
        faults: vec![fault],
        at_once: false,
    };
    for outcome in faults::run(&plan, |_| {}).await? {
        assert!(outcome.violations.is_empty(), "{outcome}");
        assert!(outcome.let_in >= 90, "{outcome}");
    }
    Ok(())
}

#[tokio::test]
async fn operator_and_webhook_are_killed_during_a_burst() -> anyhow::Result<()> {
    holds(Fault::Killed, 5).await
}

#[tokio::test]
async fn the_api_server_is_killed_during_a_burst() -> anyhow::Result<()> {
    holds(Fault::ApiServer, 1).await
}

#[tokio::test]
async fn etcd_stands_still_for_longer_than_the_lease() -> anyhow::Result<()> {
    holds(Fault::Etcd, 1).await
}

#[tokio::test]
async fn an_operator_that_stood_still_writes_nothing_once_another_leads() -> anyhow::Result<()> {
    holds(Fault::TwoOperators, 1).await
}

#[tokio::test]
async fn whichever_operator_leads_is_killed_and_the_webhook_with_it() -> anyhow::Result<()> {
    holds(Fault::Leaders, 2).await
}

#[tokio::test]
async fn certificates_are_taken_away_during_a_burst_and_no_request_fails() -> anyhow::Result<()> {
    holds(Fault::Certificates, 4).await
}

#[tokio::test]
async fn the_configuration_is_broken_and_mended_during_a_burst() -> anyhow::Result<()> {
    holds(Fault::Configuration, 3).await
}

#[tokio::test]
async fn cardgates_definitions_are_deleted_and_installed_again_during_a_burst() -> anyhow::Result<()> {
    holds(Fault::Definitions, 1).await
}

#[tokio::test]
async fn malformed_objects_disturb_nobody() -> anyhow::Result<()> {
    holds(Fault::Malformed, 1).await
}
