//! Disruption budgets: finds the pods that budgets do not allow to evict together. If the API server were asked for one pod after the
//! other, it would allow each.
//!
//! Tenants write budgets and labels, as many and as long as objects can be. If those of a namespace or pod cannot be read within bounds,
//! its pods count as protected; their owner could have protected them by one budget anyway.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crds::pod::Pod;
use engine::refs::PodRef;
use futures::StreamExt as _;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use kube::Resource as _;
use kube::api::{ListParams, ObjectList, Request};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

use super::super::{Actor, Failure};
use super::{patiently, some_at_once};
use crate::metrics::Verb;

/// How many budgets are requested at once: a page of them is in memory as received, more than once.
const BUDGETS_AT_ONCE: u32 = 10;
/// How many pages of the budgets of one namespace are requested.
const PAGES_OF_BUDGETS: usize = 100;
/// How long reading the budgets of one namespace may take each time. The pod that the eviction is for waits meanwhile, and so do the other
/// victims.
const READING_BUDGETS: Duration = Duration::from_secs(10);
/// In how many namespaces budgets are read at once.
const READERS: usize = 4;
/// How long the budgets of a namespace are not requested again after they could not be read. Otherwise one eviction after the other would
/// wait for them.
const UNREAD_FOR: Duration = Duration::from_mins(1);
/// The longest selector that is read, in bytes of JSON: far longer than anybody needs. A longer selector selects every pod.
const LONGEST_SELECTOR: usize = 16 << 10;
/// The most labels of a pod that are read.
const MOST_LABELS: usize = 1_000;
/// How much memory the labels of all pods of one eviction may take, in bytes, and about what a label takes besides its text. A gang may have
/// thousands of pods.
const MOST_OF_LABELS: usize = 16 << 20;
const OF_EACH_LABEL: usize = 64;

/// The readers of disruption budgets, and which namespaces could not be read.
#[derive(Debug)]
pub(in crate::act) struct Budgets {
    readers: Semaphore,
    /// The namespaces whose budgets are being read or wait to be read. Each namespace has one reader at a time, so that one namespace does
    /// not take all readers.
    turns: Mutex<BTreeMap<Arc<str>, Arc<Turn>>>,
    /// The namespaces whose budgets could not be read, and when that was.
    unread: Mutex<BTreeMap<Arc<str>, Instant>>,
}

/// The turn to read the budgets of one namespace.
type Turn = tokio::sync::Mutex<()>;

/// A pod by its place in a list, with its namespace and labels.
type Labelled = (usize, Arc<str>, BTreeMap<String, String>);

/// The fields of a disruption budget that are read.
#[derive(Debug, Clone, Deserialize)]
struct Budget {
    spec: Option<BudgetSpec>,
    status: Option<BudgetStatus>,
}

#[derive(Debug, Clone, Deserialize)]
struct BudgetSpec {
    selector: Option<Box<RawValue>>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct BudgetStatus {
    #[serde(default)]
    disruptions_allowed: i32,
}

impl Default for Budgets {
    fn default() -> Self {
        Self {
            readers: Semaphore::new(READERS),
            turns: Mutex::default(),
            unread: Mutex::default(),
        }
    }
}

impl Budgets {
    fn turn_of(&self, namespace: &Arc<str>) -> Arc<Turn> {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        turns.retain(|_, turn| Arc::strong_count(turn) > 1);
        Arc::clone(turns.entry(Arc::clone(namespace)).or_default())
    }

    /// Whether the budgets of a namespace could not be read within the last [`UNREAD_FOR`].
    fn are_unread(&self, namespace: &str) -> bool {
        let unread = self.unread.lock().unwrap_or_else(PoisonError::into_inner);
        unread.get(namespace).is_some_and(|since| since.elapsed() < UNREAD_FOR)
    }

    fn note_unread(&self, namespace: Arc<str>) {
        let mut unread = self.unread.lock().unwrap_or_else(PoisonError::into_inner);
        unread.retain(|_, since| since.elapsed() < UNREAD_FOR);
        unread.insert(namespace, Instant::now());
    }
}

impl Actor {
    /// Returns the places of the pods that disruption budgets do not allow to evict together. Fails once the API server has no time for one of
    /// the pods, which is returned with the failure.
    pub(super) async fn over_budget<'p>(&self, pods: &[&'p PodRef]) -> Result<Vec<usize>, (&'p PodRef, Failure)> {
        let (mut labelled, mut refused) = (Vec::<Labelled>::new(), Vec::new());
        let asked = pods.iter().enumerate().map(|(place, pod)| {
            let pod = *pod;
            async move { (place, pod, patiently(|| self.pod(pod)).await) }
        });
        let mut answers = some_at_once(asked.collect());
        let mut kept = 0;
        while let Some((place, pod, found)) = answers.next().await {
            match found {
                Ok(found) if !heed_budgets(&found) => {}
                Ok(found) if found.metadata.labels.len() > MOST_LABELS => refused.push(place),
                Ok(found) => {
                    let labels = found.metadata.labels.iter();
                    let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
                    let labels: BTreeMap<_, _> = labels.collect();
                    let sizes = labels
                        .iter()
                        .map(|(key, value)| key.len() + value.len() + OF_EACH_LABEL);
                    kept += sizes.sum::<usize>();
                    if kept > MOST_OF_LABELS {
                        refused.push(place);
                        continue;
                    }
                    labelled.push((place, Arc::clone(&pod.namespace), labels));
                }
                Err(failure) if failure.is_passing() => return Err((pod, failure)),
                // The pod is gone, or nothing is known of it. The API server is asked anyway before the pod is evicted.
                Err(_) => {}
            }
        }
        let mut namespaces: Vec<_> = labelled.iter().map(|(_, namespace, _)| Arc::clone(namespace)).collect();
        namespaces.sort_unstable();
        namespaces.dedup();
        for namespace in namespaces {
            let here: Vec<_> = labelled.iter().filter(|(_, of, _)| *of == namespace).collect();
            match self.refused_in(&namespace, &here).await {
                Some(here_refused) => refused.extend(here_refused),
                // If the budgets cannot be read, they count as allowing nothing.
                None => refused.extend(here.iter().map(|(place, ..)| *place)),
            }
        }
        Ok(refused)
    }

    /// Returns which of these pods the budgets of their namespace do not allow to evict; none if the budgets cannot be read.
    async fn refused_in(&self, namespace: &Arc<str>, pods: &[&Labelled]) -> Option<Vec<usize>> {
        let turn = self.budgets.turn_of(namespace);
        let mut begin = None;
        let read = async {
            let _turn = turn.lock().await;
            if self.budgets.are_unread(namespace) {
                return None;
            }
            // The semaphore is never closed, so this never fails.
            let _reader = self.budgets.readers.acquire().await;
            begin = Some(Instant::now());
            Some(patiently(|| self.refused_by_budgets(namespace, pods)).await)
        };
        // The limit includes the wait for the turn, since no pod is admitted while too many evictions have no answer.
        let read = timeout(READING_BUDGETS, read).await;
        let (failure, is_its_own) = match read {
            Ok(None) => return None,
            Ok(Some(Ok(refused))) => return Some(refused),
            // A missing answer of the API server says nothing about this namespace.
            Ok(Some(Err(failure))) => {
                let is_its_own = matches!(failure, Failure::NotSent(_));
                (failure, is_its_own)
            }
            // Time that was spent on other readers says nothing about it either.
            Err(_) => (
                Failure::NotSent("the namespace's disruption budgets take too long to read"),
                begin.is_some_and(|begin| begin.elapsed() >= READING_BUDGETS / 2),
            ),
        };
        tracing::warn!(%namespace, reason = %failure, "its pods count as protected from evictions");
        if is_its_own {
            self.budgets.note_unread(Arc::clone(namespace));
        }
        None
    }

    /// Returns the same. Fails if the namespace has more budgets than anybody needs.
    async fn refused_by_budgets(&self, namespace: &str, pods: &[&Labelled]) -> Result<Vec<usize>, Failure> {
        let path = PodDisruptionBudget::url_path(&(), Some(namespace));
        let mut params = ListParams::default().limit(BUDGETS_AT_ONCE);
        let mut refused = Vec::new();
        for _ in 0..PAGES_OF_BUDGETS {
            let request = Request::new(&*path).list(&params).map_err(kube::Error::BuildRequest);
            let list = async { self.client.request::<ObjectList<Budget>>(request?).await };
            let page = self.in_time(Verb::List, list).await?;
            for budget in page.items {
                let allowed = budget.status.map_or(0, |status| status.disruptions_allowed);
                let selector = Selector::read(budget.spec.and_then(|spec| spec.selector).as_deref());
                let members = pods.iter().filter(|(.., labels)| selector.selects(labels));
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
}

/// Whether evictions of a pod heed disruption budgets. Kubernetes' do not where the pod does not run yet or any more, or is on its way out.
fn heed_budgets(pod: &Pod<Box<str>>) -> bool {
    let is_running = !matches!(pod.status.phase.as_deref(), Some("Pending" | "Succeeded" | "Failed"));
    is_running && pod.metadata.deletion_timestamp.is_none()
}

/// Which pods a budget is for.
#[derive(Debug)]
enum Selector {
    Nobody,
    Those(LabelSelector),
    /// A selector that is too long, or cannot be read, selects every pod, so that it rather protects too much.
    Everybody,
}

impl Selector {
    /// Reads a budget's selector. A missing selector selects nothing, as in Kubernetes.
    fn read(written: Option<&RawValue>) -> Self {
        match written.map(RawValue::get) {
            None => Self::Nobody,
            Some(text) if text.len() > LONGEST_SELECTOR => Self::Everybody,
            Some(text) => serde_json::from_str(text).map_or(Self::Everybody, Self::Those),
        }
    }

    fn selects(&self, labels: &BTreeMap<String, String>) -> bool {
        let selector = match self {
            Self::Nobody => return false,
            Self::Everybody => return true,
            Self::Those(selector) => selector,
        };
        let mut alike = selector.match_labels.iter().flatten();
        let mut expressions = selector.match_expressions.iter().flatten();
        alike.all(|(key, value)| labels.get(key) == Some(value))
            && expressions.all(|one| matches(one, labels.get(&one.key)))
    }
}

fn matches(requirement: &LabelSelectorRequirement, value: Option<&String>) -> bool {
    let is_listed = value.is_some_and(|value| requirement.values.iter().flatten().any(|listed| listed == value));
    match requirement.operator.as_str() {
        "In" => is_listed,
        "NotIn" => !is_listed,
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        // An operator that a later Kubernetes may add protects the pod, to be safe.
        _ => true,
    }
}

#[cfg(test)]
mod tests;
