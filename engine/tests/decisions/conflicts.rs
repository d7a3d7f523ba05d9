//! One card name maps to one resource cluster-wide (docs/rules.md, **Card discovery**): who shows that nodes disagree.

use std::collections::BTreeMap;

use engine::overview::Shown;

use crate::world::{Object, World, node, pod, queue};

const NVIDIA: &str = "nvidia.com/gpu";
const OTHER: &str = "other.com/gpu";

/// A node with eight cards A, by this resource.
fn counting(name: &str, resource: &str) -> Object {
    labelled(name, resource).offers(resource, "8")
}

/// A node with the labels of eight cards A, which are counted by a resource called like them.
fn labelled(name: &str, stem: &str) -> Object {
    ["product=A", "count=8", "memory=81920"]
        .into_iter()
        .filter_map(|label| label.split_once('='))
        .fold(node(name), |node, (key, value)| {
            node.label(&format!("{stem}.{key}"), value)
        })
}

/// What is reported anew: inventories by node (cards, problems, and the message of each false condition), and the card type
/// (its resource, and the message where nodes disagree).
fn shown(world: &mut World) -> (BTreeMap<String, String>, Option<String>) {
    let (mut inventories, mut card_type) = (BTreeMap::new(), None);
    for report in world.shown() {
        let said = |conditions: &[k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition]| {
            let wrong = conditions.iter().filter(|one| one.status == "False");
            let texts = wrong.map(|one| format!(" {}: {}", one.type_, one.message));
            texts.collect::<String>()
        };
        match report {
            Shown::Inventory { node, status, .. } => {
                let status = status.map(|status| format!("{}{}", status.summary, said(&status.conditions)));
                inventories.insert(node.to_string(), status.unwrap_or_default());
            }
            Shown::CardType { content, .. } => {
                card_type = content.map(|(spec, status)| format!("{}{}", spec.resource, said(&status.conditions)));
            }
            _ => {}
        }
    }
    (inventories, card_type)
}

fn message(here: &str, there: &str, node: &str) -> String {
    format!(
        "A is counted by {here} here and by {there} on node {node}: one card name stands for one resource, and the first \
         node by name that is sure of it decides; give the two products different names"
    )
}

fn decides(there: &str, node: &str) -> String {
    format!("A x8 LabelsConsistent: {}", message(NVIDIA, there, node))
}

fn overruled(here: &str, node: &str) -> String {
    format!("<none> CardsPublished: {}", message(here, NVIDIA, node))
}

#[test]
fn card_discovery_both_inventories_and_the_card_type_show_a_conflict() {
    let mut world = World::new();
    world.node(&counting("n2", NVIDIA));
    world.node(&counting("n3", NVIDIA));
    shown(&mut world);
    world.node(&counting("n4", OTHER));
    let (inventories, card_type) = shown(&mut world);
    let expected = [("n2", decides(OTHER, "n4")), ("n4", overruled(OTHER, "n2"))];
    assert_eq!(inventories, expected.map(|(node, text)| (node.to_owned(), text)).into());
    assert_eq!(
        card_type.as_deref(),
        Some(
            "nvidia.com/gpu Consistent: the card is counted by nvidia.com/gpu, as on the first node by name that is sure of it; not \
             counted, since their labels give the same name to another resource: n4 (other.com/gpu). Give the products \
             different names"
        )
    );

    // Another resource is another conflict, and once it is mended nobody shows any.
    world.node(&counting("n4", "third.com/gpu"));
    let (inventories, _) = shown(&mut world);
    assert_eq!(inventories["n2"], decides("third.com/gpu", "n4"));
    world.node(&counting("n4", NVIDIA));
    let (inventories, card_type) = shown(&mut world);
    let expected = [("n2", "A x8"), ("n4", "A x8")];
    assert_eq!(
        inventories,
        expected.map(|(node, text)| (node.to_owned(), text.to_owned())).into()
    );
    assert_eq!(card_type.as_deref(), Some(NVIDIA));
}

#[test]
fn card_discovery_the_first_node_by_name_wins_whenever_it_comes_and_goes() {
    let mut world = World::new();
    world.node(&counting("n2", OTHER));
    world.node(&counting("n3", OTHER));
    shown(&mut world);
    world.node(&counting("n1", NVIDIA));
    let (inventories, card_type) = shown(&mut world);
    let expected = [
        ("n1", decides(OTHER, "n2")),
        ("n2", overruled(OTHER, "n1")),
        ("n3", overruled(OTHER, "n1")),
    ];
    assert_eq!(inventories, expected.map(|(node, text)| (node.to_owned(), text)).into());
    assert!(card_type.is_some_and(|text| text.contains("n2 (other.com/gpu), n3 (other.com/gpu)")));

    // When it goes, the others count again.
    let now = world.now;
    world.remove_node("n1", now);
    let (inventories, card_type) = shown(&mut world);
    let expected = [("n1", ""), ("n2", "A x8"), ("n3", "A x8")];
    assert_eq!(
        inventories,
        expected.map(|(node, text)| (node.to_owned(), text.to_owned())).into()
    );
    assert_eq!(card_type.as_deref(), Some(OTHER));
}

/// They were charged for nothing, and their queue let others in beside them.
#[test]
fn card_discovery_who_has_a_card_is_charged_for_it_whatever_it_comes_to_stand_for() {
    let asking = |name: &str, resource: &str| {
        let asks = pod(name).annotation("volcano.sh/card.name", "A");
        asks.requests(resource, "2").requests("example.com/rdma", "9")
    };
    let mut world = World::new();
    world.queue(&queue("team-a").quota(r#"{"A": 4}"#));
    world.node(&counting("n2", OTHER).offers("example.com/rdma", "100"));
    let (runs, expected) = (asking("runs", OTHER), asking("expected", OTHER));
    world.pods([runs.clone(), expected.clone()]);
    assert_eq!(world.admit_names(), ["runs", "expected"]);
    world.seen_admitted(&expected, "expected", Some("A"));
    world.pod(&runs.assigned("A").on("n2").ungated());
    assert_eq!(world.allocated("team-a", "A"), 4);
    // It decides from now on, and who waits has to ask by its resource.
    world.node(&counting("n1", NVIDIA));
    assert_eq!(world.allocated("team-a", "A"), 4);
    world.pod(&asking("late", OTHER));
    assert_eq!(world.refusal_of("late"), "GetTaskRequestResourceFailed");
    world.pod(&asking("new", NVIDIA));
    assert_eq!(world.refusal_of("new"), "InsufficientScalarQuota");
    // Where no node says any more what it counts by, what was let in stays so.
    let now = world.now;
    world.remove_node("n2", now);
    assert_eq!(world.allocated("team-a", "A"), 4);
    world.remove_pod("runs");
    assert_eq!(world.allocated("team-a", "A"), 2);
}

/// Nobody has let it in, so that its node alone says what it has.
#[test]
fn card_discovery_who_was_let_in_by_nobody_is_charged_as_its_node_counts() {
    let mut world = World::new();
    world.queue(&queue("team-a").quota(r#"{"A": 4}"#));
    world.node(&counting("n1", NVIDIA));
    world.node(&counting("n2", OTHER));
    let runs = pod("runs").annotation("volcano.sh/card.name", "A").requests(OTHER, "2");
    world.pod(&runs.clone().on("n2").ungated());
    assert_eq!(world.allocated("team-a", "A"), 2);
    world.pod(&runs.uid("elsewhere").on("n1").ungated());
    assert_eq!(world.allocated("team-a", "A"), 2, "its node counts them otherwise");
}

/// On a node that joins, another plugin of the vendor may have registered before that of the cards has.
#[test]
fn who_guesses_the_resource_by_its_prefix_overrules_nobody() {
    const INTERFACES: &str = "nvidia.com/sriov_rdma";
    const CARDS: &str = "nvidia.com/a";
    let joining = || labelled("n1", NVIDIA).offers(INTERFACES, "8");
    for joins_first in [false, true] {
        let mut world = World::new();
        let mut nodes = [counting("n2", NVIDIA), joining()];
        if joins_first {
            nodes.reverse();
        }
        for node in &nodes {
            world.node(node);
        }
        world.queue(&queue("team-a").quota(r#"{"A": 8}"#));
        let (inventories, card_type) = shown(&mut world);
        let expected = format!(
            "{NVIDIA} Consistent: the card is counted by {NVIDIA}, as on the first node by name that is sure of it; not counted, \
             since their labels give the same name to another resource: n1 ({INTERFACES}). Give the products different names"
        );
        assert_eq!(card_type, Some(expected), "{joins_first}");
        assert_eq!(inventories["n1"], overruled(INTERFACES, "n2"));
        world.pod(&pod("p1").asks("A", 1));
        assert_eq!(world.admit_names(), ["p1"]);
        assert!(
            !world.cluster.resources_of_cards().contains(INTERFACES),
            "nobody waits for quota of these"
        );
        // When its plugin has registered, they agree.
        world.node(&counting("n1", NVIDIA).offers(INTERFACES, "8"));
        let (inventories, card_type) = shown(&mut world);
        assert_eq!((&*inventories["n1"], card_type.as_deref()), ("A x8", Some(NVIDIA)));
    }
    // Of two guesses, the first by name decides, and the other may be the cards' all the same.
    let mut world = World::new();
    world.node(&labelled("n2", NVIDIA).offers(CARDS, "8"));
    world.node(&joining());
    assert!(shown(&mut world).1.unwrap().starts_with(INTERFACES));
    assert!(world.cluster.resources_of_cards().contains(CARDS));
    // Where nobody knows better, the guess counts.
    let mut world = World::new();
    world.node(&joining());
    assert_eq!(shown(&mut world).1.as_deref(), Some(INTERFACES));
}
