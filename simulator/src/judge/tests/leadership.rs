use crds::keys::{LEADER, NAMESPACE, POLICY_PARAMETERS};
use serde_json::json;

use super::super::leadership::RULE;
use super::history::{History, admit};
use crate::objects::{CONFIG_MAPS, Key, NODES, PODS};

#[test]
fn the_holder_writes_while_its_lease_lasts() {
    let mut history = History::new();
    history.queue("a", 8, &json!({}));
    history.pod("p", "a", 1);
    history.later(15);
    history.change("operator-0", &PODS, "p", admit);
    history.holds();
    history.later(1);
    history.change("scheduler", &PODS, "p", |pod| pod["spec"]["nodeName"] = "n1".into());
    history.holds();
    history.change("operator-0", &NODES, "n1", |node| {
        node["metadata"]["labels"]["x"] = "y".into();
    });
    history.breaks(RULE);
}

#[test]
fn who_stands_by_writes_nothing() {
    let mut history = History::new();
    history.queue("a", 8, &json!({}));
    history.pod("p", "a", 1);
    history.change("operator-1", &PODS, "p", admit);
    history.breaks(RULE);
}

#[test]
fn what_was_sent_in_time_may_arrive_late() {
    let mut history = History::new();
    history.queue("a", 8, &json!({}));
    history.pod("p", "a", 1);
    history.later(15);
    history.objects.sent = Some(history.objects.age);
    history.later(10);
    history.change("operator-0", &PODS, "p", admit);
    history.holds();
}

#[test]
fn who_is_named_to_the_policies_writes_until_another_is() {
    for (named, breaks) in [("operator-0", false), ("operator-1", true)] {
        let mut history = History::new();
        history.queue("a", 8, &json!({}));
        history.pod("p", "a", 1);
        history.create(
            &CONFIG_MAPS,
            json!({"metadata": {"namespace": NAMESPACE, "name": POLICY_PARAMETERS}, "data": {LEADER: "operator-0"}}),
        );
        history.lease("operator-1");
        history
            .objects
            .change(
                &"operator-1".into(),
                &CONFIG_MAPS,
                &Key::new(NAMESPACE, POLICY_PARAMETERS),
                |map| {
                    map["data"][LEADER] = named.into();
                    Ok(())
                },
            )
            .unwrap();
        history.change("operator-0", &PODS, "p", admit);
        history.breaks_where(breaks, RULE);
    }
}
