//! Claims that are gone, or others than those that their pods were let in for (docs/rules.md, **Cards by Dynamic Resource Allocation**).

use engine::Observation;
use engine::cluster::Kind;
use engine::decide::Action;

use super::*;

/// A pod as it is after it was let in for these cards.
fn let_in(name: &str, cards: Option<&str>) -> Object {
    let pod = bare_pod(name).queue("team-a");
    let pod = cards
        .into_iter()
        .fold(pod, |pod, cards| pod.annotation("volcano.sh/card.assigned", cards));
    sharing(pod, name)
}

/// Lets a pod in for what its claim asks for.
fn let_in_for(world: &mut World, name: &str, requests: &Value) {
    world.claim(name, requests, &json!({}));
    world.pod(&sharing(pod(name), name));
    let admissions = world.admissions();
    let admission = admissions.iter().find(|admission| &*admission.pod.name == name);
    world.pod(&let_in(name, admission.unwrap().card.as_deref()));
}

/// The pods that are sent back now, with the event's reason and message.
fn sent_back(world: &mut World) -> Vec<(String, &'static str, String)> {
    let actions = world.decide().into_iter();
    let sent_back = actions.map(|action| match action {
        Action::SendBack { pod, reason, message } => (pod.name.to_string(), reason.as_str(), message),
        other => panic!("not sent back: {other:?}"),
    });
    sent_back.collect()
}

#[test]
fn who_makes_its_claim_anew_and_larger_is_evicted() {
    let mut world = world();
    let_in_for(&mut world, "p1", &exactly(2, Some("A")));
    world.remove_claim("p1");
    assert_eq!((world.allocated("team-a", "A"), sent_back(&mut world)), (2, vec![]));
    // Within the quota it is charged, and that is all.
    world.claim("p1", &exactly(3, Some("A")), &json!({}));
    assert_eq!((world.allocated("team-a", "A"), sent_back(&mut world)), (3, vec![]));
    world.remove_claim("p1");
    world.claim("p1", &exactly(4, Some("A")), &json!({}));
    let message = "let in for 2 A, and its resource claims are others now, for 4 A, which queue team-a has no quota for: it is evicted; \
                   leave claims as they are while their pods wait to be scheduled";
    let expected = [("p1".to_owned(), "ResourceClaimChanged", message.to_owned())];
    assert_eq!(sent_back(&mut world), expected);
    assert_eq!(world.allocated("team-a", "A"), 4);
    // Who can't be evicted is tried again, later each time.
    assert_eq!(sent_back(&mut world), []);
    world.claim(
        "p1",
        &exactly(4, Some("A")),
        &allocated("n1", &["gpu-0", "gpu-1", "gpu-2", "gpu-3"]),
    );
    world.pod(&let_in("p1", Some(r#"{"A":2}"#)).on("n1"));
    assert_eq!(sent_back(&mut world), []);
    world.wait(30);
    assert_eq!(sent_back(&mut world), expected);
    world.wait(30);
    assert_eq!(sent_back(&mut world), []);
    world.remove_pod("p1");
    world.wait(3600);
    assert_eq!(sent_back(&mut world), []);
}

/// One pod after the other would have what there is, and all of them in the end.
#[test]
fn who_gives_back_what_was_accepted_and_has_it_again_is_judged_anew() {
    let mut world = world();
    let_in_for(&mut world, "p1", &exactly(2, Some("A")));
    let remake = |world: &mut World, count: i64| {
        world.remove_claim("p1");
        world.claim("p1", &exactly(count, Some("A")), &json!({}));
        sent_back(world).len()
    };
    assert_eq!(remake(&mut world, 3), 0);
    assert_eq!(remake(&mut world, 2), 0);
    let_in_for(&mut world, "p2", &exactly(1, Some("A")));
    assert_eq!(remake(&mut world, 3), 1);
}

/// Also where it leaves the scheduler a choice meanwhile, and is charged for the smaller one.
#[test]
fn who_gives_back_what_was_accepted_by_a_choice_is_judged_anew() {
    let mut world = world();
    let_in_for(&mut world, "p1", &exactly(2, Some("A")));
    let remake = |world: &mut World, requests: &Value| {
        world.remove_claim("p1");
        world.claim("p1", requests, &json!({}));
        sent_back(world).len()
    };
    assert_eq!(remake(&mut world, &exactly(3, Some("A"))), 0);
    let form = |name: &str, count: i64| {
        let mut form = request(NVIDIA, count, Some("A"));
        form["name"] = json!(name);
        form
    };
    let either = json!([{"name": "r", "firstAvailable": [form("large", 3), form("small", 2)]}]);
    assert_eq!(remake(&mut world, &either), 0);
    assert_eq!(world.allocated("team-a", "A"), 2);
    let_in_for(&mut world, "p2", &exactly(1, Some("A")));
    assert_eq!(remake(&mut world, &exactly(3, Some("A"))), 1);
}

/// Somebody makes its queue anew, or mistypes its quota for a moment.
#[test]
fn nothing_is_accepted_while_the_queue_is_away() {
    let mut world = world();
    let_in_for(&mut world, "p1", &exactly(2, Some("A")));
    world.remove_queue("team-a");
    world.remove_claim("p1");
    world.claim("p1", &exactly(4, Some("A")), &json!({}));
    assert_eq!(sent_back(&mut world), []);
    world.queue(&queue("team-a").quota(r#"{"A": 3, "B": 1}"#));
    assert_eq!(sent_back(&mut world).len(), 1);
}

/// Nothing is charged for it before the scheduler has claimed it, so that nothing of it can have been accepted.
#[test]
fn as_many_of_another_card_are_judged_when_they_are_given() {
    let mut world = world();
    world.queue(&queue("team-a").quota(r#"{"A": 3, "B": 0}"#));
    let_in_for(&mut world, "p1", &exactly(1, Some("A")));
    world.remove_claim("p1");
    world.claim("p1", &exactly(1, Some("B")), &json!({}));
    assert_eq!(sent_back(&mut world), []);
    world.claim("p1", &exactly(1, Some("B")), &allocated("n2", &["gpu-0"]));
    assert_eq!(sent_back(&mut world).len(), 1);
}

/// Whatever else has changed at the same time of the queues above it.
#[test]
fn who_makes_its_claim_larger_than_a_queue_above_has_is_evicted() {
    let mut world = World::with(queue_plugin(
        "capacity-card",
        "enqueue, allocate",
        "enableHierarchy: true",
    ));
    world.node(&node("n1"));
    world.slice("n1", NVIDIA, &gpus("A", 8));
    world.class(NVIDIA, "device.driver == 'gpu.nvidia.com'", None);
    world.queue(&queue("above").quota(r#"{"A": 4}"#));
    for name in ["team-a", "team-b"] {
        world.queue(&queue(name).quota(r#"{"A": 4}"#).parent("above"));
    }
    world.claim("p2", &exactly(2, Some("A")), &json!({}));
    world.pod(&sharing(pod("p2").queue("team-b"), "p2"));
    let_in_for(&mut world, "p1", &exactly(2, Some("A")));
    world.queue(&queue("other").quota(r#"{"A": 1}"#).parent("above"));
    world.remove_claim("p1");
    world.claim("p1", &exactly(4, Some("A")), &json!({}));
    let sent_back = sent_back(&mut world);
    assert_eq!(sent_back.len(), 1, "{sent_back:?}");
}

#[test]
fn a_claim_that_is_made_anew_and_larger_from_its_template_evicts_its_pod() {
    let mut world = world();
    world.claim("p1-gpu-x", &exactly(2, Some("A")), &json!({}));
    world.pod(&claiming(pod("p1"), "p1-gpu-x"));
    assert_eq!(world.admissions().len(), 1);
    let now_named = |claim| claiming(let_in("p1", Some(r#"{"A":2}"#)), claim);
    world.pod(&now_named("p1-gpu-x"));
    // Made anew as it was.
    world.remove_claim("p1-gpu-x");
    world.claim("p1-gpu-y", &exactly(2, Some("A")), &json!({}));
    world.pod(&now_named("p1-gpu-y"));
    assert_eq!((world.allocated("team-a", "A"), sent_back(&mut world)), (2, vec![]));
    // From a template that somebody replaced.
    world.remove_claim("p1-gpu-y");
    world.claim("p1-gpu-z", &exactly(4, Some("A")), &json!({}));
    world.pod(&now_named("p1-gpu-z"));
    let sent_back = sent_back(&mut world);
    assert!(
        matches!(&sent_back[..], [(name, "ResourceClaimChanged", _)] if name == "p1"),
        "{sent_back:?}"
    );
    assert_eq!(world.allocated("team-a", "A"), 4);
}

#[test]
fn who_makes_a_claim_for_cards_of_one_for_none_is_evicted() {
    let mut world = world();
    world.class("fpga", "device.driver == 'fpga.example.com'", None);
    world.slice("n2", "fpga.example.com", &json!([{"name": "f"}]));
    let fpga = json!([{"name": "r", "exactly": {"deviceClassName": "fpga"}}]);
    let_in_for(&mut world, "p1", &fpga);
    world.remove_claim("p1");
    world.claim("p1", &exactly(4, Some("A")), &json!({}));
    let sent_back = sent_back(&mut world);
    assert!(
        matches!(&sent_back[..], [(name, "ResourceClaimChanged", _)] if name == "p1"),
        "{sent_back:?}"
    );
}

/// Whoever shares a claim that another pod pays for was let in for none of its cards. Once that is gone, it is charged; and where it has
/// given that back by a claim for nothing, others have it.
#[test]
fn who_gives_back_what_another_was_let_in_for_is_not_given_it_again() {
    // For nothing, and for something that there is quota for; before the other is gone, and after.
    for (meanwhile, before) in [
        (json!([]), false),
        (exactly(1, Some("B")), false),
        (exactly(1, Some("B")), true),
    ] {
        gives_back(&meanwhile, before);
    }
}

fn gives_back(meanwhile: &Value, before: bool) {
    let mut world = world();
    world.node(&node("n3"));
    world.slice("n3", NVIDIA, &gpus("A", 4));
    let sharing = |pod: Object| sharing(pod, "shared");
    world.claim("shared", &exactly(2, Some("A")), &json!({}));
    world.pod(&sharing(pod("p1")));
    assert_eq!(world.admit(), [admitted("p1", r#"{"A":2}"#)]);
    world.pod(&sharing(let_in("p1", Some(r#"{"A":2}"#))));
    world.claim("shared", &exactly(2, Some("A")), &allocated("n1", &["gpu-0", "gpu-1"]));
    world.pod(&sharing(pod("p2")));
    assert_eq!(world.admit(), [("p2".to_owned(), None)]);
    world.pod(&sharing(let_in("p2", None)));
    if !before {
        world.remove_pod("p1");
    }
    assert_eq!((world.allocated("team-a", "A"), sent_back(&mut world)), (2, vec![]));
    world.remove_claim("shared");
    world.claim("shared", meanwhile, &json!({}));
    assert_eq!(sent_back(&mut world), vec![]);
    if before {
        world.remove_pod("p1");
    }
    assert_eq!(world.allocated("team-a", "A"), 0);
    let_in_for(&mut world, "p3", &exactly(3, Some("A")));
    world.remove_claim("shared");
    world.claim("shared", &exactly(2, Some("A")), &json!({}));
    assert_eq!(world.allocated("team-a", "A"), 5);
    let sent_back = sent_back(&mut world);
    assert!(
        matches!(&sent_back[..], [(name, "ResourceClaimChanged", _)] if name == "p2"),
        "{meanwhile}: {sent_back:?}"
    );
}

/// The same, where nothing is said of what it claims while it comes to pay.
#[test]
fn who_comes_to_pay_while_nothing_is_said_of_its_claims_has_given_back_what_others_have_by_then() {
    for has_own in [false, true] {
        let mut world = world();
        world.node(&node("n3"));
        world.slice("n3", NVIDIA, &gpus("A", 4));
        let requests = if has_own { exactly(1, Some("A")) } else { json!([]) };
        let both = |pod: Object| {
            let claims = json!([
                {"name": "gpu", "resourceClaimName": "shared"}, {"name": "own", "resourceClaimName": "own"},
            ]);
            pod.set(["spec", "resourceClaims"], claims)
        };
        world.claim("shared", &exactly(2, Some("A")), &json!({}));
        world.claim("own", &requests, &json!({}));
        world.pod(&sharing(pod("p1"), "shared"));
        assert_eq!(world.admit(), [admitted("p1", r#"{"A":2}"#)]);
        world.pod(&sharing(let_in("p1", Some(r#"{"A":2}"#)), "shared"));
        world.claim("shared", &exactly(2, Some("A")), &allocated("n1", &["gpu-0", "gpu-1"]));
        world.pod(&both(pod("p2")));
        assert_eq!(world.admit_names(), ["p2"]);
        world.pod(&both(let_in("p2", has_own.then_some("A"))));
        world.claim("shared", &exactly(2, Some("A")), &json!({}));
        world.remove_claim("own");
        world.remove_pod("p1");
        let_in_for(&mut world, "p3", &exactly(if has_own { 2 } else { 3 }, Some("A")));
        world.claim("own", &requests, &json!({}));
        assert_eq!(world.allocated("team-a", "A"), 5);
        let sent_back = sent_back(&mut world);
        assert!(
            matches!(&sent_back[..], [(name, "ResourceClaimChanged", _)] if name == "p2"),
            "{has_own}: {sent_back:?}"
        );
    }
}

#[test]
fn an_operator_that_comes_later_knows_for_how_many_a_pod_was_let_in() {
    for (written, is_evicted) in [("A", true), (r#"{"A":3}"#, true), (r#"{"A":4}"#, false)] {
        let mut world = world();
        world.claim(
            "p1",
            &exactly(4, Some("A")),
            &allocated("n1", &["gpu-0", "gpu-1", "gpu-2", "gpu-3"]),
        );
        world.pod(&let_in("p1", Some(written)).on("n1"));
        assert_eq!(world.allocated("team-a", "A"), 4, "{written}");
        // A quota that was lowered evicts nobody.
        assert_eq!(!sent_back(&mut world).is_empty(), is_evicted, "{written}");
    }
}

#[test]
fn what_the_scheduler_chose_for_the_same_claim_evicts_nobody() {
    let mut world = world();
    let any = json!([{"name": "r", "firstAvailable": [request(NVIDIA, 1, Some("A")), request(NVIDIA, 2, Some("B"))]}]);
    let_in_for(&mut world, "p1", &any);
    world.claim("p1", &any, &allocated("n2", &["gpu-0", "gpu-1"]));
    world.pod(&let_in("p1", Some("A")).on("n2"));
    assert_eq!(
        (world.allocated("team-a", "B"), sent_back(&mut world)),
        (2, vec![]),
        "its quota is 1"
    );
}

#[test]
fn a_pod_whose_claim_went_while_nobody_looked_stays_charged() {
    for (written, count) in [("A", 1), (r#"{"A":2}"#, 2)] {
        let mut world = world();
        world.pod(&let_in("p1", Some(written)).on("n1"));
        assert_eq!(world.allocated("team-a", "A"), count, "{written}");
        world.remove_pod("p1");
        assert_eq!(world.allocated("team-a", "A"), 0);
        // Nor is it known yet which nodes there are.
        let mut world = World::with(configuration("", "unnamedCards: charge"));
        world.queue(&queue("team-a").quota(r#"{"A": 3}"#));
        world.pod(&let_in("p1", Some(written)).on("n1"));
        assert_eq!(world.allocated("team-a", "A"), count, "{written}");
        world.node(&node("n1"));
        world.slice("n1", NVIDIA, &gpus("A", 4));
        assert_eq!(world.allocated("team-a", "A"), count, "{written}");
    }
}

#[test]
fn who_is_gone_does_not_outlive_the_list_that_says_so_by_a_claim_that_changes_meanwhile() {
    let mut world = world();
    let_in_for(&mut world, "p1", &exactly(2, Some("A")));
    assert_eq!(world.allocated("team-a", "A"), 2);
    let now = world.now;
    world.begin_list(Kind::Pod);
    world.claim("p1", &exactly(2, Some("A")), &allocated("n1", &["gpu-0", "gpu-1"]));
    world.end_list(Kind::Pod, now);
    assert_eq!(world.cluster.pod_with_uid("p1"), None);
    assert_eq!(world.allocated("team-a", "A"), 0);
}

#[test]
fn who_shares_a_claim_that_is_made_and_deleted_again_and_again_is_as_if_it_had_been_made_once() {
    let mut world = world();
    let pods: Vec<_> = (0..50).map(|index| format!("p{index}")).collect();
    world.pods(pods.iter().map(|name| sharing(pod(name), "shared")));
    assert_eq!(world.refusal_of("p0"), "ResourceClaimNotFound");
    let now = world.now;
    let made = |cards: i64| {
        let claim = json!({"metadata": {"namespace": "team", "name": "shared"},
            "spec": {"devices": {"requests": exactly(cards, Some("A"))}}});
        Observation::Claim(Box::new(serde_json::from_value(claim).unwrap()))
    };
    let deleted = || Observation::ClaimGone {
        namespace: "team".into(),
        name: "shared".into(),
    };
    for cards in 1..100 {
        world.cluster.apply_one_of_many(made(cards), now);
        world.cluster.apply_one_of_many(deleted(), now);
    }
    world.cluster.apply_one_of_many(made(2), now);
    world.cluster.read_again(now);
    // One is charged for it.
    assert_eq!(world.admit_names(), ["p0"]);
    assert_eq!(world.allocated("team-a", "A"), 2);
}

/// Its maker's finalizer keeps it, and nothing will be allocated for it any more: what its claim says then must keep nobody else out.
#[test]
fn who_is_evicted_for_its_claim_holds_nothing_though_it_does_not_go() {
    let mut world = world();
    let_in_for(&mut world, "p1", &exactly(2, Some("A")));
    world.remove_claim("p1");
    world.claim("p1", &exactly(1000, Some("A")), &json!({}));
    assert_eq!(sent_back(&mut world).len(), 1);
    assert_eq!(world.allocated("team-a", "A"), 1000);
    world.pod(&let_in("p1", Some(r#"{"A":2}"#)).deleted(10));
    assert_eq!(world.allocated("team-a", "A"), 0);
    let_in_for(&mut world, "p2", &exactly(2, Some("A")));
}

/// The pod says itself for how long it runs on then: a day with cards that its queue has no quota for.
#[test]
fn who_deletes_himself_is_evicted_all_the_same() {
    let mut world = world();
    let_in_for(&mut world, "p1", &exactly(2, Some("A")));
    world.remove_claim("p1");
    let given = allocated("n1", &["gpu-0", "gpu-1", "gpu-2", "gpu-3"]);
    world.claim("p1", &exactly(4, Some("A")), &given);
    let runs = || let_in("p1", Some(r#"{"A":2}"#)).on("n1");
    let grace = |seconds: i64| {
        let deleted = runs().deleted(seconds);
        deleted.set(["metadata", "deletionGracePeriodSeconds"], seconds)
    };
    world.pod(&grace(24 * 3600));
    assert_eq!(sent_back(&mut world).len(), 1);
    world.pod(&grace(1));
    world.wait(3600);
    assert_eq!(sent_back(&mut world), []);
}

#[test]
fn who_is_deleted_while_nothing_provides_what_it_requests_stays_so_when_something_does() {
    let mut world = world();
    let runs = || bare_pod("p").queue("team-a").asks("A", 1).assigned("A").on("n1");
    world.pod(&runs());
    assert_eq!(world.allocated("team-a", "A"), 1);
    world.remove_slice("n1", NVIDIA);
    world.remove_slice("n2", NVIDIA);
    world.pod(&runs().deleted(40));
    world.slice("n1", NVIDIA, &gpus("A", 4));
    assert_eq!(world.admit(), []);
    assert_eq!(world.allocated("team-a", "A"), 1);
    // Its grace period and `terminatingTimeout` are over.
    world.wait(400);
    assert_eq!(world.admit(), []);
    assert_eq!(world.allocated("team-a", "A"), 0);
}

/// As after an upgrade of a driver, node by node, which names its devices in another way: both names are there on other nodes.
#[test]
fn a_device_that_is_another_card_now_is_charged_as_that() {
    let mut world = world();
    world.node(&node("n3"));
    world.slice("n3", NVIDIA, &gpus("A", 1));
    world.claim("p1-gpu", &exactly(1, Some("A")), &allocated("n1", &["gpu-0"]));
    let runs = bare_pod("p1")
        .queue("team-a")
        .annotation("volcano.sh/card.assigned", "A");
    world.pod(&claiming(runs, "p1-gpu").on("n1"));
    let charged = |world: &World| (world.allocated("team-a", "A"), world.allocated("team-a", "B"));
    assert_eq!(charged(&world), (1, 0));
    let mut devices = gpus("A", 4);
    devices[0] = gpus("B", 1)[0].clone();
    world.slice("n1", NVIDIA, &devices);
    assert_eq!(charged(&world), (0, 1));
}
