//! Devices that several nodes reach: in no number, said so, and nobody's way around a quota.

use crds::card_type::{CardTypeSpec, CardTypeStatus};
use engine::overview::Shown;
use serde_json::{Value, json};

use super::*;

/// Publishes devices of a product for several nodes, said in one of the ways there are.
fn publish(world: &mut World, product: &str, count: usize, reach: &Value) {
    let mut spec = json!({"driver": NVIDIA, "pool": {"name": product, "generation": 1, "resourceSliceCount": 1}, "devices": gpus(product, count)});
    for (key, value) in reach.as_object().unwrap() {
        spec[key] = value.clone();
    }
    world.slice_of(&format!("fabric-{product}"), &spec);
}

fn unpublish(world: &mut World, product: &str) {
    world.remove_slice("fabric", product);
}

/// Node `n1` has four `A`, `n2` two `B`; two `F` are for all nodes. Quota for all of it but `F`.
fn fabric() -> World {
    let mut world = world();
    world.queue(&queue("team-a").quota(r#"{"A": 100, "B": 100}"#));
    publish(&mut world, "F", 2, &json!({"allNodes": true}));
    world
}

fn ask(world: &mut World, name: &str, requests: &Value) {
    let claim = format!("{name}-gpu");
    world.claim(&claim, requests, &json!({}));
    world.pod(&claiming(pod(name), &claim));
}

/// What is shown of a card since this was asked last, where anything is.
#[expect(
    clippy::option_option,
    reason = "whether anything is told, and whether that is that there is none"
)]
fn shown(world: &mut World, card: &str) -> Option<Option<(CardTypeSpec, CardTypeStatus)>> {
    let mut shown = world.shown().into_iter();
    shown.find_map(|shown| match shown {
        Shown::CardType { card: of, content, .. } if *of == *card => Some(content),
        _ => None,
    })
}

#[test]
fn however_a_slice_says_that_several_nodes_reach_its_devices_they_are_in_no_number_and_that_is_shown() {
    let selector = json!({"nodeSelectorTerms": [{"matchExpressions": [{"key": "rack", "operator": "Exists"}]}]});
    let mut each = gpus("F", 3);
    each[0]["allNodes"] = json!(true);
    each[1]["nodeSelector"] = selector.clone();
    each[2]["nodeName"] = json!("n1");
    for (reach, counted) in [
        (json!({"allNodes": true}), 0),
        (json!({"nodeSelector": selector}), 0),
        (json!({"perDeviceNodeSelection": true, "devices": each}), 1),
    ] {
        let mut world = world();
        shown(&mut world, "F");
        publish(&mut world, "F", 2, &reach);
        let (spec, status) = shown(&mut world, "F").flatten().expect("a card type");
        assert_eq!((&*spec.card_name, &*spec.resource), ("F", GPU));
        let numbers = (status.total, status.free, status.nodes, status.not_counted);
        assert_eq!(numbers, (counted, counted, counted, 2), "{reach}");
        assert_eq!(status.problems, "SeveralNodesReach");
        let said = status
            .conditions
            .iter()
            .find(|condition| condition.type_ == "Counted")
            .unwrap();
        assert!(
            said.status == "False" && said.message.starts_with("2 devices that are this card"),
            "{said:?}"
        );
        // Other numbers of them are told, and that there are none any more.
        publish(&mut world, "F", 1, &json!({"allNodes": true}));
        let (_, status) = shown(&mut world, "F").flatten().expect("a card type");
        assert_eq!((status.total, status.not_counted), (0, 1));
        unpublish(&mut world, "F");
        assert_eq!(shown(&mut world, "F"), Some(None));
    }
}

#[test]
fn a_card_that_nodes_have_too_is_counted_without_them() {
    let mut world = world();
    publish(&mut world, "A", 3, &json!({"allNodes": true}));
    let (_, status) = shown(&mut world, "A").flatten().expect("a card type");
    assert_eq!((status.total, status.free, status.not_counted), (4, 4, 3));
    // One that the scheduler may give from either is charged the same: to whom it was given.
    world.claim("p1-gpu", &exactly(2, Some("A")), &json!({}));
    world.pod(&claiming(pod("p1"), "p1-gpu"));
    assert_eq!(world.admit(), [admitted("p1", r#"{"A":2}"#)]);
    unpublish(&mut world, "A");
    let (_, status) = shown(&mut world, "A").flatten().expect("a card type");
    assert_eq!((&*status.problems, status.not_counted), ("", 0));
}

#[test]
fn who_could_get_such_alone_or_all_of_them_waits_and_is_told_why() {
    let mut world = fabric();
    publish(&mut world, "A", 3, &json!({"allNodes": true}));
    let all = json!([{"name": "r", "exactly": {"deviceClassName": NVIDIA, "allocationMode": "All",
        "selectors": request(NVIDIA, 1, Some("A"))["selectors"]}}]);
    let forms = ["F", "A"].map(|card| request(NVIDIA, 1, Some(card)));
    let either = json!([{"name": "r", "firstAvailable": forms}]);
    for (name, requests) in [("one", exactly(1, Some("F"))), ("all", all), ("either", either)] {
        ask(&mut world, name, &requests);
        assert_eq!(world.admit_names(), [""; 0], "{name}");
        let told = world.notices();
        let told = told
            .iter()
            .find(|notice| notice.message.contains("that several nodes reach"));
        let told = told.unwrap_or_else(|| panic!("{name}: {:?}", world.refusal_of(name)));
        assert!(
            told.message.contains("have the driver publish them node by node"),
            "{told:?}"
        );
    }
    // Once nodes have them for themselves, they are cards as any others.
    for product in ["F", "A"] {
        unpublish(&mut world, product);
    }
    world.node(&node("n3"));
    world.slice("n3", NVIDIA, &gpus("F", 1));
    world.queue(&queue("team-a").quota(r#"{"A": 100, "B": 100, "F": 1}"#));
    let mut names = world.admit_names();
    names.sort_unstable();
    assert_eq!(names, ["all", "one"], "one F, four A");
}

#[test]
fn nobody_gets_such_on_the_quota_of_another_card() {
    let mut world = fabric();
    // By class alone the scheduler may give an F on any node.
    ask(&mut world, "any", &exactly(1, None));
    assert_eq!(world.refusal_of("any"), "NodesExcluded");
    world.pod(
        &pod("resource")
            .annotation("volcano.sh/card.name", "A")
            .requests(GPU, "1"),
    );
    assert_eq!(world.refusal_of("resource"), "NodesExcluded");
    ask(&mut world, "of-a", &exactly(1, Some("A")));
    assert_eq!(world.admit(), [admitted("of-a", "A")]);
    // A device plugin gives what it has, whatever else there is.
    world.node(&node("n3").cards("A", 4));
    let admissions = world.admissions();
    let [admission] = admissions.as_slice() else {
        panic!("{admissions:?}")
    };
    assert_eq!(
        (&*admission.pod.name, admission.card.as_deref()),
        ("resource", Some("A"))
    );
    unpublish(&mut world, "F");
    assert_eq!(
        world.admit(),
        [admitted("any", "B")],
        "of which there is most quota left"
    );
}

#[test]
fn who_could_be_given_such_is_judged_anew_once_there_are_none() {
    let mut world = set("unnamedCards: charge\nadmitOn: quota");
    world.queue(&queue("team-a").quota(r#"{"A": 100, "B": 100}"#));
    publish(&mut world, "F", 2, &json!({"allNodes": true}));
    let by_resource = pod("resource").annotation("volcano.sh/card.name", "A");
    world.pod(&by_resource.requests(GPU, "1"));
    ask(&mut world, "any", &exactly(1, None));
    assert_eq!(world.refusal_of("any"), "NodesExcluded");
    unpublish(&mut world, "F");
    let mut names = world.admit_names();
    names.sort_unstable();
    assert_eq!(names, ["any", "resource"]);
}

/// The node that it goes to then is as it was, and so is what it asks for: nodes have such cards of their own too.
#[test]
fn who_was_kept_off_nodes_because_of_such_is_judged_anew_once_there_are_none() {
    let mut world = world();
    world.queue(&queue("team-a").quota(r#"{"A": 100, "B": 100}"#));
    publish(&mut world, "B", 2, &json!({"allNodes": true}));
    world.claim("p-gpu", &exactly(1, None), &json!({}));
    let pod = pod("p").annotation("volcano.sh/card.name", "A");
    world.pod(&claiming(pod, "p-gpu"));
    assert_eq!(world.refusal_of("p"), "NodesExcluded");
    unpublish(&mut world, "B");
    assert_eq!(world.admit(), [admitted("p", "A")]);
}

#[test]
fn what_was_given_of_them_is_charged() {
    let mut world = fabric();
    let status = json!({"allocation": {"devices": {"results": [{"request": "r", "driver": NVIDIA, "pool": "F", "device": "gpu-1"}]}}});
    world.claim("p1-gpu", &exactly(1, Some("F")), &status);
    let runs = bare_pod("p1")
        .queue("team-a")
        .annotation("volcano.sh/card.assigned", "A");
    world.pod(&claiming(runs, "p1-gpu").on("n1"));
    assert_eq!((world.allocated("team-a", "F"), world.allocated("team-a", "A")), (1, 0));
}
