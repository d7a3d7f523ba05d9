//! Disruption budgets: which pods they do not allow to evict together. Asked one by one, the API server would allow each.
//!
//! Tenants write budgets and labels, as many and as long as objects can be: of whom that can't be read in bounds, the pods are taken for
//! protected, as their owner could have them by one budget.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use engine::refs::PodRef;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use kube::Resource as _;
use kube::api::{ListParams, ObjectList, Request};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

use super::super::{Actor, Failure};
use super::patiently;
use crate::metrics::Verb;

/// How many budgets are asked for at once: a page of them is in memory as it came, more than once.
const BUDGETS_AT_ONCE: u32 = 10;
/// How many pages of one namespace's are asked for.
const PAGES_OF_BUDGETS: usize = 100;
/// And for how long each time: whoever is to get what is evicted waits for it, and so do the other victims.
const READING_BUDGETS: Duration = Duration::from_secs(10);
/// How many namespaces' budgets are read at once.
const READERS: usize = 4;
/// How long nobody asks for the budgets of a namespace that could not be read: else one eviction after the other would wait for them.
const UNREAD_FOR: Duration = Duration::from_mins(1);
/// The longest selector that is read, in bytes of JSON: far more than anybody needs. A longer one selects every pod.
const LONGEST_SELECTOR: usize = 16 << 10;
/// The most labels that are read of a pod.
const MOST_LABELS: usize = 1_000;

/// Readers of disruption budgets, and what came of it.
#[derive(Debug)]
pub(in crate::act) struct Budgets {
    readers: Semaphore,
    /// The namespaces whose budgets are being read, or are to be: one reader after the other, so that nobody else waits for one of them alone.
    turns: Mutex<BTreeMap<Arc<str>, Arc<Turn>>>,
    /// The namespaces of which they could not be read, and when that was.
    unread: Mutex<BTreeMap<Arc<str>, Instant>>,
}

/// The turn to read the budgets of one namespace.
type Turn = tokio::sync::Mutex<()>;

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

    /// Whether the budgets of a namespace could not be read a while ago.
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
    /// The pods that disruption budgets do not allow to evict together.
    pub(super) async fn over_budget(&self, pods: &[&PodRef]) -> Vec<usize> {
        let (mut labelled, mut refused) = (Vec::<Labelled>::new(), Vec::new());
        for (place, pod) in pods.iter().enumerate() {
            match patiently(|| self.pod(pod)).await {
                Ok(found) if found.metadata.labels.len() > MOST_LABELS => refused.push(place),
                Ok(found) => {
                    let labels = found.metadata.labels.iter();
                    let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
                    labelled.push((place, Arc::clone(&pod.namespace), labels));
                }
                // It is gone, or nothing is known of it: the API server is asked before it is evicted.
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
                // Whoever can't be asked allows nothing.
                None => refused.extend(here.iter().map(|(place, ..)| *place)),
            }
        }
        refused
    }

    /// Which of these pods the budgets of their namespace do not allow to evict; none where those can't be read.
    async fn refused_in(&self, namespace: &Arc<str>, pods: &[&Labelled]) -> Option<Vec<usize>> {
        let turn = self.budgets.turn_of(namespace);
        let mut begin = None;
        let read = async {
            let _turn = turn.lock().await;
            if self.budgets.are_unread(namespace) {
                return None;
            }
            // Never closed, so this fails never.
            let _reader = self.budgets.readers.acquire().await;
            begin = Some(Instant::now());
            Some(patiently(|| self.refused_by_budgets(namespace, pods)).await)
        };
        // With the wait for its turn: nobody is let in while too many evictions have no answer.
        let read = timeout(READING_BUDGETS, read).await;
        let (failure, is_its_own) = match read {
            Ok(None) => return None,
            Ok(Some(Ok(refused))) => return Some(refused),
            // What the API server did not answer says nothing of the namespace,
            Ok(Some(Err(failure))) => {
                let is_its_own = matches!(failure, Failure::NotSent(_));
                (failure, is_its_own)
            }
            // nor does it that others were read for so long.
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

    /// The same, with a failure where there are more budgets than anybody needs.
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

/// Which pods a budget is for.
#[derive(Debug)]
enum Selector {
    Nobody,
    Those(LabelSelector),
    /// What is too long to be read, or can't be, protects rather than not.
    Everybody,
}

impl Selector {
    /// A budget's selector; none selects nothing, as in Kubernetes.
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
        // What a later Kubernetes may add protects rather than not.
        _ => true,
    }
}

#[cfg(test)]
mod tests;
