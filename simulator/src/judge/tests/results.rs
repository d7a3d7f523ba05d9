use crds::keys::{CARD_ASSIGNED, GATE};
use serde_json::json;

use super::super::results::{RULE, SAY};
use super::history::{History, admit};
use crate::objects::PODS;

fn history() -> History {
    let mut history = History::new();
    history.queue("a", 8, &json!({}));
    history.pod("p", "a", 1);
    history
}

#[test]
fn a_result_with_the_gates_removal_is_as_it_must_be() {
    let mut history = history();
    history.admit("p");
    history.change("operator-0", &PODS, "p", |pod| pod["status"]["conditions"] = json!([]));
    history.holds();
}

#[test]
fn a_card_that_is_written_before_or_after_is_found() {
    let mut before = history();
    before.change("operator-0", &PODS, "p", |pod| {
        pod["metadata"]["annotations"][CARD_ASSIGNED] = "A100".into();
    });
    before.breaks(RULE);
    let mut after = history();
    after.admit("p");
    after.change("operator-0", &PODS, "p", |pod| {
        pod["metadata"]["annotations"][CARD_ASSIGNED] = "H100".into();
    });
    after.breaks(RULE);
}

#[test]
fn a_pod_without_its_card_or_without_narrowing_is_found() {
    let mut without = history();
    without.change("operator-0", &PODS, "p", |pod| {
        pod["spec"].as_object_mut().unwrap().remove("schedulingGates");
    });
    without.breaks(SAY);
    let mut wide = history();
    wide.change("operator-0", &PODS, "p", |pod| {
        admit(pod);
        pod["spec"]["nodeSelector"] = json!({});
    });
    wide.breaks(SAY);
    let mut other = history();
    other.change("operator-0", &PODS, "p", |pod| {
        admit(pod);
        pod["metadata"]["annotations"][CARD_ASSIGNED] = "H100".into();
    });
    other.breaks(SAY);
}

#[test]
fn another_controllers_gate_is_no_business_of_ours() {
    let mut history = history();
    history.change("user", &PODS, "p", |pod| {
        pod["spec"]["schedulingGates"] = json!([{"name": GATE}, {"name": "other"}]);
    });
    history.change("operator-0", &PODS, "p", admit);
    history.breaks(RULE);
}
