use serde_json::json;

use super::history::{History, admit, pod};
use crate::objects::PODS;

#[test]
fn where_a_pod_is_expected_that_is_bound_nowhere_and_pinned_nowhere_is_known_to_the_operator_alone() {
    let pinned = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]},
    ]}}});
    for (is_pinned, is_over) in [(false, false), (true, false), (false, true)] {
        let mut history = History::new();
        history.queue("a", 8, &json!({}));
        history.create(&PODS, pod("p", "a", 1));
        assert!(!history.is_more_known_than_seen());
        history.change("operator-0", &PODS, "p", |pod| {
            admit(pod);
            if is_pinned {
                pod["spec"]["affinity"] = pinned.clone();
            }
            if is_over {
                pod["status"]["phase"] = "Succeeded".into();
            }
        });
        assert_eq!(history.is_more_known_than_seen(), !is_pinned && !is_over);
        history.change("scheduler", &PODS, "p", |pod| pod["spec"]["nodeName"] = "n1".into());
        assert!(!history.is_more_known_than_seen());
    }
}
