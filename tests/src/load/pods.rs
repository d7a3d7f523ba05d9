//! The pods of the load: one card each, the same for every contender but for the gate.

use anyhow::{Context, Result};
use crds::keys::{GATE, NVIDIA_GPU, QUEUE_LABEL};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use tokio::time::Instant;

use crate::controlplane::ControlPlane;
use crate::devices::{self, NVIDIA};
use crate::nodes::{self, NodeSpec};
use crate::workloads;

/// Where the load's pods are.
pub(super) const NAMESPACE: &str = "load";
/// The card of every node.
pub(super) const CARD: &str = "NVIDIA-H100-80GB-HBM3";
/// What claims of it are made from.
const TEMPLATE: &str = "one-card";
/// The label that narrows a pod to it, with [`CARD`] as its value.
pub(super) const PRODUCT_LABEL: &str = "nvidia.com/gpu.product";
/// How many cards a node has, unless more pods are to run on it.
pub(super) const CARDS_OF_A_NODE: usize = 8;
/// How many pods of the load a node takes at most: kubelets take 110, and control planes of tests no more.
pub(super) const PODS_OF_A_NODE: usize = 100;

/// What a pod needs beside its card.
pub(super) const CORES: u64 = 8;
/// What a pod needs beside its card.
pub(super) const GIBIBYTES: u64 = 64;

/// The nodes, each with so many cards, and CPU and memory for as many pods.
pub(super) fn nodes(count: usize, cards: usize) -> Vec<NodeSpec> {
    let node = |index| {
        let node = nodes::h100_8(&format!("node-{index:04}"));
        if cards == CARDS_OF_A_NODE {
            return node;
        }
        let times = |amount: u64, unit: &str| format!("{}{unit}", amount * cards as u64);
        node.label("nvidia.com/gpu.count", &cards.to_string())
            .allocatable(NVIDIA_GPU, &cards.to_string())
            .allocatable("cpu", &times(3 * CORES, ""))
            .allocatable("memory", &times(3 * GIBIBYTES, "Gi"))
    };
    (0..count).map(node).collect()
}

/// Creates nodes that have the same by devices, the class that claims name, and what claims of one card are made from.
pub(super) async fn create_device_nodes(plane: &ControlPlane, count: usize, cards: usize) -> Result<()> {
    let times = |amount: u64, unit: &str| format!("{}{unit}", amount * cards as u64);
    let node = |index| {
        NodeSpec::new(format!("node-{index:04}"))
            .allocatable("cpu", &times(3 * CORES, ""))
            .allocatable("memory", &times(3 * GIBIBYTES, "Gi"))
    };
    plane.create_nodes(&(0..count).map(node).collect::<Vec<_>>()).await?;
    let published = devices::gpus(CARD, cards);
    for index in 0..count {
        devices::publish(plane, &format!("node-{index:04}"), NVIDIA, &published).await?;
    }
    devices::classes(plane).await?;
    devices::template_in(plane, NAMESPACE, TEMPLATE, &devices::exactly(NVIDIA, 1, Some(CARD))).await
}

/// Who makes the gate and the label with the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Marked {
    /// Nobody: the pod has a label, so that it is as large as others, and no gate.
    Ungated,
    /// The creator, in place of a webhook.
    ByCreator,
    /// The webhook.
    ByWebhook,
    /// The webhook, and the pod claims its card as a device.
    ByWebhookWithClaims,
}

/// Creates pods of one queue.
#[derive(Clone)]
pub(super) struct Creator {
    client: Client,
    marked: Marked,
}

impl Creator {
    pub fn new(client: Client, marked: Marked) -> Self {
        Self { client, marked }
    }

    fn pod(&self, queue: &str, name: &str) -> Pod {
        let pod = workloads::pod(name)
            .namespace(NAMESPACE)
            .queue(queue)
            .request("cpu", CORES)
            .request("memory", format!("{GIBIBYTES}Gi"));
        let pod = match self.marked {
            Marked::ByWebhookWithClaims => devices::by_template(pod, TEMPLATE),
            _ => pod.card(CARD).request(NVIDIA_GPU, 1),
        };
        match self.marked {
            Marked::Ungated => pod.label(QUEUE_LABEL, queue),
            Marked::ByCreator => pod.label(QUEUE_LABEL, queue).gate(GATE),
            Marked::ByWebhook | Marked::ByWebhookWithClaims => pod,
        }
        .build()
    }

    /// Creates one pod. Returns when the request was sent.
    pub async fn create(&self, queue: &str, name: &str) -> Result<Instant> {
        self.send(name, serde_json::to_vec(&self.pod(queue, name))?).await
    }

    /// Creates pods, so many at a time. Returns their names with when each request was sent.
    pub async fn create_all(&self, queue: &str, count: usize, at_a_time: usize) -> Result<Vec<(String, Instant)>> {
        let bodies = (0..count).map(|index| {
            let name = format!("{queue}-{index:05}");
            let body = serde_json::to_vec(&self.pod(queue, &name))?;
            Ok((name, body))
        });
        // All of them before the first is sent: the creators are not what is measured.
        let bodies: Vec<_> = bodies.collect::<Result<_>>()?;
        stream::iter(bodies)
            .map(async |(name, body)| {
                let sent = self.send(&name, body).await?;
                anyhow::Ok((name, sent))
            })
            .buffer_unordered(at_a_time)
            .try_collect()
            .await
    }

    async fn send(&self, name: &str, body: Vec<u8>) -> Result<Instant> {
        let request = http::Request::post(format!("/api/v1/namespaces/{NAMESPACE}/pods"))
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(body)?;
        let sent = Instant::now();
        // The answer is not parsed: nobody reads it.
        self.client
            .request_text(request)
            .await
            .with_context(|| format!("cannot create the pod {name}"))?;
        Ok(sent)
    }
}
