use crds::keys::{CONFIG_MAP, NAMESPACE};
use serde_json::{Value, json};

use super::super::places::RULE;
use super::history::{History, admit, pod};
use crate::objects::{CONFIG_MAPS, NODES, PODS};

/// What a pod says of where it may run, and what is true of the only node if the pod may be let in.
fn admitted(spec: &[(&str, Value)], node: impl FnOnce(&mut Value), admit_on: &str) -> History {
    let mut history = History::new();
    history.create(
        &CONFIG_MAPS,
        json!({
            "metadata": {"namespace": NAMESPACE, "name": CONFIG_MAP},
            "data": {"cardgate.yaml": format!("admitOn: {admit_on}\n")},
        }),
    );
    history.queue("a", 8, &json!({}));
    history.change("admin", &NODES, "n1", node);
    history.later(60);
    let mut waits = pod("p", "a", 1);
    for (field, value) in spec {
        waits["spec"][*field] = value.clone();
    }
    history.create(&PODS, waits);
    history.lease("operator-0");
    history.change("operator-0", &PODS, "p", |pod| {
        admit(pod);
        for (field, value) in spec {
            for (label, value) in value
                .as_object()
                .into_iter()
                .flatten()
                .filter(|_| *field == "nodeSelector")
            {
                pod["spec"][*field][label] = value.clone();
            }
        }
    });
    history
}

#[test]
fn who_is_let_in_has_a_node_that_its_selector_and_its_tolerations_allow() {
    let selector = |zone: &str| [("nodeSelector", json!({"zone": zone}))];
    let in_a = |node: &mut Value| node["metadata"]["labels"]["zone"] = "a".into();
    admitted(&selector("a"), in_a, "fit").holds();
    admitted(&selector("b"), in_a, "fit").breaks(RULE);
    admitted(&selector("b"), in_a, "quota").holds();
    // Cardgate writes this label on the node as it lets the pod in.
    let device = json!({"device.card.volcano.sh/a100": "true"});
    admitted(&[("nodeSelector", device)], in_a, "fit").holds();
    let taint = |node: &mut Value| {
        node["spec"]["taints"] = json!([{"key": "dedicated", "value": "x", "effect": "NoSchedule"}]);
    };
    admitted(&[], taint, "fit").breaks(RULE);
    let tolerations = json!([{"key": "dedicated", "operator": "Exists"}]);
    admitted(&[("tolerations", tolerations)], taint, "fit").holds();
}

#[test]
fn and_one_that_is_large_enough() {
    admitted(&[], |node| node["status"]["allocatable"]["cpu"] = "1".into(), "fit").holds();
    admitted(&[], |node| node["status"]["allocatable"]["cpu"] = "500m".into(), "fit").breaks(RULE);
}
