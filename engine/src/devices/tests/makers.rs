//! What drivers' makers publish: devices, classes, and the selectors that they show to their users.

use super::*;

/// Classes, as the makers' charts have them.
const CLASSES: [(&str, &str, Option<&str>); 6] = [
    (
        "gpu.nvidia.com",
        "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'gpu'",
        Some("nvidia.com/gpu"),
    ),
    (
        "mig.nvidia.com",
        "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'mig'",
        None,
    ),
    (
        "vfio.gpu.nvidia.com",
        "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'vfio'",
        None,
    ),
    ("gpu.amd.com", "device.driver == 'gpu.amd.com'", Some("amd.com/gpu")),
    (
        "vfio.gpu.amd.com",
        "device.driver == 'gpu.amd.com' && device.attributes['gpu.amd.com'].type == 'amdgpu-vfio'",
        None,
    ),
    (
        "gpu.intel.com",
        "device.driver == \"gpu.intel.com\"",
        Some("intel.com/gpu"),
    ),
];

const MI300X: &str = "AMD_Instinct_MI300X_OAM";
const MI300X_VFIO: &str = "AMD_Instinct_MI300X_OAM/vfio";

fn amd(index: i64) -> Value {
    json!({"name": format!("gpu-{index}-{}", 128 + index), "attributes": {"type": {"string": "amdgpu"},
        "productName": {"string": MI300X}, "family": {"string": "AI"}, "cardIndex": {"int": index},
        "renderIndex": {"int": 128 + index}, "driverVersion": {"version": "6.12.12"}},
        "capacity": {"memory": {"value": "196592Mi"}, "computeUnits": {"value": "304"}, "simdUnits": {"value": "1216"}}})
}

fn amd_partition(index: i64) -> Value {
    json!({"name": format!("gpu-1-129-part-{index}"), "attributes": {"type": {"string": "amdgpu-partition"},
        "productName": {"string": MI300X}, "partitionProfile": {"string": "cpx_nps4"}, "deviceID": {"string": "0xdeadbeef"}},
        "capacity": {"memory": {"value": "24574Mi"}, "computeUnits": {"value": "38"}}})
}

fn intel(index: i64, model: &str) -> Value {
    json!({"name": format!("0000-0{index}-00-0-0x56a0"), "attributes": {"model": {"string": model},
        "family": {"string": "Arc A-Series"}, "type": {"string": "gpu"}, "driver": {"string": "i915"},
        "sriov": {"bool": false}, "health": {"string": "Healthy"}, "pciId": {"string": "0x56a0"}},
        "capacity": {"memory": {"value": "16288Mi"}, "millicores": {"value": "1000"}}})
}

fn world() -> Devices {
    let (mut devices, mut texts) = (Devices::default(), TextPool::default());
    let named = |device: Value, name: &str, of_type: &str| {
        let mut device = device;
        (device["name"], device["attributes"]["type"]["string"]) = (json!(name), json!(of_type));
        device
    };
    let vfio = named(nvidia("gpu-0", 0, "NVIDIA A100 80GB PCIe"), "gpu-0-vfio", "vfio");
    for slice in [
        slice(
            "n1",
            "gpu.nvidia.com",
            &[nvidia("gpu-0", 0, "NVIDIA A100 80GB PCIe"), vfio],
        ),
        slice(
            "n2",
            "gpu.nvidia.com",
            &[mig("gpu-0-mig-0", "1g.5gb"), mig("gpu-0-mig-1", "2g.10gb")],
        ),
        slice(
            "n3",
            "compute-domain.nvidia.com",
            &[named(nvidia("channel-0", 0, "x"), "channel-0", "channel")],
        ),
        slice("n4", "gpu.amd.com", &[amd(0), named(amd(0), "vfio-0", "amdgpu-vfio")]),
        slice("n5", "gpu.amd.com", &[amd_partition(0), amd_partition(1)]),
        slice("n6", "gpu.intel.com", &[intel(3, "A770"), intel(4, "A380")]),
    ] {
        devices.apply_slice(&slice, 0, &mut texts);
    }
    for (name, expression, extended) in CLASSES {
        devices.apply_class(class(name, expression, extended), 0);
    }
    devices
}

#[test]
fn each_class_has_the_cards_of_its_maker() {
    let mut devices = world();
    let a100 = "NVIDIA-A100-SXM4-40GB";
    for (class, expected) in [
        ("gpu.nvidia.com", cards(&[A100], 1)),
        (
            "mig.nvidia.com",
            cards(
                &[
                    "NVIDIA-A100-SXM4-40GB/mig-1g.5gb-mixed",
                    "NVIDIA-A100-SXM4-40GB/mig-2g.10gb-mixed",
                ],
                1,
            ),
        ),
        ("vfio.gpu.nvidia.com", Ok(Vec::new())),
        (
            "gpu.amd.com",
            cards(&[MI300X, "AMD_Instinct_MI300X_OAM/cpx_nps4", MI300X_VFIO], 1),
        ),
        ("vfio.gpu.amd.com", cards(&[MI300X_VFIO], 1)),
        ("gpu.intel.com", cards(&["A380", "A770"], 1)),
    ] {
        let request = json!([{"name": "r", "exactly": {"deviceClassName": class}}]);
        assert_eq!(asked(&mut devices, &request, &Value::Null), expected, "{class}");
    }
    let profile = json!([{"cel": {"expression": "device.attributes['gpu.nvidia.com'].profile == '1g.5gb'"}}]);
    let request = json!([{"name": "r", "exactly": {"deviceClassName": "mig.nvidia.com", "selectors": profile}}]);
    let expected = format!("{a100}/mig-1g.5gb-mixed");
    assert_eq!(asked(&mut devices, &request, &Value::Null), cards(&[&expected], 1));
}

#[test]
fn nodes_have_what_their_drivers_publish() {
    let devices = world();
    let on = |node: &str| -> Vec<(String, i64)> {
        let cards = devices.cards_of(node).into_iter();
        cards.map(|(card, count)| (card.name.clone(), count.total)).collect()
    };
    let one = |name: &str| (name.to_owned(), 1);
    assert_eq!(on("n1"), [one(A100)]);
    assert_eq!(on("n3"), []);
    assert_eq!(on("n4"), [one(MI300X), one(MI300X_VFIO)]);
    assert_eq!(on("n5"), [("AMD_Instinct_MI300X_OAM/cpx_nps4".to_owned(), 2)]);
    assert_eq!(on("n6"), [one("A380"), one("A770")]);
}

/// AMD's driver partitions a card as claims ask for it, and one device stands for all partitions.
#[test]
fn several_parts_of_one_device_are_not_the_price_of_one() {
    let (mut devices, mut texts) = (Devices::default(), TextPool::default());
    let device = json!({"name": "gpu-0-cpx-nps4", "allowMultipleAllocations": true, "attributes": {
        "type": {"string": "amdgpu-partition"}, "productName": {"string": MI300X},
        "computePartition": {"string": "cpx"}, "memoryPartition": {"string": "nps4"}},
        "capacity": {"partitions": {"value": "8", "requestPolicy": {"default": "1"}}}});
    devices.apply_slice(&slice("n1", "gpu.amd.com", &[device]), 0, &mut texts);
    devices.apply_class(class("gpu.amd.com", "device.driver == 'gpu.amd.com'", None), 0);
    let request = |parts: &str| {
        let capacity = json!({"requests": {"partitions": parts}});
        json!([{"name": "r", "exactly": {"deviceClassName": "gpu.amd.com", "capacity": capacity}}])
    };
    let cpx = "AMD_Instinct_MI300X_OAM/cpx_nps4";
    assert_eq!(asked(&mut devices, &request("1"), &Value::Null), cards(&[cpx], 1));
    let refused = asked(&mut devices, &request("8"), &Value::Null);
    let Err(Obstacle::Unclear(why)) = refused else {
        panic!("{refused:?}")
    };
    assert!(why.contains("it asks for 8 parts of one device"), "{why}");
    // Somebody else may have let it in.
    let given = json!({"allocation": {"devices": {"results": [{"request": "r", "driver": "gpu.amd.com", "pool": "n1",
        "device": "gpu-0-cpx-nps4", "consumedCapacity": {"partitions": "8"}}]}}});
    assert_eq!(asked(&mut devices, &request("8"), &given), cards(&[cpx], 8));
}

#[test]
#[expect(clippy::too_many_lines, reason = "a list of what makers show")]
fn what_makers_show_their_users_selects_what_they_say() {
    let nvidia = nvidia("gpu-0", 0, "NVIDIA A100 80GB PCIe");
    let (mig, amd, part, intel) = (mig("m", "1g.5gb"), amd(0), amd_partition(0), intel(3, "A770"));
    for (device, driver, expression, expected) in [
        (
            &mig,
            "gpu.nvidia.com",
            "device.attributes['gpu.nvidia.com'].profile == '1g.5gb'",
            true,
        ),
        (
            &mig,
            "gpu.nvidia.com",
            "device.attributes['gpu.nvidia.com'].profile == '4g.40gb' || device.attributes['gpu.nvidia.com'].profile == '3g.40gb'",
            false,
        ),
        (
            &nvidia,
            "gpu.nvidia.com",
            "device.attributes['gpu.nvidia.com'].productName.lowerAscii().matches('^.*a100.*$') && \
             (device.attributes['gpu.nvidia.com'].index == 0 || device.attributes['gpu.nvidia.com'].index == 1)",
            true,
        ),
        (
            &nvidia,
            "gpu.nvidia.com",
            "device.attributes['gpu.nvidia.com'].uuid == 'GPU-NVIDIA A100 80GB PCIe-1'",
            false,
        ),
        (
            &amd,
            "gpu.amd.com",
            "device.attributes['gpu.amd.com'].type == 'amdgpu'",
            true,
        ),
        (
            &amd,
            "gpu.amd.com",
            "device.attributes['gpu.amd.com'].productName == 'AMD_Instinct_MI300X_OAM'",
            true,
        ),
        (
            &amd,
            "gpu.amd.com",
            "device.attributes['gpu.amd.com'].partitionProfile == 'cpx_nps4'",
            false,
        ),
        (
            &part,
            "gpu.amd.com",
            "device.attributes['gpu.amd.com'].partitionProfile == 'cpx_nps4'",
            true,
        ),
        (
            &part,
            "gpu.amd.com",
            "device.attributes['gpu.amd.com'].deviceID == '0xdeadbeef'",
            true,
        ),
        (
            &intel,
            "gpu.intel.com",
            "device.capacity[\"gpu.intel.com\"].memory.compareTo(quantity(\"4Gi\")) >= 0",
            true,
        ),
        (
            &intel,
            "gpu.intel.com",
            "device.capacity[\"gpu.intel.com\"].millicores.compareTo(quantity(\"1000\")) >= 0",
            true,
        ),
        (
            &intel,
            "gpu.intel.com",
            "device.attributes[\"gpu.intel.com\"].family.startsWith(\"Arc\")",
            true,
        ),
        (
            &intel,
            "gpu.intel.com",
            "device.attributes[\"gpu.intel.com\"].model == \"A770\"",
            true,
        ),
        (
            &intel,
            "gpu.intel.com",
            "device.driver == \"gpu.intel.com\" && device.attributes[\"gpu.intel.com\"].pciId == \"0xe223\"",
            false,
        ),
        (
            &intel,
            "gpu.intel.com",
            "device.attributes[\"gpu.intel.com\"].sriov == false",
            true,
        ),
        (
            &intel,
            "gpu.intel.com",
            "device.attributes[\"gpu.intel.com\"].driver == 'vfio-pci'",
            false,
        ),
        (
            &intel,
            "gpu.intel.com",
            "device.attributes[\"gpu.intel.com\"].health == \"Healthy\"",
            true,
        ),
    ] {
        assert_eq!(selects(expression, driver, device), Ok(expected), "{expression}");
    }
}

#[test]
fn devices_of_a_driver_that_the_configuration_names_become_cards_and_cease_to_be() {
    let mut devices = world();
    let mut texts = TextPool::default();
    let npu = |name: &str| json!({"name": name, "attributes": {"product": {"string": "Great NPU"}}});
    let mut half = npu("npu-1");
    half["attributes"]["example.com/part"] = json!({"string": "half"});
    devices.apply_slice(&slice("n7", "npu.example.com", &[npu("npu-0"), half]), 0, &mut texts);
    let names = |devices: &Devices| -> Vec<String> {
        let cards = devices.cards_of("n7").into_keys();
        cards.map(|card| card.name.clone()).collect()
    };
    assert_eq!(names(&devices), [""; 0]);
    let drivers = |profile: Option<&str>| {
        Drivers::new(&[crds::configuration::CardDriver {
            driver: "npu.example.com".to_owned(),
            product: "product".to_owned(),
            profile: profile.map(str::to_owned),
        }])
    };
    let change = devices.set_drivers(drivers(None));
    assert!(
        !change.models.is_empty() && change.nodes.iter().map(|node| &**node).eq(["n7"]),
        "{change:?}"
    );
    assert_eq!(names(&devices), ["Great-NPU"]);
    assert_eq!(
        devices
            .cards_of("n7")
            .into_values()
            .map(|count| count.total)
            .sum::<i64>(),
        2
    );
    devices.set_drivers(drivers(Some("example.com/part")));
    assert_eq!(names(&devices), ["Great-NPU", "Great-NPU/half"]);
    assert_eq!(
        devices.set_drivers(drivers(Some("example.com/part"))),
        SliceChange::default()
    );
    let change = devices.set_drivers(Drivers::default());
    assert!(!change.models.is_empty() && change.nodes.len() == 1, "{change:?}");
    assert_eq!(names(&devices), [""; 0]);
}
