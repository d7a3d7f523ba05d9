//! Waiting for conditions, with a deadline and a message that tells what was seen instead.

use std::fmt::{Debug, Display};
use std::time::Duration;

use anyhow::{Result, bail};
use futures::{StreamExt, TryStreamExt, pin_mut};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep, timeout_at};

/// Long enough for every step that works at all, on a machine with other things to do.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// The first pause between two looks at something that can't be watched.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
/// The longest pause between two looks.
const LONGEST_PAUSE: Duration = Duration::from_millis(200);

/// What a look at the world found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seen<T> {
    /// The condition holds; this is what was asked for.
    Done(T),
    /// The condition does not hold; this is what holds instead, for the message.
    NotYet(String),
}

impl Seen<()> {
    /// `Done` if the condition holds, else what was seen instead.
    pub fn when(condition: bool, instead: impl Into<String>) -> Self {
        if condition {
            Self::Done(())
        } else {
            Self::NotYet(instead.into())
        }
    }
}

/// Looks until the condition holds. An error of the probe counts as "not yet", and is shown when time is over.
pub async fn eventually<T>(
    what: impl Display,
    limit: Duration,
    mut probe: impl AsyncFnMut() -> Result<Seen<T>>,
) -> Result<T> {
    let deadline = Instant::now() + limit;
    let mut pause = FIRST_PAUSE;
    let mut last = "nothing yet".to_owned();
    loop {
        match timeout_at(deadline, probe()).await {
            Ok(Ok(Seen::Done(value))) => return Ok(value),
            Ok(Ok(Seen::NotYet(instead))) => last = instead,
            Ok(Err(error)) => last = format!("{error:#}"),
            Err(_) => {}
        }
        if Instant::now() + pause >= deadline {
            bail!("waited {} s for {what}; last seen: {last}", limit.as_secs_f32());
        }
        sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Looks for the whole time and fails as soon as the condition does not hold: for things that must not happen.
pub async fn holds(what: impl Display, time: Duration, mut probe: impl AsyncFnMut() -> Result<Seen<()>>) -> Result<()> {
    let begin = Instant::now();
    loop {
        if let Seen::NotYet(instead) = probe().await? {
            bail!("{what} no longer after {} s: {instead}", begin.elapsed().as_secs_f32());
        }
        if begin.elapsed() >= time {
            return Ok(());
        }
        sleep(FIRST_PAUSE * 5).await;
    }
}

/// Watches one object until the check is satisfied. The check gets `None` while there is no such object.
pub async fn object<K, T>(
    api: &Api<K>,
    name: &str,
    what: impl Display,
    mut check: impl FnMut(Option<&K>) -> Seen<T>,
) -> Result<T>
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let deadline = Instant::now() + PATIENCE;
    let mut last = "nothing yet".to_owned();
    let watch = watcher::watch_object(api.clone(), name).default_backoff();
    pin_mut!(watch);
    loop {
        match timeout_at(deadline, watch.next()).await {
            Ok(Some(Ok(seen))) => match check(seen.as_ref()) {
                Seen::Done(value) => return Ok(value),
                Seen::NotYet(instead) => last = instead,
            },
            Ok(Some(Err(error))) => last = format!("the watch failed: {error}"),
            Ok(None) => bail!("the watch for {what} ended; last seen: {last}"),
            Err(_) => bail!(
                "waited {} s for {what} of {name}; last seen: {last}",
                PATIENCE.as_secs_f32()
            ),
        }
    }
}

/// Watches all objects of an [`Api`] that the selection matches, until the check of the whole set is satisfied.
pub async fn objects<K, T>(
    api: &Api<K>,
    selection: watcher::Config,
    what: impl Display,
    mut check: impl FnMut(&[&K]) -> Seen<T>,
) -> Result<T>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
{
    use std::collections::BTreeMap;

    let deadline = Instant::now() + PATIENCE;
    let mut last = "nothing yet".to_owned();
    let mut known: BTreeMap<(Option<String>, Option<String>), K> = BTreeMap::new();
    let mut complete = false;
    let key = |object: &K| (object.meta().namespace.clone(), object.meta().name.clone());
    let watch = watcher(api.clone(), selection).default_backoff();
    pin_mut!(watch);
    loop {
        match timeout_at(deadline, watch.try_next()).await {
            Ok(Ok(Some(event))) => match event {
                watcher::Event::Init => {
                    known.clear();
                    complete = false;
                }
                watcher::Event::InitApply(object) | watcher::Event::Apply(object) => {
                    known.insert(key(&object), object);
                }
                watcher::Event::InitDone => complete = true,
                watcher::Event::Delete(object) => {
                    known.remove(&key(&object));
                }
            },
            Ok(Ok(None)) => bail!("the watch for {what} ended; last seen: {last}"),
            Ok(Err(error)) => last = format!("the watch failed: {error}"),
            Err(_) => bail!("waited {} s for {what}; last seen: {last}", PATIENCE.as_secs_f32()),
        }
        if complete {
            match check(&known.values().collect::<Vec<_>>()) {
                Seen::Done(value) => return Ok(value),
                Seen::NotYet(instead) => last = instead,
            }
        }
    }
}
