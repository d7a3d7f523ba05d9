//! What it may cost to ask which cards the scheduler could give: each node that has the cards is compared with the claims.

use super::*;

const NODES: usize = 650;
/// What one question about a pod may cost, and what it costs to compare one of its alternatives with all nodes.
const ONE_QUESTION: std::ops::Range<u64> = 3_000_000..3_700_000;

/// Many nodes with eight `A` each, and pods that are let in on their quota.
fn many_nodes(quota: i64) -> World {
    let mut world = World::with(configuration("", "admitOn: quota"));
    world.class(NVIDIA, "device.driver == 'gpu.nvidia.com'", None);
    for index in 0..NODES {
        let name = format!("n-{index}");
        world.node(&node(&name));
        world.slice(&name, NVIDIA, &gpus("A", 8));
    }
    world.queue(&queue("team-a").quota(&json!({"A": quota, "B": quota}).to_string()));
    world
}

/// It says much about nodes, with which each of them is compared.
fn lengthy(world: &mut World, name: &str, requests: &Value) -> Object {
    world.claim(name, requests, &json!({}));
    let values: Vec<_> = (0..1000).map(|index| format!("value-{index}")).collect();
    let terms = json!([{"matchExpressions": [{"key": "k", "operator": "NotIn", "values": values}]}]);
    let affinity = json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}});
    claiming(pod(name), name).set(["spec", "affinity", "nodeAffinity"], affinity)
}

fn either(name: &str, forms: [(i64, &str); 2]) -> Value {
    let forms = forms.map(|(count, card)| {
        let mut form = request(NVIDIA, count, Some(card));
        form["name"] = format!("{count}-{}", card.to_lowercase()).into();
        form
    });
    json!({"name": name, "firstAvailable": forms})
}

#[test]
fn a_claim_of_many_ways_costs_no_more_than_one_question() {
    // There is no quota for the largest of its ways, and for all the others it excludes every node at length.
    let mut world = many_nodes(9);
    let requests: Value = [2, 3, 5]
        .into_iter()
        .map(|count| either(&format!("r{count}"), [(count, "A"), (1, "A")]))
        .collect();
    world.claim("p", &requests, &json!({}));
    let says = (0..900).map(|number| json!({"key": format!("none-{number}"), "operator": "DoesNotExist"}));
    let nowhere = json!({"key": LABEL_OF_A, "operator": "DoesNotExist"});
    let terms = json!([{"matchExpressions": says.chain([nowhere]).collect::<Value>()}]);
    let affinity = json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}});
    world.pod(&claiming(pod("p"), "p").set(["spec", "affinity", "nodeAffinity"], affinity));
    let round = world.round();
    assert_eq!(round.actions, []);
    assert!(ONE_QUESTION.contains(&round.steps), "{} steps", round.steps);
    insta::assert_snapshot!(world.refusal(), @"TooComplex: too complex: the cards that the pod names, or that its resource claims leave, would have to be compared with more nodes than are looked at in one question: leave fewer of them to choose from, and say less about nodes");
    // Nor is it refused for good.
    assert_eq!(world.round().actions, []);
    world.claim("p", &exactly(1, Some("A")), &json!({}));
    world.pod(&claiming(pod("p"), "p"));
    assert_eq!(world.admit_names(), ["p"]);
}

#[test]
fn pods_that_ask_for_the_same_are_compared_with_the_nodes_once() {
    let mut world = many_nodes(1_000);
    world.group(&group("g", 200));
    for index in 0..200 {
        let pod = lengthy(
            &mut world,
            &format!("p{index}"),
            &json!([either("r", [(1, "B"), (1, "A")])]),
        );
        world.pod(&pod.of("g"));
    }
    let round = world.round();
    assert_eq!(round.actions.len(), 200);
    assert!(round.steps < ONE_QUESTION.start, "{} steps", round.steps);
}

/// Who names cards is compared with nodes until one is found that it may select.
#[test]
fn what_a_pod_says_about_nodes_costs_as_much_for_each_card_that_it_names() {
    let mut world = World::with(configuration("", "admitOn: quota"));
    for index in 0..NODES {
        world.node(&node(&format!("n-{index}")).cards("A", 8));
    }
    world.queue(&queue("team-a").quota(r#"{"A": 8, "B": 8}"#));
    let says = (0..900).map(|number| json!({"key": format!("none-{number}"), "operator": "DoesNotExist"}));
    let nowhere = json!({"key": crate::world::PRODUCT, "operator": "In", "values": ["nowhere"]});
    let terms = json!([{"matchExpressions": says.chain([nowhere]).collect::<Value>()}]);
    let affinity = json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}});
    world.pod(
        &pod("p")
            .asks("A", 1)
            .set(["spec", "affinity", "nodeAffinity"], affinity),
    );
    let round = world.round();
    assert_eq!(round.actions, []);
    assert!(
        (500_000..ONE_QUESTION.start).contains(&round.steps),
        "{} steps",
        round.steps
    );
}
