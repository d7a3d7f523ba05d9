//! The door for Bindings: what is taken off a scheduler's, and who is refused.

#![allow(clippy::unwrap_used, reason = "part of tests")]

use crds::configuration::Settings;
use crds::keys::{self, CROSS_QUOTA_LABEL, QUEUE_LABEL, QUEUE_NAME, is_charged_by};
use serde_json::{Value, json};
use webhook::endpoint::Endpoint;

use crate::common::{Verdict, World, review};

fn binding(annotations: &Value, labels: &Value) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "worker", "annotations": annotations, "labels": labels},
        "target": {"kind": "Node", "name": "node-1"},
    })
}

fn bind(world: &World, user: &str, binding: &Value) -> Verdict {
    let mut review = review(("", "v1", "Binding"), "CREATE", binding, &Value::Null);
    review["request"]["subResource"] = json!("binding");
    review["request"]["userInfo"]["username"] = json!(user);
    world.verdict(Endpoint::Mutate, &review)
}

const VOLCANO: &str = "system:serviceaccount:volcano-system:volcano-scheduler";

#[test]
fn what_a_pod_is_charged_by_is_taken_off_a_schedulers_binding_and_nothing_else() {
    let index = format!("{}main", keys::MGPU_INDEX_PREFIX);
    let sent = json!({
        QUEUE_NAME: "b", keys::GROUP_NAME: "b", keys::CARD_NAME: "b", keys::CARD_ASSIGNED: "b",
        keys::SCORING_STRATEGY: "b", keys::MGPU_ASSUMED: "true", keys::MGPU_CONTAINER_CARDS: "2", keys::MGPU_POLICY: "b",
        keys::MIRROR_POD: "b", index.as_str(): "0", "volcano.sh/task-spec": "worker",
    });
    let labels = json!({QUEUE_LABEL: "b", CROSS_QUOTA_LABEL: "enabled", "topology.kubernetes.io/zone": "a"});
    let verdict = bind(&World::new(), VOLCANO, &binding(&sent, &labels));
    let expected = binding(
        &json!({"volcano.sh/task-spec": "worker"}),
        &json!({"topology.kubernetes.io/zone": "a"}),
    );
    assert_eq!(verdict.object(), &expected);
    let again = bind(&World::new(), VOLCANO, &expected);
    again.allowed();
    assert_eq!(again.operations, 0, "applied to its own result it changes nothing");
}

#[test]
fn everybody_else_is_refused_with_the_key_the_user_and_the_remedy() {
    for user in [
        "jane",
        "system:serviceaccount:team:volcano-scheduler",
        "system:kube-schedulers",
        "",
    ] {
        let refused = bind(&World::new(), user, &binding(&json!({QUEUE_NAME: "b"}), &json!({}))).refused();
        assert!(refused.starts_with("403 BindingKeys: "), "{refused}");
        for part in [
            QUEUE_NAME,
            &format!("{user:?}"),
            "leave them out",
            "`schedulers` in cardgate.yaml",
        ] {
            assert!(refused.contains(part), "{part}: {refused}");
        }
        let refused = bind(&World::new(), user, &binding(&json!({}), &json!({QUEUE_LABEL: "b"}))).refused();
        assert!(refused.contains(QUEUE_LABEL), "{refused}");
    }
    bind(&World::new(), "jane", &binding(&json!({"a": "b"}), &json!({}))).allowed();
}

#[test]
fn the_setting_names_the_schedulers() {
    let settings = Settings {
        schedulers: vec!["system:serviceaccount:mine:scheduler".to_owned()],
        ..Settings::default()
    };
    let world = World::with_settings(settings);
    let sent = binding(&json!({QUEUE_NAME: "b"}), &json!({}));
    bind(&world, "system:serviceaccount:mine:scheduler", &sent).allowed();
    bind(&world, VOLCANO, &sent).refused();
}

#[test]
fn what_moves_a_charge_is_known_by_its_key() {
    for key in ["volcano.sh/card.quota", "volcano.sh/card", "example.com/x", ""] {
        assert!(!is_charged_by(key), "{key}");
    }
}
