//! Claims of devices beside the card that a pod names (docs/rules.md, **Cards by Dynamic Resource Allocation**).

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::common::{self, World, pod, pod_review, review};
use crds::card_type::CardDevice;
use crds::configuration::{Settings, UnnamedCards};
use serde_json::{Value, json};
use webhook::Options;
use webhook::door::Door;
use webhook::endpoint::Endpoint;
use webhook::knowledge::CardFacts;
use webhook::lookup::Lookups;
use webhook::view::Lookup;

const NVIDIA: &str = "gpu.nvidia.com";

/// What the operator shows of the devices that are a card.
fn device(product: &str, kind: &str) -> CardDevice {
    let text = |text: &str| json!({ "string": text });
    let mut attributes = json!({ "gpu.nvidia.com/productName": text(product), "gpu.nvidia.com/type": text(kind) });
    if kind == "mig" {
        attributes["gpu.nvidia.com/profile"] = text("1g.5gb");
    }
    let device = json!({ "driver": NVIDIA, "attributes": attributes, "capacity": { "gpu.nvidia.com/memory": "80Gi" } });
    serde_json::from_value(device).unwrap()
}

/// A cluster whose cards are devices, with the classes that NVIDIA's driver installs.
fn world() -> World {
    furnished(World::new())
}

fn furnished(world: World) -> World {
    for (card, resource, device) in [
        ("NVIDIA-A100", "nvidia.com/gpu", device("NVIDIA A100", "gpu")),
        ("NVIDIA-H100", "nvidia.com/gpu", device("NVIDIA H100", "gpu")),
        (
            "NVIDIA-A100/mig-1g.5gb-mixed",
            "nvidia.com/mig-1g.5gb",
            device("NVIDIA A100", "mig"),
        ),
    ] {
        let facts = CardFacts {
            devices: vec![device].into(),
            ..resource.into()
        };
        world.knowledge.card_types.set(card.into(), facts);
    }
    for (name, kind) in [(NVIDIA, "gpu"), ("mig.nvidia.com", "mig")] {
        let expression = format!("device.driver == '{NVIDIA}' && device.attributes['{NVIDIA}'].type == '{kind}'");
        let class =
            json!({ "metadata": { "name": name }, "spec": { "selectors": [{ "cel": { "expression": expression } }] } });
        let class = serde_json::from_str(&class.to_string()).unwrap();
        world
            .api
            .classes
            .lock()
            .unwrap()
            .insert(name.to_owned(), Arc::new(class));
    }
    let class = json!({ "metadata": { "name": "fpga" }, "spec": { "selectors": [{ "cel": { "expression": "device.driver == 'fpga.example.com'" } }] } });
    let class = serde_json::from_str(&class.to_string()).unwrap();
    world
        .api
        .classes
        .lock()
        .unwrap()
        .insert("fpga".to_owned(), Arc::new(class));
    world
}

/// A form of a request.
fn form(class: &str, selector: &str) -> Value {
    let selectors = if selector.is_empty() {
        json!([])
    } else {
        json!([{ "cel": { "expression": selector } }])
    };
    json!({ "deviceClassName": class, "selectors": selectors })
}

fn product(product: &str) -> String {
    format!("device.attributes['{NVIDIA}'].productName == '{product}'")
}

/// There is something that claims are made from, of one request.
fn claim(world: &World, name: &str, exactly: &Value) {
    let spec = json!({ "devices": { "requests": [{ "name": "gpu", "exactly": exactly }] } });
    let spec = serde_json::from_str(&spec.to_string()).unwrap();
    world.api.claims.lock().unwrap().insert(name.to_owned(), Arc::new(spec));
}

/// A pod that names a card and claims what these templates say.
fn claiming(card: &str, templates: &[&str]) -> Value {
    let mut pod = pod(
        &[
            ("volcano.sh/card.name", card),
            ("scheduling.volcano.sh/queue-name", "team-a"),
        ],
        &[],
    );
    let claims = templates
        .iter()
        .map(|name| json!({ "name": name, "resourceClaimTemplateName": name }));
    pod["spec"]["resourceClaims"] = claims.collect();
    pod
}

#[test]
fn a_pod_that_names_another_card_than_its_claims_select_is_refused() {
    let world = world();
    claim(&world, "a100", &form(NVIDIA, &product("NVIDIA A100")));
    let refused = world.create_pod(&claiming("NVIDIA-H100", &["a100"])).refused();
    assert_eq!(
        refused,
        "403 ClaimsOtherCards: annotation volcano.sh/card.name: \"NVIDIA-H100\" names none of the cards that the pod's claims ask \
         for (ResourceClaimTemplate \"a100\" in namespace \"research\": NVIDIA-A100): name one of these, select those that are \
         named, or remove the annotation, since the selectors of a claim say which card it is for"
    );
    for card in ["NVIDIA-A100", "NVIDIA-H100|NVIDIA-A100"] {
        assert_eq!(
            world.create_pod(&claiming(card, &["a100"])).allowed(),
            [""; 0],
            "{card}"
        );
    }
}

#[test]
fn the_class_alone_can_contradict_the_card() {
    let world = world();
    claim(&world, "mig", &form("mig.nvidia.com", ""));
    assert!(
        world
            .create_pod(&claiming("NVIDIA-A100", &["mig"]))
            .refused()
            .contains("mig-1g.5gb-mixed")
    );
    world
        .create_pod(&claiming("NVIDIA-A100/mig-1g.5gb-mixed", &["mig"]))
        .allowed();
}

#[test]
fn claims_that_are_there_by_name_are_judged_alike() {
    let world = world();
    claim(&world, "mine", &form(NVIDIA, &product("NVIDIA A100")));
    let mut pod = claiming("NVIDIA-H100", &[]);
    pod["spec"]["resourceClaims"] = json!([{ "name": "gpu", "resourceClaimName": "mine" }]);
    assert!(world.create_pod(&pod).refused().contains("ResourceClaim \"mine\""));
}

/// Only what is certain is refused.
#[test]
fn what_is_not_known_contradicts_nothing() {
    let world = world();
    claim(
        &world,
        "first",
        &form(NVIDIA, &format!("device.attributes['{NVIDIA}'].index == 0")),
    );
    claim(&world, "none", &form(NVIDIA, &product("NVIDIA B200")));
    claim(&world, "fpga", &form("fpga", ""));
    claim(&world, "a100", &form(NVIDIA, &product("NVIDIA A100")));
    let mut looks = form(NVIDIA, &product("NVIDIA A100"));
    looks["adminAccess"] = true.into();
    claim(&world, "looks", &looks);
    for templates in [
        // Which devices are the first of their nodes, no type of card says.
        &["first"][..],
        // Such a device may come, and be the card.
        &["none"],
        &["fpga"],
        &["looks"],
        // What is not there yet may be made, and be for the card.
        &["a100", "later"],
        &["../queues/x"],
    ] {
        let said = world.create_pod(&claiming("NVIDIA-H100", templates));
        assert!(said.allowed, "{templates:?}: {said:?}");
    }
    // A card that no node has may be what the claim selects when one comes.
    world.create_pod(&claiming("NVIDIA-B200", &["a100"])).allowed();
    // Not all kinds of devices of the card are shown.
    let many = CardFacts {
        devices: vec![device("NVIDIA H100", "gpu"); 8].into(),
        ..CardFacts::from("nvidia.com/gpu")
    };
    world.knowledge.card_types.set("NVIDIA-H100".into(), many);
    world.create_pod(&claiming("NVIDIA-H100", &["a100"])).allowed();
}

#[test]
fn nobody_is_refused_because_claims_cannot_be_read() {
    let world = world();
    let silent = common::FakeApi {
        silent: true,
        ..common::FakeApi::default()
    };
    let door = Door::new(
        Arc::clone(&world.knowledge),
        Arc::new(silent),
        Options::default(),
        Arc::new(()),
    );
    let review = pod_review(&claiming("NVIDIA-H100", &["a100"])).to_string();
    let verdict = futures::executor::block_on(door.verdict(Endpoint::Mutate, review.as_bytes())).unwrap();
    assert_eq!(verdict.denial, None);
}

/// "`DeviceClass` does not exist", of one that is there: the API server had no time.
#[test]
fn a_class_of_which_nobody_answers_is_not_said_to_be_missing() {
    let world = world();
    claim(&world, "a100", &form(NVIDIA, ""));
    let busy = common::FakeApi {
        silent_about_classes: true,
        claims: Mutex::new(world.api.claims.lock().unwrap().clone()),
        ..common::FakeApi::default()
    };
    let busy = Arc::new(busy);
    let door = Door::new(
        Arc::clone(&world.knowledge),
        Arc::clone(&busy) as Arc<dyn Lookups>,
        Options::default(),
        Arc::new(()),
    );
    let review = pod_review(&claiming("NVIDIA-H100", &["a100"])).to_string();
    let verdict = futures::executor::block_on(door.verdict(Endpoint::Mutate, review.as_bytes())).unwrap();
    assert!(busy.asked.lock().unwrap().contains(&Lookup::Class(NVIDIA.to_owned())));
    assert_eq!((verdict.denial, verdict.warnings), (None, vec![]));
}

/// The API server waits five seconds for the whole answer, and nobody may keep a door busy for longer.
#[test]
fn what_is_asked_about_one_pod_takes_no_longer_than_anybody_waits() {
    let world = world();
    let slow = common::FakeApi {
        silent: true,
        takes: Duration::from_millis(900),
        ..common::FakeApi::default()
    };
    let (slow, begin) = (Arc::new(slow), Instant::now());
    let knowledge = Arc::clone(&world.knowledge);
    let door = Door::new(knowledge, slow.clone(), Options::default(), Arc::new(()));
    let claims = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];
    let review = pod_review(&claiming("NVIDIA-H100", &claims)).to_string();
    let verdict = futures::executor::block_on(door.verdict(Endpoint::Mutate, review.as_bytes())).unwrap();
    assert_eq!(verdict.denial, None);
    // Who is not answered about one claim asks about no other.
    assert!(begin.elapsed() < Duration::from_secs(2), "{:?}", begin.elapsed());
    assert_eq!(slow.asked.lock().unwrap().len(), 1);
}

#[test]
fn what_can_not_be_charged_is_told_at_once() {
    let world = world();
    claim(
        &world,
        "odd",
        &form(
            NVIDIA,
            "device.attributes['gpu.nvidia.com'].productName.matches('N{2}')",
        ),
    );
    claim(&world, "classless", &form("nowhere", ""));
    let warnings = world.create_pod(&claiming("NVIDIA-H100", &["odd", "classless"]));
    let [odd, classless] = warnings.allowed() else {
        panic!("{warnings:?}")
    };
    assert!(
        odd.starts_with("ResourceClaimTemplate \"odd\"") && odd.contains("matches with a pattern"),
        "{odd}"
    );
    assert!(
        classless.contains("DeviceClass \"nowhere\" does not exist"),
        "{classless}"
    );
}

#[test]
fn a_selector_that_leaves_none_of_the_devices_that_there_are_is_told_at_once() {
    let world = world();
    claim(&world, "typo", &form(NVIDIA, &product("NVIDIA A1000")));
    claim(
        &world,
        "later",
        &form(NVIDIA, "device.attributes['gpu.nvidia.com'].index == 9"),
    );
    let pod = claiming("NVIDIA-H100", &["typo", "later"]);
    let verdict = world.create_pod(&pod);
    // Which devices have which index is not shown.
    let [typo] = verdict.allowed() else {
        panic!("{verdict:?}")
    };
    assert!(
        typo.starts_with("ResourceClaimTemplate \"typo\"")
            && typo.contains("no device of DeviceClass gpu.nvidia.com satisfies selector"),
        "{typo}"
    );
    // Not all kinds of devices of a card are shown: it may be one of those.
    let many = CardFacts {
        devices: vec![device("NVIDIA H100", "gpu"); 8].into(),
        ..CardFacts::from("nvidia.com/gpu")
    };
    world.knowledge.card_types.set("NVIDIA-H100".into(), many);
    assert_eq!(world.create_pod(&pod).allowed(), [""; 0]);
}

/// Each class costs a question to the API server, and a request may ask sixteen.
#[test]
fn of_claims_that_name_many_classes_nothing_is_said() {
    let world = world();
    let warned = |classes: usize| {
        let alternatives = (0..classes).map(|number| json!({ "deviceClassName": format!("class-{number}") }));
        let requests = [json!({ "name": "gpu", "firstAvailable": alternatives.collect::<Vec<_>>() })];
        let spec = json!({ "devices": { "requests": requests } });
        let spec = serde_json::from_str(&spec.to_string()).unwrap();
        world
            .api
            .claims
            .lock()
            .unwrap()
            .insert("many".to_owned(), Arc::new(spec));
        world.create_pod(&claiming("NVIDIA-A100", &["many"])).allowed().len()
    };
    assert_eq!(warned(9), 0);
    assert!(warned(8) > 0, "there is none of these classes");
}

/// Two cards of one pod, one by a claim and one by a device plugin: the annotation may name either.
#[test]
fn cards_of_a_device_plugin_beside_claimed_ones_may_be_named_or_not() {
    let world = |unnamed_cards| {
        let world = furnished(World::with_settings(Settings {
            unnamed_cards,
            ..Settings::default()
        }));
        world.knowledge.card_types.set("AMD-MI300".into(), "amd.com/gpu".into());
        claim(&world, "a100", &form(NVIDIA, &product("NVIDIA A100")));
        world
    };
    let requesting = |card: Option<&str>, resources: &[&str]| {
        let mut pod = claiming(card.unwrap_or_default(), &["a100"]);
        for resource in resources {
            pod["spec"]["containers"][0]["resources"]["limits"][*resource] = "1".into();
        }
        if card.is_none() {
            let annotations = pod["metadata"]["annotations"].as_object_mut().unwrap();
            annotations.remove("volcano.sh/card.name");
        }
        pod
    };
    let strict = world(UnnamedCards::Deny);
    let world = world(UnnamedCards::Charge);
    for card in [Some("NVIDIA-A100"), Some("AMD-MI300"), None] {
        let told = world.create_pod(&requesting(card, &["amd.com/gpu"]));
        assert_eq!(told.allowed(), [""; 0], "{card:?}");
    }
    // For this one there is neither claim nor request.
    let refused = world
        .create_pod(&requesting(Some("NVIDIA-H100"), &["amd.com/gpu"]))
        .refused();
    assert!(refused.contains("403 ClaimsOtherCards"), "{refused}");
    // Of two more nobody could say which is charged.
    for card in [Some("AMD-MI300"), None] {
        let refused = world
            .create_pod(&requesting(card, &["amd.com/gpu", "nvidia.com/gpu"]))
            .refused();
        assert!(refused.contains("403 SecondCardResource"), "{refused}");
    }
    let refused = strict
        .create_pod(&requesting(Some("NVIDIA-A100"), &["amd.com/gpu"]))
        .refused();
    assert!(refused.contains("403 SecondCardResource"), "{refused}");
    strict
        .create_pod(&requesting(Some("AMD-MI300"), &["amd.com/gpu"]))
        .allowed();
}

#[test]
fn the_templates_of_workloads_are_judged_as_their_pods_will_be() {
    let world = world();
    claim(&world, "a100", &form(NVIDIA, &product("NVIDIA A100")));
    let pod = claiming("NVIDIA-H100", &["a100"]);
    let template = json!({ "metadata": pod["metadata"], "spec": pod["spec"] });
    let workloads = [
        (("apps", "v1", "Deployment"), json!({ "template": template })),
        (("apps", "v1", "StatefulSet"), json!({ "template": template })),
        (("batch", "v1", "Job"), json!({ "template": template })),
        (
            ("batch", "v1", "CronJob"),
            json!({ "jobTemplate": { "spec": { "template": template } } }),
        ),
        (
            ("batch.volcano.sh", "v1alpha1", "Job"),
            json!({ "queue": "team-a", "tasks": [{ "name": "t", "template": template }] }),
        ),
    ];
    for (kind, spec) in workloads {
        let object = json!({ "metadata": { "name": "w" }, "spec": spec });
        let said = world.verdict(Endpoint::Advise, &review(kind, "CREATE", &object, &Value::Null));
        let warnings = said.allowed();
        assert!(
            warnings
                .iter()
                .any(|warning| warning.contains("names none of the cards that the pod's claims ask for")),
            "{kind:?}: {warnings:?}"
        );
    }
}
