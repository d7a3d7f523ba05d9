//! The mind: one task that hears events, keeps the cluster's picture, decides, and hands out what is to be done.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crds::configuration::Configuration;
use crds::keys::QUEUE_NAME;
use k8s_openapi::jiff::Timestamp;
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval};

use crate::act::Actor;
use crate::cluster::queue::Terms;
use crate::cluster::{Cluster, Kind};
use crate::decide::{Action, decide};
use crate::event::{Event, Outcome};

/// How many events are heard before the next round of decisions.
const EVENTS_PER_ROUND: usize = 512;
/// How many admissions may be under way: more would only wait, and what is decided late is decided better.
const ADMISSIONS_UNDER_WAY: usize = 256;
/// How often time alone is looked at.
const TICK: Duration = Duration::from_millis(200);

/// Hears, decides, and hands out.
pub struct Mind {
    cluster: Cluster,
    /// The kinds that have not been listed yet: nothing is decided before.
    unlisted: BTreeSet<Kind>,
    actor: Actor,
    under_way: usize,
}

impl Mind {
    /// A mind that knows nothing yet.
    pub fn new(configuration: Arc<Configuration>, actor: Actor) -> Self {
        Self {
            cluster: Cluster::new(configuration),
            unlisted: [Kind::Node, Kind::Queue, Kind::Namespace, Kind::Pod].into(),
            actor,
            under_way: 0,
        }
    }

    /// Hears events until nobody sends any more.
    pub async fn run(mut self, mut events: mpsc::Receiver<Event>) {
        let mut batch = Vec::with_capacity(EVENTS_PER_ROUND);
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                heard = events.recv_many(&mut batch, EVENTS_PER_ROUND) => if heard == 0 { return },
                _ = tick.tick() => {}
            }
            let now = Timestamp::now();
            for event in batch.drain(..) {
                self.hear(event, now);
            }
            if self.unlisted.is_empty() {
                while self.round(now) {
                    tokio::task::yield_now().await;
                }
            }
        }
    }

    fn hear(&mut self, event: Event, now: Timestamp) {
        let cluster = &mut self.cluster;
        match event {
            Event::ListBegins(kind) => cluster.begin_list(kind),
            Event::ListEnds(kind) => {
                cluster.end_list(kind, now);
                self.unlisted.remove(&kind);
            }
            Event::WatchFailed(..) => {}
            Event::Pod(pod) => cluster.apply_pod(*pod, now),
            Event::PodGone(uid) => cluster.remove_pod(&uid),
            Event::Node(node) => cluster.apply_node(&node, now),
            Event::NodeGone(name) => cluster.remove_node(&name, now),
            Event::Queue(queue) => {
                let terms = Terms::read(&queue, &mut cluster.names);
                cluster.apply_queue(queue.metadata.name.as_deref().unwrap_or_default(), terms);
            }
            Event::QueueUnreadable { name, uid, reason } => {
                cluster.apply_queue(&name, Terms::unreadable(&uid, &reason));
            }
            Event::QueueGone(name) => cluster.remove_queue(&name),
            Event::Namespace(metadata) => {
                let name = metadata.name.clone().unwrap_or_default();
                let queue = metadata.annotations.get(QUEUE_NAME).map(ToOwned::to_owned);
                cluster.apply_namespace(&name, metadata.labels, queue.as_deref());
            }
            Event::NamespaceGone(name) => cluster.remove_namespace(&name),
            Event::Configuration(configuration) => cluster.set_configuration(configuration, now),
            Event::Outcome(uid, outcome) => {
                self.under_way -= 1;
                match outcome {
                    Outcome::Admitted => cluster.confirm(&uid),
                    Outcome::Refused => cluster.refuse(&uid, now),
                }
            }
        }
    }

    /// Decides once; whether there is more to decide at once.
    fn round(&mut self, now: Timestamp) -> bool {
        let room = ADMISSIONS_UNDER_WAY.saturating_sub(self.under_way);
        let round = decide(&mut self.cluster, now, room);
        for action in round.actions {
            match action {
                Action::Admit(admission) => {
                    self.under_way += 1;
                    self.actor.admit(admission);
                }
                Action::SendBack { pod, message } => self.actor.send_back(pod, message),
                Action::Unplaced { .. } => {}
            }
        }
        round.more && room > 0 && self.under_way < ADMISSIONS_UNDER_WAY
    }
}
