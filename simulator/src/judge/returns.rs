//! A pod that is let in without a node that takes it (`admitOn: quota`) is sent back, and its successor stands aside for
//! ever longer times. So an unchanged world comes to rest for a while again and again, though never for good.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::pods::is_held;
use super::stored::ByKind;
use super::{Broken, broken, is_operator};
use crate::objects::{PODS, Write};

/// The rule.
pub const RULE: &str = "who is sent back stays away for ever longer times";

/// How often a pod and its successors are sent back within three hours at most. Each waits twice as long as the one before,
/// from 30 seconds to an hour, and then as long as the scheduler has.
const MOST: usize = 9;

/// Returns how often, by these writes, pods were sent back that their controllers replace, in a world that only operators
/// change.
pub fn judge(writes: &[Write], now: &ByKind) -> Result<usize, Broken> {
    let mut by_controller = BTreeMap::<&str, usize>::new();
    for write in writes.iter().filter(|write| is_one(write)) {
        if let Some(controller) = write.before.as_deref().and_then(controller) {
            *by_controller.entry(controller).or_default() += 1;
        }
    }
    for (uid, times) in &by_controller {
        let pods = now.get(&PODS).into_iter().flatten();
        let its = pods.filter(|(_, pod)| controller(pod) == Some(uid)).count();
        if *times > MOST * its.max(1) {
            broken(
                RULE,
                format!("{times} pods of {uid} were sent back, of which there are {its}"),
            )?;
        }
    }
    Ok(by_controller.values().sum())
}

/// Whether an operator evicts a pod that it has let in, and that has no node.
fn is_one(write: &Write) -> bool {
    let is_going = |pod: &Arc<Value>| pod["metadata"]["deletionTimestamp"].is_string();
    let goes = write.after.as_ref().is_none_or(is_going);
    let is_unbound = |pod: &Arc<Value>| !is_going(pod) && !is_held(pod) && pod["spec"]["nodeName"].is_null();
    is_operator(&write.who) && write.resource == &PODS && goes && write.before.as_ref().is_some_and(is_unbound)
}

/// Returns the unique id of a pod's controller.
fn controller(pod: &Value) -> Option<&str> {
    pod["metadata"]["ownerReferences"][0]["uid"].as_str()
}
