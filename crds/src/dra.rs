//! Lean objects of Dynamic Resource Allocation (`resource.k8s.io/v1`): the fields that Cardgate reads, and no others.
//!
//! Only the operator keeps them, so their text is owned. A type or field without comment is Kubernetes' own of that name.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::lean::{Metadata, nullable};

/// Defines an owned lean object: every field of it is optional in the JSON, `null` included.
macro_rules! owned {
    ($(#[$meta:meta])* $name:ident { $($(#[$field_meta:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$meta])*
        #[allow(missing_docs, reason = "objects and fields are named as in Kubernetes' API")]
        #[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Deserialize)]
        #[serde(rename_all = "camelCase")]
        pub struct $name {
            $($(#[$field_meta])* #[serde(default, deserialize_with = "nullable")] pub $field: $type,)*
        }
    };
}

owned! {
    /// Devices of one driver, of one node or of several.
    ResourceSlice {
        metadata: Metadata<Box<str>>,
        spec: SliceSpec,
    }
}

owned! {
    SliceSpec {
        /// The driver of the devices, such as `gpu.nvidia.com`.
        driver: Box<str>,
        pool: Pool,
        /// The node that has the devices; none where several nodes reach them.
        node_name: Box<str>,
        /// Whether each device itself says which nodes reach it.
        per_device_node_selection: bool,
        devices: Vec<Device>,
        /// What devices of the pool share.
        shared_counters: Vec<CounterSet>,
    }
}

owned! {
    /// The pool of the slice. The slices of a pool are counted together or not at all.
    Pool {
        name: Box<str>,
        /// Slices of the highest generation count. Slices of earlier generations are about to be replaced.
        generation: i64,
        /// How many slices of this generation there are once all are published.
        resource_slice_count: i64,
    }
}

owned! {
    Device {
        /// Unique in its pool.
        name: Box<str>,
        /// Names without a domain are in that of the driver.
        attributes: BTreeMap<Box<str>, AttributeValue>,
        capacity: BTreeMap<Box<str>, Capacity>,
        taints: Vec<DeviceTaint>,
        /// What the device takes of counters while it is allocated.
        consumes_counters: Vec<CounterConsumption>,
        /// Whether several claims may have the device at once.
        allow_multiple_allocations: bool,
        /// The node that has the device, if devices say so themselves.
        node_name: Box<str>,
    }
}

owned! {
    CounterSet {
        name: Box<str>,
        counters: BTreeMap<Box<str>, Capacity>,
    }
}

owned! {
    CounterConsumption {
        /// The set's name, in the same pool.
        counter_set: Box<str>,
        counters: BTreeMap<Box<str>, Capacity>,
    }
}

owned! {
    /// The value of an attribute: one of these.
    AttributeValue {
        bool: Option<bool>,
        int: Option<i64>,
        string: Option<Box<str>>,
        /// A semantic version.
        version: Option<Box<str>>,
        bools: Vec<bool>,
        ints: Vec<i64>,
        strings: Vec<Box<str>>,
        versions: Vec<Box<str>>,
    }
}

owned! {
    Capacity {
        /// A quantity.
        value: Box<str>,
    }
}

owned! {
    DeviceTaint {
        key: Box<str>,
        value: Box<str>,
        /// `None`, `NoSchedule` or `NoExecute`.
        effect: Box<str>,
    }
}

owned! {
    /// A taint that administrators put on devices, whichever driver publishes them.
    DeviceTaintRule {
        metadata: Metadata<Box<str>>,
        spec: TaintRuleSpec,
    }
}

owned! {
    TaintRuleSpec {
        /// `None` if the rule has no selector.
        device_selector: Option<TaintSelector>,
        taint: DeviceTaint,
    }
}

owned! {
    /// Selects the devices that match all of these fields. An unset field matches any device.
    TaintSelector {
        driver: Option<Box<str>>,
        pool: Option<Box<str>>,
        device: Option<Box<str>>,
    }
}

owned! {
    /// A class that administrators define, so that claims need not repeat its selectors.
    DeviceClass {
        metadata: Metadata<Box<str>>,
        spec: ClassSpec,
    }
}

owned! {
    ClassSpec {
        selectors: Vec<Selector>,
        /// The resource by which pods may ask for devices of the class without a claim.
        extended_resource_name: Option<Box<str>>,
    }
}

owned! {
    Selector {
        cel: CelSelector,
    }
}

owned! {
    CelSelector {
        expression: Box<str>,
    }
}

owned! {
    /// What a pod asks for in devices, and what it was given.
    ResourceClaim {
        metadata: Metadata<Box<str>>,
        spec: ClaimSpec,
        status: ClaimStatus,
    }
}

owned! {
    /// A template from which a claim is made for each pod that names it.
    ResourceClaimTemplate {
        metadata: Metadata<Box<str>>,
        spec: ClaimTemplateSpec,
    }
}

owned! {
    ClaimTemplateSpec {
        /// What each claim asks for.
        spec: ClaimSpec,
    }
}

owned! {
    ClaimSpec {
        devices: ClaimDevices,
    }
}

owned! {
    ClaimDevices {
        requests: Vec<Request>,
        constraints: Vec<Constraint>,
    }
}

owned! {
    /// What holds for all devices of these requests, or of all requests if none is named.
    Constraint {
        requests: Vec<Box<str>>,
        /// All devices have the same value of this attribute.
        match_attribute: Option<Box<str>>,
        /// No two devices have the same value of this attribute.
        distinct_attribute: Option<Box<str>>,
    }
}

owned! {
    /// One request: for devices of one form, or for the first available of several forms.
    Request {
        name: Box<str>,
        exactly: Option<SubRequest>,
        first_available: Vec<SubRequest>,
    }
}

owned! {
    /// One form of a request.
    SubRequest {
        /// Set if the form is one of several.
        name: Box<str>,
        device_class_name: Box<str>,
        selectors: Vec<Selector>,
        /// `ExactCount` (also where none is given) or `All`.
        allocation_mode: Box<str>,
        /// One, where none is given.
        count: Option<i64>,
        /// Whether the request only looks at devices, without taking them from any pod.
        admin_access: bool,
        tolerations: Vec<DeviceToleration>,
        /// How much of devices that several claims may have at once.
        capacity: CapacityRequirements,
    }
}

owned! {
    CapacityRequirements {
        /// Quantities, by the capacity's name.
        requests: BTreeMap<Box<str>, Box<str>>,
    }
}

owned! {
    /// A taint that a request tolerates.
    DeviceToleration {
        /// All keys, where none is given.
        key: Box<str>,
        /// `Equal` (also where none is given) or `Exists`.
        operator: Box<str>,
        value: Box<str>,
        /// All effects, where none is given.
        effect: Box<str>,
    }
}

owned! {
    ClaimStatus {
        allocation: Option<Allocation>,
        /// The objects that may use what was allocated.
        reserved_for: Vec<Consumer>,
    }
}

owned! {
    Consumer {
        /// The pod's uid, if the consumer is a pod.
        uid: Box<str>,
    }
}

owned! {
    Allocation {
        devices: AllocatedDevices,
    }
}

owned! {
    AllocatedDevices {
        results: Vec<AllocatedDevice>,
    }
}

owned! {
    AllocatedDevice {
        /// The request that the device is for, or `<request>/<form>`.
        request: Box<str>,
        driver: Box<str>,
        pool: Box<str>,
        device: Box<str>,
        /// Whether the device is only looked at.
        admin_access: bool,
        /// How much was given of a device that several claims may have at once: quantities, by the capacity's name.
        consumed_capacity: BTreeMap<Box<str>, Box<str>>,
    }
}

impl SubRequest {
    /// How many devices are asked for; `None` for all devices of a node.
    pub fn count(&self) -> Option<i64> {
        (&*self.allocation_mode != "All").then(|| self.count.unwrap_or(1))
    }
}

impl DeviceTaint {
    /// Whether the taint keeps new pods away from the device.
    pub fn keeps_away(&self) -> bool {
        matches!(&*self.effect, "NoSchedule" | "NoExecute")
    }
}

impl TaintSelector {
    /// Whether the selector matches devices of this driver and pool, whatever their names.
    pub fn selects_of(&self, driver: &str, pool: &str) -> bool {
        self.driver.as_deref().is_none_or(|named| named == driver)
            && self.pool.as_deref().is_none_or(|named| named == pool)
    }

    /// Whether the selector matches the name of a device whose driver and pool it matches.
    pub fn selects_named(&self, device: &str) -> bool {
        self.device.as_deref().is_none_or(|named| named == device)
    }
}

impl DeviceToleration {
    /// Whether this toleration tolerates a taint.
    pub fn tolerates(&self, taint: &DeviceTaint) -> bool {
        let exists = &*self.operator == "Exists";
        (self.effect.is_empty() || self.effect == taint.effect)
            && (self.key == taint.key || self.key.is_empty() && exists)
            && (exists || self.value == taint.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_selects_devices_by_all_that_it_names_and_none_where_it_selects_by_nothing() {
        let selects = |selector: &str| {
            let rule = format!(r#"{{"spec": {{{selector} "taint": {{"key": "sick", "effect": "NoSchedule"}}}}}}"#);
            let rule: DeviceTaintRule = serde_json::from_str(&rule).unwrap();
            assert!(rule.spec.taint.keeps_away());
            let of = |driver, pool, device| {
                let selector = rule.spec.device_selector.as_ref();
                selector.is_some_and(|selector| selector.selects_of(driver, pool) && selector.selects_named(device))
            };
            [
                of("d", "n1", "gpu-0"),
                of("d", "n1", "gpu-1"),
                of("d", "n2", "gpu-0"),
                of("e", "n1", "gpu-0"),
            ]
        };
        assert_eq!(selects(""), [false; 4]);
        assert_eq!(selects(r#""deviceSelector": null,"#), [false; 4]);
        assert_eq!(selects(r#""deviceSelector": {},"#), [true; 4]);
        assert_eq!(
            selects(r#""deviceSelector": {"driver": "d", "device": null},"#),
            [true, true, true, false]
        );
        assert_eq!(
            selects(r#""deviceSelector": {"pool": "n1"},"#),
            [true, true, false, true]
        );
        assert_eq!(
            selects(r#""deviceSelector": {"device": "gpu-0", "pool": "n1", "driver": "d"},"#),
            [true, false, false, false]
        );
    }

    #[test]
    fn objects_are_read_as_the_api_server_writes_them() {
        let slice: ResourceSlice = serde_json::from_str(
            r#"{"metadata": {"name": "n1-gpu"}, "spec": {"driver": "gpu.nvidia.com", "nodeName": "n1",
                "pool": {"name": "n1", "generation": 2, "resourceSliceCount": 1}, "sharedCounters": null,
                "devices": [{"name": "gpu-0", "attributes": {"type": {"string": "gpu"}, "index": {"int": 0},
                    "driverVersion": {"version": "570.1.0"}}, "capacity": {"memory": {"value": "80Gi"}},
                    "taints": [{"key": "sick", "effect": "NoExecute"}]}]}}"#,
        )
        .unwrap();
        let device = &slice.spec.devices[0];
        assert_eq!((slice.spec.pool.generation, &*device.name), (2, "gpu-0"));
        assert_eq!(device.attributes["type"].string.as_deref(), Some("gpu"));
        assert_eq!(device.attributes["index"].int, Some(0));
        assert_eq!(&*device.capacity["memory"].value, "80Gi");
        assert!(device.taints[0].keeps_away());

        let claim: ResourceClaim = serde_json::from_str(
            r#"{"spec": {"devices": {"requests": [
                {"name": "a", "exactly": {"deviceClassName": "gpu.nvidia.com", "allocationMode": "ExactCount", "count": 2}},
                {"name": "b", "firstAvailable": [{"name": "x", "deviceClassName": "c", "allocationMode": "All"}]}]}},
                "status": {"allocation": {"devices": {"results": [
                    {"request": "a", "driver": "gpu.nvidia.com", "pool": "n1", "device": "gpu-0", "adminAccess": null}]}},
                    "reservedFor": [{"resource": "pods", "name": "p", "uid": "u1"}]}}"#,
        )
        .unwrap();
        let [first, second] = claim.spec.devices.requests.as_slice() else {
            panic!("two requests")
        };
        assert_eq!(first.exactly.as_ref().unwrap().count(), Some(2));
        assert_eq!(second.first_available[0].count(), None);
        let given = &claim.status.allocation.as_ref().unwrap().devices.results[0];
        assert_eq!((&*given.device, given.admin_access), ("gpu-0", false));
        assert_eq!(&*claim.status.reserved_for[0].uid, "u1");
    }
}
