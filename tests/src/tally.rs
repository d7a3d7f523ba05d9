//! Where a workload's pods are: on which cards they run, and why the others wait.

use std::collections::BTreeMap;
use std::fmt::{Display, Formatter};
use std::time::Duration;

use anyhow::Result;
use crds::card_assigned::AssignedCards;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::runtime::watcher;
use kube::{Api, ResourceExt};

use crate::controlplane::ControlPlane;
use crate::wait::{self, Seen};
use crate::workloads::APP;

/// Stands for the card of a running pod that was charged for none.
pub const NO_CARD: &str = "no card";

/// The pods of one workload, counted. Pods that are over are left out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    running: BTreeMap<String, usize>,
    waiting: BTreeMap<String, usize>,
    elsewhere: BTreeMap<String, usize>,
}

impl Tally {
    /// Nothing at all.
    pub fn none() -> Self {
        Self::default()
    }

    /// Adds pods that run on a card, by what `volcano.sh/card.assigned` says, however many it says of that; see [`NO_CARD`].
    #[must_use]
    pub fn running(mut self, card: &str, count: usize) -> Self {
        self.running.insert(card.to_owned(), count);
        self
    }

    /// Adds pods that wait behind Cardgate's gate, by the reason that their condition gives.
    #[must_use]
    pub fn waiting(mut self, reason: &str, count: usize) -> Self {
        self.waiting.insert(reason.to_owned(), count);
        self
    }

    /// Counts these pods.
    pub fn of<'a>(pods: impl IntoIterator<Item = &'a Pod>) -> Self {
        let mut tally = Self::default();
        for pod in pods {
            let phase = pod
                .status
                .as_ref()
                .and_then(|status| status.phase.as_deref())
                .unwrap_or("no phase");
            let (kind, key) = match phase {
                _ if pod.metadata.deletion_timestamp.is_some() => (&mut tally.elsewhere, "being deleted".to_owned()),
                "Succeeded" | "Failed" => continue,
                "Running" => {
                    let card = pod.annotations().get(crds::keys::CARD_ASSIGNED);
                    (
                        &mut tally.running,
                        card.map_or_else(|| NO_CARD.to_owned(), |card| name_of(card)),
                    )
                }
                _ if is_gated(pod) => match waiting_reason(pod) {
                    Some(reason) => (&mut tally.waiting, reason.to_owned()),
                    None => (&mut tally.elsewhere, "gated without a reason".to_owned()),
                },
                other => (&mut tally.elsewhere, other.to_owned()),
            };
            *kind.entry(key).or_default() += 1;
        }
        tally
    }
}

/// The card that a pod was let in for, where it is one; else all that is written.
fn name_of(assigned: &str) -> String {
    match AssignedCards::parse(assigned) {
        AssignedCards::Counted(counts) => match &counts[..] {
            [] => NO_CARD.to_owned(),
            [(card, _)] => card.clone(),
            _ => assigned.to_owned(),
        },
        AssignedCards::One(card) => card,
    }
}

impl Display for Tally {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let parts = [
            ("running", &self.running),
            ("waiting", &self.waiting),
            ("elsewhere", &self.elsewhere),
        ];
        let mut texts = parts.into_iter().filter(|(_, counts)| !counts.is_empty());
        match texts.next() {
            None => write!(f, "no pods")?,
            Some((name, counts)) => write!(f, "{name} {counts:?}")?,
        }
        texts.try_for_each(|(name, counts)| write!(f, ", {name} {counts:?}"))
    }
}

/// Whether Cardgate's gate is on the pod.
pub fn is_gated(pod: &Pod) -> bool {
    let gates = pod
        .spec
        .as_ref()
        .and_then(|spec| spec.scheduling_gates.as_deref())
        .unwrap_or_default();
    gates.iter().any(|gate| gate.name == crds::keys::GATE)
}

/// The reason of the condition that says that the pod waits for admission.
pub fn waiting_reason(pod: &Pod) -> Option<&str> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let admitted = conditions
        .iter()
        .find(|condition| condition.type_ == crds::keys::ADMITTED_CONDITION)?;
    admitted.reason.as_deref().filter(|_| admitted.status == "False")
}

impl ControlPlane {
    /// Waits until the pods with this label `app` are where they are expected.
    pub async fn await_pods(&self, namespace: &str, app: &str, expected: &Tally) -> Result<()> {
        let pods: Api<Pod> = Api::namespaced(self.client().await?, namespace);
        let selection = watcher::Config::default().labels(&format!("{APP}={app}"));
        wait::objects(&pods, selection, format!("{app}: {expected}"), |pods| {
            let tally = Tally::of(pods.iter().copied());
            Seen::when(tally == *expected, tally.to_string())
        })
        .await
    }

    /// Looks for this long whether the pods with this label `app` stay where they are.
    pub async fn pods_stay(&self, namespace: &str, app: &str, expected: &Tally, time: Duration) -> Result<()> {
        let pods: Api<Pod> = Api::namespaced(self.client().await?, namespace);
        let selection = ListParams::default().labels(&format!("{APP}={app}"));
        wait::holds(format!("{app}: {expected}"), time, async || {
            let tally = Tally::of(&pods.list(&selection).await?.items);
            Ok(Seen::when(tally == *expected, tally.to_string()))
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn pods_count_by_card_by_reason_and_else_by_what_they_do() {
        let pod = |gated: bool, status: serde_json::Value| -> Pod {
            let gates = if gated {
                json!([{ "name": crds::keys::GATE }])
            } else {
                json!([])
            };
            let annotations = json!({ crds::keys::CARD_ASSIGNED: "NVIDIA-A100" });
            let metadata = json!({ "annotations": if gated { json!({}) } else { annotations } });
            let object = json!({ "metadata": metadata, "spec": { "containers": [], "schedulingGates": gates }, "status": status });
            serde_json::from_value(object).unwrap()
        };
        let condition = |status: &str| json!({ "type": crds::keys::ADMITTED_CONDITION, "status": status, "reason": "QueueNotFound" });
        let pods = [
            pod(false, json!({ "phase": "Running" })),
            pod(false, json!({ "phase": "Pending" })),
            pod(false, json!({ "phase": "Succeeded" })),
            pod(true, json!({ "phase": "Pending", "conditions": [condition("False")] })),
            pod(true, json!({ "phase": "Pending", "conditions": [condition("True")] })),
        ];
        let tally = Tally::of(&pods);
        assert_eq!(
            tally.to_string(),
            r#"running {"NVIDIA-A100": 1}, waiting {"QueueNotFound": 1}, elsewhere {"Pending": 1, "gated without a reason": 1}"#
        );
        assert_eq!(Tally::of(&pods[..1]), Tally::none().running("NVIDIA-A100", 1));
        assert_eq!(Tally::none().to_string(), "no pods");
    }
}
