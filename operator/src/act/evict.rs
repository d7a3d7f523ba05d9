//! Evictions: of one pod that could not be placed, or of all the pods that make room for another pod.

mod budgets;

use std::sync::Arc;
use std::time::Duration;

use engine::Outcome;
use engine::cluster::reclaims::EvictionOutcome;
use engine::decide::Eviction;
use engine::happening::Happening;
use engine::refs::PodRef;
use futures::{Stream, StreamExt as _, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::PostParams;
use kube::core::Status;
use serde::de::IgnoredAny;
use serde_json::json;
use tokio::time::sleep;

pub(super) use self::budgets::Budgets;
use super::tries::{FIRST_WAIT, LONGEST_WAIT};
use super::{Actor, Failure};
use crate::event::Event;
use crate::metrics::{Verb, Write};

/// The pauses before a request that failed for the moment is sent again. If such a failure were taken for an answer, an older pod would be
/// evicted in place of the pod whose turn it is.
const PAUSES: [Duration; 3] = [
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(2),
];

/// About how many pods the API server is asked at once, for one set of pods that are evicted together. A gang may have hundreds of pods, and
/// the answers have to be there before the engine takes the evictions for failed and chooses other pods.
const ASKED_AT_ONCE: usize = 16;

/// How a pod is evicted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    /// A dry run: only asks whether the pod may be evicted.
    DryRun,
    /// With the grace period that the pod itself specifies.
    Gracefully,
    /// With a second of grace. The pod has only just begun with more than it was admitted for, and would otherwise keep that for as long
    /// as it specifies itself.
    Briefly,
    /// Likewise, but only if the pod has no node. The pod is read before: the scheduler may have placed it since the watches last told.
    Unplaced {
        /// Whether the eviction fails if anybody has written the pod since it was read. Then a pod that the scheduler places in between is
        /// not evicted.
        as_read: bool,
    },
}

impl Actor {
    /// Evicts an admitted pod that could not be placed, unless it has been by now, or a pod that has other claims than it was admitted with.
    /// An event then tells that it was evicted, with `reason` and `message`.
    pub fn send_back(&self, pod: PodRef, reason: Happening, message: String) {
        let actor = self.clone();
        // Pods that are sent back for another reason may run.
        let how = match reason {
            Happening::ReservationTimeout => How::Unplaced { as_read: true },
            _ => How::Briefly,
        };
        self.runtime.spawn(async move {
            match actor.evict_until_answered(&pod, how).await {
                Ok(()) => {
                    tracing::info!(pod = %pod, "evicted");
                    // The mind is gone only when the program ends.
                    let _ = actor.events.send(Event::SentBack(pod, reason, message)).await;
                }
                // Somebody else has removed it, and the watch has not told so yet.
                Err(failure) if failure.is_gone() => actor.tell_of_its_end(&pod).await,
                Err(Failure::NotSent(reason)) => tracing::info!(pod = %pod, reason, "not evicted"),
                Err(failure) => {
                    tracing::warn!(pod = %pod, reason = %failure, "not evicted, trying again later");
                    if !failure.is_passing()
                        && let Failure::Api(status) = failure
                    {
                        // The mind is gone only when the program ends.
                        let _ = actor.events.send(Event::NotSentBack(pod, status.message)).await;
                    }
                }
            }
        });
    }

    /// Evicts a pod that is to end at once. If a try without an answer may have evicted the pod, and the next try finds it gone, it counts
    /// as evicted.
    async fn evict_until_answered(&self, pod: &PodRef, how: How) -> Result<(), Failure> {
        let mut may_be_done = false;
        let mut pauses = PAUSES.into_iter();
        loop {
            let Err(failure) = self.evict(pod, how).await else {
                return Ok(());
            };
            if failure.is_gone() && may_be_done {
                return Ok(());
            }
            may_be_done |= failure.may_be_done();
            let is_asked_again = failure.may_be_done() || failure.is_passing();
            match pauses.next() {
                Some(pause) if is_asked_again => sleep(pause).await,
                None if matches!(failure, Failure::Rewritten(_)) => {
                    // A tenant that writes its pod again and again would otherwise keep the pod, and its quota, for ever.
                    return self.evict(pod, How::Unplaced { as_read: false }).await;
                }
                _ => return Err(failure),
            }
        }
    }

    /// Tells the mind that a pod is on its way out, or gone.
    async fn tell_of_its_end(&self, pod: &PodRef) {
        let outcome = Outcome::Eviction(Arc::clone(&pod.uid), EvictionOutcome::Evicted);
        // The mind is gone only when the program ends.
        let _ = self.events.send(Event::FoundOut(outcome)).await;
    }

    /// Evicts the pods that make room for a waiting pod, all of them or none; the outcomes come as an event.
    pub fn evict_for(&self, eviction: Eviction) {
        let actor = self.clone();
        self.runtime.spawn(async move {
            let outcomes = actor.evict_all(&eviction).await;
            // The mind is gone only when the program ends.
            let _ = actor.events.send(Event::Evictions(Box::new(eviction), outcomes)).await;
        });
    }

    async fn evict_all(&self, eviction: &Eviction) -> Vec<EvictionOutcome> {
        let pods: Vec<_> = eviction.victims.iter().map(|victim| &victim.pod).collect();
        let mut outcomes = vec![EvictionOutcome::NotTried; pods.len()];
        // Where the API server has no time to look at a pod, the pod is not marked as refused, no other pods are evicted in place of these, and
        // the rest of them need not be asked about.
        let note_unknown = |pod: &PodRef, failure: &Failure| {
            tracing::warn!(pod = %pod, for_pod = %eviction.waiting, reason = %failure, "not known whether it may be evicted");
        };
        // First find out whether all evictions would be allowed: once one pod is evicted, the others are needed too.
        match self.over_budget(&pods).await {
            Ok(refused) => refused
                .into_iter()
                .for_each(|place| outcomes[place] = EvictionOutcome::Refused),
            Err((pod, failure)) => {
                note_unknown(pod, &failure);
                return outcomes;
            }
        }
        let within_budget = (0..pods.len()).filter(|place| outcomes[*place] == EvictionOutcome::NotTried);
        let asked = within_budget.map(|place| {
            let pod = pods[place];
            async move { (place, pod, patiently(|| self.evict(pod, How::DryRun)).await) }
        });
        let mut answers = some_at_once(asked.collect());
        while let Some((place, pod, answer)) = answers.next().await {
            match answer {
                Err(failure) if failure.is_passing() => {
                    note_unknown(pod, &failure);
                    return outcomes;
                }
                Err(failure) if !failure.is_gone() => {
                    tracing::info!(pod = %pod, for_pod = %eviction.waiting, reason = %failure, "may not be evicted");
                    outcomes[place] = EvictionOutcome::Refused;
                }
                _ => {}
            }
        }
        if outcomes.contains(&EvictionOutcome::Refused) {
            return outcomes;
        }
        for (place, pod) in pods.iter().enumerate() {
            match patiently(|| self.evict(pod, How::Gracefully)).await {
                // The eviction is neither done nor refused. If it counted as refused, other pods would be evicted in its place at once. If
                // it has no effect, the pod counts as staying after a minute.
                Err(Failure::Other(failure)) => {
                    tracing::warn!(pod = %pod, for_pod = %eviction.waiting, reason = %failure, "no answer to its eviction");
                    outcomes[place] = EvictionOutcome::Evicted;
                }
                Err(failure) if failure.is_passing() => {
                    tracing::warn!(pod = %pod, for_pod = %eviction.waiting, reason = %failure, "no time for its eviction");
                    outcomes[place] = EvictionOutcome::Evicted;
                }
                Err(failure) if !failure.is_gone() => {
                    tracing::warn!(pod = %pod, for_pod = %eviction.waiting, reason = %failure, "not evicted");
                    outcomes[place] = EvictionOutcome::Refused;
                    break;
                }
                _ => {
                    tracing::info!(pod = %pod, for_pod = %eviction.waiting, queue = %eviction.queue, "evicted");
                    outcomes[place] = EvictionOutcome::Evicted;
                }
            }
        }
        outcomes
    }

    /// Evicts an admitted pod through the Eviction API, so that its controller can tell the eviction from a failure, and disruption budgets
    /// are respected.
    async fn evict(&self, pod: &PodRef, how: How) -> Result<(), Failure> {
        let mut wait = FIRST_WAIT;
        loop {
            match self.evict_once(pod, how).await {
                // The API server has not looked at the pod. If that were taken for an answer, the pod would be spared for minutes.
                Err(Failure::AboutRequester(_)) if wait < LONGEST_WAIT => sleep(wait).await,
                answer => return answer,
            }
            wait *= 2;
        }
    }

    async fn evict_once(&self, pod: &PodRef, how: How) -> Result<(), Failure> {
        let mut preconditions = json!({ "uid": &*pod.uid });
        if let How::Unplaced { as_read } = how {
            let version = self.version_without_node(pod).await?;
            if as_read {
                preconditions["resourceVersion"] = json!(version);
            }
        }
        if !self.leadership.holds() {
            return Err(Failure::NotSent("no longer the leader"));
        }
        // kube's own `evict` is not used: it writes the options under a name that the API server does not read.
        let mut eviction = json!({
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": { "name": &*pod.name, "namespace": &*pod.namespace },
            "deleteOptions": { "preconditions": preconditions },
        });
        if matches!(how, How::Briefly | How::Unplaced { .. }) {
            eviction["deleteOptions"]["gracePeriodSeconds"] = 1.into();
        }
        let params = PostParams {
            dry_run: how == How::DryRun,
            ..PostParams::default()
        };
        if how != How::DryRun {
            self.metrics.api_write(Write::Eviction);
        }
        let api: Api<Pod> = self.pods(pod);
        let request = api.create_subresource::<_, IgnoredAny>("eviction", &pod.name, &params, &eviction);
        match self.in_time(Verb::Create, request).await {
            // The pod is no longer as it was read: the scheduler may have placed it in between.
            Err(Failure::Api(status)) if how == (How::Unplaced { as_read: true }) && status.code == 409 => {
                Err(Failure::Rewritten(status.message))
            }
            answer => answer.map(|_| ()),
        }
    }

    /// Returns the resource version of a pod that has no node. Fails if it has one by now, or is gone, or cannot be read.
    async fn version_without_node(&self, pod: &PodRef) -> Result<Option<Box<str>>, Failure> {
        match self.pod(pod).await {
            Ok(found) if found.metadata.uid.as_deref() != Some(&*pod.uid) => {
                let gone = Status::failure("another pod has its name", "NotFound").with_code(404);
                Err(Failure::of(gone))
            }
            Ok(found) if found.spec.node_name.is_some() => Err(Failure::NotSent("it has a node by now")),
            Ok(found) => Ok(found.metadata.resource_version),
            // It was not answered what the pod is like, and its eviction was not asked for.
            Err(failure) if failure.may_be_done() => Err(Failure::LookAgain(failure.to_string())),
            Err(failure) => Err(failure),
        }
    }
}

/// Sends these requests, of which [`ASKED_AT_ONCE`] are on their way at once. Returns the results in the same order.
fn some_at_once<T, F: Future<Output = T>>(requests: Vec<F>) -> impl Stream<Item = T> + Unpin {
    stream::iter(requests).buffered(ASKED_AT_ONCE)
}

/// Sends a request again, after pauses, as long as it fails for the moment.
async fn patiently<T, F: Future<Output = Result<T, Failure>>>(ask: impl Fn() -> F) -> Result<T, Failure> {
    for pause in PAUSES {
        match ask().await {
            Err(failure) if failure.is_passing() => sleep(pause).await,
            answer => return answer,
        }
    }
    ask().await
}

#[cfg(test)]
pub(super) mod tests;
