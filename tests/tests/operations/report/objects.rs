//! Inventories, card types and usages.

use cardgate_tests::nodes;
use cardgate_tests::wait::{self, Seen};
use cardgate_tests::workloads::queue;
use crds::card_inventory::CardInventory;
use crds::card_type::{CardKind, CardType, CardTypeSpec, CardTypeStatus};
use crds::card_usage::{CardUsage, CardUsageStatus, QueueCard};
use crds::volcano::Queue;
use engine::discovery::discover;
use engine::overview::Shown;
use engine::overview::status::{self, Usability};
use k8s_openapi::api::core::v1::Node;
use kube::api::{DeleteParams, ListParams};
use kube::{Api, ResourceExt as _};
use operator::report::Report;

use super::{Bench, Outcome, Running, await_objects, names};

/// What the operator reports of a node that nobody uses.
fn inventory(spec: &nodes::NodeSpec, uid: &str, usability: Usability) -> anyhow::Result<Report> {
    let node: crds::node::Node<Box<str>> = serde_json::from_value(serde_json::to_value(spec.to_node())?)?;
    let found = discover(&node.metadata.labels, &node.status.allocatable);
    let cards: Vec<_> = found.cards.iter().map(|card| (card, (0, card.count.into()))).collect();
    let is_of_interest = !cards.is_empty() || !found.problems.is_empty();
    Ok(Report::Shown(Box::new(Shown::Inventory {
        node: spec.name().into(),
        node_uid: uid.into(),
        status: is_of_interest.then(|| status::inventory(&cards, usability, &found.problems, None)),
        prompt: true,
    })))
}

/// The cells of a table that kubectl printed, without the last column, which is the age.
fn table(text: &str) -> Vec<Vec<String>> {
    let header = text.lines().next().unwrap_or_default();
    let starts: Vec<_> = header
        .char_indices()
        .filter(|(at, c)| *c != ' ' && (*at == 0 || header[..*at].ends_with("  ")))
        .map(|(at, _)| at)
        .collect();
    let cell = |line: &str, column: usize| line[starts[column]..starts[column + 1]].trim().to_owned();
    text.lines()
        .map(|line| (0..starts.len() - 1).map(|column| cell(line, column)).collect())
        .collect()
}

/// What `kubectl get cardinventory -o wide` shows of every shape of node, without the age.
const EVERY_SHAPE: [[&str; 9]; 11] = [
    [
        "NAME",
        "CARDS",
        "TOTAL",
        "IN USE",
        "FREE",
        "PODS WITHOUT GPU",
        "PROBLEMS",
        "RESOURCES",
        "USABLE",
    ],
    [
        "a100-mig-mixed",
        "NVIDIA-A100-PCIE-40GB x1, +2 more",
        "7",
        "0",
        "7",
        "",
        "",
        "nvidia.com/gpu, nvidia.com/mig-1g.5gb, nvidia.com/mig-2g.10gb",
        "True",
    ],
    [
        "a100-mig-single",
        "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb x56",
        "56",
        "0",
        "56",
        "",
        "",
        "nvidia.com/gpu",
        "True",
    ],
    [
        "ascend-910b",
        "Ascend-910B x8",
        "8",
        "0",
        "8",
        "",
        "",
        "huawei.com/ascend-910",
        "True",
    ],
    [
        "h100",
        "NVIDIA-H100-80GB-HBM3 x8",
        "8",
        "0",
        "8",
        "",
        "",
        "nvidia.com/gpu",
        "True",
    ],
    [
        "h200-rdma",
        "NVIDIA-H200 x8",
        "8",
        "0",
        "8",
        "",
        "",
        "nvidia.com/gpu",
        "True",
    ],
    [
        "l40s-joining",
        "<none>",
        "0",
        "0",
        "0",
        "",
        "MissingResource",
        "<none>",
        "True",
    ],
    [
        "mi300x",
        "<none>",
        "0",
        "0",
        "0",
        "",
        "UnlabelledResource",
        "<none>",
        "True",
    ],
    [
        "t4-mps",
        "Tesla-T4/mps-15g*1/8 x32",
        "32",
        "0",
        "32",
        "",
        "",
        "nvidia.com/gpu.shared",
        "True",
    ],
    [
        "t4-time-slicing",
        "Tesla-T4-SHARED x16",
        "16",
        "0",
        "16",
        "",
        "",
        "nvidia.com/gpu",
        "True",
    ],
    [
        "vke-mgpu",
        "NVIDIA-H100-80GB-HBM3/mgpu x800",
        "800",
        "0",
        "800",
        "",
        "",
        "vke.volcengine.com/mgpu-core",
        "True",
    ],
];

#[tokio::test]
async fn inventories_of_every_shape_are_worth_reading_and_written_once() -> Outcome {
    let bench = Bench::start().await?;
    let specs = nodes::every_shape();
    let uids = bench.create_nodes(&specs).await?;
    let send_all = |running: &Running| {
        for spec in &specs {
            running
                .reports
                .send(inventory(spec, &uids[spec.name()], Usability::Usable)?);
        }
        running.reports.send(Report::Synced);
        anyhow::Ok(())
    };

    let running = bench.reporter(true).await?;
    send_all(&running)?;
    await_objects::<CardInventory>(&bench.client, "ten inventories", |found| {
        let complete = found.len() == 10 && found.iter().all(|inventory| inventory.status.is_some());
        Seen::when(complete, format!("{:?}", names(found)))
    })
    .await?;
    let kubectl = bench.plane.kubectl();
    let shown = table(&kubectl.run(["get", "cardinventory", "-o", "wide"]).await?);
    assert_eq!(shown, EVERY_SHAPE);
    let described = kubectl.run(["describe", "cardinventory", "mi300x"]).await?;
    assert!(
        described.contains("has no label amd.com/gpu.product: set it"),
        "{described}"
    );
    assert!(
        kubectl
            .run(["get", "cards"])
            .await?
            .contains("cardinventory.card.volcano.sh/h100"),
        "the category"
    );
    // Each is created, and its status written, once.
    let writes = 10 * 2;
    bench.await_writes(writes).await?;

    // The same again, from this operator and from one that starts anew: only the node that is cordoned is written.
    send_all(&running)?;
    running.end().await?;
    let restarted = bench.reporter(true).await?;
    send_all(&restarted)?;
    let h100 = specs
        .iter()
        .find(|spec| spec.name() == "h100")
        .expect("a node with eight H100");
    restarted
        .reports
        .send(inventory(h100, &uids["h100"], Usability::Cordoned)?);
    let inventories: Api<CardInventory> = Api::all(bench.client.clone());
    wait::object(&inventories, "h100", "no free card", |found| {
        let status = found.and_then(|inventory| inventory.status.clone()).unwrap_or_default();
        Seen::when(status.free == 0 && status.problems == "Cordoned", format!("{status:?}"))
    })
    .await?;
    restarted.end().await?;
    bench.await_writes(writes + 1).await?;
    Ok(())
}

/// What the operator reports of an MPS card on one node that nobody uses.
fn card_type(resource: &str, total: i64) -> Report {
    let content = (
        CardTypeSpec {
            card_name: "NVIDIA-A100/mps-80g*1/8".to_owned(),
            resource: resource.to_owned(),
            kind: CardKind::Mps,
        },
        status::card_type(
            CardTypeStatus {
                nodes: 1,
                total,
                free: total,
                ..CardTypeStatus::default()
            },
            resource,
            &[],
        ),
    );
    Report::Shown(Box::new(Shown::CardType {
        card: "NVIDIA-A100/mps-80g*1/8".into(),
        content: Some(content),
        prompt: true,
    }))
}

/// What the operator reports of a queue that nobody uses.
fn usage(uid: &str, quota: i64) -> Report {
    let card = QueueCard {
        name: "NVIDIA-A100".to_owned(),
        quota: Some(quota),
        ..QueueCard::default()
    };
    let queue = CardUsageStatus {
        cards: vec![card],
        share: "0.00".to_owned(),
        ..CardUsageStatus::default()
    };
    Report::Shown(Box::new(Shown::Usage {
        queue: "team-a".into(),
        queue_uid: uid.into(),
        status: Some(status::usage(queue, None, None, None)),
    }))
}

#[tokio::test]
async fn objects_go_with_their_node_queue_and_card() -> Outcome {
    let bench = Bench::start().await?;
    let specs = [nodes::h100_8("stays"), nodes::h100_8("goes"), nodes::h100_8("went")];
    let uids = bench.create_nodes(&specs).await?;
    bench.plane.apply(&queue("team-a").build()).await?;
    let queues: Api<Queue> = Api::all(bench.client.clone());
    let queue_uid = queues.get("team-a").await?.uid().unwrap_or_default();

    let running = bench.reporter(true).await?;
    for spec in &specs {
        running
            .reports
            .send(inventory(spec, &uids[spec.name()], Usability::Usable)?);
    }
    running.reports.send(card_type("nvidia.com/gpu.shared", 64));
    running.reports.send(usage(&queue_uid, 8));
    await_objects::<CardInventory>(&bench.client, "three inventories", |found| {
        Seen::when(found.len() == 3, format!("{:?}", names(found)))
    })
    .await?;
    await_objects::<CardUsage>(&bench.client, "the queue's usage", |found| {
        let quota = found
            .first()
            .and_then(|usage| Some(usage.status.as_ref()?.quota.clone()));
        Seen::when(quota.as_deref() == Some("NVIDIA-A100 x8"), format!("{quota:?}"))
    })
    .await?;
    let shown = table(&bench.plane.kubectl().run(["get", "cardtype", "-o", "wide"]).await?);
    assert_eq!(
        shown[0][1..8],
        ["CARD", "TOTAL", "IN USE", "FREE", "RESOURCE", "NODES", "UNACCOUNTED"]
    );
    assert_eq!(
        shown[1][1..8],
        [
            "NVIDIA-A100/mps-80g*1/8",
            "64",
            "0",
            "64",
            "nvidia.com/gpu.shared",
            "1",
            "0"
        ]
    );

    // A card's meaning can change.
    running.reports.send(card_type("example.com/shares", 16));
    await_objects::<CardType>(&bench.client, "the card's new meaning", |found| {
        let card = found.first().map(|card| {
            (
                card.spec.resource.clone(),
                card.status.clone().unwrap_or_default().total,
            )
        });
        Seen::when(card == Some(("example.com/shares".to_owned(), 16)), format!("{card:?}"))
    })
    .await?;

    // One loses its cards, one its node; the queue is deleted. Nobody tells of the last two: they are garbage.
    running.reports.send(Report::Shown(Box::new(Shown::Inventory {
        node: "went".into(),
        node_uid: "".into(),
        status: None,
        prompt: true,
    })));
    let nodes: Api<Node> = Api::all(bench.client.clone());
    nodes.delete("goes", &DeleteParams::default()).await?;
    queues.delete("team-a", &DeleteParams::default()).await?;
    await_objects::<CardInventory>(&bench.client, "one inventory", |found| {
        Seen::when(names(found) == ["stays"], format!("{:?}", names(found)))
    })
    .await?;
    await_objects::<CardUsage>(&bench.client, "no usage", |found| {
        Seen::when(found.is_empty(), format!("{found:?}"))
    })
    .await?;
    running.end().await?;

    // What a new operator does not report is superfluous once it has reported everything.
    let restarted = bench.reporter(true).await?;
    restarted.reports.send(card_type("example.com/shares", 16));
    restarted.reports.send(Report::Synced);
    await_objects::<CardInventory>(&bench.client, "no inventory", |found| {
        Seen::when(found.is_empty(), format!("{:?}", names(found)))
    })
    .await?;
    let cards = Api::<CardType>::all(bench.client.clone())
        .list(&ListParams::default())
        .await?;
    assert_eq!(cards.items.len(), 1);
    restarted.end().await
}

#[tokio::test]
async fn nothing_is_written_without_leadership() -> Outcome {
    let bench = Bench::start().await?;
    let specs = [nodes::h100_8("n")];
    let uids = bench.create_nodes(&specs).await?;
    let (standby, leading) = (bench.reporter(false).await?, bench.reporter(true).await?);
    for running in [&standby, &leading] {
        running
            .reports
            .send(inventory(&specs[0], &uids["n"], Usability::Usable)?);
    }
    let inventories: Api<CardInventory> = Api::all(bench.client.clone());
    let free = async |count: i64| {
        wait::object(&inventories, "n", format!("{count} free cards"), |found| {
            let status = found.and_then(|inventory| inventory.status.clone());
            Seen::when(
                status.as_ref().is_some_and(|status| status.free == count),
                format!("{status:?}"),
            )
        })
        .await
    };
    free(8).await?;
    // By the leader.
    bench.await_writes(2).await?;
    // The leadership passes over: what the other knows is newer.
    standby
        .reports
        .send(inventory(&specs[0], &uids["n"], Usability::NotReady)?);
    leading.end().await?;
    standby.leader.tell(true);
    free(0).await?;
    bench.await_writes(3).await?;
    standby.end().await
}
