//! Every node of the table of real nodes.

use super::*;

#[test]
fn h100_x8() {
    let found = node(
        &[
            ("nvidia.com/gpu.product", "NVIDIA-H100-80GB-HBM3"),
            ("nvidia.com/gpu.count", "8"),
            ("nvidia.com/gpu.memory", "81559"),
            ("nvidia.com/gpu.replicas", "1"),
            ("nvidia.com/gpu.family", "hopper"),
            ("nvidia.com/gpu.machine", "PowerEdge-XE9680"),
            ("nvidia.com/mig.capable", "true"),
            ("nvidia.com/mig.strategy", "single"),
        ],
        &[
            ("nvidia.com/gpu", "8"),
            ("cpu", "191450m"),
            ("memory", "2113456128Ki"),
            ("ephemeral-storage", "100Gi"),
            ("hugepages-1Gi", "0"),
            ("pods", "110"),
        ],
    );
    assert_cards(&found, &["NVIDIA-H100-80GB-HBM3 = nvidia.com/gpu x8 (Whole)"]);
}

#[test]
fn h200_x8_with_rdma() {
    let found = node(
        &[
            ("nvidia.com/gpu.product", "NVIDIA-H200"),
            ("nvidia.com/gpu.count", "8"),
            ("nvidia.com/gpu.memory", "143771"),
        ],
        &[
            ("nvidia.com/hostdev", "8"),
            ("nvidia.com/gpu", "8"),
            ("rdma/hca_shared", "64"),
        ],
    );
    assert_cards(&found, &["NVIDIA-H200 = nvidia.com/gpu x8 (Whole)"]);
}

#[test]
fn a100_40gb_mig_mixed_part_of_it() {
    let found = node(
        &[
            ("nvidia.com/gpu.product", "NVIDIA-A100-PCIE-40GB"),
            ("nvidia.com/gpu.count", "2"),
            ("nvidia.com/gpu.memory", "40536"),
            ("nvidia.com/mig.strategy", "mixed"),
            ("nvidia.com/mig-1g.5gb.count", "4"),
            ("nvidia.com/mig-1g.5gb.memory", "4864"),
            ("nvidia.com/mig-2g.10gb.count", "2"),
            ("nvidia.com/mig-3g.21gb.count", "0"),
        ],
        &[
            ("nvidia.com/gpu", "1"),
            ("nvidia.com/mig-1g.5gb", "4"),
            ("nvidia.com/mig-2g.10gb", "2"),
            ("nvidia.com/mig-3g.20gb", "0"),
        ],
    );
    assert_cards(
        &found,
        &[
            "NVIDIA-A100-PCIE-40GB = nvidia.com/gpu x1 (Whole)",
            "NVIDIA-A100-PCIE-40GB/mig-1g.5gb-mixed = nvidia.com/mig-1g.5gb x4 (MIG)",
            "NVIDIA-A100-PCIE-40GB/mig-2g.10gb-mixed = nvidia.com/mig-2g.10gb x2 (MIG)",
        ],
    );
}

#[test]
fn a100_80gb_mig_single() {
    let found = node(
        &[
            ("nvidia.com/gpu.product", "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb"),
            ("nvidia.com/gpu.count", "56"),
            ("nvidia.com/gpu.memory", "9728"),
            ("nvidia.com/mig.strategy", "single"),
        ],
        &[("nvidia.com/gpu", "56")],
    );
    assert_cards(
        &found,
        &["NVIDIA-A100-SXM4-80GB-MIG-1g.10gb = nvidia.com/gpu x56 (Whole)"],
    );
}

#[test]
fn t4_mps_resource_renamed() {
    let found = node(
        &[
            ("nvidia.com/gpu.product", "Tesla-T4"),
            ("nvidia.com/gpu.count", "4"),
            ("nvidia.com/gpu.memory", "15360"),
            ("nvidia.com/gpu.replicas", "8"),
            ("nvidia.com/gpu.sharing-strategy", "mps"),
        ],
        &[("nvidia.com/gpu.shared", "32"), ("nvidia.com/gpu", "0")],
    );
    assert_cards(&found, &["Tesla-T4/mps-15g*1/8 = nvidia.com/gpu.shared x32 (MPS)"]);
}

#[test]
fn t4_time_slicing_not_renamed() {
    let found = node(
        &[
            ("nvidia.com/gpu.product", "Tesla-T4-SHARED"),
            ("nvidia.com/gpu.count", "4"),
            ("nvidia.com/gpu.memory", "15360"),
            ("nvidia.com/gpu.replicas", "4"),
            ("nvidia.com/gpu.sharing-strategy", "time-slicing"),
        ],
        &[("nvidia.com/gpu", "16")],
    );
    assert_cards(&found, &["Tesla-T4-SHARED = nvidia.com/gpu x16 (Whole)"]);
}

#[test]
fn vke_mgpu() {
    let labels = [
        ("vke.volcengine.com/mgpu-compute-policy", "native-burst-share"),
        ("nvidia.com/gpu.product", "Tesla-V100-SXM2-80GB"),
        ("nvidia.com/gpu.count", "8"),
        ("nvidia.com/gpu.memory", "81559"),
        ("vke.node.gpu.schedule", "mgpu"),
    ];
    let shares = [
        ("vke.volcengine.com/mgpu-core", "800"),
        ("vke.volcengine.com/mgpu-memory", "652472"),
        ("nvidia.com/gpu", "0"),
    ];
    let expected = ["Tesla-V100-SXM2-80GB/mgpu = vke.volcengine.com/mgpu-core x800 (MGPU)"];
    assert_cards(&node(&labels, &shares), &expected);
    // Half a card counts as no card.
    let odd = [("vke.volcengine.com/mgpu-core", "850"), shares[1]];
    assert_cards(&node(&labels, &odd), &expected);
    let whole = [("vke.volcengine.com/mgpu-core", "0"), ("nvidia.com/gpu", "8")];
    let expected = ["Tesla-V100-SXM2-80GB = nvidia.com/gpu x8 (Whole)"];
    assert_cards(&node(&labels[..4], &whole), &expected);
}

#[test]
fn amd_mi300x() {
    let found = node(
        &[
            ("amd.com/gpu.product-name", "AMD_Instinct_MI300X_OAM"),
            ("amd.com/gpu.vram", "191G"),
        ],
        &[("amd.com/gpu", "8")],
    );
    assert_problem(
        &found,
        "UnlabelledResource",
        "the node allocates 8 amd.com/gpu, but has no label amd.com/gpu.product: set it, with .count and .memory beside \
         it, or check that feature discovery runs on the node",
    );
}

#[test]
fn ascend_910b() {
    let product = ("huawei.com/ascend.product", "Ascend-910B");
    let described = [
        product,
        ("huawei.com/ascend.count", "8"),
        ("huawei.com/ascend.memory", "65536"),
    ];
    let allocatable = [("huawei.com/ascend-910", "8")];
    let found = node(&described, &allocatable);
    assert_cards(&found, &["Ascend-910B = huawei.com/ascend-910 x8 (Whole)"]);
    let found = node(&described[..2], &allocatable);
    assert_problem(
        &found,
        "MissingLabel",
        "label huawei.com/ascend.product=Ascend-910B, but label huawei.com/ascend.memory is missing: set it, or check \
         that feature discovery runs on the node",
    );
    let found = node(&[product], &allocatable);
    assert_eq!(reasons(&found), ["MissingLabel", "MissingLabel"]);
}

#[test]
fn joining() {
    let labels = [
        ("nvidia.com/gpu.product", "NVIDIA-L40S"),
        ("nvidia.com/gpu.count", "8"),
        ("nvidia.com/gpu.memory", "46068"),
    ];
    let message = "label nvidia.com/gpu.product=NVIDIA-L40S, but the node allocates no nvidia.com/gpu: the device \
                   plugin has not registered, check that it runs on the node";
    assert_problem(&node(&labels, &[("cpu", "8")]), "MissingResource", message);
    // The node's network interfaces are there before its cards.
    let with_rdma = [("nvidia.com/hostdev", "8")];
    assert_problem(&node(&labels, &with_rdma), "MissingResource", message);
    // After a reboot the resource is there before the labels.
    let found = node(&[("kubernetes.io/os", "linux")], &[("nvidia.com/gpu", "8")]);
    assert_eq!((cards(&found).len(), reasons(&found)), (0, vec!["UnlabelledResource"]));
}

#[test]
fn cpu_only() {
    let allocatable = [
        ("cpu", "64"),
        ("memory", "256Gi"),
        ("pods", "110"),
        ("rdma/hca_shared", "64"),
    ];
    assert_cards(&node(&[("kubernetes.io/os", "linux")], &allocatable), &[]);
    assert_cards(&node(&[], &[]), &[]);
}

#[test]
fn long_product_names_stay_as_they_are() {
    for product in [
        "NVIDIA-RTX-6000-Ada-Generation",
        "NVIDIA-GeForce-RTX-4090-D",
        &"x".repeat(63),
    ] {
        let labels = [
            ("nvidia.com/gpu.product", product),
            ("nvidia.com/gpu.count", "8"),
            ("nvidia.com/gpu.memory", "49140"),
        ];
        let found = node(&labels, &[("nvidia.com/gpu", "8")]);
        assert_cards(&found, &[&format!("{product} = nvidia.com/gpu x8 (Whole)")]);
    }
}
