//! Many pods at once, while the operator is killed.

use std::collections::BTreeMap;
use std::time::Duration;

use cardgate_tests::tally::{NO_CARD, Tally, is_gated};
use cardgate_tests::wait::{self, Seen};
use crds::keys::MGPU_INDEX_PREFIX;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::ListParams;

use crate::{FIXED, Outcome, configured, cores_in_use, scene, share};

const NODES: usize = 10;
const CARDS: usize = 8;
const PODS: i32 = 200;
/// Two containers of 45 fit on a card.
const CORE: i64 = 45;
/// All nodes have room for so many.
const ROOM: usize = NODES * CARDS * 2;

#[tokio::test]
async fn a_burst_of_200_pods_on_10_nodes_oversells_no_card_while_the_operator_is_killed_twice() -> Outcome {
    let (world, _turn) = configured(&[], None).await?;
    let scenario = scene(world, "burst", NODES, i64::try_from(CARDS)?, FIXED).await?;
    scenario
        .create(&share(&scenario, "web", CORE, 1000).deployment(PODS))
        .await?;
    let list = async || anyhow::Ok(scenario.api::<Pod>().list(&ListParams::default()).await?.items);
    for admitted in [20, 80] {
        wait::eventually(format!("{admitted} admitted pods"), wait::PATIENCE, async || {
            let pods = list().await?;
            let count = pods.iter().filter(|pod| !is_gated(pod)).count();
            Ok(Seen::when(count >= admitted, format!("{count} of {}", pods.len())))
        })
        .await?;
        world.cardgate.operator().restart().await?;
    }
    let waiting = usize::try_from(PODS)? - ROOM;
    let expected = Tally::none()
        .running(NO_CARD, ROOM)
        .waiting("InsufficientMGPU", waiting);
    let limit = Duration::from_mins(2);
    wait::eventually(format!("{expected}"), limit, async || {
        let tally = Tally::of(&list().await?);
        Ok(Seen::when(tally == expected, tally.to_string()))
    })
    .await?;

    // Card by card, from what is written on the pods themselves.
    let mut cards: BTreeMap<(String, String), i64> = BTreeMap::new();
    for pod in list().await?.iter().filter(|pod| !is_gated(pod)) {
        let node = pod
            .spec
            .as_ref()
            .and_then(|spec| spec.node_name.clone())
            .unwrap_or_default();
        let card = pod.annotations()[&format!("{MGPU_INDEX_PREFIX}main")].clone();
        *cards.entry((node, card)).or_default() += CORE;
    }
    assert_eq!(cards.len(), NODES * CARDS);
    assert!(cards.values().all(|core| *core == 2 * CORE), "{cards:?}");

    scenario.delete::<Deployment>("web").await?;
    for node in 0..NODES {
        cores_in_use(&scenario, &format!("burst-{node}"), &[0; CARDS]).await?;
    }
    Ok(())
}
