//! Attends the mind: gives it a thread of its own, so that nothing else waits while it thinks, and starts another one where
//! it fell or stands still.
//!
//! A mind that fell may have left its picture torn, and one that stands still can't be interrupted. So neither is repaired:
//! another one takes its place, which sees everything anew and keeps off the object that the former was at. The former one is
//! cut off first, and what it had begun to write is awaited: two minds never act at once.

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

use super::aside::Aside;
use super::{Decide, Mind, Outlets};
use crate::act::Actor;
use crate::event::Event;
use crate::extender::Question;
use crate::lease::Leadership;
use crate::metrics::Stumble;
use crate::observe::{Ears, observe};
use crate::pulse::{self, Liveness, Pulse};
use crate::review::{Exit, Inquiry};
use crate::shutdown::Stop;
use programs::readiness::Readiness;

/// How many events may wait for the mind; a watch that is ahead of it waits. It hears half as many at a time, and what tenants make may have a
/// megabyte each.
const EVENTS_AHEAD: usize = 1024;
/// The name of its thread. Whoever else panics ends the program; see [`crate::program`].
pub const THREAD: &str = "mind";
/// How often the mind is looked after.
const LOOK: Duration = Duration::from_millis(500);
/// After so many looks at one and the same piece of work, the mind stands still: every piece should be over within
/// milliseconds. Looks are counted instead of time, so that a process that was stopped for a while loses nothing.
const STILL: u32 = 10;
/// After so many falls within [`FALLS_WITHIN`], another start would only hide what is wrong: the program ends.
const MOST_FALLS: usize = 8;
const FALLS_WITHIN: Duration = Duration::from_mins(10);

/// The mind can't go on; the program must end.
#[derive(Debug, Error)]
pub enum MindError {
    /// No thread, or no runtime on it.
    #[error("can't start the mind")]
    Start(#[from] io::Error),
    /// It would fall again.
    #[error("the mind fell or stood still {MOST_FALLS} times within {} min, at last while {at}", FALLS_WITHIN.as_secs() / 60)]
    TooOften {
        /// What it was at.
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

/// Where a mind thinks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// On a thread of its own, so that nothing else waits for it, and it may fall or stand still alone.
    ThreadOfItsOwn,
    /// Among the tasks of the runtime that it is started on: where there is one clock, and it is told the time.
    AmongOthers,
}

/// What the mind is started with.
pub struct Attendant {
    /// Its way to the API server.
    pub client: Client,
    /// Whether this process leads.
    pub leadership: Leadership,
    /// Where what it knows goes.
    pub outlets: Outlets,
    /// Who asks whether it lives.
    pub liveness: Arc<Liveness>,
    /// What schedulers ask.
    pub questions: Arc<Mutex<mpsc::Receiver<Question>>>,
    /// What people ask.
    pub inquiries: Exit<Inquiry>,
    /// Which configuration is wanted, and which is in force.
    pub configured: Arc<Configured>,
    /// How it decides.
    pub decide: Decide,
    /// Where it thinks.
    pub thinks: Place,
}

/// How a mind ended.
enum End {
    /// It was told to stop, and has finished what was under way.
    Finished,
    Fell(pulse::Place),
    /// It is at one piece of work for too long.
    Still(pulse::Place),
    /// Nothing tells it any more what happens.
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
    /// Keeps a mind until `stop`, and then until what is under way has ended.
    pub async fn run(self, stop: Stop) -> Result<(), MindError> {
        let aside = Aside::default();
        let mut falls = VecDeque::new();
        loop {
            let mut running = self.start(aside.clone(), stop.clone())?;
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
                aside.set(work.object, stumble);
            }
        }
    }

    /// Starts a mind.
    fn start(&self, aside: Aside, stop: Stop) -> Result<Running, MindError> {
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
            aside,
            self.decide,
        );
        self.liveness.is_that_of(Arc::clone(&pulse));
        let feeding = tokio::spawn(feed(
            self.client.clone(),
            self.leadership.clone(),
            Arc::clone(&self.configured),
            Arc::clone(&self.outlets.readiness),
            mind.pods_wanted(),
            Ears {
                events,
                metrics: Arc::clone(&self.outlets.metrics),
            },
        ));
        let questions = Arc::clone(&self.questions);
        let inquiries = self.inquiries.clone();
        let (finished, ended) = oneshot::channel();
        let thinking = async move {
            mind.run(heard, questions, inquiries, stop.wait()).await;
            // Whoever waits for it has gone where this mind was replaced.
            let _ = finished.send(());
        };
        match self.thinks {
            Place::ThreadOfItsOwn => {
                // Time, and nothing else: requests are other threads' business.
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

    /// Cuts the mind off, and returns when nothing that it began to write is on its way any more.
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
    ears: Ears,
) {
    let is_configured = SetOnce::new();
    tokio::select! {
        biased;
        () = configure(&configured, &ears.events, &is_configured) => {}
        () = look(client, leadership, &is_configured, &readiness, &pods_wanted, ears.clone()) => {}
    }
}

/// Tells of each configuration that is to be in force.
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
        // Later ones change nothing for those who waited for the first.
        let _ = is_configured.set(());
    }
}

/// Observes the cluster from the moment this process leads: what a former leader has done is seen in the lists. And not
/// before a configuration is in force: it says where pods are charged, and nothing is decided before all is listed.
async fn look(
    client: Client,
    leadership: Leadership,
    is_configured: &SetOnce<()>,
    readiness: &Readiness,
    pods_wanted: &Notify,
    ears: Ears,
) {
    if leadership.changes().wait_for(|leads| *leads).await.is_ok() {
        for kind in Kind::ALL {
            readiness.awaits(kind.plural());
        }
        is_configured.wait().await;
        let events = ears.events.clone();
        Box::pin(observe(client, ears, pods_wanted)).await;
        if events.is_closed() {
            // The mind fell, and its attendant sees it.
            std::future::pending::<()>().await;
        }
    }
}
