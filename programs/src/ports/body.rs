//! Bodies of requests: read within a time, and within a room that all bodies of a port share.
//!
//! A body takes room as it arrives, whatever its headers claim, and until it is answered. Where the room runs short, the body
//! that has been arriving for longest is given up: an honest one is there within milliseconds, so what is small never waits
//! behind what is large and unfinished.

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

/// The room for a body that comes in several pieces: at first, and doubled from then on.
const FIRST_ROOM: usize = 16 << 10;

/// Why there is no body.
#[derive(Debug, Error)]
pub enum BodyError {
    /// Longer than any may be.
    #[error("the body is longer than {0} bytes: send less")]
    TooLong(usize),
    /// To read it would cost more than anything that is sent is worth.
    #[error("the body holds more than {0} values: send a smaller object")]
    TooMany(usize),
    /// It took too long.
    #[error("the body did not arrive within {0:?}: send it at once")]
    Slow(Duration),
    /// Others needed the room.
    #[error("too many bodies at once, and this one has been arriving for longest or found no room: try again")]
    Crowded,
    /// The connection ended, or what came is no HTTP.
    #[error("the body can't be read: {0}")]
    Broken(#[from] PayloadError),
}

impl BodyError {
    /// The status of the answer.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::TooLong(_) | Self::TooMany(_) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Slow(_) => StatusCode::REQUEST_TIMEOUT,
            Self::Crowded => StatusCode::SERVICE_UNAVAILABLE,
            Self::Broken(_) => StatusCode::BAD_REQUEST,
        }
    }

    /// What is counted; nothing where the client went away by itself.
    pub fn reason(&self) -> Option<Reason> {
        match self {
            Self::TooLong(_) | Self::TooMany(_) => Some(Reason::TooLarge),
            Self::Slow(_) => Some(Reason::Slow),
            Self::Crowded => Some(Reason::Crowded),
            Self::Broken(_) => None,
        }
    }

    /// The answer. What is left of the body is not waited for.
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

/// What a body may take.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Its length, in bytes.
    pub longest: usize,
    /// From the headers to the last byte.
    pub time: Duration,
    /// What it may hold as JSON, where that is bounded.
    pub values: Option<Values>,
}

/// How many values a body may hold, each counted once or twice: as one that opens an object or a list, and as one that another comes before.
#[derive(Debug, Clone, Copy)]
pub struct Values {
    /// So many at most.
    pub most: usize,
    /// What one of them takes when it is read, in bytes, whatever it took as JSON: so much room the body takes besides its length.
    pub room: usize,
}

/// The room that all bodies of a port share.
#[derive(Debug)]
pub struct Room(Mutex<State>);

#[derive(Debug)]
struct State {
    free: usize,
    next: u64,
    /// Bodies that are arriving, in the order in which they began to.
    arriving: BTreeMap<u64, Arriving>,
}

#[derive(Debug)]
struct Arriving {
    held: usize,
    given_up: Arc<Notify>,
}

impl Room {
    /// Room for so many bytes.
    pub fn new(bytes: usize) -> Arc<Self> {
        Arc::new(Self(Mutex::new(State {
            free: bytes,
            next: 0,
            arriving: BTreeMap::new(),
        })))
    }

    /// How much is free.
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
        // Nobody panics with the lock, and sums are changed in one go.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The place of one body in the room. Gives back what it holds.
#[derive(Debug)]
struct Place {
    room: Arc<Room>,
    number: u64,
    given_up: Arc<Notify>,
    /// What it holds, once it is there.
    arrived: Option<usize>,
}

impl Place {
    /// Holds room for so many bytes in all, from bodies that have been arriving for longer than this one if need be.
    fn hold(&mut self, bytes: usize) -> Result<(), BodyError> {
        let mut state = self.room.state();
        let own = state.arriving.get(&self.number).ok_or(BodyError::Crowded)?;
        let more = bytes.saturating_sub(own.held);
        let older = state.arriving.range(..self.number).map(|(_, body)| body.held);
        if state.free + older.sum::<usize>() < more {
            // Nobody is given up in vain.
            return Err(BodyError::Crowded);
        }
        while state.free < more {
            match state.arriving.first_entry() {
                Some(oldest) if *oldest.key() != self.number => {
                    let oldest = oldest.remove();
                    oldest.given_up.notify_one();
                    state.free += oldest.held;
                }
                // This is the oldest.
                _ => return Err(BodyError::Crowded),
            }
        }
        let own = state.arriving.get_mut(&self.number).ok_or(BodyError::Crowded)?;
        own.held += more;
        state.free -= more;
        Ok(())
    }

    /// Holds room for so many bytes besides what it holds.
    fn hold_besides(&mut self, bytes: usize) -> Result<(), BodyError> {
        let held = self.room.state().arriving.get(&self.number).map(|own| own.held);
        self.hold(held.ok_or(BodyError::Crowded)? + bytes)
    }

    /// All of it is there: from now on it keeps what it holds.
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
            // What was given up is free already.
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

/// How many values a JSON text holds, as [`Values`] counts them: each but the first comes after a comma, or after what opens that in which
/// it is.
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
    // One buffer from here on: pieces would keep alive whatever they were cut from, however short they are.
    let mut whole = Vec::new();
    extend(place, &mut whole, &first, longest)?;
    drop(first);
    extend(place, &mut whole, &second?, longest)?;
    while let Some(piece) = pieces.next().await {
        extend(place, &mut whole, &piece?, longest)?;
    }
    Ok(whole.into())
}

/// Adds a piece, in room that is taken before.
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
