//! Which Kubernetes resources are cards: the well-known ones, in one list from which all other lists are made.
//!
//! The `matchConditions` of the webhooks and the default of the policies repeat [`WELL_KNOWN`], since neither can read it; a
//! test compares them.

/// Resources that are cards in every cluster: exact names, or prefixes that end in `*`.
///
/// The names are those of the device plugins of NVIDIA, AMD, Intel, Huawei (both its own and Volcano's), Cambricon, Hygon,
/// `MetaX`, Moore Threads, Iluvatar, Enflame and Kunlunxin, and mGPU's. `gpu.intel.com/i915_monitoring` is none: it is no card,
/// but a look at all of them.
pub const WELL_KNOWN: [&str; 22] = [
    "nvidia.com/gpu",
    "nvidia.com/gpu.shared",
    "nvidia.com/mig-*",
    "vke.volcengine.com/mgpu-core",
    "vke.volcengine.com/mgpu-memory",
    "amd.com/gpu",
    "gpu.intel.com/i915",
    "gpu.intel.com/xe",
    "habana.ai/gaudi",
    "huawei.com/Ascend*",
    "huawei.com/ascend-*",
    "huawei.com/npu",
    "cambricon.com/mlu",
    "cambricon.com/vmlu",
    "hygon.com/dcu",
    "hygon.com/dcunum",
    "metax-tech.com/gpu",
    "metax-tech.com/sgpu",
    "mthreads.com/vgpu",
    "iluvatar.ai/gpu",
    "enflame.com/gcu",
    "kunlunxin.com/xpu",
];

/// Whether a pattern means a resource: it is the resource's name, or a prefix of it that ends in `*`.
pub fn matches(pattern: &str, resource: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(prefix) => resource.starts_with(prefix),
        None => resource == pattern,
    }
}

/// Whether a card resource counts cards, and not their memory. `vke.volcengine.com/mgpu-memory` and
/// `huawei.com/Ascend910B-memory` count memory, beside a resource that counts cards.
pub fn counts_cards(resource: &str) -> bool {
    !resource.ends_with("memory")
}

/// Whether a resource is one of devices, and not one of Kubernetes itself. Only such resources can be cards.
pub fn is_extended(resource: &str) -> bool {
    resource.contains('/')
}
