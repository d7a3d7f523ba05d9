//! Evictions: one pod that could not be placed, or all the pods that make room for another one.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use engine::Outcome;
use engine::cluster::reclaims::EvictionOutcome;
use engine::decide::Eviction;
use engine::refs::PodRef;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use kube::api::{ListParams, ObjectList, PostParams, Request};
use kube::{Api, Resource as _, ResourceExt as _};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::tries::{FIRST_WAIT, LONGEST_WAIT};
use super::{Actor, Failure};
use crate::event::Event;
use crate::metrics::{Verb, Write};

/// How many disruption budgets are asked for at once: all of a page is in memory as it came, and anybody may make them as long as objects
/// can be.
const BUDGETS_AT_ONCE: u32 = 20;
/// How many pages of one namespace's are asked for. Where there are more, its pods are taken for protected, as its owner could have them
/// by one budget.
const PAGES_OF_BUDGETS: usize = 50;
/// And for how long each time: whoever is to get what is evicted waits for it, and so do the other victims.
const READING_BUDGETS: Duration = Duration::from_secs(10);

/// How long it is waited before what failed for the moment is asked again: were it taken for an answer, an older pod would be evicted in place
/// of the one whose turn it is.
const PAUSES: [Duration; 3] = [
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(2),
];

/// A pod by its place among others, with its namespace and labels.
type Labelled = (usize, Arc<str>, BTreeMap<String, String>);

/// What is read of a disruption budget, and no more.
#[derive(Debug, Clone, Deserialize)]
struct Budget {
    spec: Option<BudgetSpec>,
    status: Option<BudgetStatus>,
}

#[derive(Debug, Clone, Deserialize)]
struct BudgetSpec {
    selector: Option<LabelSelector>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct BudgetStatus {
    #[serde(default)]
    disruptions_allowed: i32,
}

impl Actor {
    /// Takes an admitted pod back that could not be placed.
    pub fn send_back(&self, pod: PodRef) {
        let actor = self.clone();
        self.runtime.spawn(async move {
            match actor.evict(&pod, false).await {
                Ok(()) => {
                    tracing::info!(pod = %pod, "evicted");
                    actor.tell_of_its_end(&pod).await;
                }
                // By an eviction that was not answered, or by somebody else; the watch has yet to tell.
                Err(failure) if failure.is_gone() => actor.tell_of_its_end(&pod).await,
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

    /// Tells the mind that a pod is on its way out, or gone.
    async fn tell_of_its_end(&self, pod: &PodRef) {
        let outcome = Outcome::Eviction(Arc::clone(&pod.uid), EvictionOutcome::Evicted);
        // The mind is gone only when the program ends.
        let _ = self.events.send(Event::FoundOut(outcome)).await;
    }

    /// Takes pods back for a waiting one, all of them or none; the outcome comes as an event.
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
        // Whether all of it would be allowed: once one is evicted, the others are needed too.
        for place in self.over_budget(&pods).await {
            outcomes[place] = EvictionOutcome::Refused;
        }
        for (place, pod) in pods.iter().enumerate() {
            if outcomes[place] != EvictionOutcome::NotTried {
                continue;
            }
            match patiently(|| self.evict(pod, true)).await {
                // Nobody was asked, so nobody is spared; and nobody goes in place of these.
                Err(failure) if failure.is_passing() => {
                    tracing::warn!(pod = %pod, for_pod = %eviction.waiting, reason = %failure, "not known whether it may be evicted");
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
            match patiently(|| self.evict(pod, false)).await {
                // Neither done nor refused: were it taken for refused, others would be evicted in its place at once. Where nothing comes of
                // it, the pod counts as staying after a minute.
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

    /// The pods that disruption budgets do not allow to evict together. Asked one by one, the API server would allow each.
    async fn over_budget(&self, pods: &[&PodRef]) -> Vec<usize> {
        let mut labelled: Vec<Labelled> = Vec::new();
        for (place, pod) in pods.iter().enumerate() {
            let api = self.pods(pod);
            let look = || self.in_time(Verb::Get, api.get_metadata(&pod.name));
            if let Ok(found) = patiently(look).await {
                labelled.push((place, Arc::clone(&pod.namespace), found.labels().clone()));
            }
        }
        let mut namespaces: Vec<_> = labelled.iter().map(|(_, namespace, _)| Arc::clone(namespace)).collect();
        namespaces.sort_unstable();
        namespaces.dedup();
        let mut refused = Vec::new();
        for namespace in namespaces {
            let here: Vec<_> = labelled.iter().filter(|(_, of, _)| *of == namespace).collect();
            let budgets = || self.refused_by_budgets(&namespace, &here);
            let Ok(here_refused) = patiently(budgets).await else {
                // Whoever can't be asked allows nothing.
                refused.extend(here.iter().map(|(place, ..)| *place));
                continue;
            };
            refused.extend(here_refused);
        }
        refused
    }

    /// Which of these pods the budgets of their namespace do not allow to evict. A failure where there are more than anybody needs, or to
    /// read them takes too long.
    async fn refused_by_budgets(&self, namespace: &str, pods: &[&Labelled]) -> Result<Vec<usize>, Failure> {
        let path = PodDisruptionBudget::url_path(&(), Some(namespace));
        let mut params = ListParams::default().limit(BUDGETS_AT_ONCE);
        let (mut refused, begin) = (Vec::new(), Instant::now());
        for _ in 0..PAGES_OF_BUDGETS {
            if begin.elapsed() >= READING_BUDGETS {
                return Err(Failure::NotSent(
                    "the namespace's disruption budgets take too long to read",
                ));
            }
            let request = Request::new(&*path).list(&params).map_err(kube::Error::BuildRequest);
            let list = async { self.client.request::<ObjectList<Budget>>(request?).await };
            let page = self.in_time(Verb::List, list).await?;
            for budget in page.items {
                let allowed = budget.status.map_or(0, |status| status.disruptions_allowed);
                let selector = budget.spec.and_then(|spec| spec.selector);
                let members = pods
                    .iter()
                    .filter(|(.., labels)| selects(selector.as_ref(), |key| labels.get(key)));
                refused.extend(
                    members
                        .map(|(place, ..)| *place)
                        .skip(usize::try_from(allowed).unwrap_or(0)),
                );
            }
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params.continue_token = Some(token),
                None => return Ok(refused),
            }
        }
        Err(Failure::NotSent(
            "the namespace has more disruption budgets than are asked for",
        ))
    }

    /// Takes an admitted pod back through the Eviction API, so that its controller can tell it from a failure, and that
    /// disruption budgets are respected.
    async fn evict(&self, pod: &PodRef, only_ask: bool) -> Result<(), Failure> {
        let mut wait = FIRST_WAIT;
        loop {
            match self.evict_once(pod, only_ask).await {
                // Nobody has looked at the pod: to take that for an answer would spare it for minutes.
                Err(Failure::ForWhoAsked(_)) if wait < LONGEST_WAIT => sleep(wait).await,
                answer => return answer,
            }
            wait *= 2;
        }
    }

    async fn evict_once(&self, pod: &PodRef, only_ask: bool) -> Result<(), Failure> {
        if !self.leadership.holds() {
            return Err(Failure::NotSent("no longer the leader"));
        }
        // Not by kube's own `evict`: it writes the options under a name that the API server does not read.
        let eviction = json!({
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": { "name": &*pod.name, "namespace": &*pod.namespace },
            "deleteOptions": { "preconditions": { "uid": &*pod.uid } },
        });
        let params = PostParams {
            dry_run: only_ask,
            ..PostParams::default()
        };
        if !only_ask {
            self.metrics.api_write(Write::Eviction);
        }
        let api: Api<Pod> = self.pods(pod);
        let request = api.create_subresource::<_, IgnoredAny>("eviction", &pod.name, &params, &eviction);
        self.in_time(Verb::Create, request).await.map(|_| ())
    }
}

/// Asks again what failed for the moment.
async fn patiently<T, F: Future<Output = Result<T, Failure>>>(ask: impl Fn() -> F) -> Result<T, Failure> {
    for pause in PAUSES {
        match ask().await {
            Err(failure) if failure.is_passing() => sleep(pause).await,
            answer => return answer,
        }
    }
    ask().await
}

/// Whether a label selector selects; none selects nothing, as in Kubernetes.
fn selects<'l>(selector: Option<&LabelSelector>, label: impl Fn(&str) -> Option<&'l String>) -> bool {
    let Some(selector) = selector else { return false };
    let mut labels = selector.match_labels.iter().flatten();
    let mut expressions = selector.match_expressions.iter().flatten();
    labels.all(|(key, value)| label(key) == Some(value)) && expressions.all(|one| matches(one, label(&one.key)))
}

fn matches(requirement: &LabelSelectorRequirement, value: Option<&String>) -> bool {
    let is_listed = value.is_some_and(|value| requirement.values.iter().flatten().any(|listed| listed == value));
    match requirement.operator.as_str() {
        "In" => is_listed,
        "NotIn" => !is_listed,
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        // What a later Kubernetes may add protects rather than not.
        _ => true,
    }
}

#[cfg(test)]
mod tests;
