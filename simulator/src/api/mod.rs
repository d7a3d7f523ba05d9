//! The API server that `kube::Client` talks to, in this process. It answers from [`Objects`] as the real one does, unless a
//! [fault](faults) strikes the request.

pub mod asked;
pub mod attempts;
mod check;
pub mod faults;
mod merge;
mod policies;
mod refused;
#[cfg(test)]
mod tests;
mod texts;
mod verbs;
pub mod watch;

use std::future::pending;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use kube::Client;
use kube::client::Body;
use programs::{clock, in_time};
use tokio::time::sleep;
use tower::util::MapFutureLayer;
use tower::{BoxError, Layer as _};

use crate::objects::{LEASES, Objects};
use asked::{Asked, Verb};
use attempts::Attempt;
use faults::{Fate, Faults, Late};
use refused::Refused;
use texts::Texts;
use watch::{Answer, Watches};

/// The API server. Clones are the same server.
#[derive(Clone)]
pub struct Server(Arc<Mutex<State>>);

/// The whole state, which only one thread changes at a time.
pub struct State {
    /// The stored objects.
    pub objects: Objects,
    /// What goes wrong.
    pub faults: Faults,
    /// Writing requests that changed nothing, oldest first.
    pub attempts: Vec<Attempt>,
    watches: Watches,
    texts: Texts,
}

impl State {
    /// Wakes all watches, if there is anything new.
    pub fn wake(&mut self) {
        self.watches.wake_for(self.objects.version());
    }

    /// Carries out the late requests that are due.
    pub fn arrive(&mut self) {
        let now = self.objects.age;
        self.carry_out(|late| late.due <= now);
    }

    /// Carries out what this sender has sent, before another takes its place. An API server needs no longer for a request
    /// than an operator waits before it leads.
    pub fn settle(&mut self, who: impl Fn(&str) -> bool) {
        self.carry_out(|late| who(&late.who));
    }

    fn note_attempt(&mut self, who: &Arc<str>, asked: &Asked, code: u16) {
        if asked.verb.writes() {
            self.attempts
                .push(attempts::attempt(who, self.objects.age, asked, code));
        }
    }

    fn carry_out(&mut self, which: impl Fn(&Late) -> bool) {
        for late in self.faults.arriving(which) {
            self.objects.sent = Some(late.sent);
            // The sender no longer waits for the answer.
            let _ = verbs::answer(self, &late.who, &late.asked);
            self.objects.sent = None;
        }
    }
}

impl Server {
    /// A server that stores these objects.
    pub fn new(objects: Objects) -> Self {
        Self(Arc::new(Mutex::new(State {
            objects,
            faults: Faults::default(),
            attempts: Vec::new(),
            watches: Watches::default(),
            texts: Texts::default(),
        })))
    }

    /// Returns the server's state.
    pub fn state(&self) -> MutexGuard<'_, State> {
        // A panic in here is reported anyway.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a client with this user name. It belongs to the runtime on which this is called.
    pub fn client(&self, who: &str) -> Client {
        let (server, who) = (self.clone(), Arc::<str>::from(who));
        let service = tower::service_fn(move |request| {
            let (server, who) = (server.clone(), Arc::clone(&who));
            async move { server.serve(&who, request).await }
        });
        Client::new(MapFutureLayer::new(in_time).layer(service), "default")
    }

    async fn serve(&self, who: &Arc<str>, request: Request<Body>) -> Result<Response<Answer>, BoxError> {
        let (parts, body) = request.into_parts();
        let body = body.collect_bytes().await?;
        let asked = Asked::read(&parts, body.to_vec());
        let Some(asked) = asked.filter(|asked| self.state().objects.serves(asked.resource)) else {
            let message = "the server could not find the requested resource";
            return Ok(say_no(&Refused::new(404, "NotFound", message)));
        };
        let (fate, sent) = {
            let state = &mut *self.state();
            state.objects.pass_until(clock::now());
            (state.faults.befall(who, &asked, state.objects.age), state.objects.age)
        };
        sleep(fate.way_there()).await;
        let answer = {
            let state = &mut *self.state();
            state.objects.pass_until(clock::now());
            if asked.resource == &LEASES && asked.verb.writes() {
                state.settle(|late| late != &**who);
            }
            if state.faults.is_down(state.objects.age) {
                return Err(Box::new(io::Error::new(
                    io::ErrorKind::ConnectionRefused,
                    "connection refused",
                )));
            }
            state.objects.sent = Some(sent);
            let answer = match fate {
                Fate::Refused { code, .. } => {
                    state.note_attempt(who, &asked, code);
                    Some(Ok(say_no(&faults::refusal(code))))
                }
                Fate::Late { by, .. } => {
                    let (who, due) = (Arc::clone(who), state.objects.age + by);
                    state.faults.delay(Late { who, asked, sent, due });
                    None
                }
                Fate::Unanswered => {
                    // Nobody learns the result.
                    let _ = verbs::answer(state, who, &asked);
                    state.wake();
                    None
                }
                Fate::Answered { .. } if asked.verb == Verb::Watch => Some(Ok(watch::open(self, state, who, &asked))),
                Fate::Answered { .. } => {
                    let before = state.objects.version();
                    let answered = verbs::answer(state, who, &asked);
                    if state.objects.version() == before {
                        let code = answered.as_ref().map_or_else(|no| no.code, |yes| yes.status().as_u16());
                        state.note_attempt(who, &asked, code);
                    }
                    if asked.verb.writes() {
                        state.wake();
                    }
                    Some(answered)
                }
            };
            state.objects.sent = None;
            answer
        };
        let Some(answer) = answer else {
            return pending().await;
        };
        sleep(fate.way_back()).await;
        Ok(answer.unwrap_or_else(|refused| say_no(&refused)))
    }
}

/// Returns an answer with this status and content.
fn say(code: u16, content: &serde_json::Value) -> Response<Answer> {
    say_text(code, content.to_string())
}

/// The same for content that is JSON already.
fn say_text(code: u16, content: String) -> Response<Answer> {
    let mut response = Response::new(Answer::Whole(Some(Bytes::from(content))));
    *response.status_mut() = http::StatusCode::from_u16(code).unwrap_or(http::StatusCode::INTERNAL_SERVER_ERROR);
    response
}

fn say_no(refused: &Refused) -> Response<Answer> {
    say(refused.code, &refused.status())
}

/// How long a message takes in one direction, if nothing delays it.
const WAY: Duration = Duration::from_millis(1);
