//! Attends the mind: gives it a thread of its own, so that nothing else waits while it thinks, and starts another mind when the present one
//! has fallen (panicked) or stands still.
//!
//! A mind that fell may have left its picture half changed, and a mind that stands still cannot be interrupted. So neither is repaired:
//! another mind takes its place, which sees everything anew and keeps off the object that the former mind was working on. The former mind is
//! cut off first, and the writes that it began are awaited: two minds never act at once.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use std::{io, thread};

use crds::configuration::Configuration;
use engine::cluster::Kind;
use kube::Client;
use thiserror::Error;
use tokio::sync::{Mutex, Notify, SetOnce, mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::quarantine::Quarantine;
use super::{Decide, Mind, Outlets};
use crate::act::Actor;
use crate::event::Event;
use crate::extender::Question;
use crate::lease::Leadership;
use crate::metrics::Stumble;
use crate::observe::{Sinks, observe};
use crate::pulse::{self, Liveness, Pulse};
use crate::review::{Exit, Inquiry};
use crate::shutdown::Stop;
use programs::readiness::Readiness;

/// Number of events that may wait for the mind; a watch that is further ahead waits. The mind hears half as many events at a time. The
/// number is small because objects that tenants create may have a megabyte each.
const EVENTS_AHEAD: usize = 1024;
/// The name of the mind's thread. A panic in any other thread ends the program; see [`crate::program`].
pub const THREAD: &str = "mind";
/// How often the attendant looks at the mind.
const LOOK: Duration = Duration::from_millis(500);
/// After this many looks at one and the same piece of work, the mind is taken to stand still: every piece should be over within
/// milliseconds. Looks are counted instead of time, so that a process that was stopped for a while loses nothing.
const STILL: u32 = 10;
/// After this many falls within [`FALLS_WITHIN`], another start would only hide what is wrong: the program ends.
const MOST_FALLS: usize = 8;
const FALLS_WITHIN: Duration = Duration::from_mins(10);

/// The mind can't go on; the program must end.
#[derive(Debug, Error)]
pub enum MindError {
    /// The thread, or the runtime on it, could not be started.
    #[error("can't start the mind")]
    Start(#[from] io::Error),
    /// The mind would fall again.
    #[error("the mind fell or stood still {MOST_FALLS} times within {} min, at last while {at}", FALLS_WITHIN.as_secs() / 60)]
    TooOften {
        /// What the mind was doing.
        at: String,
    },
    /// The watches have ended, which they never should.
    #[error("the watches have ended")]
    Blind,
}

/// The configuration that is to be in force, and the one that is.
#[derive(Debug)]
pub struct Configured {
    wanted: watch::Sender<Option<Arc<Configuration>>>,
    in_force: watch::Sender<Option<Arc<Configuration>>>,
}

impl Default for Configured {
    fn default() -> Self {
        Self {
            wanted: watch::Sender::new(None),
            in_force: watch::Sender::new(None),
        }
    }
}

impl Configured {
    /// Puts a configuration in force, and returns when it is.
    pub async fn put_in_force(&self, configuration: Arc<Configuration>) {
        let mut in_force = self.in_force.subscribe();
        self.wanted.send_replace(Some(Arc::clone(&configuration)));
        let is_it = |now: &Option<Arc<Configuration>>| now.as_ref().is_some_and(|now| Arc::ptr_eq(now, &configuration));
        // The sender lives as long as this does.
        let _ = in_force.wait_for(is_it).await;
    }
}

/// Where a mind runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// On a thread of its own, so that nothing else waits for it, and a fall or a standstill affects no other part.
    ThreadOfItsOwn,
    /// Among the tasks of the runtime that it is started on. This is for places with a single clock that sets the time for all tasks.
    AmongOthers,
}

/// What the mind is started with.
pub struct Attendant {
    /// The client for the API server.
    pub client: Client,
    /// Whether this process leads.
    pub leadership: Leadership,
    /// Where the mind sends what it knows.
    pub outlets: Outlets,
    /// Answers the probe whether the mind is alive.
    pub liveness: Arc<Liveness>,
    /// Questions of schedulers.
    pub questions: Arc<Mutex<mpsc::Receiver<Question>>>,
    /// Questions of people.
    pub inquiries: Exit<Inquiry>,
    /// Which configuration is wanted, and which is in force.
    pub configured: Arc<Configured>,
    /// How the mind decides.
    pub decide: Decide,
    /// Where the mind runs.
    pub thinks: Place,
}

/// How a mind ended.
enum End {
    /// It was told to stop, and has finished what was under way.
    Finished,
    Fell(pulse::Place),
    /// It has been at one piece of work for too long.
    Still(pulse::Place),
    /// Nothing tells the mind any more what happens.
    Blind,
}

/// A mind, and what belongs to it alone.
struct Running {
    pulse: Arc<Pulse>,
    actor: Actor,
    ended: oneshot::Receiver<()>,
    feeding: JoinHandle<()>,
}

impl Attendant {
    /// Keeps a mind running until `stop`, and then until the writes under way have ended.
    pub async fn run(self, stop: Stop) -> Result<(), MindError> {
        let quarantine = Quarantine::default();
        let mut falls = VecDeque::new();
        loop {
            let mut running = self.start(quarantine.clone(), stop.clone())?;
            let (place, stumble) = match running.watch_over().await {
                End::Finished => return Ok(()),
                End::Blind => return Err(MindError::Blind),
                End::Fell(place) => (place, Stumble::Fell),
                End::Still(place) => (place, Stumble::StoodStill),
            };
            self.outlets.metrics.stumbled(stumble);
            let work = place.work.as_ref();
            let at = work.map_or_else(|| "no object".to_owned(), ToString::to_string);
            let uid = work.map(|work| &*work.object.uid);
            tracing::error!(
                at,
                uid,
                how = stumble.as_str(),
                "the mind is replaced by one that keeps off this object"
            );
            running.retire().await;
            if stop.is_set() {
                return Ok(());
            }
            falls.push_back(Instant::now());
            while falls
                .front()
                .is_some_and(|fall: &Instant| fall.elapsed() > FALLS_WITHIN)
            {
                falls.pop_front();
            }
            if falls.len() >= MOST_FALLS {
                return Err(MindError::TooOften { at });
            }
            if let Some(work) = place.work {
                quarantine.add(work.object, stumble);
            }
        }
    }

    /// Starts a mind.
    fn start(&self, quarantine: Quarantine, stop: Stop) -> Result<Running, MindError> {
        let (events, heard) = mpsc::channel(EVENTS_AHEAD);
        let pulse = Arc::new(Pulse::default());
        let actor = Actor::new(
            self.client.clone(),
            events.clone(),
            self.leadership.clone(),
            Arc::clone(&self.outlets.metrics),
        );
        let mind = Mind::new(
            actor.clone(),
            self.outlets.clone(),
            Arc::clone(&pulse),
            quarantine,
            self.decide,
        );
        self.liveness.follow(Arc::clone(&pulse));
        let feeding = tokio::spawn(feed(
            self.client.clone(),
            self.leadership.clone(),
            Arc::clone(&self.configured),
            Arc::clone(&self.outlets.readiness),
            mind.pods_wanted(),
            Sinks {
                events,
                metrics: Arc::clone(&self.outlets.metrics),
            },
        ));
        let questions = Arc::clone(&self.questions);
        let inquiries = self.inquiries.clone();
        let (finished, ended) = oneshot::channel();
        let thinking = async move {
            mind.run(heard, questions, inquiries, stop.wait()).await;
            // If this mind was replaced, nobody waits for its end any more.
            let _ = finished.send(());
        };
        match self.thinks {
            Place::ThreadOfItsOwn => {
                // The runtime has a timer and nothing else: other threads make the requests.
                let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
                thread::Builder::new()
                    .name(THREAD.to_owned())
                    .spawn(move || runtime.block_on(thinking))?;
            }
            Place::AmongOthers => drop(tokio::spawn(thinking)),
        }
        Ok(Running {
            pulse,
            actor,
            ended,
            feeding,
        })
    }
}

impl Running {
    /// Returns when the mind has ended, or stands still.
    async fn watch_over(&mut self) -> End {
        let mut looks = interval(LOOK);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut seen, mut same) = (self.pulse.place(), 0);
        loop {
            tokio::select! {
                biased;
                ended = &mut self.ended => return match ended {
                    Ok(()) => End::Finished,
                    Err(_) => End::Fell(self.pulse.place()),
                },
                _ = &mut self.feeding => return End::Blind,
                _ = looks.tick() => {
                    let place = self.pulse.place();
                    same = if place == seen && place.work.is_some() { same + 1 } else { 0 };
                    seen = place;
                    if same >= STILL {
                        return End::Still(seen);
                    }
                }
            }
        }
    }

    /// Cuts the mind off, and returns when none of the writes that it began is on its way any more.
    async fn retire(self) {
        self.feeding.abort();
        self.actor.retire().await;
    }
}

/// Tells one mind what happens, until it is replaced.
async fn feed(
    client: Client,
    leadership: Leadership,
    configured: Arc<Configured>,
    readiness: Arc<Readiness>,
    pods_wanted: Arc<Notify>,
    sinks: Sinks,
) {
    let is_configured = SetOnce::new();
    tokio::select! {
        biased;
        () = configure(&configured, &sinks.events, &is_configured) => {}
        () = look(client, leadership, &is_configured, &readiness, &pods_wanted, sinks.clone()) => {}
    }
}

/// Tells the mind of each configuration that is to be in force.
async fn configure(configured: &Configured, events: &mpsc::Sender<Event>, is_configured: &SetOnce<()>) {
    let mut wanted = configured.wanted.subscribe();
    wanted.mark_changed();
    while wanted.changed().await.is_ok() {
        let Some(configuration) = wanted.borrow_and_update().clone() else {
            continue;
        };
        let (in_force, told) = oneshot::channel();
        let event = Event::Configuration(Arc::clone(&configuration), in_force);
        if events.send(event).await.is_err() || told.await.is_err() {
            // The mind fell, and its attendant sees it.
            return std::future::pending().await;
        }
        configured.in_force.send_replace(Some(configuration));
        // Later configurations change nothing for those that waited for the first one.
        let _ = is_configured.set(());
    }
}

/// Observes the cluster from the moment this process leads, so that the lists show what a former leader has done. Observation also waits
/// until a configuration is in force: the configuration says where pods are charged, and nothing is decided before everything is listed.
async fn look(
    client: Client,
    leadership: Leadership,
    is_configured: &SetOnce<()>,
    readiness: &Readiness,
    pods_wanted: &Notify,
    sinks: Sinks,
) {
    if leadership.changes().wait_for(|leads| *leads).await.is_ok() {
        for kind in Kind::ALL {
            readiness.awaits(kind.plural());
        }
        is_configured.wait().await;
        let events = sinks.events.clone();
        Box::pin(observe(client, sinks, pods_wanted)).await;
        if events.is_closed() {
            // The mind fell, and its attendant sees it.
            std::future::pending::<()>().await;
        }
    }
}
