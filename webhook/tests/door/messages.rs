//! What users read: every refusal and every warning, as the answer to a review that causes it.

#![allow(clippy::unwrap_used, reason = "part of tests")]

use std::fmt::Write as _;

use crds::configuration::{Configuration, Settings, UnnamedCards};
use crds::keys::{
    CARD_ASSIGNED, CARD_NAME, CARD_QUOTA, CARD_REQUEST, GROUP_NAME, MGPU_CORE, QUEUE_NAME, QUEUE_NAMESPACES,
    SCORING_STRATEGY,
};
use serde_json::{Value, json};
use webhook::Options;
use webhook::endpoint::Endpoint;

use crate::common::{NAMESPACE, World, group, namespace, pod, pod_review, queue, review};

const GPU: &str = "nvidia.com/gpu";
const QUEUE: (&str, &str, &str) = ("scheduling.volcano.sh", "v1beta1", "Queue");
const POD_GROUP: (&str, &str, &str) = ("scheduling.volcano.sh", "v1beta1", "PodGroup");
const VOLCANO_JOB: (&str, &str, &str) = ("batch.volcano.sh", "v1alpha1", "Job");

/// Adds what an answer says to `text`.
fn tell(text: &mut String, what: &str, world: &World, endpoint: Endpoint, review: &Value) {
    let verdict = world.verdict(endpoint, review);
    writeln!(text, "{what}").unwrap();
    if !verdict.allowed {
        writeln!(
            text,
            "  {} {}: {}",
            verdict.code.unwrap_or_default(),
            verdict.reason,
            verdict.message
        )
        .unwrap();
    }
    for warning in &verdict.warnings {
        assert!(warning.chars().count() <= 256, "the API server cuts it: {warning}");
        writeln!(text, "  Warning: {warning}").unwrap();
    }
}

fn strict() -> World {
    World::with_settings(Settings {
        unnamed_cards: UnnamedCards::Deny,
        ..Settings::default()
    })
}

/// Adds what an answer to a pod's creation says to `text`.
fn tell_pod(text: &mut String, what: &str, world: &World, annotations: &[(&str, &str)], requests: &[(&str, &str)]) {
    tell(
        text,
        what,
        world,
        Endpoint::Mutate,
        &pod_review(&pod(annotations, requests)),
    );
}

#[test]
fn messages_about_cards() {
    let text = &mut String::new();
    let world = &World::new();
    let both = [(GPU, "1"), ("nvidia.com/gpu.shared", "1")];
    for (what, card, requests) in [
        ("empty card name", "NVIDIA-A100||NVIDIA-H100", &[(GPU, "1")][..]),
        ("card twice", "NVIDIA-A100|NVIDIA-A100", &[(GPU, "1")]),
        ("control character", "NVIDIA-A100\n", &[(GPU, "1")]),
        (
            "cards of different resources",
            "NVIDIA-A100|NVIDIA-B200|NVIDIA-A100/mps-80g*1/8",
            &[(GPU, "1")],
        ),
        ("card not requested", "NVIDIA-A100", &[("cpu", "1")]),
        ("second card resource", "NVIDIA-A100", &both),
        ("unknown card", "NVIDIA-B200", &[(GPU, "1")]),
        ("unknown card, nothing requested", "NVIDIA-B200", &[("cpu", "1")]),
        ("unknown alternative", "NVIDIA-A100|NVIDIA-B200", &[(GPU, "1")]),
        ("unreadable request", "NVIDIA-A100", &[(GPU, "one")]),
        ("negative request", "NVIDIA-A100", &[(GPU, "-1")]),
    ] {
        tell_pod(text, what, world, &[(CARD_NAME, card)], requests);
    }
    tell_pod(text, "card not named", world, &[(QUEUE_NAME, "team-a")], &[(GPU, "1")]);
    tell_pod(text, "card not named, required", &strict(), &[], &[(GPU, "1")]);
    tell_pod(
        text,
        "second card resource, required",
        &strict(),
        &[(CARD_NAME, "NVIDIA-A100")],
        &both,
    );
    insta::assert_snapshot!(text);
}

#[test]
fn messages_about_queues() {
    let text = &mut String::new();
    let world = &World::new();
    let long = "q".repeat(64);
    world.knowledge.queues.set(long.as_str().into(), queue(None));
    for (what, queue) in [
        ("impossible queue name", "Team A"),
        ("queue of others", "team-b"),
        ("queue with an unreadable selector", "broken"),
        ("no such queue", "team-z"),
        ("closed queue", "closed"),
        ("unreadable queue", "odd"),
        ("long queue name", &long),
    ] {
        tell_pod(text, what, world, &[(QUEUE_NAME, queue)], &[]);
    }
    tell_pod(text, "no such group", world, &[(GROUP_NAME, "gone")], &[]);
    world
        .knowledge
        .groups
        .set("research/training".into(), group(Some("team-b")));
    tell_pod(
        text,
        "queue of others, of the group",
        world,
        &[(GROUP_NAME, "training")],
        &[],
    );
    world
        .knowledge
        .namespaces
        .set(NAMESPACE.into(), namespace(&[], Some("Team A")));
    tell_pod(
        text,
        "impossible queue name of the namespace",
        world,
        &[],
        &[(MGPU_CORE, "100")],
    );
    let world = &World::with_settings(Settings {
        default_queue: "broken".to_owned(),
        ..Settings::default()
    });
    tell_pod(
        text,
        "default queue with an unreadable selector",
        world,
        &[],
        &[(MGPU_CORE, "100")],
    );
    insta::assert_snapshot!(text);
}

#[test]
fn messages_about_pods() {
    let text = &mut String::new();
    let world = &World::new();
    let strategy = [(QUEUE_NAME, "team-a"), (SCORING_STRATEGY, "cheapest")];
    tell_pod(text, "unknown strategy", world, &strategy, &[]);
    let forged = [(QUEUE_NAME, "team-a"), (CARD_ASSIGNED, "NVIDIA-H100")];
    tell_pod(text, "result dropped", world, &forged, &[]);
    let mut bound = pod(&[(QUEUE_NAME, "team-a")], &[]);
    bound["spec"]["nodeName"] = json!("gpu-1");
    tell(text, "node named", world, Endpoint::Mutate, &pod_review(&bound));
    let mut odd = pod(&[], &[]);
    odd["metadata"]["annotations"] = json!({"a": 1});
    tell(text, "no pod", world, Endpoint::Mutate, &pod_review(&odd));
    let deployment = review(("apps", "v1", "Deployment"), "CREATE", &json!({}), &Value::Null);
    tell(text, "another kind", world, Endpoint::Mutate, &deployment);
    let options = Options {
        replace_scheduler_name: Some("volcano".to_owned()),
    };
    let world = &World::with(Configuration::default(), options);
    let mut scheduled = pod(&[(QUEUE_NAME, "team-a")], &[]);
    scheduled["spec"]["schedulerName"] = json!("volcano");
    tell(
        text,
        "scheduler replaced",
        world,
        Endpoint::Mutate,
        &pod_review(&scheduled),
    );
    insta::assert_snapshot!(text);
}

#[test]
fn messages_about_objects() {
    let mut text = String::new();
    let annotated = |key: &str, value: &str| json!({"metadata": {"name": "x", "annotations": {key: value}}});
    let world = World::new();
    for (what, quota) in [
        ("no JSON", "NVIDIA-A100: 8"),
        ("no object", "[8]"),
        ("a string", r#"{"NVIDIA-A100": "8"}"#),
        ("a fraction", r#"{"NVIDIA-A100": 0.5}"#),
        ("a negative number", r#"{"NVIDIA-A100": -1}"#),
        ("a card twice", r#"{"NVIDIA-A100": 1, "NVIDIA-A100": 2}"#),
        ("alternatives", r#"{"NVIDIA-A100|NVIDIA-H100": 1}"#),
        ("an empty name", r#"{"": 1}"#),
        ("an unknown card", r#"{"NVIDIA-A10O": 1}"#),
    ] {
        let review = review(QUEUE, "CREATE", &annotated(CARD_QUOTA, quota), &Value::Null);
        tell(
            &mut text,
            &format!("quota, {what}"),
            &world,
            Endpoint::Validate,
            &review,
        );
    }
    for selector in ["", "team in b", "a/b/c=d"] {
        let review = review(QUEUE, "CREATE", &annotated(QUEUE_NAMESPACES, selector), &Value::Null);
        tell(
            &mut text,
            &format!("selector {selector:?}"),
            &world,
            Endpoint::Validate,
            &review,
        );
    }
    for cpu in ["-1", "many"] {
        let queue = json!({"spec": {"capability": {"cpu": cpu}}});
        let review = review(QUEUE, "CREATE", &queue, &Value::Null);
        tell(
            &mut text,
            &format!("capability {cpu:?}"),
            &world,
            Endpoint::Validate,
            &review,
        );
    }
    let wrong = annotated(CARD_QUOTA, "[8]");
    let unchanged = review(QUEUE, "UPDATE", &wrong, &wrong);
    tell(&mut text, "wrong before", &world, Endpoint::Validate, &unchanged);
    let requested = annotated(CARD_REQUEST, r#"{"NVIDIA-A100|": 8}"#);
    let group = review(POD_GROUP, "CREATE", &requested, &Value::Null);
    tell(&mut text, "card request", &world, Endpoint::Validate, &group);
    for (what, card) in [
        ("wrong template", "NVIDIA-A100|NVIDIA-A100"),
        ("template that requests no card", "NVIDIA-A100"),
    ] {
        let template = json!({"metadata": {"annotations": {CARD_NAME: card}}});
        let job = json!({"spec": {"tasks": [{"name": "worker", "template": template}]}});
        let review = review(VOLCANO_JOB, "CREATE", &job, &Value::Null);
        tell(&mut text, what, &world, Endpoint::Validate, &review);
    }
    insta::assert_snapshot!(text);
}

#[test]
fn long_values_are_cut_in_the_middle() {
    let long = "é".repeat(5000);
    let refused = World::new().create_pod(&pod(&[(QUEUE_NAME, &long)], &[])).refused();
    assert!(refused.chars().count() < 1100, "{}", refused.len());
    assert!(
        refused.ends_with("see kubectl get queues"),
        "the remedy stays: {refused}"
    );
}
