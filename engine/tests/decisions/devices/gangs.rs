//! Gangs whose pods each would get the devices that they claim, though no number of the node says so: what one pod may have, a gang
//! that has to be searched for may have too.

use super::*;

/// A world with `A` on node `n1` and `B` on node `n2`, as these devices.
fn of_two_cards(devices: impl Fn(&str) -> Value) -> World {
    let mut world = World::with(configuration("", ""));
    for (name, card) in [("n1", "A"), ("n2", "B")] {
        world.node(&node(name));
        world.slice(name, NVIDIA, &devices(card));
    }
    world.class(NVIDIA, "device.driver == 'gpu.nvidia.com'", None);
    world.queue(&queue("team-a").quota(r#"{"A": 8, "B": 8}"#));
    world
}

/// A request for the first of these cards that there is, whatever taints it has.
fn one_of(cards: &[&str]) -> Value {
    let forms = cards.iter().map(|card| {
        let mut form = request(NVIDIA, 1, Some(card));
        form["name"] = card.to_lowercase().into();
        form["tolerations"] = json!([{"operator": "Exists"}]);
        form
    });
    json!([{"name": "r", "firstAvailable": forms.collect::<Value>()}])
}

/// A gang whose first pod would take the only `A`, which its other pod needs.
fn enter(world: &mut World) {
    world.group(&group("g", 2));
    for (name, cards) in [("p1", &["A", "B"][..]), ("p2", &["A"])] {
        world.claim(name, &one_of(cards), &json!({}));
        world.pod(&claiming(pod(name).of("g"), name));
    }
}

fn tainted(mut devices: Value, count: usize) -> Value {
    for device in devices.as_array_mut().unwrap().iter_mut().take(count) {
        device["taints"] = json!([{"key": "mine", "effect": "NoSchedule"}]);
    }
    devices
}

#[test]
fn devices_whose_taint_it_tolerates_are_for_a_gang() {
    let mut world = of_two_cards(|card| tainted(gpus(card, 1), 1));
    enter(&mut world);
    assert_eq!(world.admit(), [admitted("p1", "B"), admitted("p2", "A")]);
}

/// They are in no number of what there is, while who holds them is in the number of what is in use.
#[test]
fn devices_that_are_tainted_and_held_leave_the_others_to_a_gang() {
    let mut world = of_two_cards(|card| tainted(gpus(card, 2), 1));
    for (name, card, at) in [("h1", "A", "n1"), ("h2", "B", "n2")] {
        world.claim(name, &exactly(1, Some(card)), &allocated(at, &["gpu-0"]));
        let holder = bare_pod(name).queue("team-a").assigned(card);
        world.pod(&claiming(holder, name).on(at));
    }
    enter(&mut world);
    assert_eq!(world.admit(), [admitted("p1", "B"), admitted("p2", "A")]);
}

/// The scheduler judges what is left of such a device.
#[test]
fn a_device_that_is_shared_is_for_all_pods_of_a_gang() {
    let shared = |card: &str| {
        let mut devices = gpus(card, 1);
        if card == "A" {
            devices[0]["allowMultipleAllocations"] = json!(true);
        }
        devices
    };
    let mut world = of_two_cards(shared);
    world.queue(&queue("team-a").quota(r#"{"A": 2, "B": 8}"#));
    world.group(&group("g", 3));
    for (name, cards) in [("p1", &["A", "B"][..]), ("p2", &["A"]), ("p3", &["A"])] {
        world.claim(name, &one_of(cards), &json!({}));
        world.pod(&claiming(pod(name).of("g"), name));
    }
    let expected = [admitted("p1", "B"), admitted("p2", "A"), admitted("p3", "A")];
    assert_eq!(world.admit(), expected);
}

/// Nor is any device given twice, or any core.
#[test]
fn a_gang_gets_no_more_than_each_of_its_pods_would() {
    for (cores, most) in [("64", "1"), ("1", "64")] {
        let mut world = of_two_cards(|card| tainted(gpus(card, 1), 1));
        world.node(&node("n2").offers("cpu", cores).offers("pods", most));
        world.group(&group("g", 3));
        for (name, cards) in [("p1", &["A", "B"][..]), ("p2", &["A"]), ("p3", &["B"])] {
            world.claim(name, &one_of(cards), &json!({}));
            world.pod(&claiming(pod(name).of("g"), name));
        }
        assert_eq!(world.refusal_of("p1"), "NoNodeFits");
        world.slice("n2", NVIDIA, &tainted(gpus("B", 2), 2));
        assert_eq!(
            world.refusal_of("p1"),
            "NoNodeFits",
            "two of them, and room for one pod"
        );
        world.node(&node("n2"));
        assert_eq!(world.admit_names(), ["p1", "p2", "p3"]);
    }
}
