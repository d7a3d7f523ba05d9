//! What a request may cost that is as long as requests can be: an answer that says what is too much, and is short.

#![allow(clippy::unwrap_used, reason = "part of tests")]

mod common;

use crds::keys::{MGPU_INDEX_PREFIX, QUEUE_NAME};
use serde_json::{Value, json};

use common::{World, pod};

/// What the API server passes on of all warnings of an answer.
const PASSED_ON: usize = 4096;

/// A pod that brings along so many results of an admission.
fn with_results(count: usize, queue: Option<&str>) -> Value {
    let mut pod = pod(&[], &[]);
    let annotations = &mut pod["metadata"]["annotations"];
    for index in 0..count {
        annotations[format!("{MGPU_INDEX_PREFIX}{index:04}")] = json!("");
    }
    if let Some(queue) = queue {
        annotations[QUEUE_NAME] = json!(queue);
    }
    pod
}

#[test]
fn an_answer_has_as_many_warnings_as_are_passed_on_and_says_how_many_more_there_are() {
    for (count, shown, last) in [
        (15, 15, "was removed"),
        (16, 16, "was removed"),
        (17, 16, "2 more like these are not shown: mend these first"),
        (64, 16, "49 more like these are not shown: mend these first"),
    ] {
        let verdict = World::new().create_pod(&with_results(count, None));
        let warnings = verdict.allowed();
        assert_eq!(warnings.len(), shown, "{warnings:?}");
        assert!(warnings.last().unwrap().contains(last), "{warnings:?}");
        assert!(warnings.concat().len() <= PASSED_ON);
    }
}
