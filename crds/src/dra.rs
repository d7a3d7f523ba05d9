//! Lean objects of Dynamic Resource Allocation (`resource.k8s.io/v1`): the fields that Cardgate reads, and no others.
//!
//! Only the operator keeps them, so their text is owned. What has no comment is Kubernetes' own object or field of that name.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::lean::{Metadata, nullable};

/// Defines an owned lean object: every field of it is optional in the JSON, `null` included.
macro_rules! owned {
    ($(#[$meta:meta])* $name:ident { $($(#[$field_meta:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$meta])*
        #[allow(missing_docs, reason = "objects and fields are named as in Kubernetes' API")]
        #[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
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
        /// Whose devices these are, such as `gpu.nvidia.com`.
        driver: Box<str>,
        pool: Pool,
        /// The node that has the devices; none where several nodes reach them.
        node_name: Box<str>,
        devices: Vec<Device>,
    }
}

owned! {
    /// Where the slice belongs: slices of one pool are counted together or not at all.
    Pool {
        name: Box<str>,
        /// Slices of the highest generation count; those of earlier ones are about to be replaced.
        generation: i64,
        /// How many slices of this generation there are when all of them are there.
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
    /// What administrators name so that claims need not say it.
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
    /// What a pod asks for of devices, and what it was given.
    ResourceClaim {
        metadata: Metadata<Box<str>>,
        spec: ClaimSpec,
        status: ClaimStatus,
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
    }
}

owned! {
    /// One request: for devices of one form, or for the first form of several that can be had.
    Request {
        name: Box<str>,
        exactly: Option<SubRequest>,
        first_available: Vec<SubRequest>,
    }
}

owned! {
    /// One form of a request.
    SubRequest {
        device_class_name: Box<str>,
        selectors: Vec<Selector>,
        /// `ExactCount` (also where none is given) or `All`.
        allocation_mode: Box<str>,
        /// One, where none is given.
        count: Option<i64>,
        /// Whether it looks at devices without taking them from anybody.
        admin_access: bool,
    }
}

owned! {
    ClaimStatus {
        allocation: Option<Allocation>,
        /// Who may use what was allocated.
        reserved_for: Vec<Consumer>,
    }
}

owned! {
    Consumer {
        /// A pod's, where the consumer is one.
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
        driver: Box<str>,
        pool: Box<str>,
        device: Box<str>,
        /// Whether it is looked at alone.
        admin_access: bool,
    }
}

impl SubRequest {
    /// How many devices are asked for; none for all that a node has.
    pub fn count(&self) -> Option<i64> {
        (&*self.allocation_mode != "All").then(|| self.count.unwrap_or(1))
    }
}

impl DeviceTaint {
    /// Whether it keeps new pods away from the device.
    pub fn keeps_away(&self) -> bool {
        matches!(&*self.effect, "NoSchedule" | "NoExecute")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
