//! The judge's own eyes: a watch of each kind.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Result;
use futures::{StreamExt as _, pin_mut};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::api::DynamicObject;
use kube::core::GroupVersionKind;
use kube::discovery::ApiResource;
use kube::runtime::utils::Backoff;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client};
use serde_json::Value;
use simulator::judge::{Broken, Judge};
use simulator::objects::{
    CARD_INVENTORIES, CARD_TYPES, CARD_USAGES, CONFIG_MAPS, DEVICE_CLASSES, EVENTS, JOBS, LEASES, NAMESPACES, NODES,
    POD_GROUPS, PODS, QUEUES, RESOURCE_CLAIMS, Resource, SLICES,
};
use tokio::task::JoinSet;

use super::history::{History, SOMEBODY, lets_in};
use crate::cardgate::NAMESPACE;
use crate::controlplane;
use crate::wait::{self, Seen};

/// What the judge looks at.
static KINDS: [&Resource; 15] = [
    &PODS,
    &NODES,
    &NAMESPACES,
    &CONFIG_MAPS,
    &EVENTS,
    &LEASES,
    &JOBS,
    &QUEUES,
    &POD_GROUPS,
    &SLICES,
    &DEVICE_CLASSES,
    &RESOURCE_CLAIMS,
    &CARD_INVENTORIES,
    &CARD_TYPES,
    &CARD_USAGES,
];
/// How long a gang may be cut in two: longer than an operator needs that was killed in the middle of it, and whose Lease has to
/// run out.
const CUT_AT_MOST: SignedDuration = SignedDuration::from_mins(1);
/// Violations that are told; a broken rule breaks often.
const TOLD: usize = 20;

/// A history and those who write it. Dropping it ends the watches.
pub(super) struct Watch {
    history: Arc<Mutex<History>>,
    _tasks: JoinSet<()>,
}

impl Watch {
    /// Begins to watch, and returns when everything that is there has been seen.
    pub async fn start(client: &Client) -> Result<Self> {
        let history = Arc::new(Mutex::new(History::new()));
        let listed = Arc::new(Mutex::new(BTreeSet::new()));
        let mut tasks = JoinSet::new();
        for resource in KINDS {
            let (history, listed) = (Arc::clone(&history), Arc::clone(&listed));
            tasks.spawn(follow(client.clone(), resource, history, listed));
        }
        wait::eventually("everything to be seen", wait::PATIENCE, async || {
            let listed = lock(&listed);
            Ok(Seen::when(listed.len() == KINDS.len(), format!("only {listed:?}")))
        })
        .await?;
        Ok(Self { history, _tasks: tasks })
    }

    /// How many pods have been let in so far.
    pub fn let_in(&self) -> usize {
        lock(&self.history).let_in()
    }

    /// An operator is started.
    pub fn started(&self) {
        lock(&self.history).starts.push(Timestamp::now());
    }

    /// What did not hold so far, nor holds now that all is quiet. `operators` says by which token each of them writes.
    pub fn violations(&self, log: &[controlplane::Write], operators: &BTreeMap<String, String>) -> Vec<String> {
        let history = lock(&self.history);
        let mut judge = Judge::new().cut_at_most(CUT_AT_MOST).short_rest();
        for at in &history.starts {
            judge.started(*at);
        }
        let tell = |broken: Broken| broken.to_string();
        let writes = history.writes(log, operators);
        let let_in = writes.iter().filter(|write| lets_in(write));
        let (known, unknown): (Vec<_>, Vec<_>) = let_in.partition(|write| *write.who != *SOMEBODY);
        let (known, unknown) = (known.len(), unknown.len());
        let blind =
            (unknown * 4 > known).then(|| format!("of {unknown} pods beside {known} nobody knows who let them in"));
        let broken = writes.iter().filter_map(|write| judge.hear(write).err());
        let broken: BTreeSet<_> = broken.map(tell).take(TOLD).collect();
        let at_rest = judge.at_rest(Timestamp::now(), &BTreeSet::new()).err().map(tell);
        broken.into_iter().chain(at_rest).chain(blind).collect()
    }
}

async fn follow(
    client: Client,
    resource: &'static Resource,
    history: Arc<Mutex<History>>,
    listed: Arc<Mutex<BTreeSet<&'static str>>>,
) {
    let kind = GroupVersionKind::gvk(resource.group, resource.version, resource.kind);
    let kind = ApiResource::from_gvk_with_plural(&kind, resource.plural);
    // Other programs have such objects, too.
    let api: Api<DynamicObject> = if resource == &LEASES || resource == &CONFIG_MAPS {
        Api::namespaced_with(client, NAMESPACE, &kind)
    } else {
        Api::all_with(client, &kind)
    };
    let watch = watcher(api, watcher::Config::default()).backoff(AtOnce);
    pin_mut!(watch);
    let mut seen = BTreeSet::new();
    while let Some(event) = watch.next().await {
        let mut history = lock(&history);
        // What fails is tried again by the watch itself.
        match event {
            Ok(watcher::Event::Init) => seen.clear(),
            Ok(watcher::Event::InitApply(object)) => {
                let is_first = !lock(&listed).contains(resource.plural);
                let object = value(object);
                seen.insert(if is_first {
                    history.was_there(resource, object)
                } else {
                    history.apply(resource, object)
                });
            }
            Ok(watcher::Event::Apply(object)) => drop(history.apply(resource, value(object))),
            Ok(watcher::Event::Delete(object)) => history.delete(resource, &value(object)),
            Ok(watcher::Event::InitDone) => {
                history.keep(resource, &seen);
                lock(&listed).insert(resource.plural);
            }
            Err(_) => {}
        }
    }
}

/// What was not heard is not judged: a watch that has ended begins anew at once.
struct AtOnce;

impl Iterator for AtOnce {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        Some(Duration::from_millis(20))
    }
}

impl Backoff for AtOnce {
    fn reset(&mut self) {}
}

fn value(mut object: DynamicObject) -> Value {
    object.metadata.managed_fields = None;
    serde_json::to_value(&object).unwrap_or_default()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
