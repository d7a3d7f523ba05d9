//! Bodies of requests: each is read within a time limit, and within a room (an amount of memory) that all bodies of a port share.
//!
//! A body takes room as it arrives, whatever its headers claim, and keeps it until it is answered. When the room runs short, the body that
//! has been arriving for longest is given up. An honest body arrives within milliseconds, so a small body never waits behind a large
//! unfinished one.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use actix_web::HttpResponse;
use actix_web::error::PayloadError;
use actix_web::http::StatusCode;
use actix_web::http::header::{ContentType, RETRY_AFTER};
use actix_web::web::Bytes;
use futures::{Stream, StreamExt as _};
use thiserror::Error;
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::ports::refusals::Reason;

/// The first room for a body that comes in several pieces; it is doubled when more is needed.
const FIRST_ROOM: usize = 16 << 10;

/// Why there is no body.
#[derive(Debug, Error)]
pub enum BodyError {
    /// The body is longer than any body may be.
    #[error("the body is longer than {0} bytes: send less")]
    TooLong(usize),
    /// Reading the body would cost more than any honest body is worth.
    #[error("the body holds more than {0} values: send a smaller object")]
    TooMany(usize),
    /// The body took too long to arrive.
    #[error("the body did not arrive within {0:?}: send it at once")]
    Slow(Duration),
    /// Other bodies needed the room.
    #[error("too many bodies at once, and this one has been arriving for longest or found no room: try again")]
    Crowded,
    /// The connection ended, or the data is not valid HTTP.
    #[error("the body can't be read: {0}")]
    Broken(#[from] PayloadError),
}

impl BodyError {
    /// Returns the status of the answer.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::TooLong(_) | Self::TooMany(_) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Slow(_) => StatusCode::REQUEST_TIMEOUT,
            Self::Crowded => StatusCode::SERVICE_UNAVAILABLE,
            Self::Broken(_) => StatusCode::BAD_REQUEST,
        }
    }

    /// Returns the reason to count; none if the client went away by itself.
    pub fn reason(&self) -> Option<Reason> {
        match self {
            Self::TooLong(_) | Self::TooMany(_) => Some(Reason::TooLarge),
            Self::Slow(_) => Some(Reason::Slow),
            Self::Crowded => Some(Reason::Crowded),
            Self::Broken(_) => None,
        }
    }

    /// Returns the answer. The rest of the body is not waited for.
    pub fn response(&self) -> HttpResponse {
        let mut response = HttpResponse::build(self.status());
        if matches!(self, Self::Crowded) {
            response.insert_header((RETRY_AFTER, "1"));
        }
        response
            .force_close()
            .content_type(ContentType::plaintext())
            .body(format!("{self}\n"))
    }
}

/// The limits of one body.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// The largest length, in bytes.
    pub longest: usize,
    /// The longest time from the headers to the last byte.
    pub time: Duration,
    /// The limits of its JSON values, if their number is bounded.
    pub values: Option<Values>,
}

/// How many JSON values a body may hold. A value counts once or twice: if it opens an object or a list, and if another value precedes it.
#[derive(Debug, Clone, Copy)]
pub struct Values {
    /// The largest number of values.
    pub most: usize,
    /// How many bytes one value takes when it is read, whatever its length as JSON. The body takes this room for each value, besides its
    /// length.
    pub room: usize,
}

/// The room that all bodies of a port share.
#[derive(Debug)]
pub struct Room(Mutex<State>);

#[derive(Debug)]
struct State {
    free: usize,
    next: u64,
    /// The bodies that are arriving, in the order in which they began.
    arriving: BTreeMap<u64, Arriving>,
}

#[derive(Debug)]
struct Arriving {
    held: usize,
    given_up: Arc<Notify>,
}

impl Room {
    /// Creates a room of that many bytes.
    pub fn new(bytes: usize) -> Arc<Self> {
        Arc::new(Self(Mutex::new(State {
            free: bytes,
            next: 0,
            arriving: BTreeMap::new(),
        })))
    }

    /// Returns how many bytes are free.
    pub fn free(&self) -> usize {
        self.state().free
    }

    fn enter(self: &Arc<Self>) -> Place {
        let given_up = Arc::new(Notify::new());
        let mut state = self.state();
        let number = state.next;
        state.next += 1;
        let arriving = Arriving {
            held: 0,
            given_up: Arc::clone(&given_up),
        };
        state.arriving.insert(number, arriving);
        Place {
            room: Arc::clone(self),
            number,
            given_up,
            arrived: None,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics under this lock, and each sum is changed in one step.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The place of one body in the room. It gives its room back when it is dropped.
#[derive(Debug)]
struct Place {
    room: Arc<Room>,
    number: u64,
    given_up: Arc<Notify>,
    /// How much the body holds, once it has arrived.
    arrived: Option<usize>,
}

impl Place {
    /// Takes room, so that the body holds `bytes` in all. If necessary, takes it from bodies that have been arriving for longer.
    fn hold(&mut self, bytes: usize) -> Result<(), BodyError> {
        let mut state = self.room.state();
        let own = state.arriving.get(&self.number).ok_or(BodyError::Crowded)?;
        let more = bytes.saturating_sub(own.held);
        let older = state.arriving.range(..self.number).map(|(_, body)| body.held);
        if state.free + older.sum::<usize>() < more {
            // No body is given up in vain.
            return Err(BodyError::Crowded);
        }
        while state.free < more {
            match state.arriving.first_entry() {
                Some(oldest) if *oldest.key() != self.number => {
                    let oldest = oldest.remove();
                    oldest.given_up.notify_one();
                    state.free += oldest.held;
                }
                // This body is the oldest.
                _ => return Err(BodyError::Crowded),
            }
        }
        let own = state.arriving.get_mut(&self.number).ok_or(BodyError::Crowded)?;
        own.held += more;
        state.free -= more;
        Ok(())
    }

    /// Takes room for that many bytes in addition to what the body holds.
    fn hold_besides(&mut self, bytes: usize) -> Result<(), BodyError> {
        let held = self.room.state().arriving.get(&self.number).map(|own| own.held);
        self.hold(held.ok_or(BodyError::Crowded)? + bytes)
    }

    /// Notes that the whole body has arrived. From now on it keeps what it holds.
    fn arrive(&mut self) -> Result<(), BodyError> {
        let own = self.room.state().arriving.remove(&self.number);
        self.arrived = Some(own.ok_or(BodyError::Crowded)?.held);
        Ok(())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.room.state();
        let held = match self.arrived {
            Some(held) => held,
            // The room of a body that was given up is free already.
            None => state.arriving.remove(&self.number).map_or(0, |own| own.held),
        };
        state.free += held;
    }
}

/// A whole body, which keeps its room until it is dropped.
#[derive(Debug)]
pub struct Body {
    bytes: Bytes,
    _place: Place,
}

impl Deref for Body {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Reads a body.
pub async fn read(
    room: &Arc<Room>,
    pieces: impl Stream<Item = Result<Bytes, PayloadError>> + Unpin,
    limits: Limits,
) -> Result<Body, BodyError> {
    let mut place = room.enter();
    let given_up = Arc::clone(&place.given_up);
    let bytes = tokio::select! {
        biased;
        () = given_up.notified() => return Err(BodyError::Crowded),
        bytes = timeout(limits.time, collect(&mut place, pieces, limits.longest)) => {
            bytes.map_err(|_| BodyError::Slow(limits.time))??
        }
    };
    if let Some(Values { most, room }) = limits.values {
        let values = values(&bytes);
        if values > most {
            return Err(BodyError::TooMany(most));
        }
        place.hold_besides(values * room)?;
    }
    place.arrive()?;
    Ok(Body { bytes, _place: place })
}

/// Returns how many values a JSON text holds, as [`Values`] counts them. Each value except the first one comes after a comma, or after the
/// opening bracket of its list or object.
pub fn values(json: &[u8]) -> usize {
    json.iter().filter(|byte| matches!(byte, b',' | b'[' | b'{')).count()
}

async fn collect(
    place: &mut Place,
    mut pieces: impl Stream<Item = Result<Bytes, PayloadError>> + Unpin,
    longest: usize,
) -> Result<Bytes, BodyError> {
    // Most bodies come in one piece, which is then not copied.
    let Some(first) = pieces.next().await else {
        return Ok(Bytes::new());
    };
    let first = first?;
    if first.len() > longest {
        return Err(BodyError::TooLong(longest));
    }
    place.hold(first.len())?;
    let Some(second) = pieces.next().await else {
        return Ok(first);
    };
    // From here on there is one buffer: each piece, however short, would keep alive the larger buffer that it is part of.
    let mut whole = Vec::new();
    extend(place, &mut whole, &first, longest)?;
    drop(first);
    extend(place, &mut whole, &second?, longest)?;
    while let Some(piece) = pieces.next().await {
        extend(place, &mut whole, &piece?, longest)?;
    }
    Ok(whole.into())
}

/// Adds a piece, after taking room for it.
fn extend(place: &mut Place, whole: &mut Vec<u8>, piece: &[u8], longest: usize) -> Result<(), BodyError> {
    let length = whole.len() + piece.len();
    if length > longest {
        return Err(BodyError::TooLong(longest));
    }
    if length > whole.capacity() {
        let room = length.max((2 * whole.capacity()).max(FIRST_ROOM).min(longest));
        place.hold(room)?;
        whole.reserve_exact(room - whole.len());
    }
    whole.extend_from_slice(piece);
    Ok(())
}

#[cfg(test)]
mod tests;
