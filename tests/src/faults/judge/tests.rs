//! That the judge sees what is wrong: each rule with an object that breaks it, and its like that does not.

use serde_json::{Value, json};

use super::*;

fn pod(name: &str, change: impl FnOnce(&mut Value)) -> Value {
    let mut pod = json!({
        "metadata": {
            "name": name, "namespace": "team", "uid": name,
            "labels": { "card.volcano.sh/queue": "child" },
            "annotations": { ASSIGNED: "A100" },
        },
        "spec": { "containers": [{ "name": "main", "resources": { "requests": { "nvidia.com/gpu": "1" } } }] },
    });
    change(&mut pod);
    pod
}

fn judge() -> Judge {
    let mut judge = Judge::new(4);
    let queue = |name: &str, quota: i64, parent: Option<&str>| {
        let quota = json!({ "A100": quota, "H100/mgpu": 1000 }).to_string();
        json!({ "metadata": { "name": name, "annotations": { "volcano.sh/card.quota": quota } }, "spec": { "parent": parent } })
    };
    judge.apply("Queue", &queue("child", 3, Some("parent")));
    judge.apply("Queue", &queue("parent", 2, None));
    judge.apply(
        "Node",
        &json!({
            "metadata": { "name": "shared", "labels": { "nvidia.com/gpu.product": "H100" } },
            "status": { "allocatable": { MGPU_CORE: "200", MGPU_MEMORY: "2k" } },
        }),
    );
    judge.apply(
        "Node",
        &json!({
            "metadata": { "name": "gpu" }, "status": { "allocatable": { "nvidia.com/gpu": "8" } },
        }),
    );
    judge
}

/// What is noted of these pods.
fn noted(pods: impl IntoIterator<Item = Value>) -> Vec<String> {
    let mut judge = judge();
    pods.into_iter().for_each(|pod| judge.apply("Pod", &pod));
    judge.violations()
}

#[test]
fn a_queue_at_any_level_is_not_exceeded() {
    let pods = |count: usize| (0..count).map(|index| pod(&index.to_string(), |_| {}));
    assert_eq!(noted(pods(2)), Vec::<String>::new());
    let violations = noted(pods(3));
    assert!(
        violations[0].contains("\"parent\"") && violations[0].contains("3 of 2"),
        "{violations:?}"
    );
    // One that has ended, and one that is gone, make room.
    let mut judge = judge();
    pods(2).for_each(|pod| judge.apply("Pod", &pod));
    judge.apply("Pod", &pod("0", |pod| pod["status"] = json!({ "phase": "Succeeded" })));
    judge.delete("Pod", &pod("1", |_| {}));
    judge.apply("Pod", &pod("2", |_| {}));
    judge.apply("Pod", &pod("3", |_| {}));
    assert_eq!(judge.violations(), Vec::<String>::new());
}

#[test]
fn results_come_with_the_gates_removal() {
    let gate = |pod: &mut Value| pod["spec"]["schedulingGates"] = json!([{ "name": GATE }]);
    let violations = noted([pod("early", gate)]);
    assert!(violations[0].contains("has results and its gate"), "{violations:?}");
    let violations = noted([pod("late", |pod| pod["metadata"]["annotations"] = json!({}))]);
    assert!(violations[0].contains("let in without results"), "{violations:?}");
    let waits = pod("waits", |pod| {
        gate(pod);
        pod["metadata"]["annotations"] = json!({});
    });
    assert_eq!(noted([waits]), Vec::<String>::new());
}

#[test]
fn an_mgpu_card_is_not_exceeded() {
    let share = |name: &str, card: &str| {
        pod(name, |pod| {
            pod["metadata"]["annotations"] = json!({ "vke.volcengine.com/gpu-index-container-main": card });
            pod["spec"]["nodeName"] = json!("shared");
            pod["spec"]["containers"][0]["resources"]["requests"] = json!({ MGPU_CORE: "60", MGPU_MEMORY: "400" });
        })
    };
    assert_eq!(noted([share("a", "0"), share("b", "1")]), Vec::<String>::new());
    let violations = noted([share("a", "0"), share("b", "0")]);
    assert!(violations[0].contains("120 of 100"), "{violations:?}");
}

#[test]
fn a_gpu_nodes_quota_for_pods_without_gpu_is_not_exceeded() {
    let batch = |name: &str, cores: &str| {
        pod(name, |pod| {
            pod["metadata"]["labels"] = json!({ "card.volcano.sh/crossquota": "enabled" });
            pod["metadata"]["annotations"] = json!({});
            pod["spec"]["nodeName"] = json!("gpu");
            pod["spec"]["containers"][0]["resources"]["requests"] = json!({ "cpu": cores });
        })
    };
    assert_eq!(noted([batch("a", "3500m"), batch("b", "500m")]), Vec::<String>::new());
    let violations = noted([batch("a", "3500m"), batch("b", "1")]);
    assert!(violations[0].contains("4500 of 4000"), "{violations:?}");
}

#[test]
fn a_gang_is_cut_while_some_of_it_are_let_in() {
    let member = |name: &str| {
        pod(name, |pod| {
            pod["metadata"]["annotations"]["scheduling.k8s.io/group-name"] = json!("g");
        })
    };
    let mut judge = judge();
    judge.apply(
        "PodGroup",
        &json!({ "metadata": { "name": "g", "namespace": "team" }, "spec": { "minMember": 2 } }),
    );
    judge.apply("Pod", &member("a"));
    let group = judge.groups.get_mut("team/g").unwrap();
    group.cut_since = group.cut_since.and_then(|since| since.checked_sub(CUT_AT_MOST * 2));
    judge.look_at_the_clock();
    assert!(judge.violations()[0].contains("1 of 2"), "{:?}", judge.violations());
    judge.apply("Pod", &member("b"));
    assert_eq!(judge.groups["team/g"].cut_since, None);
}
