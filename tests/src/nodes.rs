//! Nodes as real clusters have them: NVIDIA GPU Feature Discovery and device plugin, AMD's node labeller, Volcano
//! Engine's VKE, Ascend. Labels and quantities are as such nodes show them.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, NodeSpec as KubeNodeSpec, NodeStatus, Taint};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::api::ObjectMeta;

/// Taints that Kubernetes itself puts on a cordoned node.
const CORDONED: &str = "node.kubernetes.io/unschedulable";

/// A node to be created; kwok keeps it Ready.
#[derive(Debug, Clone)]
pub struct NodeSpec {
    name: String,
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
    allocatable: BTreeMap<String, String>,
    taints: Vec<Taint>,
    cordoned: bool,
}

impl NodeSpec {
    /// A node without cards: 64 cores, 256 GiB, 110 pods, and the labels that every kubelet sets.
    pub fn new(name: impl Into<String>) -> Self {
        let name = name.into();
        let node = Self {
            labels: BTreeMap::from([("kubernetes.io/hostname".to_owned(), name.clone())]),
            annotations: BTreeMap::new(),
            allocatable: BTreeMap::new(),
            taints: Vec::new(),
            cordoned: false,
            name,
        };
        node.label("kubernetes.io/os", "linux")
            .label("kubernetes.io/arch", "amd64")
            .allocatable("cpu", "64")
            .allocatable("memory", "256Gi")
            .allocatable("ephemeral-storage", "900Gi")
            .allocatable("pods", "110")
    }

    /// Sets a label.
    #[must_use]
    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.labels.insert(key.to_owned(), value.to_owned());
        self
    }

    /// Sets labels under the prefix `nvidia.com/`, as GPU Feature Discovery does.
    #[must_use]
    fn nvidia(self, labels: &[(&str, &str)]) -> Self {
        labels.iter().fold(self, |node, (key, value)| {
            node.label(&format!("nvidia.com/{key}"), value)
        })
    }

    /// Sets an annotation.
    #[must_use]
    pub fn annotation(mut self, key: &str, value: &str) -> Self {
        self.annotations.insert(key.to_owned(), value.to_owned());
        self
    }

    /// Sets what the node has of a resource, as capacity and as allocatable.
    #[must_use]
    pub fn allocatable(mut self, resource: &str, quantity: &str) -> Self {
        self.allocatable.insert(resource.to_owned(), quantity.to_owned());
        self
    }

    /// Adds a taint.
    #[must_use]
    pub fn taint(mut self, key: &str, value: &str, effect: &str) -> Self {
        self.taints.push(Taint {
            key: key.to_owned(),
            value: Some(value.to_owned()),
            effect: effect.to_owned(),
            time_added: None,
        });
        self
    }

    /// Makes it unschedulable, as `kubectl cordon` does.
    #[must_use]
    pub fn cordoned(self) -> Self {
        Self { cordoned: true, ..self }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its labels.
    pub fn labels(&self) -> &BTreeMap<String, String> {
        &self.labels
    }

    /// What it has of each resource.
    pub fn quantities(&self) -> BTreeMap<String, Quantity> {
        self.allocatable
            .iter()
            .map(|(resource, text)| (resource.clone(), Quantity(text.clone())))
            .collect()
    }

    /// The object to create. Like a kubelet that registers, it brings its status along.
    pub fn to_node(&self) -> Node {
        Node {
            metadata: ObjectMeta {
                name: Some(self.name.clone()),
                labels: Some(self.labels.clone()),
                annotations: Some(self.annotations.clone()),
                ..ObjectMeta::default()
            },
            spec: Some(KubeNodeSpec {
                taints: Some(self.taints.clone()),
                unschedulable: self.cordoned.then_some(true),
                ..KubeNodeSpec::default()
            }),
            status: Some(NodeStatus {
                allocatable: Some(self.quantities()),
                capacity: Some(self.quantities()),
                ..NodeStatus::default()
            }),
        }
    }

    /// Whether the node is Ready and has no other taints than it was made with.
    pub fn is_ready(&self, node: &Node) -> bool {
        let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
        let ready = conditions.is_some_and(|all| all.iter().any(|one| one.type_ == "Ready" && one.status == "True"));
        let taints = node
            .spec
            .as_ref()
            .and_then(|spec| spec.taints.as_deref())
            .unwrap_or_default();
        let own = |taint: &Taint| {
            (self.cordoned && taint.key == CORDONED) || self.taints.iter().any(|own| own.key == taint.key)
        };
        ready && taints.iter().all(own)
    }
}

/// Any node with whole NVIDIA cards, labelled as GPU Feature Discovery does. `memory` is in MB per card.
pub fn nvidia(name: &str, product: &str, cards: u32, memory: u32) -> NodeSpec {
    NodeSpec::new(name)
        .nvidia(&[
            ("gpu.product", product),
            ("gpu.count", &cards.to_string()),
            ("gpu.memory", &memory.to_string()),
            // On every node: its presence does not mean sharing.
            ("gpu.replicas", "1"),
        ])
        .allocatable("nvidia.com/gpu", &cards.to_string())
}

/// Any node whose NVIDIA cards are shared by MPS, with the resource renamed to `nvidia.com/gpu.shared`. `memory` is in
/// MB per card, `replicas` the number of shares of a card.
pub fn nvidia_mps(name: &str, product: &str, cards: u32, memory: u32, replicas: u32) -> NodeSpec {
    nvidia(name, product, cards, memory)
        .nvidia(&[("gpu.replicas", &replicas.to_string()), ("gpu.sharing-strategy", "mps")])
        .allocatable("nvidia.com/gpu", "0")
        .allocatable("nvidia.com/gpu.shared", &(cards * replicas).to_string())
}

/// 8 x H100, as Dell's `PowerEdge` XE9680 with NVIDIA's GPU operator shows them.
pub fn h100_8(name: &str) -> NodeSpec {
    nvidia(name, "NVIDIA-H100-80GB-HBM3", 8, 81_559)
        .nvidia(&[
            ("gpu.family", "hopper"),
            ("gpu.machine", "PowerEdge-XE9680"),
            ("mig.capable", "true"),
            ("mig.strategy", "single"),
        ])
        .allocatable("cpu", "191450m")
        .allocatable("memory", "2113456128Ki")
        .allocatable("hugepages-1Gi", "0")
}

/// 8 x H200 with RDMA: `nvidia.com/hostdev` is a network card.
pub fn h200_8_rdma(name: &str) -> NodeSpec {
    nvidia(name, "NVIDIA-H200", 8, 143_771)
        .allocatable("nvidia.com/hostdev", "8")
        .allocatable("rdma/hca_shared", "64")
}

/// Two A100 40GB under MIG strategy `mixed`: one whole, the other sliced. Zeros stay behind after a profile change, and
/// `gpu.count` counts physical cards.
pub fn a100_40gb_mig_mixed(name: &str) -> NodeSpec {
    nvidia(name, "NVIDIA-A100-PCIE-40GB", 2, 40_536)
        .nvidia(&[
            ("mig.strategy", "mixed"),
            ("mig-1g.5gb.count", "4"),
            ("mig-1g.5gb.memory", "4864"),
            ("mig-2g.10gb.count", "2"),
        ])
        .allocatable("nvidia.com/gpu", "1")
        .allocatable("nvidia.com/mig-1g.5gb", "4")
        .allocatable("nvidia.com/mig-2g.10gb", "2")
        .allocatable("nvidia.com/mig-3g.20gb", "0")
}

/// 8 x A100 80GB under MIG strategy `single`: each of 56 slices is a whole card of a product of its own.
pub fn a100_80gb_mig_single(name: &str) -> NodeSpec {
    nvidia(name, "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb", 56, 9_728).nvidia(&[("mig.strategy", "single")])
}

/// 4 x T4 shared by MPS, eight shares each.
pub fn t4_mps(name: &str) -> NodeSpec {
    nvidia_mps(name, "Tesla-T4", 4, 15_360, 8)
}

/// 4 x T4 shared by time-slicing without renaming: more `nvidia.com/gpu` than physical cards.
pub fn t4_time_slicing(name: &str) -> NodeSpec {
    nvidia(name, "Tesla-T4-SHARED", 4, 15_360)
        .nvidia(&[("gpu.replicas", "4"), ("gpu.sharing-strategy", "time-slicing")])
        .allocatable("nvidia.com/gpu", "16")
}

/// A node of Volcano Engine's VKE that shares 8 cards as mGPU. The memory resource counts MiB.
pub fn vke_mgpu(name: &str) -> NodeSpec {
    nvidia(name, "NVIDIA-H100-80GB-HBM3", 8, 81_559)
        .label("vke.node.gpu.schedule", "mgpu")
        .label("vke.volcengine.com/mgpu-compute-policy", "native-burst-share")
        .allocatable("nvidia.com/gpu", "0")
        .allocatable("vke.volcengine.com/mgpu-core", "800")
        .allocatable("vke.volcengine.com/mgpu-memory", "652472")
}

/// 8 x MI300X: the label is `product-name`, not `product`.
pub fn mi300x_8(name: &str) -> NodeSpec {
    NodeSpec::new(name)
        .label("amd.com/gpu.product-name", "AMD_Instinct_MI300X_OAM")
        .label("amd.com/gpu.vram", "191G")
        .allocatable("amd.com/gpu", "8")
}

/// 8 x Ascend 910B: the resource starts with the label's prefix and type, and is not equal to them.
pub fn ascend_910b_8(name: &str) -> NodeSpec {
    NodeSpec::new(name)
        .label("huawei.com/ascend.product", "Ascend-910B")
        .label("huawei.com/ascend.count", "8")
        .label("huawei.com/ascend.memory", "65536")
        .allocatable("huawei.com/ascend-910", "8")
}

/// 8 x L40S on a node that is joining: the labels come minutes before the device plugin registers.
pub fn l40s_joining(name: &str) -> NodeSpec {
    let mut node = nvidia(name, "NVIDIA-L40S", 8, 46_068);
    node.allocatable.remove("nvidia.com/gpu");
    node
}

/// A node without cards.
pub fn cpu_only(name: &str) -> NodeSpec {
    NodeSpec::new(name)
}

/// One node of every shape above, named after it.
pub fn every_shape() -> Vec<NodeSpec> {
    vec![
        h100_8("h100"),
        h200_8_rdma("h200-rdma"),
        a100_40gb_mig_mixed("a100-mig-mixed"),
        a100_80gb_mig_single("a100-mig-single"),
        t4_mps("t4-mps"),
        t4_time_slicing("t4-time-slicing"),
        vke_mgpu("vke-mgpu"),
        mi300x_8("mi300x"),
        ascend_910b_8("ascend-910b"),
        l40s_joining("l40s-joining"),
        cpu_only("cpu"),
    ]
}
