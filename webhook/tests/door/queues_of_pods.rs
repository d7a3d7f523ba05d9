//! Who may use a queue, and what is asked of the API server before anybody is refused or charged elsewhere.

use std::sync::Arc;

use crds::keys::{GROUP_NAME, QUEUE_LABEL, QUEUE_NAME};
use serde_json::{Value, json};
use webhook::Options;
use webhook::endpoint::Endpoint;
use webhook::knowledge::Knowledge;

use crate::common::{FakeApi, NAMESPACE, World, group, namespace, pod, pod_review, queue};

fn in_queue(name: &str) -> Value {
    pod(&[(QUEUE_NAME, name)], &[])
}

fn in_group(name: &str) -> Value {
    pod(&[(GROUP_NAME, name)], &[])
}

#[test]
fn a_queue_takes_pods_from_the_namespaces_that_it_selects() {
    let world = World::new();
    let refused = world.create_pod(&in_queue("team-b")).refused();
    assert!(refused.contains("403 QueueAccessDenied"), "{refused}");
    for part in ["\"team-b\"", "\"team=b\"", "\"research\"", QUEUE_NAME] {
        assert!(refused.contains(part), "{refused}");
    }
    let mut review = pod_review(&in_queue("team-b"));
    review["request"]["namespace"] = json!("production");
    world.verdict(Endpoint::Mutate, &review).allowed();
}

#[test]
fn a_selector_that_cannot_be_read_lets_nobody_in() {
    let refused = World::new().create_pod(&in_queue("broken")).refused();
    assert!(refused.contains("403 QueueAccessUnreadable"), "{refused}");
    assert!(refused.contains("ask an administrator"), "{refused}");
}

#[test]
fn queues_that_take_no_pods_at_the_moment_are_worth_a_warning() {
    for (name, part) in [
        ("absent", "does not exist"),
        ("closed", "its state is \"Closed\""),
        ("odd", "can't be read"),
    ] {
        let verdict = World::new().create_pod(&in_queue(name));
        assert_eq!(verdict.allowed().len(), 1, "{:?}", verdict.warnings);
        assert!(verdict.warnings[0].contains(part), "{:?}", verdict.warnings);
        assert_eq!(
            verdict.object()["metadata"]["labels"][QUEUE_LABEL],
            name,
            "the pod waits in it"
        );
    }
}

#[test]
fn names_that_no_queue_can_have_are_refused_and_never_asked_for() {
    for name in ["Team A", "../namespaces/kube-system", "a/b", "a?watch=true", "é"] {
        let world = World::new();
        assert!(
            world
                .create_pod(&in_queue(name))
                .refused()
                .contains("403 QueueNameInvalid"),
            "{name}"
        );
        let verdict = world.create_pod(&in_group(name));
        assert!(
            verdict.allowed()[0].contains("does not exist"),
            "{:?}",
            verdict.warnings
        );
        assert_eq!(world.asked(), Vec::<String>::new(), "{name}");
    }
    let world = World::new();
    let facts = namespace(&[], Some("Team A"));
    world.knowledge.namespaces.set(NAMESPACE.into(), facts);
    let refused = world.create_pod(&in_group("aimless")).refused();
    assert!(
        refused.contains("of namespace \"research\": \"Team A\""),
        "the message names the place: {refused}"
    );
}

#[test]
fn a_pod_that_needs_nothing_unknown_asks_nothing() {
    let world = World::new();
    for created in [
        in_queue("team-a"),
        in_queue("closed"),
        in_group("training"),
        in_group("aimless"),
    ] {
        world.create_pod(&created).allowed();
    }
    assert_eq!(world.asked(), Vec::<String>::new());
}

/// A world whose watches have listed nothing yet that the API server has.
fn lagging() -> World {
    let fresh = World::new().api;
    let knowledge = Knowledge::default();
    list_nothing(&knowledge);
    World::of(knowledge, fresh, Options::default())
}

fn list_nothing(knowledge: &Knowledge) {
    knowledge.queues.replace([].into());
    knowledge.groups.replace([].into());
    knowledge.namespaces.replace([].into());
    knowledge.card_types.replace([].into());
    knowledge.configure(Some(Arc::default()), None);
}

#[test]
fn what_a_watch_has_not_delivered_yet_is_asked_of_the_api_server() {
    let world = lagging();
    let verdict = world.create_pod(&in_group("training"));
    assert!(verdict.allowed().is_empty(), "the queue exists: {:?}", verdict.warnings);
    assert_eq!(verdict.object()["metadata"]["annotations"][QUEUE_NAME], "team-a");
    assert_eq!(
        world.asked(),
        ["PodGroup \"training\" in namespace \"research\"", "queue \"team-a\""]
    );

    let world = lagging();
    let verdict = world.create_pod(&in_group("gone"));
    assert_eq!(
        verdict.allowed().len(),
        1,
        "the group does not exist: {:?}",
        verdict.warnings
    );
    assert_eq!(
        world.asked(),
        [
            "PodGroup \"gone\" in namespace \"research\"",
            "namespace \"research\"",
            "queue \"default\""
        ]
    );
}

#[test]
fn nobody_is_refused_for_what_was_just_mended() {
    // The watches still show what the API server no longer has.
    let world = World::new();
    let namespaces = &world.api.namespaces;
    let of_team_b = namespace(&[("team", "b")], None);
    namespaces.lock().unwrap().insert(NAMESPACE.to_owned(), of_team_b);
    world.create_pod(&in_queue("team-b")).allowed();

    let world = World::new();
    let queues = &world.api.queues;
    queues.lock().unwrap().insert("team-b".to_owned(), queue(None));
    world.create_pod(&in_queue("team-b")).allowed();

    let world = World::new();
    let queues = &world.api.queues;
    queues.lock().unwrap().insert("broken".to_owned(), queue(None));
    world.create_pod(&in_queue("broken")).allowed();

    let world = World::new();
    world.create_pod(&in_queue("team-b")).refused();
    assert_eq!(
        world.asked(),
        ["queue \"team-b\"", "namespace \"research\""],
        "asked before refusing"
    );
}

#[test]
fn an_api_server_that_does_not_answer_leaves_the_request_unanswered() {
    let api = FakeApi {
        silent: true,
        ..FakeApi::default()
    };
    let silent = World::of(Knowledge::default(), Arc::new(api), Options::default());
    let body = serde_json::to_vec(&pod_review(&in_group("training"))).unwrap();
    let not_ready = silent.answer(Endpoint::Mutate, &body);
    assert_eq!(not_ready.status, 503, "nothing was listed yet");
    assert!(String::from_utf8_lossy(&not_ready.body).contains("queues"));

    list_nothing(&silent.knowledge);
    let unanswered = silent.answer(Endpoint::Mutate, &body);
    assert_eq!(unanswered.status, 500);
    let text = String::from_utf8_lossy(&unanswered.body).into_owned();
    assert!(
        text.contains("PodGroup \"training\" in namespace \"research\""),
        "{text}"
    );
}

/// The API server shows such a pod only where its namespace has opted in to `CrossQuota`.
#[test]
fn a_plain_pod_is_not_let_past_before_it_is_known_whether_cross_quota_holds_it() {
    let world = World::of(Knowledge::default(), Arc::new(FakeApi::default()), Options::default());
    let review = serde_json::to_vec(&pod_review(&pod(&[], &[("cpu", "1")]))).unwrap();
    assert_eq!(world.answer(Endpoint::Mutate, &review).status, 503);
    assert!(World::new().create_pod(&pod(&[], &[("cpu", "1")])).allowed().is_empty());
}

#[test]
fn a_group_that_turns_out_to_be_in_another_queue_moves_the_pod_before_it_is_charged() {
    let world = World::new();
    world.knowledge.groups.remove("research/training");
    world
        .api
        .groups
        .lock()
        .unwrap()
        .insert("research/training".to_owned(), group(Some("team-b")));
    let refused = world.create_pod(&in_group("training")).refused();
    assert!(
        refused.contains("spec.queue of PodGroup \"training\": queue \"team-b\""),
        "{refused}"
    );
}
