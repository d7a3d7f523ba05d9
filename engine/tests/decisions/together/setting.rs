//! Configurations of which anything is turned on beside anything.

use std::sync::Arc;

use crds::configuration::Configuration;
use proptest::prelude::*;
use proptest::sample::select;

#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is a setting of its own")]
pub struct Setting {
    pub plugin: &'static str,
    pub hierarchy: bool,
    pub overuse: bool,
    pub unlimited: bool,
    pub named_only: bool,
    pub enqueue: bool,
    pub reclaim: bool,
    pub preempt: bool,
    pub unnamed: &'static str,
    /// The CPUs that pods without GPU may have on nodes with whole cards, where `CrossQuota` is on.
    pub cross_quota: Option<i64>,
    pub mgpu_extender: bool,
    pub on_quota: bool,
}

pub fn any_setting() -> impl Strategy<Value = Setting> {
    let bools = (
        any::<bool>(),
        prop::bool::weighted(0.8),
        any::<bool>(),
        prop::bool::weighted(0.2),
        prop::bool::weighted(0.7),
        prop::bool::weighted(0.8),
        prop::bool::weighted(0.4),
    );
    (
        select(vec!["capacity", "capacity-card"]),
        bools,
        select(vec!["charge", "charge", "free"]),
        (
            prop::option::weighted(0.4, 1..6_i64),
            prop::bool::weighted(0.3),
            prop::bool::weighted(0.2),
        ),
    )
        .prop_map(
            |(
                plugin,
                (hierarchy, overuse, unlimited, named_only, enqueue, reclaim, preempt),
                unnamed,
                (cross_quota, mgpu_extender, on_quota),
            )| Setting {
                plugin,
                hierarchy,
                overuse,
                unlimited,
                named_only,
                enqueue,
                reclaim,
                preempt,
                unnamed,
                cross_quota,
                mgpu_extender,
                on_quota,
            },
        )
}

impl Setting {
    pub fn parsed(&self) -> Arc<Configuration> {
        let actions = [
            ("enqueue", self.enqueue),
            ("allocate", true),
            ("reclaim", self.reclaim),
            ("preempt", self.preempt),
        ];
        let actions: Vec<_> = actions
            .into_iter()
            .filter(|(_, on)| *on)
            .map(|(name, _)| name)
            .collect();
        let cross_quota = self.cross_quota.map_or_else(String::new, |cpu| {
            format!(", {{name: crossquota, arguments: {{gpu-resource-names: nvidia.com/gpu, quota.cpu: {cpu}}}}}")
        });
        let conf = format!(
            "actions: \"{}\"\ntiers: [{{plugins: [{{name: {}, arguments: {{enableHierarchy: {}, enableOveruse: {}, \
             cardUnlimitedCpuMemory: {}, checkQueueDimensionsOnly: {}, reclaimInterval: 1}}}}{cross_quota}]}}]",
            actions.join(", "),
            self.plugin,
            self.hierarchy,
            self.overuse,
            self.unlimited,
            self.named_only
        );
        let cardgate = format!(
            "reservationTimeout: 24h\ninqueueTimeout: 24h\nunnamedCards: {}\nenforceMGPU: {}\nadmitOn: {}",
            self.unnamed,
            if self.mgpu_extender { "extender" } else { "gating" },
            if self.on_quota { "quota" } else { "fit" },
        );
        Arc::new(
            Configuration::parse(Some(&conf), Some(&cardgate))
                .unwrap()
                .configuration,
        )
    }
}
