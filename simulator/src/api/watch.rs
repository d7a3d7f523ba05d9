//! Watches: each write is delivered to the clients that watch, in order for each kind, and late.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use http_body::{Body, Frame};
use serde_json::{Value, json};
use tokio::time::{Instant, Sleep, sleep_until};
use tower::BoxError;

use super::asked::Asked;
use super::refused::Refused;
use super::verbs::Selector;
use super::{Server, State, WAY};
use crate::objects::{Resource, Write};

/// How often a quiet watch is told up to which version it is quiet.
const BOOKMARKS: Duration = Duration::from_mins(1);
/// How long a watch lasts if the client does not say.
const LASTS: u64 = 1800;

/// The content of an answer.
pub enum Answer {
    /// The whole content.
    Whole(Option<Bytes>),
    /// The events from now on.
    Watch(Box<Watch>),
}

impl From<Infallible> for Answer {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

impl Body for Answer {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match self.get_mut() {
            Self::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Watch(watch) => watch.poll(context),
        }
    }
}

/// The open watches.
#[derive(Debug, Default)]
pub struct Watches {
    next: u64,
    open: BTreeMap<u64, Open>,
    /// The newest version that all watches were woken for.
    woken_for: u64,
}

/// A watch, as the server sees it.
#[derive(Debug)]
struct Open {
    resource: &'static Resource,
    waker: Option<Waker>,
    end: Option<End>,
    is_silent: bool,
}

/// How a watch ends before its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The connection breaks.
    Broken,
    /// The API server no longer knows what has happened since.
    Expired,
}

impl Watches {
    /// Wakes all watches for writes up to this version.
    pub(super) fn wake_for(&mut self, version: u64) {
        if self.woken_for < version {
            self.woken_for = version;
            self.wake();
        }
    }

    /// Wakes all watches.
    fn wake(&mut self) {
        for open in self.open.values_mut() {
            if let Some(waker) = open.waker.take() {
                waker.wake();
            }
        }
    }

    fn of<'w>(&'w mut self, resource: Option<&'w Resource>) -> impl Iterator<Item = &'w mut Open> {
        self.open
            .values_mut()
            .filter(move |open| resource.is_none_or(|resource| open.resource == resource))
    }
}

impl State {
    /// Ends the watches on a kind, or all watches.
    pub fn end_watches(&mut self, resource: Option<&Resource>, end: End) {
        for open in self.watches.of(resource) {
            open.end = Some(end);
        }
        self.watches.wake();
    }

    /// Lets the open watches on a kind deliver nothing more, without ending.
    pub fn silence_watches(&mut self, resource: &Resource) {
        for open in self.watches.of(Some(resource)) {
            open.is_silent = true;
        }
    }
}

/// A watch, as the client sees it.
pub struct Watch {
    server: Server,
    id: u64,
    asked: Asked,
    selector: Selector,
    /// The version that was delivered last.
    version: u64,
    /// When the news is delivered.
    due: Option<Instant>,
    bookmark: Instant,
    until: Instant,
    sleep: Pin<Box<Sleep>>,
    is_over: bool,
}

/// Opens a watch.
pub(super) fn open(server: &Server, state: &mut State, _who: &Arc<str>, asked: &Asked) -> Response<Answer> {
    let version = asked.number("resourceVersion").unwrap_or_default();
    let version = if version == 0 { state.objects.version() } else { version };
    let selector = match Selector::read(asked) {
        Ok(selector) => selector,
        Err(refused) => return super::say_no(&refused),
    };
    if version < state.faults.forgotten {
        let refused = Refused::expired(format!(
            "too old resource version: {version} ({})",
            state.faults.forgotten
        ));
        return Response::new(Answer::Whole(Some(line("ERROR", &refused.status().to_string()).into())));
    }
    state.watches.next += 1;
    let id = state.watches.next;
    let open = Open {
        resource: asked.resource,
        waker: None,
        end: None,
        is_silent: false,
    };
    state.watches.open.insert(id, open);
    let now = Instant::now();
    let until = now + Duration::from_secs(asked.number("timeoutSeconds").unwrap_or(LASTS));
    Response::new(Answer::Watch(Box::new(Watch {
        server: server.clone(),
        id,
        asked: asked.clone(),
        selector,
        version,
        due: None,
        bookmark: now + BOOKMARKS,
        until,
        sleep: Box::pin(sleep_until(until)),
        is_over: false,
    })))
}

impl Watch {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        let server = self.server.clone();
        let mut state = server.state();
        let now = Instant::now();
        let Some(open) = state.watches.open.get_mut(&self.id) else {
            return Poll::Ready(None);
        };
        match &mut open.waker {
            Some(waker) => waker.clone_from(context.waker()),
            none => *none = Some(context.waker().clone()),
        }
        let (end, is_silent) = (open.end, open.is_silent);
        match end {
            Some(End::Broken) => {
                self.is_over = true;
                let broken = io::Error::new(io::ErrorKind::ConnectionReset, "connection reset by peer");
                return Poll::Ready(Some(Err(Box::new(broken))));
            }
            Some(End::Expired) => {
                self.is_over = true;
                let refused = Refused::expired(format!("too old resource version: {}", self.version));
                return Poll::Ready(Some(Ok(Frame::data(
                    line("ERROR", &refused.status().to_string()).into(),
                ))));
            }
            None => {}
        }
        let mut wake_at = self.until;
        if is_silent {
            // The watch does not end either.
            return Poll::Pending;
        }
        if now >= self.until {
            self.is_over = true;
            return Poll::Ready(None);
        }
        if state.objects.version() > self.version {
            let lag = state.faults.lags.get(self.asked.resource).copied().unwrap_or(WAY);
            let due = *self.due.get_or_insert(now + lag);
            if now >= due {
                self.due = None;
                let news = self.news(&mut state);
                self.version = state.objects.version();
                if !news.is_empty() {
                    self.bookmark = now + BOOKMARKS;
                    return Poll::Ready(Some(Ok(Frame::data(news))));
                }
            } else {
                wake_at = wake_at.min(due);
            }
        }
        if now >= self.bookmark {
            self.bookmark = now + BOOKMARKS;
            if self.due.is_none() && self.asked.query("allowWatchBookmarks") == "true" {
                let object = json!({
                    "apiVersion": crate::objects::api_version(self.asked.resource), "kind": self.asked.resource.kind,
                    "metadata": {"resourceVersion": self.version.to_string(), "creationTimestamp": null},
                });
                return Poll::Ready(Some(Ok(Frame::data(line("BOOKMARK", &object.to_string()).into()))));
            }
        }
        self.sleep.as_mut().reset(wake_at.min(self.bookmark));
        match self.sleep.as_mut().poll(context) {
            Poll::Ready(()) => {
                context.waker().wake_by_ref();
                Poll::Pending
            }
            Poll::Pending => Poll::Pending,
        }
    }

    /// Returns what has happened since, as lines.
    fn news(&self, state: &mut State) -> Bytes {
        let mut lines = String::new();
        for write in state.objects.writes_after(self.version) {
            let Some((what, object)) = self.told(write) else {
                continue;
            };
            let texts = &mut state.texts;
            let text = texts.as_of(write.version, object, self.asked.only_metadata);
            lines.push_str(&line(what, &text));
        }
        lines.into()
    }

    /// Returns what the client is told of a write, if the write concerns a selected object.
    fn told<'w>(&self, write: &'w Write) -> Option<(&'static str, &'w Value)> {
        let in_namespace = self.asked.namespace.is_empty() || self.asked.namespace == write.key.namespace;
        if write.resource != self.asked.resource || !in_namespace {
            return None;
        }
        let (before, after) = (write.before.as_deref(), write.after.as_deref());
        let selected = |object: Option<&'w Value>| object.filter(|object| self.selector.selects(object));
        match (selected(before), selected(after)) {
            (None, None) => None,
            (None, Some(after)) => Some(("ADDED", after)),
            (Some(_), Some(after)) => Some(("MODIFIED", after)),
            (Some(before), None) => Some(("DELETED", after.unwrap_or(before))),
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.server.state().watches.open.remove(&self.id);
    }
}

/// Returns an event about an object, which is given as JSON.
fn line(what: &str, object: &str) -> String {
    format!(r#"{{"type":"{what}","object":{object}}}"#) + "\n"
}
