//! A pod is let in by the single write that removes Cardgate's gate.

use std::collections::BTreeSet;
use std::iter;

use k8s_openapi::jiff::Timestamp;

use super::moved::Moved;
use super::pods::{Pod, is_held};
use super::stored::{ByKind, Stored};
use super::view::View;
use super::{Finding, claims, cross_quota, places, quota, results, shares};
use crate::objects::{Key, Write};

/// Whether a write lets a pod in.
pub fn is_one(write: &Write) -> bool {
    let (Some(before), Some(after)) = (&write.before, &write.after) else {
        return false;
    };
    is_held(before) && !is_held(after)
}

/// Judges an admission by what was stored: by what is stored now, else by what others changed since. Pods are left out if it
/// is not known which queue they belong to.
pub fn judge(write: &Write, stored: &Stored, moved: &Moved, since: Timestamp) -> Finding {
    let mut first = None;
    let Some(pod) = write.after.as_ref().map(|pod| Pod::read(&write.key, pod)) else {
        return Ok(());
    };
    let overtaken = stored.let_in_since(write.sent);
    for known in stored.known() {
        let unheard = stored.unheard().into_iter().chain(moved.pods());
        let unheard: BTreeSet<&Key> = unheard.filter(|key| **key != write.key).collect();
        for without in [BTreeSet::new(), unheard] {
            for at in iter::once(write.at).chain(stored.ahead_of(write.at)) {
                let by_kept = |known: &ByKind| by_what_is_kept(known, (write, at), &pod, (&without, &overtaken));
                // A pod that leaves frees what is guaranteed to its queue, or takes along what its node no longer has.
                let earlier = |broken| {
                    stored
                        .before_the_last_went(&known)
                        .map_or(Err(broken), |known| by_kept(&known))
                };
                let finding =
                    by_these(&known, (write, at), &pod, &without).and_then(|()| by_kept(&known).or_else(earlier));
                match finding {
                    Ok(()) => return Ok(()),
                    Err(broken) => first.get_or_insert(broken),
                };
            }
        }
    }
    debug_assert!(since <= write.at, "what is looked back at is past");
    first.map_or(Ok(()), Err)
}

fn by_these(known: &ByKind, (write, at): (&Write, Timestamp), pod: &Pod, without: &BTreeSet<&Key>) -> Finding {
    // A configuration that can't be put in force leaves the former one in force. A past state has that one, or none does.
    let Some(view) = View::read_with(known, at, without, Some(pod)) else {
        return Ok(());
    };
    results::fit(&view, write)?;
    quota::judge_limits(&view, &write.key)?;
    claims::judge(&view, &write.key)?;
    shares::judge(&view, &write.key)?;
    places::judge(&view, &write.key)?;
    cross_quota::judge(&view, &write.key)
}

/// A pod that may use its queue's guarantee may get it in spite of what others were given before. So the pod is also judged
/// without the pods that were let in after it, and whose admission has overtaken its own.
fn by_what_is_kept(
    known: &ByKind,
    (write, at): (&Write, Timestamp),
    pod: &Pod,
    (without, overtaken): (&BTreeSet<&Key>, &BTreeSet<&Key>),
) -> Finding {
    let judge = |without: &BTreeSet<&Key>| {
        let view = View::read_with(known, at, without, Some(pod));
        view.map_or(Ok(()), |view| quota::judge_kept(&view, &write.key))
    };
    let finding = judge(without);
    if finding.is_err() && !overtaken.is_empty() {
        return judge(&without.union(overtaken).copied().collect());
    }
    finding
}
