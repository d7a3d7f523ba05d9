//! What claims ask for, beside the selectors that the drivers' projects publish.

mod functions;
mod makers;
mod random;
mod selectors;

use std::sync::Arc;

use crds::dra::{DeviceClass, ResourceClaim, ResourceSlice};
use serde_json::{Value, json};

use super::*;
use crate::devices::model::{Described, Model, own_names};
use crate::devices::selector::{Says, Selector, SelectorError};
use crate::steps::Steps;

fn nvidia(name: &str, index: i64, product: &str) -> Value {
    json!({"name": name, "attributes": {
        "type": {"string": "gpu"}, "productName": {"string": product}, "index": {"int": index},
        "uuid": {"string": format!("GPU-{product}-{index}")}, "driverVersion": {"version": "570.86.15"},
        "resource.kubernetes.io/pcieRoot": {"string": format!("pci0000:0{index}")}},
        "capacity": {"memory": {"value": "80Gi"}}})
}

fn mig(name: &str, profile: &str) -> Value {
    json!({"name": name, "attributes": {"type": {"string": "mig"}, "productName": {"string": "NVIDIA A100-SXM4-40GB"},
        "profile": {"string": profile}, "parentUUID": {"string": "GPU-1"}}, "capacity": {"memory": {"value": "4864Mi"}}})
}

fn slice(node: &str, driver: &str, devices: &[Value]) -> ResourceSlice {
    let slice = json!({"metadata": {"name": format!("{node}-{driver}")}, "spec": {"driver": driver, "nodeName": node,
        "pool": {"name": node, "generation": 1, "resourceSliceCount": 1}, "devices": devices}});
    serde_json::from_value(slice).unwrap()
}

fn class(name: &str, expression: &str, extended: Option<&str>) -> DeviceClass {
    let class = json!({"metadata": {"name": name}, "spec": {"selectors": [{"cel": {"expression": expression}}],
        "extendedResourceName": extended}});
    serde_json::from_value(class).unwrap()
}

fn world() -> (Devices, TextPool) {
    let (mut devices, mut texts) = (Devices::default(), TextPool::default());
    let a100: Vec<_> = (0..4)
        .map(|index| nvidia(&format!("gpu-{index}"), index, "NVIDIA A100 80GB PCIe"))
        .collect();
    let h100: Vec<_> = (0..2)
        .map(|index| nvidia(&format!("gpu-{index}"), index, "NVIDIA H100 PCIe"))
        .collect();
    for slice in [
        slice("n1", "gpu.nvidia.com", &a100),
        slice("n2", "gpu.nvidia.com", &h100),
        slice(
            "n3",
            "gpu.nvidia.com",
            &[mig("gpu-0-mig-1g.5gb-0", "1g.5gb"), mig("gpu-0-mig-1g.5gb-1", "1g.5gb")],
        ),
        slice(
            "n4",
            "fpga.example.com",
            &[json!({"name": "f", "attributes": {"type": {"string": "gpu"}}})],
        ),
    ] {
        devices.apply_slice(&slice, 0, &mut texts);
    }
    let is_gpu = "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'gpu'";
    devices.apply_class(class("gpu.nvidia.com", is_gpu, Some("nvidia.com/gpu")), 0);
    let is_mig = "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'mig'";
    devices.apply_class(class("mig.nvidia.com", is_mig, None), 0);
    devices.apply_class(class("fpga", "device.driver == 'fpga.example.com'", None), 0);
    (devices, texts)
}

/// Returns what one claim with these requests comes to: what each request leaves, or what keeps the claim.
fn asked(devices: &mut Devices, requests: &Value, status: &Value) -> Result<Vec<String>, Obstacle> {
    let claim: ResourceClaim =
        serde_json::from_value(json!({"spec": {"devices": {"requests": requests}}, "status": status})).unwrap();
    devices.apply_claim(&("team".into(), "c".into()), claim, 0);
    let claims = [Named {
        name: "gpus".into(),
        claim: Some("c".into()),
        shared: false,
    }];
    let asked = devices.asked_by("team", "u1", &claims, None, &Steps::new(u64::MAX));
    let said = |choice: &CardCounts| {
        let counts = choice.iter().map(|(card, count)| format!("{count} {}", card.name));
        counts.collect::<Vec<_>>().join(" + ")
    };
    let requests = asked.requests.iter().map(|request| {
        let choices: Vec<_> = request.choices.iter().map(said).collect();
        format!(
            "{}{}",
            choices.join(" | "),
            if request.ordered { ", in order" } else { "" }
        )
    });
    asked.obstacle.map_or_else(|| Ok(requests.collect()), Err)
}

const A100: &str = "NVIDIA-A100-80GB-PCIe";
const H100: &str = "NVIDIA-H100-PCIe";

#[expect(
    clippy::unnecessary_wraps,
    reason = "compared with what is asked for, or why that can't be said"
)]
fn each(requests: &[String]) -> Result<Vec<String>, Obstacle> {
    Ok(requests.to_vec())
}

/// Returns the answer for one request that gets `count` of one of these cards.
#[expect(
    clippy::unnecessary_wraps,
    reason = "compared with what is asked for, or why that can't be said"
)]
fn cards(names: &[&str], count: i64) -> Result<Vec<String>, Obstacle> {
    let choices: Vec<_> = names.iter().map(|name| format!("{count} {name}")).collect();
    Ok(vec![choices.join(" | ")])
}

#[test]
fn a_request_asks_for_the_cards_that_class_and_selectors_leave() {
    let (mut devices, _) = world();
    let mut ask = |request: Value| asked(&mut devices, &json!([request]), &Value::Null);
    let exactly = |class: &str, count: i64, selectors: &[&str]| {
        let selectors: Vec<_> = selectors
            .iter()
            .map(|text| json!({"cel": {"expression": text}}))
            .collect();
        json!({"name": "r", "exactly": {"deviceClassName": class, "count": count, "selectors": selectors}})
    };
    assert_eq!(ask(exactly("gpu.nvidia.com", 2, &[])), cards(&[A100, H100], 2));
    let by_product = "device.attributes['gpu.nvidia.com'].productName.lowerAscii().matches('^.*a100.*$')";
    assert_eq!(ask(exactly("gpu.nvidia.com", 1, &[by_product])), cards(&[A100], 1));
    let by_index = format!(
        "{by_product} && (device.attributes['gpu.nvidia.com'].index == 0 || device.attributes['gpu.nvidia.com'].index == 1)"
    );
    assert_eq!(ask(exactly("gpu.nvidia.com", 1, &[&by_index])), cards(&[A100], 1));
    let none = format!("{by_product} && device.attributes['gpu.nvidia.com'].index == 9");
    let lacks = |asked: Result<_, Obstacle>| match asked {
        Err(Obstacle::NoDevice(why)) => why,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        lacks(ask(exactly("gpu.nvidia.com", 1, &[&none]))),
        format!("claim gpus, request r: no device of DeviceClass gpu.nvidia.com satisfies selector {none:?}")
    );
    let profile = "device.attributes['gpu.nvidia.com'].profile == '1g.5gb'";
    assert_eq!(
        ask(exactly("mig.nvidia.com", 3, &[profile])),
        cards(&["NVIDIA-A100-SXM4-40GB/mig-1g.5gb-mixed"], 3)
    );
    assert_eq!(
        ask(exactly("fpga", 3, &[])),
        Ok(Vec::new()),
        "no card, and nobody's business"
    );
    assert_eq!(
        lacks(ask(exactly("unknown", 1, &[]))),
        "claim gpus, request r: DeviceClass unknown does not exist"
    );
    let mistyped = "device.attributes['gpu.nvidia.com'].product == 'A100'";
    assert_eq!(
        lacks(ask(exactly("gpu.nvidia.com", 1, &[by_product, mistyped]))),
        format!(
            "claim gpus, request r: no device of DeviceClass gpu.nvidia.com satisfies selector {mistyped:?}, which asks for an attribute that \
             none of them has"
        )
    );
    let by_other_product = "device.attributes['gpu.nvidia.com'].productName.lowerAscii().contains('h100')";
    assert_eq!(
        lacks(ask(exactly("gpu.nvidia.com", 1, &[by_product, by_other_product]))),
        "claim gpus, request r: no device of DeviceClass gpu.nvidia.com satisfies all of its selectors"
    );
    // A selector that can't be evaluated could only take away from devices that are no cards anyway.
    let not_evaluated = "device.driver.replace('gpu', '') == ''";
    assert_eq!(ask(exactly("fpga", 1, &[not_evaluated])), Ok(Vec::new()));
    assert!(matches!(
        ask(exactly("gpu.nvidia.com", 1, &[not_evaluated])),
        Err(Obstacle::Unclear(_))
    ));
    let all = json!({"name": "r", "exactly": {"deviceClassName": "gpu.nvidia.com", "allocationMode": "All"}});
    assert_eq!(
        ask(all),
        each(&[format!("4 {A100} | 2 {H100}")]),
        "the most of each that a node has"
    );
    let admin = json!({"name": "r", "exactly": {"deviceClassName": "gpu.nvidia.com", "adminAccess": true}});
    assert_eq!(ask(admin), Ok(Vec::new()));
}

#[test]
fn requests_leave_no_more_choices_than_can_be_kept() {
    let (mut devices, _) = world();
    devices.apply_class(class("any", "device.driver == 'gpu.nvidia.com'", None), 0);
    let mut ask = |requests: usize| {
        let form = |count: usize| json!({"name": format!("f{count}"), "deviceClassName": "any", "count": count});
        let request = |index: usize| json!({"name": format!("r{index}"), "firstAvailable": (1..=8).map(form).collect::<Vec<_>>()});
        let requests: Vec<_> = (0..requests).map(request).collect();
        asked(&mut devices, &json!(requests), &Value::Null)
    };
    // Three cards of each form.
    assert_eq!(ask(21).unwrap().len(), 21);
    let Err(Obstacle::Unclear(why)) = ask(22) else {
        panic!("528 choices are taken")
    };
    assert!(
        why.ends_with(
            "leave 528 choices of cards in all, and 512 are allowed: select fewer cards, or give fewer alternatives"
        ),
        "{why}"
    );
}

#[test]
fn alternatives_keep_their_order_and_their_numbers() {
    let (mut devices, _) = world();
    let form = |product: &str, count: i64| {
        let expression = format!("device.attributes['gpu.nvidia.com'].productName.contains('{product}')");
        json!({"name": product.to_lowercase(), "deviceClassName": "gpu.nvidia.com", "count": count,
            "selectors": [{"cel": {"expression": expression}}]})
    };
    let mut ask = |forms: Value| {
        asked(
            &mut devices,
            &json!([{"name": "r", "firstAvailable": forms}]),
            &Value::Null,
        )
    };
    let in_order = |text: &str| each(&[format!("{text}, in order")]);
    assert_eq!(
        ask(json!([form("H100", 2), form("A100", 4)])),
        in_order(&format!("2 {H100} | 4 {A100}"))
    );
    assert_eq!(
        ask(json!([form("NVIDIA", 2), form("A100", 1)])),
        in_order(&format!("2 {A100} | 2 {H100} | 1 {A100}"))
    );
    // An alternative that no node has is passed over; where no alternative exists at all, the claim has an obstacle.
    assert_eq!(
        ask(json!([form("B200", 2), form("A100", 1)])),
        in_order(&format!("1 {A100}"))
    );
    let Err(Obstacle::NoDevice(why)) = ask(json!([form("B200", 2), form("B300", 1)])) else {
        panic!("there is a device for one of them")
    };
    assert!(
        why.starts_with(
            "claim gpus, request r: there is a device for none of its alternatives; of the first, no device of"
        ),
        "{why}"
    );
    let fpga = json!({"name": "f", "deviceClassName": "fpga"});
    let Err(Obstacle::Unclear(why)) = ask(json!([form("A100", 2), fpga])) else {
        panic!("a card or none")
    };
    assert!(why.contains("is no card"), "{why}");
}

/// The scheduler gives the cards as soon as they come, in place of the other devices.
#[test]
fn an_alternative_without_devices_that_may_be_cards_is_not_passed_over_for_other_devices() {
    let (mut devices, _) = world();
    devices.apply_class(class("empty", "device.driver == 'new.example.com'", None), 0);
    let form = |class: &str, expression: &str| json!({"name": class.replace('.', "-"), "deviceClassName": class, "selectors": [{"cel": {"expression": expression}}]});
    let other = form("fpga", "true");
    let mut ask = |first: Value| {
        let requests = json!([{"name": "r", "firstAvailable": [first, other]}]);
        asked(&mut devices, &requests, &Value::Null)
    };
    let b300 = "device.attributes['gpu.nvidia.com'].productName.contains('B300')";
    for may_be_cards in [
        form("gpu.nvidia.com", b300),
        form("empty", "true"),
        form("missing", "true"),
    ] {
        let Err(Obstacle::NoDevice(why)) = ask(may_be_cards) else {
            panic!("cards that come later would be free")
        };
        let start =
            "claim gpus, request r: one of its alternatives may be cards, and the others are none; of this one, ";
        assert!(why.starts_with(start), "{why}");
    }
    // A class that has other devices has no cards.
    let faster = "device.attributes['fpga.example.com'].type == 'faster'";
    assert_eq!(ask(form("fpga", faster)), Ok(vec![]));
}

#[test]
fn several_requests_are_for_cards_of_their_own_unless_they_leave_the_same() {
    let (mut devices, _) = world();
    let of = |name: &str, class: &str, count: i64| json!({"name": name, "exactly": {"deviceClassName": class, "count": count}});
    let mut ask = |requests: Value| asked(&mut devices, &requests, &Value::Null);
    let gpus = json!([
        of("a", "gpu.nvidia.com", 1),
        of("b", "fpga", 7),
        of("c", "gpu.nvidia.com", 2)
    ]);
    assert_eq!(ask(gpus), cards(&[A100, H100], 3));
    assert_eq!(
        ask(json!([of("a", "gpu.nvidia.com", 1), of("b", "mig.nvidia.com", 1)])),
        each(&[
            format!("1 {A100} | 1 {H100}"),
            "1 NVIDIA-A100-SXM4-40GB/mig-1g.5gb-mixed".to_owned()
        ])
    );
}

#[test]
fn what_was_allocated_counts_in_place_of_what_was_asked_for() {
    let (mut devices, _) = world();
    let result = |device: &str, admin: bool| json!({"request": "r", "driver": "gpu.nvidia.com", "pool": "n2", "device": device, "adminAccess": admin});
    let status = json!({"allocation": {"devices": {"results": [result("gpu-0", false), result("gpu-1", true)]}}});
    let requests = json!([{"name": "r", "exactly": {"deviceClassName": "gpu.nvidia.com", "count": 1}}]);
    assert_eq!(asked(&mut devices, &requests, &status), cards(&[H100], 1));
}

#[test]
fn a_pool_that_is_not_complete_counts_nothing_and_older_generations_do_not_count() {
    let (mut devices, mut texts) = world();
    let count = |devices: &Devices| {
        devices
            .cards_of("n1")
            .into_values()
            .map(|count| count.total)
            .sum::<i64>()
    };
    assert_eq!(count(&devices), 4);
    let mut newer = slice("n1", "gpu.nvidia.com", &[nvidia("gpu-0", 0, "NVIDIA A100 80GB PCIe")]);
    newer.metadata.name = Some("n1-second".into());
    (newer.spec.pool.generation, newer.spec.pool.resource_slice_count) = (2, 2);
    let change = devices.apply_slice(&newer, 0, &mut texts);
    assert!(change.nodes.contains("n1") && change.models.is_empty(), "{change:?}");
    assert_eq!(count(&devices), 0, "one of two");
    let mut third = slice("n1", "gpu.nvidia.com", &[nvidia("gpu-1", 1, "NVIDIA A100 80GB PCIe")]);
    third.metadata.name = Some("n1-third".into());
    (third.spec.pool.generation, third.spec.pool.resource_slice_count) = (2, 2);
    devices.apply_slice(&third, 0, &mut texts);
    assert_eq!(count(&devices), 2);
    devices.remove_slice("n1-gpu.nvidia.com");
    assert_eq!(count(&devices), 2);
    let mut fourth = third.clone();
    fourth.metadata.name = Some("n1-fourth".into());
    devices.apply_slice(&fourth, 0, &mut texts);
    assert_eq!(count(&devices), 0, "three of two");
    devices.remove_slice("n1-fourth");
    let mut sick = third.clone();
    sick.spec.devices[0].taints = serde_json::from_value(json!([{"key": "sick", "effect": "NoSchedule"}])).unwrap();
    devices.apply_slice(&sick, 0, &mut texts);
    assert_eq!(count(&devices), 1);
    devices.remove_slice("n1-second");
    assert_eq!(count(&devices), 0);
}

#[test]
fn classes_provide_resources() {
    let (mut devices, _) = world();
    let provided = devices.provided();
    let names: Vec<_> = provided.iter().map(|(name, _)| &**name).collect();
    assert_eq!(
        names,
        [
            "deviceclass.resource.kubernetes.io/gpu.nvidia.com",
            "deviceclass.resource.kubernetes.io/mig.nvidia.com",
            "nvidia.com/gpu"
        ]
    );
}

fn selects(expression: &str, driver: &str, device: &Value) -> Result<bool, SelectorError> {
    let device = serde_json::from_value(device.clone()).unwrap();
    let (model, own) = Model::of(driver, &Drivers::default(), &device, &mut TextPool::default());
    let selector = Selector::read(expression)?;
    // A selector is not shown what it does not look at.
    let looks_at_own = own_names().any(|name| selector.may_name(name));
    let device = Described {
        model: &Arc::new(model),
        own: looks_at_own.then_some(&own),
    };
    Ok(selector.says(&device) == Says::Selected)
}

#[test]
fn devices_that_several_nodes_reach_are_said_to_be_none_that_is_counted() {
    let (mut devices, mut texts) = world();
    let switched = |name: &str, spec: Value| {
        let mut slice =
            json!({"driver": "gpu.nvidia.com", "pool": {"name": name, "generation": 1, "resourceSliceCount": 1}});
        slice.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        serde_json::from_value::<ResourceSlice>(json!({"metadata": {"name": name}, "spec": slice})).unwrap()
    };
    let far = json!([nvidia("gpu-0", 0, "Far")]);
    for spec in [
        json!({"allNodes": true, "devices": far}),
        json!({"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]}, "devices": far}),
        json!({"perDeviceNodeSelection": true, "devices": far}),
    ] {
        devices.apply_slice(&switched("far", spec), 0, &mut texts);
        let product = json!([{"cel": {"expression": "device.attributes['gpu.nvidia.com'].productName == 'Far'"}}]);
        let requests = json!([{"name": "r", "exactly": {"deviceClassName": "gpu.nvidia.com", "selectors": product}}]);
        let Err(Obstacle::Unclear(why)) = asked(&mut devices, &requests, &Value::Null) else {
            panic!("they are no node's")
        };
        assert!(why.contains("several nodes reach"), "{why}");
        let any = json!([{"name": "r", "exactly": {"deviceClassName": "gpu.nvidia.com"}}]);
        assert_eq!(
            asked(&mut devices, &any, &Value::Null),
            cards(&["Far", A100, H100], 1),
            "the scheduler may give them beside others"
        );
    }
    // A device that names its node itself belongs to that node.
    let mut near = nvidia("gpu-0", 0, "Near");
    near["nodeName"] = json!("n9");
    devices.apply_slice(
        &switched("far", json!({"perDeviceNodeSelection": true, "devices": [near]})),
        0,
        &mut texts,
    );
    assert_eq!(
        devices
            .cards_of("n9")
            .into_values()
            .map(|count| count.free)
            .sum::<i64>(),
        1
    );
}

#[test]
fn the_longest_that_is_evaluated_fits_on_a_stack() {
    let a100 = nvidia("gpu-0", 0, "NVIDIA A100 80GB PCIe");
    let deep = |open: &str, times: usize, middle: &str, close: &str| {
        format!("{}{middle}{}", open.repeat(times), close.repeat(times))
    };
    for expression in [
        deep("(", 47, "true", ")"),
        deep("!", 255, "true", ""),
        deep("1 + ", 250, "1 > 1", ""),
        deep("true && ", 125, "true", ""),
        deep("true ? ", 250, "true", " : true"),
        deep("[", 47, "", "]"),
        deep("-", 250, "1 < 1", ""),
        deep("", 1, "device", &".a".repeat(255)),
        format!("device{}.hasValue()", ".?a".repeat(126)),
    ] {
        // Half of the stack that threads have.
        let (expression, a100) = (expression.clone(), a100.clone());
        let evaluated = std::thread::Builder::new()
            .stack_size(1 << 20)
            .spawn(move || selects(&expression, "gpu.nvidia.com", &a100));
        assert!(evaluated.unwrap().join().is_ok());
    }
}

#[test]
fn what_takes_more_steps_than_there_are_is_gone_on_with_later() {
    let (mut devices, mut texts) = world();
    let request = |index: usize| {
        let expression = format!("device.attributes['gpu.nvidia.com'].uuid == 'none-{index}'");
        json!({"name": format!("r{index}"), "exactly": {"deviceClassName": "gpu.nvidia.com", "selectors": [{"cel": {"expression": expression}}]}})
    };
    let requests: Value = (0..8).map(request).collect();
    let claim: ResourceClaim = serde_json::from_value(json!({"spec": {"devices": {"requests": requests}}})).unwrap();
    let spec = claim.spec.clone();
    devices.apply_claim(&("team".into(), "c".into()), claim, 0);
    let named = [Named {
        name: "gpus".into(),
        claim: Some("c".into()),
        shared: false,
    }];
    let turns = (1..100).find(|_| {
        let steps = Steps::new(2_000);
        let asked = devices.asked_by("team", "u1", &named, None, &steps);
        let is_left = asked.obstacle == Some(Obstacle::Unevaluated);
        assert_eq!(steps.are_spent(), is_left);
        assert!(is_left || matches!(asked.obstacle, Some(Obstacle::NoDevice(_))));
        !is_left
    });
    assert!(turns.is_some_and(|turns| turns > 4), "{turns:?}");
    // A caller that can't go on later gets no answer.
    let mut catalogue = Catalogue::default();
    let device = serde_json::from_value(nvidia("gpu-0", 0, "NVIDIA A100 80GB PCIe")).unwrap();
    let (model, _) = Model::of("gpu.nvidia.com", &Drivers::default(), &device, &mut texts);
    catalogue.add(A100, &[catalogue::shown(&model)]);
    catalogue.add_class(class("gpu.nvidia.com", "device.driver == 'gpu.nvidia.com'", None));
    let steps = Steps::new(2_000);
    let said = catalogue.requests(&spec, &steps);
    assert_eq!((said.len(), steps.are_spent()), (8, true));
    assert!(said.iter().all(|(_, cards)| *cards == Err(Unknown::Devices)));
}
