//! The connections of a port: so many at most, and the one that has done nothing for longest makes way for a new one.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use actix_tls::accept::rustls_0_23::TlsStream;
use actix_web::HttpRequest;
use actix_web::dev::Extensions;
use actix_web::rt::net;

use crate::ports::refusals::{Reason, Refusals};

/// The connections of one port.
pub struct Connections {
    port: &'static str,
    most: usize,
    refusals: Refusals,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    next: u64,
    /// How many have a request that is being answered: they are spared.
    busy: usize,
    /// The others, since when they do nothing that costs anybody else.
    idle: BTreeMap<u64, TcpStream>,
}

impl fmt::Debug for Connections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state();
        f.debug_struct("Connections")
            .field("port", &self.port)
            .field("busy", &state.busy)
            .field("idle", &state.idle.len())
            .finish_non_exhaustive()
    }
}

impl Connections {
    /// The connections of the port of this name, as metrics call it; `most` of them at once.
    pub fn new(port: &'static str, most: usize, refusals: Refusals) -> Arc<Self> {
        Arc::new(Self {
            port,
            most,
            refusals,
            state: Mutex::default(),
        })
    }

    /// Keeps a book of a connection that begins: what [`actix_web::HttpServer::on_connect`] is to call.
    pub fn begin(self: &Arc<Self>, stream: &dyn Any, data: &mut Extensions) {
        let tcp = match stream.downcast_ref::<TlsStream<net::TcpStream>>() {
            Some(tls) => {
                let (tcp, session) = tls.get_ref();
                data.insert(Certified(session.peer_certificates().is_some()));
                Some(tcp)
            }
            None => stream.downcast_ref::<net::TcpStream>(),
        };
        // A second handle, by which it can be ended from outside. Without one (too many open files) it lives as long as the
        // time limits let it.
        let Some(Ok(handle)) = tcp.map(|tcp| tcp.as_fd().try_clone_to_owned()) else {
            return;
        };
        data.insert(self.enter(handle.into()));
    }

    fn enter(self: &Arc<Self>, handle: TcpStream) -> Connection {
        let mut state = self.state();
        let place = state.next;
        state.next += 1;
        state.idle.insert(place, handle);
        let oldest = (state.idle.len() + state.busy > self.most)
            .then(|| state.idle.pop_first())
            .flatten();
        drop(state);
        if let Some((_, oldest)) = oldest {
            self.refusals.count(self.port, Reason::Idle);
            // It may have ended by itself.
            let _ = oldest.shutdown(Shutdown::Both);
        }
        Connection {
            port: Arc::clone(self),
            place: AtomicU64::new(place),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a connection has shown a certificate that was believed.
struct Certified(bool);

/// Whether a request came over a connection with a certificate, which TLS has verified.
pub fn is_certified(request: &HttpRequest) -> bool {
    request.conn_data::<Certified>().is_some_and(|certified| certified.0)
}

/// One connection; gone when it is dropped.
#[derive(Debug)]
struct Connection {
    port: Arc<Connections>,
    /// Where it is among the idle ones.
    place: AtomicU64,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.port.state().idle.remove(self.place.get_mut());
    }
}

/// While this lives, the connection of a request is spared.
#[derive(Debug)]
pub struct Busy<'a> {
    connection: &'a Connection,
    handle: Option<TcpStream>,
}

/// Spares the connection of a request that has arrived as a whole and is being answered. None where no book is kept of it.
pub fn busy(request: &HttpRequest) -> Option<Busy<'_>> {
    request.conn_data::<Connection>().and_then(Connection::busy)
}

impl Connection {
    fn busy(&self) -> Option<Busy<'_>> {
        let mut state = self.port.state();
        let handle = state.idle.remove(&self.place.load(Ordering::Relaxed))?;
        state.busy += 1;
        Some(Busy {
            connection: self,
            handle: Some(handle),
        })
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        let mut state = self.connection.port.state();
        state.busy -= 1;
        let place = state.next;
        state.next += 1;
        self.connection.place.store(place, Ordering::Relaxed);
        state.idle.extend(self.handle.take().map(|handle| (place, handle)));
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::net::TcpListener;
    use std::time::Duration;

    use super::*;

    /// Pairs of what a client holds and what the port does.
    fn connect(port: &Arc<Connections>, listener: &TcpListener) -> (TcpStream, Connection) {
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        client.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let (server, _) = listener.accept().unwrap();
        (client, port.enter(server))
    }

    fn has_ended(client: &TcpStream) -> bool {
        let mut client = client;
        matches!(client.read(&mut [0]), Ok(0))
    }

    #[test]
    fn who_did_nothing_for_longest_makes_way() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = Connections::new("test", 3, Refusals::default());
        let (first, first_book) = connect(&port, &listener);
        let (second, _second_book) = connect(&port, &listener);
        let (third, third_book) = connect(&port, &listener);
        // The first has been asked something since, and the third is being answered.
        drop(first_book.busy());
        let answering = third_book.busy();
        let (fourth, _fourth_book) = connect(&port, &listener);
        assert!(has_ended(&second));
        assert!(!has_ended(&first) && !has_ended(&third) && !has_ended(&fourth));
        let (fifth, fifth_book) = connect(&port, &listener);
        assert!(has_ended(&first) && !has_ended(&third) && !has_ended(&fifth));
        drop(answering);
        assert!(!has_ended(&third));
        // Who has gone leaves room.
        drop(fifth_book);
        let (_sixth, _sixth_book) = connect(&port, &listener);
        assert!(!has_ended(&fourth));
        // Who was made way for is not brought back by an answer.
        assert!(first_book.busy().is_none());
    }

    #[test]
    fn who_is_being_answered_is_spared_though_there_are_too_many() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = Connections::new("test", 1, Refusals::default());
        let (first, first_book) = connect(&port, &listener);
        let answering = first_book.busy().unwrap();
        let (second, _second_book) = connect(&port, &listener);
        assert!(!has_ended(&first), "the other makes way, which is idle");
        assert!(has_ended(&second));
        drop(answering);
    }
}
