use serde_json::json;

use super::super::Broken;
use super::super::returns::RULE;
use super::history::History;
use crate::objects::PODS;

/// So many pods of one controller, which are let in and sent back one after the other, so many times in all.
fn judge(pods: usize, times: usize) -> Result<usize, Broken> {
    let mut history = History::new();
    history.queue("a", 8, &json!({}));
    let create = |history: &mut History, number: usize| {
        let name = format!("p-{number}");
        history.pod(&name, "a", 1);
        history.change("user", &PODS, &name, |pod| {
            pod["metadata"]["ownerReferences"] = json!([{"kind": "ReplicaSet", "uid": "web"}]);
        });
    };
    (0..pods).for_each(|number| create(&mut history, number));
    for number in 0..times {
        let name = format!("p-{number}");
        history.admit(&name);
        history.delete("operator-0", &PODS, &name);
        create(&mut history, number + pods);
    }
    history.sent_back()
}

#[test]
fn each_pod_of_a_controller_is_sent_back_nine_times_at_most() {
    assert_eq!(judge(1, 0), Ok(0));
    assert_eq!(judge(1, 9), Ok(9));
    assert_eq!(judge(2, 18), Ok(18));
    for (pods, times) in [(1, 10), (2, 19)] {
        assert_eq!(judge(pods, times).unwrap_err().rule, RULE);
    }
}
