//! The judge's own eyes: a watch of each kind, and of who leads.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Result;
use futures::{StreamExt as _, pin_mut};
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::DynamicObject;
use kube::core::GroupVersionKind;
use kube::discovery::ApiResource;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client};
use serde_json::Value;
use tokio::task::JoinSet;

use super::judge::Judge;
use super::leadership::Reign;
use crate::cardgate::NAMESPACE;
use crate::wait::{self, Seen};

/// Group, version, kind and plural.
const KINDS: [(&str, &str, &str, &str); 4] = [
    ("scheduling.volcano.sh", "v1beta1", "Queue", "queues"),
    ("scheduling.volcano.sh", "v1beta1", "PodGroup", "podgroups"),
    ("", "v1", "Node", "nodes"),
    ("", "v1", "Pod", "pods"),
];
/// How often what lasts is looked at.
const TICK: Duration = Duration::from_secs(1);

/// A judge and those who tell it. Dropping it ends the watches.
pub(super) struct Watch {
    judge: Arc<Mutex<Judge>>,
    reigns: Arc<Mutex<Vec<Reign>>>,
    _tasks: JoinSet<()>,
}

impl Watch {
    /// Begins to watch, and returns when everything that is there has been seen.
    pub async fn start(client: &Client, judge: Judge) -> Result<Self> {
        let (judge, reigns) = (Arc::new(Mutex::new(judge)), Arc::new(Mutex::new(Vec::new())));
        let listed = Arc::new(Mutex::new(0));
        let mut tasks = JoinSet::new();
        for (group, version, kind, plural) in KINDS {
            let resource = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural);
            let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
            tasks.spawn(follow(api, kind, Arc::clone(&judge), Arc::clone(&listed)));
        }
        tasks.spawn(follow_lease(
            Api::namespaced(client.clone(), NAMESPACE),
            Arc::clone(&reigns),
        ));
        let ticking = Arc::clone(&judge);
        tasks.spawn(async move {
            loop {
                tokio::time::sleep(TICK).await;
                lock(&ticking).look_at_the_clock();
            }
        });
        wait::eventually("everything to be seen", wait::PATIENCE, async || {
            let count = *lock(&listed);
            Ok(Seen::when(count >= KINDS.len(), format!("{count} kinds")))
        })
        .await?;
        Ok(Self {
            judge,
            reigns,
            _tasks: tasks,
        })
    }

    /// How many pods have been let in so far.
    pub fn let_in(&self) -> usize {
        lock(&self.judge).let_in()
    }

    /// What did not hold so far.
    pub fn violations(&self) -> Vec<String> {
        lock(&self.judge).violations()
    }

    /// Who led, one after the other.
    pub fn reigns(&self) -> Vec<Reign> {
        lock(&self.reigns).clone()
    }
}

async fn follow(api: Api<DynamicObject>, kind: &'static str, judge: Arc<Mutex<Judge>>, listed: Arc<Mutex<usize>>) {
    let watch = watcher(api, watcher::Config::default()).default_backoff();
    pin_mut!(watch);
    let mut relisted: HashSet<String> = HashSet::new();
    while let Some(event) = watch.next().await {
        let mut judge = lock(&judge);
        // What fails is tried again by the watch itself.
        match event {
            Ok(watcher::Event::Init) => relisted.clear(),
            Ok(watcher::Event::InitApply(object)) => {
                relisted.extend(object.metadata.uid.clone());
                judge.apply(kind, &value(&object));
            }
            Ok(watcher::Event::Apply(object)) => judge.apply(kind, &value(&object)),
            Ok(watcher::Event::Delete(object)) => judge.delete(kind, &value(&object)),
            Ok(watcher::Event::InitDone) => {
                if kind == "Pod" {
                    let gone = judge.pods().into_iter().filter(|uid| !relisted.contains(uid));
                    gone.for_each(|uid| judge.forget(&uid));
                }
                *lock(&listed) += 1;
            }
            Err(_) => {}
        }
    }
}

async fn follow_lease(api: Api<Lease>, reigns: Arc<Mutex<Vec<Reign>>>) {
    let watch = watcher::watch_object(api, "operator").default_backoff();
    pin_mut!(watch);
    while let Some(event) = watch.next().await {
        let spec = event.ok().flatten().and_then(|lease| lease.spec);
        let Some(spec) = spec else { continue };
        let (Some(holder), Some(since)) = (spec.holder_identity, spec.acquire_time) else {
            continue;
        };
        let reign = Reign { holder, since: since.0 };
        let mut reigns = lock(&reigns);
        if !reign.holder.is_empty() && reigns.last() != Some(&reign) {
            reigns.push(reign);
        }
    }
}

fn value(object: &DynamicObject) -> Value {
    serde_json::to_value(object).unwrap_or_default()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
