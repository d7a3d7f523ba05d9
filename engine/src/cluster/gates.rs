//! The scheduling gates of a pod.

use crds::keys::GATE;
use crds::pod::{PodSpec, SchedulingGate};

/// The most gates that are named to people. Kubernetes limits the length of each name, but not the number of gates.
const MOST_NAMES: usize = 3;

/// Whose gates hold a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Gates {
    /// Nothing keeps it from the scheduler.
    None,
    /// Only Cardgate keeps it from the scheduler.
    Own,
    /// A gate of somebody else keeps it from the scheduler, with or without Cardgate's.
    Foreign,
}

impl Gates {
    /// Returns whose gates hold a pod.
    pub fn of(spec: &PodSpec<Box<str>>) -> Self {
        match spec.scheduling_gates.as_slice() {
            [] => Self::None,
            [gate] if gate.name.as_deref() == Some(GATE) => Self::Own,
            _ => Self::Foreign,
        }
    }
}

/// Returns the gates that have to be kept of a pod to give the same answers again: Cardgate's own, and of other gates no
/// more than are named.
pub(super) fn to_keep(spec: &PodSpec<Box<str>>) -> Vec<SchedulingGate<Box<str>>> {
    let is_own = |gate: &&SchedulingGate<Box<str>>| gate.name.as_deref() == Some(GATE);
    let own = spec.scheduling_gates.iter().filter(is_own).take(1);
    let others = spec.scheduling_gates.iter().filter(|gate| !is_own(gate));
    own.chain(others.take(MOST_NAMES + 1)).cloned().collect()
}

/// Returns the names of the gates of others that hold a pod, as the pod is told; none where no such gate does.
pub(super) fn others_named(spec: &PodSpec<Box<str>>) -> Option<Box<str>> {
    let others = spec.scheduling_gates.iter().filter_map(|gate| gate.name.as_deref());
    let others: Vec<_> = others.filter(|name| *name != GATE).collect();
    let more = if others.len() > MOST_NAMES { ", ..." } else { "" };
    let names = others[..others.len().min(MOST_NAMES)].join(", ");
    (!others.is_empty()).then(|| format!("{names}{more}").into())
}
