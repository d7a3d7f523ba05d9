//! Answers to who waits in vain: the same as the pod is told, whatever is asked about.

use crds::card_review::{Outlook, Reviewed};
use engine::explain::{Asked, Subject, explain, explain_in_brief};

use super::{about, ask, imagined, reasons, world};
use crate::world::{World, assert_says_never, capacity, node, pod, queue};

/// The answer about a queue: its reason and its sentence; none where it takes pods.
fn of_queue(world: &mut World, name: &str) -> Option<(String, String)> {
    let status = ask(world, "team", Asked::Existing(Reviewed::Queue(name.to_owned()))).unwrap();
    assert_eq!(status.admitted, status.blocks.is_empty(), "{status:?}");
    let block = status.blocks.first()?;
    assert_eq!(block.outlook, Outlook::Never, "{status:?}");
    Some((block.reason.clone(), status.message))
}

#[test]
fn a_queue_that_takes_no_pods_is_answered_with_what_its_pods_are_told() {
    let mut world = World::with(capacity("enqueue, allocate", "enableHierarchy: true"));
    world.node(&node("n1").cards("A100", 4));
    world.queue(&queue("open").quota(r#"{"A100": 5}"#));
    world.queue(&queue("closed").set(["status", "state"], "Closed"));
    world.queue(&queue("inner"));
    world.queue(&queue("below").parent("inner"));
    world.queue(&queue("unread").annotation("volcano.sh/card.quota", "{"));
    world.queue(&queue("others").annotation("card.volcano.sh/namespaces", "team=b"));
    assert_eq!(of_queue(&mut world, "open"), None);
    for (name, reason) in [
        ("closed", "QueueNotOpen"),
        ("inner", "InnerQueue"),
        ("unread", "QueueInvalid"),
        ("others", "NamespaceNotAllowed"),
    ] {
        let waiting = pod(&format!("in-{name}")).queue(name).asks("A100", 1);
        world.pod(&waiting);
        let told = world.refusal();
        let (said, message) = of_queue(&mut world, name).unwrap();
        assert_eq!(said, reason);
        let message = message.strip_prefix(&format!("what asks for queue {name} can't be let in as things are: "));
        assert_eq!(told, format!("{reason}: {}", message.unwrap()));
    }
}

#[test]
fn who_never_has_quota_and_a_node_for_one_card_is_told_so_though_each_may_come() {
    let mut world = World::new();
    world.node(&node("n1").cards("A", 4));
    world.node(&node("n2").cards("B", 1));
    world.queue(&queue("team-a").quota(r#"{"A": 1, "B": 4}"#));
    world.pod(&pod("holder").asks("B", 1));
    assert_eq!(world.admit_names(), ["holder"]);
    let both = pod("p").asks("A|B", 4);
    let idea = imagined(&mut world, &both);
    world.pod(&both);
    let told = world.refusal();
    let really = about(&mut world, "p");
    assert!(
        told.contains("those with enough quota have no node that could take it"),
        "{told}"
    );
    for status in [idea, really] {
        assert_eq!(status.blocks[0].outlook, Outlook::Never, "{status:?}");
        let said = format!("{}: {}", status.blocks[0].reason, status.blocks[0].message);
        assert_eq!(said, told);
        assert_eq!(status.estimate, None);
    }
}

#[test]
fn a_manifest_whose_group_is_not_there_waits_in_vain_until_it_is() {
    let status = imagined(&mut world(), &pod("p").asks("A100", 1).of("gang"));
    assert_eq!(reasons(&status), [("PodGroupNotFound", Outlook::Never)]);
    // Nor does another pod that names it put it there.
    let mut world = world();
    world.pod(&pod("q").asks("A100", 1).of("gang"));
    let status = imagined(&mut world, &pod("p").asks("A100", 1).of("gang"));
    assert_eq!(reasons(&status), [("PodGroupNotFound", Outlook::Never)]);
}

#[test]
fn the_tables_of_queues_say_never_too() {
    let mut world = World::new();
    world.node(&node("n1").cards("A100", 4));
    world.queue(&queue("team-a").quota(r#"{"A100": 5}"#));
    world.pod(&pod("p").asks("A100", 1).selects("zone", "nowhere"));
    assert_eq!(world.admit(), []);
    let id = world.cluster.pod_with_uid("p").unwrap();
    let subject = Subject::Pod(id);
    let (_, brief) = explain_in_brief(&world.cluster, subject).unwrap();
    let why = explain(&world.cluster, subject).unwrap();
    assert_says_never(&brief, &why.remedy(), true);
}
