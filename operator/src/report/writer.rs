//! The reporter's task: takes reports in, and writes what the queue says may be written.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crds::card_inventory::{CardInventory, CardInventorySpec};
use crds::card_type::CardType;
use crds::card_usage::{CardUsage, CardUsageSpec, UNACCOUNTED};
use crds::slug::slug;
use engine::overview::Shown;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt as _, StreamExt as _};
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use tokio::sync::{mpsc, watch};

use super::api::{self, Sender, Written};
use super::event::{Occurrence, Series};
use super::message::Messages;
use super::objects::{Left, Record};
use super::queue::{Outcome, Target, Urgency, WriteQueue};
use super::shelf::{List, Shelf};
use super::taken::{self, Taken};
use super::{Inbox, Report};
use crate::metrics::{Metrics, Write};
use crate::request::RequestError;

/// How long a pod's condition waits before it is written: a pod that is let in a moment later never needs it.
const SETTLE: Duration = Duration::from_millis(200);
/// Reports taken in at a time.
const BATCH: usize = 1024;

/// What the reporter is started with.
pub struct Reporter {
    /// A client of its own, so that its requests share no connection with admissions.
    pub client: Client,
    /// The name of this replica, as events show it.
    pub instance: String,
    /// Whether this replica leads; nothing is written while it does not.
    pub leader: watch::Receiver<bool>,
    /// Where requests and errors are counted.
    pub metrics: Arc<Metrics>,
}

impl Reporter {
    /// Reports until nobody can send a report any more, or nobody says who leads. What is being written then is finished,
    /// what is waiting is not: who leads next writes it.
    pub async fn run(self, mut inbox: Inbox) {
        let mut leader = self.leader.clone();
        let (taken, mut missed) = mpsc::channel(BATCH);
        let watches = [
            taken::watch::<CardInventory>(self.client.clone(), leader.clone(), taken.clone()).boxed(),
            taken::watch::<CardType>(self.client.clone(), leader.clone(), taken.clone()).boxed(),
            taken::watch::<CardUsage>(self.client.clone(), leader.clone(), taken).boxed(),
        ];
        let mut watches = FuturesUnordered::from_iter(watches);
        let mut state = State::new(self, Instant::now());
        let mut batch = Vec::new();
        loop {
            state.start(Instant::now());
            let wake_at = state.wake_at();
            let wake = async {
                match wake_at {
                    Some(at) => tokio::time::sleep_until(at.into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                received = inbox.recv_many(&mut batch, BATCH) => {
                    if received == 0 {
                        break;
                    }
                    let (now, time) = (Instant::now(), Timestamp::now());
                    for report in batch.drain(..) {
                        state.take_in(report, now, time);
                    }
                }
                Some(done) = state.running.next() => state.end(done, Instant::now(), Timestamp::now()),
                Some(taken) = missed.recv() => state.miss(taken, Instant::now()),
                Some(()) = watches.next() => {}
                changed = leader.changed() => {
                    if changed.is_err() {
                        break;
                    }
                    state.leadership_changed(Instant::now());
                }
                () = wake => {}
            }
        }
        while let Some(done) = state.running.next().await {
            state.end(done, Instant::now(), Timestamp::now());
        }
    }
}

/// Something that was going on has ended.
enum Done {
    Inventory(Arc<str>, Written<Left<CardInventory>>),
    CardType(Arc<str>, Written<Left<CardType>>),
    Usage(Arc<str>, Written<Left<CardUsage>>),
    Condition(Arc<str>, Result<(), RequestError>),
    Group(Arc<str>, Result<(), RequestError>),
    Event(Target, Box<Occurrence>, Written<Option<(String, i32)>>),
    InventoryList(List<CardInventory>),
    CardTypeList(List<CardType>),
    UsageList(List<CardUsage>),
}

struct State {
    sender: Sender,
    instance: String,
    leader: watch::Receiver<bool>,
    queue: WriteQueue,
    inventories: Shelf<CardInventory>,
    card_types: Shelf<CardType>,
    usages: Shelf<CardUsage>,
    messages: Messages,
    series: Series,
    refused_events: u64,
    running: FuturesUnordered<BoxFuture<'static, Done>>,
}

impl State {
    fn new(reporter: Reporter, now: Instant) -> Self {
        Self {
            sender: Sender {
                client: reporter.client,
                metrics: reporter.metrics,
            },
            instance: reporter.instance,
            leader: reporter.leader,
            queue: WriteQueue::default(),
            inventories: Shelf::new(now),
            card_types: Shelf::new(now),
            usages: Shelf::new(now),
            messages: Messages::default(),
            series: Series::default(),
            refused_events: 0,
            running: FuturesUnordered::new(),
        }
    }

    fn leads(&self) -> bool {
        *self.leader.borrow()
    }

    /// Another leader may have written since this one led last.
    fn leadership_changed(&mut self, now: Instant) {
        for list_at in [
            &mut self.inventories.list_at,
            &mut self.card_types.list_at,
            &mut self.usages.list_at,
        ] {
            *list_at = list_at.map(|_| now);
        }
    }

    fn wake_at(&self) -> Option<Instant> {
        if !self.leads() {
            return None;
        }
        let lists = [self.inventories.list_at, self.card_types.list_at, self.usages.list_at];
        lists.into_iter().flatten().chain(self.queue.wake_at()).min()
    }

    fn take_in(&mut self, report: Report, now: Instant, time: Timestamp) {
        match report {
            Report::Shown(shown) => self.take_in_shown(*shown, now, time),
            Report::Pod { pod, condition, event } => {
                let uid = Arc::clone(&pod.uid);
                self.messages.pod(pod, condition, event, time);
                self.queue
                    .offer(&Target::Condition(uid), Urgency::Prompt, now + SETTLE, now);
            }
            Report::Group { group, phase, refused } => {
                let target = Target::Group(Arc::clone(&group.uid));
                self.messages.group(group, phase, refused, time);
                self.queue.offer(&target, Urgency::Prompt, now, now);
            }
            Report::ForgetPod { uid } => {
                self.messages.forget_pod(&uid);
                self.queue.withdraw(&Target::Condition(Arc::clone(&uid)));
                self.queue.withdraw(&Target::PodEvent(uid));
            }
            Report::Event {
                regarding,
                kind,
                reason,
                message,
            } => match self.messages.event(*regarding, kind, reason, message, time) {
                Some(key) => self.queue.offer(&Target::Event(key), Urgency::Event, now, now),
                None => self.refuse_event(),
            },
            Report::Synced => {
                let inventories = self.inventories.objects.sync().into_iter().map(Target::Inventory);
                let card_types = self.card_types.objects.sync().into_iter().map(Target::CardType);
                let usages = self.usages.objects.sync().into_iter().map(Target::Usage);
                for target in inventories.chain(card_types).chain(usages) {
                    self.queue.offer(&target, Urgency::Prompt, now, now);
                }
            }
        }
    }

    fn take_in_shown(&mut self, shown: Shown, now: Instant, time: Timestamp) {
        match shown {
            Shown::Inventory {
                node,
                node_uid,
                status,
                prompt,
            } => {
                let spec = CardInventorySpec {
                    node_name: node.to_string(),
                };
                let record = status.map(|status| Record {
                    owner_uid: node_uid,
                    spec,
                    status,
                });
                let differs = self.inventories.objects.want(&node, record, time);
                self.offer(&Target::Inventory(node), differs, prompt, now);
            }
            Shown::CardType { card, content, prompt } => {
                let name = slug(&card).into();
                let record = content.map(|(spec, status)| Record {
                    owner_uid: "".into(),
                    spec,
                    status,
                });
                let differs = self.card_types.objects.want(&name, record, time);
                self.offer(&Target::CardType(name), differs, prompt, now);
            }
            Shown::Usage {
                queue,
                queue_uid,
                status,
            } => {
                let spec = CardUsageSpec {
                    queue: queue.to_string(),
                };
                let record = status.map(|status| Record {
                    owner_uid: queue_uid,
                    spec,
                    status,
                });
                let differs = self.usages.objects.want(&queue, record, time);
                self.offer(&Target::Usage(queue), differs, false, now);
            }
            Shown::Unaccounted { status } => {
                let record = status.map(|status| Record {
                    owner_uid: "".into(),
                    spec: CardUsageSpec::default(),
                    status,
                });
                let name = UNACCOUNTED.into();
                let differs = self.usages.objects.want(&name, record, time);
                self.offer(&Target::Usage(name), differs, false, now);
            }
        }
    }

    /// Somebody else has removed something that is to be shown, or may have.
    fn miss(&mut self, Taken { kind, name }: Taken, now: Instant) {
        let (gone, list_at, target): (_, _, fn(Arc<str>) -> Target) = match kind {
            Write::CardInventory => {
                let gone = name.as_ref().map(|name| self.inventories.objects.gone(name));
                (gone, &mut self.inventories.list_at, Target::Inventory)
            }
            Write::CardType => {
                let gone = name.as_ref().map(|name| self.card_types.objects.gone(name));
                (gone, &mut self.card_types.list_at, Target::CardType)
            }
            Write::CardUsage => {
                let gone = name.as_ref().map(|name| self.usages.objects.gone(name));
                (gone, &mut self.usages.list_at, Target::Usage)
            }
            _ => return,
        };
        match (name, gone) {
            (Some(name), Some(true)) => self.queue.offer(&target(name), Urgency::Prompt, now, now),
            (Some(_), _) => {}
            (None, _) => *list_at = list_at.map(|_| now),
        }
    }

    fn offer(&mut self, target: &Target, differs: bool, prompt: bool, now: Instant) {
        // What is waiting or being written may be something else than what is wanted now, even where that is there.
        if differs || self.queue.is_pending(target) {
            let urgency = if prompt { Urgency::Prompt } else { Urgency::Usage };
            self.queue.offer(target, urgency, now, now);
        }
    }

    fn refuse_event(&mut self) {
        self.refused_events += 1;
        if self.refused_events.is_power_of_two() {
            tracing::warn!(
                total = self.refused_events,
                "events are lost: too many wait to be written"
            );
        }
    }

    /// Starts what may be started.
    fn start(&mut self, now: Instant) {
        if !self.leads() {
            return;
        }
        let sender = &self.sender;
        self.running
            .extend(self.inventories.start_list(sender, now, Done::InventoryList));
        self.running
            .extend(self.card_types.start_list(sender, now, Done::CardTypeList));
        self.running
            .extend(self.usages.start_list(sender, now, Done::UsageList));
        while let Some(target) = self.queue.take(now) {
            match self.write(&target, now) {
                Some(write) => self.running.push(write),
                None => self.queue.done(&target, Outcome::Settled, 0, now),
            }
        }
    }

    /// The write about `target`; none where there is nothing to write any more.
    fn write(&mut self, target: &Target, now: Instant) -> Option<BoxFuture<'static, Done>> {
        let sender = self.sender.clone();
        let time = Timestamp::now();
        match target {
            Target::Inventory(name) => self.inventories.write(sender, name, time, Done::Inventory),
            Target::CardType(name) => self.card_types.write(sender, name, time, Done::CardType),
            Target::Usage(name) => self.usages.write(sender, name, time, Done::Usage),
            Target::Condition(uid) => {
                let (pod, patch) = self.messages.condition(uid, time)?;
                let uid = Arc::clone(uid);
                Some(async move { Done::Condition(uid, api::write_condition(sender, pod, patch).await) }.boxed())
            }
            Target::Group(uid) => {
                let (group, patch) = self.messages.group_status(uid)?;
                let uid = Arc::clone(uid);
                Some(async move { Done::Group(uid, api::write_group_status(sender, group, patch).await) }.boxed())
            }
            Target::PodEvent(uid) => {
                let occurrence = self.messages.pod_event(uid)?;
                Some(self.write_event(target.clone(), occurrence, now))
            }
            Target::Event(key) => {
                let occurrence = self.messages.other_event(key)?;
                Some(self.write_event(target.clone(), occurrence, now))
            }
        }
    }

    fn write_event(&mut self, target: Target, occurrence: Occurrence, now: Instant) -> BoxFuture<'static, Done> {
        let known = self.series.find(&occurrence, now);
        let (sender, instance) = (self.sender.clone(), self.instance.clone());
        async move {
            let written = api::write_event(sender, &occurrence, &instance, known).await;
            Done::Event(target, Box::new(occurrence), written)
        }
        .boxed()
    }

    fn end(&mut self, done: Done, now: Instant, time: Timestamp) {
        match done {
            Done::Inventory(name, written) => {
                let (outcome, requests) = self.inventories.written(&name, written, now);
                self.queue.done(&Target::Inventory(name), outcome, requests, now);
            }
            Done::CardType(name, written) => {
                let (outcome, requests) = self.card_types.written(&name, written, now);
                self.queue.done(&Target::CardType(name), outcome, requests, now);
            }
            Done::Usage(name, written) => {
                let (outcome, requests) = self.usages.written(&name, written, now);
                self.queue.done(&Target::Usage(name), outcome, requests, now);
            }
            Done::Condition(uid, result) => self.end_condition(&uid, &result, now),
            Done::Group(uid, result) => self.end_group(uid, &result, now),
            Done::Event(target, occurrence, written) => self.end_event(&target, &occurrence, written, now),
            Done::InventoryList(list) => {
                let differing = self.inventories.listed(list, now, time);
                self.offer_all(differing.into_iter().map(Target::Inventory), now);
            }
            Done::CardTypeList(list) => {
                let differing = self.card_types.listed(list, now, time);
                self.offer_all(differing.into_iter().map(Target::CardType), now);
            }
            Done::UsageList(list) => {
                let differing = self.usages.listed(list, now, time);
                self.offer_all(differing.into_iter().map(Target::Usage), now);
            }
        }
    }

    fn offer_all(&mut self, targets: impl Iterator<Item = Target>, now: Instant) {
        for target in targets {
            self.queue.offer(&target, Urgency::Prompt, now, now);
        }
    }

    /// The event comes after the condition, so that none is written about a pod that turns out to be gone.
    fn end_condition(&mut self, uid: &Arc<str>, result: &Result<(), RequestError>, now: Instant) {
        let (condition, event) = (Target::Condition(Arc::clone(uid)), Target::PodEvent(Arc::clone(uid)));
        match result {
            Ok(()) => {
                self.queue.done(&condition, Outcome::Settled, 1, now);
                if self.queue.is_pending(&condition) {
                    return;
                }
                self.messages.condition_written(uid);
                if self.messages.pod_event(uid).is_some() {
                    self.queue.offer(&event, Urgency::Event, now, now);
                }
            }
            // The pod is gone, or another one has its name.
            Err(error) if matches!(error.code(), Some(404 | 409 | 422)) => {
                tracing::debug!(%uid, %error, "the condition of a pod is of no use any more");
                self.messages.forget_pod(uid);
                self.queue.done(&condition, Outcome::Settled, 1, now);
                self.queue.withdraw(&condition);
                self.queue.withdraw(&event);
            }
            Err(error) => {
                tracing::warn!(%uid, %error, "can't write the condition of a pod, trying again later");
                self.queue.done(&condition, Outcome::Failed, 1, now);
            }
        }
    }

    fn end_group(&mut self, uid: Arc<str>, result: &Result<(), RequestError>, now: Instant) {
        let failed = result.as_ref().err();
        // The group is gone, or another one has its name.
        let gone = failed.is_some_and(|error| matches!(error.code(), Some(404 | 409 | 422)));
        if let Some(error) = failed {
            tracing::debug!(%uid, %error, gone, "the status of a group is not written");
        }
        let outcome = if failed.is_none() || gone {
            Outcome::Settled
        } else {
            Outcome::Failed
        };
        let target = Target::Group(uid);
        self.queue.done(&target, outcome, 1, now);
        if let Target::Group(uid) = &target
            && !self.queue.is_pending(&target)
        {
            self.messages.group_written(uid);
        }
    }

    fn end_event(
        &mut self,
        target: &Target,
        occurrence: &Occurrence,
        written: Written<Option<(String, i32)>>,
        now: Instant,
    ) {
        if let Some((name, count)) = written.left {
            self.series.remember(occurrence, name, count, now);
        }
        let (reason, regarding) = (&occurrence.reason, occurrence.regarding.name.as_deref());
        let outcome = match &written.error {
            None => Outcome::Settled,
            Some(error) if matches!(error.code(), Some(400 | 404 | 422)) => {
                tracing::warn!(reason, regarding, %error, "the API server does not take an event");
                Outcome::Settled
            }
            Some(error) => {
                tracing::warn!(reason, regarding, %error, "can't write an event, trying again later");
                Outcome::Failed
            }
        };
        self.queue.done(target, outcome, written.requests, now);
        if self.queue.is_pending(target) {
            return;
        }
        match target {
            Target::PodEvent(uid) => self.messages.pod_event_written(uid),
            Target::Event(key) => self.messages.other_event_written(key),
            _ => {}
        }
    }
}
