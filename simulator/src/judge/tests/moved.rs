use crds::keys::{CARD_NAME, GROUP_NAME, QUEUE_NAME};
use serde_json::json;

use super::super::shown::RULE as SHOWN;
use super::history::{History, admit, pod};
use crate::objects::{CARD_USAGES, NAMESPACES, POD_GROUPS, PODS};

#[test]
fn whose_a_pod_is_that_names_no_queue_is_not_known_once_its_group_names_another() {
    for is_written in [false, true] {
        let mut history = History::new();
        for (queue, has) in [("a", 1), ("b", 0)] {
            history.queue(queue, 8, &json!({}));
            let cards = json!([{"name": "A100", "quota": 8, "allocated": has}]);
            let shown = json!({"metadata": {"name": queue}, "spec": {"queue": queue}, "status": {"cards": cards}});
            history.create(&CARD_USAGES, shown);
        }
        history.create(
            &POD_GROUPS,
            json!({"metadata": {"namespace": "team", "name": "g"}, "spec": {"minMember": 1, "queue": "a"}, "status": {"phase": "Running"}}),
        );
        let mut runs = pod("p", "a", 1);
        admit(&mut runs);
        runs["spec"]["nodeName"] = "n1".into();
        runs["metadata"]["annotations"][GROUP_NAME] = "g".into();
        if !is_written {
            runs["metadata"]["annotations"]
                .as_object_mut()
                .unwrap()
                .remove(QUEUE_NAME);
        }
        history.create(&PODS, runs);
        history.rests();
        history.change("user", &POD_GROUPS, "g", |group| group["spec"]["queue"] = "b".into());
        history.rests();
        assert_eq!(history.is_account_unseen(), !is_written);
        // An ended pod holds nothing, whatever queue it was charged to.
        history.change("kubelet", &PODS, "p", |pod| pod["status"]["phase"] = "Succeeded".into());
        history.breaks_at_rest(SHOWN);
        assert!(!history.is_account_unseen());
    }
}

#[test]
fn nor_once_its_namespace_names_none_any_more() {
    let mut history = History::new();
    history.queue("a", 8, &json!({}));
    let team = json!({"metadata": {"name": "team", "annotations": {QUEUE_NAME: "a"}}});
    history.create(&NAMESPACES, team);
    let mut runs = pod("p", "a", 1);
    admit(&mut runs);
    runs["spec"]["nodeName"] = "n1".into();
    let annotations = runs["metadata"]["annotations"].as_object_mut().unwrap();
    annotations.remove(QUEUE_NAME);
    annotations.remove(CARD_NAME);
    history.create(&PODS, runs);
    assert!(!history.is_account_unseen());
    history.change("admin", &NAMESPACES, "team", |namespace| {
        namespace["metadata"]["annotations"] = json!({});
    });
    assert!(history.is_account_unseen());
}
