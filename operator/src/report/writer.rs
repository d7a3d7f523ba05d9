//! The reporter's task: takes reports in, and writes them when the write queue allows it.

mod ends;

use std::sync::Arc;
use std::time::Duration;

use crds::card_inventory::CardInventory;
use crds::card_type::CardType;
use crds::card_usage::CardUsage;
use engine::refs::{PodRef, WorkloadRef};
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt as _, StreamExt as _};
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use programs::clock;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};

use super::api::{self, Sender, Written};
use super::event::{Occurrence, Series};
use super::message::Messages;
use super::queue::{Outcome, Target, Urgency, WriteQueue};
use super::shelves::{Ended, Settled, Shelves};
use super::taken;
use super::{Inbox, Report};
use crate::lease::Leadership;
use crate::metrics::Metrics;
use crate::request::RequestError;
use crate::traffic::Traffic;

/// How long a pod's condition waits before it is written. A pod that is admitted a moment later never needs it.
const SETTLE: Duration = Duration::from_millis(200);
/// How long a write is waited for before another one begins beside it.
const IN_TIME: Duration = Duration::from_secs(2);
/// How long the reporter goes on for events once nobody reports any more. The next leader has to wait meanwhile.
pub const LAST_EVENTS: Duration = Duration::from_secs(5);
/// Number of reports taken in at a time.
const BATCH: usize = 1024;

/// What the reporter is started with.
pub struct Reporter {
    /// A separate client, so that its requests share no connection with admissions.
    pub client: Client,
    /// The name of this replica in events.
    pub instance: String,
    /// Whether this replica leads. Nothing is written while it does not.
    pub leadership: Leadership,
    /// Where requests and errors are counted.
    pub metrics: Arc<Metrics>,
}

impl Reporter {
    /// Reports until no sender of reports is left, or the election has ended. Running writes are finished then. Of the waiting writes only
    /// events are written, while this process leads and for [`LAST_EVENTS`] at most: the next leader writes everything else.
    pub async fn run(self, mut inbox: Inbox) {
        let mut leader = self.leadership.changes();
        let (taken, mut missed) = mpsc::channel(BATCH);
        let watches = [
            taken::watch::<CardInventory>(self.client.clone(), self.leadership.changes(), taken.clone()).boxed(),
            taken::watch::<CardType>(self.client.clone(), self.leadership.changes(), taken.clone()).boxed(),
            taken::watch::<CardUsage>(self.client.clone(), self.leadership.changes(), taken).boxed(),
        ];
        let mut watches = FuturesUnordered::from_iter(watches);
        let mut state = State::new(self, Instant::now());
        let mut batch = Vec::new();
        loop {
            state.start(Instant::now());
            let wake_at = state.wake_at();
            let wake = async {
                match wake_at {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                Some(step) = state.running.next() => state.step(step, Instant::now(), clock::now()),
                changed = leader.changed() => {
                    if changed.is_err() {
                        break;
                    }
                    // Another leader may have written since this one led last.
                    state.shelves.list_at_once(Instant::now());
                }
                Some(taken) = missed.recv() => {
                    let now = Instant::now();
                    let missed = state.shelves.miss(&taken, now);
                    state.offer_all(missed, now);
                }
                Some(()) = watches.next() => {}
                received = inbox.recv_many(&mut batch, BATCH) => {
                    if received == 0 {
                        break;
                    }
                    let (now, time) = (Instant::now(), clock::now());
                    for report in batch.drain(..) {
                        state.take_in(report, now, time);
                    }
                }
                () = wake => {}
            }
        }
        state.write_last_events().await;
        while let Some(step) = state.running.next().await {
            state.step(step, Instant::now(), clock::now());
        }
    }
}

/// The end of a list or write.
enum Done {
    /// The end of a request about an object that is shown.
    Shown(Ended),
    Condition(PodRef, Result<(), RequestError>),
    /// The boolean says whether the group then shows the phase.
    Group(WorkloadRef, Result<bool, RequestError>),
    Event(Target, Box<Occurrence>, Written<Option<(String, i32)>>),
}

/// A running write.
struct Write {
    target: Target,
    /// The namespace of the object; empty if it has none.
    namespace: Arc<str>,
    end: BoxFuture<'static, Done>,
}

/// A step in the course of a list or write.
enum Step {
    Listed(Done),
    /// The write is not answered in time.
    Late(Write),
    Written {
        namespace: Arc<str>,
        in_time: bool,
        done: Done,
    },
}

impl Write {
    /// Waits until the write has ended, or is late.
    async fn begin(mut self) -> Step {
        match timeout(IN_TIME, &mut self.end).await {
            Ok(done) => Step::Written {
                namespace: self.namespace,
                in_time: true,
                done,
            },
            Err(_) => Step::Late(self),
        }
    }

    /// Waits until the write has ended, although it is late.
    async fn go_on(self) -> Step {
        Step::Written {
            done: self.end.await,
            namespace: self.namespace,
            in_time: false,
        }
    }
}

struct State {
    sender: Sender,
    instance: String,
    leadership: Leadership,
    queue: WriteQueue,
    shelves: Shelves,
    messages: Messages,
    series: Series,
    lost_events: u64,
    traffic: Traffic,
    running: FuturesUnordered<BoxFuture<'static, Step>>,
}

impl State {
    fn new(reporter: Reporter, now: Instant) -> Self {
        Self {
            sender: Sender {
                client: reporter.client,
                metrics: reporter.metrics,
            },
            instance: reporter.instance,
            leadership: reporter.leadership,
            queue: WriteQueue::default(),
            shelves: Shelves::new(now),
            messages: Messages::default(),
            series: Series::default(),
            lost_events: 0,
            traffic: Traffic::default(),
            running: FuturesUnordered::new(),
        }
    }

    /// Whether this replica leads, by the clock. A replica that stood still would otherwise write although another one leads, until its
    /// election finds out.
    fn leads(&self) -> bool {
        self.leadership.holds()
    }

    fn wake_at(&self) -> Option<Instant> {
        if !self.leads() {
            return None;
        }
        self.shelves.list_at().chain(self.queue.wake_at()).min()
    }

    fn take_in(&mut self, report: Report, now: Instant, time: Timestamp) {
        match report {
            Report::Shown(shown) => {
                let (target, differs, prompt) = self.shelves.want(*shown, time);
                // A waiting or running write may have another content than is wanted now, even if the API server has the wanted content.
                if differs || self.queue.is_pending(&target) {
                    let urgency = if prompt {
                        Urgency::Prompt
                    } else {
                        Urgency::of_use(&target)
                    };
                    self.queue.offer(&target, urgency, now, now);
                }
            }
            Report::Pod { pod, condition, event } => {
                let uid = Arc::clone(&pod.uid);
                self.messages.pod(pod, condition, event, time);
                let condition = Target::Condition(Arc::clone(&uid));
                self.queue.offer(&condition, Urgency::Prompt, now + SETTLE, now);
                // While the condition cannot be written, the event says it.
                if event && self.queue.has_failed(&condition) {
                    self.queue.offer(&Target::PodEvent(uid), Urgency::Event, now, now);
                }
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
            } => {
                let (key, given_up) = self.messages.event(*regarding, kind, reason, message, time);
                self.queue.offer(&Target::Event(key), Urgency::Event, now, now);
                if let Some(given_up) = given_up {
                    self.queue.withdraw(&Target::Event(given_up));
                    self.lose_event();
                }
            }
            Report::Synced => {
                let differing = self.shelves.sync();
                self.offer_all(differing, now);
            }
        }
    }

    fn lose_event(&mut self) {
        self.lost_events += 1;
        if self.lost_events.is_power_of_two() {
            tracing::warn!(total = self.lost_events, "events are lost: too many wait to be written");
        }
    }

    /// Starts the lists and writes that may start now.
    fn start(&mut self, now: Instant) {
        if !self.leads() {
            return;
        }
        let lists = self.shelves.start_lists(&self.sender, now).into_iter().flatten();
        let listed = |ended| Step::Listed(Done::Shown(ended));
        self.running.extend(lists.map(|list| list.map(listed).boxed()));
        self.start_writes(now);
    }

    /// Writes the events that wait. They tell what happened, which the next leader does not know.
    async fn write_last_events(&mut self) {
        self.queue.leave_only_events();
        let end = Instant::now() + LAST_EVENTS;
        while self.leads() && Instant::now() < end {
            self.start_writes(Instant::now());
            let wake_at = self.queue.wake_at().filter(|at| *at < end);
            if self.running.is_empty() && wake_at.is_none() {
                return;
            }
            tokio::select! {
                biased;
                Some(step) = self.running.next() => self.step(step, Instant::now(), clock::now()),
                () = tokio::time::sleep_until(wake_at.unwrap_or(end)) => {}
            }
        }
    }

    /// Starts the writes that may start now.
    fn start_writes(&mut self, now: Instant) {
        while let Some(target) = self.queue.take(now) {
            let namespace = self.namespace(&target);
            if !self.traffic.has_room(&namespace) {
                self.queue.done(&target, Outcome::NotBegun, 0, now);
                continue;
            }
            let Some(end) = self.write(&target, now) else {
                self.queue.done(&target, Outcome::Settled, 0, now);
                continue;
            };
            self.traffic.begin(&namespace);
            let write = Write { target, namespace, end };
            self.running.push(write.begin().boxed());
        }
    }

    /// Returns the namespace of the object that a write is about; empty if it has none.
    fn namespace(&self, target: &Target) -> Arc<str> {
        let namespace = match target {
            Target::Inventory(_) | Target::CardType(_) | Target::Usage(_) => None,
            Target::Condition(uid) | Target::PodEvent(uid) => self.messages.namespace_of_pod(uid).cloned(),
            Target::Group(uid) => self.messages.namespace_of_group(uid).cloned(),
            Target::Event(key) => {
                let occurrence = self.messages.other_event(key);
                occurrence.map(|occurrence| occurrence.namespace().into())
            }
        };
        namespace.unwrap_or_default()
    }

    /// Takes in a step of a list or write.
    fn step(&mut self, step: Step, now: Instant, time: Timestamp) {
        match step {
            Step::Listed(done) => self.end(done, now, time),
            Step::Late(write) => {
                self.traffic.late(&write.namespace, now);
                self.queue.late(&write.target);
                self.running.push(write.go_on().boxed());
            }
            Step::Written {
                namespace,
                in_time,
                done,
            } => {
                self.traffic.end(&namespace, in_time);
                self.end(done, now, time);
            }
        }
    }

    /// Returns the write about `target`; none if there is nothing to write any more.
    fn write(&mut self, target: &Target, now: Instant) -> Option<BoxFuture<'static, Done>> {
        let sender = self.sender.clone();
        let time = clock::now();
        match target {
            Target::Inventory(_) | Target::CardType(_) | Target::Usage(_) => {
                let write = self.shelves.write(sender, target, time)?;
                Some(write.map(Done::Shown).boxed())
            }
            Target::Condition(uid) => {
                let (pod, patch) = self.messages.condition(uid, time)?;
                Some(
                    async move { Done::Condition(pod.clone(), api::write_condition(sender, pod, patch).await) }.boxed(),
                )
            }
            Target::Group(uid) => {
                let (group, patch) = self.messages.group_status(uid)?;
                let written = group.clone();
                Some(async move { Done::Group(written, api::write_group_status(sender, group, patch).await) }.boxed())
            }
            Target::PodEvent(uid) => {
                let occurrence = self.messages.pod_event(uid)?;
                Some(self.write_event(target.clone(), occurrence, now))
            }
            Target::Event(key) => {
                let occurrence = self.messages.other_event(key)?.clone();
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
            Done::Shown(ended) => match ended(&mut self.shelves, now, time) {
                Settled::Write(target, outcome, requests) => self.queue.done(&target, outcome, requests, now),
                Settled::List(differing) => self.offer_all(differing, now),
            },
            Done::Condition(pod, result) => self.end_condition(&pod, &result, now),
            Done::Group(group, result) => self.end_group(&group, &result, now),
            Done::Event(target, occurrence, written) => self.end_event(&target, &occurrence, written, now, time),
        }
    }

    fn offer_all(&mut self, targets: impl IntoIterator<Item = Target>, now: Instant) {
        for target in targets {
            self.queue.offer(&target, Urgency::Prompt, now, now);
        }
    }
}

#[cfg(test)]
mod tests;
