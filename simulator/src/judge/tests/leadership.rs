use serde_json::json;

use super::super::leadership::RULE;
use super::history::{History, admit};
use crate::objects::{NODES, PODS};

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
