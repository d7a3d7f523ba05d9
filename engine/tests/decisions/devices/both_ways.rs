//! A card that some nodes have by a device plugin and others as devices, where pods that request it may have either: what can be claimed
//! is left to those who claim it.

use super::*;

/// Two nodes with two `A` each as devices, and two with two each by a device plugin.
fn two_of_each() -> World {
    let mut world = World::with(configuration("", ""));
    for name in ["d1", "d2"] {
        world.node(&node(name));
        world.slice(name, NVIDIA, &gpus("A", 2));
    }
    for name in ["p1", "p2"] {
        world.node(&node(name).cards("A", 2));
    }
    let is_gpu = "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'gpu'";
    world.class(NVIDIA, is_gpu, Some(GPU));
    world.queue(&queue("team-a").quota(r#"{"A": 8}"#));
    world
}

fn node_of(world: &World, name: &str) -> String {
    let room = world.known(name).room.unwrap();
    world.cluster.node(room).name.to_string()
}

fn requesting(name: &str, count: i64) -> Object {
    pod(name).asks("A", count)
}

fn claims(world: &mut World, name: &str, count: i64) -> Object {
    world.claim(name, &exactly(count, Some("A")), &json!({}));
    claiming(pod(name), name)
}

#[test]
fn who_requests_a_card_leaves_devices_to_those_who_claim_them() {
    let mut world = two_of_each();
    for name in ["r1", "r2", "r3", "r4"] {
        world.pod(&requesting(name, 1));
    }
    assert_eq!(world.admissions().len(), 4);
    let nodes = ["r1", "r2", "r3", "r4"].map(|name| node_of(&world, name));
    assert!(nodes.iter().all(|node| node.starts_with('p')), "{nodes:?}");
    for name in ["c1", "c2"] {
        let pod = claims(&mut world, name, 2);
        world.pod(&pod);
    }
    assert_eq!(world.admissions().len(), 2);
    // And takes them where there is nothing else.
    world.remove_pod("c1");
    world.remove_claim("c1");
    world.pod(&requesting("r5", 1));
    let admissions = world.admissions();
    let [last] = admissions.as_slice() else {
        panic!("{admissions:?}")
    };
    assert_eq!(last.narrow, [(LABEL_OF_A.to_owned(), "true".to_owned())]);
    // Nor where it was looked for before, and two nodes have changed since.
    world.pod(&requesting("r6", 2));
    assert_eq!(world.refusal_of("r6"), "InsufficientScalarQuota");
    world.queue(&queue("team-a").quota(r#"{"A": 20}"#));
    assert_eq!(world.refusal_of("r6"), "NoNodeFits");
    for name in ["d3", "p3"] {
        world.node(&if name == "p3" {
            node(name).cards("A", 2)
        } else {
            node(name)
        });
        if name == "d3" {
            world.slice(name, NVIDIA, &gpus("A", 2));
        }
    }
    assert_eq!(world.admit_names(), ["r6"]);
    assert_eq!(node_of(&world, "r6"), "p3");
}

/// In whichever order its members come.
#[test]
fn a_gang_of_both_kinds_fills_both_kinds_of_nodes() {
    for claiming_first in [true, false] {
        let mut world = two_of_each();
        world.group(&group("g", 8));
        for index in 0..4 {
            let (c, r) = (format!("c{index}"), format!("r{index}"));
            let claiming = claims(&mut world, &c, 1)
                .of("g")
                .created(if claiming_first { 1 } else { 2 });
            let requesting = requesting(&r, 1).of("g").created(if claiming_first { 2 } else { 1 });
            world.pod(&claiming);
            world.pod(&requesting);
        }
        assert_eq!(world.admissions().len(), 8, "{claiming_first}");
        for index in 0..4 {
            assert!(node_of(&world, &format!("r{index}")).starts_with('p'));
            assert!(node_of(&world, &format!("c{index}")).starts_with('d'));
        }
    }
}

/// What a class provides is more, and less again: whoever requests it is looked at anew, beside claims too, and nobody else.
#[test]
fn who_requests_what_a_class_provides_hears_of_every_model() {
    for beside in [false, true] {
        let mut world = World::with(configuration("", "unnamedCards: charge"));
        world.node(&node("n1"));
        world.slice("n1", NVIDIA, &gpus("A", 2));
        world.class(NVIDIA, "device.driver == 'gpu.nvidia.com'", Some("example.com/gpu"));
        world.queue(&queue("team-a").quota(r#"{"A": 1, "B": 1}"#));
        world.claim("other", &exactly(1, Some("B")), &json!({}));
        let asks = pod("p")
            .requests("example.com/gpu", "1")
            .annotation("volcano.sh/card.name", "B");
        world.pod(&if beside { claiming(asks, "other") } else { asks });
        assert!(world.admissions().is_empty());
        world.node(&node("n2"));
        world.slice("n2", NVIDIA, &gpus("B", 2));
        if beside {
            assert_eq!(world.refusal_of("p"), "InsufficientScalarQuota");
            world.queue(&queue("team-a").quota(r#"{"A": 1, "B": 2}"#));
        }
        let expected = if beside { r#"{"B":2}"# } else { "B" };
        assert_eq!(world.admit(), [admitted("p", expected)]);
    }
}

/// Where the scheduler alone chooses the node, pod `r` requests a card by a resource that no class provides, of node `d1`, which has devices.
fn requested_where_only_devices_are() -> World {
    let mut world = World::with(configuration("", "admitOn: quota"));
    world.class(NVIDIA, "device.driver == 'gpu.nvidia.com'", None);
    world.node(&node("d1"));
    world.slice("d1", NVIDIA, &gpus("A", 2));
    world.queue(&queue("team-a").quota(r#"{"A": 8}"#));
    world.pod(&requesting("r", 1));
    assert_eq!(world.refusal_of("r"), "NodesExcluded");
    world
}

/// Where the scheduler alone chooses the node, too.
#[test]
fn nobody_is_narrowed_to_nodes_that_have_a_card_the_other_way() {
    let mut world = requested_where_only_devices_are();
    world.node(&node("p1").cards("A", 2));
    let pod = claims(&mut world, "c", 1);
    world.pod(&pod);
    let mut narrowed: Vec<_> = world
        .admissions()
        .into_iter()
        .map(|admission| (admission.pod.name.to_string(), admission.narrow[0].0.clone()))
        .collect();
    narrowed.sort();
    let expected = [("c", LABEL_OF_A), ("r", crate::world::PRODUCT)];
    assert_eq!(
        narrowed,
        expected.map(|(name, label)| (name.to_owned(), label.to_owned()))
    );
}

/// It waited until anything changed about any other node.
#[test]
fn who_is_kept_away_from_a_node_is_judged_anew_once_that_is_gone() {
    let mut world = requested_where_only_devices_are();
    world.remove_node("d1", world.now);
    assert_eq!(world.admit_names(), ["r"], "an autoscaler sees it");
}

/// Numbers that no cluster has, and as many requests as a claim may have.
#[test]
fn enormous_claims_wait_as_any_others() {
    for requests in [
        exactly(i64::MAX, Some("A")),
        (0..32)
            .map(|index| json!({"name": format!("r{index}"), "exactly": request(NVIDIA, i64::MAX, Some("A"))}))
            .collect(),
        json!([{"name": "r", "firstAvailable": [request(NVIDIA, i64::MAX, Some("A")), request(NVIDIA, i64::MAX - 1, None)]}]),
    ] {
        let mut world = two_of_each();
        world.claim("p", &requests, &json!({}));
        world.pod(&claiming(pod("p"), "p").requests(GPU, "9223372036854775807"));
        assert!(world.admissions().is_empty());
        assert_eq!(world.refusal_of("p"), "InsufficientScalarQuota");
        world.queue(&queue("team-a").quota(r#"{"A": 9223372036854775807}"#));
        assert!(world.admissions().is_empty());
        assert!(world.reason("p").is_some());
    }
}

/// Whoever lets unnamed cards be free lets pods in without looking; what their claims were given says which card it is.
#[test]
fn what_a_claim_with_a_choice_was_given_is_charged_where_unnamed_cards_are_free() {
    let any = json!([{"name": "r", "exactly": request(NVIDIA, 2, None)}]);
    let mut world = set("unnamedCards: free");
    world.claim("p1", &any, &json!({}));
    let gated = claiming(pod("p1"), "p1");
    world.pod(&gated);
    assert_eq!(world.admit(), [("p1".to_owned(), None)]);
    assert_eq!(world.allocated("team-a", "B"), 0);
    world.seen_admitted(&gated, "p1", None);
    world.claim("p1", &any, &allocated("n2", &["gpu-0", "gpu-1"]));
    world.pod(&gated.clone().ungated().on("n2"));
    // More than the quota: nobody is evicted for it, and nobody else is let in for that card.
    assert_eq!(world.allocated("team-a", "B"), 2);
    assert!(world.decide().is_empty());
    let pod = {
        world.claim("p2", &exactly(1, Some("B")), &json!({}));
        claiming(pod("p2"), "p2")
    };
    world.pod(&pod);
    assert_eq!(world.refusal_of("p2"), "InsufficientScalarQuota");
    // Whoever begins later counts the same.
    let mut later = set("unnamedCards: free");
    later.claim("p1", &any, &allocated("n2", &["gpu-0", "gpu-1"]));
    later.pod(&claiming(bare_pod("p1").queue("team-a"), "p1").on("n2"));
    assert_eq!(later.allocated("team-a", "B"), 2);
    // What is requested as a resource stays free, as from any device plugin.
    let mut resource = set("unnamedCards: free");
    resource.pod(&bare_pod("p1").queue("team-a").requests(GPU, "2").on("n2"));
    assert_eq!(resource.allocated("team-a", "B"), 0);
}

#[test]
fn who_asks_in_the_other_way_is_told_so_and_not_of_its_selectors() {
    let mut world = World::with(configuration("", ""));
    world.node(&node("d1"));
    world.slice("d1", NVIDIA, &gpus("A", 2));
    world.class(NVIDIA, "device.driver == 'gpu.nvidia.com'", None);
    world.queue(&queue("team-a").quota(r#"{"A": 8}"#));
    world.pod(&requesting("p", 1));
    insta::assert_snapshot!(world.refusal(), @"NodesExcluded: the pod excludes every node that has what it asks for: 1 node with A: 1 where a card is handed out in another way than the pod asks for it: as devices to be claimed, or by a device plugin; waiting can't help: create the pod anew with a node selector, affinity, tolerations and resource claims that leave it a node with the card, or have such a node added");
}

/// Nor is a gang, whose pods each would be refused for it.
#[test]
fn no_gang_is_let_in_on_its_quota_where_the_scheduler_could_give_its_pods_more() {
    let mut world = World::with(configuration("", "admitOn: quota"));
    world.class(NVIDIA, "device.driver == 'gpu.nvidia.com'", None);
    world.node(&node("d1"));
    world.slice("d1", NVIDIA, &gpus("A", 16));
    world.queue(&queue("team-a").quota(r#"{"A": 2}"#));
    let eight_or_one = first_of(&[(8, "A"), (1, "A")]);
    world.group(&group("g", 2));
    for name in ["p1", "p2"] {
        world.claim(name, &eight_or_one, &json!({}));
        world.pod(&claiming(pod(name).of("g"), name));
    }
    assert_eq!(world.admit_names(), [""; 0]);
    // What is in no form more than it may have is let in.
    for name in ["p1", "p2"] {
        world.claim(name, &exactly(1, Some("A")), &json!({}));
    }
    assert_eq!(world.admit_names().len(), 2);
}

/// What keeps it off nodes where it could be given more must not keep it off its own.
#[test]
fn nobody_is_kept_off_the_node_that_it_is_let_in_for() {
    let forms = first_of(&[(4, "B"), (1, "A")]);
    for admit_on in ["fit", "quota"] {
        let mut world = World::with(configuration("", &format!("admitOn: {admit_on}")));
        world.class(NVIDIA, "device.driver == 'gpu.nvidia.com'", None);
        world.node(&node("n"));
        let devices = [&gpus("A", 1)[0], &gpus("B", 3)[1], &gpus("B", 3)[2]];
        world.slice("n", NVIDIA, &json!(devices));
        world.queue(&queue("team-a").quota(r#"{"A": 1}"#));
        world.claim("c", &forms, &json!({}));
        world.pod(&claiming(pod("p"), "c"));
        let admitted = world.admissions();
        if admit_on == "quota" {
            assert_eq!(admitted, [], "no label leads there");
            assert_eq!(world.refusal_of("p"), "NodesExcluded");
            // One that does.
            world.node(&node("a"));
            world.slice("a", NVIDIA, &gpus("A", 1));
            assert_eq!(world.admissions().len(), 1);
            continue;
        }
        let pin = admitted[0].pin.as_ref().map(|pin| &*pin.node);
        assert_eq!((pin, &admitted[0].avoid), (Some("n"), &None));
    }
}

#[test]
fn a_claim_that_a_pod_names_twice_is_charged_once() {
    let mut world = World::with(configuration("", ""));
    world.class(NVIDIA, "device.driver == 'gpu.nvidia.com'", None);
    world.node(&node("d1"));
    world.slice("d1", NVIDIA, &gpus("A", 2));
    world.queue(&queue("team-a").quota(r#"{"A": 1}"#));
    world.claim("c", &exactly(1, Some("A")), &json!({}));
    let names = ["one", "another"].map(|name| json!({"name": name, "resourceClaimName": "c"}));
    world.pod(&pod("p").set(["spec", "resourceClaims"], json!(names)));
    assert_eq!(world.admit_names(), ["p"]);
}
