use crds::keys::{GATE, MGPU_ASSUMED, MGPU_INDEX_PREFIX, QUEUE_NAME};
use serde_json::{Value, json};

use super::super::shares::RULE;
use super::super::shown::RULE as SHOWN;
use super::history::History;
use crate::objects::{CARD_INVENTORIES, CARD_USAGES, NODES, PODS, QUEUES};

const CONFIGURATION: &str = "tiers: [{plugins: [{name: capacity}]}]";

fn share(name: &str, core: u32, memory: u32) -> Value {
    let amount =
        json!({"vke.volcengine.com/mgpu-core": core.to_string(), "vke.volcengine.com/mgpu-memory": memory.to_string()});
    json!({
        "metadata": {"namespace": "team", "name": name, "annotations": {QUEUE_NAME: "a", "volcano.sh/card.name": "A100/mgpu"}},
        "spec": {
            "schedulingGates": [{"name": GATE}],
            "containers": [{"name": "main", "resources": {"limits": amount}}],
        },
    })
}

fn history() -> History {
    let mut history = History::new();
    history.configure(CONFIGURATION);
    history.node(
        "m1",
        &json!({"vke.volcengine.com/mgpu-core": "200", "vke.volcengine.com/mgpu-memory": "2000", "cpu": "8", "pods": "9"}),
    );
    history.change("user", &NODES, "m1", |node| {
        node["metadata"]["labels"]["vke.node.gpu.schedule"] = "mgpu".into();
    });
    history.queue("a", 8, &json!({}));
    history.change("user", &QUEUES, "a", |queue| {
        queue["metadata"]["annotations"]["volcano.sh/card.quota"] = r#"{"A100/mgpu": 800}"#.into();
    });
    history.later(60);
    history
}

fn admit(history: &mut History, pod: &Value, cards: &str) {
    history.create(&PODS, pod.clone());
    history.lease("operator-0");
    history.change("operator-0", &PODS, pod["metadata"]["name"].as_str().unwrap(), |pod| {
        pod["spec"].as_object_mut().unwrap().remove("schedulingGates");
        let annotations = &mut pod["metadata"]["annotations"];
        annotations["volcano.sh/card.assigned"] = "A100/mgpu".into();
        annotations[MGPU_ASSUMED] = "true".into();
        annotations[format!("{MGPU_INDEX_PREFIX}main")] = cards.into();
        pod["spec"]["nodeSelector"] = json!({"nvidia.com/gpu.product": "A100"});
        let field = json!({"key": "metadata.name", "operator": "In", "values": ["m1"]});
        let required = json!({"nodeSelectorTerms": [{"matchFields": [field]}]});
        pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] = required;
    });
}

#[test]
fn shares_that_fit_a_card_and_one_that_does_not() {
    let mut history = history();
    admit(&mut history, &share("p", 60, 500), "0");
    admit(&mut history, &share("q", 40, 500), "0");
    admit(&mut history, &share("r", 60, 300), "1");
    history.holds();
    admit(&mut history, &share("s", 50, 300), "1");
    assert!(history.breaks(RULE).what.contains("core: 110"));
}

#[test]
fn memory_counts_and_cards_that_are_not_there() {
    let mut full = history();
    admit(&mut full, &share("p", 10, 800), "0");
    admit(&mut full, &share("q", 10, 300), "0");
    assert!(full.breaks(RULE).what.contains("memory: 1100"));
    let mut wrong = history();
    admit(&mut wrong, &share("p", 10, 800), "2");
    wrong.breaks(RULE);
}

#[test]
fn what_a_pod_that_is_over_had_is_free() {
    let mut history = history();
    admit(&mut history, &share("p", 60, 500), "0");
    history.change("kubelet", &PODS, "p", |pod| pod["status"]["phase"] = "Succeeded".into());
    admit(&mut history, &share("q", 60, 800), "0");
    history.holds();
}

#[test]
fn what_is_shown_of_each_card_is_counted_again() {
    let mut history = history();
    admit(&mut history, &share("p", 60, 500), "1");
    history.create(
        &CARD_USAGES,
        json!({
            "metadata": {"name": "a"}, "spec": {"queue": "a"},
            "status": {"cards": [{"name": "A100/mgpu", "allocated": 60}]},
        }),
    );
    let gpu = |index: u32, core: u32, memory: u32, containers: &[&str]| json!({"index": index, "coreUsed": core, "memoryUsed": memory, "containers": containers});
    let gpus = |core: u32| json!([gpu(0, 0, 0, &[]), gpu(1, core, 500, &["default/p/main"])]);
    history.create(
        &CARD_INVENTORIES,
        json!({"metadata": {"name": "m1"}, "status": {"gpus": gpus(60)}}),
    );
    history.rests();
    history.change("operator-0", &CARD_INVENTORIES, "m1", |node| {
        node["status"]["gpus"] = gpus(0);
    });
    history.breaks_at_rest(SHOWN);
}

#[test]
fn memory_is_no_number_of_a_card_that_no_node_has_any_more() {
    for (shown, is_true) in [(60, true), (500, false)] {
        let mut history = history();
        admit(&mut history, &share("p", 60, 500), "1");
        let cards = json!([{"name": "A100/mgpu", "allocated": shown}]);
        history.create(
            &CARD_USAGES,
            json!({"metadata": {"name": "a"}, "spec": {"queue": "a"}, "status": {"cards": cards}}),
        );
        history.change("kubelet", &NODES, "m1", |node| {
            node["status"]["allocatable"]["vke.volcengine.com/mgpu-core"] = "0".into();
        });
        if is_true {
            history.rests();
        } else {
            history.breaks_at_rest(SHOWN);
        }
    }
}
