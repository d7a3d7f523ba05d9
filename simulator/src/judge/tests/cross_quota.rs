use crds::keys::{CROSS_QUOTA_ENABLED, CROSS_QUOTA_LABEL, GATE};
use serde_json::json;

use super::super::cross_quota::RULE;
use super::history::History;
use crate::objects::{NODES, PODS};

fn history(arguments: &str) -> History {
    let mut history = History::new();
    history.configure(&format!(
        "tiers: [{{plugins: [{{name: crossquota, arguments: {{gpu-resource-names: 'nvidia.com/gpu', quota-resources: 'cpu,memory', {arguments}}}}}]}}]"
    ));
    history.later(60);
    history
}

/// A pod of so many CPUs that is placed on the GPU node.
fn place(history: &mut History, name: &str, cpu: u32) {
    history.create(
        &PODS,
        json!({
            "metadata": {"namespace": "team", "name": name, "labels": {CROSS_QUOTA_LABEL: CROSS_QUOTA_ENABLED}},
            "spec": {
                "schedulingGates": [{"name": GATE}],
                "containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}],
            },
        }),
    );
    history.lease("operator-0");
    history.change("operator-0", &PODS, name, |pod| {
        pod["spec"].as_object_mut().unwrap().remove("schedulingGates");
        let field = json!({"key": "metadata.name", "operator": "In", "values": ["n1"]});
        let required = json!({"nodeSelectorTerms": [{"matchFields": [field]}]});
        pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] = required;
    });
}

#[test]
fn the_quota_of_the_node_holds_for_what_is_placed_and_what_is_there() {
    let mut history = history("quota.cpu: '8'");
    place(&mut history, "p", 4);
    place(&mut history, "q", 4);
    history.holds();
    place(&mut history, "r", 1);
    assert!(history.breaks(RULE).what.contains("9000 of 8000"));
}

#[test]
fn the_nodes_own_annotation_goes_first_and_a_bad_one_is_passed_over() {
    for (text, cpu) in [("6", 6), ("x", 8)] {
        let mut history = history("quota-percentage.cpu: '12.5'");
        history.change("user", &NODES, "n1", |node| {
            node["metadata"]["annotations"] = json!({"volcano.sh/crossquota-cpu": text});
        });
        history.later(60);
        place(&mut history, "p", cpu);
        history.holds();
        place(&mut history, "q", 1);
        history.breaks(RULE);
    }
}

/// Found with seed 23558: the scheduler had placed the pod two milliseconds before, and the operator's configuration was
/// older than that.
#[test]
fn who_was_bound_just_now_counts_once_it_can_be_known() {
    for (seconds, is_known) in [(5, false), (20, true)] {
        let mut history = history("quota.cpu: '8'");
        let containers = json!([{"name": "main", "resources": {"requests": {"cpu": 5}}}]);
        let elsewhere = json!({"metadata": {"namespace": "team", "name": "free"}, "spec": {"containers": containers}});
        history.create(&PODS, elsewhere);
        history.later(60);
        history.change("scheduler", &PODS, "free", |pod| pod["spec"]["nodeName"] = "n1".into());
        history.later(seconds);
        place(&mut history, "p", 4);
        history.breaks_where(is_known, RULE);
    }
}
